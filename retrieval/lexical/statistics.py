"""What BM25 knows of a corpus beside each passage: which terms there are, and how many passages hold them.

Terms are told apart by 64-bit hashes: as strings, those of a million passages take gigabytes. That any two of ten
million terms share a hash happens in one of 400,000 corpora.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from data.cache import cached_arrays, key_of
from data.texts import fingerprint_of
from retrieval.lexical.postings.segment import first_places, holders, in_one
from text.analysis import Analysis
from text.analyzers import VERSION, Analyzer
from text.tokens import Tokens, token_parts


@dataclass(frozen=True)
class TermStatistics:
    """Terms by ascending `hashes`, how many passages hold each (`holders`), and the passages' mean length in tokens."""

    hashes: np.ndarray  # (n_terms,) uint64
    holders: np.ndarray  # (n_terms,) int64
    n_passages: int
    mean_length: float

    @property
    def n_tokens(self) -> int:
        """How many tokens all passages have."""
        return round(self.mean_length * self.n_passages)

    def places_of(self, terms: Sequence[str]) -> np.ndarray:
        """Return each term's place in `holders`, `(len(terms),)` int64; -1 where no passage holds it."""
        asked = hashes_of(terms)
        places = np.searchsorted(self.hashes, asked)
        known = places < len(self.hashes)
        known[known] = self.hashes[places[known]] == asked[known]
        return np.where(known, places, -1)


def term_statistics(
    analysis: Analyzer | Analysis, texts: Sequence[str], parts: Iterable[Tokens] | None = None
) -> TermStatistics:
    """Count the passages that hold each term, or read the counts that were kept.

    `parts` are the tokens of the texts, of some at a time, where they are at hand; else they are read from the disk
    cache.
    """

    def count() -> dict[str, np.ndarray]:
        return counts_of(token_parts(analysis, texts) if parts is None else parts)

    kept = cached_arrays("terms", key_of(VERSION, *Analysis.of(analysis).key, fingerprint_of(texts)), count)
    mean_length = float(kept["n_tokens"]) / max(1, len(texts))
    return TermStatistics(kept["hashes"], kept["holders"], len(texts), mean_length)


def counts_of(parts: Iterable[Tokens]) -> dict[str, np.ndarray]:
    """Count the passages that hold each term, of analyzed passages a part at a time."""
    hashes, counts, n_tokens = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)], 0
    for part in parts:
        hashes.append(hashes_of(part.vocabulary))
        counts.append(holders(part.ids, part.offsets, len(part.vocabulary)))
        n_tokens += len(part.ids)
    terms, held = in_one(hashes), in_one(counts)
    order = np.argsort(terms, kind="stable")
    terms = terms[order]
    firsts = first_places(terms)
    held = np.add.reduceat(held[order], firsts) if len(firsts) else held
    return {"hashes": terms[firsts], "holders": held, "n_tokens": np.array(n_tokens)}


def hashes_of(terms: Sequence[str]) -> np.ndarray:
    """Return what terms are told apart by, `(len(terms),)` uint64."""
    hashes: np.ndarray = pd.util.hash_array(np.array(terms, dtype=object), categorize=False)
    return hashes


def idf_of(holders: np.ndarray, n_passages: int) -> np.ndarray:
    """Return `ln(1 + (N - n + .5) / (n + .5))` of terms that so many passages hold."""
    return np.log1p((n_passages - holders + 0.5) / (holders + 0.5))
