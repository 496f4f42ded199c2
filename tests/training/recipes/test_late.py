"""The training of late interaction: losses by hand, the model in its library, metrics as in search."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import MultiVectorEncoder

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.loading import load_token_encoder
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.retrieval.dense import LateInteraction
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.training.engine import speed
from mrc_workbench.training.engine.adaptation import add_projection
from mrc_workbench.training.engine.speed import LowerStates
from mrc_workbench.training.options import OptionError
from mrc_workbench.training.ranker_options import LATE_INTERACTION, LateObjective, LateOptions
from mrc_workbench.training.recipes.losses import late_loss, negatives_of_processes
from mrc_workbench.training.recipes.training_data import TrainingData
from mrc_workbench.training.train import train
from tests.tiny_models import SENTENCES, build_bi_encoder
from tests.training import worlds

pytestmark = pytest.mark.slow

SHARES = SplitOptions(0.1, 0.1)


def score(question: np.ndarray, passage: np.ndarray) -> float:
    """Return the mean over the question's tokens of the best cosine with a token of the passage."""
    return float(np.mean([max(float(token @ other) for other in passage) for token in question]))


def compute_expected_loss(model: MultiVectorEncoder, options: LateOptions) -> float:
    encoded = model.encode_query(worlds.QUESTIONS, convert_to_numpy=True)
    questions = [np.asarray(vectors, dtype=np.float64) for vectors in encoded]
    columns = [model.encode_document(texts, convert_to_numpy=True) for texts in (worlds.POSITIVES, *worlds.NEGATIVES)]
    scores = np.array([[[score(q, passage) for passage in column] for column in columns] for q in questions])
    scores /= options.temperature  # (questions, positions, their questions)
    every = scores.transpose(0, 2, 1).reshape(3, 9)
    contrasted = -worlds.log_softmax(every)[np.arange(3), 3 * np.arange(3)].mean()
    if options.objective is LateObjective.MULTIPLE_NEGATIVES:
        return float(contrasted)
    own = np.array([scores[row, :, row] for row in range(3)])
    p = worlds.log_softmax(worlds.TEACHER.astype(np.float64) / options.teacher_temperature)
    q = worlds.log_softmax(own)
    teacher_loss = (np.exp(p) * (p - q)).sum(axis=1).mean()
    return float(options.distillation_weight * teacher_loss + (1 - options.distillation_weight) * contrasted)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 0.5},
        {"objective": LateObjective.KL},
        {"objective": LateObjective.KL, "distillation_weight": 0.3, "teacher_temperature": 2.5, "temperature": 0.1},
    ],
)
def test_loss_matches_formula(settings: dict[str, Any]) -> None:
    options = LateOptions(base=worlds.get_base(LATE_INTERACTION), negatives=2, teacher=STARTER, **settings)
    model = load_token_encoder(find_model(options.base))
    model.eval()
    columns = [worlds.QUESTIONS, worlds.POSITIVES, *worlds.NEGATIVES]
    tasks = ["query", *["document"] * (len(columns) - 1)]
    features = [model.preprocess(texts) | {"task": task} for texts, task in zip(columns, tasks, strict=True)]
    actual = late_loss(model, options)(features, torch.tensor(worlds.TEACHER))
    assert float(actual.detach()) == pytest.approx(compute_expected_loss(model, options), rel=1e-4, abs=1e-4)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> worlds.Trained:
    options = {"epochs": 12.0, "batch_size": 8, "learning_rate": 6e-3, "dimensions": 8, "evaluation_limit": 0}
    folder = tmp_path_factory.mktemp("late")
    planned = partial(worlds.create_planned_run, LATE_INTERACTION, worlds.shuffled(40, 40), SHARES, **options)
    return worlds.train_in(folder, planned)


def test_training_improves_scores(finished: worlds.Trained) -> None:
    assert finished.status.state is State.DONE, finished.status.message
    losses = worlds.read_logged(finished.run, "loss")
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) / 2


def test_scores_match_retrieval_evaluation(finished: worlds.Trained) -> None:
    data = TrainingData.from_question_set(finished.question_set, SHARES, LateOptions(evaluation_limit=0))
    encoder = TokenEncoder(worlds.make_source(finished.run), data.texts, precision=Precision.FLOAT32)
    late = LateInteraction("", data.question_set.passages, encoder)
    rankings = late.search([question.text for question in data.validation.questions], 10)
    means = evaluate(rankings, data.validation, (1, 10)).means()
    reported = finished.run.scores()["after"]
    for name in ("recall@1", "ndcg@10"):
        assert reported[name] == pytest.approx(means[name], abs=0.02)


