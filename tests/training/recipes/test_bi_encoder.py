"""The training of a bi-encoder: metrics as in search, losses by hand, and the saved model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, SplitOptions, split
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.loading import load_bi_encoder
from mrc_workbench.models.sources import ModelSource, find_model
from mrc_workbench.retrieval.dense import Dense
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.training.engine.batches import make_sampler
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderOptions
from mrc_workbench.training.recipes.examples import encoder_examples
from mrc_workbench.training.recipes.training_data import TrainingData
from mrc_workbench.training.runs import Phase, Run
from mrc_workbench.training.train import load_training_data
from tests.doubles import small_set
from tests.training import worlds

pytestmark = pytest.mark.slow
MEASURES = ("recall@1", "recall@5", "recall@10", "mrr@10", "ndcg@10")


def compute_metrics(source: ModelSource, data: TrainingData, queries: QuestionSet | None = None) -> dict[str, float]:
    queries = queries or data.validation
    dense = Dense("", data.question_set.passages, BiEncoder(source, data.texts))
    rankings = dense.search([question.text for question in queries.questions], 10)
    means = evaluate(rankings, queries, (1, 5, 10)).means()
    return {measure: means[measure] for measure in MEASURES}


def options_of(run: Run) -> BiEncoderOptions:
    options = run.plan().options
    assert isinstance(options, BiEncoderOptions)
    return options


def loss_of(source: ModelSource, run: Run) -> float:
    """Wieting & Gimpel's loss of all training questions against all passages of questions."""
    data = load_training_data(run.plan())
    options = options_of(run)
    encoder = BiEncoder(source, data.texts)
    questions, positives = data.positive_pairs()
    question_texts = [data.train.questions[row].text for row in questions]
    passages = sorted(set(positives.tolist()))
    texts = [data.texts[row] for row in passages]
    cosines = encoder.encode_questions(question_texts) @ encoder.encode_passages(texts).T
    losses = []
    for row, passage in enumerate(positives.tolist()):
        positive_column = passages.index(passage)
        hardest = max(cosine for column, cosine in enumerate(cosines[row]) if column != positive_column)
        too_far = max(0.0, options.positive_margin - cosines[row, positive_column])
        losses.append(too_far + max(0.0, hardest - options.negative_margin))
    return float(np.mean(losses))


def test_training_ends_done(bi_encoder: worlds.Trained) -> None:
    status = bi_encoder.status
    assert (status.state, status.phase, status.code, status.message) == (State.DONE, Phase.MEASURING_AFTER, "", "")
    assert status == bi_encoder.run.status() or status.heartbeat < bi_encoder.run.status().heartbeat
    # 336 training questions in batches of 64, three times
    assert (status.step, status.total_steps, status.seconds_left) == (18, 18, None)
    assert len(worlds.read_logged(bi_encoder.run, "loss")) == 18


def test_scores_match_retrieval_evaluation(bi_encoder: worlds.Trained) -> None:
    scores = bi_encoder.run.scores()
    data = bi_encoder.data
    assert scores["before"] == pytest.approx(compute_metrics(find_model("starter"), data), abs=1e-12)
    assert scores["after"] == pytest.approx(compute_metrics(worlds.make_source(bi_encoder.run), data), abs=1e-12)
    assert (scores["measured_on"], scores["questions"]) == ("validation", 48)
    assert scores["bm25"] == data.first_stage_scores.validation.means()
    assert scores["seconds"] > 0


def test_test_scores_match_a_comparison(bi_encoder: worlds.Trained) -> None:
    test = bi_encoder.run.scores()["test"]
    question_set = bi_encoder.question_set
    test_questions = split(question_set).questions(question_set, Part.TEST)
    assert test["questions"] == len(test_questions.questions) == 96
    before = compute_metrics(find_model("starter"), bi_encoder.data, test_questions)
    assert test["before"] == pytest.approx(before, abs=1e-12)
    after = compute_metrics(worlds.make_source(bi_encoder.run), bi_encoder.data, test_questions)
    assert test["after"] == pytest.approx(after)
    bm25_rankings = bi_encoder.data.first_stage.search([question.text for question in test_questions.questions], 10)
    bm25 = evaluate(bm25_rankings, test_questions, (1, 5, 10)).means()
    assert test["bm25"] == {measure: bm25[measure] for measure in MEASURES}
    assert test["gain"]["difference"] == pytest.approx(test["after"]["ndcg@10"] - test["before"]["ndcg@10"], abs=1e-12)
    assert test["gain"]["interval"][0] <= test["gain"]["difference"] <= test["gain"]["interval"][1]
    assert test["intervals"].keys() == {"before", "after", "bm25"}


