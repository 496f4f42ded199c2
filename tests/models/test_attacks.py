"""Damaged and hostile model folders: no pickle is opened, nothing waits, and every refusal is a sentence."""

import json
import os
import random
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from mrc_workbench.data.cache import SEAL, seal
from mrc_workbench.models.files import ModelError, require_regular_files, require_sealed_content
from mrc_workbench.models.loading import load_bi_encoder, load_token_encoder
from mrc_workbench.models.sources import find_model
from tests.doubles import raises_failure
from tests.tiny_models import build_bi_encoder

pytestmark = pytest.mark.slow
MODULES = "sentence_transformers.sentence_transformer.modules"
LIBRARY_MODULES = ("Dense", "WeightedLayerPooling", "LSTM", "CNN", "LayerNorm", "WordEmbeddings", "StaticEmbedding")
DEEP = "[" * 100_000 + "]" * 100_000
CONFIGURATIONS = (
    *("config.json", "sentence_bert_config.json", "tokenizer_config.json", "tokenizer.json"),
    *("config_sentence_transformers.json", "1_Pooling/config.json", "modules.json"),
)
ODD: tuple[object, ...] = (
    *("x", "", None, True, -1, 0, 1.5, 10**12, float("nan"), [], [[]], {}, {"a": "b"}, "a" * 10_000),
    *(["query", 3], {"x": {}}, "os.system", "sentence_transformers.nowhere.Nothing"),
)
WRONG_TYPES = {"add_cross_attention": "x", "hidden_act": 3, "layer_norm_eps": "x", "auto_map": {"AutoModel": "a.B"}}
UNKNOWN_MODULES = ("", 3, None, "os.system", "no.such.Module", f"{MODULES}.Nothing", "sentence_transformers")


class Canary:
    """A pickle of it makes a file when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.path),)


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A late-interaction model with weights behind its transformer, as the library saves it."""
    model_folder = tmp_path_factory.mktemp("late")
    model = load_token_encoder(find_model(str(build_bi_encoder(model_folder / "base"))))
    model.save_pretrained(str(model_folder / "late"), create_model_card=False)
    return model_folder / "late"


def copied(folder: Path, target: Path) -> Path:
    shutil.copytree(folder, target / "copy")
    return target / "copy"


@pytest.fixture
def model(folder: Path, tmp_path: Path) -> Path:
    return copied(folder, tmp_path)


def load_model(folder: Path, load: Callable[..., Any] = load_bi_encoder) -> None:
    load(find_model(str(folder)), *(() if load is load_token_encoder else ([],)))


def refusal(folder: Path, load: Callable[..., Any] = load_bi_encoder) -> ModelError:
    with pytest.raises(ModelError) as error:
        load_model(folder, load)
    assert str(folder) in str(error.value)
    return error.value


def write_pickle(path: Path, canary: Path) -> None:
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(Canary(canary), path)


def add_module(folder: Path, type_: str, path: str) -> None:
    listed = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    listed.append({"idx": len(listed), "name": str(len(listed)), "path": path, "type": type_})
    (folder / "modules.json").write_text(json.dumps(listed), encoding="utf-8")


@pytest.mark.parametrize("type_", [*(f"{MODULES}.{name}" for name in LIBRARY_MODULES), "own_code.Module"])
@pytest.mark.parametrize("path", ["2_Module", "modules/inner", "2_Module/"])
def test_refuses_a_module_in_a_pickle_before_it_is_opened(type_: str, path: str, model: Path, tmp_path: Path) -> None:
    add_module(model, type_, path)
    write_pickle(model / path / "pytorch_model.bin", tmp_path / "canary")
    (model / path / "config.json").write_text("{}", encoding="utf-8")
    assert refusal(model).code == "pickled"
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json"])
def test_refuses_a_transformer_in_a_pickle(name: str, model: Path, tmp_path: Path) -> None:
    (model / "model.safetensors").unlink()
    write_pickle(model / name, tmp_path / "canary")
    assert refusal(model).code == "pickled"
    assert not (tmp_path / "canary").exists()


