"""No figure is made of weights that are none of a model's files, nor of a part of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from language.inside.network import load_encoder
from models.hub import ModelError
from models.loading import load_bi_encoder, load_cross_encoder, load_sparse_encoder
from models.readers.masked_network import load_masked
from models.readers.reader import load_reader
from models.soundness import require_possible
from models.sources import find_model
from tests.hub import build_bi_encoder, build_cross_encoder_base, build_sparse_encoder, with_head

Load = Callable[[Path], Any]
LOADERS: dict[str, Load] = {
    "bi-encoder": lambda folder: load_bi_encoder(find_model(str(folder)), []),
    "cross-encoder": lambda folder: load_cross_encoder(find_model(str(folder)), []),
    "reader": lambda folder: load_reader(find_model(str(folder))),
    "sparse encoder": lambda folder: load_sparse_encoder(find_model(str(folder))),
    "language model": lambda folder: load_masked(find_model(str(folder))),
    "inside": lambda folder: load_encoder(find_model(str(folder))),
}
TO_TRAIN: dict[str, Load] = {
    "cross-encoder": lambda folder: load_cross_encoder(find_model(str(folder)), [], new_head=True),
    "reader": lambda folder: load_reader(find_model(str(folder)), new_head=True),
}


def built(kind: str, folder: Path) -> Path:
    match kind:
        case "bi-encoder":
            return build_bi_encoder(folder)
        case "cross-encoder":
            return with_head(build_cross_encoder_base(folder))
        case "reader":
            return with_head(build_cross_encoder_base(folder), "QuestionAnswering")
        case "sparse encoder":
            return build_sparse_encoder(folder)
    return build_cross_encoder_base(folder)


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    return {kind: built(kind, tmp_path / kind) for kind in LOADERS}


def change(folder: Path, name: str, **values: object) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def refusal(load: Load, folder: Path) -> ModelError:
    with pytest.raises(ModelError) as told:
        load(folder)
    assert told.value.details["model"] == str(folder)
    return told.value


@pytest.mark.slow
def test_whole_models_are_loaded(folders: dict[str, Path]) -> None:
    for kind, load in LOADERS.items():
        load(folders[kind])


@pytest.mark.slow
def test_layers_that_the_files_do_not_hold_are_never_drawn(folders: dict[str, Path]) -> None:
    for kind, load in LOADERS.items():
        change(folders[kind], "config.json", num_hidden_layers=4)
        told = refusal(load, folders[kind])
        assert told.code == "weights_missing", kind
        assert "layer.2." in str(told) or "layer.3." in str(told), kind
    for kind, load in TO_TRAIN.items():
        assert refusal(load, folders[kind]).code == "weights_missing", kind


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cross-encoder", "reader", "sparse encoder"])
def test_a_head_is_drawn_only_where_it_will_be_trained(kind: str, tmp_path: Path) -> None:
    folder = built(kind, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    of_the_head = [name for name in weights if not name.startswith("roberta.")]
    assert of_the_head
    rest = {name: weight for name, weight in weights.items() if name not in of_the_head}
    save_file(rest, folder / "model.safetensors", {"format": "pt"})
    assert refusal(LOADERS[kind], folder).code == "no_head"
    if kind in TO_TRAIN:
        TO_TRAIN[kind](folder)


@pytest.mark.slow
def test_a_base_is_neither_reader_nor_reranker(tmp_path: Path) -> None:
    for folder in (build_cross_encoder_base(tmp_path / "masked"), build_bi_encoder(tmp_path / "bi")):
        for kind, load in TO_TRAIN.items():
            assert refusal(LOADERS[kind], folder).code == "no_head", kind
            load(folder)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [-1, 0, 1])
def test_a_part_of_the_layers_is_another_model(layers: int, folders: dict[str, Path]) -> None:
    for kind, load in LOADERS.items():
        change(folders[kind], "config.json", num_hidden_layers=layers)
        assert refusal(load, folders[kind]).code == ("impossible" if layers < 1 else "weights_missing"), kind


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "values", "code"),
    [
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
def test_what_cannot_be_is_told_in_words(
    file: str, values: dict[str, object], code: str, folders: dict[str, Path]
) -> None:
    for kind, load in LOADERS.items():
        change(folders[kind], file, **values)
        told = refusal(load, folders[kind])
        assert told.code == code, (kind, str(told))


@pytest.mark.slow
def test_a_token_of_its_own_without_a_vector_is_told(folders: dict[str, Path]) -> None:
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
def test_a_padding_by_which_positions_are_counted_is_that_of_the_tokenizer(folders: dict[str, Path]) -> None:
    for kind, load in LOADERS.items():
        change(folders[kind], "config.json", pad_token_id=3)
        if kind == "bi-encoder":
            load(folders[kind])  # a BERT, which counts positions from 0
        else:
            assert refusal(load, folders[kind]).code == "impossible", kind


def test_configurations_that_are_possible(tmp_path: Path) -> None:
    for values in ({}, {"pad_token_id": -1, "vocab_size": 5}, {"num_hidden_layers": None}, {"pad_token_id": 3}):
        (tmp_path / "config.json").write_text(json.dumps(values))
        require_possible("mine", tmp_path)
