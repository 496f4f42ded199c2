"""Two machines' worth of network on one: two network namespaces and a cable between them.

The namespaces have no name and live as long as what holds them; that ends when its input does, so with the tests,
however these end. The cable goes with the namespaces.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mrc_workbench.data.workspace import PROJECT

_NETWORK = "10.213.7"
_PORT = 29500
_PATIENCE = 300  # seconds


@dataclass(frozen=True)
class Machine:
    """A namespace by the process that holds it, and its end of the cable."""

    holder: int
    address: str
    cable: str

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command line that runs something there."""
        return ["nsenter", f"--net=/proc/{self.holder}/ns/net", *words]


@contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine]]:
    """Yield two namespaces that reach only each other; skips the test if the system does not permit that."""
    with ExitStack() as stack:
        try:
            holders = [_hold_namespace(stack) for _ in range(2)]
            first, second = (Machine(pid, f"{_NETWORK}.{index}", f"mrc{index}") for index, pid in enumerate(holders, 1))
            far_end = ["peer", "name", second.cable, "netns", str(second.holder)]
            _run(first.command(["ip", "link", "add", first.cable, "type", "veth", *far_end]))
            for machine in (first, second):
                _run(machine.command(["ip", "address", "add", f"{machine.address}/24", "dev", machine.cable]))
                for link in ("lo", machine.cable):
                    _run(machine.command(["ip", "link", "set", link, "up"]))
        except OSError as error:
            pytest.skip(f"two network namespaces need Linux, root, util-linux and iproute2: {error}")
        yield first, second


def torchrun_on(machines: Sequence[Machine], words: Sequence[str], folder: Path, **environment: str) -> None:
    """Run `torchrun -m ...`, one process a machine, as `docs/scale.md` says; raises where one fails."""
    first = machines[0]
    running = []
    with ExitStack() as stack:
        for rank, machine in enumerate(machines):
            node_options = ["--nnodes", str(len(machines)), "--node-rank", str(rank), "--nproc-per-node", "1"]
            meeting = ["--master-addr", first.address, "--master-port", str(_PORT)]
            command = [sys.executable, "-m", "torch.distributed.run", *node_options, *meeting, "-m", *words]
            log = stack.enter_context((folder / f"machine-{rank}.log").open("w+"))
            variables = os.environ | {"GLOO_SOCKET_IFNAME": machine.cable} | environment
            process = subprocess.Popen(machine.command(command), cwd=PROJECT, env=variables, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)  # it ends its own processes
            running.append((process, log))
        for process, log in running:
            status = process.wait(_PATIENCE)
            log.seek(0)
            assert status == 0, log.read()[-3000:]


def _hold_namespace(stack: ExitStack) -> int:
    """Return the process that holds a new namespace: it ends with its input."""
    command = ["unshare", "--net", "sh", "-c", "echo && exec cat"]
    pipe = subprocess.PIPE
    holder = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
    stack.callback(holder.wait)
    stack.callback(holder.communicate)  # closes its input
    assert holder.stdout is not None
    assert holder.stderr is not None
    if not holder.stdout.readline():
        raise OSError(holder.stderr.read().decode().strip())
    return holder.pid


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(done.stderr.strip() or done.stdout.strip())