def test_refuses_a_pickle_within_a_router(model: Path, tmp_path: Path) -> None:
    add_module(model, "sentence_transformers.base.modules.Router", "3_Router")
    (model / "3_Router").mkdir()
    router = {"types": {"query_0_Dense": f"{MODULES}.Dense"}, "structure": {"query": ["query_0_Dense"]}}
    (model / "3_Router" / "router_config.json").write_text(json.dumps(router), encoding="utf-8")
    write_pickle(model / "3_Router" / "query_0_Dense" / "pytorch_model.bin", tmp_path / "canary")
    assert refusal(model).details["name"] == "3_Router/query_0_Dense/pytorch_model.bin"


def test_refuses_pickled_layer_weights_of_late_interaction_model(late: Path, tmp_path: Path) -> None:
    import torch

    model = copied(late, tmp_path)
    load_token_encoder(find_model(str(model)))
    (weights,) = model.glob("*_WeightedLayerPooling/model.safetensors")
    tensors = {name: torch.tensor(weight) for name, weight in load_file(weights).items()}
    torch.save(tensors, weights.parent / "pytorch_model.bin")
    load_token_encoder(find_model(str(model)))  # the library prefers safetensors
    weights.unlink()
    assert refusal(model, load_token_encoder).code == "pickled"


def _pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path, _: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


IRREGULAR: dict[str, Callable[[Path, Path], None]] = {
    "pipe": _pipe,
    "socket": _socket,
    "link to a device": lambda path, _: path.symlink_to("/dev/zero"),
    "link out of the folder": lambda path, other: path.symlink_to(other),
    "link to nothing": lambda path, _: path.symlink_to("nothing"),
    "link to itself": lambda path, _: path.symlink_to(path.name),
}
FILES = (
    *("model.safetensors", "config.json", "modules.json", "tokenizer.json", "tokenizer_config.json"),
    *("sentence_bert_config.json", "1_Pooling/config.json", "1_Pooling/model.safetensors", "new.safetensors"),
)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", IRREGULAR)
def test_refuses_irregular_files(kind: str, name: str, model: Path, tmp_path: Path) -> None:
    path = model / name
    other = tmp_path / "other"
    if path.exists():
        path.rename(other)
    else:
        other.write_text("{}", encoding="utf-8")
    IRREGULAR[kind](path, other)
    for load in (load_bi_encoder, load_token_encoder):
        error = refusal(model, load)
        assert (error.code, error.details["name"]) == ("irregular_file", name)


@pytest.mark.parametrize("path", ["../other", "1_Pooling/../../other", "/etc", ".."])
def test_refuses_module_outside_folder(path: str, model: Path, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "1_Pooling", tmp_path / "other")
    add_module(model, f"{MODULES}.Pooling", path)
    assert refusal(model).code == "irregular_file"


