"""Measure late interaction and mixes, untrained and trained: `python -m benchmarks mixes trained_mixes`.

The datasets are KorQuAD's 40 test articles, with the mix fitted on the other hundred; the sample, with a cross-fitted
mix; and public sentence pairs whose paraphrase is the relevant passage: KorSTS test and KLUE-STS dev (a score of 4 or
more), and KorNLI dev (entailment). No value is selected on any of them.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.quality.article_split import (
    MORE_VALIDATION,
    compare_part,
    differences,
    metric_cells,
    scores,
    table,
    train_or_resume,
    workspace,
)
from benchmarks.quality.trained import RERANKER
from benchmarks.synthetic_data import korquad
from mrc_workbench.data.pairs import Label, PairKind, PairSet
from mrc_workbench.data.pairs.store import PairReadOptions, read_pairs
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import Passage, Passages, Question, QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.models.inference import TokenLayers
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.retrieval.combine import Fusion
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, LearnedSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.significance import question_groups
from mrc_workbench.training.ranker_options import (
    BI_ENCODER,
    CROSS_ENCODER,
    LATE_INTERACTION,
    BiEncoderOptions,
    LateOptions,
)
from mrc_workbench.training.runs import Run

_BM25 = "BM25"
_DENSE = "Dense"
_RRF = "Hybrid (RRF)"
_HYBRID = "Hybrid"
_MIX = "Best mix"
_NARROW = 128
_MIN_PARAPHRASE_SCORE = 0.8  # of the scale: 4 of 5
_RETRIEVERS: tuple[Spec, ...] = (
    BM25Spec(name=_BM25),
    DenseSpec(name=_DENSE, model=DEFAULT.reference, windows=True),
    LateSpec(name="Late", model=DEFAULT.reference, windows=True),
    LateSpec(name=f"Late, {_NARROW} dimensions", model=DEFAULT.reference, windows=True, dimensions=_NARROW),
    LateSpec(name="Late, last layer", model=DEFAULT.reference, windows=True, layers=TokenLayers.LAST),
    LateSpec(name="Late, upper layers", model=DEFAULT.reference, windows=True, layers=TokenLayers.UPPER),
    HybridSpec(name=_RRF, retrievers=(_BM25, _DENSE), fusion=Fusion.RRF),
    HybridSpec(name=_HYBRID, retrievers=(_BM25, _DENSE)),
    LearnedSpec(name="Best mix without late", retrievers=(_BM25, _DENSE), max_training_queries=5000),
    LearnedSpec(name=_MIX, retrievers=(_BM25, _DENSE, "Late"), max_training_queries=5000),
)


def mixes() -> list[str]:
    """Evaluate each dataset once; returns a Markdown table and the differences of the mixes."""
    with workspace():
        tested = {
            question_set.name: compare_part(question_set, part, *_RETRIEVERS) for question_set, part in labelled_sets()
        }
    lines = [
        "| dataset | passages | questions | retriever | R@1 | R@10 | nDCG@10 | 95% interval |",
        "|---|---:|---:|---|---:|---:|---:|---:|",
    ]
    for name, comparison in tested.items():
        lines += _rows(name, comparison)
    verdicts = [f"- {name}: {' '.join(_verdicts(comparison))}" for name, comparison in tested.items()]
    return [*lines, "", *verdicts]


def trained_mixes() -> list[str]:
    """Train a bi-encoder, late interaction and a cross-encoder; evaluate them and their mixes on KorQuAD's test part.

    The mix of trained models is fitted on validation questions only, since the models were trained on the others.
    """
    with workspace():
        question_set = read_file(korquad()).question_set
        dense = BiEncoderOptions.defaults_for(DEFAULT.reference)
        late = LateOptions.defaults_for(DEFAULT.reference)
        runs = {
            "Dense, trained": train_or_resume(BI_ENCODER, "dense", question_set, dense, MORE_VALIDATION),
            "Late, trained": train_or_resume(LATE_INTERACTION, "late", question_set, late, MORE_VALIDATION),
            _RERANKED: train_or_resume(CROSS_ENCODER, "reranker", question_set, RERANKER, MORE_VALIDATION),
        }
        tested = compare_part(
            question_set, Part.TEST, *_RETRIEVERS[:3], *_trained_retrievers(runs), split=MORE_VALIDATION
        )
    pairs = [("Late", "Late, trained"), (_BM25, "Late, trained"), (_UNTRAINED, _MIX), (_BM25, _MIX)]
    sizes = (dense.batch_size, late.batch_size, RERANKER.batch_size)
    training_costs = "; ".join(
        f"{name}: {run.status().total_steps} steps with batch size {size}, "
        f"{run.status().total_seconds / 60:.0f} minutes"
        for (name, run), size in zip(runs.items(), sizes, strict=True)
    )
    return [
        *table(tested),
        "",
        f"Training, including loading and evaluation: {training_costs}. {_RERANKED} reranks the top {_DEPTH} of "
        f"{_UNTRAINED}.",
        "",
        *differences(tested, *pairs),
    ]


_UNTRAINED = "Best mix of untrained models"
_RERANKED = "Reranked, trained"
_DEPTH = 5


def _trained_retrievers(runs: dict[str, Run]) -> Iterator[Spec]:
    dense, late, reranker = (str(run.model_folder) for run in runs.values())
    yield DenseSpec(name="Dense, trained", model=dense, windows=True)
    yield LateSpec(name="Late, trained", model=late, windows=True)
    yield HybridSpec(name="BM25 and late, trained", retrievers=(_BM25, "Late, trained"))
    yield LearnedSpec(name=_UNTRAINED, retrievers=(_BM25, _DENSE, "Late"), max_training_queries=5000)
    yield RerankSpec(name=_RERANKED, first_stage=_UNTRAINED, model=reranker, rerank_top_k=_DEPTH, weight=1.0)
    for name in (*runs,)[1:]:
        yield LearnedSpec(
            name=f"Best mix with {name}", retrievers=(_BM25, _DENSE, "Late", name), max_training_queries=5000
        )
    yield LearnedSpec(name=_MIX, retrievers=(_BM25, _DENSE, "Late", *runs), max_training_queries=5000)


def labelled_sets() -> Iterator[tuple[QuestionSet, Part]]:
    """Yield the datasets on which no value is selected, with the evaluated part."""
    yield read_file(korquad()).question_set, Part.TEST
    yield read_entry(CATALOG["sample"]).question_set, Part.ALL
    for file, name in (("korsts_test.tsv", "KorSTS test"), ("klue_sts_dev.json", "KLUE-STS dev")):
        yield paraphrase_set(read_pair_set(file), name), Part.ALL
    yield paraphrase_set(read_pair_set("kornli_xnli_dev.tsv"), "KorNLI dev"), Part.ALL


def selected_sets(sets: Iterable[tuple[QuestionSet, Part]]) -> Iterator[tuple[QuestionSet, Part]]:
    """Yield the datasets named in `BENCH_SETS`, all by default."""
    selected = os.environ.get("BENCH_SETS", "").split(",")
    yield from (entry for entry in sets if selected == [""] or entry[0].name in selected)


def read_pair_set(file: str) -> PairSet:
    """Read a file of sentence pairs in `MRC_DATA`."""
    path = Path(os.environ.get("MRC_DATA", "")) / file
    return read_pairs([(path.read_bytes(), path.name)], PairReadOptions()).pairs


def paraphrase_set(pairs: PairSet, name: str) -> QuestionSet:
    """Return a question set: the first sentences of paraphrases are questions, all second sentences are passages.

    A pair is a paraphrase if its score is at least 4 of 5, or if the first sentence entails the second.
    """
    firsts, seconds = (list(column) for column in pairs.texts)
    scored = pairs.kind is PairKind.SCORED
    same = pairs.gold >= _MIN_PARAPHRASE_SCORE if scored else pairs.values == Label.ENTAILMENT
    row_of = {text: row for row, text in enumerate(dict.fromkeys(seconds))}
    relevant: dict[str, list[str]] = {}
    for first, second, is_same in zip(firsts, seconds, same.tolist(), strict=True):
        if is_same and first != second:
            relevant.setdefault(first, []).append(f"p{row_of[second]}")
    questions = tuple(
        Question(f"q{row}", text, relevant=tuple(dict.fromkeys(ids)))
        for row, (text, ids) in enumerate(relevant.items())
    )
    return QuestionSet(
        name, Passages.from_passages([Passage(f"p{row}", text) for text, row in row_of.items()]), questions
    )


def _rows(name: str, comparison: Comparison) -> list[str]:
    groups = question_groups(comparison.question_set)
    lines = []
    for retriever, retriever_scores in scores(comparison).items():
        sizes = f"{name} | {len(comparison.question_set.passages):,} | {len(comparison.question_set.questions):,}"
        first_cells = sizes if retriever == _BM25 else " | | "
        lines.append(f"| {first_cells} | {retriever} | {metric_cells(retriever_scores, groups)} |")
    return lines


def _verdicts(comparison: Comparison) -> list[str]:
    return differences(comparison, (_RRF, _HYBRID), (_BM25, _HYBRID), (_HYBRID, _MIX), (_BM25, _MIX))
