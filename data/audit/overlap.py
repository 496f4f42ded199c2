"""How much of their wording questions share with their passages, and how much they share with any passage by chance.

Counted is what the set's analyzer counts: words where they are spaced and stand alone, as in English; else pairs of
neighbouring letters, which find a Korean word whatever ending it has. Letters of an alphabet are so few that nearly any
English passage holds most pairs of a question: there they would tell nothing.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from data.records import QuestionSet
from data.texts import Script, script_of

_WORD = re.compile(r"[^\W_]+")
_BY_CHANCE = 1000  # questions that are held against a passage of others


class Unit(StrEnum):
    """What is counted."""

    WORDS = "words"
    PAIRS = "pairs"


@dataclass(frozen=True)
class Overlap:
    """Shares of questions' wording that passages have, 0 to 1; means are NaN where nothing can be measured."""

    unit: Unit
    shares: np.ndarray = field(repr=False)  # (n_answerable,) float64, NaN of a question without any unit
    mean: float
    by_chance: float  # mean of questions, each with a passage that is not theirs


def overlap_of(question_set: QuestionSet) -> Overlap:
    """Measure a set's overlap: each question with its passages (`word_overlap`), and some with others by chance."""
    unit = unit_of(question_set)
    shares = _with_own(question_set, unit)
    return Overlap(unit, shares, _mean(shares), _mean(_by_chance(question_set, unit)))


def unit_of(question_set: QuestionSet) -> Unit:
    """Return what is counted in a set, by the script of its passages."""
    return Unit.WORDS if script_of(question_set.passages.texts) is Script.SPACED else Unit.PAIRS


def word_overlap(question_set: QuestionSet) -> np.ndarray:
    """Return how much of each question's wording its passage has, `(n_answerable,)` float64, 0 to 1.

    Overlap = |U(question) ∩ U(passage)| / |U(question)|, where U(text) are the distinct words of the lower-cased text,
    or pairs of neighbouring letters or digits inside them (`unit_of`). Of several relevant passages the highest counts;
    a question without any is NaN. Where values are high, lexical search will do well.
    """
    return _with_own(question_set, unit_of(question_set))


def words(text: str) -> frozenset[str]:
    """Return the distinct words, in lower case."""
    return frozenset(_WORD.findall(text.lower()))


def bigrams(text: str) -> frozenset[str]:
    """Return the distinct pairs of neighbouring letters or digits inside the words, in lower case."""
    return frozenset(word[start : start + 2] for word in words(text) for start in range(len(word) - 1))


def _share_of_words(passage: str, questions: list[str]) -> list[float]:
    there = words(passage)
    return [len(asked & there) / len(asked) if (asked := words(text)) else np.nan for text in questions]


def _share_of_pairs(passage: str, questions: list[str]) -> list[float]:
    there = passage.lower()  # two letters side by side are always of one word
    counted = [(sum(pair in there for pair in asked), len(asked)) for asked in map(bigrams, questions)]
    return [found / count if count else np.nan for found, count in counted]


_SHARES: dict[Unit, Callable[[str, list[str]], list[float]]] = {
    Unit.WORDS: _share_of_words,
    Unit.PAIRS: _share_of_pairs,
}


def _with_own(question_set: QuestionSet, unit: Unit) -> np.ndarray:
    share, overlap = _SHARES[unit], np.full(len(question_set.questions), np.nan)
    by_passage = question_set.relevance.tocsc()
    # a large corpus has passages that nobody asks about
    for column in np.flatnonzero(np.diff(by_passage.indptr)).tolist():
        rows = by_passage.indices[by_passage.indptr[column] : by_passage.indptr[column + 1]].tolist()
        asked = [question_set.questions[row].text for row in rows]
        overlap[rows] = np.fmax(overlap[rows], share(question_set.passages.texts[column], asked))
    measured: np.ndarray = overlap[question_set.answerable]
    return measured


def _by_chance(question_set: QuestionSet, unit: Unit) -> np.ndarray:
    share, rng = _SHARES[unit], np.random.default_rng(0)
    rows, count = np.array(question_set.answerable, dtype=np.int64), len(question_set.passages)
    found = []
    for row in rng.permutation(rows)[:_BY_CHANCE].tolist():
        passage = int(rng.integers(count))
        if not question_set.relevance[row, passage]:
            found += share(question_set.passages.texts[passage], [question_set.questions[row].text])
    return np.array(found, dtype=np.float64)


def _mean(shares: np.ndarray) -> float:
    measured = shares[~np.isnan(shares)]
    return float(measured.mean()) if len(measured) else float("nan")
