"""The vectors and tokens that come with the sample: they reproduce its metrics, and serve no other dataset."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data import cache
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.data.text import analysis as analysis_module
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.inference import Precision, TokenLayers
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.retrieval.comparison.compare import build_context, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, LateSpec
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, RetrieverContext
from mrc_workbench.retrieval.dense import max_sim
from mrc_workbench.retrieval.job import ship
from mrc_workbench.retrieval.measures import DEFAULT_KS, evaluate
from mrc_workbench.retrieval.rankings import Rankings, top_k

needs_base = pytest.mark.skipif(not DEFAULT.path, reason="the package of the base is not for this machine")
SAMPLE = read_entry(CATALOG["sample"]).question_set
QUESTIONS = [question.text for question in SAMPLE.questions]
TEXTS = SAMPLE.passages.indexed_texts(title=True)
SHIPPED_LATE = LateSpec(name="Late", model=DEFAULT.reference, windows=True)


def late_encoder(questions: QuestionSet, **values: object) -> TokenEncoder:
    return SHIPPED_LATE.model_copy(update=values).encoder(RetrieverContext(questions))


@needs_base
@pytest.mark.slow
@pytest.mark.packaged
def test_shipped_token_vectors_reproduce_shipped_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    (late,) = build_context(Experiment(data="sample", retriever=(SHIPPED_LATE,)), SAMPLE).retrievers.values()
    assert isinstance(late, CachedRetriever)
    assert late.is_cached(QUESTIONS, late.depth)
    shipped = late.search(QUESTIONS, late.depth)

    encoded_sides: list[str] = []
    encode = TokenEncoder.encode

    def encode_and_note(self: TokenEncoder, side: str, *rest: Any) -> list[np.ndarray]:
        encoded_sides.append(side)
        return encode(self, side, *rest)

    monkeypatch.setattr(TokenEncoder, "encode", encode_and_note)
    passages = late_encoder(SAMPLE).encode_passages(TEXTS, SAMPLE.passages.title_lengths(title=True))
    assert encoded_sides == []
    rows = np.arange(0, len(QUESTIONS), 25)  # encoding all of them takes half a minute
    texts = [QUESTIONS[row] for row in rows]
    query_vectors = late_encoder(SAMPLE, precision=Precision.FLOAT32).encode_questions(texts)
    rankings = top_k(max_sim(query_vectors, passages), late.depth)
    np.testing.assert_allclose(rankings.scores, shipped.scores[rows], atol=1e-3)
    of_rows = Rankings(shipped.indices[rows], shipped.scores[rows])
    some = SAMPLE.with_questions(rows)
    for measure, value in evaluate(of_rows, some, DEFAULT_KS).means().items():
        assert evaluate(rankings, some, DEFAULT_KS).means()[measure] == pytest.approx(value, abs=0.005), measure


@needs_base
@pytest.mark.packaged
def test_uses_shipped_token_vectors_only_for_same_passages_and_model() -> None:
    def is_shipped(questions: QuestionSet, **values: object) -> bool:
        passages = questions.passages
        texts = passages.indexed_texts(title=True)
        key = late_encoder(questions, **values).key_of_passages(texts, passages.title_lengths(title=True))
        return cache.sample_path("token-vectors", key).is_file()

    assert is_shipped(SAMPLE)
    changed = [replace(SAMPLE.passages[0], text=SAMPLE.passages[0].text + "."), *[*SAMPLE.passages][1:]]
    assert not is_shipped(QuestionSet("changed", changed, SAMPLE.questions))
    assert not is_shipped(QuestionSet("fewer", [*SAMPLE.passages][1:], ()))
    for values in ({"dimensions": 128}, {"layers": TokenLayers.LAST}, {"window_tokens": 64}):
        assert not is_shipped(SAMPLE, **values), values


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """No text is read by Kiwi."""

    def read(texts: list[str], *_: object) -> list[object]:
        raise AssertionError(f"{len(texts)} texts are analyzed")

    monkeypatch.setattr(analysis_module, "morphemes", read)


def test_compares_sample_without_analyzing_texts(unread: None) -> None:
    experiment = Experiment(data="sample", retriever=(BM25Spec(name="BM25"),))
    comparison = compare(experiment, SAMPLE)
    assert [result.error for result in comparison.results] == [None]
    assert analysis_module.tokens_of(Analyzer.KIWI, TEXTS).texts()[0]


@pytest.mark.slow
def test_shipped_tokens_are_current(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = [analysis_module.tokens_of(Analyzer.KIWI_BIGRAM, texts) for texts in (QUESTIONS, TEXTS)]
    monkeypatch.setattr(cache, "_SHIPPED", tmp_path_factory.mktemp("sample"))
    monkeypatch.setenv("MRC_WORKSPACE", str(tmp_path_factory.mktemp("workspace")))
    for texts, before in zip((QUESTIONS, TEXTS), shipped, strict=True):
        today = analysis_module.tokens_of(Analyzer.KIWI_BIGRAM, texts)
        assert today.vocabulary == before.vocabulary
        np.testing.assert_array_equal(today.ids, before.ids)
        np.testing.assert_array_equal(today.offsets, before.offsets)


@needs_base
@pytest.mark.slow
@pytest.mark.packaged
def test_shipped_vectors_match_model(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    def files() -> dict[str, int]:
        kinds = ("tokens", "vectors", "token-vectors", "rankings")
        return {kind: len([*cache.sample_path(kind, "").parent.glob("*.npz")]) for kind in kinds}

    kinds = files()
    encoder = BiEncoder(find_model(DEFAULT.reference), TEXTS)
    shipped = encoder.encode_questions(QUESTIONS), encoder.encode_passages(TEXTS)
    assert "model" not in vars(encoder)  # the model is not loaded
    assert not (workspace() / "cache" / "vectors").exists()
    some = slice(None, None, 25)  # shipped anew: all take a minute
    monkeypatch.setattr(cache, "_SHIPPED", tmp_path_factory.mktemp("sample"))
    questions = tuple(replace(question, relevant=()) for question in SAMPLE.questions[some])
    ship(QuestionSet("part", [*SAMPLE.passages][some], questions))
    assert files() == kinds
    texts = QUESTIONS[some], [*TEXTS][some]
    anew = encoder.encode_questions(texts[0]), encoder.encode_passages(texts[1])
    assert "model" not in vars(encoder)
    for side, of, before, now in zip(("question", "passage"), texts, shipped, anew, strict=True):
        np.testing.assert_allclose(now, before[some], atol=1e-5)  # in float32, on any machine
        few = encoder.encode(side, of[:8])  # as this machine encodes what a person brings
        assert (few * before[some][:8]).sum(axis=1).min() > 0.999
