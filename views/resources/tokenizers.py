"""Cached functions of the Tokenizers tab: comparisons that were kept, their tokenizers, and texts cut by these."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from data.store import passages_of
from language.tokenizers.merge_steps import Step, steps
from language.tokenizers.merges import is_of_bytes, readable
from language.tokenizers.prepared import PreparedTokenizer, load_tokenizer
from language.tokenizers.store import KeptComparison, KeptTokenizer, load
from views.resources.cached import cached


@dataclass(frozen=True)
class CutPiece:
    """A piece of a text: as a person reads it, the letters it stands for, its number, and how often it occurs."""

    name: str
    letters: str
    number: int
    known: bool
    occurrences: int


@cached(max_entries=16)
def characters_of(key: str, fingerprint: str) -> int:
    """Return how many characters the passages of a stored set have together."""
    del fingerprint  # only a part of the key: a key may come to mean another set
    return int(passages_of(key).texts.lengths().sum())


def open_comparison(folder: Path) -> KeptComparison | None:
    """Open the finished comparison in a folder; None where it cannot be read."""
    return _opened(str(folder), (folder / "scores.json").stat().st_mtime)


def cut(one: KeptTokenizer, text: str) -> Sequence[CutPiece]:
    """Cut a text by a tokenizer that was kept. Raises `LanguageError` `no_tokenizer`."""
    tokenizer, counts = _tokenizer(*_place(one)), one.occurrences
    in_bytes = is_of_bytes(tokenizer)
    found = []
    for piece in tokenizer.pieces(text):
        number = tokenizer.tokenizer.token_to_id(piece.name)
        if number is not None:
            name, times = readable(piece.name, in_bytes=in_bytes), int(counts[number])
            found.append(CutPiece(name, piece.letters, number, piece.known, times))
    return found


def steps_of(one: KeptTokenizer, text: str) -> list[Step]:
    """Return how a BPE that was kept builds a word. Raises `LanguageError` `no_tokenizer` and `no_merges`."""
    return _steps(*_place(one), text)


@cached(max_entries=8)
def _opened(folder: str, finished: float) -> KeptComparison | None:
    del finished  # only a part of the key: one that ran again is another one
    try:
        return load(Path(folder))
    except ValueError:
        return None


@cached(max_entries=32)
def _tokenizer(folder: str, name: str, written: float) -> PreparedTokenizer:
    del written
    return load_tokenizer(Path(folder), name)


@cached(max_entries=64)
def _steps(folder: str, name: str, written: float, text: str) -> list[Step]:
    return steps(text, _tokenizer(folder, name, written))


def _place(one: KeptTokenizer) -> tuple[str, str, float]:
    file = one.folder / "tokenizer.json"
    return str(one.folder), one.measured.name, file.stat().st_mtime if file.is_file() else 0.0
