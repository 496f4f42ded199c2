"""What a language model answers from each retriever's first passages, for an experiment, and how good that is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from chat.endpoint import Endpoint
from data.records import Question, QuestionSet
from reading.generate import Batch, Prices, generate
from reading.generator import GeneratedAnswer, Generator, GeneratorSpec, Support, checked, contains, prompts
from reading.rules import ReadingError, Rules, judged
from reading.scores import EXACT
from retrieval.comparison.compare import Comparison
from retrieval.evaluation.significance import question_groups, share_intervals

CONTAINS = "contains"
CITES = "cites"
CITATIONS_HOLD = "citations_hold"
CITES_NEVER_SENT = "cites_never_sent"
REFUSED_WITH_PASSAGE = "refused_with_passage"
REFUSED_WITHOUT_PASSAGE = "refused_without_passage"


@dataclass(frozen=True)
class GeneratedScores:
    """Values of each question by measure, `(n_questions,)` float64 from 0 to 1, NaN where a measure is not about it.

    Of every question with an answer: exact match and the rules' overlap, of the answer without citations, a refusal
    being no answer; `contains`: a right answer is in it, see `contains`. Of those that did not
    refuse: `cites` any passage, `cites_never_sent`: a number that was never sent. Of those that cite:
    `citations_hold`, the share of its citations that hold its words. Of those to whom a relevant passage was sent,
    `refused_with_passage`; of the others `refused_without_passage`, which is right. Higher is better but for
    `cites_never_sent` and `refused_with_passage`.

    `intervals` are those of the means, at 95%, with questions about the same passages drawn together. `unanswered`
    counts the questions without an answer, which no measure is about: nobody knows what would have been said.
    """

    per_question: dict[str, np.ndarray]
    intervals: dict[str, tuple[float, float]]
    unanswered: int

    def means(self) -> dict[str, float]:
        """Of every measure that is about any question."""
        return {name: float(np.nanmean(self.per_question[name])) for name in self.intervals}


def generated_scores(
    question_set: QuestionSet, answers: Mapping[str, GeneratedAnswer], rules: Rules
) -> GeneratedScores:
    """Judge answers by question id. Raises `ReadingError` (`other_questions`) where none is of the set."""
    questions = question_set.questions
    rows = [row for row, question in enumerate(questions) if question.id in answers]
    if not rows:
        raise ReadingError("other_questions", f"no answer is of a question of {question_set.name!r}")
    told = [_measured(questions[row], answers[questions[row].id], rules) for row in rows]
    citing = (CITES, CITATIONS_HOLD, CITES_NEVER_SENT)
    names = (EXACT, rules.overlap_name, CONTAINS, *citing, REFUSED_WITH_PASSAGE, REFUSED_WITHOUT_PASSAGE)
    per_question = {name: np.full(len(questions), np.nan) for name in names}
    for row, values in zip(rows, told, strict=True):
        for name, value in values.items():
            per_question[name][row] = value
    groups = question_groups(question_set)
    intervals = {name: _interval(values, groups) for name, values in per_question.items() if not np.isnan(values).all()}
    return GeneratedScores(per_question, intervals, len(questions) - len(rows))


def _measured(question: Question, answer: GeneratedAnswer, rules: Rules) -> dict[str, float]:
    exact, overlap = judged(answer.prediction, question.answers, rules)
    held = any(contains(answer.prediction, right, rules) for right in question.answers)
    values = {EXACT: exact, rules.overlap_name: overlap, CONTAINS: float(held) if question.answers else exact}
    found = any(passage.id in question.relevant for passage in answer.sent)
    values[REFUSED_WITH_PASSAGE if found else REFUSED_WITHOUT_PASSAGE] = float(answer.refused)
    if not answer.refused:
        support = [citation.support for citation in checked(answer.cited, answer.sent, rules)]
        values |= {CITES: float(bool(support)), CITES_NEVER_SENT: float(Support.NEVER_SENT in support)}
        if support:
            values[CITATIONS_HOLD] = support.count(Support.HOLDS) / len(support)
    return values


def _interval(values: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    about = ~np.isnan(values)
    _, drawn = np.unique(groups[about], return_inverse=True)  # without gaps
    ((low, high),) = share_intervals(values[about, None], drawn)
    return float(low), float(high)


@dataclass(frozen=True)
class Generated:
    """What came of the questions asked over one retriever's passages; no scores where nothing was answered."""

    batch: Batch
    scores: GeneratedScores | None


@dataclass(frozen=True)
class GeneratorResult:
    """A language model's answers by retriever, of `asked` questions each; one that failed has an `error` alone."""

    name: str
    by_retriever: Mapping[str, Generated] = field(default_factory=dict)
    asked: int = 0
    error: Exception | None = None


def generated(
    spec: GeneratorSpec,
    comparison: Comparison,
    rules: Rules,
    seed: int,
    tell: Callable[[float], None],
) -> GeneratorResult:
    """Ask a language model at the environment's endpoint; where that is not there, tell what was kept of it.

    Of more questions than `spec.questions` so many are drawn, seeded. `most_cost` is for all retrievers together, in
    their order. `tell` is told the share of the questions done.
    """
    try:
        generator, prices = generator_of(spec), None
        if spec.most_cost is not None or spec.price_prompt or spec.price_completion:
            prices = Prices(spec.price_prompt, spec.price_completion, spec.most_cost)
        rows = list(range(len(comparison.question_set.questions)))
        if 0 < spec.questions < len(rows):
            rows = sorted(np.random.default_rng(seed).permutation(len(rows))[: spec.questions].tolist())
        asked = comparison.question_set.with_questions(rows)
        ids = {question.id for question in asked.questions}
        endpoint, found, spent = Endpoint.of(), {}, 0.0
        for number, (name, rankings) in enumerate(comparison.rankings.items()):

            def told(done: int, total: int, cost: float, number: int = number) -> None:
                del cost
                tell((number + done / max(1, total)) / len(comparison.rankings))

            requests = generator.requests(comparison.question_set, rankings)
            requests = [one for one in requests if one.id in ids and one.passages]
            left = replace(prices, most=max(0.0, prices.most - spent)) if prices and prices.most is not None else prices
            batch = generate(generator, requests, endpoint, prices=left, on_progress=told)
            spent += batch.spent
            found[name] = Generated(batch, generated_scores(asked, batch.answers, rules) if batch.answers else None)
        return GeneratorResult(spec.name, found, len(ids))
    except Exception as error:  # the others go on
        return GeneratorResult(spec.name, error=error)


def generator_of(spec: GeneratorSpec) -> Generator:
    """Return the generator of a specification. Raises `ReadingError`: also `no_prompt`, where none has that name."""
    if spec.prompt not in prompts():
        known = ", ".join(prompts())
        raise ReadingError("no_prompt", f"there is no prompt {spec.prompt!r}; there are {known}", known=known)
    return Generator(
        name=spec.name,
        model=spec.model,
        prompt=prompts()[spec.prompt],
        temperature=spec.temperature,
        most_passages=spec.most_passages,
        most_characters=spec.most_characters,
    )