def test_saves_best_model_measured_during_training(bi_encoder: worlds.Trained) -> None:
    # the trainer measures the model in memory; `after` is of the model loaded back
    measured = [entry for entry in bi_encoder.run.progress() if "eval_validation_ndcg@10" in entry]
    assert [entry["step"] for entry in measured] == [6, 12, 18]
    best = max(measured, key=lambda entry: entry["eval_validation_ndcg@10"])
    after = bi_encoder.run.scores()["after"]
    assert after == pytest.approx({measure: best[f"eval_validation_{measure}"] for measure in MEASURES}, abs=1e-9)

    texts = bi_encoder.data.texts[:50]
    base = load_bi_encoder(find_model("starter"), bi_encoder.data.texts)
    before = base.encode(texts)
    saved_vectors = load_bi_encoder(worlds.make_source(bi_encoder.run), []).encode(texts)
    np.testing.assert_array_equal(
        saved_vectors, worlds.load_checkpoint(bi_encoder.run, best["step"], base).encode(texts)
    )
    assert np.abs(saved_vectors - before).max() > 1e-4


def test_validation_scores_match_another_library(bi_encoder: worlds.Trained) -> None:
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    data = bi_encoder.data
    queries = {question.id: question.text for question in data.validation.questions}
    corpus = {passage.id: text for passage, text in zip(data.question_set.passages, data.texts, strict=True)}
    relevant = {question.id: set(question.relevant) for question in data.validation.questions}
    options = {"precision_recall_at_k": [1, 5, 10], "write_csv": False}
    evaluator = InformationRetrievalEvaluator(queries, corpus, relevant, **options)
    base = load_bi_encoder(find_model("starter"), data.texts)
    measured = [entry for entry in bi_encoder.run.progress() if "eval_validation_ndcg@10" in entry]
    assert len({entry["eval_validation_ndcg@10"] for entry in measured}) == 3
    for entry in measured:
        theirs = evaluator(worlds.load_checkpoint(bi_encoder.run, entry["step"], base))
        for measure in MEASURES:
            assert entry[f"eval_validation_{measure}"] == pytest.approx(theirs[f"cosine_{measure}"], abs=1e-9)


def test_measures_a_sample_of_training_questions(bi_encoder: worlds.Trained) -> None:
    scores = bi_encoder.run.scores()
    data = bi_encoder.data
    sample = scores["training_sample"]
    after = compute_metrics(worlds.make_source(bi_encoder.run), data, data.sample)
    assert sample["after"] == pytest.approx(after, abs=1e-12)
    assert sample["questions"] == len(data.sample.questions) == 48
    low, high = sample["gain"]["interval"]
    assert low <= sample["gain"]["difference"] <= high
    assert worlds.read_logged(bi_encoder.run, "before_training_ndcg@10") == [sample["before"]["ndcg@10"]]
    entries = [entry for entry in bi_encoder.run.progress() if "eval_loss" in entry]
    best_entry = next(entry for entry in entries if entry["step"] == scores["best_step"])
    assert best_entry["eval_training_ndcg@10"] == pytest.approx(sample["after"]["ndcg@10"], abs=1e-9)
    assert best_entry["eval_validation_ndcg@10"] == pytest.approx(scores["after"]["ndcg@10"], abs=1e-9)


def test_validation_loss_matches_manual_computation(bi_encoder: worlds.Trained) -> None:
    data = bi_encoder.data
    options = options_of(bi_encoder.run)
    questions, passages = data.held_out.positive_pairs()
    assert len(questions) == 48 < options.batch_size  # one batch, if no passage stands in it twice
    held_out = encoder_examples(options, data.held_out)[1]
    plan = make_sampler(held_out, batch_size=options.batch_size, seed=options.seed)
    batches = list(plan(range(len(questions))))
    base = load_bi_encoder(find_model("starter"), data.texts)
    for entry in (progress_entry for progress_entry in bi_encoder.run.progress() if "eval_loss" in progress_entry):
        model = worlds.load_checkpoint(bi_encoder.run, entry["step"], base)
        losses = [margin_losses(model, data, questions[batch], passages[batch], options) for batch in batches]
        assert entry["eval_loss"] == pytest.approx(np.mean(losses), abs=1e-5)


