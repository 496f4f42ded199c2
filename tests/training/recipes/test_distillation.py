"""What a bi-encoder learns of a teacher: the losses by hand, and the way of a whole training."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import keep
from mrc_workbench.models.encoders import CrossEncoderScorer
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.training.estimate import estimate
from mrc_workbench.training.ranker_options import BI_ENCODER, TAUGHT, BiEncoderObjective, BiEncoderOptions
from mrc_workbench.training.recipes.examples import encoder_examples
from mrc_workbench.training.recipes.shown import TeachersScores
from mrc_workbench.training.runs import Phase, Run, all_runs
from mrc_workbench.training.train import train
from mrc_workbench.workbench.cli import main
from tests.doubles import small_set
from tests.tiny_models import SENTENCES, build_bi_encoder
from tests.training.test_resume import again, assert_came_out_alike, do_at_step
from tests.training.worlds import misleading_set, planned, whole

pytestmark = pytest.mark.slow

MARGIN_MSE, KL = TAUGHT
QUESTIONS = [SENTENCES[3], "도서관은 언제 문을 닫는가?", "한강은 어디로 흐르는가?"]
POSITIVES = [SENTENCES[1], SENTENCES[4], SENTENCES[1]]
NEGATIVES = [[SENTENCES[0], SENTENCES[2], SENTENCES[0]], [SENTENCES[4], SENTENCES[0], SENTENCES[2]]]
TEACHER = np.array([[4.0, 1.0, -2.5], [0.5, 0.75, -1.0], [7.0, -3.0, 2.0]], dtype=np.float32)
TOLD: dict[str, Any] = {"teacher": STARTER, "negatives": 2}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build_bi_encoder(tmp_path_factory.mktemp("tiny")))


def log_softmax(scores: np.ndarray) -> np.ndarray:
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))


def by_hand(vectors: list[np.ndarray], options: BiEncoderOptions) -> float:
    """The loss as its formula says; `vectors` are of questions, positives, and each place of the negatives."""
    questions, *passages = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in vectors)
    student = np.stack([(questions * side).sum(axis=1) for side in passages], axis=1) / options.temperature
    teacher = TEACHER.astype(np.float64) / options.teacher_temperature
    if options.objective is MARGIN_MSE:
        taught = np.mean(((student[:, :1] - student[:, 1:]) - (teacher[:, :1] - teacher[:, 1:])) ** 2)
    else:
        p, q = log_softmax(teacher), log_softmax(student)
        taught = (np.exp(p) * (p - q)).sum(axis=1).mean()
    every = questions @ np.concatenate(passages).T / options.temperature
    contrasted = -log_softmax(every)[np.arange(3), np.arange(3)].mean()
    return float(options.distillation_weight * taught + (1 - options.distillation_weight) * contrasted)


@pytest.mark.parametrize("objective", TAUGHT)
@pytest.mark.parametrize("weight", [1.0, 0.3])
@pytest.mark.parametrize("parts", [0, 2])
@pytest.mark.parametrize(("temperature", "teacher_temperature"), [(0.05, 1.0), (0.5, 2.5)])
def test_the_loss_is_its_formula(
    *,
    objective: BiEncoderObjective,
    weight: float,
    parts: int,
    temperature: float,
    teacher_temperature: float,
    tiny: str,
) -> None:
    import torch

    from mrc_workbench.models.loading import load_bi_encoder
    from mrc_workbench.training.recipes.losses import bi_encoder_loss

    options = BiEncoderOptions(
        base=tiny,
        objective=objective,
        temperature=temperature,
        teacher_temperature=teacher_temperature,
        distillation_weight=weight,
        mini_batch_size=parts,
        **TOLD,
    )
    model = load_bi_encoder(find_model(tiny), [])
    model.eval()
    columns = [QUESTIONS, POSITIVES, *NEGATIVES]
    loss = bi_encoder_loss(model, options, whole(small_set()))
    found = loss([model.preprocess(texts) for texts in columns], torch.tensor(TEACHER))
    vectors = [np.asarray(model.encode(texts), dtype=np.float64) for texts in columns]
    assert float(found.detach()) == pytest.approx(by_hand(vectors, options), rel=1e-4, abs=1e-4)


class Asked:
    pairs = 0


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Counts the pairs that any teacher scores."""
    asked, scored = Asked(), CrossEncoderScorer.score

    def counted(scorer: CrossEncoderScorer, pairs: Any) -> np.ndarray:
        asked.pairs += len(pairs)
        return scored(scorer, pairs)

    monkeypatch.setattr(CrossEncoderScorer, "score", counted)
    return asked


