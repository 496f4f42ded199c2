"""What is said before a training that it would take, against what its steps take, in processes of their own."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.material import korquad
from benchmarks.quality.article_split import SPLIT
from benchmarks.speed.training_cases import Case, cases, taken
from benchmarks.speed.training_turns import Turn, options_of
from training.options.cross_encoder import CrossEncoderObjective

_GIB = 2**30


def measure() -> list[str]:
    """Return, for each training, seconds a step and the most memory as predicted and as they came out.

    ESTIMATE_STEPS is the steps taken (15).
    """
    columns = ("", "seconds a step, said", "came out", "ratio", "GiB, said", "came out", "ratio", "seconds to say it")
    lines = [f"| {' | '.join(columns)} |", "|---|---:|---:|---:|---:|---:|---:|---:|"]
    with cases() as made:
        bi, cross, random = made
        lists = Case(
            "cross-encoder, lists", replace(cross.turn, objective=CrossEncoderObjective.RANKNET.value, batch_size=8)
        )
        for case in (bi, cross, lists, random):
            turn = replace(case.turn, steps=1 + int(os.environ.get("ESTIMATE_STEPS", "15")))
            began = perf_counter()
            said = _said(turn)
            trying = perf_counter() - began
            took = taken(turn)
            if took is None:
                lines.append(f"| {case.name} | {said['seconds_a_step']:.2f} | does not fit | | | | | |")
                continue
            seconds, memory = float(np.mean(took.seconds)), took.memory
            cells = (
                *(case.name, f"{said['seconds_a_step']:.2f}", f"{seconds:.2f}"),
                *(f"{said['seconds_a_step'] / seconds:.2f}", f"{said['memory'] / _GIB:.2f}", f"{memory / _GIB:.2f}"),
                *(f"{said['memory'] / memory:.2f}", f"{trying:.0f}"),
            )
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _said(turn: Turn) -> dict[str, Any]:
    """The estimate of our own command, in a process of its own."""
    options = options_of(turn)
    words = ["--data", str(korquad()), "--estimate"]
    words += ["--validation-share", str(SPLIT.validation), "--test-share", str(SPLIT.test)]
    for name in ("base", "objective", "batch_size", "max_length", "precision", "batches_of", "temperature", "epochs"):
        if hasattr(options, name):
            words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    command = [sys.executable, "-m", "training", turn.kind, *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{\n") :])
    return found