def margin_losses(
    model: Any, data: TrainingData, questions: np.ndarray, passages: np.ndarray, options: BiEncoderOptions
) -> float:
    """MegaBatchMarginLoss by its formula: a question's passage against the hardest other one of the batch."""
    texts = [data.validation.questions[row].text for row in questions]
    question_vectors = model.encode(texts, normalize_embeddings=True)
    passage_vectors = model.encode([data.texts[row] for row in passages], normalize_embeddings=True)
    cosines = question_vectors @ passage_vectors.T
    own = np.diag(cosines)
    hardest = (cosines - 2 * np.eye(len(own))).max(axis=1)
    losses = np.maximum(options.positive_margin - own, 0) + np.maximum(hardest - options.negative_margin, 0)
    return float(losses.mean())


def test_saved_starter_gives_same_vectors(bi_encoder: worlds.Trained, tmp_path: Path) -> None:
    model = load_bi_encoder(worlds.make_source(bi_encoder.run), [])
    texts = [*bi_encoder.data.texts[:20], "", "없는낱말쀍쀍", "한강"]
    in_memory = model.encode(texts)
    model.save_pretrained(str(tmp_path))
    np.testing.assert_array_equal(load_bi_encoder(find_model(str(tmp_path)), []).encode(texts), in_memory)
    assert not in_memory[20].any()


def test_batches_hold_no_passage_twice(bi_encoder: worlds.Trained) -> None:
    columns, examples = encoder_examples(options_of(bi_encoder.run), bi_encoder.data)
    assert len(set(columns["positive"])) < len(columns["positive"]) == 336
    batches = list(make_sampler(examples, batch_size=64)(columns["anchor"]))
    assert sorted(row for batch in batches for row in batch) == list(range(336))
    assert all(len({columns["positive"][row] for row in batch}) == len(batch) for batch in batches)


def test_epoch_loss_matches_formula() -> None:
    # 3 questions a passage and steps of nearly no size: with a passage twice in a batch its cosine would be the hardest
    # negative, and with a batch of 256 two of three questions would be left out
    options = {"batch_size": 256, "epochs": 1.0, "learning_rate": 1e-9, "weight_decay": 0.0, "logging_steps": 1}
    options |= {"positive_margin": 0.7, "negative_margin": 0.1}
    run = worlds.train_new_run(BI_ENCODER, worlds.misleading_set(questions_a_passage=3), **options)
    losses = worlds.read_logged(run, "loss")
    assert len(load_training_data(run.plan()).train.questions) == 14 * 3
    assert len(losses) == 3
    assert np.mean(losses) == pytest.approx(loss_of(find_model("starter"), run), abs=1e-5)


def test_learns_a_misleading_set() -> None:
    options = {"epochs": 30.0, "learning_rate": 0.05, "evaluation_steps": 10, "logging_steps": 1}
    run = worlds.train_new_run(BI_ENCODER, worlds.misleading_set(), **options)
    losses = worlds.read_logged(run, "loss")
    # the first batch holds all 14 training pairs
    assert losses[0] == pytest.approx(loss_of(find_model("starter"), run), abs=1e-5)
    assert losses[-1] < losses[0] / 10
    assert loss_of(worlds.make_source(run), run) < losses[0] / 2


def test_a_finished_run_can_be_trained_on() -> None:
    options = {"epochs": 20.0, "learning_rate": 0.05, "evaluation_steps": 20}
    first = worlds.train_new_run(BI_ENCODER, worlds.misleading_set(), **options)
    options = {"epochs": 1.0, "learning_rate": 1e-9}
    second = worlds.train_new_run(BI_ENCODER, worlds.misleading_set(), base=first.id, **options)
    assert second.scores()["before"] == first.scores()["after"]
    texts = [passage.text for passage in worlds.misleading_set().passages]
    ours, theirs = (load_bi_encoder(worlds.make_source(run), []).encode(texts) for run in (first, second))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_trains_on_five_passages() -> None:
    run = worlds.train_new_run(BI_ENCODER, small_set(), SplitOptions(0.25, 0.25, seed=1), epochs=2.0)
    data = load_training_data(run.plan())
    assert run.scores()["after"] == pytest.approx(compute_metrics(worlds.make_source(run), data), abs=1e-12)
