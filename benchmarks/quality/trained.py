"""Measure training on KorQuAD's article split.

`python -m benchmarks starter_training` trains both starters; `pretrained_training` the packaged base as a bi-encoder,
with twice the app's epochs; `pretrained_reranking` a cross-encoder from that base, which reranks a hybrid;
`reader_training` a reader over the passages of three retrievers. The first 40 shuffled articles are the test set, the
next ones select checkpoints and weights, and the rest is for training.
"""

import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.quality.article_split import (
    MORE_VALIDATION,
    SPLIT,
    best_value,
    compare_part,
    differences,
    table,
    train_or_resume,
    workspace,
)
from benchmarks.synthetic_data import korquad
from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.split import Part
from mrc_workbench.labs.reading import study
from mrc_workbench.labs.reading.evaluate import ReaderResult, ReaderSpec, ReadingExperiment, ReadingResult, evaluate
from mrc_workbench.labs.reading.extractive import AnswerOutcome
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.retrieval.combine import Fusion
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.training.ranker_options import (
    BI_ENCODER,
    CROSS_ENCODER,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
)
from mrc_workbench.training.recipes import RECIPES
from mrc_workbench.training.runs import Run, create_run, new_plan
from mrc_workbench.training.text_options import READER, ReaderOptions
from mrc_workbench.training.train import train


