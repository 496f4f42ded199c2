"""Trainings on pairs from beginning to end, of tiny models: stopped, resumed, estimated, told, and used."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.pairs import PairKind, split_pairs
from mrc_workbench.data.pairs.store import find, keep
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import keep as keep_questions
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
from mrc_workbench.training.recipes import recipe_of
from mrc_workbench.training.recipes.sentence_material import TeachersVectors
from mrc_workbench.training.runs import Run, all_runs
from mrc_workbench.training.text_options import (
    FITTING,
    SENTENCE_CROSS_ENCODER,
    CrossSentenceObjective,
    SentenceObjective,
    SentencePooling,
)
from mrc_workbench.training.train import load_material, train
from mrc_workbench.workbench.cli import main
from tests.training.recipes.sentence_worlds import (
    KIND,
    SETS,
    by_topic,
    created,
    labelled,
    planned,
    scored,
    tiny_base,
    tiny_bi_encoder,
)
from tests.training.test_resume import assert_alike, stopped_at
from tests.training.worlds import logged, shuffled, trained, within
from tests.training.worlds import planned as planned_ranker

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_workspace")]
CASES = [(KIND, objective) for objective in SentenceObjective]
CASES += [(SENTENCE_CROSS_ENCODER, objective) for objective in CrossSentenceObjective]


def run_of(kind: str, objective: Any, **options: Any) -> Run:
    teacher = {"teacher": tiny_bi_encoder()} if objective is SentenceObjective.DISTILLATION else {}
    return created(SETS[FITTING[objective][0]](), kind, objective=objective, **teacher, **options)


@pytest.mark.parametrize(("kind", "objective"), CASES)
def test_stopped_at_a_step_it_comes_out_as_if_it_had_not_been(kind: str, objective: Any) -> None:
    whole, run = (run_of(kind, objective, epochs=1.5, evaluation_steps=2, save_steps=2) for _ in range(2))
    trained(whole)
    stopped_at(run, 3)
    trained(run)
    assert whole.status().step > 3
    assert_alike(run, whole, "eval_loss")


@pytest.fixture(scope="module")
def run(workspace_of_the_module: Path) -> Run:
    """An encoder trained on scored pairs."""
    return within(workspace_of_the_module, lambda: trained(created(by_topic(), epochs=6.0, learning_rate=3e-3)))


def test_what_is_kept_is_the_best_by_spearman_and_then_by_its_loss(run: Run) -> None:
    scores, plan = run.scores(), run.plan()
    pairs = find(plan.data)
    judge = pairs.at(split_pairs(pairs, plan.split)[Part.VALIDATION])
    model = load_bi_encoder(ModelSource("it", folder=run.model_folder), [])
    first, second = (model.encode(list(column), normalize_embeddings=True) for column in judge.texts)
    alone = spearman((first * second).sum(axis=1), judge.gold)
    assert scores["after"]["spearman"] == pytest.approx(alone, abs=0.02)  # bfloat16 where the machine is quicker so
    measured = logged(run, "eval_validation_spearman")
    assert scores["after"]["spearman"] == pytest.approx(max(measured), abs=1e-6)
    best = [entry for entry in run.progress() if entry.get("eval_validation_spearman") == max(measured)]
    assert len(best) > 1  # all of whom are right, so the loss tells them apart
    assert scores["kept_step"] == min(best, key=lambda entry: entry["eval_loss"])["step"]
    assert scores["after"]["spearman"] > scores["before"]["spearman"] + 0.1
    assert scores["gain"]["difference"] == pytest.approx(scores["after"]["spearman"] - scores["before"]["spearman"])
    assert scores["training_sample"]["questions"] == len(judge)
    assert run.provenance()["settled"]["best_by"] == "spearman"


def test_its_path_through_alignment_and_uniformity_is_told(run: Run) -> None:
    path = trajectory(run.progress())
    assert path.steps.tolist() == [0, *sorted({e["step"] for e in run.progress() if "eval_validation_spearman" in e})]
    before, after = run.scores()["before"], run.scores()["after"]
    assert (path.alignment[0], path.uniformity[0]) == pytest.approx((before["alignment"], before["uniformity"]))
    kept = path.steps.tolist().index(run.scores()["kept_step"])
    assert (path.alignment[kept], path.uniformity[kept]) == pytest.approx((after["alignment"], after["uniformity"]))


def test_its_card_tells_figures_with_intervals_and_loads(run: Run) -> None:
    card = (run.model_folder / "README.md").read_text(encoding="utf-8")
    after, intervals = run.scores()["after"], run.scores()["intervals"]["after"]
    low, high = (100 * end for end in intervals["spearman"])
    assert f"|**This model**|{100 * after['spearman']:.2f} [{low:.2f}, {high:.2f}]|" in card
    assert "| |Spearman|Pearson|" in card
    assert "BM25" not in card
    assert f"- **Data**: topics, 120 pairs, fingerprint `{run.plan().fingerprint}`" in card
    assert "article" not in card
    assert 'model = SentenceTransformer("path/of/this/folder")' in card
    by_hand = SentenceTransformer(str(run.model_folder)).encode_query(["한강은 서울을"], normalize_embeddings=True)
    assert np.linalg.norm(by_hand) == pytest.approx(1, abs=1e-5)


def test_it_is_a_bi_encoder_like_any_other(run: Run) -> None:
    question_set = shuffled(12, 12)
    data = keep_questions(question_set)
    spec = DenseSpec(name="Dense", model=run.id)
    (result,) = compare(Experiment(data=data.key, split=Part.ALL, retriever=(spec,)), question_set).results
    assert not result.error
    vectors = BiEncoder(find_model(run.id), [], precision=Precision.FLOAT32).encode_questions(["한강은"])
    assert vectors.shape == (1, 32)
    searched = planned_ranker(BI_ENCODER, question_set, base=run.id, epochs=1.0, batch_size=4)
    trained(searched)
    assert searched.provenance()["base"]["reference"] == run.id
    assert [spec.kind for spec in recipe_of(KIND).retrievers(run.id, "BM25", title=True, named=str)] == [
        *("dense", "hybrid")
    ]


def test_sts_goes_on_from_nli_and_no_label_is_forgotten() -> None:
    first = trained(run_of(KIND, SentenceObjective.NLI_SOFTMAX, judged_on=keep(scored(120)).key))
    assert first.scores()["judged_on"] == "scored"
    assert first.provenance()["data"]["judged_on"] == "scored"
    second = trained(created(scored(), base=first.id))
    before = load_bi_encoder(find_model(first.id), []).encode(["한강은 서울을"])
    np.testing.assert_array_equal(
        load_bi_encoder(find_model(second.plan().options.base), []).encode(["한강은 서울을"]), before
    )
    assert second.scores()["before"]["spearman"] == pytest.approx(
        recipe_of(KIND)(second.plan().options, load_material(second.plan()))
        .measured(find_model(first.id))
        .means()["validation"]["spearman"]
    )


def test_labels_are_told_apart_and_named() -> None:
    nli = trained(run_of(SENTENCE_CROSS_ENCODER, CrossSentenceObjective.CROSS_ENTROPY, epochs=8.0))
    assert nli.scores()["after"].keys() == {"accuracy"}
    assert nli.scores()["after"]["accuracy"] == pytest.approx(max(logged(nli, "eval_validation_accuracy")))
    plan = nli.plan()
    judge = labelled().at(split_pairs(labelled(), plan.split)[Part.VALIDATION])
    model = load_cross_encoder(ModelSource("it", folder=nli.model_folder), [], 3)
    said = model.predict(list(zip(*judge.texts, strict=True))).argmax(axis=1)
    assert nli.scores()["after"]["accuracy"] == pytest.approx((said == judge.values).mean(), abs=0.06)
    assert model.config.id2label == {0: "entailment", 1: "neutral", 2: "contradiction"}
    with pytest.raises(ModelError, match="gives no 1 scores a pair") as told:
        CrossEncoderScorer(find_model(nli.id), []).load()
    assert told.value.code == "labels"
    sts = trained(created(scored(), SENTENCE_CROSS_ENCODER, base=nli.id))  # with a new head
    one = load_cross_encoder(find_model(sts.id), [])
    assert isinstance(one.activation_fn, torch.nn.Sigmoid)
    assert 0 <= one.predict([("한강은", "서울을")])[0] <= 1


def test_without_scores_the_smallest_loss_is_kept() -> None:
    run = trained(created(SETS[PairKind.TRIPLETS](), objective="triplet", epochs=4.0))
    scores, losses = run.scores(), {e["step"]: e["eval_loss"] for e in run.progress() if "eval_loss" in e}
    assert (scores["judged_by"], scores["kept_step"]) == ("loss", min(losses, key=lambda step: losses[step]))
    assert "gain" not in scores
    assert scores["before"].keys() == scores["after"].keys() == {"alignment", "uniformity"}
    assert "Nobody scored what it was measured on" in (run.model_folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "options",
    [
        {"lora_rank": 2},
        {"embedding_table": EmbeddingTable.FROZEN},
        {"recompute": True, "frozen_layers": 1, "max_length": 16},
        {"pooling": SentencePooling.FIRST_LAST_AVERAGE, "precision": Precision.FLOAT32},
    ],
)
def test_the_options_of_all_trainings_hold_here(options: dict[str, Any]) -> None:
    run = trained(created(scored(), **options))
    before = dict(load_bi_encoder(find_model(tiny_bi_encoder()), []).named_parameters())
    after = dict(load_bi_encoder(find_model(run.id), []).named_parameters())
    moved = {name for name in before.keys() & after.keys() if not torch.equal(before[name], after[name])}
    table = next(name for name in before if "word_embeddings" in name)
    assert moved
    assert (table in moved) == ("pooling" in options)


@pytest.mark.parametrize(("kind", "objective"), CASES)
def test_an_estimate_counts_the_steps(kind: str, objective: Any) -> None:
    teacher = {"teacher": tiny_bi_encoder()} if objective is SentenceObjective.DISTILLATION else {}
    pairs = SETS[FITTING[objective][0]]()
    found = estimate(planned(kind, pairs, objective=objective, **teacher))
    rows = len(load_material(planned(kind, pairs, objective=objective, **teacher)).train)
    examples = rows // 3 if objective is SentenceObjective.SIMCSE_SUPERVISED else rows
    if objective is not SentenceObjective.SIMCSE_UNSUPERVISED and objective is not SentenceObjective.TSDAE:
        assert found.steps == -(-examples // 8)
    assert found.seconds > found.seconds_measuring > 0
    assert (found.fits, found.device) == (True, "cpu")


def test_the_command_trains_and_refuses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    key, nli, before = keep(scored()).key, keep(labelled()).key, all_runs()
    small = ["--base", tiny_bi_encoder(), "--batch-size", "8", "--epochs", "1"]
    assert main(["train", "sentences", "--data", key, *small, "--out", str(tmp_path / "run")]) == 0
    told = capsys.readouterr().out
    assert "before  spearman" in told
    assert Run(tmp_path / "run").plan().options.objective is SentenceObjective.COSENT
    assert main(["train", "sentences", "--data", nli, *small]) == 2
    assert "cosent learns from scored pairs, and labelled holds labelled: for these there are nli-softmax" in (
        capsys.readouterr().err
    )
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
def test_a_loss_with_weights_of_its_own_takes_one_process(objective: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = run_of(KIND, objective).plan()
    recipe = recipe_of(KIND)(plan.options, load_material(plan))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(OptionError, match="learns weights of its own") as told:
        recipe.task(find_model(tiny_bi_encoder()))
    assert (told.value.option, told.value.code) == ("objective", "one_process")


def test_where_nothing_can_judge_a_set_that_does_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = run_of(KIND, SentenceObjective.TRIPLET).plan()
    recipe = recipe_of(KIND)(plan.options, load_material(plan))
    monkeypatch.setenv("WORLD_SIZE", "2")  # each would see other examples
    with pytest.raises(TrainingError, match="name a scored set to be judged on") as told:
        recipe.task(find_model(tiny_bi_encoder()))
    assert told.value.code == "nothing_judges"


def test_a_teacher_of_other_dimensions_is_refused(tmp_path: Path) -> None:
    teacher = load_bi_encoder(find_model(tiny_bi_encoder()), [])
    teacher.append(Dense(32, 8))
    teacher.save_pretrained(str(tmp_path), create_model_card=False)
    run = created(SETS[PairKind.PARALLEL](), objective="distillation", teacher=str(tmp_path))
    assert train(run).state is State.FAILED
    assert (run.status().code, "8 dimensions, and the base has 32" in run.status().message) == ("option", True)


def test_a_teacher_is_asked_for_the_first_sentences_once() -> None:
    pairs = SETS[PairKind.PARALLEL]()
    lesson = TeachersVectors(tiny_bi_encoder(), pairs, 32, Precision.FLOAT32)
    shares: list[float] = []
    taught = np.stack(lesson.labels(shares.append))
    by_hand = load_bi_encoder(find_model(tiny_bi_encoder()), []).encode(list(pairs.texts[0]), normalize_embeddings=True)
    np.testing.assert_allclose(taught, by_hand, atol=1e-5)
    assert shares[-1] == pytest.approx(1)
    assert np.stack(lesson.stand_ins()).shape == taught.shape
    assert lesson.seconds() > 0
