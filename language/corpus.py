"""Text to learn from, as a stream of documents that begins anew as often as it is asked for.

No more of it than one document lies in memory, but for the passages of a question set, which Arrow holds.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import xxhash

from data.records import QuestionSet, composed
from data.store import find
from data.workspace import limits, user
from language import texts
from language.texts import REFERENCE, LanguageError, parts, text_corpus


class Corpus(Protocol):
    """Documents in order, from the beginning each time they are asked for; none is blank.

    `fingerprint` (sha256, hexadecimal) changes whenever they would, `characters` is how many there are of all together;
    of a text, of those between the documents as well.
    """

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def characters(self) -> int: ...

    def documents(self) -> Iterator[str]: ...


@dataclass(frozen=True)
class PassageCorpus:
    """The passages of a question set without their titles, which every passage of an article would repeat."""

    question_set: QuestionSet

    @property
    def name(self) -> str:
        return self.question_set.name

    @property
    def fingerprint(self) -> str:
        """Of the passages' texts: titles and questions are not learned from."""
        return self.question_set.passages.texts.fingerprint

    @property
    def characters(self) -> int:
        return int(self.question_set.passages.texts.lengths().sum())

    def documents(self) -> Iterator[str]:
        """A passage longer than `LONGEST` is several."""
        for text in self.question_set.passages.texts:
            yield from parts(text)


def find_corpus(reference: str) -> Corpus:
    """Return the corpus a person names, which is one of three.

    A kept text: `text:`, and what `texts.find` takes. The path of a text (.txt). Or a question set, as
    `data.store.find` has them. Raises `DataError`, and `LanguageError`: as these do, and `server_path` where a user
    names a file.
    """
    if reference.startswith(REFERENCE):
        return texts.find(reference.removeprefix(REFERENCE))
    is_text = reference.lower().endswith(".txt")
    if (is_text or os.path.isfile(reference)) and user() and not limits().paths:  # noqa: PTH113 - a name may be too long
        message = "files of the server are not open to users: upload the text, and choose it"
        raise LanguageError("server_path", message)
    return text_corpus(Path(reference)) if is_text else PassageCorpus(find(reference))


def held_out(document: str, share: float, seed: int) -> bool:
    """Whether a document is kept from training, to measure on: about `share` of the distinct documents are.

    Its hash decides (XXH3 with the seed, over the composed text with single spaces), so that copies of a document
    stand on one side, in any corpus, and nothing need be remembered.
    """
    if not 0 < share < 1:
        return share >= 1
    digest = xxhash.xxh3_64_intdigest(composed(document).encode("utf-8", "surrogatepass"), seed=seed % 2**64)
    return bool(digest < share * 2**64)
