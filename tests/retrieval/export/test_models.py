"""Models as ONNX agree with the original models, and so do their metrics."""

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
from mrc_workbench.retrieval.comparison.compare import Comparison, build_context, compare
from mrc_workbench.retrieval.export import models
from mrc_workbench.retrieval.export.folder import export_retriever
from mrc_workbench.retrieval.export.fusion import ExportTarget
from mrc_workbench.retrieval.export.models import MODEL_FILES, OnnxMetrics, write_models
from mrc_workbench.retrieval.export.payloads import new_question_values
from mrc_workbench.retrieval.export.signals import ExportError
from tests.doubles import PASSAGES, QUESTIONS, small_set, texts_of
from tests.models.worlds import sharpened
from tests.retrieval.compared import BIGRAMS, experiment_of
from tests.retrieval.export.test_engines import parts_of
from tests.retrieval.export.test_folder import lines
from tests.tiny_models import MAX_LENGTH, TINY, build_bi_encoder, build_cross_encoder_base, with_head

pytestmark = pytest.mark.slow
EXACT = Precision.FLOAT32
# the base folder, the exported folder, its metrics, and the comparison
ExportedModels = tuple[Path, Path, list[OnnxMetrics], Comparison]
LONG = " ".join(texts_of(QUESTIONS) * 9)  # longer than the models read
TEXTS = [*texts_of(QUESTIONS), "", "a", LONG]


@pytest.fixture(scope="module")
def exported_models(tmp_path_factory: pytest.TempPathFactory) -> ExportedModels:
    base_folder = tmp_path_factory.mktemp("onnx")
    bi_encoder = sharpened(build_bi_encoder(base_folder / "bi"))
    cross_encoder = sharpened(with_head(build_cross_encoder_base(base_folder / "cross")))
    specs = (
        BIGRAMS,
        {"name": "dense", "kind": "dense", "model": str(bi_encoder), "precision": "float32"},
        {"name": "late", "kind": "late", "model": str(bi_encoder), "dimensions": 16, "precision": "float32"},
        {"name": "mix", "kind": "hybrid", "retrievers": ["bigrams", "dense", "late"]},
        {"name": "all", "kind": "rerank", "first_stage": "mix", "model": str(cross_encoder), "precision": "float32"},
    )
    comparison = compare(experiment_of(*specs), small_set())
    _, metrics = export_retriever(comparison, small_set(), "all", ExportTarget.ONNX, base_folder / "made")
    return base_folder, base_folder / "made", metrics, comparison


def test_metrics_stay_within_rounding(exported_models: ExportedModels) -> None:
    _, folder, metrics, _ = exported_models
    kinds = {model_metrics.retriever: model_metrics.kind for model_metrics in metrics}
    assert kinds == {"dense": "dense", "late": "late", "all": "rerank"}
    for model_metrics in metrics:
        assert 0.999 < model_metrics.agreement <= 1 + 1e-6
        assert 0.9 < model_metrics.agreement_int8 < 1 - 1e-7
        assert model_metrics.ndcg_float == pytest.approx(model_metrics.ndcg, abs=1e-9)
        assert min(model_metrics.seconds, model_metrics.seconds_float, model_metrics.seconds_int8) > 0
        sizes = [(folder / model_metrics.folder / form).stat().st_size for form in MODEL_FILES]
        assert [model_metrics.bytes_float, model_metrics.bytes_int8] == sizes
        assert f" {model_metrics.agreement_int8:.4f} |" in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", MODEL_FILES)
def test_script_encodes_like_models(form: str, exported_models: ExportedModels) -> None:
    from mrc_workbench.retrieval.export.scripts.encode import Model

    base_folder, folder, metrics, _ = exported_models
    close = 1e-4 if form == MODEL_FILES[0] else 0.2
    source = find_model(str(base_folder / "bi"))
    dense = Model(folder / metrics[0].folder, form)
    for side in ("question", "passage"):
        expected = BiEncoder(source, (), precision=EXACT).encode(side, TEXTS)
        np.testing.assert_allclose(dense.encode(TEXTS, side), expected, atol=close)
    late = Model(folder / metrics[1].folder, form)
    encoder = TokenEncoder(source, [], precision=EXACT)
    passages = [f"{item.title}\n{item.text}" if item.title else item.text for item in PASSAGES]
    for ours, wide in zip(late.encode_tokens(passages, "passage"), encoder.encode("passage", passages), strict=True):
        narrow = wide.astype(np.float32) @ late.projection
        narrow /= np.linalg.norm(narrow, axis=1, keepdims=True)
        np.testing.assert_allclose(ours, narrow, atol=max(close, 2e-3))  # the encoder keeps half precision
    pairs = [(question, text) for question in TEXTS[:3] for text in TEXTS]
    theirs = CrossEncoderScorer(find_model(str(base_folder / "cross")), (), precision=EXACT).score(pairs)
    np.testing.assert_allclose(Model(folder / metrics[2].folder, form).score(pairs), theirs, atol=10 * close)