def test_library_loads_model(finished: worlds.Trained) -> None:
    model = MultiVectorEncoder(str(finished.run.model_folder), device="cpu")
    names = [type(module).__name__ for module in model]
    assert names == ["Transformer", "WeightedLayerPooling", "Dense", "MultiVectorMask", "Normalize"]
    (vectors,) = model.encode_document(SENTENCES[:1], convert_to_numpy=True)
    assert vectors.shape[1] == 8
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert load_token_encoder(worlds.make_source(finished.run)).similarity_fn_name == "meanmaxsim"


def test_shared_passages_with_frozen_layers_take_fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three questions per passage need a third of the steps; evaluation and training share stored states."""
    stored: list[LowerStates] = []

    class Noted(LowerStates):
        def __init__(self, count: int) -> None:
            super().__init__(count)
            stored.append(self)

    monkeypatch.setattr(speed, "LowerStates", Noted)
    options = {"epochs": 20.0, "batch_size": 8, "learning_rate": 3e-3, "logging_steps": 1, "evaluation_limit": 0}
    many = worlds.shuffled(120, 120)
    questions = [replace(question, relevant=(f"p{row // 3}",)) for row, question in enumerate(many.questions)]
    same = QuestionSet("three a passage", tuple(many.passages)[:40], tuple(questions))
    run = worlds.create_planned_run(LATE_INTERACTION, same, SHARES, **options, shared_passages=True, frozen_layers=1)
    total_steps = worlds.train_to_end(run).status().total_steps
    losses = worlds.read_logged(run, "loss")
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) * 0.8
    passages = TrainingData.from_question_set(same, SHARES, LateOptions()).positive_pairs()[1]
    assert total_steps == 20 * -(-len(set(passages.tolist())) // 8)
    (states,) = stored
    assert states.bytes > 0
    assert states.seconds_reused > states.seconds


def test_projection_starts_with_principal_directions(tmp_path: Any) -> None:
    source = find_model(str(build_bi_encoder(tmp_path)))
    plain = load_token_encoder(source)
    model = load_token_encoder(source)
    add_projection(model, 6, SENTENCES)
    wide = np.concatenate(plain.encode_document(SENTENCES, convert_to_numpy=True)).astype(np.float64)
    expected = wide @ np.linalg.svd(wide, full_matrices=False)[2][:6].T
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    vectors = np.concatenate(model.encode_document(SENTENCES, convert_to_numpy=True))
    # axes may have opposite signs: compare the dot products
    np.testing.assert_allclose(vectors @ vectors.T, expected @ expected.T, atol=1e-4)


def test_rejects_longer_or_second_projection(tmp_path: Any) -> None:
    model = load_token_encoder(find_model(str(build_bi_encoder(tmp_path))))
    width = model[0].get_embedding_dimension()
    add_projection(model, width, SENTENCES)
    assert len(model) == 4  # as it is
    with pytest.raises(OptionError, match=f"0 or {width}"):
        add_projection(model, width + 1, SENTENCES)
    add_projection(model, 4, SENTENCES)
    with pytest.raises(OptionError, match="0 or 4"):
        add_projection(model, 2, SENTENCES)


def test_rejects_starter() -> None:
    with pytest.raises(ModelError, match="has words instead of tokens"):
        LateOptions.check_base(find_model(STARTER))
    run = worlds.create_planned_run(LATE_INTERACTION, worlds.shuffled(20, 20), base=STARTER)
    ended = train(run)
    assert (ended.state, ended.code) == (State.FAILED, "not_late")


def test_negatives_with_several_processes() -> None:
    distilled = {"objective": LateObjective.KL, "teacher": STARTER, "negatives": 1}
    option_sets = [LateOptions(), LateOptions(**distilled), LateOptions(**distilled, distillation_weight=0.5)]
    assert [negatives_of_processes(options) for options in option_sets] == ["gathered", "none", "own"]


def test_distills_teacher_over_windows() -> None:
    distilled = {"objective": LateObjective.KL, "teacher": STARTER, "negatives": 2, "distillation_weight": 0.5}
    options = {"epochs": 1.0, "batch_size": 8, "max_length": 8, "gradient_checkpointing": True}
    run = worlds.create_planned_run(LATE_INTERACTION, worlds.shuffled(24, 24), SHARES, **distilled, **options)
    worlds.train_to_end(run)
    assert run.provenance()["windows"]["passages"] > 0
