"""Compare training with sentence-transformers, and estimates of training with measurements.

`python -m benchmarks laptop_training training_estimate` runs both. The library's trainer has its defaults: float32, the
dropout of the base, all weights, random batches padded to their longest text, and the C library's allocator. Ours has
this project's defaults for the packaged base. Both train on KorQuAD's training pairs, a bi-encoder with
MultipleNegativesRankingLoss, a cross-encoder with BinaryCrossEntropyLoss, each in a new process. If a batch does not
fit into memory with the library, both use half of it; our memory with the full batch is reported, too.
`training_estimate` compares the estimates of `mrc train --estimate` with measured steps.

`LAPTOP_BATCH` sets the batch size (32), `LAPTOP_STEPS` the number of timed steps (3), `ESTIMATE_STEPS` those of
`training_estimate` (15).
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
from benchmarks.speed.timed_training import LIBRARY, MEMORY_FRACTION, OURS, TrainingSetup, TrainingTimes, options_of
from benchmarks.synthetic_data import bi_encoder, korquad
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER, CrossEncoderObjective
from mrc_workbench.training.recipes.examples import cross_encoder_examples, encoder_examples
from mrc_workbench.training.recipes.training_data import TrainingData

RANDOM_LENGTH = 128  # tokens, the maximum of KR-SBERT


@dataclass(frozen=True)
class TrainingCase:
    """A training to compare, with the setup of our side."""

    name: str
    setup: TrainingSetup


@contextmanager
def cases(batch_size: int = 32) -> Iterator[list[TrainingCase]]:
    """Write bases and examples to a temporary workspace, which is deleted after the block."""
    with TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question_set = read_file(korquad()).question_set
        DEFAULT.write()
        texts = [passage.text for passage in question_set.passages]
        random = str(bi_encoder(Path(folder, "base"), texts, RANDOM_LENGTH, has_dropout=True))
        files = {kind: _write_examples(kind, question_set, Path(folder)) for kind in (BI_ENCODER, CROSS_ENCODER)}
        yield [
            TrainingCase(f"{kind}, {name}", TrainingSetup(kind, base, OURS, files[kind], batch_size))
            for kind, base, name in (
                (BI_ENCODER, DEFAULT.reference, "packaged base"),
                (CROSS_ENCODER, DEFAULT.reference, "packaged base"),
                (BI_ENCODER, random, "BERT of base size"),
            )
        ]


def time_in_subprocess(setup: TrainingSetup, **changes: Any) -> TrainingTimes | None:
    """Time a training in a new process; None if memory does not suffice."""
    words = {**asdict(setup), **changes}
    if words["side"] == LIBRARY and words["base"] == DEFAULT.reference:
        words["base"] = str(DEFAULT.folder)
    command = [sys.executable, "-m", "benchmarks.speed.timed_training", json.dumps(words)]
    completed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result = json.loads(completed.stdout.splitlines()[-1])
    return TrainingTimes(**result) if result else None


def _write_examples(kind: str, question_set: QuestionSet, folder: Path) -> str:
    """Write our training examples to a file for the library's trainer; returns its path."""
    options: Any = options_of(TrainingSetup(kind, DEFAULT.reference, OURS, ""))
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
    """Return a Markdown table: rates and peak memory of both, and their losses on the same batches."""
    lines = [
        "|  | batch size | pairs per second, library | ours | ratio | ratio by CPU time | peak GiB, library | ours "
        "| ratio |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    measured: list[peers.PeerResult] = []
    too_large: list[str] = []
    with cases(int(os.environ.get("LAPTOP_BATCH", "32"))) as trained:
        for case in trained:
            steps = 1 + int(os.environ.get("LAPTOP_STEPS", "3"))
            batch_size, library, ours = _time_both(case.name, replace(case.setup, steps=steps))
            if batch_size < case.setup.batch_size:
                too_large.append(_describe_full_batch(case))
            size = f"{case.name}, batch size {batch_size}"
            for name, unit, values in (
                ("Training, seconds per pair", "seconds", (1 / ours.rate, 1 / library.rate)),
                ("Training, peak memory", "bytes", (float(ours.memory), float(library.memory))),
            ):
                measured.append(peers.summarize_rounds(name, _PEER, size, [values], target=_TARGET_RATIO, unit=unit))
            rates = f"{library.rate:.2f} | {ours.rate:.2f} | **{ours.rate / library.rate:.2f}**"
            memory = f"{library.memory / _GIB:.1f} | {ours.memory / _GIB:.1f} | **{library.memory / ours.memory:.2f}**"
            cpu_ratio = f"{ours.cpu_rate / library.cpu_rate:.2f}"
            lines.append(f"| {case.name} | {batch_size} | {rates} | {cpu_ratio} | {memory} |")
        lines += ["", *too_large, *_compare_losses(trained)]
    peers.save_results(measured)
    return lines


def _time_both(name: str, setup: TrainingSetup) -> tuple[int, TrainingTimes, TrainingTimes]:
    """Time both trainers, with the batch size halved until the library's fits; returns the batch size and the times.

    Raises `RuntimeError` if no batch fits.
    """
    while not (library := time_in_subprocess(setup, side=LIBRARY)):
        if setup.batch_size <= 2:
            raise RuntimeError(f"{name}: no batch fits into memory")
        setup = replace(setup, batch_size=setup.batch_size // 2)
    ours = time_in_subprocess(setup, side=OURS)
    if not ours:
        raise RuntimeError(f"{name}: ours does not fit into memory")
    return setup.batch_size, library, ours


def _describe_full_batch(case: TrainingCase) -> str:
    """Report the memory that ours needs for a batch that is too large for the library."""
    limit = psutil.virtual_memory().available * MEMORY_FRACTION / _GIB
    ours = time_in_subprocess(replace(case.setup, steps=2), side=OURS)  # the first is not timed
    needed = f"ours needs {ours.memory / _GIB:.1f} GiB" if ours else "so does ours"
    return f"- {case.name}, batch size {case.setup.batch_size}: the library needs more than {limit:.1f} GiB; {needed}."


def _compare_losses(trained: list[TrainingCase]) -> list[str]:
    """Return a line for each case of the packaged base: losses on the same batches, without dropout."""
    lines = []
    for case in trained[:2]:
        batches = np.random.default_rng(0).permutation(2000)[: 3 * _COMPARED_PAIRS].reshape(3, _COMPARED_PAIRS).tolist()
        setup = replace(case.setup, batch_size=_COMPARED_PAIRS, steps=3, batches=batches)
        setup = replace(setup, has_frozen_table=True)
        results = {"library": time_in_subprocess(setup, side=LIBRARY)}
        for name, precision in (("ours", Precision.FLOAT32), ("ours in bfloat16", Precision.BFLOAT16)):
            results[name] = time_in_subprocess(setup, side=OURS, precision=precision.value)
        summary = "; ".join(f"{name} {_format_losses(result)}" for name, result in results.items() if result)
        lines.append(f"- Losses on the same batches without dropout, {case.name}: {summary}.")
    return lines


def _format_losses(result: TrainingTimes) -> str:
    return ", ".join(f"{loss:.4f}" for loss in result.losses)


def training_estimate() -> list[str]:
    """Return a Markdown table: estimated and measured seconds per step and peak memory of each training."""
    lines = [
        "|  | seconds per step, estimated | measured | ratio | peak GiB, estimated | measured | ratio "
        "| seconds to estimate |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    with cases() as trained:
        bi, cross, random = trained
        ranknet = replace(cross.setup, objective=CrossEncoderObjective.RANKNET.value, batch_size=8)
        for case in (bi, cross, TrainingCase("cross-encoder, RankNet", ranknet), random):
            setup = replace(case.setup, steps=1 + int(os.environ.get("ESTIMATE_STEPS", "15")))
            start = perf_counter()
            estimate = _run_estimate(setup)
            estimate_seconds = perf_counter() - start
            result = time_in_subprocess(setup)
            if result is None:
                lines.append(f"| {case.name} | {estimate['seconds_per_step']:.2f} | does not fit | | | | | |")
                continue
            pairs = [(estimate["seconds_per_step"], float(np.mean(result.seconds)))]
            pairs.append((estimate["memory"] / _GIB, result.memory / _GIB))
            cells = " | ".join(f"{expected:.2f} | {actual:.2f} | {expected / actual:.2f}" for expected, actual in pairs)
            lines.append(f"| {case.name} | {cells} | {estimate_seconds:.0f} |")
    return lines


def _run_estimate(setup: TrainingSetup) -> dict[str, Any]:
    """Return the estimate of `mrc train --estimate`."""
    options = options_of(setup)
    words = ["--data", str(korquad()), "--estimate"]
    words += ["--validation-fraction", str(SPLIT.validation), "--test-fraction", str(SPLIT.test)]
    names = "base objective batch_size max_length precision group_batches_by temperature epochs"
    for name in names.split():
        if hasattr(options, name):
            words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    if setup.kind == BI_ENCODER:
        words += ["--frozen-layers", "0", "--no-shared-passages"]
    command = [sys.executable, "-m", "mrc_workbench", "train", setup.kind, *words]
    stdout = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    estimate: dict[str, Any] = json.loads(stdout[stdout.index("{\n") :])
    return estimate
