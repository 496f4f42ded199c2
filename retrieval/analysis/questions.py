"""From a comparison down to single questions: which to look at, in what order, and what each retriever found of one."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from data.audit.overlap import word_overlap
from data.records import QuestionSet
from retrieval.comparison.compare import Comparison
from retrieval.evaluation.measures import first_relevant_ranks
from retrieval.evaluation.ranks import BANDS, bands_of
from retrieval.rankings import NOT_FOUND, Findings, Rankings


def band_counts(ranks: np.ndarray) -> np.ndarray:
    """Count the questions of each retriever in each band of ranks, `(n_retrievers, n_bands)` int64."""
    found = bands_of(ranks)
    return np.stack([np.bincount(column, minlength=len(BANDS) + 1) for column in found.T])


def most_unlike(ranks: np.ndarray, first: int, k: int) -> int:
    """Return the retriever (a column) with most questions that it alone or `first` alone finds among the first k.

    `ranks` `(n_questions, n_retrievers)` are those of a `RankMap`. With one retriever it is itself.
    """
    found = (ranks > 0) & (ranks <= k)
    apart = (found != found[:, [first]]).sum(axis=0)
    apart[first] = -1
    return int(apart.argmax())


def spread(ranks: np.ndarray, depth: int) -> np.ndarray:
    """How much the retrievers disagree on each question, `(n_questions,)`: `log(worst rank / best rank)`.

    What was not found among the first `depth` counts as one past them. From 1 to 10 is as far as from 10 to 100.
    """
    placed = np.where((ranks == 0) | (ranks > depth), depth + 1, ranks)
    logs: np.ndarray = np.log(placed.max(axis=1) / placed.min(axis=1))  # of the ratio: equal ones stay equal
    return logs


def question_table(question_set: QuestionSet, ranks: np.ndarray, names: Sequence[str], depth: int) -> pd.DataFrame:
    """One row a question, most disputed first; the index is its row in the set.

    Columns: "id", "question", "kind", one a retriever, `rank_0`, `rank_1`, ... (Int64, missing where not found), and
    "overlap" (`data.audit.overlap.word_overlap`, 0 to 1).
    """
    table = pd.DataFrame(
        {
            "id": [question.id for question in question_set.questions],
            "question": [question.text for question in question_set.questions],
            "kind": [question.kind for question in question_set.questions],
        }
    )
    for column in range(len(names)):
        table[f"rank_{column}"] = pd.Series(ranks[:, column], dtype="Int64").where(ranks[:, column] > 0)
    table["overlap"] = word_overlap(question_set)
    return table.iloc[np.argsort(-spread(ranks, depth), kind="stable")]


def rows_with_text(question_set: QuestionSet, text: str) -> np.ndarray:
    """Return rows of the questions whose words, id or answers hold `text`, in any case."""
    wanted = text.strip().lower()
    held = [
        wanted in question.text.lower()
        or wanted == question.id.lower()
        or any(wanted in answer.lower() for answer in question.answers)
        for question in question_set.questions
    ]
    return np.flatnonzero(held)


def rows_in_all(count: int, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return those of `count` rows that are in every part, `(n,)` bool as a mask of all rows."""
    kept = np.ones(count, dtype=bool)
    for part in parts:
        inside = np.zeros(count, dtype=bool)
        inside[part] = True
        kept &= inside
    return kept


def findings_of(compared: Comparison, row: int) -> dict[str, Findings]:
    """Return what every retriever that has rankings found of the question at `row`, as it was kept."""
    return {name: _findings(one, row) for name, one in compared.rankings.items()}


def same_article(question_set: QuestionSet, row: int) -> frozenset[int]:
    """Return rows of the passages from the articles of a question's relevant passages that are not relevant."""
    relevant = {question_set.row_of_passage[id_] for id_ in question_set.questions[row].relevant}
    titles = set(question_set.passages.titles.at(sorted(relevant))) - {""}
    return frozenset(
        place for place, title in enumerate(question_set.passages.titles) if title in titles and place not in relevant
    )


def _findings(rankings: Rankings, row: int) -> Findings:
    found = rankings.indices[row] != NOT_FOUND
    return Findings(tuple(rankings.indices[row, found].tolist()), tuple(rankings.scores[row, found].tolist()))


def most_disputed(rankings: Sequence[Rankings], question_set: QuestionSet, count: int) -> list[int]:
    """Return rows of the questions whose first relevant passage stands at the most different ranks, widest first.

    How far they differ is their `spread`, over ranks as deep as all the retrievers go. Each retriever that is best
    somewhere leads once before any leads twice, so that no single one looks like the answer to everything.
    """
    depth = min(ranking.indices.shape[1] for ranking in rankings)
    ranks = np.stack([first_relevant_ranks(one.first(depth), question_set) for one in rankings], axis=1)
    apart = spread(ranks, depth)
    order = [int(row) for row in np.argsort(-apart, kind="stable") if apart[row] > 0]
    chosen: list[int] = []
    led: set[int] = set()
    for row in order:
        leader = int(np.where(ranks[row] == 0, depth + 1, ranks[row]).argmin())
        if leader not in led and len(chosen) < count:
            led.add(leader)
            chosen.append(row)
    chosen += [row for row in order if row not in chosen][: count - len(chosen)]
    return sorted(chosen, key=order.index)
