"""Objectives: gradients reach the whole batch, and a few steps learn a small set."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.split import SplitOptions
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import STARTER, ModelSource, find_model
from mrc_workbench.training.ranker_options import (
    BI_ENCODER,
    CROSS_ENCODER,
    DISTILLATION_OBJECTIVES,
    BiEncoderObjective,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
)
from mrc_workbench.training.recipes import get_recipe
from mrc_workbench.training.recipes.training_data import TrainingData
from mrc_workbench.training.runs import Run
from mrc_workbench.training.train import load_training_data
from mrc_workbench.training.trainers import make_trainer
from tests.tiny_models import SENTENCES, build_bi_encoder, build_cross_encoder_base, with_head
from tests.training import worlds

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_workspace_of_module")]

MEGA, MULTIPLE, GIST, TRIPLET, MARGIN_MSE, KL = BiEncoderObjective
OPEN: dict[str, Any] = {"positive_margin": 1.0, "negative_margin": -1.0}  # no cosine reaches these margins
IN_PARTS: dict[str, dict[str, Any]] = {
    "mega-batch": {"objective": MEGA, **OPEN},
    "multiple-negatives": {"objective": MULTIPLE},
    "multiple-negatives, hard ones": {"objective": MULTIPLE, "negatives": 2},
    "gist": {"objective": GIST},
    "gist, hard ones": {"objective": GIST, "negatives": 1},
    "mega-batch, matryoshka": {"objective": MEGA, "matryoshka": "16,8", **OPEN},
    "multiple-negatives, matryoshka": {"objective": MULTIPLE, "matryoshka": "16,8"},
    "gist, matryoshka": {"objective": GIST, "matryoshka": "16,8"},
    "margin-mse": {"objective": MARGIN_MSE, "negatives": 2, "teacher": STARTER},
    "kl": {"objective": KL, "negatives": 2, "teacher": STARTER},
    "kl and multiple-negatives": {"objective": KL, "negatives": 2, "teacher": STARTER, "distillation_weight": 0.5},
    "kl, matryoshka": {"objective": KL, "negatives": 2, "teacher": STARTER, "matryoshka": "16,8"},
}
BI_ENCODERS: dict[str, dict[str, Any]] = {
    **IN_PARTS,
    "triplet": {"objective": TRIPLET, "negatives": 1, "triplet_margin": 2.0},
    "triplet, matryoshka": {"objective": TRIPLET, "negatives": 1, "triplet_margin": 2.0, "matryoshka": "16,8"},
}


def of_both(trainings: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """Return each objective for the tiny model and, if possible, for the starter."""
    fits = [name for name, options in trainings.items() if options["objective"] is not GIST]
    return [*(("tiny", name) for name in trainings), *(("starter", name) for name in fits)]


class Batch:
    """The first training batch of the real trainer, in a model without dropout."""

    def __init__(self, options: BiEncoderOptions | CrossEncoderOptions, data: TrainingData, folder: Path) -> None:
        kind = BI_ENCODER if isinstance(options, BiEncoderOptions) else CROSS_ENCODER
        task = get_recipe(kind)(options, data).build_task(find_model(options.base))
        self.task = task.with_labels(lambda teacher: teacher.labels(lambda _: None))
        self.trainer = make_trainer(self.task, options, folder, [])
        self.task.model.eval()
        self._inputs = next(iter(self.trainer.get_train_dataloader()))

    def backward(self) -> float:
        self.task.model.zero_grad()
        loss = self.trainer.compute_loss(self.task.model, dict(self._inputs))
        loss.backward()
        return float(loss.detach())

    def gradient(self) -> np.ndarray:
        gradients = [p.grad.flatten().numpy() for p in self.task.model.parameters() if p.grad is not None]
        return np.concatenate(gradients)

    @contextmanager
    def watching(self, name: str, change: Callable[[Any], Any] = lambda _: None) -> Iterator[list[Any]]:
        """Record the gradients of the output `name` of the model's last module, an array per call."""
        seen: list[Any] = []

        def forwarded(module: Any, inputs: Any, output: dict[str, Any]) -> None:
            def noted(gradient: Any) -> Any:
                seen.append(gradient.detach().clone().numpy())
                return change(gradient)

            if output[name].requires_grad:
                output[name].register_hook(noted)

        hook = self.task.model[-1].register_forward_hook(forwarded)
        try:
            yield seen
        finally:
            hook.remove()


@cache
def five_questions() -> TrainingData:
    """Return questions on the first five of many passages: one batch, without repeated passages."""
    return replace(worlds.make_unsplit_data(worlds.shuffled(5, 400)), is_trainable=np.arange(400) >= 5)


def bi_encoder_batch(base: str, folder: Path, **options: Any) -> Batch:
    settings = {"negatives_last": 200, **options}
    batch_options = BiEncoderOptions(base=base, batch_size=5, precision=Precision.FLOAT32, **settings)
    return Batch(batch_options, five_questions(), folder)


