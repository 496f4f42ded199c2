"""Slices: parts of the questions that are alike, where one retriever may win and another lose, and their languages."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from mrc_workbench.data.questions import word_overlap
from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.data.statistics import LEVEL
from mrc_workbench.data.text.analyzers import PLAIN_PART, Analyzer, choose
from mrc_workbench.data.text.languages import foreign_language, language_of
from mrc_workbench.retrieval.lexical.terms import shared_terms
from mrc_workbench.retrieval.measures import Scores
from mrc_workbench.retrieval.significance import difference_intervals, holm, pair_tests, share_intervals


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
    """Questions at `rows` (ascending) with a `label`, or else with a value from `low` to `high`, both included."""

    rows: np.ndarray
    label: str = ""
    low: float = float("nan")
    high: float = float("nan")


def properties(question_set: QuestionSet) -> list[Property]:
    """Return what can tell these questions apart: kinds and articles only where the set knows at least two."""
    return [by for by in Property if by not in _LABELS or len({*_LABELS[by](question_set)} - {""}) > 1]


def slices(question_set: QuestionSet, by: Property) -> list[Slice]:
    """Cut questions that all have a relevant passage into slices.

    Kinds and articles are sorted by size; numbers make up to four ranges of about as many questions each, equal values
    always in the same range. A question without a value is in no slice.
    """
    if by in _LABELS:
        labels = _LABELS[by](question_set)
        rows = pd.Series(range(len(labels))).groupby(pd.Series(labels, dtype=object)).indices
        named = [Slice(np.sort(found), str(label)) for label, found in rows.items() if label]
        return sorted(named, key=lambda part: -len(part.rows))
    values = _NUMBERS[by](question_set)
    known = np.flatnonzero(~np.isnan(values))
    # equal values have the rank of their middle: they are never separated
    quantiles = (pd.Series(values[known]).rank().to_numpy() - 0.5) / max(1, len(known))
    quarters = (quantiles * 4).astype(np.int64)
    parts = [known[quarters == number] for number in np.unique(quarters)]
    return [Slice(rows, low=float(values[rows].min()), high=float(values[rows].max())) for rows in parts]


def slice_table(
    parts: Sequence[Slice], scores: Mapping[str, Scores], measure: str, groups: np.ndarray | None = None
) -> pd.DataFrame:
    """Measure every retriever that has the measure on every slice: a row each, with `groups` as in `significance`.

    Columns: "slice" (its position in `parts`), "questions", "retriever", "mean" with its 95% interval "low" to "high",
    and "difference" from the first retriever with "difference_low" to "difference_high" (0 for the first itself). The
    intervals are not corrected for their number.
    """
    columns = ["slice", "questions", "retriever", "mean", "low", "high"]
    columns += ["difference", "difference_low", "difference_high"]
    known = _known(scores, measure)
    if not known:
        return pd.DataFrame(columns=columns)
    values = np.stack([of.per_question[measure] for of in known.values()], axis=1)
    rows: list[tuple[object, ...]] = []
    for place, part in enumerate(parts):
        of_slice = values[part.rows]
        numbers = _renumbered(groups, part)
        shares = share_intervals(of_slice, numbers)
        differences = of_slice - of_slice[:, :1]
        apart = difference_intervals(differences, numbers)
        for column, name in enumerate(known):
            mean, difference = of_slice[:, column].mean(), differences[:, column].mean()
            rows.append((place, len(part.rows), name, mean, *shares[column], difference, *apart[column]))
    return pd.DataFrame(rows, columns=columns)


def slice_tests(
    parts: Sequence[Slice], scores: Mapping[str, Scores], measure: str, groups: np.ndarray | None = None
) -> np.ndarray:
    """Test each difference of `slice_table` as `pair_tests` does: p-values in the order of its rows.

    They are Holm-corrected over all slices and retrievers; NaN for the first retriever.
    """
    known = _known(scores, measure)
    first, *others = known or [""]
    found: list[float] = []
    for part in parts if known else []:
        of_slice = {name: Scores((), {measure: of.per_question[measure][part.rows]}) for name, of in known.items()}
        tests = pair_tests(of_slice, [measure], _renumbered(groups, part))
        p_of = {test.b: test.p for test in tests if test.a == first}
        found += [np.nan, *(p_of[name] for name in others)]
    p = np.array(found)
    tested = ~np.isnan(p)
    p[tested] = holm(p[tested])
    return p


def most_telling(table: pd.DataFrame) -> "pd.Series[Any] | None":
    """Return the row with the largest significant difference of a `slice_table` with "p_holm", None if there is none.

    Significant means p below 5 % after correction, and an interval without 0.
    """
    apart = (table["difference_low"] > 0) | (table["difference_high"] < 0)
    sure = table[apart & (table["p_holm"] < 1 - LEVEL)]
    return sure.iloc[int(sure["difference"].abs().to_numpy().argmax())] if len(sure) else None


def most_contested(table: pd.DataFrame, count: int) -> list[int]:
    """Return the `count` slices with most questions won or lost against the first; of one alone the largest."""
    won = (table["difference"].abs() * table["questions"]).groupby(table["slice"]).max()
    size = table.groupby("slice")["questions"].first()
    ranked = pd.DataFrame({"won": won, "size": size}).sort_values(["won", "size"], ascending=False, kind="stable")
    return [int(place) for place in ranked.index[:count]]


def terms_found(question_set: QuestionSet) -> np.ndarray:
    """Return how many distinct content words of each question its passage contains, `(n_questions,)` float64.

    Words are Kiwi's content morphemes in Korean, else those of the default analyzer; of several relevant passages the
    one with most counts.
    """
    texts = question_set.passages.indexed_texts(title=True)
    analyzer = choose(Analyzer.AUTO, texts)
    # a letter pair is no word
    analyzer = PLAIN_PART.get(analyzer, analyzer)
    rows, counts = shared_terms(question_set, analyzer)
    most = np.zeros(len(question_set.questions))
    np.maximum.at(most, rows, counts)
    return most


def _known(scores: Mapping[str, Scores], measure: str) -> dict[str, Scores]:
    return {name: of for name, of in scores.items() if measure in of.per_question}


def _renumbered(groups: np.ndarray | None, part: Slice) -> np.ndarray | None:
    return None if groups is None else np.unique(groups[part.rows], return_inverse=True)[1]


def _first_passages(asked: QuestionSet) -> list[Passage]:
    return [asked.passages[asked.row_of_passage[question.relevant[0]]] for question in asked.questions]


_LABELS: dict[Property, Callable[[QuestionSet], list[str]]] = {
    Property.KIND: lambda asked: [question.kind for question in asked.questions],
    Property.ARTICLE: lambda asked: [passage.title for passage in _first_passages(asked)],
}
_NUMBERS: dict[Property, Callable[[QuestionSet], np.ndarray]] = {
    Property.QUESTION_LENGTH: lambda asked: np.array([float(len(question.text)) for question in asked.questions]),
    Property.PASSAGE_LENGTH: lambda asked: np.array([float(len(one.text)) for one in _first_passages(asked)]),
    Property.OVERLAP: word_overlap,
    Property.TERMS_FOUND: terms_found,
}


def labels_of(parts: Sequence[Slice], by: Property) -> list[str]:
    """Return the label of each slice, or its range with as many decimals as distinguish all of them."""
    for decimals in range(4):
        form = f".{decimals}%" if by is Property.OVERLAP else f",.{decimals}f"
        ends = [(f"{part.low:{form}}", f"{part.high:{form}}") for part in parts]
        ranges = [low if low == high else f"{low.removesuffix('%')}–{high}" for low, high in ends]
        labels = [part.label or told for part, told in zip(parts, ranges, strict=True)]
        if len(set(labels)) == len(labels):
            break
    return labels


_MOST_QUESTIONS = 10_000  # that are looked at, evenly spread: a second
_SOME_PASSAGES, _CHARACTERS = 300, 400  # that are looked at for other languages, and of each its beginning
_FEW_PASSAGES = 0.05  # of them in a language: questions in it have passages to match


@dataclass(frozen=True)
class SetLanguages:
    """`language` is the ISO 639-1 code of the passages' language, empty if it is unclear or if there are several.

    `analyzer` is the one that `auto` resolves to. `foreign` holds ascending rows of the `examined` questions that are
    surely in a language of few passages, by language, the most frequent first.
    """

    language: str
    analyzer: Analyzer
    examined: int
    foreign: Mapping[str, np.ndarray]

    @property
    def foreign_count(self) -> int:
        return sum(map(len, self.foreign.values()))


def set_languages(question_set: QuestionSet) -> SetLanguages:
    """Detect the languages of a question set."""
    texts = question_set.passages.indexed_texts(title=True)
    language, rows = language_of(texts), _spread(len(question_set.questions), _MOST_QUESTIONS)
    in_passages = _others_in(texts, language) if language else frozenset()
    found: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows if language else []:
        other = foreign_language(question_set.questions[row].text, language)
        if other and other not in in_passages:
            found[other].append(row)
    most_first = sorted(found.items(), key=lambda item: -len(item[1]))
    return SetLanguages(
        language,
        choose(Analyzer.AUTO, texts),
        len(rows),
        {other: np.array(of_language) for other, of_language in most_first},
    )


def _others_in(texts: Sequence[str], language: str) -> frozenset[str]:
    rows = _spread(len(texts), _SOME_PASSAGES)
    counts = Counter(foreign_language(texts[row][:_CHARACTERS], language) for row in rows)
    return frozenset(other for other, count in counts.items() if count > _FEW_PASSAGES * len(rows))


def _spread(count: int, most: int) -> list[int]:
    return list(range(0, count, -(-count // most))) if count else []
