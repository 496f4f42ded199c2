"""Training on a laptop: ours against sentence-transformers as its documentation starts, in turns, in fresh processes;
and what is said before a training that it would take, against what its steps take.

Plain is the library's trainer with its defaults: float32, the base's dropout, all weights, batches at random, padded to
their longest text, the C library's allocator. Ours are this project's defaults for the packaged base. Both learn from
KorQuAD's training pairs of the article split; a bi-encoder by MultipleNegativesRankingLoss, a cross-encoder by
BinaryCrossEntropyLoss. Where a batch does not fit into memory the plain way, both take half of it; ours is taken whole,
too, and what it holds is told beside what was not enough.

LAPTOP_BATCH is the examples a step (32), LAPTOP_STEPS the steps that are timed (3), ESTIMATE_STEPS those of an estimate
(15)."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import psutil

from benchmarks import peers
from benchmarks.material import bi_encoder, korquad
from benchmarks.quality.article_split import SPLIT
from benchmarks.speed.training_turns import OURS, PLAIN, SHARE_OF_MEMORY, Took, Turn, options_of
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER, CrossEncoderObjective
from mrc_workbench.training.recipes.examples import cross_encoder_examples, encoder_examples
from mrc_workbench.training.recipes.material import Material

RANDOM_LENGTH = 128  # tokens, as KR-SBERT reads


@dataclass(frozen=True)
class Case:
    """A training: what it is called, and the turn that ours takes."""

    name: str
    turn: Turn


@contextmanager
def cases(batch_size: int = 32) -> Iterator[list[Case]]:
    """Write bases and examples to a workspace of their own, there within the block."""
    with TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question_set = read_file(korquad()).question_set
        DEFAULT.write()
        texts = [passage.text for passage in question_set.passages]
        random = str(bi_encoder(Path(folder, "base"), texts, RANDOM_LENGTH, forgets=True))
        made = [
            Case("bi-encoder, packaged base", Turn(BI_ENCODER, DEFAULT.reference, "ours", "", batch_size)),
            Case("cross-encoder, packaged base", Turn(CROSS_ENCODER, DEFAULT.reference, "ours", "", batch_size)),
            Case("bi-encoder, BERT of base size", Turn(BI_ENCODER, random, "ours", "", batch_size)),
        ]
        files = {kind: _examples(kind, question_set, Path(folder)) for kind in (BI_ENCODER, CROSS_ENCODER)}
        yield [Case(one.name, Turn(**{**asdict(one.turn), "columns": files[one.turn.kind]})) for one in made]


def taken(turn: Turn, **changed: Any) -> Took | None:
    """Take a turn in a fresh process; None where its memory does not suffice."""
    words = {**asdict(turn), **changed}
    if words["side"] == PLAIN and words["base"] == DEFAULT.reference:
        words["base"] = str(DEFAULT.folder)
    command = [sys.executable, "-m", "benchmarks.speed.training_turns", json.dumps(words)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return Took(**found) if found else None


def _examples(kind: str, question_set: QuestionSet, folder: Path) -> str:
    """What a plain script would read: the examples that ours makes."""
    options: Any = options_of(Turn(kind, DEFAULT.reference, "ours", ""))
    material = Material.of(question_set, SPLIT, options)
    columns, _ = (encoder_examples if kind == BI_ENCODER else cross_encoder_examples)(options, material)
    path = folder / f"{kind}.json"
    path.write_text(json.dumps(columns), encoding="utf-8")
    return str(path)


_WANTED = 3.0
_PEER = f"sentence-transformers {version('sentence-transformers')} trainer, float32"
_GIB = 2**30
_SAME = 4  # pairs of a batch whose losses are compared


def laptop_training() -> list[str]:
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


def training_estimate() -> list[str]:
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
    if turn.kind == BI_ENCODER:
        words += ["--frozen-layers", "0", "--no-shared-passages"]
    command = [sys.executable, "-m", "mrc_workbench", "train", turn.kind, *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{\n") :])
    return found
