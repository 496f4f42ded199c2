"""A model that cannot be held, or whose weights are not those it describes, is refused before it is loaded."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from models import soundness
from models.hub import HubRevision, ModelError
from models.soundness import claimed_parameters, require_fitting_download, require_fitting_folder
from tests.hub import build_bi_encoder, build_cross_encoder_base

BASE = {"hidden_size": 768, "num_hidden_layers": 12, "intermediate_size": 3072, "vocab_size": 32000}


def memory(monkeypatch: pytest.MonkeyPatch, available: int) -> None:
    monkeypatch.setattr(soundness.psutil, "virtual_memory", lambda: SimpleNamespace(available=available))


def folder_of(place: Path, config: Any, shape: tuple[int, ...] = (10, 10)) -> Path:
    place.mkdir(exist_ok=True)
    (place / "config.json").write_text(json.dumps(config))
    save_file({"weight": np.zeros(shape, dtype=np.float16)}, place / "model.safetensors")
    return place


def refusal(folder: Path) -> ModelError:
    with pytest.raises(ModelError) as told:
        require_fitting_folder("mine", folder)
    return told.value


def test_what_a_configuration_claims_is_counted_by_the_formula() -> None:
    assert claimed_parameters(BASE) == 32000 * 768 + 12 * (2 * 768**2 + 2 * 768 * 3072)
    distil = {"dim": 768, "n_layers": 12, "hidden_dim": 3072, "vocab_size": 32000}
    assert claimed_parameters(distil) == claimed_parameters(BASE)
    assert claimed_parameters(BASE | {"num_hidden_groups": 1, "embedding_size": 128}) == 32000 * 128 + 5898240
    for config in ({}, {"hidden_size": "768", "vocab_size": None}, {"hidden_size": -3, "num_layers": True}):
        assert claimed_parameters(config) == 0


@pytest.mark.slow
def test_no_real_model_claims_more_than_it_has() -> None:
    from transformers import (
        AlbertConfig,
        AlbertModel,
        BertConfig,
        BertModel,
        DistilBertConfig,
        DistilBertModel,
        GPT2Config,
        GPT2Model,
        ModernBertConfig,
        ModernBertModel,
        T5Config,
        T5EncoderModel,
    )

    kinds = [
        (BertConfig, BertModel, {"hidden_size": 96, "num_attention_heads": 4, "intermediate_size": 200}),
        (AlbertConfig, AlbertModel, {"hidden_size": 96, "num_attention_heads": 4, "intermediate_size": 200}),
        (DistilBertConfig, DistilBertModel, {"dim": 96, "n_heads": 4, "hidden_dim": 200}),
        (ModernBertConfig, ModernBertModel, {"hidden_size": 96, "num_attention_heads": 4, "intermediate_size": 200}),
        (GPT2Config, GPT2Model, {"n_embd": 96, "n_head": 4}),
        (T5Config, T5EncoderModel, {"d_model": 96, "d_kv": 24, "num_heads": 4, "d_ff": 200}),
    ]
    for configuration, model, values in kinds:
        config = configuration(vocab_size=50_400, **values)
        assert 0 < claimed_parameters(config.to_dict()) <= model(config).num_parameters(), model


@pytest.mark.slow
def test_usable_models_are_not_refused(tmp_path: Path) -> None:
    require_fitting_folder("tiny", build_bi_encoder(tmp_path / "bi"))
    require_fitting_folder("tiny", build_cross_encoder_base(tmp_path / "cross", segment_types=1))


def test_weights_larger_than_the_free_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path, {}, (1000, 500))
    memory(monkeypatch, 4 * 500_000)
    require_fitting_folder("mine", folder)
    memory(monkeypatch, 4 * 500_000 - 1)
    told = refusal(folder)
    assert (told.code, told.details) == ("too_large", {"model": "mine", "needed": "0.0 GB", "available": "0.0 GB"})


def test_a_sharded_model_in_its_subfolder_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = folder_of(tmp_path / "0_Transformer", {}, (100, 100))
    shutil.copy(part / "model.safetensors", part / "model-00002-of-00002.safetensors")
    (tmp_path / "modules.json").write_text(json.dumps([{"path": "0_Transformer"}]))
    memory(monkeypatch, 4 * 20_000 - 1)
    assert refusal(tmp_path).code == "too_large"


def test_layers_that_the_files_do_not_hold_are_told(tmp_path: Path) -> None:
    told = refusal(folder_of(tmp_path, BASE | {"num_hidden_layers": 100_000}, (3000, 768)))
    assert (told.code, told.details["held"]) == ("weights_missing", 3000 * 768)
    assert told.details["claimed"] == claimed_parameters(BASE | {"num_hidden_layers": 100_000})


def test_a_model_without_weights_that_claims_too_much_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(BASE | {"num_hidden_layers": 10**400}))
    assert refusal(tmp_path).code == "too_large"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 100_000, b"[]", b"\xff", b'{"hidden_size": {}}', b'[{"path": 3}]', b'[{"path": "\\u0000"}]'],
)
def test_files_that_cannot_be_read_are_left_to_who_loads_them(content: bytes, tmp_path: Path) -> None:
    for name in ("config.json", "modules.json", "model.safetensors"):
        (tmp_path / name).write_bytes(content)
    require_fitting_folder("mine", tmp_path)


def test_a_download_larger_than_the_free_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    memory(monkeypatch, 10**9)
    require_fitting_download("a/b", HubRevision("c", online=True, downloaded=False, size=10**9))
    with pytest.raises(ModelError, match=r"take 30\.0 GB and 1\.0 GB of memory are free"):
        require_fitting_download("a/b", HubRevision("c", online=True, downloaded=False, size=30 * 10**9))
