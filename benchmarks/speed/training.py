"""Training on a laptop: ours against sentence-transformers as documented, in turns, in new processes; and the estimate
before a training against the duration of its steps.

Plain is the library's trainer with its defaults: float32, the base's dropout, all weights, random batches padded to
their longest text, the C library's allocator. Ours are this project's defaults for the packaged base. Both learn from
KorQuAD's training pairs of the article split; a bi-encoder by MultipleNegativesRankingLoss, a cross-encoder by
BinaryCrossEntropyLoss. If the plain way cannot fit a batch into memory, both take half of it; ours is also measured
with the whole batch, and its memory is reported.

LAPTOP_BATCH is the number of examples per step (32), LAPTOP_STEPS the number of timed steps (3), ESTIMATE_STEPS those
of an estimate (15).
"""

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
from benchmarks.quality.article_split import SPLIT
from benchmarks.speed.training_turns import OURS, PLAIN, SHARE_OF_MEMORY, Turn, TurnResult, options_of
from benchmarks.synthetic_data import bi_encoder, korquad
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER, CrossEncoderObjective
from mrc_workbench.training.recipes.examples import cross_encoder_examples, encoder_examples
from mrc_workbench.training.recipes.training_data import TrainingData

RANDOM_LENGTH = 128  # tokens, as KR-SBERT reads


@dataclass(frozen=True)
class TrainingCase:
    """A training: its title, and the turn of our side."""

    name: str
    turn: Turn


@contextmanager
def cases(batch_size: int = 32) -> Iterator[list[TrainingCase]]:
    """Write bases and examples to a temporary workspace, which exists within the block."""
    with TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question_set = read_file(korquad()).question_set
        DEFAULT.write()
        texts = [passage.text for passage in question_set.passages]
        random = str(bi_encoder(Path(folder, "base"), texts, RANDOM_LENGTH, has_dropout=True))
        templates = [
            TrainingCase("bi-encoder, packaged base", Turn(BI_ENCODER, DEFAULT.reference, "ours", "", batch_size)),
            TrainingCase(
                "cross-encoder, packaged base", Turn(CROSS_ENCODER, DEFAULT.reference, "ours", "", batch_size)
            ),
            TrainingCase("bi-encoder, BERT of base size", Turn(BI_ENCODER, random, "ours", "", batch_size)),
        ]
        files = {kind: _examples(kind, question_set, Path(folder)) for kind in (BI_ENCODER, CROSS_ENCODER)}
        yield [
            TrainingCase(case.name, Turn(**{**asdict(case.turn), "columns": files[case.turn.kind]}))
            for case in templates
        ]


