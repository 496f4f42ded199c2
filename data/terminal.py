"""Words for a terminal: our own alone, unless somebody asks for what the libraries say, and none that command it.

Texts of a person's files and of others reach a terminal. Libraries draw bars there, tables of weights and hints for who
writes programs: a command shows them with `--verbose`; a job, or the app, where `MRC_VERBOSE` is set.
"""

import logging
import os
import re
import sys
import warnings
from collections.abc import Iterable

VERBOSE = "MRC_VERBOSE"
_LIBRARIES = (
    *("accelerate", "datasets", "faiss", "huggingface_hub", "milvus_lite", "numba", "peft", "pymilvus", "sklearn"),
    *("sentence_transformers", "tokenizers", "torch", "transformers", "umap"),
)
# what libraries ask for as they are read, and processes that are started here as well
QUIET = {
    "DATASETS_VERBOSITY": "error",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_VERBOSITY": "error",
    "TQDM_DISABLE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}
# control characters but tab and line break, and the marks that turn the direction of writing
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def quiet(*, verbose: bool = False) -> None:
    """Have the libraries keep to themselves what is no error, or speak where it is wanted; before they are read."""
    if verbose:
        os.environ[VERBOSE] = "1"
    if is_verbose():
        for name, value in QUIET.items():
            if os.environ.get(name) == value:
                del os.environ[name]
        return
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    for library in _LIBRARIES:
        logging.getLogger(library).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=rf"({'|'.join(_LIBRARIES)})(\.|$)")


def is_verbose() -> bool:
    """Whether somebody wants to read what the libraries say."""
    return bool(os.environ.get(VERBOSE))


def harmless(text: str) -> str:
    """Return text with each character that a terminal would obey written as its number, which JSON reads back."""
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def tell(text: object, *, error: bool = False) -> None:
    """Print a line, to the standard output or as an error."""
    stream = sys.stderr if error else sys.stdout
    stream.write(harmless(str(text)) + "\n")
    stream.flush()


def aligned(titles: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]], width: int) -> list[str]:
    """Return the lines of a table: titles, then a name and its cells in each row, right in as many characters each."""
    lines = [("", titles), *rows]
    longest = max(len(name) for name, _ in lines)
    return [" ".join([f"{name:<{longest}}", *(f"{cell:>{width}}" for cell in cells)]) for name, cells in lines]


def tell_progress(name: str, share: float) -> None:
    """Write who is at work and how much of all work is done, 0 to 1, over what stood in the line; to people alone."""
    if name and sys.stderr.isatty():
        sys.stderr.write(f"\r{share:4.0%}  {harmless(name)}\033[K" + ("\n" if share >= 1 else ""))
        sys.stderr.flush()
