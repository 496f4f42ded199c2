"""A comparison opened from its folder, and what its pages read off it: worked out once, for all who look at it."""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.models.hub import ModelError
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.analysis.changes import Change, changes
from mrc_workbench.retrieval.analysis.cross_fit import CrossFit, cross_fit
from mrc_workbench.retrieval.analysis.evidence import Evidence, at_disadvantage, evidence
from mrc_workbench.retrieval.analysis.labs import lab_figures
from mrc_workbench.retrieval.analysis.questions import (
    Quadrant,
    RankMap,
    ceilings,
    fates,
    most_disputed,
    quadrants,
    question_table,
    rank_map,
    rows_with_text,
    same_article,
)
from mrc_workbench.retrieval.analysis.slices import Property, Slice, properties, slice_table, slice_tests, slices
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.store import load
from mrc_workbench.retrieval.evaluation.significance import PairTest, intervals_of, pair_tests, question_groups
from mrc_workbench.retrieval.explain.standing import (
    FusionExplanation,
    RerankExplanation,
    fusion_contributions,
    rerank_contributions,
)
from mrc_workbench.retrieval.lexical.terms import UnmatchedQuestions, unmatched

logger = logging.getLogger(__name__)

MEASURED_SLICES = 500  # the largest: tens of thousands of titles would keep the page waiting

Analysis = TypeVar("Analysis", bound=Callable[..., Any])


def _last(count: int) -> Callable[[Analysis], Analysis]:
    """Have a comparison keep the last `count` answers of an analysis, by its parameters.

    Sessions share the comparison: while one of them works an answer out, others that want a new one wait for it.
    """

    def keeping(analysis: Analysis) -> Analysis:
        @wraps(analysis)
        def answer(self: "OpenComparison", *parameters: object) -> Any:
            answers = self._answers.setdefault(analysis.__name__, {})
            with suppress(KeyError):
                return answers[parameters]
            with self._lock:
                if parameters not in answers:
                    answers[parameters] = analysis(self, *parameters)
                    if len(answers) > count:
                        del answers[next(iter(answers))]
                return answers[parameters]

        return cast(Analysis, answer)

    return keeping


