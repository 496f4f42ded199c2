"""KorQuAD's dev set by its articles: the first 40 of the shuffled ones are the test, 14 choose values, 86 teach."""

from benchmarks.material import korquad
from data.records import QuestionSet
from data.split import Part, SplitOptions
from retrieval.comparison.compare import Comparison, compare
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.spec import Spec
from retrieval.evaluation.measures import Scores
from retrieval.evaluation.significance import Pair, intervals_of, paired_tests, question_groups

SPLIT = SplitOptions(validation=0.1, test=40 / 140)
# 28 articles instead of 14: BM25 finds nearly all there, and what is chosen on the few questions left went astray
MORE_VALIDATION = SplitOptions(validation=0.2, test=40 / 140)
MEASURE = "ndcg@10"


def compared(question_set: QuestionSet, part: Part, *retrievers: Spec, split: SplitOptions = SPLIT) -> Comparison:
    """Compare retrievers on a part of the questions."""
    experiment = Experiment(
        data=str(korquad()),
        split=part,
        validation_share=split.validation,
        test_share=split.test,
        seed=split.seed,
        ks=(1, 10),
        retriever=retrievers,
    )
    return compare(experiment, question_set)


def scores(comparison: Comparison) -> dict[str, Scores]:
    """The scores by retriever. Raises `RuntimeError` where one failed."""
    if failed := [result for result in comparison.results if result.error]:
        raise RuntimeError(f"{failed[0].name}: {failed[0].error}")
    return comparison.scores


def figures(comparison: Comparison) -> dict[str, float]:
    """Mean nDCG@10 by retriever."""
    return {name: one.means()[MEASURE] for name, one in scores(comparison).items()}


def table(tested: Comparison) -> list[str]:
    """Markdown: a row a retriever, in percent, with the interval of nDCG@10."""
    groups = question_groups(tested.question_set)
    lines = [
        f"| {len(tested.question_set.questions):,} test questions | R@1 | R@10 | nDCG@10 | 95% |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, one in scores(tested).items():
        means, (low, high) = one.means(), intervals_of(one, groups)[MEASURE]
        cells = " | ".join(f"{means[measure] * 100:.2f}" for measure in ("recall@1", "recall@10", MEASURE))
        lines.append(f"| {name} | {cells} | {low * 100:.2f} to {high * 100:.2f} |")
    return lines


def differences(tested: Comparison, *pairs: tuple[str, str]) -> list[str]:
    """A sentence a pair: how far the second is above the first, and how sure that is."""
    of = scores(tested)
    family = [
        Pair(second, first, MEASURE, of[second].per_question[MEASURE], of[first].per_question[MEASURE])
        for first, second in pairs
    ]
    together = f" with all {len(pairs)} tested together" if len(pairs) > 1 else ""
    return [
        f"{test.a} is {test.difference * 100:.2f} points of nDCG@10 above {test.b} ({test.low * 100:.2f} to "
        f"{test.high * 100:.2f}; p = {test.p_family:.4f}{together}); better for {test.wins} questions, worse for "
        f"{test.losses}."
        for test in paired_tests(family, question_groups(tested.question_set))
    ]
