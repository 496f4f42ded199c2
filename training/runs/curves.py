"""A run's figures against its steps, and what they say about what to do next."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from mrc_workbench.models.sources import STARTER
from mrc_workbench.training.recipe import RECIPES
from mrc_workbench.training.runs.runs import Plan, Run
from mrc_workbench.training.text_options import READER

MOST_POINTS = 500
MEASURES = tuple(dict.fromkeys(name for recipe in RECIPES.values() for name in recipe.family.curves))
Points = list[tuple[int, float]]  # step and value


@dataclass(frozen=True)
class Curves:
    """The points of each name that was asked for, and what BM25 reaches where the name is a measure and that is known.

    A name that was never logged has no points; a figure that is no finite number is nan. `beside` holds what was seen
    on the other questions: a measure of the training sample, and the loss of the validation questions.
    """

    points: dict[str, Points]
    bm25: dict[str, float]
    beside: dict[str, Points]


def curves(run: Run, names: Iterable[str]) -> Curves:
    """Read figures of the run's progress: `loss`, `learning_rate`, `grad_norm`, `examples_per_second`, or `MEASURES`.

    The first point of a measure, at step 0, is the base model.
    """
    entries, found = run.progress(), Curves({}, {}, {})
    for name in names:
        own: tuple[str, ...] = (name,)
        others: tuple[str, ...] = ("eval_loss",) if name == "loss" else ()
        if name in MEASURES:
            # bi-encoders were once measured by a library's evaluator, which names what it compares by
            own = (f"before_{name}", f"eval_validation_{name}", f"eval_validation_cosine_{name}")
            others = (f"before_training_{name}", f"eval_training_{name}")
        found.points[name] = thinned(_logged(entries, *own))
        found.beside[name] = thinned(_logged(entries, *others))
        if bm25 := _logged(entries, f"bm25_{name}"):
            found.bm25[name] = bm25[0][1]
    return found


def thinned(points: Sequence[tuple[int, float]], most: int = MOST_POINTS) -> Points:
    """Return at most `most` of the points, evenly spaced, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[row] for row in np.linspace(0, len(points) - 1, most).round().astype(int)]


def _logged(entries: list[dict[str, Any]], *keys: str) -> Points:
    found = [(entry.get("step"), entry[key]) for entry in entries for key in keys if key in entry]
    return [
        (step, float(value) if math.isfinite(value) else math.nan)
        for step, value in found
        if type(step) is int and isinstance(value, int | float)  # a line may be damaged
    ]


class Advice(StrEnum):
    """What is seen, and so what may help."""

    AT_THE_TOP = "at_the_top"  # nearly nothing was missing before: these questions cannot show a gain
    READ_AT_THE_TOP = "read_at_the_top"  # the same of a reader, which is told other ways on
    NOTHING_LEARNED = "nothing_learned"  # not even on questions it learned from: larger steps, or more of them
    STARTER_NOTHING_LEARNED = "starter_nothing_learned"  # a starter rarely learns: a pretrained base does
    NOT_CARRIED_OVER = "not_carried_over"  # better where it learned, not elsewhere: more articles, not more epochs
    STARTER_NOT_CARRIED_OVER = "starter_not_carried_over"  # the same of a base that knows only words it has seen
    MIXED_UNSURE = "mixed_unsure"  # a better reranker, but BM25 mixed with it is not surely better than BM25
    STARTER_MIXED_UNSURE = "starter_mixed_unsure"
    FELL = "fell"  # surely worse than its base: smaller steps
    STILL_RISING = "still_rising"  # the last measurement is the best: more epochs may go on
    PAST_ITS_BEST = "past_its_best"  # later steps were worse: more epochs will not help


def advice(plan: Plan, scores: dict[str, Any], measured: Points) -> Advice | None:
    """Tell what fits the figures of a run; None where they say nothing, or are of a version that knew too little.

    `measured` are the points of the measure that picked the checkpoint, on validation questions. A gain counts as one
    where its 95% interval lies above 0.
    """
    sample, gain = scores.get("training_sample") or {}, scores.get("gain") or {}
    if not gain or not sample.get("gain"):
        return None
    (low, high), (sample_low, _) = gain["interval"], sample["gain"]["interval"]
    if high < 0:
        return Advice.FELL
    starter = plan.options.base == STARTER
    if low <= 0:
        at_the_top = scores["before"][gain["measure"]] >= 0.99
        return _no_gain(plan, at_the_top=at_the_top, learned=sample_low > 0, starter=starter)
    mixed = scores.get("mixed_gain")
    if mixed and mixed["interval"][0] <= 0:
        return Advice.STARTER_MIXED_UNSURE if starter else Advice.MIXED_UNSURE
    return _course(scores.get("kept_step", 0), dict(measured))


def _no_gain(plan: Plan, *, at_the_top: bool, learned: bool, starter: bool) -> Advice:
    """What fits a training without a sure gain; `learned`: there is one on the questions it learned from."""
    if at_the_top:
        return Advice.READ_AT_THE_TOP if plan.kind == READER else Advice.AT_THE_TOP
    if learned:
        return Advice.STARTER_NOT_CARRIED_OVER if starter else Advice.NOT_CARRIED_OVER
    return Advice.STARTER_NOTHING_LEARNED if starter else Advice.NOTHING_LEARNED


def _course(kept: int, steps: dict[int, float]) -> Advice | None:
    """How the validation figures went on after the step that was kept."""
    if kept not in steps or len(steps) < 3:  # the base and one measurement are no course
        return None
    last = max(steps)
    if kept == last:
        return Advice.STILL_RISING
    return Advice.PAST_ITS_BEST if steps[last] < steps[kept] else None
