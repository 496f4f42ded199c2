"""What a trial has come to, as its run folder holds it: the scores where a round ended, and the losses."""

import numpy as np

from retrieval.evaluation.measures import Scores
from training.rankers.material import MEASURED_KS
from training.runs.runs import Run

_FILE = "rounds.json"
_LOSSES = 5  # logged last, that are averaged

Measured = dict[float, tuple[int, Scores]]  # by share of the longest trial's length: the step, and the scores there


def keep_scores(run: Run, share: float, step: int, scores: Scores) -> None:
    """Write the measures of each validation question down."""
    values = {name: of.tolist() for name, of in scores.per_question.items()}
    run.write(_FILE, run.read(_FILE) | {str(share): {"step": step, "scores": values}})


def measured(run: Run) -> Measured:
    """Return where a trial was measured; empty where it never was."""
    kept = {float(share): (one["step"], one["scores"]) for share, one in run.read(_FILE).items()}
    return {
        share: (step, Scores(MEASURED_KS, {name: np.array(values) for name, values in scores.items()}))
        for share, (step, scores) in kept.items()
    }


def loss_of(run: Run) -> float | None:
    """Return the mean of the losses logged last, None where none was."""
    losses: list[float] = [entry["loss"] for entry in run.progress() if "loss" in entry]
    return float(np.mean(losses[-_LOSSES:])) if losses else None
