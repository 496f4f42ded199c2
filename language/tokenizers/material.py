"""What tokenizers are trained on: the documents of a corpus that are not held out, made ready once for all of them.

They lie in a file, so that several kinds and vocabularies read the same text and Kiwi cuts it once. Trainers hold all
distinct words in memory: a corpus that is larger than `most_characters` is sampled by document, which bounds them.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from data.texts import in_blocks
from language.corpus import Corpus, held_out
from language.morphemes import BOUNDARY, Split, composed_letters, marked
from language.problems import LanguageError

MOST_CHARACTERS = 50_000_000
OnProgress = Callable[[float], None]  # told which share is done, 0 to 1; what it raises ends the work
_BLOCK = 256  # documents that Kiwi is given at a time
_CHARACTERS_BETWEEN = 1 << 18  # gone through before it is told again


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Which documents are learned from. `held_out` is the share kept for measuring, chosen by `seed`."""

    split: Split = Split.WORDS
    lowercase: bool = False
    held_out: float = 0.1
    seed: int = 0
    most_characters: int = MOST_CHARACTERS

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            message = f"the share held out is {self.held_out}: it is at least 0 and below 1"
            raise LanguageError("held_out", message, share=str(self.held_out))

    def share_of(self, corpus: Corpus) -> float:
        """The share of the documents not held out that is learned from."""
        return min(1.0, self.most_characters / max(1.0, corpus.characters * (1 - self.held_out)))


@dataclass(frozen=True)
class Material:
    """Documents to learn from, one a line of the file at `path`.

    `letters` are all that occur, the most frequent first; `share` of the documents not held out are in it.
    """

    corpus: Corpus
    sample: Sample
    path: Path
    letters: tuple[str, ...]
    documents: int
    characters: int
    share: float

    def lines(self, letters: int | None = None, on_progress: OnProgress | None = None) -> Iterator[str]:
        """Yield the documents; with `letters`, all but so many of the most frequent leave a gap in their word."""
        kept = len(self.letters) if letters is None else letters
        rare = {ord(letter): " " for letter in self.letters[kept:] if letter != BOUNDARY}
        with self.path.open(encoding="utf-8", newline="\n") as file:
            for line in gone_through(file, self.characters, on_progress):
                yield line.translate(rare) if rare else line


@contextmanager
def gathered(corpus: Corpus, sample: Sample, on_progress: OnProgress | None = None) -> Iterator[Material]:
    """Write what is learned from to a temporary file. `on_progress` is told the share of the corpus gone through.

    Raises `LanguageError` `nothing_to_learn` where all documents are held out.
    """
    share, letters, documents, characters = sample.share_of(corpus), Counter[str](), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "documents.txt")
        with path.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            every = gone_through(corpus.documents(), corpus.characters, on_progress)
            for block in in_blocks(_learned(every, sample, share), _BLOCK):
                for line in _ready(block, sample):
                    letters.update(line)
                    file.write(line + "\n")
                    documents, characters = documents + 1, characters + len(line)
        if not documents:
            message = f"{corpus.name} is too small: all of its documents are held out for measuring"
            raise LanguageError("nothing_to_learn", message, corpus=corpus.name)
        frequent = sorted(letters, key=lambda letter: (-letters[letter], letter))
        yield Material(corpus, sample, path, tuple(frequent), documents, characters, share)


def gone_through(documents: Iterable[str], characters: int, on_progress: OnProgress | None) -> Iterator[str]:
    """Yield documents, and tell from time to time which share of so many characters is gone through; at last, all."""
    seen = told = 0
    for document in documents:
        yield document
        seen += len(document)
        if on_progress and seen - told > _CHARACTERS_BETWEEN:
            told = seen
            on_progress(min(1.0, seen / characters))
    if on_progress:
        on_progress(1.0)


def within(on_progress: OnProgress | None, low: float, high: float) -> OnProgress | None:
    """Return what is told of a part of the work that begins at the share `low` of all of it, and ends at `high`."""
    return on_progress and (lambda share: on_progress(low + share * (high - low)))


def _learned(documents: Iterable[str], sample: Sample, share: float) -> Iterator[str]:
    for document in documents:
        if not held_out(document, sample.held_out, sample.seed) and held_out(document, share, sample.seed + 1):
            yield document


def _ready(documents: list[str], sample: Sample) -> list[str]:
    """Return the documents on a line each, composed and, where pieces end with morphemes, marked."""
    texts = marked(documents) if sample.split is Split.MORPHEMES else map(composed_letters, documents)
    lines = (" ".join(text.split()) for text in texts)
    return [line.lower() for line in lines] if sample.lowercase else [*lines]
