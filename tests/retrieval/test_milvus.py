"""Milvus finds what the local retrievers find, with their scores: alone, through an experiment, on KorQuAD."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import Passage
from mrc_workbench.data.text.analysis import tokens_of
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.combine import Fusion, Hybrid
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, read_experiment, write_experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, MilvusSpec
from mrc_workbench.retrieval.dense import Dense, IndexKind
from mrc_workbench.retrieval.lexical import counts_by_term
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options
from mrc_workbench.retrieval.milvus import EngineFusion, Milvus, Ranker, Search, TermField, VectorField, term_weights
from mrc_workbench.retrieval.milvus_connection import Field, Place
from mrc_workbench.retrieval.rankings import Rankings
from tests.doubles import PASSAGES, QUESTIONS, KeywordEncoder, small_set, texts_of

ASKED = texts_of(QUESTIONS)
KORQUAD = Path(os.environ.get("MRC_DATA", "")) / "KorQuAD_v1.0_dev.json"


def milvus(passages: Sequence[Passage], *fields: Field, fusion: EngineFusion | None = None) -> Milvus:
    return Milvus("milvus", len(passages), fields, Place(), fusion=fusion)


def assert_same(found: Rankings, wanted: Rankings) -> None:
    """Scores equal to float32's accuracy, and the same passages but where scores are that close."""
    np.testing.assert_array_equal(np.isfinite(found.scores), np.isfinite(wanted.scores))
    close = {"rtol": 3e-6, "atol": 3e-7}
    np.testing.assert_allclose(found.scores, wanted.scores, **close)
    # where they differ, a neighbour's score is as close as that; past the last place it is not known
    scores = np.where(np.isfinite(wanted.scores), wanted.scores, 0)
    apart = np.abs(np.diff(scores, axis=1, prepend=np.inf, append=scores[:, -1:]))
    near = np.minimum(apart[:, :-1], apart[:, 1:]) <= 3e-6 * scores
    assert near[found.indices != wanted.indices].all()


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (0, 0), (2.5, 1)])
def test_the_weights_of_a_passage_times_the_counts_of_a_question_are_its_score(k1: float, b: float) -> None:
    passages = [*PASSAGES, Passage("empty", "?!"), Passage("long", "한강은 한강 " * 9)]
    texts, asked = Passages.of(passages).indexed_texts(title=True), [*ASKED, "한강 한강은 한강"]
    tokens, questions = tokens_of(Analyzer.BIGRAM, texts), tokens_of(Analyzer.BIGRAM, asked)
    ids, offsets = questions.flat_ids_in({term: number for number, term in enumerate(tokens.vocabulary)})
    known = counts_by_term(ids, offsets, len(tokens.vocabulary))
    assert offsets[-1] == len(ids)  # what was given is as it was
    scores = (known @ term_weights(tokens, k1, b).T).toarray()
    local = np.vstack(list(BM25("bm25", passages, BM25Options("bigram", k1, b)).score_blocks(asked)))
    np.testing.assert_allclose(scores, np.where(np.isfinite(local), local, 0), rtol=1e-6)
    assert scores[:, 5].tolist() == [0] * len(asked)


@pytest.mark.slow
def test_bm25_in_milvus_is_bm25_also_with_passages_of_no_term() -> None:
    passages = [Passage("empty", "?!"), *PASSAGES]
    options = BM25Options("bigram", k1=1.5, b=0.8, title=False)
    found = milvus(passages, TermField(passages, options)).search(ASKED, 6)
    assert_same(found, BM25("bm25", passages, options).search(ASKED, 6))


@pytest.mark.slow
@pytest.mark.parametrize("index", IndexKind)
def test_vectors_in_milvus_are_found_as_in_a_local_index_of_that_kind(index: IndexKind) -> None:
    found = milvus(PASSAGES, VectorField(PASSAGES, KeywordEncoder(), index=index)).search(ASKED, 5)
    wanted = Dense("dense", PASSAGES, KeywordEncoder(), index=index).search(ASKED, 5)
    np.testing.assert_array_equal(found.indices, wanted.indices)
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_reciprocal_ranks_fused_by_milvus_are_those_of_the_local_hybrid() -> None:
    options = BM25Options("bigram")
    fields = TermField(PASSAGES, options), VectorField(PASSAGES, KeywordEncoder())
    found = milvus(PASSAGES, *fields, fusion=EngineFusion(depth=4)).search([*ASKED, "zebra"], 5)
    parts = [BM25("bm25", PASSAGES, options), Dense("dense", PASSAGES, KeywordEncoder())]
    assert_same(found, Hybrid("hybrid", parts, n_passages=5, depth=4, fusion=Fusion.RRF).search([*ASKED, "zebra"], 5))