def test_accepts_links_within_folder_and_hub_snapshots(model: Path, folder: Path, tmp_path: Path) -> None:
    (model / "model.safetensors").rename(model / "weights.safetensors")
    (model / "model.safetensors").symlink_to("weights.safetensors")
    load_bi_encoder(find_model(str(model)), [])
    snapshot = tmp_path / "models--a--b" / "snapshots" / "0123"
    blobs = tmp_path / "models--a--b" / "blobs"
    shutil.copytree(folder, snapshot)
    blobs.mkdir()
    (snapshot / "model.safetensors").rename(blobs / "abc")
    (snapshot / "model.safetensors").symlink_to("../../blobs/abc")
    load_bi_encoder(find_model(str(snapshot)), [])
    (blobs / "abc").rename(tmp_path / "abc")
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to("../../../abc")
    with pytest.raises(ModelError, match="leads out"):
        require_regular_files("snapshot", snapshot)


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("text", [DEEP, f'{{"a": {DEEP}}}', "", "{", "[]", "3", "null", '"x"', "\0", "\udc80"])
def test_loads_or_refuses_invalid_configuration(name: str, text: str, model: Path) -> None:
    (model / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    for load in (load_bi_encoder, load_token_encoder):
        loads_or_is_refused(model, load)


def loads_or_is_refused(folder: Path, load: Callable[..., Any]) -> bool:
    """Whether a model is loaded. Anything but a `ModelError` in words fails the test."""
    try:
        load_model(folder, load)
    except ModelError as error:
        caught = error
    else:
        return True
    assert str(caught)
    assert caught.code in ("unloadable", "impossible", "weights_missing", "no_head", "model_not_found", "not_late")
    return False


@pytest.mark.parametrize("seed", range(60))
def test_loads_or_refuses_odd_values(seed: int, folder: Path, late: Path, tmp_path: Path) -> None:
    draw = random.Random(seed)
    is_late = draw.random() < 0.5
    model = copied(late if is_late else folder, tmp_path)
    names = sorted(path for path in model.rglob("*.json") if path.name not in ("tokenizer.json", SEAL))
    for path in draw.sample(names, 2):
        content = json.loads(path.read_text(encoding="utf-8"))
        for target in content if isinstance(content, list) else [content]:
            for name in draw.sample(sorted(target), min(2, len(target))):
                target[name] = draw.choice(ODD)
        path.write_text(json.dumps(content), encoding="utf-8")
    loads_or_is_refused(model, load_token_encoder if is_late else load_bi_encoder)


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_refuses_configuration_of_wrong_types(name: str, model: Path) -> None:
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    (model / "config.json").write_text(json.dumps(config | {name: WRONG_TYPES[name]}), encoding="utf-8")
    loads_or_is_refused(model, load_bi_encoder)


@pytest.mark.parametrize("type_", UNKNOWN_MODULES)
def test_refuses_unknown_module_type(type_: Any, model: Path) -> None:
    add_module(model, type_, "1_Pooling")
    assert not loads_or_is_refused(model, load_bi_encoder)


Damage = Callable[[Path, Any], object]
DAMAGES: dict[str, Damage] = {
    "missing": lambda path, values: save_file({"other": values}, path),
    "shape": lambda path, values: save_file({"layer_weights": values.repeat(3)}, path),
    "empty": lambda path, _: save_file({}, path),
    "truncated": lambda path, _: path.write_bytes(path.read_bytes()[:-4]),
    "length": lambda path, _: path.write_bytes(struct.pack("<Q", 1 << 62) + path.read_bytes()[8:]),
}


@pytest.mark.parametrize("change", DAMAGES.values(), ids=DAMAGES)
def test_refuses_mismatched_layer_weights(change: Damage, late: Path, tmp_path: Path) -> None:
    model = copied(late, tmp_path)
    (weights,) = model.glob("*_WeightedLayerPooling/model.safetensors")
    (values,) = load_file(weights).values()
    change(weights, values)
    assert not loads_or_is_refused(model, load_token_encoder)


def test_refuses_flipped_bit_in_sealed_model(late: Path, tmp_path: Path) -> None:
    model = copied(late, tmp_path)
    seal(model)
    (model / "README.md").write_text("the card", encoding="utf-8")
    require_sealed_content("mine", model)
    load_token_encoder(find_model(str(model)))
    draw = random.Random(0)
    files = [path for path in sorted(model.rglob("*")) if path.is_file() and path.name != "README.md"]
    tried = 0
    for path in files:
        whole = path.read_bytes()
        for _ in range(16):
            offset = draw.randrange(len(whole))
            content = bytearray(whole)
            content[offset] ^= 1 << draw.randrange(8)
            if path.name == SEAL and _same_json(bytes(content), whole):
                continue
            path.write_bytes(content)
            with raises_failure("model_changed", ModelError):
                require_sealed_content("mine", model)
            tried += 1
        path.write_bytes(whole)
    assert tried > 150
    require_sealed_content("mine", model)


def _same_json(first: bytes, other: bytes) -> bool:
    try:
        return bool(json.loads(first) == json.loads(other))
    except ValueError:
        return False


def test_refuses_changed_sealed_model_and_loads_unsealed_model(model: Path) -> None:
    seal(model)
    weights = bytearray((model / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (model / "model.safetensors").write_bytes(weights)
    error = refusal(model)
    assert error.code == "model_changed"
    assert SEAL in str(error)
    (model / SEAL).unlink()
    load_bi_encoder(find_model(str(model)), [])


@pytest.mark.parametrize("name", ["adapter_config.json", "1_Pooling/model.safetensors", "2_Dense/config.json"])
def test_refuses_file_added_to_sealed_model(name: str, model: Path) -> None:
    seal(model)
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).write_text("{}", encoding="utf-8")
    assert refusal(model).code == "model_changed"
