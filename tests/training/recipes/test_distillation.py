"""Distillation of a bi-encoder: losses by hand, and a whole training."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import save_question_set
from mrc_workbench.models.encoders import CrossEncoderScorer
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.training.estimate import estimate
from mrc_workbench.training.ranker_options import (
    BI_ENCODER,
    DISTILLATION_OBJECTIVES,
    BiEncoderObjective,
    BiEncoderOptions,
)
from mrc_workbench.training.recipes.examples import encoder_examples
from mrc_workbench.training.recipes.passage_windows import TeacherScores
from mrc_workbench.training.runs import Phase, Run, all_runs
from mrc_workbench.training.train import train
from mrc_workbench.workbench.cli import main
from tests.doubles import small_set
from tests.training import worlds
from tests.training.test_resume import assert_came_out_alike, stopped_at

pytestmark = pytest.mark.slow

MARGIN_MSE, KL = DISTILLATION_OBJECTIVES
TEACHER_OPTIONS: dict[str, Any] = {"teacher": STARTER, "negatives": 2}


def compute_expected_loss(vectors: list[np.ndarray], options: BiEncoderOptions) -> float:
    """Return the loss by its formula; `vectors` are those of questions, positives, and each negative."""
    questions, *passages = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in vectors)
    student = np.stack([(questions * side).sum(axis=1) for side in passages], axis=1) / options.temperature
    teacher = worlds.TEACHER.astype(np.float64) / options.teacher_temperature
    if options.objective is MARGIN_MSE:
        teacher_loss = np.mean(((student[:, :1] - student[:, 1:]) - (teacher[:, :1] - teacher[:, 1:])) ** 2)
    else:
        p = worlds.log_softmax(teacher)
        q = worlds.log_softmax(student)
        teacher_loss = (np.exp(p) * (p - q)).sum(axis=1).mean()
    every = questions @ np.concatenate(passages).T / options.temperature
    contrasted = -worlds.log_softmax(every)[np.arange(3), np.arange(3)].mean()
    return float(options.distillation_weight * teacher_loss + (1 - options.distillation_weight) * contrasted)


@pytest.mark.parametrize("objective", DISTILLATION_OBJECTIVES)
@pytest.mark.parametrize("weight", [1.0, 0.3])
@pytest.mark.parametrize("parts", [0, 2])
@pytest.mark.parametrize(("temperature", "teacher_temperature"), [(0.05, 1.0), (0.5, 2.5)])
def test_loss_matches_formula(
    *, objective: BiEncoderObjective, weight: float, parts: int, temperature: float, teacher_temperature: float
) -> None:
    import torch

    from mrc_workbench.models.loading import load_bi_encoder
    from mrc_workbench.training.recipes.losses import bi_encoder_loss

    settings = TEACHER_OPTIONS | {"distillation_weight": weight, "mini_batch_size": parts, "temperature": temperature}
    base = worlds.tiny_base(BI_ENCODER)
    options = BiEncoderOptions(base=base, objective=objective, teacher_temperature=teacher_temperature, **settings)
    model = load_bi_encoder(find_model(base), []).eval()
    columns = [worlds.QUESTIONS, worlds.POSITIVES, *worlds.NEGATIVES]
    loss = bi_encoder_loss(model, options, worlds.make_unsplit_data(small_set()))
    actual = loss([model.preprocess(texts) for texts in columns], torch.tensor(worlds.TEACHER))
    vectors = [np.asarray(model.encode(texts), dtype=np.float64) for texts in columns]
    assert float(actual.detach()) == pytest.approx(compute_expected_loss(vectors, options), rel=1e-4, abs=1e-4)


class ScoredPairCounter:
    pairs = 0


@pytest.fixture
def scored_pairs(monkeypatch: pytest.MonkeyPatch) -> ScoredPairCounter:
    counter = ScoredPairCounter()
    scored = CrossEncoderScorer.score

    def counted(scorer: CrossEncoderScorer, pairs: Any) -> np.ndarray:
        counter.pairs += len(pairs)
        return scored(scorer, pairs)

    monkeypatch.setattr(CrossEncoderScorer, "score", counted)
    return counter


def test_scores_each_pair_once(scored_pairs: ScoredPairCounter) -> None:
    data = worlds.make_unsplit_data(small_set())
    few = BiEncoderOptions(objective=KL, teacher=STARTER, negatives=2)
    columns, examples = encoder_examples(few, data)
    teacher = TeacherScores(STARTER, data, examples)
    shares = list[float]()
    assert teacher.estimate_seconds() > 0
    probed = scored_pairs.pairs
    labels = np.array(teacher.labels(shares.append))
    pairs = {(int(q), int(p)) for q, row in zip(examples.question, examples.passages, strict=True) for p in row}
    assert scored_pairs.pairs - probed == len(pairs)
    assert shares[-1] == 1.0
    assert labels.shape == np.array(teacher.placeholder_labels()).shape == (7, 3)
    scorer = CrossEncoderScorer(find_model(STARTER), data.texts)
    for row, label in enumerate(labels):
        texts = [columns[name][row] for name in ("positive", "negative_1", "negative_2")]
        assert label == pytest.approx(scorer.score([(columns["anchor"][row], text) for text in texts]), abs=1e-5)
    assert len({*labels.round(3).ravel().tolist()}) > 5
    before = scored_pairs.pairs
    again = TeacherScores(STARTER, data, examples)
    assert again.estimate_seconds() == 0
    assert np.array(again.labels(shares.append)).tolist() == labels.tolist()
    assert scored_pairs.pairs == before
    more = encoder_examples(replace(few, negatives=3), data)[1]
    TeacherScores(STARTER, data, more).labels(shares.append)
    all_pairs = {(int(q), int(p)) for q, row in zip(more.question, more.passages, strict=True) for p in row}
    assert scored_pairs.pairs - before == len(all_pairs - pairs) > 0


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_mixes_bm25_into_teacher_scores(share: float) -> None:
    data = worlds.make_unsplit_data(small_set())
    columns, examples = encoder_examples(BiEncoderOptions(objective=KL, teacher=STARTER, negatives=3), data)
    mixed_labels = np.array(TeacherScores(STARTER, data, examples, bm25=share).labels(lambda _: None))
    teacher = np.array(TeacherScores(STARTER, data, examples).labels(lambda _: None))
    ranked = data.first_stage.search(columns["anchor"], 5)
    ranked_rows = zip(ranked.indices.tolist(), ranked.scores.tolist(), strict=True)
    score_by_passage = [dict(zip(*row, strict=True)) for row in ranked_rows]
    lexical = np.array([[score_by_passage[n].get(int(p), 0.0) for p in row] for n, row in enumerate(examples.passages)])
    assert (lexical.std(axis=1) > 0).sum() > 3
    for row, (t, b) in enumerate(zip(teacher, lexical, strict=True)):
        z = (b - b.mean()) / b.std() if b.std() else np.zeros(4)
        assert mixed_labels[row] == pytest.approx((1 - share) * t + share * t.std() * z, abs=1e-4)


def test_student_follows_a_wrong_teacher() -> None:
    options = {"epochs": 20.0, "learning_rate": 0.05, "batch_size": 8, "warmup": 0.0, "evaluation_steps": 10_000}
    run = worlds.create_planned_run(BI_ENCODER, worlds.misleading_set(), objective=KL, **TEACHER_OPTIONS, **options)
    worlds.train_to_end(run)
    # the questions share a word with the wrong passage only, so the teacher puts that first: so does the student
    scores = run.scores()
    assert scores["after"]["recall@1"] <= scores["before"]["recall@1"]
    losses = [entry["loss"] for entry in run.progress() if "loss" in entry]
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) / 2  # at the first step, student and teacher are equal


@pytest.mark.parametrize("objective", DISTILLATION_OBJECTIVES)
def test_resumed_training_reuses_teacher_scores(
    objective: BiEncoderObjective, scored_pairs: ScoredPairCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"epochs": 3.0, "batch_size": 4, "evaluation_steps": 3, "save_steps": 3} | TEACHER_OPTIONS
    options |= {"logging_steps": 1, "objective": objective, "distillation_weight": 0.5}
    question_set = worlds.misleading_set(questions_a_passage=2)
    run, uninterrupted = (worlds.create_planned_run(BI_ENCODER, question_set, **options) for _ in range(2))
    statuses: list[Status] = []
    write = Run.write_status

    def noted(noted_run: Run, status: Status) -> None:
        statuses.append(status)
        write(noted_run, status)

    monkeypatch.setattr(Run, "write_status", noted)
    stopped_at(run, 1)
    assert scored_pairs.pairs > 0
    assert [status.progress for status in statuses if status.phase == Phase.LABELLING][-1] == 1.0
    scored_pairs.pairs = 0
    stopped_at(run, 4)
    worlds.train_to_end(run)
    worlds.train_to_end(uninterrupted)
    assert scored_pairs.pairs == 0
    assert_came_out_alike(run, uninterrupted)


def test_stops_while_teacher_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    run = worlds.create_planned_run(BI_ENCODER, worlds.misleading_set(), objective=KL, **TEACHER_OPTIONS)
    score = CrossEncoderScorer.score

    def stopped(scorer: CrossEncoderScorer, pairs: Any) -> np.ndarray:
        run.request_stop()
        return score(scorer, pairs)

    monkeypatch.setattr(CrossEncoderScorer, "score", stopped)
    ended = train(run)
    assert (ended.state, ended.phase, ended.step) == (State.STOPPED, Phase.LABELLING, 0)
    assert estimate(run.plan()).seconds_labelling == 0  # its scores are stored


def test_estimate_includes_missing_teacher_scores() -> None:
    run = worlds.create_planned_run(BI_ENCODER, worlds.misleading_set(), objective=KL, **TEACHER_OPTIONS)
    first_estimate = estimate(run.plan())
    assert first_estimate.seconds_labelling > 0
    besides = first_estimate.seconds_loading + first_estimate.seconds_evaluating + first_estimate.seconds_labelling
    assert first_estimate.seconds == pytest.approx(first_estimate.steps * first_estimate.seconds_per_step + besides)
    worlds.train_to_end(run)
    assert estimate(run.plan()).seconds_labelling == 0


@pytest.mark.parametrize("objective", DISTILLATION_OBJECTIVES)
def test_command_trains_with_teacher(objective: BiEncoderObjective) -> None:
    words = ["bi-encoder", "--data", save_question_set(small_set()).key, "--base", worlds.tiny_base(BI_ENCODER)]
    words += ["--objective", objective.value, "--negatives", "1", "--epochs", "1"]
    words += ["--validation-fraction", "0.25", "--test-fraction", "0.25", "--split-seed", "1"]
    assert main(["train", *words]) == 2  # no teacher
    assert main(["train", *words, "--teacher", STARTER, "--distillation-weight", "0.5", "--precision", "float32"]) == 0
    (run,) = all_runs()
    options = run.plan().options
    assert isinstance(options, BiEncoderOptions)
    assert (options.objective, options.teacher, options.distillation_weight) == (objective, STARTER, 0.5)
    assert options.precision is Precision.FLOAT32
    assert run.plan().split == SplitOptions(0.25, 0.25, 1)
    assert objective.value in (run.model_folder / "README.md").read_text(encoding="utf-8")
