"""Models as ONNX say what the models say, and what is measured of them is what they say."""

import json
from operator import mul
from pathlib import Path

import numpy as np
import pytest
from vespa import package as vespa

from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.loading import load_bi_encoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.retrieval.comparison.compare import Comparison, compare, materials_of
from mrc_workbench.retrieval.takeaway import models
from mrc_workbench.retrieval.takeaway.asking import values_of
from mrc_workbench.retrieval.takeaway.folder import take_away
from mrc_workbench.retrieval.takeaway.fusion import Engine
from mrc_workbench.retrieval.takeaway.models import FORMS, ModelFigure, write_models
from mrc_workbench.retrieval.takeaway.signals import TakeAwayError
from tests.doubles import PASSAGES, QUESTIONS, small_set, texts_of
from tests.models.worlds import telling
from tests.retrieval.compared import BIGRAMS, experiment_of
from tests.retrieval.takeaway.test_engines import parts_of
from tests.tiny_models import MAX_LENGTH, TINY, build_bi_encoder, build_cross_encoder_base, with_head

pytestmark = pytest.mark.slow
EXACT = Precision.FLOAT32
LONG = " ".join(texts_of(QUESTIONS) * 9)  # longer than the models read
TEXTS = [*texts_of(QUESTIONS), "", "a", LONG]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[ModelFigure], Comparison]:
    place = tmp_path_factory.mktemp("onnx")
    bi_encoder = telling(build_bi_encoder(place / "bi"))
    cross_encoder = telling(with_head(build_cross_encoder_base(place / "cross")))
    specs = (
        BIGRAMS,
        {"name": "dense", "kind": "dense", "model": str(bi_encoder), "precision": "float32"},
        {"name": "late", "kind": "late", "model": str(bi_encoder), "dimensions": 16, "precision": "float32"},
        {"name": "mix", "kind": "hybrid", "of": ["bigrams", "dense", "late"]},
        {"name": "all", "kind": "rerank", "first": "mix", "model": str(cross_encoder), "precision": "float32"},
    )
    comparison = compare(experiment_of(*specs), small_set())
    _, figures = take_away(comparison, small_set(), "all", Engine.ONNX, place / "made")
    return place, place / "made", figures, comparison


def test_what_is_measured_is_within_what_rounding_explains(
    made: tuple[Path, Path, list[ModelFigure], Comparison],
) -> None:
    _, folder, figures, _ = made
    assert [(one.retriever, one.kind) for one in figures] == [("dense", "dense"), ("late", "late"), ("all", "rerank")]
    for one in figures:
        assert 0.999 < one.agreement <= 1 + 1e-6
        assert 0.9 < one.agreement_int8 < 1 - 1e-7
        assert one.ndcg_float == pytest.approx(one.ndcg, abs=1e-9)
        assert min(one.seconds, one.seconds_float, one.seconds_int8) > 0
        sizes = [(folder / one.place / form).stat().st_size for form in FORMS]
        assert [one.bytes_float, one.bytes_int8] == sizes
        assert f" {one.agreement_int8:.4f} |" in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", FORMS)
def test_the_script_reads_texts_as_the_models_do(
    form: str, made: tuple[Path, Path, list[ModelFigure], Comparison]
) -> None:
    from mrc_workbench.retrieval.takeaway.scripts.encode import Model

    place, folder, figures, _ = made
    close = 1e-4 if form == FORMS[0] else 0.2
    source = find_model(str(place / "bi"))
    dense = Model(folder / figures[0].place, form)
    for side in ("question", "passage"):
        expected = BiEncoder(source, (), precision=EXACT).encode(side, TEXTS)
        np.testing.assert_allclose(dense.encode(TEXTS, side), expected, atol=close)
    late, encoder = Model(folder / figures[1].place, form), TokenEncoder(source, [], precision=EXACT)
    passages = [f"{one.title}\n{one.text}" if one.title else one.text for one in PASSAGES]
    for ours, wide in zip(late.encode_tokens(passages, "passage"), encoder.encode("passage", passages), strict=True):
        narrow = wide.astype(np.float32) @ late.projection
        narrow /= np.linalg.norm(narrow, axis=1, keepdims=True)
        np.testing.assert_allclose(ours, narrow, atol=max(close, 2e-3))  # the encoder keeps half precision
    pairs = [(question, text) for question in TEXTS[:3] for text in TEXTS]
    theirs = CrossEncoderScorer(find_model(str(place / "cross")), (), precision=EXACT).score(pairs)
    np.testing.assert_allclose(Model(folder / figures[2].place, form).score(pairs), theirs, atol=10 * close)


