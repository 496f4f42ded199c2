"""Compare the best mix with its best retriever, with all questions and with samples of 60.

`python -m benchmarks mixes_of_few` writes the table. A mix is never fitted on the questions that it ranks: it is
cross-fitted by groups of passages, or, for KorQuAD's 40 test articles, trained on the other articles. Each retriever
searches all questions of a dataset once. `BENCH_SETS` selects datasets by name.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.quality.article_split import MEASURE, SPLIT, compare_part, scores, workspace
from benchmarks.quality.mixes import labelled_sets, selected_sets
from benchmarks.synthetic_data import development_sets
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, split
from mrc_workbench.data.split.partition import FOLDS, TrainingQueries
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec
from mrc_workbench.retrieval.comparison.multistage import LearnedSpec
from mrc_workbench.retrieval.comparison.spec import RetrieverContext, Spec
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, evaluate
from mrc_workbench.retrieval.mix import fit_mix, rank_by_mix
from mrc_workbench.retrieval.rankings import Rankings

_RETRIEVERS: dict[str, Spec] = {  # by component of the untrained mix
    "words": BM25Spec(name="BM25"),
    "meaning": DenseSpec(name="Dense", model=DEFAULT.reference, windows=True),
    "tokens": LateSpec(name="Late", model=DEFAULT.reference, windows=True),
}
_SPECS = (*_RETRIEVERS.values(),)
_MIX = LearnedSpec(name="Best mix", retrievers=tuple(spec.name for spec in _SPECS))
_SAMPLES = 20
_SIZE = 60


def mixes_of_few() -> list[str]:
    """Return a Markdown table: nDCG@10 of the best retriever and of the mix in percent, and the difference."""
    lines = [
        "| dataset | questions | best retriever | its nDCG@10 | mix | difference | worst sample |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    with workspace():
        for question_set, part in _sets():
            results = _Results.of(question_set)
            lines.append(_row(question_set.name, [results.means(*_rows_of(question_set, part))]))
            samples = [results.means(rows, rows) for rows in _samples(question_set)]
            lines.append(_row(f"{_SAMPLES} samples", samples))
    return lines


def _sets() -> Iterator[tuple[QuestionSet, Part]]:
    others = (
        (read_file(path).question_set, Part.ALL) for name, path in development_sets().items() if "KorQ" not in name
    )
    for question_set, part in selected_sets((*labelled_sets(), *others)):
        yield question_set.with_questions(question_set.answerable), part


def _rows_of(question_set: QuestionSet, part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the evaluated questions, and of those that train the mix: all others, or the same for ALL."""
    if part is Part.ALL:
        rows = np.arange(len(question_set.questions))
        return rows, rows
    queries = split(question_set, SPLIT).rows[part]
    return queries, np.setdiff1d(np.arange(len(question_set.questions)), queries)


def _samples(question_set: QuestionSet) -> Iterator[np.ndarray]:
    """Yield the question rows of each sample."""
    for seed in range(_SAMPLES):
        yield np.sort(np.random.default_rng(seed).permutation(len(question_set.questions))[:_SIZE])


@dataclass(frozen=True)
class _Results:
    """Rankings of all questions by the `_SPECS` and the further signals of the mix, in this order."""

    question_set: QuestionSet
    rankings: list[Rankings]
    ndcg: dict[str, np.ndarray]

    @classmethod
    def of(cls, question_set: QuestionSet) -> "_Results":
        signals = _MIX.signals(RetrieverContext(question_set, specs={spec.name: spec for spec in _SPECS}))
        comparison = compare_part(question_set, Part.ALL, *_SPECS, *signals, ks=(1, DEFAULT_CUTOFF, _MIX.top_k))
        by_retriever = scores(comparison)
        ndcg = {spec.name: by_retriever[spec.name].per_question[MEASURE] for spec in _SPECS}
        return cls(question_set, [*comparison.rankings.values()], ndcg)

    def means(self, rows: np.ndarray, training: np.ndarray) -> tuple[int, dict[str, float]]:
        """Return the number of questions at `rows`, and mean nDCG@10 by retriever.

        The questions at `training` train the mix; if these are the same rows, it is cross-fitted.
        """
        training_queries = TrainingQueries.from_question_set(self.question_set, training)
        folds = training_queries.folds if np.array_equal(rows, training) else np.full(len(rows), FOLDS)
        n_passages = len(self.question_set.passages)
        parts = [*_RETRIEVERS, *[None] * (len(self.rankings) - len(_SPECS))]
        learned = fit_mix(_select_rows(self.rankings, training), training_queries, parts, n_passages)
        mix = rank_by_mix(_select_rows(self.rankings, rows), learned, folds, n_passages, DEFAULT_CUTOFF)
        means = {name: float(query_ndcg[rows].mean()) for name, query_ndcg in self.ndcg.items()}
        means[_MIX.name] = evaluate(mix, self.question_set.with_questions(rows), (DEFAULT_CUTOFF,)).means()[MEASURE]
        return len(rows), means


def _select_rows(rankings: list[Rankings], rows: np.ndarray) -> list[Rankings]:
    return [Rankings(ranking.indices[rows], ranking.scores[rows]) for ranking in rankings]


def _row(name: str, samples: list[tuple[int, dict[str, float]]]) -> str:
    means = {
        retriever: np.array([sample_means[retriever] for _, sample_means in samples]) for retriever in samples[0][1]
    }
    mix = means.pop(_MIX.name)
    best = max(means, key=lambda retriever: means[retriever].mean())
    differences = 100 * (mix - means[best])
    worst = f"{differences.min():+.2f}" if len(samples) > 1 else ""
    cells = f"{100 * means[best].mean():.2f} | {100 * mix.mean():.2f} | {differences.mean():+.2f} | {worst}"
    return f"| {name} | {samples[0][0]:,} | {best} | {cells} |"
