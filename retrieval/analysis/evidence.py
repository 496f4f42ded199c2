"""The evidence of a comparison: intervals, tests, judgements, published figures, and the questions' languages.

A passage without a judgement counts as not relevant. A collection's judgements cover the results of some systems, and a
new system that finds other relevant passages looks worse than it is (Zobel 1998); so the first K of all retrievers are
judged together, without showing which of them found a passage: pooling (Sparck Jones & van Rijsbergen 1975).
"""

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, Field

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.analyzers import Analyzer, choose
from mrc_workbench.data.text.languages import foreign_language, language_of
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.measures import CUT, Measure, Scores, measures
from mrc_workbench.retrieval.rankings import NOT_FOUND
from mrc_workbench.retrieval.significance import PairTest, intervals_of, pair_tests, question_groups

_MOST_TESTS = 400  # made together
Intervals = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Evidence:
    """Intervals by retriever and measure, and tests against the baseline and of all `others`: a family per measure."""

    baseline: str
    intervals: Mapping[str, Intervals]
    against: tuple[PairTest, ...]
    others: tuple[PairTest, ...]

    @property
    def tests(self) -> tuple[PairTest, ...]:
        return self.against + self.others

    def test(self, name: str, measure: str) -> PairTest | None:
        """Return the test of a retriever against the baseline, None if it was not tested."""
        return next((test for test in self.against if (test.a, test.measure) == (name, measure)), None)


def usual_baseline(comparison: Comparison) -> str:
    """Return the default baseline: BM25 with the default analyzer, else the first retriever."""
    specs = [spec for spec in comparison.experiment.retriever if spec.name in comparison.scores]
    usual = (spec.name for spec in specs if isinstance(spec, BM25Spec) and spec.analyzer is Analyzer.AUTO)
    return next(usual, next(iter(comparison.scores), ""))


