"""Settings of a process before it imports libraries, and its output in a terminal. Its imports take no time.

Texts of files reach a terminal, so characters that control it are escaped. Libraries draw bars, tables of weights and
hints for developers there: a command shows them with `--verbose`, a job or the app if `MRC_VERBOSE` is set.
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
    """End the process on Ctrl-C with one line: nothing has begun yet. A background job goes on ignoring Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_on_ctrl_c() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` again: the work says what is kept."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def let_idle_threads_sleep() -> None:
    """Let OpenMP threads sleep at a barrier instead of spinning, unless the environment says otherwise.

    Spinning threads take the processor from the thread they wait for as soon as anything else runs: a training step
    then takes up to ten times as long. Call this before torch is imported: it is read once.
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
# what libraries ask for as they are read, and processes that are started here as well
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
# control characters but tab and line break, and the marks that turn the direction of writing
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
    """Keep libraries that are imported meanwhile quiet, and leave the environment of another program as it is."""
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
    """Whether a user wants the messages of the libraries."""
    return bool(os.environ.get(VERBOSE))


def escape_control_characters(text: str) -> str:
    """Return text with each character that a terminal would obey written as its number, which JSON reads back."""
    return _CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class ClosedOutputError(BrokenPipeError):
    """The program that reads the output has ended, such as `head` in `mrc list | head -1`."""


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
            os.dup2(null, stream.fileno())  # Python writes the rest of its buffer when it ends
            os.close(null)
        raise ClosedOutputError(*failure.args) from failure


def format_table(titles: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]], width: int) -> list[str]:
    """Return the lines of a table: titles, then a name (on one line) and its cells, right-aligned to `width`."""
    lines = [("", titles), *((" ".join(name.split()), cells) for name, cells in rows)]
    longest = max(len(name) for name, _ in lines)
    return [" ".join([f"{name:<{longest}}", *(f"{cell:>{width}}" for cell in cells)]) for name, cells in lines]


class ProgressMode(StrEnum):
    """How commands show progress on the standard error: `auto` redraws a line of a terminal, and is `plain` elsewhere.

    `plain` writes a line a minute; `json` writes an object a line, at most one a second and at each change of phase.
    """

    AUTO = "auto"
    PLAIN = "plain"
    JSON = "json"
    NONE = "none"


class ProgressReporter:
    """Writes the phase and the fraction of all work that is done."""

    def __init__(self, mode: ProgressMode = ProgressMode.AUTO) -> None:
        self.begin(mode)

    def begin(self, mode: ProgressMode) -> None:
        """Start to report progress anew, in this way."""
        self.mode = mode
        self._started = self._written = time.monotonic()
        self._name = ""

    def report(self, name: str, fraction: float, *, is_total: bool = True) -> None:
        """Report that `name` is running and which fraction, 0 to 1, of all work (`is_total`) or of a phase is done."""
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
        """End the line of progress that stands in a terminal, if one does, so that what follows has its own."""
        if self.mode is ProgressMode.AUTO and self._name and sys.stderr.isatty():
            _write(sys.stderr, "\n")
        self._name = ""


def _minutes(seconds: float) -> str:
    return f"{max(1, round(seconds / 60)):,} min"


_reporter = ProgressReporter()  # a process has one terminal
show_progress = _reporter.begin
report_progress = _reporter.report
end_progress_line = _reporter.end_line