class OpenComparison:
    """A kept comparison with all that can be asked of it; retrievers without rankings or scores are left out."""

    def __init__(self, folder: Path, question_set: QuestionSet) -> None:
        """Open the comparison of a set that a folder keeps. Raises `ValueError` as `store.load` does."""
        self.folder = folder
        self.comparison = load(folder, question_set)
        self._answers: dict[str, dict[tuple[object, ...], Any]] = {}
        self._lock = RLock()  # an analysis may ask for another

    @property
    def question_set(self) -> QuestionSet:
        return self.comparison.question_set

    # how sure the figures are

    @property
    @_last(1)
    def groups(self) -> np.ndarray:
        return question_groups(self.question_set)

    @property
    @_last(1)
    def intervals(self) -> dict[str, dict[str, tuple[float, float]]]:
        return {name: intervals_of(scores, self.groups) for name, scores in self.comparison.scores.items()}

    @property
    @_last(1)
    def evidence(self) -> Evidence:
        return evidence(self.comparison)

    @property
    @_last(1)
    def at_disadvantage(self) -> list[PairTest]:
        return at_disadvantage(self.comparison.scores, self.groups)

    @_last(16)
    def tests(self, names: tuple[str, ...], measure: str, baseline: str | None = None) -> list[PairTest]:
        scores = {name: of for name, of in self.comparison.scores.items() if name in names}
        return pair_tests(scores, [measure], self.groups, baseline=baseline)

    @_last(2)
    def changes_since(self, earlier: "OpenComparison") -> list[Change]:
        return changes(earlier.comparison, self.comparison)

    @_last(16)
    def lab_figures(self, measure: str) -> pd.DataFrame:
        return lab_figures(self.comparison, measure, self.groups)

    @_last(16)
    def cross_fit(self, present: str, measure: str) -> CrossFit | None:
        return cross_fit(self.comparison, self.lab_figures(measure), present, measure, self.groups)

    # on which questions, and in which step

    @property
    @_last(1)
    def properties(self) -> list[Property]:
        return properties(self.question_set)

    @_last(len(Property))
    def slices(self, by: Property) -> list[Slice]:
        return slices(self.question_set, by)

    @_last(16)
    def slice_figures(self, by: Property, names: tuple[str, ...], measure: str) -> pd.DataFrame:
        """Return the `slice_table` of the first `MEASURED_SLICES` slices, with "p_holm" of their tests."""
        scores = {name: self.comparison.scores[name] for name in names if name in self.comparison.scores}
        parts = self.slices(by)[:MEASURED_SLICES]
        table = slice_table(parts, scores, measure, self.groups)
        return table.assign(p_holm=slice_tests(parts, scores, measure, self.groups))

    @_last(8)
    def fates(self, k: int) -> dict[str, np.ndarray]:
        return fates(self.comparison, k)

    @_last(4)
    def ceilings(self, depths: tuple[int, ...]) -> dict[str, np.ndarray]:
        return ceilings(self.comparison, depths)

    @_last(4)
    def unmatched(self, analyzer: Analyzer) -> UnmatchedQuestions:
        return unmatched(self.question_set, analyzer)

    # question by question

    @_last(4)
    def ranks(self, names: tuple[str, ...]) -> RankMap:
        rankings = self.comparison.rankings
        return rank_map([rankings[name] for name in names if name in rankings], self.question_set)

    @_last(4)
    def quadrants(self, pair: tuple[str, str], k: int) -> dict[Quadrant, np.ndarray]:
        ranks = self.ranks(pair).ranks
        return quadrants(ranks[:, 0], ranks[:, 1], k)

    @_last(2)
    def questions(self, names: tuple[str, ...]) -> pd.DataFrame:
        depth = min(self.comparison.rankings[name].indices.shape[1] for name in names)
        return question_table(self.question_set, self.ranks(names).ranks, names, depth)

    @_last(2)
    def disputed(self, count: int) -> list[str]:
        rows = self.disputed_rows(tuple(self.comparison.rankings), count)
        return [self.question_set.questions[row].text for row in rows]

    @_last(4)
    def disputed_rows(self, names: tuple[str, ...], count: int) -> list[int]:
        rankings = [self.comparison.rankings[name] for name in names if name in self.comparison.rankings]
        return most_disputed(rankings, self.question_set, count) if rankings else []

    @_last(8)
    def rows_with(self, text: str) -> np.ndarray:
        return rows_with_text(self.question_set, text)

    @_last(8)
    def confusers(self, row: int) -> frozenset[int]:
        """Return rows of the passages from the article a question is about that do not answer it."""
        return same_article(self.question_set, row)

    def fusion(self, spec: HybridSpec, row: int, passage: int) -> FusionExplanation | None:
        """Explain the fused score of a passage; None where the rankings kept are not as deep as those fused."""
        lists = {part: self.comparison.rankings[part] for part in spec.of if part in self.comparison.rankings}
        depth = min(spec.depth, len(self.question_set.passages))
        if len(lists) < len(spec.of) or any(one.indices.shape[1] < depth for one in lists.values()):
            return None
        depths = [self.comparison.experiment.specs[name].scored(spec.depth) for name in spec.of]
        return fusion_contributions(
            lists, row, passage, depth=spec.depth, fusion=spec.fusion, weights=spec.weights, depths=depths
        )

    def reranking(self, spec: RerankSpec, row: int, passage: int) -> RerankExplanation | None:
        """Explain the move of a passage; None where the ranking before is not kept, or the model's weight is gone."""
        before, after = self.comparison.rankings.get(spec.first), self.comparison.rankings.get(spec.name)
        if before is None or after is None:
            return None
        try:
            weight = spec.weight_with(find_model(spec.model))
        except ModelError as error:
            logger.warning("the weight of %r is not known: %s", spec.name, error)
            return None
        return rerank_contributions(before, after, row, passage, depth=spec.depth, weight=weight)
