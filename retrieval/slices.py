"""Slices: parts of the questions that are alike in something, where one retriever may win and another lose."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from data.audit import word_overlap
from data.records import QuestionSet
from retrieval.analyzers import Analyzer, choose, tokens_of
from retrieval.bm25 import indexed_texts
from retrieval.metrics import Scores
from retrieval.significance import mean_intervals, share_intervals

_RANGES = 4


class Property(StrEnum):
    """What questions are told apart by. Lengths are in characters."""

    KIND = "kind"
    QUESTION_LENGTH = "question_length"
    PASSAGE_LENGTH = "passage_length"
    OVERLAP = "overlap"
    TERMS_FOUND = "terms_found"
    ARTICLE = "article"


@dataclass(frozen=True)
class Slice:
    """Questions at `rows` (ascending): those named `label`, or whose value lies from `low` to `high`, both included.

    One of the two is known: a range has no label, a label no range (NaN).
    """

    rows: np.ndarray
    label: str = ""
    low: float = float("nan")
    high: float = float("nan")


def slices(asked: QuestionSet, by: Property) -> list[Slice]:
    """Cut questions that all have a relevant passage into slices.

    Kinds and articles in the order of their size, numbers as up to four ranges of about as many questions each. Empty
    where the set does not know the property: no kinds, no titles. A question whose value is not known is in no slice.
    """
    if by in _LABELS:
        return _by_label(_LABELS[by](asked))
    return _by_range(_NUMBERS[by](asked))


def slice_table(
    parts: Sequence[Slice], scores: Mapping[str, Scores], measure: str, groups: np.ndarray | None = None
) -> pd.DataFrame:
    """Measure every retriever on every slice: a row each, with `groups` as in `significance`.

    Columns: "slice" (its place in `parts`), "questions", "retriever", "mean" with its 95 % interval "low" to "high",
    and "difference" from the first retriever with "difference_low" to "difference_high" (all shares).
    """
    known = {name: of.per_question[measure] for name, of in scores.items() if measure in of.per_question}
    if not known:
        return pd.DataFrame(columns=_COLUMNS)
    values = np.stack(list(known.values()), axis=1)
    rows: list[tuple[object, ...]] = []
    for place, part in enumerate(parts):
        of_slice = values[part.rows]
        numbers = None if groups is None else np.unique(groups[part.rows], return_inverse=True)[1]
        shares = share_intervals(of_slice, numbers)
        differences = of_slice - of_slice[:, :1]
        apart = mean_intervals(differences, numbers)
        for column, name in enumerate(known):
            mean, difference = of_slice[:, column].mean(), differences[:, column].mean()
            rows.append((place, len(part.rows), name, mean, *shares[column], difference, *apart[column]))
    return pd.DataFrame(rows, columns=_COLUMNS)


_COLUMNS = [
    "slice",
    "questions",
    "retriever",
    "mean",
    "low",
    "high",
    "difference",
    "difference_low",
    "difference_high",
]


def terms_found(asked: QuestionSet) -> np.ndarray:
    """How many distinct content words of each question its passage holds, `(n_questions,)` float64.

    Words are Kiwi's content morphemes in Korean, else what the default analyzer makes of the passages; of several
    relevant passages the one that holds most counts.
    """
    texts = indexed_texts(asked.passages, title=True)
    analyzer = choose(Analyzer.AUTO, texts)
    # a letter pair is no word
    analyzer = Analyzer.KIWI if analyzer is Analyzer.KIWI_BIGRAM else analyzer
    passages = tokens_of(analyzer, texts)
    number = {token: place for place, token in enumerate(passages.vocabulary)}
    of_passage = [set(part.tolist()) for part in np.split(passages.ids, passages.offsets[1:-1])]
    of_question = tokens_of(analyzer, [question.text for question in asked.questions]).ids_in(number)
    return np.array(
        [
            max(len(of_passage[asked.row_of_passage[id_]].intersection(ids.tolist())) for id_ in question.relevant)
            for question, ids in zip(asked.questions, of_question, strict=True)
        ],
        dtype=np.float64,
    )


def _by_label(labels: Sequence[str]) -> list[Slice]:
    rows = pd.Series(range(len(labels))).groupby(pd.Series(labels, dtype=object)).indices
    named = [Slice(np.sort(found), str(label)) for label, found in rows.items() if label]
    return sorted(named, key=lambda part: -len(part.rows))


def _by_range(values: np.ndarray) -> list[Slice]:
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return []
    edges = np.unique(np.quantile(values[known], np.linspace(0, 1, _RANGES + 1), method="nearest"))
    # a value on an inner edge begins the upper range
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, max(0, len(edges) - 2))
    parts = [known[place[known] == number] for number in range(max(1, len(edges) - 1))]
    return [Slice(rows, low=float(values[rows].min()), high=float(values[rows].max())) for rows in parts if len(rows)]


def _first_passages(asked: QuestionSet) -> list[int]:
    return [asked.row_of_passage[question.relevant[0]] for question in asked.questions]


def _kinds(asked: QuestionSet) -> list[str]:
    return [question.kind for question in asked.questions]


def _articles(asked: QuestionSet) -> list[str]:
    return [asked.passages[row].title for row in _first_passages(asked)]


def _question_lengths(asked: QuestionSet) -> np.ndarray:
    return np.array([len(question.text) for question in asked.questions], dtype=np.float64)


def _passage_lengths(asked: QuestionSet) -> np.ndarray:
    return np.array([len(asked.passages[row].text) for row in _first_passages(asked)], dtype=np.float64)


_LABELS: dict[Property, Callable[[QuestionSet], list[str]]] = {Property.KIND: _kinds, Property.ARTICLE: _articles}
_NUMBERS: dict[Property, Callable[[QuestionSet], np.ndarray]] = {
    Property.QUESTION_LENGTH: _question_lengths,
    Property.PASSAGE_LENGTH: _passage_lengths,
    Property.OVERLAP: word_overlap,
    Property.TERMS_FOUND: terms_found,
}
