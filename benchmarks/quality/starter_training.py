"""What training the starter models does on KorQuAD's article split: the figures of a table.

The first 40 of the shuffled articles are the test, the next 14 choose checkpoint and weight, the rest is learned from.
"""

import os
import tempfile
import time
from pathlib import Path

from benchmarks.material import korquad
from data.read import read_file
from data.split import Part, SplitOptions
from jobs.status import State
from retrieval.comparison.compare import compare
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.first_stage import BM25Spec, DenseSpec
from retrieval.comparison.multistage import HybridSpec, RerankSpec
from training.options.bi_encoder import BI_ENCODER
from training.options.cross_encoder import CROSS_ENCODER
from training.recipe import RECIPES
from training.runs.runs import Run, create_run, new_plan
from training.train import train

_SPLIT = SplitOptions(validation=0.1, test=40 / 140)


def measure() -> list[str]:
    """Train both starters and compare them with their beginnings on the test questions; returns a Markdown table."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question_set = read_file(korquad()).question_set
        runs = {
            kind: _trained(kind, question_set.name, question_set.fingerprint) for kind in (BI_ENCODER, CROSS_ENCODER)
        }
        models = {kind: str(run.model_folder) for kind, (run, _) in runs.items()}
        experiment = Experiment(
            data=str(korquad()),
            split=Part.TEST,
            validation_share=_SPLIT.validation,
            test_share=_SPLIT.test,
            retriever=(
                BM25Spec(name="BM25"),
                DenseSpec(name="Dense, starter"),
                DenseSpec(name="Dense, trained", model=models[BI_ENCODER]),
                HybridSpec(name="Hybrid, trained", of=("BM25", "Dense, trained")),
                RerankSpec(name="Reranked, starter alone", first="BM25", weight=1.0),
                RerankSpec(name="Reranked, trained alone", first="BM25", model=models[CROSS_ENCODER], weight=1.0),
                RerankSpec(name="Reranked, trained", first="BM25", model=models[CROSS_ENCODER]),
            ),
        )
        comparison = compare(experiment, question_set)
        seconds = {
            "Dense, trained": _training_seconds(runs[BI_ENCODER][0]),
            "Reranked, trained alone": _training_seconds(runs[CROSS_ENCODER][0]),
        }
    lines = [
        f"| {len(comparison.question_set.questions):,} test questions | R@1 | R@10 | nDCG@10 | training, seconds |",
        "|---|---:|---:|---:|---:|",
    ]
    for result in comparison.results:
        means = result.scores.means() if result.scores else {}
        cells = " | ".join(f"{means[name] * 100:.2f}" for name in ("recall@1", "recall@10", "ndcg@10"))
        trained = f"{seconds[result.name]:.0f}" if result.name in seconds else ""
        lines.append(f"| {result.name} | {cells} | {trained} |")
    whole = ", ".join(f"{kind} {took:.0f} s" for kind, (_, took) in runs.items())
    return [*lines, "", f"With loading, and measuring before and after, on {os.cpu_count()} CPU cores: {whole}."]


def _training_seconds(run: Run) -> float:
    return float(next(entry["train_runtime"] for entry in run.progress() if "train_runtime" in entry))


def _trained(kind: str, name: str, fingerprint: str) -> tuple[Run, float]:
    data = (str(korquad()), name, fingerprint)
    run = create_run(new_plan(kind, kind, data, _SPLIT, RECIPES[kind].options.suited_to()))
    start = time.perf_counter()
    ended = train(run)
    if ended.state is not State.DONE:
        raise RuntimeError(f"{kind}: {ended.message}")
    return Run(Path(run.folder)), time.perf_counter() - start
