"""The training of a sparse encoder: losses by hand, the model in its library, metrics as in search."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from sentence_transformers import SparseEncoder
from sentence_transformers.sparse_encoder.modules import Router, SparseStaticEmbedding

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import save_question_set
from mrc_workbench.models.loading import load_sparse_encoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.training.engine.adaptation import compute_idf, weight_questions_by_idf
from mrc_workbench.training.options import OptionError
from mrc_workbench.training.ranker_options import SPARSE_ENCODER, SparseEncoderOptions
from mrc_workbench.training.recipes.examples import ANCHOR, encoder_examples
from mrc_workbench.training.recipes.losses import negatives_of_processes, sparse_encoder_loss
from mrc_workbench.training.runs import Run
from mrc_workbench.training.train import load_training_data, train
from mrc_workbench.workbench.cli import main
from tests.tiny_models import SENTENCES, build_bi_encoder, build_sparse_encoder
from tests.training.worlds import create_planned_run, measures_of_ranks, read_logged, shuffled

pytestmark = pytest.mark.slow


SHARES = ["--validation-share", "0.2", "--test-share", "0.2", "--split-seed", "1"]
OFTEN = ["--epochs", "2", "--batch-size", "8", "--learning-rate", "0.005", "--logging-steps", "1", "--warmup", "0"]
TRAININGS = {
    "splade": ["--precision", "float32"],
    "in-parts": ["--mini-batch-size", "3", "--negatives", "1", "--precision", "float32"],
    "inference-free": ["--question-side", "idf", "--lora-rank", "2", "--precision", "bfloat16"],
}


@pytest.fixture(scope="module")
def workspace_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sparse")
    build_sparse_encoder(folder / "tiny")
    return folder


@pytest.fixture(scope="module")
def trained(workspace_folder: Path) -> dict[str, Run]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(workspace_folder / "workspace"))
        key = save_question_set(shuffled(20, 20)).key
        for name, options in TRAININGS.items():
            words = ["--data", key, "--base", str(workspace_folder / "tiny"), "--out", str(workspace_folder / name)]
            assert main(["train", SPARSE_ENCODER, *words, *SHARES, *OFTEN, *options]) == 0
    return {name: Run(workspace_folder / name) for name in TRAININGS}


@pytest.fixture
def _workspace(workspace_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_WORKSPACE", str(workspace_folder / "workspace"))


@pytest.mark.usefixtures("_workspace")
@pytest.mark.parametrize("name", TRAININGS)
def test_library_model_reproduces_reported_scores(name: str, trained: dict[str, Run]) -> None:
    run = trained[name]
    assert run.status().state is State.DONE
    losses = read_logged(run, "loss")
    assert len(losses) == run.status().total_steps > 0
    assert np.isfinite(losses).all()
    files = {path.suffix for path in run.model_folder.rglob("*") if path.is_file()}
    assert files == {".safetensors", ".json", ".md"}
    base = load_file(run.folder.parent / "tiny" / "model.safetensors")
    (weights,) = (path for path in run.model_folder.rglob("*.safetensors") if "Static" not in str(path))
    ours = load_file(weights)
    assert not [key for key in ours if "lora" in key or "base_layer" in key]
    assert [key for key in ours if not np.array_equal(ours[key], base[key])]

    plain = SparseEncoder(str(run.model_folder), device="cpu")
    data = load_training_data(run.plan())
    query_vectors = plain.encode_query([question.text for question in data.validation.questions])
    held = plain.encode_document(data.texts)
    active = {"question": query_vectors, "passage": held}
    for side, counts in run.scores()["active_terms"].items():
        assert counts == pytest.approx(float((active[side].to_dense() > 0).sum(dim=1).float().mean()), rel=0.05)
    if name == "inference-free":  # in bfloat16, two passages may swap ranks
        return
    order = np.argsort(-plain.similarity(query_vectors, held).numpy(), axis=1, kind="stable")
    right = [data.question_set.row_of_passage[question.relevant[0]] for question in data.validation.questions]
    ranks = [[*rows].index(row) + 1 for rows, row in zip(order.tolist(), right, strict=True)]
    assert run.scores()["after"] == pytest.approx(measures_of_ranks(ranks))


@pytest.mark.usefixtures("_workspace")
def test_finished_run_can_be_searched_and_trained_further(trained: dict[str, Run], workspace_folder: Path) -> None:
    run = trained["inference-free"]
    data = load_training_data(run.plan())
    spec = {"name": "Sparse", "kind": "sparse", "model": str(run.folder), "precision": "bfloat16"}
    split = {"split": "validation", "validation_fraction": 0.2, "test_fraction": 0.2, "seed": 1, "ks": [1, 10]}
    experiment = Experiment.model_validate({"data": "", **split, "retriever": [spec]})
    searched_scores = compare(experiment, data.question_set).scores["Sparse"].means()
    assert searched_scores["ndcg@10"] == pytest.approx(run.scores()["after"]["ndcg@10"], abs=1e-9)
    words = ["--data", run.plan().data, "--base", str(run.folder), "--out", str(workspace_folder / "again")]
    assert main(["train", SPARSE_ENCODER, *words, *SHARES, *OFTEN]) == 0
    again = load_sparse_encoder(find_model(str(workspace_folder / "again")))
    assert isinstance(again[0], Router)  # as the base does
    before = Run(workspace_folder / "again").scores()["before"]
    assert before["ndcg@10"] == pytest.approx(searched_scores["ndcg@10"], abs=0.2)


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_loss_matches_formula(in_parts: bool, temperature: float, workspace_folder: Path) -> None:
    regularizers = {"question_regularizer": 0.02, "passage_regularizer": 0.03}
    options = SparseEncoderOptions(temperature=temperature, mini_batch_size=2 if in_parts else 0, **regularizers)
    model = load_sparse_encoder(find_model(str(workspace_folder / "tiny")))
    model.eval()  # without dropout
    columns = [list(SENTENCES[:3]), list(SENTENCES[1:4]), list(SENTENCES[2:5])]
    features = [model.preprocess(column) for column in columns]
    actual = sparse_encoder_loss(model, options)([dict(column_features) for column_features in features])
    query_vectors, *held = (model.encode(column).to_dense().numpy().astype(np.float64) for column in columns)
    passages = np.concatenate(held)
    logits = query_vectors @ passages.T / temperature
    ranking = np.mean([np.log(np.exp(row - row.max()).sum()) + row.max() - row[n] for n, row in enumerate(logits)])
    flops = [0.02 * (query_vectors.mean(axis=0) ** 2).sum(), 0.03 * (passages.mean(axis=0) ** 2).sum()]
    assert float(sum(actual.values()).detach()) == pytest.approx(ranking + sum(flops), rel=1e-4)


def test_regularizers_warm_up_over_a_third_of_steps(trained: dict[str, Run]) -> None:
    logged_weights = read_logged(trained["splade"], "document_regularizer_weight")
    assert logged_weights[0] == 0
    assert logged_weights[-1] == pytest.approx(SparseEncoderOptions().passage_regularizer)


def test_idf_matches_bm25_and_stays_fixed(workspace_folder: Path) -> None:
    model = load_sparse_encoder(find_model(str(workspace_folder / "tiny")))
    texts = [*SENTENCES, "한강은 한강은 서울을"]
    idf = compute_idf(model.tokenizer, texts)
    held = [set(model.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]
    for term in range(len(model.tokenizer)):
        n = sum(term in passage_terms for passage_terms in held)
        assert idf[term] == pytest.approx(np.log(1 + (6 - n + 0.5) / (n + 0.5)), rel=1e-5)
    free = weight_questions_by_idf(model, texts)
    weights = free[0].sub_modules["query"][0].weight
    assert isinstance(free[0].sub_modules["query"][0], SparseStaticEmbedding)
    assert not weights.requires_grad
    query_vector = free.encode_query("한강은 한강은").to_dense()
    (term,) = set(model.tokenizer("한강은", add_special_tokens=False)["input_ids"])
    assert torch.nonzero(query_vector).flatten().tolist() == [term]
    assert float(query_vector[term]) == pytest.approx(idf[term])
    vectors, expected = (encoder.encode_document(SENTENCES[0]).to_dense() for encoder in (free, model))
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_rejects_idf_for_other_vocabulary(workspace_folder: Path) -> None:
    model = load_sparse_encoder(find_model(str(workspace_folder / "tiny")))
    model[0].auto_model.config.vocab_size += 2
    with pytest.raises(OptionError) as error:
        weight_questions_by_idf(model, SENTENCES)
    assert (error.value.option, error.value.code) == ("question_side", "vocabulary")


def test_examples_hold_all_hard_negatives(workspace_folder: Path) -> None:
    del workspace_folder
    run = create_planned_run(SPARSE_ENCODER, shuffled(20, 20), SplitOptions(0.2, 0.2, 1), negatives=2)
    plan = run.plan()
    assert isinstance(plan.options, SparseEncoderOptions)
    columns, examples = encoder_examples(plan.options, load_training_data(plan))
    assert list(columns) == [ANCHOR, "positive", "negative_1", "negative_2"]
    assert examples.in_batch_negatives
    assert negatives_of_processes(plan.options) == "gathered"


@pytest.mark.parametrize("base", ["starter", "bi-encoder"])
def test_rejects_base_without_mlm_head(base: str, tmp_path: Path) -> None:
    reference = str(build_bi_encoder(tmp_path / "bi")) if base == "bi-encoder" else base
    status = train(create_planned_run(SPARSE_ENCODER, shuffled(20, 20), base=reference))
    assert (status.state, status.code) == (State.FAILED, "not_sparse")
    assert "klue/roberta-base" in status.message


def test_card_reports_active_terms(trained: dict[str, Run]) -> None:
    run = trained["splade"]
    active = json.loads((run.folder / "scores.json").read_text())["active_terms"]
    card = (run.model_folder / "README.md").read_text(encoding="utf-8")
    assert f"{active['question']:,.1f} terms of a question and {active['passage']:,.1f} of a passage" in card
