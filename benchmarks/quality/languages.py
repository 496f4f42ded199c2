"""Compare BM25's `auto` analyzer, which may stem, with words and character bigrams: `python -m benchmarks languages`.

No value is selected on the questions: k1 and b have their defaults, and the language is detected. All questions are
evaluated.
"""

import os
import tempfile
from collections.abc import Iterator

from benchmarks.quality.article_split import MEASURE, metric_cells, scores
from benchmarks.synthetic_data import development_sets
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.text.analyzers import LANGUAGE_OF, Analyzer, resolve_analyzer
from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.significance import Pair, paired_tests, question_groups

_DEFAULT = "BM25"


def languages() -> list[str]:
    """Return a Markdown table with a row per dataset and analyzer, and the difference from default BM25."""
    lines = [
        "| dataset | questions | analyzer | R@1 | nDCG@10 | 95% interval | difference from the default "
        "| 95% interval |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        for name, path in development_sets().items():
            lines += _rows(name, _compare_analyzers(read_file(path).question_set))
    return lines


def _compare_analyzers(question_set: QuestionSet) -> Comparison:
    auto_analyzer = resolve_analyzer(Analyzer.AUTO, question_set.passages.indexed_texts(title=True))
    retrievers = [BM25Spec(name=_DEFAULT)]
    retrievers += [
        BM25Spec(name=analyzer, analyzer=analyzer)
        for analyzer in (Analyzer.WORD, Analyzer.BIGRAM)
        if analyzer is not auto_analyzer
    ]
    if auto_analyzer in LANGUAGE_OF:
        retrievers.append(BM25Spec(name="stems, without stop words", stop_words=True))
    experiment = Experiment(data="", split=Part.ALL, ks=(1, 10), retriever=tuple(retrievers))
    return compare(experiment, question_set)


def _rows(name: str, comparison: Comparison) -> Iterator[str]:
    question_set = comparison.question_set
    scores_by_retriever = scores(comparison)
    groups = question_groups(question_set)
    default = scores_by_retriever[_DEFAULT].per_question[MEASURE]
    others = [entry for entry in scores_by_retriever if entry != _DEFAULT]
    tests = paired_tests(
        [Pair(entry, _DEFAULT, MEASURE, scores_by_retriever[entry].per_question[MEASURE], default) for entry in others],
        groups,
    )
    auto_analyzer = resolve_analyzer(Analyzer.AUTO, question_set.passages.indexed_texts(title=True))
    differences = {test.a: test for test in tests}
    for retriever, entry in scores_by_retriever.items():
        is_default = retriever == _DEFAULT
        first = f"{name} | {len(question_set.questions):,}" if is_default else " | "
        label = f"`auto`: {auto_analyzer}" if is_default else retriever
        cells = metric_cells(entry, groups, ("recall@1", MEASURE))
        difference_cells = " | "
        if not is_default:
            test = differences[retriever]
            difference_cells = f"{test.difference * 100:+.2f} | {test.low * 100:+.2f} to {test.high * 100:+.2f}"
        yield f"| {first} | {label} | {cells} | {difference_cells} |"
