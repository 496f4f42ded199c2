"""The comparison: several retrievers, the same questions, every measure side by side."""

import logging
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.records import QuestionSet
from data.split import split
from retrieval.experiment import Experiment, retrievers_of
from retrieval.hub import ModelError
from retrieval.kept import Kept
from retrieval.metrics import Scores, depth_of, evaluate
from retrieval.rankings import Rankings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Result:
    """What one retriever found. A retriever that failed has an `error` and no score: never a score of 0."""

    name: str
    rankings: Rankings | None = None
    scores: Scores | None = None
    build_seconds: float = 0.0
    query_seconds: float = 0.0  # for all questions
    memory_bytes: int = 0  # of the index, 0 where not known
    short: int = 0  # questions for which fewer passages than the largest K were found
    unanswered: int = 0  # questions for which none was found
    notes: tuple[str, ...] = ()  # what was passed over in an imported run
    error: Exception | None = None


@dataclass(frozen=True)
class Comparison:
    """Results over the questions asked, in the order of the experiment."""

    experiment: Experiment
    asked: QuestionSet  # the whole corpus, the questions of the part compared
    results: tuple[Result, ...]

    def as_dict(self) -> dict[str, object]:
        """Return the content of `scores.json`: measures as shares between 0 and 1, times in seconds."""
        return {
            "data": self.asked.name,
            "fingerprint": self.asked.fingerprint,
            "split": self.experiment.split.value,
            "questions": len(self.asked.questions),
            "passages": len(self.asked.passages),
            "retrievers": {result.name: _result_dict(result) for result in self.results},
        }


def _result_dict(result: Result) -> dict[str, object]:
    if result.scores is None:
        known = {"code": result.error.code, "model": result.error.model} if isinstance(result.error, ModelError) else {}
        return {"error": str(result.error), **known}
    seconds = {"build_seconds": result.build_seconds, "query_seconds": result.query_seconds}
    return {**result.scores.means(), **seconds}


def compare(
    experiment: Experiment,
    question_set: QuestionSet,
    *,
    base: Path | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    failed: Mapping[str, Exception] | None = None,
) -> Comparison:
    """Search and score every retriever of the experiment over the questions of its split.

    Those in `failed` are not tried again: they failed so when this was run before.
    `on_progress(name, share)` is told which retriever is at work and how much of all work is done, 0 to 1. Raises
    `ValueError` where the split has no question with a relevant passage.
    """
    tell = on_progress or _say_nothing
    asked = split(question_set, experiment.split_options).questions(question_set, experiment.split)
    if not asked.questions:
        raise ValueError(f"the {experiment.split.value} part has no question with a relevant passage")
    count = len(experiment.retriever)
    results: list[Result] = []

    def tell_within(name: str, share: float) -> None:
        tell(name, (len(results) + share) / count)

    made = retrievers_of(experiment, question_set, base, tell_within)
    for spec, retriever in zip(experiment.retriever, made, strict=True):
        tell(spec.name, len(results) / count)
        results.append(_result(spec.name, (failed or {}).get(spec.name, retriever), asked, experiment.ks))
    tell("", 1.0)
    return Comparison(experiment, asked, tuple(results))


def failures(scores: dict[str, Any]) -> dict[str, Exception]:
    """Return what went wrong, by retriever, in the content of a `scores.json`."""
    failed = {name: entry for name, entry in scores.get("retrievers", {}).items() if "error" in entry}
    return {
        name: ModelError(entry["code"], entry["model"], entry["error"])
        if "code" in entry
        else RuntimeError(entry["error"])
        for name, entry in failed.items()
    }


def is_kept(experiment: Experiment, question_set: QuestionSet, failed: Container[str] = ()) -> bool:
    """Whether `compare` would find every ranking on disk, and so take no time; `failed` retrievers do not count."""
    asked = split(question_set, experiment.split_options).questions(question_set, experiment.split)
    texts = [question.text for question in asked.questions]
    return all(
        spec.name in failed or isinstance(made, Exception) or made.remembers(texts, depth_of(experiment.ks))
        for spec, made in zip(experiment.retriever, retrievers_of(experiment, question_set), strict=True)
    )


def _say_nothing(name: str, share: float) -> None:
    del name, share


def _result(name: str, retriever: Kept | Exception, asked: QuestionSet, ks: tuple[int, ...]) -> Result:
    if isinstance(retriever, Exception):
        return Result(name, error=retriever)
    try:
        rankings = retriever.search([question.text for question in asked.questions], depth_of(ks))
    except Exception as error:
        logger.exception("retriever %r failed", name)
        return Result(name, error=error)
    scores = evaluate(rankings, asked, ks)
    return Result(name, rankings, scores, retriever.build_seconds, retriever.query_seconds)