def evidence(comparison: Comparison, baseline: str = "") -> Evidence:
    """Test everything that has scores, over groups of questions about the same passages."""
    groups = question_groups(comparison.question_set)
    scores = comparison.scores
    baseline = baseline or usual_baseline(comparison)
    every = [*measures(comparison.experiment.ks), *judged_measures(scores)]
    # of many retrievers the differences by all measures at once would not fit into memory
    step = max(1, _MOST_TESTS // max(1, len(scores) * (len(scores) - 1) // 2))
    parts = [every[start : start + step] for start in range(0, len(every), step)]
    intervals = {name: intervals_of(of, groups) for name, of in scores.items()}
    against = [test for part in parts for test in pair_tests(scores, part, groups, baseline=baseline)]
    rest = {name: of for name, of in scores.items() if name != baseline}
    others = [test for part in parts for test in pair_tests(rest, part, groups)]
    return Evidence(baseline, intervals, tuple(against), tuple(others))


def turned(test: PairTest) -> PairTest:
    """Return the same test seen from the other side."""
    reversed_ = replace(test, difference=-test.difference, low=-test.high, high=-test.low)
    return replace(reversed_, a=test.b, b=test.a, wins=test.losses, losses=test.wins)


@dataclass(frozen=True)
class Figure:
    """A mean with its 95% interval, between 0 and 1.

    `best` is the highest of a column of unequal means. `against` is 1 (significantly above the baseline), -1 or 0.
    """

    mean: float
    low: float
    high: float
    best: bool
    against: int

    @property
    def percent(self) -> str:
        return f"{self.mean * 100:.2f}"

    @property
    def interval(self) -> str:
        return f"{self.low * 100:.1f}–{self.high * 100:.1f}"


def figures(comparison: Comparison, evidence: Evidence, measures: Sequence[str]) -> dict[str, list[Figure | None]]:
    """Return a row for each retriever in order, None if it has no value of a measure."""
    rows: dict[str, list[Figure | None]] = {result.name: [] for result in comparison.results}
    for measure in measures:
        scored = {name: of for name, of in comparison.scores.items() if measure in of.per_question}
        means = {name: float(of.per_question[measure].mean()) for name, of in scored.items()}
        rounded = {round(mean, 4) for mean in means.values()}
        for name, row in rows.items():
            if name not in means:
                row.append(None)
                continue
            test = evidence.test(name, measure)
            side = int(np.sign(test.difference)) if test and test.sure else 0
            best = len(rounded) > 1 and round(means[name], 4) == max(rounded)
            row.append(Figure(means[name], *evidence.intervals[name][measure], best, side))
    return rows


def shown_measures(comparison: Comparison) -> list[str]:
    """Return Recall@K for every K, MRR@10, nDCG@10, and the measures that need judgements, if there are any.

    Hit@K equals Recall@K if questions have one passage each.
    """
    usual = [*(f"recall@{k}" for k in comparison.experiment.ks), f"mrr@{CUT}", f"ndcg@{CUT}"]
    return [*usual, *judged_measures(comparison.scores)]


def label(measure: str) -> str:
    """Return a measure's short name, like R@10."""
    return Measure.parse(measure).short


def usual_figure(measure: str, ks: Sequence[int]) -> Measure:
    """Return a measure at its default K."""
    return Measure(measure, CUT if CUT in ks else ks[-1])


def at_ceiling(scores: Mapping[str, Scores], figure: Measure) -> bool:
    """Whether all retrievers, two or more, score nearly 1: a handful of questions is left."""
    means = [float(of.per_question[str(figure)].mean()) for of in scores.values() if str(figure) in of.per_question]
    return len(means) > 1 and min(means) > 0.99


def telling_figure(scores: Mapping[str, Scores], ks: Sequence[int], figure: Measure) -> Measure:
    """Return the figure or, if that is at its ceiling, the same at the smallest of `ks` that is not, if any."""
    if not at_ceiling(scores, figure):
        return figure
    finer = (Measure(figure.name, k) for k in sorted(ks) if k < figure.cut)
    return next((one for one in finer if not at_ceiling(scores, one)), figure)


JUDGED = f"judged@{CUT}"


def judged_measures(scores: Mapping[str, Scores]) -> list[str]:
    """Return the measures that need judgements, of those measured: at `CUT`, and Bpref."""
    found = dict.fromkeys(measure for of in scores.values() for measure in of.per_question)
    return [one for one in found if one in (f"ndcg_exp@{CUT}", f"judged@{CUT}") or Measure.parse(one).name == "bpref"]


def at_disadvantage(scores: Mapping[str, Scores], groups: np.ndarray) -> list[PairTest]:
    """Return the test of each retriever whose Judged@10 is clearly below the highest, against that one.

    Clearly means significantly, and by a tenth or more: one unjudged passage of the first ten may be relevant.
    """
    means = {name: of.means()[JUDGED] for name, of in scores.items() if JUDGED in of.per_question}
    if not means:
        return []
    tests = pair_tests(scores, [JUDGED], groups, baseline=max(means, key=means.__getitem__))
    return [test for test in tests if test.sure and round(-test.difference, 6) >= 1 / CUT]


class Pooled(NamedTuple):
    """A pair to judge: a row of the comparison's questions, and a row of its corpus."""

    question: int
    passage: int


def pool(comparison: Comparison, questions: int, depth: int, seed: int = 0) -> list[Pooled]:
    """Return the unjudged passages among the first `depth` of all retrievers, for so many questions.

    Questions, and the passages of each, are shuffled by the seed, so that nothing shows which retriever found a passage
    at which rank. A smaller pool has the first questions of a larger one. Without judgements, all but relevant passages
    are unjudged.
    """
    asked = comparison.question_set
    known = asked.relevance if asked.judged is None else asked.judged

    def pools() -> Iterator[list[Pooled]]:
        for row in np.random.default_rng(seed).permutation(len(asked.questions)).tolist():
            found = [one.indices[row, :depth] for one in comparison.rankings.values()]
            judged = [NOT_FOUND, *known.indices[known.indptr[row] : known.indptr[row + 1]]]
            left = np.setdiff1d(np.concatenate(found), judged) if found else np.array([], dtype=np.int64)
            if len(left):
                yield [Pooled(row, one) for one in np.random.default_rng([seed, row]).permutation(left).tolist()]

    return [pair for _, pairs in zip(range(questions), pools(), strict=False) for pair in pairs]


class Source(BaseModel):
    """Who published, where and when, and what was measured."""

    id: str
    title: str
    address: str = Field(pattern="^https://")
    date: date
    measure: str


class Published(BaseModel):
    """Metrics of others (0 to 1) by model, over `questions` of a set; `kinds` says which models are late or dense."""

    title: str
    names: tuple[str, ...]
    questions: int
    source: Source
    figures: Mapping[str, float]
    kinds: Mapping[str, str]


def published(name: str) -> Sequence[Published]:
    """Return what was published about the set of this name, as people write it; nothing for most."""
    letters = re.sub(r"[\W_]+", "", name.casefold())
    return [one for one in _all_published() if any(known in letters for known in one.names)]


@cache
def _all_published() -> list[Published]:
    content = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
    sources = {source["id"]: source for source in content["source"]}
    kinds = content["models"]
    return [Published(**entry | {"source": sources[entry["source"]], "kinds": kinds}) for entry in content["set"]]


_MOST_QUESTIONS = 10_000  # that are looked at, evenly spread: a second
_SOME_PASSAGES, _CHARACTERS = 300, 400  # that are looked at for other languages, and of each its beginning
_FEW_PASSAGES = 0.05  # of them in a language: questions in it have passages to match


@dataclass(frozen=True)
class SetLanguages:
    """`language` is the ISO 639-1 code of the passages' language, empty if it is unclear or if there are several.

    `analyzer` is that of `auto`. `foreign` holds ascending rows of the `examined` questions that are surely in a
    language of few passages, by language, the most frequent first.
    """

    language: str
    analyzer: Analyzer
    examined: int
    foreign: Mapping[str, np.ndarray]


def set_languages(question_set: QuestionSet) -> SetLanguages:
    """Detect the languages of a question set."""
    texts = question_set.passages.indexed_texts(title=True)
    language = language_of(texts)
    rows = _spread(len(question_set.questions), _MOST_QUESTIONS)
    found: defaultdict[str, list[int]] = defaultdict(list)
    if language:
        sample = _spread(len(texts), _SOME_PASSAGES)
        passages = Counter(foreign_language(texts[row][:_CHARACTERS], language) for row in sample)
        for row in rows:
            other = foreign_language(question_set.questions[row].text, language)
            if other and passages[other] <= _FEW_PASSAGES * len(sample):
                found[other].append(row)
    most_first = sorted(found.items(), key=lambda item: -len(item[1]))
    foreign = {other: np.array(of_language) for other, of_language in most_first}
    return SetLanguages(language, choose(Analyzer.AUTO, texts), len(rows), foreign)


def _spread(count: int, most: int) -> range:
    """Return positions evenly spread over `count`, at most `most` of them."""
    return range(0, count, -(-count // most) or 1)