def text_columns(batch: Batch) -> list[str]:
    return [name for name in batch.task.columns if name != "label"]


@pytest.mark.parametrize(("kind", "name"), of_both(BI_ENCODERS))
def test_gradient_reaches_every_text(name: str, kind: str, tmp_path: Path) -> None:
    options = BI_ENCODERS[name]
    batch = bi_encoder_batch(worlds.tiny_base(BI_ENCODER) if kind == "tiny" else STARTER, tmp_path, **options)
    with batch.watching("sentence_embedding") as seen:
        batch.backward()
    lengths = np.linalg.norm(np.concatenate(seen), axis=1)
    assert len(lengths) == 5 * len(text_columns(batch))
    assert lengths.min() > 1e-5, lengths


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A base with prompts that change all vectors."""
    folder = build_bi_encoder(tmp_path_factory.mktemp("prompted") / "base")
    config = json.loads((folder / "config_sentence_transformers.json").read_text())
    prompts = {"query": f"{SENTENCES[0]} ", "document": f"{SENTENCES[1]} "}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config | {"prompts": prompts}))
    return str(folder)


@pytest.mark.parametrize("name", [name for name in BI_ENCODERS if "gist" not in name])
def test_training_reads_same_texts_as_search(name: str, prompted: str, tmp_path: Path) -> None:
    batch = bi_encoder_batch(prompted, tmp_path, **BI_ENCODERS[name])
    seen: list[np.ndarray] = []
    last = batch.task.model[-1]
    hook = last.register_forward_hook(lambda *call: seen.append(call[2]["sentence_embedding"].detach().numpy()))
    batch.backward()
    hook.remove()
    seen = seen[-len(text_columns(batch)) :] if not batch.task.loss.__class__.__name__.startswith("Cached") else seen
    rows = np.concatenate(seen)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    encoder = BiEncoder(find_model(prompted), [], precision=Precision.FLOAT32)
    for column, side in (("anchor", "question"), ("positive", "passage")):
        for text in batch.task.columns[column]:
            differences = np.abs(rows - encoder.encode(side, [text])).max(axis=1)
            assert differences.min() < 1e-5, (column, text)
            bare = np.asarray(encoder.model.encode([text], normalize_embeddings=True))
            assert np.abs(rows - bare).max(axis=1).min() > 1e-3


@pytest.mark.parametrize("name", IN_PARTS)
def test_mini_batches_preserve_gradient(name: str, tmp_path: Path) -> None:
    whole_batch = bi_encoder_batch(worlds.tiny_base(BI_ENCODER), tmp_path, **IN_PARTS[name])
    in_parts = bi_encoder_batch(worlds.tiny_base(BI_ENCODER), tmp_path, mini_batch_size=2, **IN_PARTS[name])
    loss = whole_batch.backward()
    gradient = whole_batch.gradient()
    assert in_parts.backward() == pytest.approx(loss, abs=1e-5)
    tolerance = 1e-5 * max(1, np.abs(gradient).max())
    np.testing.assert_allclose(in_parts.gradient(), gradient, rtol=0, atol=tolerance)

    # a missing example would make a much larger difference
    def without(rows: list[int]) -> np.ndarray:
        def dropped(gradient: Any) -> Any:
            gradient = gradient.clone()
            gradient.view(-1, 5, gradient.shape[1])[:, rows] = 0  # columns may be read together, one after the other
            return gradient

        with whole_batch.watching("sentence_embedding", dropped):
            whole_batch.backward()
        return whole_batch.gradient()

    for rows in [[0], [1], [2], [3], [4], [0, 1, 2, 3]]:
        assert np.abs(without(rows) - gradient).max() > 100 * tolerance, rows


@pytest.mark.parametrize("objective", list(CrossEncoderObjective))
@pytest.mark.parametrize("kind", ["tiny", "starter"])
def test_gradient_reaches_every_pair(objective: CrossEncoderObjective, kind: str, tmp_path: Path) -> None:
    base = worlds.tiny_base(CROSS_ENCODER)
    teacher = STARTER
    if kind == "starter":
        base = STARTER
        teacher = str(with_head(build_cross_encoder_base(tmp_path / "teacher", segment_types=1)))
    options = CrossEncoderOptions(base=base, objective=objective, teacher=teacher, batch_size=5)
    batch = Batch(replace(options, precision=Precision.FLOAT32), five_questions(), tmp_path)
    with batch.watching("scores") as seen:
        batch.backward()
    columns = batch.task.columns
    gradients = np.concatenate([gradient.ravel() for gradient in seen])
    if "passages" in columns:
        assert len(gradients) == sum(map(len, columns["passages"])) == 5 * (1 + options.negatives)
    else:
        assert len(gradients) == 5 * (2 if objective is CrossEncoderObjective.MARGIN_MSE else 1)
    assert np.abs(gradients).min() > 1e-5, gradients


BI_ENCODERS_THAT_LEARN: dict[str, dict[str, Any]] = {
    "mega-batch": {"objective": MEGA},
    "multiple-negatives": {"objective": MULTIPLE},
    "multiple-negatives, hard ones": {"objective": MULTIPLE, "negatives": 2},
    "gist": {"objective": GIST},
    "triplet": {"objective": TRIPLET, "negatives": 2},
    "matryoshka": {"objective": MULTIPLE, "matryoshka": "8"},
    "margin-mse": {"objective": MARGIN_MSE, "negatives": 4},
    "kl": {"objective": KL, "negatives": 4},
}


def mean_lead(data: TrainingData, scores: np.ndarray) -> float:
    """Return the mean score of a question's passage minus the best other training passage."""
    relevant = data.train.relevance.toarray()[:, data.is_trainable]
    scores = scores[:, data.is_trainable]
    right = np.where(relevant, scores, -np.inf).max(axis=1)
    return float((right - np.where(relevant, -np.inf, scores).max(axis=1)).mean())


