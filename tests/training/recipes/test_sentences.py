"""Trainings of tiny models on pairs: stopping, resuming, estimates, cards and use."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.pairs import PairKind, split_pairs
from mrc_workbench.data.pairs.store import find, save_pairs
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import save_question_set
from mrc_workbench.labs.embeddings.geometry import trajectory
from mrc_workbench.labs.embeddings.judgement import spearman
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.loading import load_bi_encoder, load_cross_encoder
from mrc_workbench.models.sources import ModelSource, find_model
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.training.estimate import estimate
from mrc_workbench.training.options import EmbeddingTable, OptionError, TrainingError
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.training.recipes import get_recipe
from mrc_workbench.training.recipes.sentence_data import TeacherVectors
from mrc_workbench.training.runs import Run, all_runs
from mrc_workbench.training.text_options import (
    PAIR_KINDS_OF_OBJECTIVE,
    SENTENCE_CROSS_ENCODER,
    CrossSentenceObjective,
    SentenceObjective,
    SentencePooling,
)
from mrc_workbench.training.train import load_training_data, train
from mrc_workbench.workbench.cli import main
from tests.training.recipes.sentence_worlds import (
    KIND,
    SETS,
    create_pair_run,
    make_labelled_pairs,
    make_scored_pairs,
    make_topic_pairs,
    tiny_base,
    tiny_bi_encoder,
)
from tests.training.test_resume import assert_alike, train_whole_and_stopped
from tests.training.worlds import create_planned_run as planned_ranker
from tests.training.worlds import in_workspace, read_logged, shuffled, train_to_end

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_workspace_of_module")]
CASES = [(KIND, objective) for objective in SentenceObjective]
CASES += [(SENTENCE_CROSS_ENCODER, objective) for objective in CrossSentenceObjective]


def run_of(kind: str, objective: Any, **options: Any) -> Run:
    options |= {"teacher": tiny_bi_encoder()} if objective is SentenceObjective.DISTILLATION else {}
    return create_pair_run(SETS[PAIR_KINDS_OF_OBJECTIVE[objective][0]](), kind, objective=objective, **options)


@pytest.mark.parametrize(("kind", "objective"), CASES)
def test_resumes_identically_after_stop(kind: str, objective: Any) -> None:
    plan = partial(run_of, kind, objective, epochs=1.5, evaluation_steps=2, save_steps=2)
    whole, run = train_whole_and_stopped(plan, 3)
    assert whole.status().step > 3
    assert_alike(run, whole, "eval_loss")


@pytest.fixture(scope="module")
def run(module_workspace: Path) -> Run:
    options = {"epochs": 6.0, "learning_rate": 3e-3}
    return in_workspace(module_workspace, lambda: train_to_end(create_pair_run(make_topic_pairs(), **options)))


def test_saves_best_model_by_spearman_then_loss(run: Run) -> None:
    scores = run.scores()
    plan = run.plan()
    pairs = find(plan.data)
    judge = pairs.at(split_pairs(pairs, plan.split)[Part.VALIDATION])
    model = load_bi_encoder(ModelSource("it", folder=run.model_folder), [])
    first, second = (model.encode(list(column), normalize_embeddings=True) for column in judge.texts)
    alone = spearman((first * second).sum(axis=1), judge.gold)
    assert scores["after"]["spearman"] == pytest.approx(alone, abs=0.02)  # bfloat16 if the machine computes it faster
    measured = read_logged(run, "eval_validation_spearman")
    assert scores["after"]["spearman"] == pytest.approx(max(measured), abs=1e-6)
    best = [entry for entry in run.progress() if entry.get("eval_validation_spearman") == max(measured)]
    assert len(best) > 1  # all are perfect, so the loss decides
    assert scores["best_step"] == min(best, key=lambda entry: entry["eval_loss"])["step"]
    assert scores["after"]["spearman"] > scores["before"]["spearman"] + 0.1
    assert scores["gain"]["difference"] == pytest.approx(scores["after"]["spearman"] - scores["before"]["spearman"])
    assert scores["training_sample"]["questions"] == len(judge)
    assert run.provenance()["resolved_options"]["best_by"] == "spearman"


def test_logs_alignment_and_uniformity(run: Run) -> None:
    path = trajectory(run.progress())
    assert path.steps.tolist() == [0, *sorted({e["step"] for e in run.progress() if "eval_validation_spearman" in e})]
    before = run.scores()["before"]
    after = run.scores()["after"]
    assert (path.alignment[0], path.uniformity[0]) == pytest.approx((before["alignment"], before["uniformity"]))
    best_position = path.steps.tolist().index(run.scores()["best_step"])
    measured = (path.alignment[best_position], path.uniformity[best_position])
    assert measured == pytest.approx((after["alignment"], after["uniformity"]))


def test_card_lists_metrics_with_intervals(run: Run) -> None:
    card = (run.model_folder / "README.md").read_text(encoding="utf-8")
    after = run.scores()["after"]
    intervals = run.scores()["intervals"]["after"]
    low, high = (100 * end for end in intervals["spearman"])
    assert f"|**This model**|{100 * after['spearman']:.2f} [{low:.2f}, {high:.2f}]|" in card
    assert "| |Spearman|Pearson|" in card
    assert "BM25" not in card
    assert f"- **Data**: topics, 120 pairs, fingerprint `{run.plan().fingerprint}`" in card
    assert "article" not in card
    assert 'model = SentenceTransformer("path/of/this/folder")' in card
    by_hand = SentenceTransformer(str(run.model_folder)).encode_query(["한강은 서울을"], normalize_embeddings=True)
    assert np.linalg.norm(by_hand) == pytest.approx(1, abs=1e-5)


def test_result_is_usable_as_bi_encoder(run: Run) -> None:
    question_set = shuffled(12, 12)
    data = save_question_set(question_set)
    spec = DenseSpec(name="Dense", model=run.id)
    (result,) = compare(Experiment(data=data.key, split=Part.ALL, retriever=(spec,)), question_set).results
    assert not result.error
    vectors = BiEncoder(find_model(run.id), [], precision=Precision.FLOAT32).encode_questions(["한강은"])
    assert vectors.shape == (1, 32)
    searched = planned_ranker(BI_ENCODER, question_set, base=run.id, epochs=1.0, batch_size=4)
    train_to_end(searched)
    assert searched.provenance()["base"]["reference"] == run.id
    specs = get_recipe(KIND).retrievers(run.id, "BM25", title=True, name_for=str)
    assert [spec.kind for spec in specs] == ["dense", "hybrid"]


def test_sts_continues_from_nli() -> None:
    evaluation_set = save_pairs(make_scored_pairs(120)).key
    first = train_to_end(run_of(KIND, SentenceObjective.NLI_SOFTMAX, evaluation_set=evaluation_set))
    assert first.scores()["evaluation_set"] == "scored"
    assert first.provenance()["data"]["evaluation_set"] == "scored"
    second = train_to_end(create_pair_run(make_scored_pairs(), base=first.id))
    before = load_bi_encoder(find_model(first.id), []).encode(["한강은 서울을"])
    base = load_bi_encoder(find_model(second.plan().options.base), [])
    np.testing.assert_array_equal(base.encode(["한강은 서울을"]), before)
    recipe = get_recipe(KIND)(second.plan().options, load_training_data(second.plan()))
    expected = recipe.evaluate(find_model(first.id)).means()["validation"]["spearman"]
    assert second.scores()["before"]["spearman"] == pytest.approx(expected)


def test_cross_encoder_predicts_named_labels() -> None:
    nli = train_to_end(run_of(SENTENCE_CROSS_ENCODER, CrossSentenceObjective.CROSS_ENTROPY, epochs=8.0))
    assert nli.scores()["after"].keys() == {"accuracy"}
    assert nli.scores()["after"]["accuracy"] == pytest.approx(max(read_logged(nli, "eval_validation_accuracy")))
    plan = nli.plan()
    judge = make_labelled_pairs().at(split_pairs(make_labelled_pairs(), plan.split)[Part.VALIDATION])
    model = load_cross_encoder(ModelSource("it", folder=nli.model_folder), [], 3)
    predicted = model.predict(list(zip(*judge.texts, strict=True))).argmax(axis=1)
    assert nli.scores()["after"]["accuracy"] == pytest.approx((predicted == judge.values).mean(), abs=0.06)
    assert model.config.id2label == {0: "entailment", 1: "neutral", 2: "contradiction"}
    with pytest.raises(ModelError, match="does not return 1 scores per pair") as error:
        CrossEncoderScorer(find_model(nli.id), []).load()
    assert error.value.code == "labels"
    sts = train_to_end(create_pair_run(make_scored_pairs(), SENTENCE_CROSS_ENCODER, base=nli.id))  # with a new head
    regression_model = load_cross_encoder(find_model(sts.id), [])
    assert isinstance(regression_model.activation_fn, torch.nn.Sigmoid)
    assert 0 <= regression_model.predict([("한강은", "서울을")])[0] <= 1


def test_saves_smallest_loss_without_scores() -> None:
    run = train_to_end(create_pair_run(SETS[PairKind.TRIPLETS](), objective="triplet", epochs=4.0))
    scores = run.scores()
    losses = {e["step"]: e["eval_loss"] for e in run.progress() if "eval_loss" in e}
    assert (scores["best_by"], scores["best_step"]) == ("loss", min(losses, key=lambda step: losses[step]))
    assert "gain" not in scores
    assert scores["before"].keys() == scores["after"].keys() == {"alignment", "uniformity"}
    assert "The evaluation data has no human scores" in (run.model_folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "options",
    [
        {"lora_rank": 2},
        {"embedding_table": EmbeddingTable.FROZEN},
        {"gradient_checkpointing": True, "frozen_layers": 1, "max_length": 16},
        {"pooling": SentencePooling.FIRST_LAST_AVERAGE, "precision": Precision.FLOAT32},
    ],
)
def test_supports_general_training_options(options: dict[str, Any]) -> None:
    run = train_to_end(create_pair_run(make_scored_pairs(), **options))
    before = dict(load_bi_encoder(find_model(tiny_bi_encoder()), []).named_parameters())
    after = dict(load_bi_encoder(find_model(run.id), []).named_parameters())
    moved = {name for name in before.keys() & after.keys() if not torch.equal(before[name], after[name])}
    table = next(name for name in before if "word_embeddings" in name)
    assert moved
    assert (table in moved) == ("pooling" in options)


@pytest.mark.parametrize(("kind", "objective"), CASES)
def test_estimate_counts_steps(kind: str, objective: Any) -> None:
    plan = run_of(kind, objective).plan()
    result = estimate(plan)
    rows = len(load_training_data(plan).train)
    examples = rows // 3 if objective is SentenceObjective.SIMCSE_SUPERVISED else rows
    if objective is not SentenceObjective.SIMCSE_UNSUPERVISED and objective is not SentenceObjective.TSDAE:
        assert result.steps == -(-examples // 8)
    assert result.seconds > result.seconds_evaluating > 0
    assert (result.fits, result.device) == (True, "cpu")


def test_command_trains_and_rejects(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    key = save_pairs(make_scored_pairs()).key
    nli = save_pairs(make_labelled_pairs()).key
    before = all_runs()
    small = ["--base", tiny_bi_encoder(), "--batch-size", "8", "--epochs", "1"]
    assert main(["train", "sentences", "--data", key, *small, "--out", str(tmp_path / "run")]) == 0
    output = capsys.readouterr().out
    assert "before  spearman" in output
    assert Run(tmp_path / "run").plan().options.objective is SentenceObjective.COSENT
    assert main(["train", "sentences", "--data", nli, *small]) == 2
    message = "cosent learns from scored pairs, and labelled holds labelled: for these use nli-softmax"
    assert message in capsys.readouterr().err
    assert main(["train", "sentences", "--data", key, "--base", "starter"]) == 2
    assert "base must be a transformer" in capsys.readouterr().err
    assert main(["train", "sentences", "--data", key, *small, "--objective", "tsdae", "--estimate"]) == 0
    assert main(["train", "sentences", "--data", "nothing", *small]) == 2
    assert main(["train", "sentence-cross-encoder", "--data", nli, "--base", tiny_base(), "--objective", "mse"]) == 2
    assert "mse learns from scored pairs" in capsys.readouterr().err
    assert all_runs() == before
    assert main(["train", "sentences", "--help"]) == 0
    assert "--concatenation" in (text := capsys.readouterr().out)
    assert "--title" not in text


@pytest.mark.parametrize("objective", [SentenceObjective.NLI_SOFTMAX, SentenceObjective.TSDAE])
def test_rejects_several_processes_for_losses_with_weights(objective: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = run_of(KIND, objective).plan()
    recipe = get_recipe(KIND)(plan.options, load_training_data(plan))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(OptionError, match="has weights that several processes do not share") as error:
        recipe.build_task(find_model(tiny_bi_encoder()))
    assert (error.value.option, error.value.code) == ("objective", "one_process")


def test_requires_evaluation_set_without_scores_or_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = run_of(KIND, SentenceObjective.TRIPLET).plan()
    recipe = get_recipe(KIND)(plan.options, load_training_data(plan))
    monkeypatch.setenv("WORLD_SIZE", "2")  # each would have other examples
    with pytest.raises(TrainingError, match="set evaluation_set to a scored set") as error:
        recipe.build_task(find_model(tiny_bi_encoder()))
    assert error.value.code == "nothing_judges"


def test_rejects_teacher_of_other_dimensions(tmp_path: Path) -> None:
    teacher = load_bi_encoder(find_model(tiny_bi_encoder()), [])
    teacher.append(Dense(32, 8))
    teacher.save_pretrained(str(tmp_path), create_model_card=False)
    run = create_pair_run(SETS[PairKind.PARALLEL](), objective="distillation", teacher=str(tmp_path))
    assert train(run).state is State.FAILED
    assert (run.status().code, "8 dimensions, those of the base 32" in run.status().message) == ("option", True)


def test_encodes_first_sentences_once_with_teacher() -> None:
    pairs = SETS[PairKind.PARALLEL]()
    teacher = TeacherVectors(tiny_bi_encoder(), pairs, 32, Precision.FLOAT32)
    shares: list[float] = []
    teacher_vectors = np.stack(teacher.labels(shares.append))
    by_hand = load_bi_encoder(find_model(tiny_bi_encoder()), []).encode(list(pairs.texts[0]), normalize_embeddings=True)
    np.testing.assert_allclose(teacher_vectors, by_hand, atol=1e-5)
    assert shares[-1] == pytest.approx(1)
    assert np.stack(teacher.placeholder_labels()).shape == teacher_vectors.shape
    assert teacher.estimate_seconds() > 0