def starter_training() -> list[str]:
    """Train both starters, and compare them with the untrained ones on the test questions; returns a Markdown table."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question_set = read_file(korquad()).question_set
        runs = {
            kind: _trained_starter(kind, question_set.name, question_set.fingerprint)
            for kind in (BI_ENCODER, CROSS_ENCODER)
        }
        models = {kind: str(run.model_folder) for kind, (run, _) in runs.items()}
        experiment = Experiment(
            data=str(korquad()),
            split=Part.TEST,
            validation_fraction=SPLIT.validation,
            test_fraction=SPLIT.test,
            retriever=(
                BM25Spec(name="BM25"),
                DenseSpec(name="Dense, starter"),
                DenseSpec(name="Dense, trained", model=models[BI_ENCODER]),
                HybridSpec(name="Hybrid, trained", retrievers=("BM25", "Dense, trained")),
                RerankSpec(name="Reranked, starter (cross-encoder score only)", first_stage="BM25", weight=1.0),
                RerankSpec(
                    name="Reranked, trained (cross-encoder score only)",
                    first_stage="BM25",
                    model=models[CROSS_ENCODER],
                    weight=1.0,
                ),
                RerankSpec(name="Reranked, trained", first_stage="BM25", model=models[CROSS_ENCODER]),
            ),
        )
        comparison = compare(experiment, question_set)
        seconds = {
            "Dense, trained": _training_seconds(runs[BI_ENCODER][0]),
            "Reranked, trained (cross-encoder score only)": _training_seconds(runs[CROSS_ENCODER][0]),
        }
    lines = [
        f"| {len(comparison.question_set.questions):,} test questions | R@1 | R@10 | nDCG@10 | training seconds |",
        "|---|---:|---:|---:|---:|",
    ]
    for result in comparison.results:
        means = result.scores.means() if result.scores else {}
        cells = " | ".join(f"{means[name] * 100:.2f}" for name in ("recall@1", "recall@10", "ndcg@10"))
        trained = f"{seconds[result.name]:.0f}" if result.name in seconds else ""
        lines.append(f"| {result.name} | {cells} | {trained} |")
    total = ", ".join(f"{kind} {seconds:.0f} s" for kind, (_, seconds) in runs.items())
    return [*lines, "", f"Including loading, and evaluation before and after, on {os.cpu_count()} CPU cores: {total}."]


def _training_seconds(run: Run) -> float:
    return float(next(entry["train_runtime"] for entry in run.progress() if "train_runtime" in entry))


def _trained_starter(kind: str, name: str, fingerprint: str) -> tuple[Run, float]:
    data = (str(korquad()), name, fingerprint)
    run = create_run(new_plan(kind, kind, data, SPLIT, RECIPES[kind].options.defaults_for()))
    start = time.perf_counter()
    ended = train(run)
    if ended.state is not State.DONE:
        raise RuntimeError(f"{kind}: {ended.message}")
    return Run(Path(run.folder)), time.perf_counter() - start


_BM25_WEIGHTS = tuple(step / 20 for step in range(1, 20))  # in a mix
_BM25 = "BM25"
_DENSE = "Dense, untrained"
_TRAINED = "Dense, trained"
_MIXED = {_DENSE: "BM25 and dense, untrained", _TRAINED: "BM25 and dense, trained"}


def pretrained_training() -> list[str]:
    """Train, select the mix on validation questions, evaluate the test questions once; returns a Markdown table."""
    options = replace(BiEncoderOptions.defaults_for(DEFAULT.reference), epochs=2.0)
    with workspace():
        question_set = read_file(korquad()).question_set
        run = train_or_resume(BI_ENCODER, "pretrained", question_set, options, MORE_VALIDATION)
        dense = [DenseSpec(name=_DENSE, model=DEFAULT.reference), DenseSpec(name=_TRAINED, model=str(run.model_folder))]
        specs: list[Spec] = [BM25Spec(name=_BM25), *dense]
        bm25_weights = {
            spec.name: best_value(
                question_set,
                specs,
                {bm25_weight: _hybrid_spec(f"{bm25_weight}", spec.name, bm25_weight) for bm25_weight in _BM25_WEIGHTS},
                MORE_VALIDATION,
            )
            for spec in dense
        }
        mixed = [_hybrid_spec(_MIXED[name], name, bm25_weight) for name, bm25_weight in bm25_weights.items()]
        tested = compare_part(question_set, Part.TEST, *specs, *mixed, split=MORE_VALIDATION)
    pairs = [(_DENSE, _TRAINED), (_BM25, _MIXED[_TRAINED]), (_MIXED[_DENSE], _MIXED[_TRAINED])]
    return [
        *table(tested),
        "",
        f"Trained with {options.objective} in {run.status().total_steps} steps of {options.batch_size} passages: "
        f"{_minutes(run)}. "
        f"BM25's weights in the mixes, {bm25_weights[_DENSE]:g} and {bm25_weights[_TRAINED]:g} by z-score, are "
        "selected on the other articles.",
        "",
        *differences(tested, *pairs),
    ]


def _minutes(run: Run) -> str:
    minutes = run.status().total_seconds / 60
    return f"{minutes:.0f} minutes on {os.cpu_count()} CPU cores, including loading and evaluation"


def _hybrid_spec(name: str, dense: str, bm25_weight: float) -> HybridSpec:
    weights = (bm25_weight, 1 - bm25_weight)
    return HybridSpec(
        name=name, retrievers=(_BM25, dense), fusion=Fusion.Z_SCORE, weights=weights, selected_on=Part.VALIDATION
    )


_RERANKER_WEIGHTS = tuple(tenth / 10 for tenth in range(1, 11))
_MIX = "BM25 and dense"
_RERANKER_ONLY = "Reranked, cross-encoder score only"
_RERANKED = "Reranked, mixed score"
_EVALUATION_DEPTH = 10  # passages per question during training
_DEPTH = 5  # reranked passages of the mix
# one hard negative per question, from BM25's top 4
RERANKER = CrossEncoderOptions(
    base=DEFAULT.reference,
    objective=CrossEncoderObjective.RANKNET,
    epochs=1.0,
    batch_size=16,
    evaluation_batch_size=32,
    negatives=1,
    negatives_first=1,
    negatives_last=4,
    negatives_with_answer=True,
    learning_rate=6e-5,
    frozen_layers=2,
    evaluation_limit=60,
    evaluation_steps=74,
    depth=_EVALUATION_DEPTH,
    save_minutes=5,
)


def pretrained_reranking() -> list[str]:
    """Train, select weights on validation questions, evaluate the test questions once; returns a Markdown table."""
    with workspace():
        question_set = read_file(korquad()).question_set
        run = train_or_resume(CROSS_ENCODER, "reranker", question_set, RERANKER, SPLIT)
        first: list[Spec] = [BM25Spec(name=_BM25), DenseSpec(name=_DENSE, model=DEFAULT.reference)]
        bm25_weight = best_value(
            question_set,
            first,
            {bm25_weight: _hybrid_spec(f"{bm25_weight}", _DENSE, bm25_weight) for bm25_weight in _BM25_WEIGHTS},
            SPLIT,
        )
        first.append(_hybrid_spec(_MIX, _DENSE, bm25_weight))
        model = str(run.model_folder)
        weight = best_value(
            question_set,
            first,
            {candidate: _rerank_spec(f"{candidate}", model, candidate) for candidate in _RERANKER_WEIGHTS},
            SPLIT,
        )
        last = (_rerank_spec(_RERANKER_ONLY, model, 1.0), _rerank_spec(_RERANKED, model, weight))
        tested = compare_part(question_set, Part.TEST, *first, *last)
    pairs = [(_BM25, _RERANKED), (_MIX, _RERANKED), (_BM25, _RERANKER_ONLY)]
    return [
        *table(tested),
        "",
        f"Trained with RankNet in {run.status().total_steps} steps of {RERANKER.batch_size} questions, each with a "
        f"hard negative: {_minutes(run)}. The top {_DEPTH} passages are reranked. Selected on the other articles: "
        f"BM25's weight in the mix, {bm25_weight:g}, and the reranker's weight, {weight:g}.",
        "",
        *differences(tested, *pairs),
    ]


def _rerank_spec(name: str, model: str, weight: float) -> RerankSpec:
    selected_on = Part.VALIDATION if weight < 1 else None
    return RerankSpec(
        name=name, first_stage=_MIX, model=model, rerank_top_k=_DEPTH, weight=weight, selected_on=selected_on
    )


_KS = (1, 2, 3, 5)


def reader_training() -> list[str]:
    """Train a reader, and evaluate the test questions once; returns a Markdown table and the outcomes."""
    options = replace(ReaderOptions.defaults_for(DEFAULT.reference), batch_size=8, epochs=2.0, evaluation_steps=400)
    with workspace():
        question_set = read_file(korquad()).question_set
        run = train_or_resume(READER, "reader", question_set, options, SPLIT)
        experiment = ReadingExperiment(
            data=str(korquad()),
            split=Part.TEST,
            validation_fraction=SPLIT.validation,
            test_fraction=SPLIT.test,
            ks=(1, 10),
            depths_read=_KS,
            retriever=(
                BM25Spec(name=_BM25),
                DenseSpec(name=_DENSE, model=DEFAULT.reference),
                HybridSpec(name="Hybrid", retrievers=(_BM25, _DENSE)),
            ),
            reader=(ReaderSpec(name="reader", model=str(run.model_folder)),),
        )
        result = evaluate(experiment, question_set)
    (reader,) = result.readers
    if reader.error:
        raise reader.error
    return [
        *_reading_table(result, reader),
        "",
        f"Trained in {run.status().total_steps} steps of {options.batch_size} windows: {_minutes(run)}.",
        "",
        *_outcome_lines(result, reader),
    ]


def _reading_table(result: ReadingResult, reader: ReaderResult) -> list[str]:
    summary = study.as_dict(result)
    lines = [
        f"| {summary['questions']:,} test questions, EM / F1 | {' | '.join(f'top {k}' for k in _KS)} |",
        f"|---|{'---:|' * len(_KS)}",
    ]
    oracle = summary["oracles"][reader.name]
    lines.append(f"| Relevant passage given | {' | '.join([_cell(oracle)] * len(_KS))} |")
    for name, by_k in summary["readers"][reader.name].items():
        lines.append(f"| {name} | {' | '.join(_cell(by_k[str(k)]) for k in _KS)} |")
        ceilings = (f"{100 * by_k[str(k)]['ceiling']:.2f}" for k in _KS)
        lines.append(f"| {name}: answer is in a passage | {' | '.join(ceilings)} |")
    return lines


def _outcome_lines(result: ReadingResult, reader: ReaderResult) -> list[str]:
    depth_index = study.tested_depth_index(_KS)
    lines = [f"With the top {_KS[depth_index]} passages:", ""]
    for name, retriever_answers in reader.by_retriever.items():
        fractions = [
            (retriever_answers.by_depth.outcome[:, depth_index] == outcome).mean() for outcome in AnswerOutcome
        ]
        words = ("correct", "correct in an outranked passage", "wrong span", "answer not retrieved")
        parts = ", ".join(f"{word} {100 * fraction:.1f}%" for word, fraction in zip(words, fractions, strict=True))
        lines.append(f"- {name} (retrieval score weight {retriever_answers.weight:g}): {parts}.")
    for test in study.compare_retrievers(result, reader):
        if test.measure != "em":
            interval = f"{100 * test.low:+.2f} to {100 * test.high:+.2f}"
            lines.append(
                f"- F1 of {test.a} minus F1 of {test.b}: {100 * test.difference:+.2f} "
                f"(95% interval {interval}, p = {test.p_family:.4f})."
            )
    return lines


def _cell(metrics: dict[str, float]) -> str:
    return f"{100 * metrics['em']:.2f} / {100 * metrics['f1']:.2f}"