@pytest.mark.slow
def test_a_weighted_fusion_is_the_sum_its_formula_tells() -> None:
    options = BM25Options("bigram")
    fields = TermField(PASSAGES, options), VectorField(PASSAGES, KeywordEncoder())
    fusion = EngineFusion(Ranker.WEIGHTED, depth=5, weights=(0.3, 0.7))
    found = milvus(PASSAGES, *fields, fusion=fusion).search(ASKED, 5)
    wanted = np.zeros((len(ASKED), 5))
    parts = [BM25("bm25", PASSAGES, options), Dense("dense", PASSAGES, KeywordEncoder())]
    for weight, part in zip((0.3, 0.7), parts, strict=True):
        one = part.search(ASKED, 5)
        for row, place in np.argwhere(one.indices >= 0):
            wanted[row, one.indices[row, place]] += weight * (0.5 + np.arctan(one.scores[row, place]) / np.pi)
    for row in range(len(ASKED)):
        assert found.indices[row].tolist() == np.argsort(-wanted[row], kind="stable").tolist()
        np.testing.assert_allclose(found.scores[row], -np.sort(-wanted[row]), rtol=1e-5)


@pytest.mark.slow
def test_passages_whose_beginning_alone_has_a_vector_are_counted() -> None:
    class Short(KeywordEncoder):
        def cut_off(self, texts: Sequence[str]) -> int:
            return sum(len(text) > 18 for text in texts)

    words = TermField(PASSAGES, BM25Options("bigram"))
    fused = EngineFusion(Ranker.RRF, 5)
    assert milvus(PASSAGES, words, VectorField(PASSAGES, Short(), title=False), fusion=fused).cut_off() == 1
    assert milvus(PASSAGES, words).cut_off() == milvus(PASSAGES, VectorField(PASSAGES, KeywordEncoder())).cut_off() == 0


def test_what_decides_a_score_decides_the_collection() -> None:
    def name(passages: Sequence[Passage] = PASSAGES, **options: object) -> str:
        return TermField(passages, BM25Options(**{"analyzer": Analyzer.BIGRAM, **options})).key  # type: ignore[arg-type]

    others = [name(k1=1.0), name(b=0.5), name(title=False), name(analyzer=Analyzer.WORD), name(PASSAGES[::-1])]
    assert len({name(), *others}) == 1 + len(others)
    assert name() == name(engine="rank-bm25")
    encoder = KeywordEncoder()
    exact = VectorField(PASSAGES, encoder).key
    graph, fewer = VectorField(PASSAGES, encoder, index=IndexKind.HNSW).key, VectorField(PASSAGES[1:], encoder).key
    assert len({exact, graph, fewer}) == 3


def test_several_fields_need_a_fusion() -> None:
    with pytest.raises(ValueError, match="fusion"):
        milvus(PASSAGES, TermField(PASSAGES, BM25Options("bigram")), VectorField(PASSAGES, KeywordEncoder()))


@pytest.mark.slow
def test_an_experiment_compares_it_with_what_is_local(tmp_path: Path) -> None:
    specs = (
        BM25Spec(name="BM25", analyzer=Analyzer.BIGRAM),
        MilvusSpec(name="Milvus", analyzer=Analyzer.BIGRAM),
        DenseSpec(name="Dense"),
        MilvusSpec(name="Vectors", search=Search.DENSE, index=IndexKind.HNSW),
        MilvusSpec(name="Both", search=Search.HYBRID, fusion=Ranker.WEIGHTED, weights=(0.5, 0.25), depth=3),
    )
    experiment = Experiment(data="small", ks=(1, 5), retriever=specs)
    path = tmp_path / "experiment.toml"
    path.write_text(write_experiment(experiment), encoding="utf-8")
    assert read_experiment(path) == experiment
    results = compare(experiment, small_set()).results
    assert [result.error for result in results] == [None] * 5
    for local, there in ((0, 1), (2, 3)):
        assert results[there].scores.means() == results[local].scores.means()  # type: ignore[union-attr]
        assert results[there].build_seconds > 0
    assert specs[1].local == specs[0].model_copy(update={"name": "Milvus"})
    assert specs[3].local == DenseSpec(name="Vectors", index=IndexKind.HNSW)
    assert specs[4].local is specs[4]


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": (0.5, 0.5)},
        {"fusion": "weighted", "weights": (0, 0)},
        {"fusion": "weighted", "weights": (1.5, 1)},
        {"fusion": "weighted", "weights": (1,)},
        {"token": "secret"},
    ],
)
def test_what_makes_no_sense_is_no_specification(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"weights|token"):
        MilvusSpec.model_validate({"name": "Milvus", "search": "hybrid", **wrong})


@pytest.mark.slow
@pytest.mark.skipif(not KORQUAD.is_file(), reason=f"needs {KORQUAD.name} in the folder that MRC_DATA names")
def test_bm25_in_milvus_is_bm25_on_korquad() -> None:
    questions = read_file(KORQUAD).question_set
    asked = [question.text for question in questions.questions[::4]]
    options = BM25Options("bigram")
    found = milvus(questions.passages, TermField(questions.passages, options)).search(asked, 20)
    assert_same(found, BM25("bm25", questions.passages, options).search(asked, 20))
