"""A damaged cache costs time, never a figure, whatever is kept and however it was damaged."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.cache import is_sound
from mrc_workbench.data.passages import Passages
from mrc_workbench.data.text.analysis import tokens_of
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.encoders import kept_at
from mrc_workbench.models.sources import Meter
from mrc_workbench.models.vectors import VectorBlocks
from mrc_workbench.retrieval.combine import PairScores
from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.spec import CachedRetriever
from mrc_workbench.retrieval.lexical import term_statistics
from mrc_workbench.retrieval.lexical.bm25 import BM25
from tests.doubles import PASSAGES, QUESTIONS, KeywordEncoder, SharedWordScorer, small_set, texts_of
from tests.hostile.damages import TIMES, damaged, overwrite

TEXTS, ASKED = Passages.of(PASSAGES).indexed_texts(title=True), texts_of(QUESTIONS)


def rankings() -> list[np.ndarray]:
    found = CachedRetriever("bm25", "key", lambda: BM25("bm25", PASSAGES)).search(ASKED, 3)
    return [found.indices, found.scores]


def pair_scores() -> list[np.ndarray]:
    candidates = BM25("bm25", PASSAGES).search(ASKED, 3)
    return [PairScores(SharedWordScorer(), TEXTS, Meter()).of(ASKED, candidates)]


def vectors() -> list[np.ndarray]:
    blocks = VectorBlocks(TEXTS, KeywordEncoder().encode_passages, lambda: None, lambda _: None)
    return [blocks.kept(kept_at("key")).vectors.copy()]


def statistics() -> list[np.ndarray]:
    found = term_statistics(Analyzer.BIGRAM, TEXTS)
    return [found.hashes, found.holders, np.array(found.mean_length)]


def tokens() -> list[np.ndarray]:
    found = tokens_of(Analyzer.BIGRAM, TEXTS)
    return [np.array(found.vocabulary), found.ids, found.offsets]


KINDS: dict[str, Callable[[], list[np.ndarray]]] = {
    "rankings": rankings,
    "pairs": pair_scores,
    "vectors": vectors,
    "terms": statistics,
    "tokens": tokens,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_damaged_is_made_anew(kind: str) -> None:
    drawn = np.random.default_rng(7)
    expected = KINDS[kind]()
    (path,) = [path for path in (workspace() / "cache" / kind).iterdir() if path.suffix in (".npz", ".npy")]
    whole = path.read_bytes()
    assert is_sound(path)
    for number in range(40 * TIMES):
        overwrite(path, damaged(whole, drawn), drawn)
        found = KINDS[kind]()
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=f"{kind} {number}")
        assert is_sound(path), (kind, number)


SPECS: list[dict[str, Any]] = [
    {"name": "words", "kind": "bm25", "analyzer": "word"},
    {"name": "dense", "kind": "dense"},
    {"name": "both", "kind": "hybrid", "of": ["words", "dense"]},
    {"name": "reranked", "kind": "rerank", "first": "words", "depth": 3},
]


def compared() -> Comparison:
    return compare(Experiment.model_validate({"data": "small", "ks": (1, 3), "retriever": SPECS}), small_set())


def figures(comparison: Comparison) -> dict[str, dict[str, float]]:
    assert [result.error for result in comparison.results] == [None] * len(SPECS)
    return {name: scores.means() for name, scores in comparison.scores.items()}


@pytest.mark.slow
def test_a_comparison_has_its_figures_whatever_was_damaged() -> None:
    drawn, cache = np.random.default_rng(11), workspace() / "cache"
    expected = figures(compared())
    assert {path.name for path in cache.iterdir()} >= {"rankings", "tokens", "terms", "vectors", "starters", "pairs"}
    for number in range(3 * TIMES):
        files = [path for path in sorted(cache.rglob("*")) if path.is_file() and path.stat().st_size]
        for row in drawn.choice(len(files), 3, replace=False):
            overwrite(files[row], damaged(files[row].read_bytes(), drawn), drawn)
        for gone in ("rankings", "pairs", "vectors")[: drawn.integers(0, 4)]:  # what is behind them is read then
            shutil.rmtree(cache / gone, ignore_errors=True)
        assert figures(compared()) == expected, number


@pytest.mark.slow
def test_weights_that_are_no_numbers_have_no_figure(tmp_path: Path) -> None:
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
    specs = [
        SPECS[0],
        SPECS[1] | {"model": str(folders["dense"])},
        SPECS[2],
        SPECS[3] | {"model": str(folders["rerank"])},
    ]
    experiment = Experiment.model_validate({"data": "small", "ks": (1,), "retriever": specs})
    found = compare(experiment, small_set())
    assert list(found.scores) == ["words"]
    assert [getattr(result.error, "code", None) for result in found.results] == [None, *["not_finite"] * 3]
    again = compare(experiment, small_set())  # nothing of it was kept
    assert list(again.scores) == ["words"]