def test_large_tables_take_half_the_room_and_say_the_same(
    tmp_path: Path, made: tuple[Path, Path, list[ModelFigure], Comparison], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mrc_workbench.retrieval.takeaway.scripts.encode import Model

    place, folder, figures, _ = made
    monkeypatch.setattr(models, "_LARGE", 1000)
    models.write_network(tmp_path / "half", "dense", load_bi_encoder(find_model(str(place / "bi")), ()))
    whole, half = folder / figures[0].place, tmp_path / "half"
    saved = [(one / FORMS[1]).stat().st_size for one in (whole, half)]
    assert saved[0] - saved[1] > 2 * MAX_LENGTH * TINY["hidden_size"] * 0.9  # a table of positions, at the least
    vectors = [Model(one, FORMS[1]).encode(TEXTS, "passage") for one in (whole, half)]
    np.testing.assert_allclose(*vectors, atol=0.05)
    assert not np.array_equal(*vectors)


def test_vespa_is_given_late_interaction(
    tmp_path: Path, made: tuple[Path, Path, list[ModelFigure], Comparison]
) -> None:
    comparison, whole, folder = made[3], small_set(), tmp_path / "late"
    figures, _ = take_away(comparison, whole, "late", Engine.VESPA, folder)
    own = [Engine.ELASTICSEARCH, Engine.OPENSEARCH, Engine.VESPA]  # engines with late interaction of their own
    assert [figure.engine for figure in figures] == [*own, Engine.LANGCHAIN, Engine.LLAMAINDEX]
    assert all(figure.there == figure.here for figure in figures)
    documents, questions = (
        [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
        for name in ("documents", "questions")
    )
    held = [[*document["fields"]["tokens"]["blocks"].values()] for document in documents]
    for row, question in enumerate(questions):  # sum(reduce(sum(query * attribute, x), max, token), asked), by loops
        asked = question["values"]["tokens"]["blocks"].values()
        scores = [sum(max(sum(map(mul, one, token)) for token in tokens) for one in asked) for tokens in held]
        expected = comparison.rankings["late"].indices[row].tolist()
        assert sorted(range(5), key=lambda place: -scores[place]) == expected
    values = values_of(folder, [one["text"] for one in questions])
    for one, question in zip(values, questions, strict=True):
        ours, theirs = (np.array([*of["tokens"]["blocks"].values()]) for of in (one, question["values"]))
        np.testing.assert_allclose(ours, theirs, atol=2e-3)
    schema = (folder / "application" / "schemas").glob("*.sd").__next__().read_text(encoding="utf-8")
    field = vespa.Field("tokens", "tensor<float>(token{},x[16])", ["attribute"])
    profile = vespa.RankProfile(
        "taken_away", "late_tokens", inputs=[("query(asked_tokens)", "tensor<float>(asked{},x[16])")]
    )
    theirs = vespa.Schema("passages", vespa.Document([field]), rank_profiles=[profile]).schema_to_text
    assert {*parts_of(theirs)} - {*parts_of(schema)} <= {"schema passages {", "document passages {"}
    with pytest.raises(TakeAwayError, match="weaviate"):
        take_away(comparison, whole, "late", Engine.WEAVIATE, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_what_reads_with_no_transformer_has_nothing_to_write(
    tmp_path: Path, made: tuple[Path, Path, list[ModelFigure], Comparison]
) -> None:
    comparison = made[3]
    materials = materials_of(comparison.experiment, comparison.question_set)
    with pytest.raises(TakeAwayError) as caught:
        write_models(tmp_path, comparison, materials, "bigrams", lambda _: None)
    assert caught.value.code == "no_network"