def run_turn(turn: Turn, **changed: Any) -> TurnResult | None:
    """Take a turn in a fresh process; None where its memory does not suffice."""
    words = {**asdict(turn), **changed}
    if words["side"] == PLAIN and words["base"] == DEFAULT.reference:
        words["base"] = str(DEFAULT.folder)
    command = [sys.executable, "-m", "benchmarks.speed.training_turns", json.dumps(words)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result = json.loads(done.stdout.splitlines()[-1])
    return TurnResult(**result) if result else None


def _examples(kind: str, question_set: QuestionSet, folder: Path) -> str:
    """What a plain script would read: the examples that ours makes."""
    options: Any = options_of(Turn(kind, DEFAULT.reference, "ours", ""))
    training_data = TrainingData.from_question_set(question_set, SPLIT, options)
    columns, _ = (encoder_examples if kind == BI_ENCODER else cross_encoder_examples)(options, training_data)
    path = folder / f"{kind}.json"
    path.write_text(json.dumps(columns), encoding="utf-8")
    return str(path)


_TARGET_RATIO = 3.0
_PEER = f"sentence-transformers {version('sentence-transformers')} trainer, float32"
_GIB = 2**30
_COMPARED_PAIRS = 4  # pairs of a batch whose losses are compared


def laptop_training() -> list[str]:
    """Return pairs a second and peak memory of both, and their losses over the same batches."""
    columns = (
        "",
        "batch size",
        "pairs per second, library",
        "ours",
        "ratio",
        "ratio by CPU time",
        "peak GiB, library",
        "ours",
        "ratio",
    )
    lines = [f"| {' | '.join(columns)} |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    measured: list[peers.PeerResult] = []
    too_large: list[str] = []
    with cases(int(os.environ.get("LAPTOP_BATCH", "32"))) as trained:
        for case in trained:
            steps = 1 + int(os.environ.get("LAPTOP_STEPS", "3"))
            turn, plain, ours = _in_turns(replace(case, turn=replace(case.turn, steps=steps)))
            if turn.turn.batch_size < case.turn.batch_size:
                too_large.append(_describe_full_batch(case))
            size = f"{case.name}, batch size {turn.turn.batch_size}"
            seconds = (1 / ours.rate, 1 / plain.rate)
            bytes_ = (float(ours.memory), float(plain.memory))
            measured.append(
                peers.summarize_rounds("Training, seconds per pair", _PEER, size, [seconds], target=_TARGET_RATIO)
            )
            measured.append(
                peers.summarize_rounds(
                    "Training, peak memory", _PEER, size, [bytes_], target=_TARGET_RATIO, unit="bytes"
                )
            )
            cells = (
                *(case.name, str(turn.turn.batch_size), f"{plain.rate:.2f}", f"{ours.rate:.2f}"),
                *(f"**{ours.rate / plain.rate:.2f}**", f"{ours.processor_rate / plain.processor_rate:.2f}"),
                *(f"{plain.memory / _GIB:.1f}", f"{ours.memory / _GIB:.1f}", f"**{plain.memory / ours.memory:.2f}**"),
            )
            lines.append(f"| {' | '.join(cells)} |")
        lines += ["", *too_large, *_compare_losses(trained)]
    peers.save_results(measured)
    return lines


def _in_turns(case: TrainingCase) -> tuple[TrainingCase, TurnResult, TurnResult]:
    """Take both turns, with the largest batch, of halves of it, that fits the plain way. Raises `RuntimeError`."""
    turn = case.turn
    while not (plain := run_turn(turn, side=PLAIN)):
        if turn.batch_size <= 2:
            raise RuntimeError(f"{case.name}: not even a pair fits into memory")
        turn = replace(turn, batch_size=turn.batch_size // 2)
    ours = run_turn(turn, side=OURS)
    if not ours:
        raise RuntimeError(f"{case.name}: ours does not fit into memory")
    return replace(case, turn=turn), plain, ours


def _describe_full_batch(case: TrainingCase) -> str:
    """Say of a batch that is too large for the plain way what ours holds of it."""
    limit = psutil.virtual_memory().available * SHARE_OF_MEMORY / _GIB
    ours = run_turn(replace(case.turn, steps=2), side=OURS)  # the first is not timed
    needed = f"ours needs {ours.memory / _GIB:.1f} GiB" if ours else "so does ours"
    return f"- {case.name}, batch size {case.turn.batch_size}: the library needs more than {limit:.1f} GiB; {needed}."


def _compare_losses(trained: list[TrainingCase]) -> list[str]:
    """A line for each case of the packaged base: losses of steps over the same batches, nothing dropped at random."""
    lines = []
    for case in trained[:2]:
        batches = np.random.default_rng(0).permutation(2000)[: 3 * _COMPARED_PAIRS].reshape(3, _COMPARED_PAIRS).tolist()
        turn = replace(case.turn, batch_size=_COMPARED_PAIRS, steps=3, batches=batches)
        exact = {"precision": Precision.FLOAT32.value}
        sides = (
            ("library", run_turn(turn, side=PLAIN, frozen_table=True)),
            ("ours", run_turn(turn, side=OURS, frozen_table=True, **exact)),
            ("ours in bfloat16", run_turn(turn, side=OURS, frozen_table=True, precision=Precision.BFLOAT16.value)),
        )
        summary = "; ".join(f"{name} {_format_losses(result)}" for name, result in sides if result)
        lines.append(f"- Losses on the same batches without dropout, {case.name}: {summary}.")
    return lines


def _format_losses(result: TurnResult) -> str:
    return ", ".join(f"{loss:.4f}" for loss in result.losses)


def training_estimate() -> list[str]:
    """Return, for each training, seconds a step and the most memory as predicted and as they came out.

    ESTIMATE_STEPS is the steps taken (15).
    """
    lines = [
        "|  | seconds per step, estimated | measured | ratio | peak GiB, estimated | measured | ratio "
        "| seconds to estimate |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    with cases() as trained:
        bi, cross, random = trained
        lists = TrainingCase(
            "cross-encoder, RankNet", replace(cross.turn, objective=CrossEncoderObjective.RANKNET.value, batch_size=8)
        )
        for case in (bi, cross, lists, random):
            turn = replace(case.turn, steps=1 + int(os.environ.get("ESTIMATE_STEPS", "15")))
            began = perf_counter()
            estimate = _run_estimate(turn)
            estimate_seconds = perf_counter() - began
            result = run_turn(turn)
            if result is None:
                lines.append(f"| {case.name} | {estimate['seconds_per_step']:.2f} | does not fit | | | | | |")
                continue
            seconds = float(np.mean(result.seconds))
            memory = result.memory
            cells = (
                *(case.name, f"{estimate['seconds_per_step']:.2f}", f"{seconds:.2f}"),
                *(
                    f"{estimate['seconds_per_step'] / seconds:.2f}",
                    f"{estimate['memory'] / _GIB:.2f}",
                    f"{memory / _GIB:.2f}",
                ),
                *(f"{estimate['memory'] / memory:.2f}", f"{estimate_seconds:.0f}"),
            )
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _run_estimate(turn: Turn) -> dict[str, Any]:
    """The estimate of our command, in a new process."""
    options = options_of(turn)
    words = ["--data", str(korquad()), "--estimate"]
    words += ["--validation-share", str(SPLIT.validation), "--test-share", str(SPLIT.test)]
    for name in (
        "base",
        "objective",
        "batch_size",
        "max_length",
        "precision",
        "group_batches_by",
        "temperature",
        "epochs",
    ):
        if hasattr(options, name):
            words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    if turn.kind == BI_ENCODER:
        words += ["--frozen-layers", "0", "--no-shared-passages"]
    command = [sys.executable, "-m", "mrc_workbench", "train", turn.kind, *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    estimate: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{\n") :])
    return estimate
