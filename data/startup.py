"""What a process sets before it imports libraries: Ctrl-C and idle threads. Imports nothing that takes time."""

import os
import signal

_STOPPED = 128 + signal.SIGINT


def end_on_ctrl_c() -> None:
    """End the process on Ctrl-C with one line: nothing has begun yet. A background job goes on ignoring Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_on_ctrl_c() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` again: the work says what is kept."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def let_idle_threads_sleep() -> None:
    """Let OpenMP threads sleep at a barrier instead of spinning, unless the environment says otherwise.

    Spinning threads take the processor from the thread they wait for as soon as anything else runs on the machine: a
    training step then takes up to ten times as long. Call this before torch is imported: it is read once.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def _end(*_: object) -> None:
    os.write(2, b"Stopped.\n")
    os._exit(_STOPPED)