def lead_of_bi_encoder(source: ModelSource, data: TrainingData, dimensions: int | None = None) -> float:
    encoder = BiEncoder(source, data.texts)
    questions = encoder.encode_questions([question.text for question in data.train.questions])[:, :dimensions]
    passages = encoder.encode_passages(data.texts)[:, :dimensions]
    questions, passages = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (questions, passages))
    return mean_lead(data, questions @ passages.T)


def lead_of_cross_encoder(source: ModelSource, data: TrainingData) -> float:
    scorer = CrossEncoderScorer(source, data.texts, new_head=True)
    pairs = [(question.text, text) for question in data.train.questions for text in data.texts]
    return mean_lead(data, scorer.score(pairs).reshape(-1, len(data.texts)))


def trained(kind: str, base: str, **options: Any) -> Run:
    rates = {BI_ENCODER: (0.06, 6e-3), CROSS_ENCODER: (0.2, 6e-3)}
    settings: dict[str, Any] = {"learning_rate": rates[kind][base != STARTER], "batch_size": 64, "warmup": 0.0}
    settings |= {"epochs": 30.0, "precision": Precision.FLOAT32}
    settings |= {"evaluation_steps": 10_000} | options  # so the last weights are used
    return worlds.train_new_run(kind, worlds.shuffled(7, 7), SplitOptions(0.1, 0.1), base=base, **settings)


@pytest.fixture(scope="module")
def guide(module_workspace: Path) -> str:
    base = worlds.tiny_base(BI_ENCODER)
    return str(worlds.in_workspace(module_workspace, lambda: trained(BI_ENCODER, base, objective=MULTIPLE)).folder)


@pytest.fixture(scope="module")
def teacher(module_workspace: Path) -> str:
    settings = {"negatives": 6, "epochs": 150.0, "learning_rate": 3e-3}
    run = worlds.in_workspace(
        module_workspace, lambda: trained(CROSS_ENCODER, worlds.tiny_base(CROSS_ENCODER), **settings)
    )
    return str(run.folder)


@pytest.mark.parametrize(("kind", "name"), of_both(BI_ENCODERS_THAT_LEARN))
def test_few_steps_teach_bi_encoder_to_discriminate(name: str, kind: str, guide: str, teacher: str) -> None:
    options = BI_ENCODERS_THAT_LEARN[name]
    if options["objective"] is GIST:
        options = options | {"guide": guide}
    if options["objective"] in DISTILLATION_OBJECTIVES:
        options = options | {"teacher": teacher}
    base = worlds.tiny_base(BI_ENCODER) if kind == "tiny" else STARTER
    run = trained(BI_ENCODER, base, **options)
    data = load_training_data(run.plan())
    for dimensions in (None, 8) if "matryoshka" in options else (None,):
        before = lead_of_bi_encoder(find_model(base), data, dimensions)
        after = lead_of_bi_encoder(worlds.make_source(run), data, dimensions)
        assert before < 0
        # a student leads by the teacher's margin times its temperature, and not by more
        assert after > (0.05 if options["objective"] in DISTILLATION_OBJECTIVES else 0.3)


@pytest.mark.parametrize("objective", list(CrossEncoderObjective))
@pytest.mark.parametrize("kind", ["tiny", "starter"])
def test_few_steps_teach_cross_encoder_to_discriminate(
    objective: CrossEncoderObjective, kind: str, teacher: str
) -> None:
    base, epochs = (worlds.tiny_base(CROSS_ENCODER), 50.0) if kind == "tiny" else (STARTER, 30.0)
    run = trained(CROSS_ENCODER, base, objective=objective, negatives=6, epochs=epochs, teacher=teacher)
    data = load_training_data(run.plan())
    before, after = (lead_of_cross_encoder(source, data) for source in (find_model(base), worlds.make_source(run)))
    assert before < 0
    # a starter only weights matching words, which do not separate all passages
    assert after > (0.2 if kind == "tiny" else before + 1.5)
