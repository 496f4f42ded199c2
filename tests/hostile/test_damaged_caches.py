"""A damaged cache costs time and never changes a number, for every kind of cache and damage."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.cache import is_intact
from mrc_workbench.data.passages import Passages
from mrc_workbench.data.text.analysis import tokens_of
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.encoders import vectors_path
from mrc_workbench.models.sources import Meter
from mrc_workbench.models.vectors import VectorBlocks
from mrc_workbench.retrieval.combine import PairScores
from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.spec import CachedRetriever
from mrc_workbench.retrieval.lexical import term_statistics
from mrc_workbench.retrieval.lexical.bm25 import BM25
from tests.doubles import PASSAGES, QUESTIONS, KeywordEncoder, SharedWordScorer, small_set, texts_of
from tests.hostile.damages import TIMES, damage_bytes, overwrite

TEXTS = Passages.from_passages(PASSAGES).indexed_texts(title=True)
QUERY_TEXTS = texts_of(QUESTIONS)


def rankings() -> list[np.ndarray]:
    result = CachedRetriever("bm25", "key", lambda: BM25("bm25", PASSAGES)).search(QUERY_TEXTS, 3)
    return [result.indices, result.scores]


def pair_scores() -> list[np.ndarray]:
    candidates = BM25("bm25", PASSAGES).search(QUERY_TEXTS, 3)
    return [PairScores(SharedWordScorer(), TEXTS, Meter()).score_candidates(QUERY_TEXTS, candidates)]


def vectors() -> list[np.ndarray]:
    blocks = VectorBlocks(TEXTS, KeywordEncoder().encode_passages, lambda: None, lambda _: None)
    return [blocks.load_or_compute(vectors_path("key")).vectors.copy()]


def statistics() -> list[np.ndarray]:
    result = term_statistics(Analyzer.BIGRAM, TEXTS)
    return [result.hashes, result.document_frequencies, np.array(result.mean_length)]


def tokens() -> list[np.ndarray]:
    result = tokens_of(Analyzer.BIGRAM, TEXTS)
    return [np.array(result.vocabulary), result.ids, result.offsets]


KINDS: dict[str, Callable[[], list[np.ndarray]]] = {
    "rankings": rankings,
    "pairs": pair_scores,
    "vectors": vectors,
    "terms": statistics,
    "tokens": tokens,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_rebuilds_damaged_caches(kind: str) -> None:
    rng = np.random.default_rng(7)
    expected = KINDS[kind]()
    (path,) = [path for path in (workspace() / "cache" / kind).iterdir() if path.suffix in (".npz", ".npy")]
    whole = path.read_bytes()
    assert is_intact(path)
    for number in range(40 * TIMES):
        overwrite(path, damage_bytes(whole, rng), rng)
        rebuilt = KINDS[kind]()
        for ours, theirs in zip(rebuilt, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=f"{kind} {number}")
        assert is_intact(path), (kind, number)


SPECS: list[dict[str, Any]] = [
    {"name": "words", "kind": "bm25", "analyzer": "word"},
    {"name": "dense", "kind": "dense"},
    {"name": "both", "kind": "hybrid", "retrievers": ["words", "dense"]},
    {"name": "reranked", "kind": "rerank", "first_stage": "words", "rerank_top_k": 3},
]


def run_comparison() -> Comparison:
    return compare(Experiment.model_validate({"data": "small", "ks": (1, 3), "retriever": SPECS}), small_set())


def mean_metrics(comparison: Comparison) -> dict[str, dict[str, float]]:
    assert [result.error for result in comparison.results] == [None] * len(SPECS)
    return {name: scores.means() for name, scores in comparison.scores.items()}


@pytest.mark.slow
def test_damaged_caches_do_not_change_metrics() -> None:
    rng = np.random.default_rng(11)
    cache = workspace() / "cache"
    expected = mean_metrics(run_comparison())
    assert {path.name for path in cache.iterdir()} >= {"rankings", "tokens", "terms", "vectors", "starters", "pairs"}
    for number in range(3 * TIMES):
        files = [path for path in sorted(cache.rglob("*")) if path.is_file() and path.stat().st_size]
        for row in rng.choice(len(files), 3, replace=False):
            overwrite(files[row], damage_bytes(files[row].read_bytes(), rng), rng)
        for gone in ("rankings", "pairs", "vectors")[: rng.integers(0, 4)]:  # the content behind them is read then
            shutil.rmtree(cache / gone, ignore_errors=True)
        assert mean_metrics(run_comparison()) == expected, number


@pytest.mark.slow
def test_nan_weights_give_an_error_instead_of_scores(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    from tests.tiny_models import build_bi_encoder, build_cross_encoder_base, with_head

    folders = {
        "dense": build_bi_encoder(tmp_path / "bi"),
        "rerank": with_head(build_cross_encoder_base(tmp_path / "cross", 1)),
    }
    for folder in folders.values():
        weights = load_file(folder / "model.safetensors")
        nothing = {name: np.full_like(weight, np.nan) for name, weight in weights.items()}
        save_file(nothing, folder / "model.safetensors", {"format": "pt"})
    specs = [spec | ({"model": str(folders[spec["kind"]])} if spec["kind"] in folders else {}) for spec in SPECS]
    experiment = Experiment.model_validate({"data": "small", "ks": (1,), "retriever": specs})
    comparison = compare(experiment, small_set())
    assert list(comparison.scores) == ["words"]
    assert [getattr(result.error, "code", None) for result in comparison.results] == [None, *["not_finite"] * 3]
    again = compare(experiment, small_set())  # the cache was empty
    assert list(again.scores) == ["words"]
