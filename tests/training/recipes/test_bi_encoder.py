"""A sparse encoder's training: its losses by hand, its model as the library reads it, its figures as in search."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from sentence_transformers import SparseEncoder
from sentence_transformers.sparse_encoder.modules import Router, SparseStaticEmbedding

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, SplitOptions, split
from mrc_workbench.data.store import keep
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.loading import load_bi_encoder, load_sparse_encoder
from mrc_workbench.models.sources import ModelSource, find_model
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.dense import Dense
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.training.base import Examples
from mrc_workbench.training.engine.adaptation import by_idf, idf_of
from mrc_workbench.training.engine.batches import sampler_of
from mrc_workbench.training.options import OptionError
from mrc_workbench.training.ranker_options import BI_ENCODER, SPARSE_ENCODER, BiEncoderOptions, SparseEncoderOptions
from mrc_workbench.training.recipes.examples import ANCHOR, encoder_examples
from mrc_workbench.training.recipes.losses import negatives_of_processes, sparse_encoder_loss
from mrc_workbench.training.recipes.material import Material
from mrc_workbench.training.runs import Phase, Run
from mrc_workbench.training.train import load_material, train
from mrc_workbench.workbench.cli import main
from tests.hub import SENTENCES, build_bi_encoder, build_sparse_encoder
from tests.training.worlds import (
    Trained,
    at_checkpoint,
    logged,
    margin_loss,
    misleading_set,
    planned,
    shuffled,
    source_of,
)

pytestmark = pytest.mark.slow
MEASURES = ("recall@1", "recall@5", "recall@10", "mrr@10", "ndcg@10")


def figures(
    source: ModelSource, material: Material, title: bool = True, asked: QuestionSet | None = None
) -> dict[str, float]:
    """Of the questions asked, those of validation where none are told."""
    asked = asked or material.validation
    dense = Dense("", material.question_set.passages, BiEncoder(source, material.texts), title=title)
    means = evaluate(dense.search([question.text for question in asked.questions], 10), asked, (1, 5, 10)).means()
    return {measure: means[measure] for measure in MEASURES}


def material_and_options(run: Run) -> tuple[Material, BiEncoderOptions]:

    plan = run.plan()
    assert isinstance(plan.options, BiEncoderOptions)
    return load_material(plan), plan.options


def test_it_ends_done(bi_encoder: Trained) -> None:
    status = bi_encoder.status
    assert (status.state, status.phase, status.code, status.message) == (State.DONE, Phase.MEASURING_AFTER, "", "")
    assert status == bi_encoder.run.status() or status.heartbeat < bi_encoder.run.status().heartbeat
    # 336 training questions in batches of 64, three times
    assert (status.step, status.total_steps, status.seconds_left) == (18, 18, None)
    assert len(logged(bi_encoder.run, "loss")) == 18


def test_scores_are_those_of_the_retrieval_room(bi_encoder: Trained) -> None:
    scores = bi_encoder.run.scores()
    material = bi_encoder.material
    assert scores["before"] == pytest.approx(figures(find_model("starter"), material), abs=1e-12)
    assert scores["after"] == pytest.approx(figures(source_of(bi_encoder.run), material), abs=1e-12)
    assert (scores["measured_on"], scores["questions"]) == ("validation", 48)
    assert scores["bm25"] == material.first_stage_scores.validation.means()
    assert scores["seconds"] > 0


def test_on_test_questions_it_reaches_what_a_comparison_would_tell(bi_encoder: Trained) -> None:
    test, question_set = bi_encoder.run.scores()["test"], bi_encoder.question_set
    asked = split(question_set).questions(question_set, Part.TEST)
    assert test["questions"] == len(asked.questions) == 96
    assert test["before"] == pytest.approx(figures(find_model("starter"), bi_encoder.material, asked=asked), abs=1e-12)
    assert test["after"] == pytest.approx(figures(source_of(bi_encoder.run), bi_encoder.material, asked=asked))
    found = bi_encoder.material.first_stage.search([question.text for question in asked.questions], 10)
    bm25 = evaluate(found, asked, (1, 5, 10)).means()
    assert test["bm25"] == {measure: bm25[measure] for measure in MEASURES}
    assert test["gain"]["difference"] == pytest.approx(test["after"]["ndcg@10"] - test["before"]["ndcg@10"], abs=1e-12)
    assert test["gain"]["interval"][0] <= test["gain"]["difference"] <= test["gain"]["interval"][1]
    assert test["intervals"].keys() == {"before", "after", "bm25"}


def test_the_model_kept_is_the_best_of_those_measured_in_memory(bi_encoder: Trained) -> None:
    # the trainer measures the model in memory; `after` is of the model loaded back
    measured = [entry for entry in bi_encoder.run.progress() if "eval_validation_ndcg@10" in entry]
    assert [entry["step"] for entry in measured] == [6, 12, 18]
    best = max(measured, key=lambda entry: entry["eval_validation_ndcg@10"])
    after = bi_encoder.run.scores()["after"]
    assert after == pytest.approx({measure: best[f"eval_validation_{measure}"] for measure in MEASURES}, abs=1e-9)

    texts = bi_encoder.material.texts[:50]
    base = load_bi_encoder(find_model("starter"), bi_encoder.material.texts)
    before = base.encode(texts)
    kept = load_bi_encoder(source_of(bi_encoder.run), []).encode(texts)
    np.testing.assert_array_equal(kept, at_checkpoint(bi_encoder.run, best["step"], base).encode(texts))
    assert np.abs(kept - before).max() > 1e-4


def test_what_is_measured_meanwhile_is_what_another_library_measures(bi_encoder: Trained) -> None:
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    material = bi_encoder.material
    ids = [passage.id for passage in material.question_set.passages]
    evaluator = InformationRetrievalEvaluator(
        queries={question.id: question.text for question in material.validation.questions},
        corpus=dict(zip(ids, material.texts, strict=True)),
        relevant_docs={question.id: set(question.relevant) for question in material.validation.questions},
        precision_recall_at_k=[1, 5, 10],
        write_csv=False,
    )
    base = load_bi_encoder(find_model("starter"), material.texts)
    measured = [entry for entry in bi_encoder.run.progress() if "eval_validation_ndcg@10" in entry]
    assert len({entry["eval_validation_ndcg@10"] for entry in measured}) == 3
    for entry in measured:
        theirs = evaluator(at_checkpoint(bi_encoder.run, entry["step"], base))
        for measure in MEASURES:
            assert entry[f"eval_validation_{measure}"] == pytest.approx(theirs[f"cosine_{measure}"], abs=1e-9)


def test_training_questions_are_measured_beside(bi_encoder: Trained) -> None:
    scores, material = bi_encoder.run.scores(), bi_encoder.material
    sample = scores["training_sample"]
    encoder = BiEncoder(source_of(bi_encoder.run), material.texts)
    dense = Dense("dense", material.question_set.passages, encoder)
    found = dense.search([question.text for question in material.sample.questions], 10)
    means = evaluate(found, material.sample, (1, 5, 10)).means()
    assert sample["after"] == pytest.approx({measure: means[measure] for measure in MEASURES}, abs=1e-12)
    assert sample["questions"] == len(material.sample.questions) == 48
    low, high = sample["gain"]["interval"]
    assert low <= sample["gain"]["difference"] <= high
    assert logged(bi_encoder.run, "before_training_ndcg@10") == [sample["before"]["ndcg@10"]]
    at_kept = next(
        entry for entry in bi_encoder.run.progress() if "eval_loss" in entry and entry["step"] == scores["kept_step"]
    )
    assert at_kept["eval_training_ndcg@10"] == pytest.approx(sample["after"]["ndcg@10"], abs=1e-9)
    assert at_kept["eval_validation_ndcg@10"] == pytest.approx(scores["after"]["ndcg@10"], abs=1e-9)


def test_the_validation_loss_is_the_loss_of_held_out_pairs_by_hand(bi_encoder: Trained) -> None:
    material, options = bi_encoder.material, bi_encoder.run.plan().options
    assert isinstance(options, BiEncoderOptions)
    questions, passages = material.held_out.positive_pairs()
    assert len(questions) == 48 < options.batch_size  # one batch, if no passage stands in it twice
    plan = sampler_of(held_out_examples(bi_encoder), batch_size=options.batch_size, seed=options.seed)
    batches = list(plan(range(len(questions))))
    base = load_bi_encoder(find_model("starter"), material.texts)
    for entry in (one for one in bi_encoder.run.progress() if "eval_loss" in one):
        model = at_checkpoint(bi_encoder.run, entry["step"], base)
        losses = [by_margins(model, material, questions[batch], passages[batch], options) for batch in batches]
        assert entry["eval_loss"] == pytest.approx(np.mean(losses), abs=1e-5)


def held_out_examples(trained: Trained) -> Examples:
    options = trained.run.plan().options
    assert isinstance(options, BiEncoderOptions)
    return encoder_examples(options, trained.material.held_out)[1]


def by_margins(
    model: Any, material: Material, questions: np.ndarray, passages: np.ndarray, options: BiEncoderOptions
) -> float:
    """MegaBatchMarginLoss as its formula says: the hardest other passage of the batch against the own one."""
    asked = model.encode([material.validation.questions[row].text for row in questions], normalize_embeddings=True)
    shown = model.encode([material.texts[row] for row in passages], normalize_embeddings=True)
    cosines = asked @ shown.T
    own = np.diag(cosines)
    hardest = (cosines - 2 * np.eye(len(own))).max(axis=1)
    losses = np.maximum(options.positive_margin - own, 0) + np.maximum(hardest - options.negative_margin, 0)
    return float(losses.mean())


def test_a_saved_starter_gives_the_vectors_it_gave_in_memory(bi_encoder: Trained, tmp_path: Path) -> None:
    model = load_bi_encoder(source_of(bi_encoder.run), [])
    texts = [*bi_encoder.material.texts[:20], "", "없는낱말쀍쀍", "한강"]
    in_memory = model.encode(texts)
    model.save_pretrained(str(tmp_path))
    np.testing.assert_array_equal(load_bi_encoder(find_model(str(tmp_path)), []).encode(texts), in_memory)
    assert not in_memory[20].any()


def test_the_model_folder_holds_no_pickles(bi_encoder: Trained) -> None:
    names = {path.name for path in bi_encoder.run.model_folder.rglob("*") if path.is_file()}
    assert "model.safetensors" in names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pth", ".pkl", ".ckpt"))]


def test_no_batch_holds_a_passage_twice(bi_encoder: Trained) -> None:
    options = bi_encoder.run.plan().options
    assert isinstance(options, BiEncoderOptions)
    columns, examples = encoder_examples(options, bi_encoder.material)
    assert len(set(columns["positive"])) < len(columns["positive"]) == 336
    batches = list(sampler_of(examples, batch_size=64)(columns["anchor"]))
    assert sorted(row for batch in batches for row in batch) == list(range(336))
    assert all(len({columns["positive"][row] for row in batch}) == len(batch) for batch in batches)


def test_the_loss_of_an_epoch_is_the_written_formula() -> None:
    # 3 questions a passage and steps of nearly no size: with a passage twice in a batch its cosine would be the hardest
    # negative, and with a batch of 256 two of three questions would be left out
    run = planned(
        BI_ENCODER,
        misleading_set(questions_a_passage=3),
        batch_size=256,
        epochs=1.0,
        learning_rate=1e-9,
        weight_decay=0.0,
        logging_steps=1,
        positive_margin=0.7,
        negative_margin=0.1,
    )
    assert train(run).state is State.DONE
    material, options = material_and_options(run)
    losses = logged(run, "loss")
    assert len(material.train.questions) == 14 * 3
    assert len(losses) == 3
    assert np.mean(losses) == pytest.approx(margin_loss(find_model("starter"), material, options), abs=1e-5)


def test_what_can_be_learned_is_learned() -> None:
    run = planned(BI_ENCODER, misleading_set(), epochs=30.0, learning_rate=0.05, evaluation_steps=10,
                  logging_steps=1)  # fmt: skip
    assert train(run).state is State.DONE
    material, options = material_and_options(run)
    losses = logged(run, "loss")
    # the first batch holds all 14 training pairs
    assert losses[0] == pytest.approx(margin_loss(find_model("starter"), material, options), abs=1e-5)
    assert losses[-1] < losses[0] / 10
    assert margin_loss(source_of(run), material, options) < losses[0] / 2


def test_a_seed_repeats_a_training() -> None:
    runs = [planned(BI_ENCODER, misleading_set(), epochs=2.0, batch_size=4, seed=seed) for seed in (5, 5, 6)]
    for run in runs:
        assert train(run).state is State.DONE
    texts = [passage.text for passage in misleading_set().passages]
    first, again, other = (load_bi_encoder(source_of(run), []).encode(texts) for run in runs)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-7


def test_a_finished_run_can_be_trained_on() -> None:
    first = planned(BI_ENCODER, misleading_set(), epochs=20.0, learning_rate=0.05, evaluation_steps=20)
    assert train(first).state is State.DONE
    second = planned(BI_ENCODER, misleading_set(), base=first.id, epochs=1.0, learning_rate=1e-9)
    assert train(second).state is State.DONE
    assert second.scores()["before"] == first.scores()["after"]
    texts = [passage.text for passage in misleading_set().passages]
    ours, theirs = (load_bi_encoder(source_of(run), []).encode(texts) for run in (first, second))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_five_passages_are_enough() -> None:
    from tests.doubles import small_set

    run = planned(BI_ENCODER, small_set(), SplitOptions(0.25, 0.25, seed=1), epochs=2.0)
    assert train(run).state is State.DONE
    material, _ = material_and_options(run)
    assert run.scores()["after"] == pytest.approx(figures(source_of(run), material), abs=1e-12)


SHARES = ["--validation-share", "0.2", "--test-share", "0.2", "--split-seed", "1"]
OFTEN = ["--epochs", "2", "--batch-size", "8", "--learning-rate", "0.005", "--logging-steps", "1", "--warmup", "0"]
TRAININGS = {
    "splade": ["--precision", "float32"],
    "in-parts": ["--mini-batch-size", "3", "--negatives", "1", "--precision", "float32"],
    "inference-free": ["--question-side", "idf", "--lora-rank", "2", "--precision", "bfloat16"],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sparse")
    build_sparse_encoder(folder / "tiny")
    return folder


@pytest.fixture(scope="module")
def trained(place: Path) -> dict[str, Run]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(place / "workspace"))
        key = keep(shuffled(20, 20)).key
        for name, options in TRAININGS.items():
            words = ["--data", key, "--base", str(place / "tiny"), "--out", str(place / name)]
            assert main(["train", SPARSE_ENCODER, *words, *SHARES, *OFTEN, *options]) == 0
    return {name: Run(place / name) for name in TRAININGS}


@pytest.fixture
def _workspace(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_WORKSPACE", str(place / "workspace"))


@pytest.mark.usefixtures("_workspace")
@pytest.mark.parametrize("name", TRAININGS)
def test_the_model_is_one_of_the_library_and_scores_what_was_told(name: str, trained: dict[str, Run]) -> None:
    run = trained[name]
    assert run.status().state is State.DONE
    losses = logged(run, "loss")
    assert len(losses) == run.status().total_steps > 0
    assert np.isfinite(losses).all()
    files = {path.suffix for path in run.model_folder.rglob("*") if path.is_file()}
    assert files == {".safetensors", ".json", ".md"}
    base = load_file(run.folder.parent / "tiny" / "model.safetensors")
    (weights,) = (path for path in run.model_folder.rglob("*.safetensors") if "Static" not in str(path))
    ours = load_file(weights)
    assert not [key for key in ours if "lora" in key or "base_layer" in key]
    assert [key for key in ours if not np.array_equal(ours[key], base[key])]

    plain, material = SparseEncoder(str(run.model_folder), device="cpu"), load_material(run.plan())
    asked = plain.encode_query([question.text for question in material.validation.questions])
    held = plain.encode_document(material.texts)
    active = {"question": asked, "passage": held}
    for side, counts in run.scores()["active_terms"].items():
        assert counts == pytest.approx(float((active[side].to_dense() > 0).sum(dim=1).float().mean()), rel=0.05)
    if name == "inference-free":  # in bfloat16 two passages may change places
        return
    order = np.argsort(-plain.similarity(asked, held).numpy(), axis=1, kind="stable")
    right = [material.question_set.row_of_passage[question.relevant[0]] for question in material.validation.questions]
    ranks = np.array([[*rows].index(row) + 1 for rows, row in zip(order.tolist(), right, strict=True)])
    after = run.scores()["after"]
    assert after["recall@1"] == pytest.approx((ranks == 1).mean())
    assert after["recall@10"] == pytest.approx((ranks <= 10).mean())
    assert after["ndcg@10"] == pytest.approx(np.where(ranks <= 10, 1 / np.log2(ranks + 1), 0).mean())


@pytest.mark.usefixtures("_workspace")
def test_a_finished_run_is_searched_and_trained_on(trained: dict[str, Run], place: Path) -> None:
    run = trained["inference-free"]
    material = load_material(run.plan())
    spec = {"name": "Sparse", "kind": "sparse", "model": str(run.folder), "precision": "bfloat16"}
    split = {"split": "validation", "validation_share": 0.2, "test_share": 0.2, "seed": 1, "ks": [1, 10]}
    experiment = Experiment.model_validate({"data": "", **split, "retriever": [spec]})
    found = compare(experiment, material.question_set).scores["Sparse"].means()
    assert found["ndcg@10"] == pytest.approx(run.scores()["after"]["ndcg@10"], abs=1e-9)
    words = ["--data", run.plan().data, "--base", str(run.folder), "--out", str(place / "again")]
    assert main(["train", SPARSE_ENCODER, *words, *SHARES, *OFTEN]) == 0
    again = load_sparse_encoder(find_model(str(place / "again")))
    assert isinstance(again[0], Router)  # as the base does
    assert Run(place / "again").scores()["before"]["ndcg@10"] == pytest.approx(found["ndcg@10"], abs=0.2)


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_the_loss_is_the_written_formula(in_parts: bool, temperature: float, place: Path) -> None:
    options = SparseEncoderOptions(
        temperature=temperature,
        question_regularizer=0.02,
        passage_regularizer=0.03,
        mini_batch_size=2 if in_parts else 0,
    )
    model = load_sparse_encoder(find_model(str(place / "tiny")))
    model.eval()  # nothing is forgotten at random
    columns = [list(SENTENCES[:3]), list(SENTENCES[1:4]), list(SENTENCES[2:5])]
    features = [model.preprocess(column) for column in columns]
    told = sparse_encoder_loss(model, options)([dict(one) for one in features])
    asked, *held = (model.encode(column).to_dense().numpy().astype(np.float64) for column in columns)
    passages = np.concatenate(held)
    logits = asked @ passages.T / temperature
    ranking = np.mean([np.log(np.exp(row - row.max()).sum()) + row.max() - row[n] for n, row in enumerate(logits)])
    flops = [0.02 * (asked.mean(axis=0) ** 2).sum(), 0.03 * (passages.mean(axis=0) ** 2).sum()]
    assert float(sum(told.values()).detach()) == pytest.approx(ranking + sum(flops), rel=1e-4)


def test_regularizers_rise_to_their_weights_over_a_third_of_the_steps(trained: dict[str, Run]) -> None:
    told = logged(trained["splade"], "document_regularizer_weight")
    assert told[0] == 0
    assert told[-1] == pytest.approx(SparseEncoderOptions().passage_regularizer)


def test_idf_is_that_of_bm25_and_stays(place: Path) -> None:
    model = load_sparse_encoder(find_model(str(place / "tiny")))
    texts = [*SENTENCES, "한강은 한강은 서울을"]
    idf = idf_of(model.tokenizer, texts)
    held = [set(model.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]
    for term in range(len(model.tokenizer)):
        n = sum(term in one for one in held)
        assert idf[term] == pytest.approx(np.log(1 + (6 - n + 0.5) / (n + 0.5)), rel=1e-5)
    free = by_idf(model, texts)
    weights = free[0].sub_modules["query"][0].weight
    assert isinstance(free[0].sub_modules["query"][0], SparseStaticEmbedding)
    assert not weights.requires_grad
    asked = free.encode_query("한강은 한강은").to_dense()
    (term,) = set(model.tokenizer("한강은", add_special_tokens=False)["input_ids"])
    assert torch.nonzero(asked).flatten().tolist() == [term]
    assert float(asked[term]) == pytest.approx(idf[term])
    np.testing.assert_allclose(
        free.encode_document(SENTENCES[0]).to_dense(), model.encode_document(SENTENCES[0]).to_dense(), atol=1e-6
    )


def test_a_vocabulary_that_the_tokenizer_does_not_know_keeps_its_questions(place: Path) -> None:
    model = load_sparse_encoder(find_model(str(place / "tiny")))
    model[0].auto_model.config.vocab_size += 2
    with pytest.raises(OptionError) as told:
        by_idf(model, SENTENCES)
    assert (told.value.option, told.value.code) == ("question_side", "vocabulary")


def test_examples_hold_all_hard_negatives_of_a_question(place: Path) -> None:
    del place
    run = planned(SPARSE_ENCODER, shuffled(20, 20), SplitOptions(0.2, 0.2, 1), negatives=2)
    plan = run.plan()
    assert isinstance(plan.options, SparseEncoderOptions)
    columns, examples = encoder_examples(plan.options, load_material(plan))
    assert list(columns) == [ANCHOR, "positive", "negative_1", "negative_2"]
    assert examples.in_batch
    assert negatives_of_processes(plan.options) == "gathered"


@pytest.mark.parametrize("base", ["starter", "bi-encoder"])
def test_a_base_without_the_head_is_refused(base: str, tmp_path: Path) -> None:
    reference = str(build_bi_encoder(tmp_path / "bi")) if base == "bi-encoder" else base
    status = train(planned(SPARSE_ENCODER, shuffled(20, 20), base=reference))
    assert (status.state, status.code) == (State.FAILED, "not_sparse")
    assert "klue/roberta-base" in status.message


def test_the_card_tells_how_many_terms_weigh(trained: dict[str, Run]) -> None:
    run = trained["splade"]
    active = json.loads((run.folder / "scores.json").read_text())["active_terms"]
    card = (run.model_folder / "README.md").read_text(encoding="utf-8")
    assert f"{active['question']:,.1f} terms in a question and {active['passage']:,.1f} in a passage" in card
