"""Compare the best mix with its best retriever, with all questions of a set and with samples of 60.

No mix ranks a question by weights that saw it: each is cross-fitted by groups of passages, except on KorQuAD's 40 test
articles, where all questions of the other articles train it. BENCH_SETS names the sets to measure, all by default.
"""

import os
from collections.abc import Iterator

import numpy as np

from benchmarks.material import development_sets
from benchmarks.quality.article_split import MEASURE, compared, scores, workspace
from benchmarks.quality.mixes import labelled_sets
from data.questions.read import read_file
from data.records import QuestionSet
from data.split import Part
from models.packaged import DEFAULT
from retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec
from retrieval.comparison.multistage import LearnedSpec
from retrieval.comparison.spec import Spec

_MIX = "Best mix"
_SPECS: tuple[Spec, ...] = (
    BM25Spec(name="BM25"),
    DenseSpec(name="Dense", model=DEFAULT.reference, windows=True),
    LateSpec(name="Late", model=DEFAULT.reference, windows=True),
    LearnedSpec(name=_MIX, of=("BM25", "Dense", "Late"), lessons=5000),
)
_SAMPLES, _SIZE = 20, 60


def mixes_of_few() -> list[str]:
    """Return a Markdown table: nDCG@10 in percent of the mix and of its best retriever, and the difference."""
    lines = [
        "| | questions | best retriever | | mix | difference | worst sample |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    with workspace():
        for question_set, part in _sets():
            lines.append(_row(question_set.name, [_means(question_set, part)]))
            lines.append(_row(f"{_SAMPLES} samples", [_means(some, Part.ALL) for some in _samples(question_set)]))
    return lines


def _sets() -> Iterator[tuple[QuestionSet, Part]]:
    selected = os.environ.get("BENCH_SETS", "").split(",")
    others = (
        (read_file(path).question_set, Part.ALL) for name, path in development_sets().items() if "KorQ" not in name
    )
    for question_set, part in (*labelled_sets(), *others):
        if selected == [""] or question_set.name in selected:
            yield question_set, part


def _samples(question_set: QuestionSet) -> Iterator[QuestionSet]:
    """Yield the set with samples of its answerable questions."""
    rows = np.asarray(question_set.answerable)
    for seed in range(_SAMPLES):
        drawn = np.random.default_rng(seed).permutation(len(rows))[:_SIZE]
        yield question_set.with_questions(np.sort(rows[drawn]))


def _means(question_set: QuestionSet, part: Part) -> tuple[int, dict[str, float]]:
    """Return the number of questions, and mean nDCG@10 by retriever."""
    comparison = compared(question_set, part, *_SPECS)
    means = {name: of_retriever.means()[MEASURE] for name, of_retriever in scores(comparison).items()}
    return len(comparison.question_set.questions), means


def _row(name: str, samples: list[tuple[int, dict[str, float]]]) -> str:
    means = {retriever: np.array([of_sample[retriever] for _, of_sample in samples]) for retriever in samples[0][1]}
    mix = means.pop(_MIX)
    best = max(means, key=lambda retriever: means[retriever].mean())
    differences = 100 * (mix - means[best])
    worst = f"{differences.min():+.2f}" if len(samples) > 1 else ""
    figures = f"{100 * means[best].mean():.2f} | {100 * mix.mean():.2f} | {differences.mean():+.2f} | {worst}"
    return f"| {name} | {samples[0][0]:,} | {best} | {figures} |"
