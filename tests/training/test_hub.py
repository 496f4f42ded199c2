"""Objectives of rankers and a reader, trained from their default hub ids on a stand-in hub."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import save_question_set
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.reader import SpanOptions, SpanReader, options_of
from mrc_workbench.models.sources import DEFAULT_READER, find_model
from mrc_workbench.training.ranker_options import CROSS_ENCODER, BiEncoderOptions, CrossEncoderOptions
from mrc_workbench.training.recipes.training_data import TrainingData
from mrc_workbench.training.runs import Run
from mrc_workbench.training.text_options import READER
from mrc_workbench.training.train import load_training_data
from tests.hub import BI_ENCODER, CROSS_ENCODER_BASE, hub_server
from tests.programs import run_module
from tests.tiny_models import SENTENCES, build_bi_encoder, build_cross_encoder_base
from tests.training.worlds import make_source, measures_of_ranks, read_logged, shuffled

pytestmark = pytest.mark.slow
WORDS = " ".join(SENTENCES).split()

SHARED_PASSAGES = {"shared_passages": True, "mix_loss_weight": 0.5}
BI_ENCODERS: dict[str, dict[str, Any]] = {
    "mega-batch-margin": {"max_length": 8, "windows": False},  # truncated, like the library
    "mega-batch-margin-in-parts": {"mini_batch_size": 4, "pooling": "max"},
    "multiple-negatives": {"objective": "multiple-negatives", "negatives": 1, "lora_rank": 2},
    "multiple-negatives-in-parts": {"objective": "multiple-negatives", "mini_batch_size": 4, "pooling": "cls"},
    "shared-passages": {"objective": "multiple-negatives", "frozen_layers": 1, **SHARED_PASSAGES},
    "gist": {"objective": "gist", "frozen_layers": 1},
    "gist-in-parts": {"objective": "gist", "mini_batch_size": 4, "negatives": 1, "matryoshka": "16"},
    "triplet": {"objective": "triplet", "negatives": 1, "matryoshka": "16 8", "precision": "bfloat16"},
}
CROSS_ENCODERS: dict[str, dict[str, Any]] = {
    "binary-cross-entropy": {},
    "lambda": {"objective": "lambda", "lora_rank": 2},
    "ranknet": {"objective": "ranknet", "frozen_layers": 1},
    "listnet": {"objective": "listnet", "max_length": 12, "windows": False},
    "margin-mse": {"objective": "margin-mse", "teacher": "starter", "precision": "bfloat16"},
}
COMMON_OPTIONS = {
    **{"validation_fraction": 0.2, "test_fraction": 0.2, "split_seed": 1},
    **{"logging_steps": 1, "epochs": 2, "learning_rate": 0.005, "warmup": 0},
}


class Trainings:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, name: str) -> Run:
        return Run(self._folder / name)

    def load_data(self, name: str) -> TrainingData:
        return load_training_data(self.run(name).plan())

    def weights(self, name: str) -> dict[str, np.ndarray]:
        folder = self.run(name).model_folder if (self._folder / name).is_dir() else self._folder / "hub" / name
        return {key.removeprefix("roberta."): array for key, array in load_file(folder / "model.safetensors").items()}


def squad(folder: Path) -> Path:
    """Two questions on each of twelve passages ask for the word after a word."""
    articles = []
    for number in range(12):
        words = [*WORDS[number:], *WORDS[:number]][:8]
        context = " ".join(words)
        questions_of_article = []
        for offset in (0, 3):
            word, answer = words[offset : offset + 2]
            answers = [{"text": answer, "answer_start": context.index(f" {answer}") + 1}]
            questions_of_article.append({"id": f"q{number}-{offset}", "question": word, "answers": answers})
        articles.append({"title": f"t{number}", "paragraphs": [{"context": context, "qas": questions_of_article}]})
    path = folder / "set.json"
    path.write_text(json.dumps({"version": "1", "data": articles}, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def hub_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hub-trainings")


@pytest.fixture(scope="module")
def _trainings(hub_workspace: Path) -> Trainings:
    models = hub_workspace / "hub"
    build_bi_encoder(models / BI_ENCODER)
    build_cross_encoder_base(models / CROSS_ENCODER_BASE, segment_types=1)
    build_cross_encoder_base(models / DEFAULT_READER, segment_types=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(hub_workspace))
        key = save_question_set(shuffled(20, 20)).key
    reader_options = {"batch_size": 4, "max_length": 32, "overlap": 8}
    everything = [
        *((name, "bi-encoder", key, BI_ENCODER, options) for name, options in BI_ENCODERS.items()),
        *((name, CROSS_ENCODER, key, CROSS_ENCODER_BASE, options) for name, options in CROSS_ENCODERS.items()),
        (READER, READER, str(squad(hub_workspace)), DEFAULT_READER, reader_options),
    ]
    commands = []
    for name, kind, data, base, options in everything:
        words = ["train", kind, "--data", data, "--base", base, "--out", str(hub_workspace / name)]
        commands.append(["mrc_workbench", *words, *as_flags(COMMON_OPTIONS | options)])
    with hub_server(models) as url:
        hub = (url, hub_workspace / "home")
        environment = {"MRC_WORKSPACE": str(hub_workspace)}
        done = run_module("tests.commands", json.dumps(commands), *hub, environment=environment)
    assert done.returncode == 0, done.stderr[-5000:]
    return Trainings(hub_workspace)


def as_flags(options: dict[str, Any]) -> list[str]:
    flags = []
    for option, value in options.items():
        name = option.replace("_", "-")
        is_flag = isinstance(value, bool)
        flags += [f"--{name}" if value else f"--no-{name}"] if is_flag else [f"--{name}", str(value)]
    return flags


@pytest.fixture
def trainings(_trainings: Trainings, hub_workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Trainings:
    monkeypatch.setenv("MRC_WORKSPACE", str(hub_workspace))
    return _trainings


def measures_by_hand(data: TrainingData, orders: Sequence[Sequence[int]]) -> dict[str, float]:
    """Return the measures of rankings of the validation questions, which have one relevant passage each."""
    ranks = []
    for question, order in zip(data.validation.questions, orders, strict=True):
        (relevant_row,) = (data.question_set.row_of_passage[id_] for id_ in question.relevant)
        ranks.append([*order].index(relevant_row) + 1 if relevant_row in order else 0)
    return measures_of_ranks(ranks)


@pytest.mark.parametrize("name", [*BI_ENCODERS, *CROSS_ENCODERS])
def test_trains_with_defaults_of_pretrained_base(trainings: Trainings, name: str) -> None:
    run = trainings.run(name)
    assert run.status().state is State.DONE
    assert len(read_logged(run, "loss")) == run.status().total_steps > 0
    assert np.isfinite(read_logged(run, "loss")).all()
    options, base = (BI_ENCODERS, BI_ENCODER) if name in BI_ENCODERS else (CROSS_ENCODERS, CROSS_ENCODER_BASE)
    plan = run.plan()
    assert (plan.options.base, plan.split) == (base, SplitOptions(0.2, 0.2, 1))
    assert plan.options.batch_size == (64 if name in BI_ENCODERS else 16)
    assert {option: getattr(plan.options, option) for option in options[name]} == options[name]

    model = {path.name for path in run.model_folder.rglob("*") if path.is_file()}
    assert {name for name in model if not name.endswith((".json", ".txt", ".md"))} == {"model.safetensors"}
    assert not [name for name in model if "adapter" in name]
    checkpoints = [path for path in (run.folder / "checkpoints").rglob("*") if path.is_file()]
    assert {path.suffix for path in checkpoints} == {".safetensors", ".json"}


@pytest.mark.parametrize("name", BI_ENCODERS)
def test_bi_encoder_loads_as_sentence_transformer(trainings: Trainings, name: str) -> None:
    from sentence_transformers import SentenceTransformer

    run = trainings.run(name)
    data = trainings.load_data(name)
    plain = SentenceTransformer(str(run.model_folder), device="cpu")
    pooling = BI_ENCODERS[name].get("pooling", "mean")
    assert plain[1].pooling_mode == pooling
    tokens = plain.encode(SENTENCES[0], output_value="token_embeddings")
    expected = {"mean": tokens.mean(0), "cls": tokens[0], "max": tokens.max(0).values}[pooling]
    np.testing.assert_allclose(plain.encode(SENTENCES[0]), expected, atol=1e-6)
    vectors = plain.encode(data.texts, normalize_embeddings=True)
    ours = BiEncoder(make_source(run), data.texts, precision=Precision.FLOAT32)
    np.testing.assert_allclose(vectors, ours.encode_passages(data.texts), atol=1e-6)
    queries = [question.text for question in data.validation.questions]
    expected = ours.encode_questions(queries)
    np.testing.assert_allclose(plain.encode(queries, normalize_embeddings=True), expected, atol=1e-6)
    measured = BiEncoder(make_source(run), data.texts, precision=run.plan().options.precision)
    cosines = measured.encode_questions(queries) @ measured.encode_passages(data.texts).T
    orders = np.argsort(-cosines, axis=1, kind="stable")
    assert run.scores()["after"] == pytest.approx(measures_by_hand(data, orders.tolist()), abs=1e-9)

    untrained = SentenceTransformer(str(run.folder.parent / "hub" / BI_ENCODER), device="cpu")
    assert np.abs(untrained.encode(data.texts, normalize_embeddings=True) - vectors).max() > 1e-3


@pytest.mark.parametrize("name", CROSS_ENCODERS)
def test_cross_encoder_loads_as_cross_encoder(trainings: Trainings, name: str) -> None:
    import torch
    from sentence_transformers import CrossEncoder

    run = trainings.run(name)
    data = trainings.load_data(name)
    plain = CrossEncoder(str(run.model_folder), device="cpu")
    pairs = [(question.text, text) for question in data.validation.questions for text in data.texts]
    logits = plain.predict(pairs, activation_fn=torch.nn.Identity())
    ours = CrossEncoderScorer(make_source(run), data.texts, precision=Precision.FLOAT32).score(pairs)
    np.testing.assert_allclose(logits, ours, atol=1e-6)
    np.testing.assert_allclose(plain.predict(pairs), 1 / (1 + np.exp(-ours)), atol=1e-6)
    assert len(np.unique(logits.round(6))) > len(pairs) // 2

    reranked = [[row for row in rows if row >= 0] for rows in data.candidates(data.validation, 20).indices.tolist()]
    questions = [question.text for question in data.validation.questions]
    candidates = [(text, row) for text, rows in zip(questions, reranked, strict=True) for row in rows]
    measured = CrossEncoderScorer(make_source(run), data.texts, precision=run.plan().options.precision)
    scores = iter(measured.score([(text, data.texts[row]) for text, row in candidates]).tolist())
    of_row = [{row: next(scores) for row in rows} for rows in reranked]
    orders = [sorted(rows, key=lambda row: -score[row]) for rows, score in zip(reranked, of_row, strict=True)]
    assert run.scores()["after"] == pytest.approx(measures_by_hand(data, orders), abs=1e-9)


def changed(ours: dict[str, np.ndarray], base: dict[str, np.ndarray]) -> set[str]:
    assert all(array.dtype == np.float32 for array in ours.values())
    return {key for key, array in ours.items() if key in base and not np.array_equal(array, base[key])}


@pytest.mark.parametrize(
    ("name", "base"), [("gist", BI_ENCODER), ("shared-passages", BI_ENCODER), ("ranknet", CROSS_ENCODER_BASE)]
)
def test_frozen_layers_stay_identical(trainings: Trainings, name: str, base: str) -> None:
    ours = trainings.weights(name)
    theirs = trainings.weights(base)
    moved = changed(ours, theirs)
    frozen = {key for key in ours if key.startswith(("embeddings.", "encoder.layer.0."))}
    assert len(frozen & theirs.keys()) > 10
    assert not moved & frozen
    # key biases have no gradient, since softmax ignores them
    layer = {key for key in ours if key.startswith("encoder.layer.1.") and not key.endswith("key.bias")}
    assert layer <= moved


@pytest.mark.parametrize(("name", "base"), [("multiple-negatives", BI_ENCODER), ("lambda", CROSS_ENCODER_BASE)])
def test_merges_adapters_into_weights(trainings: Trainings, name: str, base: str) -> None:
    ours = trainings.weights(name)
    theirs = trainings.weights(base)
    assert not [key for key in ours if "lora" in key or "base_layer" in key]
    moved = changed(ours, theirs)
    matrices = {key for key in ours if key.startswith("encoder.") and key.endswith("weight") and "LayerNorm" not in key}
    assert len(matrices) == 2 * 6
    assert moved - {"pooler.dense.weight"} == matrices
    for key in matrices:
        assert np.linalg.matrix_rank(ours[key] - theirs[key], tol=1e-5) <= 2


def test_truncates_at_max_length(trainings: Trainings) -> None:
    from sentence_transformers import CrossEncoder, SentenceTransformer

    model = SentenceTransformer(str(trainings.run("mega-batch-margin").model_folder), device="cpu")
    assert model.max_seq_length == 8
    words = " ".join(SENTENCES[:2]).replace(".", "").split()  # a token each; with [CLS] and [SEP] six are read
    six, seven, five = (model.encode(" ".join(words[:count])) for count in (6, 7, 5))
    np.testing.assert_allclose(six, seven, atol=1e-6)
    assert np.abs(six - five).max() > 1e-3
    longer = SentenceTransformer(str(trainings.run("gist").model_folder), device="cpu")
    assert longer.max_seq_length == 128
    reranker = CrossEncoder(str(trainings.run("listnet").model_folder), device="cpu")
    assert reranker.max_seq_length == 12


def test_reads_options_back(trainings: Trainings) -> None:
    assert isinstance(trainings.run("gist").plan().options, BiEncoderOptions)
    assert isinstance(trainings.run("lambda").plan().options, CrossEncoderOptions)
    assert trainings.run("gist-in-parts").plan().options.matryoshka_dimensions == [16]  # type: ignore[union-attr]


def test_hub_base_becomes_reader_for_transformers(trainings: Trainings) -> None:
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    run = trainings.run(READER)
    assert {"em", "f1"} <= run.scores()["after"].keys()
    assert run.provenance()["answers"]["missing"] == 0
    source = find_model(str(run.model_folder))
    assert options_of(source) == SpanOptions(32, 8, 30)
    assert not [path for path in run.model_folder.rglob("*") if path.suffix in (".bin", ".pt", ".pkl")]
    network = AutoModelForQuestionAnswering.from_pretrained(run.model_folder)
    tokenizer = AutoTokenizer.from_pretrained(run.model_folder)
    given = tokenizer(WORDS[0], " ".join(WORDS[:6]), return_tensors="pt")
    reader = SpanReader(source)
    with torch.no_grad():
        assert torch.equal(network.eval()(**given).start_logits, reader.model[0](dict(given))["starts"])
    card = (run.model_folder / "README.md").read_text(encoding="utf-8")
    assert "question-answering" in card
    assert "Exact match" in card
