"""Ctrl-C while a command imports its libraries; this module imports nothing that takes time."""

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


def _end(*_: object) -> None:
    os.write(2, b"Stopped.\n")
    os._exit(_STOPPED)
