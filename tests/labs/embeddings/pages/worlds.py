"""Handmade evaluations on pairs of five sentences, without a model, and the page over them."""

import json
from itertools import combinations

import numpy as np

from mrc_workbench.data.pairs import PairKind, PairSet
from mrc_workbench.data.pairs.store import StoredPairs, save_pairs
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.labs.embeddings import results as store
from mrc_workbench.labs.embeddings.geometry import ProjectedPoints
from mrc_workbench.labs.embeddings.judgement import correlate
from mrc_workbench.labs.embeddings.results import EncoderEvaluation, EvaluationRequest, ModelResult
from mrc_workbench.labs.embeddings.study import STUDY
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.significance import Interval
from mrc_workbench.training.ranker_options import BiEncoderOptions, CrossEncoderOptions
from mrc_workbench.training.runs import Run, create_run, new_plan

SENTENCES = ("고양이가 잔다.", "새끼 고양이가 잠을 잔다.", "기차가 달린다.", "열차가 빠르게 달린다.", "비가 온다.")
HUB = "snunlp/KR-SBERT-V40K-klueNLI-augSTS"
_PAIRS = [*combinations(range(5), 2)]
GOLD = np.array([4.6, 0.4, 0.2, 0.6, 0.0, 0.8, 1.0, 4.2, 1.2, 1.6], dtype=np.float32)
LIKE_PEOPLE = np.array([0.95, 0.1, 0.05, 0.2, 0.0, 0.25, 0.3, 0.9, 0.4, 0.35], dtype=np.float32)
LIKE_NOBODY = np.array([0.1, 0.7, 0.2, 0.6, 0.3, 0.5, 0.4, 0.2, 0.8, 0.05], dtype=np.float32)


def scored_set() -> PairSet:
    """All pairs of the sentences, all published as test pairs."""
    texts = [[SENTENCES[pair[side]] for pair in _PAIRS] for side in (0, 1)]
    published = [2] * len(_PAIRS)
    return PairSet.from_columns("five", PairKind.SCORED, texts, GOLD.tolist(), published=published, scale=(0, 5))


def sentence_set() -> PairSet:
    return PairSet.from_columns("alone", PairKind.SENTENCES, [list(SENTENCES)])


def result(model: str, cosines: np.ndarray, uniformity: float = -1.0) -> ModelResult:
    metrics = {"alignment": Interval(0.2, 0.1, 0.3), "anisotropy": Interval(0.4, 0.3, 0.5)}
    metrics["uniformity"] = Interval(uniformity, uniformity - 0.1, uniformity + 0.1)
    values = np.array([1.0, 0.5, 0.25, 0.1])
    points = np.arange(10, dtype=np.float32).reshape(5, 2)
    plane = ProjectedPoints(points, np.array([0.5, 0.25]))
    return ModelResult(model, metrics, cosines, values, plane, dimensions=4, seconds=1.5, fingerprint=model)


def failed_result(model: str) -> ModelResult:
    message = f"the hub cannot be reached and {model!r} was not downloaded before"
    return ModelResult(model, error=ModelError("hub_unreachable", message, model=model))


def make_evaluation(pairs: PairSet, *results: ModelResult, part: Part = Part.TEST) -> EncoderEvaluation:
    rows = np.arange(len(pairs))
    measured = [item for item in results if item.error is None]
    differences = {}
    if pairs.kind is PairKind.SCORED:
        correlations = correlate({item.model: item.cosines for item in measured}, pairs.gold, rows)
        differences = correlations.differences
        for item in measured:
            item.metrics["spearman"] = correlations.spearman[item.model]
            item.metrics["pearson"] = correlations.pearson[item.model]
    values = pairs.gold if pairs.kind is PairKind.SCORED else pairs.values
    content = (pairs.name, pairs.fingerprint, pairs.kind, part, rows, values)
    return EncoderEvaluation(*content, sentences=5, positives=2, results=results, differences=differences)


def store_evaluation(pairs: PairSet, *results: ModelResult, part: Part = Part.TEST) -> StoredPairs:
    """Store the set, and the evaluation that the page requests for these models; returns the set."""
    data = save_pairs(pairs)
    request = EvaluationRequest(data=data.key, models=tuple(item.model for item in results), part=part)
    folder = STUDY.job(request, data.fingerprint).folder
    folder.mkdir(parents=True)
    store.save(make_evaluation(pairs, *results, part=part), folder)
    return data


def create_finished_run(data: StoredPairs, shares: SplitOptions | None = None, kind: str = "bi-encoder") -> Run:
    options = {"bi-encoder": BiEncoderOptions, "cross-encoder": CrossEncoderOptions}[kind](base=STARTER)
    named = (data.key, data.name, data.fingerprint)
    run = create_run(new_plan(kind, "Mine", named, shares or SplitOptions(), options))
    run.model_folder.mkdir()
    (run.model_folder / "modules.json").write_text("[]", encoding="utf-8")
    (run.folder / "status.json").write_text(json.dumps({"state": "done"}), encoding="utf-8")
    return run


def page() -> None:
    from mrc_workbench.labs.embeddings.pages import page as embeddings_page

    embeddings_page.draw()
