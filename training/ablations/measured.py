"""What judges the variants of an ablation: hidden tokens, scored pairs and test questions, with their intervals."""

from collections.abc import Mapping
from typing import NamedTuple

from data.pairs.records import PairSet
from data.records import QuestionSet
from data.split import Part, SplitOptions
from embeddings.evaluate import evaluate
from language.masking.perplexity import FOLLOWED, GUESSED, PERPLEXITY
from retrieval.comparison.compare import compare
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.first_stage import DenseSpec
from retrieval.evaluation.significance import Pair, intervals_of, paired_tests, question_groups
from training.runs.runs import Run
from training.runs.sweeps import REFERENCE, Difference, Interval

NDCG = "ndcg@10"
SPEARMAN, SPEARMAN_BEFORE = "spearman", "spearman_before"  # of the fine-tuned model, and of what it started from


class Judged(NamedTuple):
    """Figures and differences to the reference by the number of the variant, and how many questions or pairs judge."""

    figures: dict[int, Interval]
    differences: dict[int, Difference]
    judges: int


def of_hidden_tokens(run: Run) -> dict[str, Interval]:
    """Perplexity, share guessed and, of pairs, share told, of a finished language model, by measure."""
    scores = run.scores()
    after, ends = scores.get("after", {}), scores.get("intervals", {}).get("after", {})
    return {
        name: Interval(after[name], *ends[name])
        for name in (PERPLEXITY, GUESSED, FOLLOWED)
        if name in after and name in ends
    }


def of_questions(question_set: QuestionSet, data: str, shares: SplitOptions, models: Mapping[int, str]) -> Judged:
    """nDCG@10 of bi-encoders over the test questions, each held against the reference's, all tested together.

    Rankings are kept as those of any comparison, which opens at once. A model that cannot search has no figure.
    Raises `ValueError` where no test question has a relevant passage.
    """
    names = {number: str(number) for number in models}
    experiment = Experiment(
        data=data,
        split=Part.TEST,
        validation_share=shares.validation,
        test_share=shares.test,
        seed=shares.seed,
        retriever=tuple(DenseSpec(name=names[number], model=model, windows=True) for number, model in models.items()),
    )
    found = compare(experiment, question_set)
    scores = {number: found.scores[name] for number, name in names.items() if name in found.scores}
    groups = question_groups(found.question_set)
    figures = {number: Interval(one.means()[NDCG], *intervals_of(one, groups)[NDCG]) for number, one in scores.items()}
    others = [number for number in scores if number != REFERENCE and REFERENCE in scores]
    pairs = [
        Pair(names[one], names[REFERENCE], NDCG, scores[one].per_question[NDCG], scores[REFERENCE].per_question[NDCG])
        for one in others
    ]
    tests = zip(others, paired_tests(pairs, groups) if pairs else (), strict=True)
    apart = {number: Difference(test.difference, test.low, test.high, test.p_family) for number, test in tests}
    return Judged(figures, apart, len(found.question_set.questions))


def of_pairs(pairs: PairSet, models: Mapping[int, str]) -> Judged:
    """Spearman's correlation of cosine and people's score, each model held against the reference's.

    The pairs are those of the part that `part_to_measure` says. Raises `EmbeddingError`.
    """
    found = evaluate(pairs, list(dict.fromkeys(models.values())))
    figures = {
        number: Interval(*found.measured[model].figures[SPEARMAN])
        for number, model in models.items()
        if model in found.measured
    }
    apart: dict[int, Difference] = {}
    for test in found.differences.get(SPEARMAN, []):
        for number, model in models.items():
            if number == REFERENCE or models.get(REFERENCE) not in (test.a, test.b) or model not in (test.a, test.b):
                continue
            sign = 1 if test.a == model else -1
            low, high = sorted((sign * test.low, sign * test.high))
            apart[number] = Difference(sign * test.difference, low, high, test.p_family)
    return Judged(figures, apart, len(found.rows))
