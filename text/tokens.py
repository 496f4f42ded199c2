"""Analyzed texts as arrays, kept on disk a part at a time: an interrupted analysis goes on with the next part, and a
corpus that grew analyzes what is new.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from data import cache
from data.cache import cached_arrays, key_of
from data.texts import fingerprint_of, in_blocks
from text.analysis import MORPHEME, Analysis, analyze
from text.analyzers import VERSION, Analyzer

PART = 1 << 16  # texts kept together: with Kiwi, a minute or two of work
_BLOCK = 1024  # analyzed at a time: tokens take far more memory as strings than as numbers


@dataclass(frozen=True)
class Tokens:
    """Analyzed texts as arrays: text i holds `vocabulary[ids[offsets[i]:offsets[i + 1]]]`."""

    vocabulary: list[str]
    ids: np.ndarray  # (n_tokens,) int32
    offsets: np.ndarray  # (n_texts + 1,) int64

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def texts(self) -> list[list[str]]:
        words = np.asarray(self.vocabulary, dtype=object)[self.ids]
        return [list(part) for part in np.split(words, self.offsets[1:-1])] if len(self) else []

    def flat_ids_in(self, vocabulary: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
        """Ids in another vocabulary, of the tokens it knows, and offsets `(n_texts + 1,)` of each text among them."""
        translation = np.array([vocabulary.get(token, -1) for token in self.vocabulary], dtype=np.int64)
        ids = translation[self.ids]
        known = ids >= 0
        return ids[known], np.concatenate([[0], np.cumsum(known)])[self.offsets]

    def ids_in(self, vocabulary: dict[str, int]) -> list[np.ndarray]:
        """Ids of each text in another vocabulary; tokens it does not know are left out."""
        ids, offsets = self.flat_ids_in(vocabulary)
        return np.split(ids, offsets[1:-1]) if len(self) else []


def tokens_of(
    analysis: Analyzer | Analysis, texts: Sequence[str], on_progress: Callable[[float], None] | None = None
) -> Tokens:
    """Return the tokens of `texts`, from the disk cache where these texts were analyzed before.

    `on_progress` is told the share of the texts that are analyzed.
    """
    parts = token_parts(analysis, texts, on_progress)
    return next(parts) if len(texts) <= PART else _joined(parts)


def are_kept(analysis: Analyzer | Analysis, texts: Sequence[str]) -> bool:
    """Whether the tokens of so many texts as make one part are on disk, so that nothing is analyzed."""
    analysis = Analysis.of(analysis)
    sources = [analysis, *([_with_bigrams(analysis)] if analysis.analyzer is Analyzer.KIWI else [])]
    return 1 < len(texts) <= PART and any(cache.are_kept("tokens", _key(source, texts)) for source in sources)


def token_parts(
    analysis: Analyzer | Analysis, texts: Sequence[str], on_progress: Callable[[float], None] | None = None
) -> Iterator[Tokens]:
    """Yield the tokens of `PART` texts at a time, each part with a vocabulary of its own; at least one part."""
    for start in range(0, max(1, len(texts)), PART):

        def tell(done: int, start: int = start) -> None:
            if on_progress:
                on_progress((start + done) / len(texts))

        yield _part(Analysis.of(analysis), texts[start : start + PART], tell)


def ship(analysis: Analyzer | Analysis, texts: Sequence[str]) -> None:
    """Analyze these texts now, and have the sample bring their tokens. Raises `OSError`."""
    analysis = Analysis.of(analysis)
    cache.save_arrays(cache.shipped("tokens", _key(analysis, texts)), _analyzed(analysis, texts, lambda _: None))


def _part(analysis: Analysis, texts: Sequence[str], tell: Callable[[int], None]) -> Tokens:
    def compute() -> cache.Arrays:
        if analysis.analyzer is Analyzer.KIWI:
            both = cache.read_arrays("tokens", _key(_with_bigrams(analysis), texts))
            if both is not None:
                return _without_bigrams(both)
        return _analyzed(analysis, texts, tell)

    arrays = cached_arrays("tokens", _key(analysis, texts), compute, keep=len(texts) > 1, alone=True)
    return Tokens(_words(arrays["vocabulary"]), arrays["ids"], arrays["offsets"])


def _analyzed(analysis: Analysis, texts: Sequence[str], tell: Callable[[int], None]) -> cache.Arrays:
    number: dict[str, int] = {}
    ids, lengths = [np.zeros(0, dtype=np.int32)], [0]
    for block in in_blocks(texts, _BLOCK):
        documents = analyze(analysis, block)
        lengths += map(len, documents)
        found = (number.setdefault(token, len(number)) for document in documents for token in document)
        ids.append(np.fromiter(found, dtype=np.int32))
        tell(len(lengths) - 1)
    return {
        "vocabulary": _bytes(number),
        "ids": np.concatenate(ids),
        "offsets": np.cumsum(lengths, dtype=np.int64),
    }


def _with_bigrams(analysis: Analysis) -> Analysis:
    return replace(analysis, analyzer=Analyzer.KIWI_BIGRAM)


def _without_bigrams(both: cache.Arrays) -> cache.Arrays:
    """Return the morphemes among kept tokens, as arrays to be kept: Kiwi read these texts before."""
    marked = _words(both["vocabulary"])
    is_morpheme = np.array([token.endswith(MORPHEME) for token in marked], dtype=bool)
    kept = is_morpheme[both["ids"]]
    numbers = np.cumsum(is_morpheme, dtype=np.int32) - np.int32(1)
    return {
        "vocabulary": _bytes(token.removesuffix(MORPHEME) for token in marked if token.endswith(MORPHEME)),
        "ids": numbers[both["ids"]][kept],
        "offsets": np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])[both["offsets"]],
    }


def _bytes(vocabulary: Iterable[str]) -> np.ndarray:
    return np.frombuffer("\n".join(vocabulary).encode(), dtype=np.uint8)  # no analyzer keeps a newline


def _words(vocabulary: np.ndarray) -> list[str]:
    return vocabulary.tobytes().decode().split("\n") if len(vocabulary) else []


def _key(analysis: Analysis, texts: Sequence[str]) -> str:
    return key_of(VERSION, *analysis.key, fingerprint_of(texts))


def _joined(parts: Iterable[Tokens]) -> Tokens:
    """Join parts in one vocabulary, in the order in which its tokens first occur, holding one of them at a time."""
    ids, offsets, number = bytearray(), [np.zeros(1, dtype=np.int64)], dict[str, int]()  # a bytearray grows in place
    for part in parts:
        translation = np.array([number.setdefault(token, len(number)) for token in part.vocabulary], dtype=np.int32)
        offsets.append(part.offsets[1:] + len(ids) // translation.itemsize)
        ids += translation[part.ids].tobytes()
    return Tokens(list(number), np.frombuffer(ids, dtype=np.int32), np.concatenate(offsets))
