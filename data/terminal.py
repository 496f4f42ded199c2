"""Settings of a process before it imports libraries, and output to a terminal. This module imports quickly.

Control characters are escaped, because output contains texts of files. Progress bars and messages of libraries are
hidden; commands show them with `--verbose`, jobs and the app if `MRC_VERBOSE` is set.
"""

import json
import logging
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import TextIO


def end_on_ctrl_c() -> None:
    """End the process on Ctrl-C with one line, before work begins. Background jobs continue to ignore Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_on_ctrl_c() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` again, so that commands can report what they stored."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def let_idle_threads_sleep() -> None:
    """Let OpenMP threads sleep at barriers; spinning ones slow down training up to ten times if other processes run.

    Call this before torch is imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def _end(*_: object) -> None:
    os.write(2, b"Stopped.\n")
    os._exit(128 + signal.SIGINT)


VERBOSE = "MRC_VERBOSE"
_LIBRARIES = (
    *("accelerate", "datasets", "faiss", "huggingface_hub", "milvus_lite", "numba", "peft", "pymilvus", "sklearn"),
    *("sentence_transformers", "tokenizers", "torch", "transformers", "umap"),
)
_LOGGERS = [logging.getLogger(library) for library in _LIBRARIES]
# read by libraries when they are imported, also in subprocesses
QUIET = {
    "DATASETS_VERBOSITY": "error",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_VERBOSITY": "error",
    "TQDM_DISABLE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}
_SECONDS_BETWEEN_LINES = 60.0
_MIN_FRACTION_TO_ESTIMATE = 0.05  # fraction of the work after which the time left is estimated
# control characters except tab and line break, and marks that change the direction of writing
_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def quiet(*, verbose: bool = False) -> None:
    """Let libraries report only errors, or everything if `verbose`; call it before they are imported."""
    if verbose:
        os.environ[VERBOSE] = "1"
    if is_verbose():
        for name, value in QUIET.items():
            if os.environ.get(name) == value:
                del os.environ[name]
        return
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    for logger in _LOGGERS:
        logger.setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=rf"({'|'.join(_LIBRARIES)})(\.|$)")


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Hide messages of libraries imported in the block, without lasting changes of the environment."""
    variables = {name: value for name, value in QUIET.items() if name not in os.environ and name != "TQDM_DISABLE"}
    levels = [logger.level for logger in _LOGGERS]
    if not is_verbose():
        os.environ.update(variables)
        for logger in _LOGGERS:
            logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        for logger, level in zip(_LOGGERS, levels, strict=True):
            logger.setLevel(level)


def is_verbose() -> bool:
    """Whether messages of libraries are displayed."""
    return bool(os.environ.get(VERBOSE))


def escape_control_characters(text: str) -> str:
    """Replace control characters by JSON escapes."""
    return _CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class ClosedOutputError(BrokenPipeError):
    """The reader of the output has ended, such as `head` in `mrc list | head -1`."""


def print_line(text: object, *, error: bool = False) -> None:
    """Print a line, to the standard output or as an error. Raises `ClosedOutputError`."""
    _write(sys.stderr if error else sys.stdout, escape_control_characters(str(text)) + "\n")


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError as failure:
        with suppress(OSError, ValueError):  # a stream without a file
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())  # Python flushes its buffer when it exits
            os.close(null)
        raise ClosedOutputError(*failure.args) from failure


def format_table(titles: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]], width: int) -> list[str]:
    """Return the lines of a table: titles, then a name (on one line) and its cells, right-aligned to `width`."""
    lines = [("", titles), *((" ".join(name.split()), cells) for name, cells in rows)]
    longest = max(len(name) for name, _ in lines)
    return [" ".join([f"{name:<{longest}}", *(f"{cell:>{width}}" for cell in cells)]) for name, cells in lines]


class ProgressMode(StrEnum):
    """How commands show progress on the standard error: `auto` redraws a line in a terminal, else it is `plain`.

    `plain` writes a line per minute; `json` writes an object per line, at most one per second and for each new phase.
    """

    AUTO = "auto"
    PLAIN = "plain"
    JSON = "json"
    NONE = "none"


class ProgressReporter:
    """Writes the phase and the completed fraction of the work."""

    def __init__(self, mode: ProgressMode = ProgressMode.AUTO) -> None:
        self.begin(mode)

    def begin(self, mode: ProgressMode) -> None:
        self.mode = mode
        self._started = self._written = time.monotonic()
        self._name = ""

    def report(self, name: str, fraction: float, *, is_total: bool = True) -> None:
        """Report the phase `name` and the completed fraction, 0 to 1, of all work (`is_total`) or of the phase."""
        mode = self.mode
        if mode is ProgressMode.AUTO and not sys.stderr.isatty():
            mode = ProgressMode.PLAIN
        now = time.monotonic()
        seconds = now - self._started
        line = ""
        if mode is ProgressMode.AUTO and name:
            line = f"\r{fraction:4.0%}  {escape_control_characters(name)}\033[K" + ("\n" if fraction >= 1 else "")
        elif mode is ProgressMode.JSON and (name != self._name or fraction >= 1 or now - self._written >= 1):
            entry = {"phase": name, "fraction": round(fraction, 4), "seconds": round(seconds, 1)}
            line = escape_control_characters(json.dumps(entry, ensure_ascii=False)) + "\n"
        elif mode is ProgressMode.PLAIN and name and now - self._written >= _SECONDS_BETWEEN_LINES:
            times = f"{_minutes(seconds)} so far"
            if is_total and _MIN_FRACTION_TO_ESTIMATE < fraction < 1:
                times += f", about {_minutes(seconds * (1 - fraction) / fraction)} left"
            line = f"{fraction:4.0%}  {escape_control_characters(name)}  ({times})\n"
        if line:
            self._written = now
            _write(sys.stderr, line)
        self._name = name

    def end_line(self) -> None:
        """End the progress line in a terminal, so that other output starts on a new line."""
        if self.mode is ProgressMode.AUTO and self._name and sys.stderr.isatty():
            _write(sys.stderr, "\n")
        self._name = ""


def _minutes(seconds: float) -> str:
    return f"{max(1, round(seconds / 60)):,} min"


_reporter = ProgressReporter()  # a process has one terminal
show_progress = _reporter.begin
report_progress = _reporter.report
end_progress_line = _reporter.end_line