def test_stores_large_tables_in_half_precision(
    tmp_path: Path, exported_models: ExportedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mrc_workbench.retrieval.export.scripts.encode import Model

    base_folder, folder, metrics, _ = exported_models
    monkeypatch.setattr(models, "_MIN_HALVED_SIZE", 1000)
    models.write_onnx_model(tmp_path / "half", "dense", load_bi_encoder(find_model(str(base_folder / "bi")), ()))
    whole = folder / metrics[0].folder
    half = tmp_path / "half"
    saved = [(model_folder / MODEL_FILES[1]).stat().st_size for model_folder in (whole, half)]
    assert saved[0] - saved[1] > 2 * MAX_LENGTH * TINY["hidden_size"] * 0.9  # a table of positions, at the least
    vectors = [Model(model_folder, MODEL_FILES[1]).encode(TEXTS, "passage") for model_folder in (whole, half)]
    np.testing.assert_allclose(*vectors, atol=0.05)
    assert not np.array_equal(*vectors)


def test_exports_late_interaction_to_vespa(tmp_path: Path, exported_models: ExportedModels) -> None:
    comparison = exported_models[3]
    whole = small_set()
    folder = tmp_path / "late"
    metrics, _ = export_retriever(comparison, whole, "late", ExportTarget.VESPA, folder)
    supporting = ["elasticsearch", "opensearch", "vespa"]
    assert [engine_metrics.engine for engine_metrics in metrics] == [*supporting, "langchain", "llamaindex"]
    assert all(engine_metrics.engine_score == engine_metrics.workbench_score for engine_metrics in metrics)
    documents, questions = (lines(folder / f"{name}.jsonl") for name in ("documents", "questions"))
    held = [[*document["fields"]["tokens"]["blocks"].values()] for document in documents]
    # sum(reduce(sum(query * attribute, x), max, token), query_token), by loops
    for row, question in enumerate(questions):
        query_tokens = question["values"]["tokens"]["blocks"].values()
        scores = [sum(max(sum(map(mul, item, token)) for token in tokens) for item in query_tokens) for tokens in held]
        expected = comparison.rankings["late"].indices[row].tolist()
        assert sorted(range(5), key=lambda passage_row: -scores[passage_row]) == expected
    values = new_question_values(folder, [item["text"] for item in questions])
    for item, question in zip(values, questions, strict=True):
        ours, theirs = (np.array([*of["tokens"]["blocks"].values()]) for of in (item, question["values"]))
        np.testing.assert_allclose(ours, theirs, atol=2e-3)
    schema = (folder / "application" / "schemas").glob("*.sd").__next__().read_text(encoding="utf-8")
    field = vespa.Field("tokens", "tensor<float>(token{},x[16])", ["attribute"])
    inputs = [("query(query_tokens)", "tensor<float>(query_token{},x[16])")]
    profile = vespa.RankProfile("exported", "late_tokens", inputs=inputs)
    theirs = vespa.Schema("passages", vespa.Document([field]), rank_profiles=[profile]).schema_to_text
    assert {*parts_of(theirs)} - {*parts_of(schema)} <= {"schema passages {", "document passages {"}
    with pytest.raises(ExportError, match="weaviate"):
        export_retriever(comparison, whole, "late", ExportTarget.WEAVIATE, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_rejects_retriever_without_transformer(tmp_path: Path, exported_models: ExportedModels) -> None:
    comparison = exported_models[3]
    context = build_context(comparison.experiment, comparison.question_set)
    with pytest.raises(ExportError) as caught:
        write_models(tmp_path, comparison, context, "bigrams", lambda _: None)
    assert caught.value.code == "no_network"