def test_each_pair_is_scored_once_whoever_asks(asked: Asked) -> None:
    material = whole(small_set())
    few = BiEncoderOptions(objective=KL, teacher=STARTER, negatives=2)
    columns, examples = encoder_examples(few, material)
    lesson, shares = TeachersScores(STARTER, material, examples), list[float]()
    assert lesson.seconds() > 0
    probed = asked.pairs
    labels = np.array(lesson.labels(shares.append))
    pairs = {(int(q), int(p)) for q, row in zip(examples.question, examples.passages, strict=True) for p in row}
    assert asked.pairs - probed == len(pairs)
    assert shares[-1] == 1.0
    assert labels.shape == np.array(lesson.stand_ins()).shape == (7, 3)
    scorer = CrossEncoderScorer(find_model(STARTER), material.texts)
    for row, found in enumerate(labels):
        texts = [columns[name][row] for name in ("positive", "negative_1", "negative_2")]
        assert found == pytest.approx(scorer.score([(columns["anchor"][row], text) for text in texts]), abs=1e-5)
    assert len({*labels.round(3).ravel().tolist()}) > 5
    before = asked.pairs
    again = TeachersScores(STARTER, material, examples)
    assert again.seconds() == 0
    assert np.array(again.labels(shares.append)).tolist() == labels.tolist()
    assert asked.pairs == before
    more = encoder_examples(replace(few, negatives=3), material)[1]
    TeachersScores(STARTER, material, more).labels(shares.append)
    all_pairs = {(int(q), int(p)) for q, row in zip(more.question, more.passages, strict=True) for p in row}
    assert asked.pairs - before == len(all_pairs - pairs) > 0


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_bm25_has_its_share_in_the_teacher_s_scores(share: float) -> None:
    material = whole(small_set())
    columns, examples = encoder_examples(BiEncoderOptions(objective=KL, teacher=STARTER, negatives=3), material)
    found = np.array(TeachersScores(STARTER, material, examples, bm25=share).labels(lambda _: None))
    teacher = np.array(TeachersScores(STARTER, material, examples).labels(lambda _: None))
    ranked = material.first_stage.search(columns["anchor"], 5)
    told = [dict(zip(*row, strict=True)) for row in zip(ranked.indices.tolist(), ranked.scores.tolist(), strict=True)]
    lexical = np.array([[told[n].get(int(p), 0.0) for p in row] for n, row in enumerate(examples.passages)])
    assert (lexical.std(axis=1) > 0).sum() > 3
    for row, (t, b) in enumerate(zip(teacher, lexical, strict=True)):
        z = (b - b.mean()) / b.std() if b.std() else np.zeros(4)
        assert found[row] == pytest.approx((1 - share) * t + share * t.std() * z, abs=1e-4)


def test_a_teacher_is_followed_even_where_it_is_wrong() -> None:
    options = {"epochs": 20.0, "learning_rate": 0.05, "batch_size": 8, "warmup": 0.0, "evaluation_steps": 10_000}
    run = planned(BI_ENCODER, misleading_set(), objective=KL, **TOLD, **options)
    assert train(run).state is State.DONE, run.status().message
    # the questions share a word with the wrong passage only, so the teacher puts that first: so does the student
    scores = run.scores()
    assert scores["after"]["recall@1"] <= scores["before"]["recall@1"]
    losses = [entry["loss"] for entry in run.progress() if "loss" in entry]
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) / 2  # the first alone is of a student that is its teacher still


@pytest.mark.parametrize("objective", TAUGHT)
def test_a_resumed_training_comes_out_alike_and_asks_no_teacher(
    objective: BiEncoderObjective, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"epochs": 3.0, "batch_size": 4, "evaluation_steps": 3, "save_steps": 3} | TOLD
    options |= {"logging_steps": 1, "objective": objective, "distillation_weight": 0.5}
    run, uninterrupted = (planned(BI_ENCODER, misleading_set(questions_a_passage=2), **options) for _ in range(2))
    told: list[Status] = []
    write = Run.write_status

    def noted(one: Run, status: Status) -> None:
        told.append(status)
        write(one, status)

    monkeypatch.setattr(Run, "write_status", noted)
    for step in (1, 4):
        with pytest.MonkeyPatch.context() as patch:
            do_at_step(patch, step, run.ask_to_stop)
            assert train(run).state is State.STOPPED
        if step == 1:
            assert asked.pairs > 0
            assert [status.share for status in told if status.phase == Phase.TEACHING][-1] == 1.0
            asked.pairs = 0
        again(run)
    train(run)
    assert asked.pairs == 0
    assert train(uninterrupted).state is State.DONE
    assert asked.pairs == 0
    assert_came_out_alike(run, uninterrupted)


def test_a_wish_to_stop_is_heard_while_the_teacher_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    run = planned(BI_ENCODER, misleading_set(), objective=KL, **TOLD)
    score = CrossEncoderScorer.score

    def stopped(scorer: CrossEncoderScorer, pairs: Any) -> np.ndarray:
        run.ask_to_stop()
        return score(scorer, pairs)

    monkeypatch.setattr(CrossEncoderScorer, "score", stopped)
    ended = train(run)
    assert (ended.state, ended.phase, ended.step) == (State.STOPPED, Phase.TEACHING, 0)
    assert estimate(run.plan()).seconds_teaching == 0  # what it had scored is kept


def test_an_estimate_counts_the_teacher_until_it_has_spoken() -> None:
    run = planned(BI_ENCODER, misleading_set(), objective=KL, **TOLD)
    found = estimate(run.plan())
    assert found.seconds_teaching > 0
    besides = found.seconds_loading + found.seconds_measuring + found.seconds_teaching
    assert found.seconds == pytest.approx(found.steps * found.seconds_a_step + besides)
    assert train(run).state is State.DONE
    assert estimate(run.plan()).seconds_teaching == 0


@pytest.mark.parametrize("objective", TAUGHT)
def test_by_the_command(objective: BiEncoderObjective, tiny: str) -> None:
    words = ["bi-encoder", "--data", keep(small_set()).key, "--base", tiny, "--objective", objective.value]
    words += ["--negatives", "1", "--epochs", "1"]
    words += ["--validation-share", "0.25", "--test-share", "0.25", "--split-seed", "1"]
    assert main(["train", *words]) == 2  # nobody to learn from
    assert main(["train", *words, "--teacher", STARTER, "--distillation-weight", "0.5", "--precision", "float32"]) == 0
    (run,) = all_runs()
    options = run.plan().options
    assert isinstance(options, BiEncoderOptions)
    assert (options.objective, options.teacher, options.distillation_weight) == (objective, STARTER, 0.5)
    assert options.precision is Precision.FLOAT32
    assert run.plan().split == SplitOptions(0.25, 0.25, 1)
    assert objective.value in (run.model_folder / "README.md").read_text(encoding="utf-8")
