"""Training on a laptop: ours against sentence-transformers as its documentation starts, in turns, in fresh processes.

Plain is the library's trainer with its defaults: float32, the base's dropout, all weights, batches at random, padded to
their longest text, the C library's allocator. Ours are this project's defaults for the packaged base. Both learn from
KorQuAD's training pairs of the article split; a bi-encoder by MultipleNegativesRankingLoss, a cross-encoder by
BinaryCrossEntropyLoss. Where a batch does not fit into memory the plain way, both take half of it; ours is taken whole,
too, and what it holds is told beside what was not enough.

LAPTOP_BATCH is the examples a step (32), LAPTOP_STEPS the steps that are timed (3).
"""

import os
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import psutil

from benchmarks import peers
from benchmarks.speed.training_cases import Case, cases, taken
from benchmarks.speed.training_turns import OURS, PLAIN, SHARE_OF_MEMORY, Took
from models.precision import Precision

_WANTED = 3.0
_PEER = f"sentence-transformers {version('sentence-transformers')} trainer, float32"
_GIB = 2**30
_SAME = 4  # pairs of a batch whose losses are compared


def measure() -> list[str]:
    """Return pairs a second and peak memory of both, and their losses over the same batches."""
    columns = (
        "",
        "batch",
        "pairs a second, plain",
        "ours",
        "times",
        "processor's seconds",
        "GiB, plain",
        "ours",
        "times",
    )
    lines = [f"| {' | '.join(columns)} |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    measured: list[peers.Measured] = []
    too_large: list[str] = []
    with cases(int(os.environ.get("LAPTOP_BATCH", "32"))) as trained:
        for case in trained:
            steps = 1 + int(os.environ.get("LAPTOP_STEPS", "3"))
            turn, plain, ours = _in_turns(replace(case, turn=replace(case.turn, steps=steps)))
            if turn.turn.batch_size < case.turn.batch_size:
                too_large.append(_whole(case))
            size = f"{case.name}, {turn.turn.batch_size} a batch"
            seconds = (1 / ours.rate, 1 / plain.rate)
            bytes_ = (float(ours.memory), float(plain.memory))
            measured.append(peers.of_rounds("Training, seconds a pair", _PEER, size, [seconds], wanted=_WANTED))
            measured.append(
                peers.of_rounds("Training, peak memory", _PEER, size, [bytes_], wanted=_WANTED, unit="bytes")
            )
            cells = (
                *(case.name, str(turn.turn.batch_size), f"{plain.rate:.2f}", f"{ours.rate:.2f}"),
                *(f"**{ours.rate / plain.rate:.2f}**", f"{ours.processor_rate / plain.processor_rate:.2f}"),
                *(f"{plain.memory / _GIB:.1f}", f"{ours.memory / _GIB:.1f}", f"**{plain.memory / ours.memory:.2f}**"),
            )
            lines.append(f"| {' | '.join(cells)} |")
        lines += ["", *too_large, *_same_losses(trained)]
    peers.keep(measured)
    return lines


def _in_turns(case: Case) -> tuple[Case, Took, Took]:
    """Take both turns, with the largest batch, of halves of it, that fits the plain way. Raises `RuntimeError`."""
    turn = case.turn
    while not (plain := taken(turn, side=PLAIN)):
        if turn.batch_size <= 2:
            raise RuntimeError(f"{case.name}: not even a pair fits into memory")
        turn = replace(turn, batch_size=turn.batch_size // 2)
    ours = taken(turn, side=OURS)
    if not ours:
        raise RuntimeError(f"{case.name}: ours does not fit into memory")
    return replace(case, turn=turn), plain, ours


def _whole(case: Case) -> str:
    """Say of a batch that is too large for the plain way what ours holds of it."""
    limit = psutil.virtual_memory().available * SHARE_OF_MEMORY / _GIB
    ours = taken(replace(case.turn, steps=2), side=OURS)  # the first is not timed
    held = f"ours holds {ours.memory / _GIB:.1f}" if ours else "nor does ours"
    return f"{case.name}, {case.turn.batch_size} a batch: the plain way does not fit into {limit:.1f} GiB; {held}."


def _same_losses(trained: list[Case]) -> list[str]:
    """A line for each case of the packaged base: losses of steps over the same batches, nothing dropped at random."""
    lines = []
    for case in trained[:2]:
        batches = np.random.default_rng(0).permutation(2000)[: 3 * _SAME].reshape(3, _SAME).tolist()
        turn = replace(case.turn, batch_size=_SAME, steps=3, batches=batches)
        exact = {"precision": Precision.FLOAT32.value}
        sides = (
            ("plain", taken(turn, side=PLAIN, frozen_table=True)),
            ("ours", taken(turn, side=OURS, frozen_table=True, **exact)),
            ("ours in bfloat16", taken(turn, side=OURS, frozen_table=True, precision=Precision.BFLOAT16.value)),
        )
        told = "; ".join(f"{name} {_numbers(one)}" for name, one in sides if one)
        lines.append(f"Losses over the same batches, no dropout, {case.name}: {told}.")
    return lines


def _numbers(took: Took) -> str:
    return ", ".join(f"{loss:.4f}" for loss in took.losses)
