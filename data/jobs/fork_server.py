"""`python -m mrc_workbench.data.jobs.fork_server` has read the libraries and does nothing but fork: jobs begin at once.

To read torch and what stands on it takes a fresh process several seconds, every time. The fork server reads them once,
while no job works, and the processes that it forks share them. It reads nothing of ours but what it needs of this room:
a job runs the code on disk. It ends with the process that started it, or after a while without work; its jobs live on.

While it reads it hears nobody. So there are two: once the few libraries are read that every job needs, it forks a
second one, which reads no more and is always there for light jobs, those that need no model. Reading also takes a core
of whoever else works, a first page among them: what is heavy is read when somebody tells so, or after some seconds.
"""

import gc
import os
import runpy
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from setproctitle import setproctitle

from mrc_workbench.data.jobs.processes import (
    READ_ON,
    Process,
    hold_freed_memory,
    process_of,
    received,
    send,
    this_process,
)

LIGHT = ("pyarrow.parquet", "pandas", "pydantic", "tomli_w", "scipy.sparse", "kiwipiepy")
HEAVY = (
    *("torch", "scipy.stats", "sklearn.metrics", "transformers.modeling_utils", "sentence_transformers"),
    *("transformers.models.bert.modeling_bert", "faiss", "numba", "transformers.trainer", "datasets", "accelerate"),
)
LIBRARIES = (*LIGHT, *HEAVY)
# what libraries look up as they are imported: a process that wants another value than the server's cannot be forked
_LOOKED_UP_ONCE = (
    *("CUDA", "HF_", "KMP_", "LD_", "MALLOC_", "MKL_", "NUMBA_"),
    *("OMP_", "OPENBLAS_", "PYTHON", "TORCH", "TRANSFORMERS"),
)
_Asked = tuple[dict[str, Any], socket.socket]  # a request, and where it came from
_SECONDS_WITHOUT_WORK = 900.0
_SECONDS_HELD = 8.0
_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_TO_HEAR = 5.0
# objects, and rounds of the younger ones: a job's first million are libraries and its own modules, which are no garbage
_COLLECTED_AFTER = (10_000, 20, 20)


def main() -> None:
    """Serve until no process needs it. Words of the command: both sockets and the life line, as file numbers."""
    listener, light = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    life_line = int(sys.argv[3])
    setproctitle("python -m mrc_workbench.data.jobs.fork_server")
    hold_freed_memory()
    gc.disable()  # what is read here stays
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forked ones: the system takes them away
    given = dict(os.environ)  # before libraries add to it
    places, first = [Path(one.getsockname()) for one in (listener, light)], os.getpid()
    asked = _serve(listener, [life_line], given, [*LIGHT], 0.0)
    if not asked and not select.select([life_line], [], [], 0)[0]:
        asked = _two_servers(listener, light, life_line, given)
    for one in (listener, light):
        one.close()
    os.close(life_line)
    if asked:
        request, connection = asked
        added = {name: value for name, value in os.environ.items() if name not in given}
        _become(request | {"environment": added | request["environment"]}, connection)
    elif os.getpid() == first:
        for place in places:
            place.unlink(missing_ok=True)
        places[0].parent.rmdir()


def _two_servers(listener: socket.socket, light: socket.socket, life_line: int, given: dict[str, str]) -> _Asked | None:
    """Serve on as two processes, see above."""
    tied, tie = os.pipe()  # the second server sees by it that this one is gone
    is_second = os.fork() == 0
    os.close(tie if is_second else tied)
    if is_second:
        setproctitle("python -m mrc_workbench.data.jobs.fork_server light")
        listener.close()
        asked = _serve(light, [life_line, tied], given, [], None)
    else:
        light.close()
        asked = _serve(listener, [life_line], given, [*HEAVY], _SECONDS_WITHOUT_WORK, held=_SECONDS_HELD)
    os.close(tied if is_second else tie)
    return asked


def _serve(
    listener: socket.socket,
    life_lines: list[int],
    given: dict[str, str],
    unread: list[str],
    seconds_idle: float | None,
    *,
    held: float = 0.0,
) -> _Asked | None:
    """Fork for every request, and read what is `unread` meanwhile, after so many seconds where it is `held`.

    Returns the request in the forked process, and None in the server: where a life line is cut, or after so many
    seconds without work and with nothing to read.
    """
    children, until = list[Process](), time.monotonic() + held
    while True:
        children, held = [child for child in children if child.lives], max(0.0, until - time.monotonic())
        wait = _SECONDS_BETWEEN_LOOKS if children else held if unread else seconds_idle
        ready, _, _ = select.select([listener.fileno(), *life_lines], [], [], wait)
        if listener.fileno() in ready:
            connection, _ = listener.accept()
            with suppress(OSError, ValueError):
                connection.settimeout(_SECONDS_TO_HEAR)
                send(connection, "ready")
                request = received(connection)
                if request == READ_ON:
                    until = 0.0
                elif not _alike(request["environment"], given):
                    send(connection, None)
                elif (pid := os.fork()) == 0:
                    return request, connection
                else:
                    children.append(process_of(pid))
            connection.close()
        elif any(line in ready for line in life_lines) or not (children or unread):
            return None
        elif not children and time.monotonic() >= until:
            with suppress(Exception):  # whoever needs it is told why it cannot be read
                import_module(unread.pop(0))
            gc.freeze()  # so that a collection in a forked process touches, and copies, nothing of it


def _alike(asked: dict[str, str], given: dict[str, str]) -> bool:
    """Whether libraries read in one environment serve in the other; jobs hand on what these have added to theirs."""
    names = {name for name in (*asked, *given) if name.startswith(_LOOKED_UP_ONCE)}
    return all(asked.get(name) in (given.get(name), os.environ.get(name)) for name in names)


def _become(request: dict[str, Any], connection: socket.socket) -> None:
    """Go on as `python -m MODULE WORDS`, a session of its own."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    os.environ.clear()
    os.environ.update(request["environment"])
    module, words = request["module"], request["words"]
    setproctitle(" ".join(["python -m", module, *words]))
    send(connection, this_process())
    connection.close()
    sys.argv = [module, *words]
    gc.set_threshold(*_COLLECTED_AFTER)
    gc.enable()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
