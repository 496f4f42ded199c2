"""The questions that are asked, and how many postings their terms have."""

from itertools import chain
from typing import NamedTuple

import numpy as np

from benchmarks.clones import Clones
from benchmarks.speed.bm25.engine import Words
from text.tokens import PART

_MOST = 1_000


class Asked(NamedTuple):
    """Questions as words, the passage that each is about `(n_questions,)`, and how many passages hold each word."""

    questions: list[Words]
    relevant: np.ndarray
    held: dict[str, int]


def asked_of(clones: Clones) -> Asked:
    """Take a thousand questions from all articles; count the passages that hold their words."""
    every = max(1, len(clones.questions) // _MOST)
    texts = clones.questions.texts()
    rows = [row for row in range(0, len(texts), every) if texts[row]][:_MOST]
    questions: list[Words] = [texts[row] for row in rows]
    return Asked(questions, clones.relevant[rows], _held(clones, sorted(set(chain(*questions)))))


def _held(clones: Clones, words: list[str]) -> dict[str, int]:
    number = {word: place for place, word in enumerate(words)}
    place_of = np.array([number.get(word, -1) for word in clones.tokens.vocabulary])
    counts = np.zeros(len(words), dtype=np.int64)
    for start in range(0, len(clones.tokens), PART):
        offsets = clones.tokens.offsets[start : start + PART + 1]
        places = place_of[clones.tokens.ids[offsets[0] : offsets[-1]]]
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        pairs = np.sort((places * PART + rows)[places >= 0])  # numpy's `unique` takes many times as long
        first = np.diff(pairs, prepend=-1) > 0
        counts += np.bincount(pairs[first] // PART, minlength=len(words))
    return dict(zip(words, counts.tolist(), strict=True))
