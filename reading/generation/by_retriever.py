"""What a language model answers from each retriever's first passages, for an experiment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from chat.endpoint import Endpoint
from data.records import QuestionSet
from reading.experiment import GeneratorSpec
from reading.generation.generate import Batch, generate
from reading.generation.generator import Generator
from reading.generation.prices import Prices
from reading.generation.prompts import prompts
from reading.generation.scores import GeneratedScores, generated_scores
from reading.judge.rules import ReadingError, Rules
from retrieval.comparison.compare import Comparison


@dataclass(frozen=True)
class Generated:
    """What came of the questions asked over one retriever's passages; no scores where nothing was answered."""

    batch: Batch
    scores: GeneratedScores | None


@dataclass(frozen=True)
class GeneratorResult:
    """A language model's answers by retriever. One that failed has an `error` and nothing else.

    `asked` is how many questions it was to answer from each.
    """

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
        generator, prices = generator_of(spec), _prices(spec)
        asked = _drawn(comparison.question_set, spec.questions, seed)
        endpoint, found, spent = Endpoint.of(), {}, 0.0
        for number, (name, rankings) in enumerate(comparison.rankings.items()):

            def told(done: int, total: int, cost: float, number: int = number) -> None:
                del cost
                tell((number + done / max(1, total)) / len(comparison.rankings))

            requests = [
                one for one in generator.requests(comparison.question_set, rankings) if one.id in asked and one.passages
            ]
            left = replace(prices, most=max(0.0, prices.most - spent)) if prices and prices.most is not None else prices
            batch = generate(generator, requests, endpoint, prices=left, on_progress=told)
            spent += batch.spent
            judged = comparison.question_set.with_questions(
                [row for row, one in enumerate(comparison.question_set.questions) if one.id in asked]
            )
            found[name] = Generated(batch, generated_scores(judged, batch.answers, rules) if batch.answers else None)
        return GeneratorResult(spec.name, found, len(asked))
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


def _prices(spec: GeneratorSpec) -> Prices | None:
    if spec.most_cost is None and not spec.price_prompt and not spec.price_completion:
        return None
    return Prices(spec.price_prompt, spec.price_completion, spec.most_cost)


def _drawn(question_set: QuestionSet, most: int, seed: int) -> set[str]:
    """The ids of the questions that are asked."""
    questions = question_set.questions
    if not 0 < most < len(questions):
        return {question.id for question in questions}
    rows = np.random.default_rng(seed).permutation(len(questions))[:most]
    return {questions[row].id for row in rows.tolist()}
