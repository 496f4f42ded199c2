"""What a finished training's figures say about what to do next."""

from enum import StrEnum
from typing import Any

from models.sources import STARTER
from training.options.questions import READER
from training.runs.curves import Points
from training.runs.runs import Plan

_NEARLY_ALL = 0.99


class Advice(StrEnum):
    """What is seen, and so what may help."""

    AT_THE_TOP = "at_the_top"  # nearly nothing was missing before: these questions cannot show a gain
    READ_AT_THE_TOP = "read_at_the_top"  # the same of a reader, which is told other ways on
    NOTHING_LEARNED = "nothing_learned"  # not even on questions it learned from: larger steps, or more of them
    NOT_CARRIED_OVER = "not_carried_over"  # better where it learned, not elsewhere: more articles, not more epochs
    STARTER_NOT_CARRIED_OVER = "starter_not_carried_over"  # the same of a base that knows only words it has seen
    MIXED_UNSURE = "mixed_unsure"  # a better reranker, but BM25 mixed with it is not surely better than BM25
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
    if low <= 0:
        if scores["before"][gain["measure"]] >= _NEARLY_ALL:
            return Advice.READ_AT_THE_TOP if plan.kind == READER else Advice.AT_THE_TOP
        if sample_low <= 0:
            return Advice.NOTHING_LEARNED
        return Advice.STARTER_NOT_CARRIED_OVER if plan.options.base == STARTER else Advice.NOT_CARRIED_OVER
    mixed = scores.get("mixed_gain")
    unsure = mixed and mixed["interval"][0] <= 0
    return Advice.MIXED_UNSURE if unsure else _course(scores.get("kept_step", 0), measured)


def _course(kept: int, measured: Points) -> Advice | None:
    """How the validation figures went on after the step that was kept."""
    steps = dict(measured)
    if kept not in steps or len(steps) < 3:  # the base and one measurement are no course
        return None
    last = max(steps)
    if kept == last:
        return Advice.STILL_RISING
    return Advice.PAST_ITS_BEST if steps[last] < steps[kept] else None
