"""No figure is made of weights that are none of a model's files, nor of a part of them; nor is more read than fits."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mrc_workbench.labs.language.network import load_encoder
from mrc_workbench.models import loading
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.reader import load_reader
from mrc_workbench.models.sources import find_model
from tests.tiny_models import build_bi_encoder, build_cross_encoder_base, build_sparse_encoder, with_head

Load = Callable[[Path], Any]
BASE = {"hidden_size": 768, "num_hidden_layers": 12, "intermediate_size": 3072, "vocab_size": 32000}


def masked(folder: Path) -> Any:
    from mrc_workbench.models.reader_networks import load_masked  # it reads torch

    return load_masked(find_model(str(folder)))


LOADERS: dict[str, Load] = {
    "bi-encoder": lambda folder: loading.load_bi_encoder(find_model(str(folder)), []),
    "cross-encoder": lambda folder: loading.load_cross_encoder(find_model(str(folder)), []),
    "reader": lambda folder: load_reader(find_model(str(folder))),
    "sparse encoder": lambda folder: loading.load_sparse_encoder(find_model(str(folder))),
    "language model": masked,
    "inside": lambda folder: load_encoder(find_model(str(folder))),
}
TO_TRAIN: dict[str, Load] = {
    "cross-encoder": lambda folder: loading.load_cross_encoder(find_model(str(folder)), [], new_head=True),
    "reader": lambda folder: load_reader(find_model(str(folder)), new_head=True),
}
BUILDERS: dict[str, Callable[[Path], Path]] = {
    "bi-encoder": build_bi_encoder,
    "cross-encoder": lambda folder: with_head(build_cross_encoder_base(folder)),
    "reader": lambda folder: with_head(build_cross_encoder_base(folder), "QuestionAnswering"),
    "sparse encoder": build_sparse_encoder,
    "language model": build_cross_encoder_base,
    "inside": build_cross_encoder_base,
}


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    return {kind: build(tmp_path / kind) for kind, build in BUILDERS.items()}


def change(folder: Path, name: str, **values: object) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def refusal(load: Load, folder: Path) -> ModelError:
    with pytest.raises(ModelError) as error_info:
        load(folder)
    assert error_info.value.details["model"] == str(folder)
    return error_info.value


@pytest.mark.slow
def test_rejects_randomly_initialized_layers(folders: dict[str, Path]) -> None:
    for kind, load in LOADERS.items():
        load(folders[kind])  # the complete model
        change(folders[kind], "config.json", num_hidden_layers=4)
        error = refusal(load, folders[kind])
        assert error.code == "weights_missing", kind
        assert "layer.2." in str(error) or "layer.3." in str(error), kind
    for kind, load in TO_TRAIN.items():
        assert refusal(load, folders[kind]).code == "weights_missing", kind


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cross-encoder", "reader", "sparse encoder"])
def test_initializes_head_only_for_training(kind: str, tmp_path: Path) -> None:
    folder = BUILDERS[kind](tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    of_the_head = [name for name in weights if not name.startswith("roberta.")]
    assert of_the_head
    rest = {name: weight for name, weight in weights.items() if name not in of_the_head}
    save_file(rest, folder / "model.safetensors", {"format": "pt"})
    assert refusal(LOADERS[kind], folder).code == "no_head"
    if kind in TO_TRAIN:
        TO_TRAIN[kind](folder)


@pytest.mark.slow
def test_rejects_base_as_reader_or_reranker(tmp_path: Path) -> None:
    for folder in (build_cross_encoder_base(tmp_path / "masked"), build_bi_encoder(tmp_path / "bi")):
        for kind, load in TO_TRAIN.items():
            assert refusal(LOADERS[kind], folder).code == "no_head", kind
            load(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "values", "code"),
    [
        ("config.json", {"num_hidden_layers": -1}, "impossible"),
        ("config.json", {"num_hidden_layers": 0}, "impossible"),
        ("config.json", {"num_hidden_layers": 1}, "weights_missing"),
        ("config.json", {"hidden_size": 48}, "weights_missing"),
        ("config.json", {"intermediate_size": -64}, "impossible"),
        ("config.json", {"vocab_size": "many"}, "impossible"),
        ("config.json", {"num_attention_heads": 0}, "impossible"),
        ("config.json", {"pad_token_id": 10**9}, "impossible"),
        ("config.json", {"pad_token_id": "x"}, "impossible"),
        ("config.json", {"model_type": "nobody-knows"}, "unloadable"),
        ("config.json", {"hidden_act": "none-such"}, "unloadable"),
        ("tokenizer_config.json", {"model_max_length": -5}, "impossible"),
        ("tokenizer_config.json", {"model_max_length": 0}, "impossible"),
        ("tokenizer_config.json", {"model_max_length": "x"}, "impossible"),
        ("tokenizer_config.json", {"tokenizer_class": 3}, "unloadable"),
    ],
)
def test_rejects_impossible_settings(file: str, values: dict[str, Any], code: str, folders: dict[str, Path]) -> None:
    for kind, load in LOADERS.items():
        change(folders[kind], file, **values)
        error = refusal(load, folders[kind])
        assert error.code == code, (kind, str(error))


@pytest.mark.slow
def test_rejects_special_token_without_vector(folders: dict[str, Path]) -> None:
    for kind, load in LOADERS.items():
        path = folders[kind] / "tokenizer.json"
        content = json.loads(path.read_text())
        number = content["model"]["vocab"]["[MASK]"]
        text = path.read_text().replace(f'"[MASK]": {number}', f'"[MASK]": {number + 500}')
        content = json.loads(text)
        for token in content["added_tokens"]:
            token["id"] += 500 * (token["content"] == "[MASK]")
        path.write_text(json.dumps(content))
        assert refusal(load, folders[kind]).code == "impossible", kind


@pytest.mark.slow
def test_rejects_padding_id_that_differs_from_tokenizer(folders: dict[str, Path]) -> None:
    for kind, load in LOADERS.items():
        change(folders[kind], "config.json", pad_token_id=3)
        if kind == "bi-encoder":
            load(folders[kind])  # a BERT, which counts positions from 0
        else:
            assert refusal(load, folders[kind]).code == "impossible", kind


def test_accepts_possible_configurations(tmp_path: Path) -> None:
    for values in ({}, {"pad_token_id": -1, "vocab_size": 5}, {"num_hidden_layers": None}, {"pad_token_id": 3}):
        (tmp_path / "config.json").write_text(json.dumps(values))
        loading.require_possible("mine", tmp_path)


def memory(monkeypatch: pytest.MonkeyPatch, available: int) -> None:
    monkeypatch.setattr(loading.psutil, "virtual_memory", lambda: SimpleNamespace(available=available))


def folder_of(model_folder: Path, config: Any, shape: tuple[int, ...] = (10, 10)) -> Path:
    model_folder.mkdir(exist_ok=True)
    (model_folder / "config.json").write_text(json.dumps(config))
    save_file({"weight": np.zeros(shape, dtype=np.float16)}, model_folder / "model.safetensors")
    return model_folder


def too_much(folder: Path) -> ModelError:
    with pytest.raises(ModelError) as error_info:
        loading.require_fitting_folder("mine", folder)
    return error_info.value


def test_counts_claimed_parameters_by_formula() -> None:
    assert loading.claimed_parameters(BASE) == 32000 * 768 + 12 * (2 * 768**2 + 2 * 768 * 3072)
    distil = {"dim": 768, "n_layers": 12, "hidden_dim": 3072, "vocab_size": 32000}
    assert loading.claimed_parameters(distil) == loading.claimed_parameters(BASE)
    assert loading.claimed_parameters(BASE | {"num_hidden_groups": 1, "embedding_size": 128}) == 32000 * 128 + 5898240
    for config in ({}, {"hidden_size": "768", "vocab_size": None}, {"hidden_size": -3, "num_layers": True}):
        assert loading.claimed_parameters(config) == 0


@pytest.mark.slow
def test_real_models_claim_no_more_than_they_hold() -> None:
    import transformers

    bert = {"hidden_size": 96, "num_attention_heads": 4, "intermediate_size": 200}
    kinds: list[tuple[Any, Any, dict[str, int]]] = [
        (transformers.BertConfig, transformers.BertModel, bert),
        (transformers.AlbertConfig, transformers.AlbertModel, bert),
        (transformers.DistilBertConfig, transformers.DistilBertModel, {"dim": 96, "n_heads": 4, "hidden_dim": 200}),
        (transformers.ModernBertConfig, transformers.ModernBertModel, bert),
        (transformers.GPT2Config, transformers.GPT2Model, {"n_embd": 96, "n_head": 4}),
        (transformers.T5Config, transformers.T5EncoderModel, {"d_model": 96, "d_kv": 24, "num_heads": 4, "d_ff": 200}),
    ]
    for configuration, model, values in kinds:
        config = configuration(vocab_size=50_400, **values)
        assert 0 < loading.claimed_parameters(config.to_dict()) <= model(config).num_parameters(), model


def test_rejects_weights_and_download_larger_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path, {}, (1000, 500))
    memory(monkeypatch, 4 * 500_000)
    loading.require_fitting_folder("mine", folder)
    memory(monkeypatch, 4 * 500_000 - 1)
    error = too_much(folder)
    assert (error.code, error.details) == ("too_large", {"model": "mine", "needed": "0.0 GB", "available": "0.0 GB"})
    sharded = tmp_path / "sharded"
    sharded.mkdir()
    part = folder_of(sharded / "0_Transformer", {}, (100, 100))
    shutil.copy(part / "model.safetensors", part / "model-00002-of-00002.safetensors")
    (sharded / "modules.json").write_text(json.dumps([{"path": "0_Transformer"}]))
    memory(monkeypatch, 4 * 20_000 - 1)
    assert too_much(sharded).code == "too_large"
    memory(monkeypatch, 10**9)
    loading.require_memory("a/b", 10**9)
    with pytest.raises(ModelError, match=r"take 30\.0 GB and 1\.0 GB of memory are free"):
        loading.require_memory("a/b", 30 * 10**9)


def test_reports_layers_missing_from_files(tmp_path: Path) -> None:
    error = too_much(folder_of(tmp_path, BASE | {"num_hidden_layers": 100_000}, (3000, 768)))
    assert (error.code, error.details["held"]) == ("weights_missing", 3000 * 768)
    assert error.details["claimed"] == loading.claimed_parameters(BASE | {"num_hidden_layers": 100_000})
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "config.json").write_text(json.dumps(BASE | {"num_hidden_layers": 10**400}))
    assert too_much(tmp_path).code == "too_large"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 100_000, b"[]", b"\xff", b'{"hidden_size": {}}', b'[{"path": 3}]', b'[{"path": "\\u0000"}]'],
)
def test_leaves_unreadable_files_to_loader(content: bytes, tmp_path: Path) -> None:
    for name in ("config.json", "modules.json", "model.safetensors"):
        (tmp_path / name).write_bytes(content)
    loading.require_fitting_folder("mine", tmp_path)
