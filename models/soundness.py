"""What is known of a model before it is used: whether it fits into memory, and whether its files fit each other.

A library makes every layer that a configuration asks for, draws at random what the files do not hold, and passes over
what they hold too much; a table in its log says so, and nothing else. No figure is made of weights that nobody trained.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import psutil

from data.workspace import is_of_the_disk, read_json
from models.hub import HubRevision, ModelError

_BYTES = 4  # of a parameter, as models are loaded: in float32
_MOST = 10**9  # that a configuration may say of anything
_MUCH_MORE = 2  # times what the files hold: a count from a configuration is rough
NAMES = {
    "hidden": ("hidden_size", "d_model", "dim", "n_embd"),
    "layers": ("num_hidden_groups", "num_hidden_layers", "num_layers", "n_layers", "n_layer"),  # ALBERT's share weights
    "wide": ("intermediate_size", "d_ff", "hidden_dim", "ffn_dim"),
    "vocabulary": ("vocab_size",),
    "embedding": ("embedding_size", "hidden_size", "d_model", "dim", "n_embd"),
}


def require_fitting_folder(reference: str, folder: Path) -> None:
    """Raise `ModelError` where the model in a folder is larger than memory, or its weights are not those it describes.

    `too_large`, or `weights_missing`: it claims far more parameters than its files hold.
    """
    places = places_of(folder)
    held = sum(
        prod(shape) for place in places for path in place.glob("*.safetensors") for shape in _shapes(path).values()
    )
    configuration = _first_read(places, "config.json")
    claimed = claimed_parameters(configuration)
    if held and claimed > _MUCH_MORE * held and "quantization_config" not in configuration:
        message = f"{reference!r} describes {claimed:,} parameters or more, and its files hold {held:,} of them"
        raise ModelError("weights_missing", message, model=reference, claimed=claimed, held=held)
    _require_memory(reference, max(held, claimed) * _BYTES)


def require_fitting_download(hub_id: str, revision: HubRevision) -> None:
    """Raise `ModelError` (`too_large`) where the weights of a hub's model alone are larger than memory."""
    _require_memory(hub_id, revision.size)


def claimed_parameters(configuration: dict[str, Any]) -> int:
    """Return how many parameters a transformer's `config.json` asks for at least, 0 where it does not say.

    With h the width of its layers, w that of their feed-forward part: vocabulary * h, and 2 h^2 + 2 h w a layer.
    """
    counts = {name: _count(configuration, spelled) for name, spelled in NAMES.items()}
    hidden, wide = counts["hidden"], counts["wide"]
    return counts["vocabulary"] * counts["embedding"] + counts["layers"] * (2 * hidden**2 + 2 * hidden * wide)


def _require_memory(reference: str, needed: int) -> None:
    available = int(psutil.virtual_memory().available)
    if needed > available:
        told = {"needed": f"{needed / 1e9:,.1f} GB", "available": f"{available / 1e9:,.1f} GB"}
        message = f"the weights of {reference!r} take {told['needed']} and {told['available']} of memory are free"
        raise ModelError("too_large", message, model=reference, **told)


def _count(configuration: dict[str, Any], names: tuple[str, ...]) -> int:
    values = (configuration.get(name) for name in names)
    return next((min(value, _MOST) for value in values if type(value) is int and value > 0), 0)


def places_of(folder: Path) -> set[Path]:
    """Return where a model's transformer may lie: its folder, and that of sentence-transformers' first module."""
    try:
        path = json.loads((folder / "modules.json").read_text(encoding="utf-8"))[0]["path"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {folder}
    return {folder, folder / path} if isinstance(path, str) and "\0" not in path else {folder}


def _first_read(places: set[Path], name: str) -> dict[str, Any]:
    return next((read for place in places if (read := read_json(place / name))), {})


def weight_names(folder: Path) -> list[str]:
    """Return the names of all weights in a folder's own files; what cannot be read has none: who loads it says so."""
    return [name for path in folder.glob("*.safetensors") for name in _shapes(path)]


def _shapes(path: Path) -> dict[str, list[int]]:
    """Return the shapes of a safetensors file's weights by its header."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        return {}


_COUNTS = {*(name for names in NAMES.values() for name in names), "num_attention_heads", "max_position_embeddings"}
_LAYER = re.compile(r"(?:^|\.)(?:layers?|h|block)\.(\d+)\.")  # of a transformer, in the name of a weight
_LAYERS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer")
_NOT_OF_THE_FILES = ".lora_"  # weights of an adapter: its own files hold them
_REASON = 300  # letters of what a library says


def require_possible(reference: str, folder: Path) -> None:
    """Raise `ModelError` where no model can be what the configuration in a folder says (`impossible`).

    Or where its files hold layers that it does not describe (`weights_missing`): a part of a model is another one.
    """
    places = places_of(folder)
    configuration = _first_read(places, "config.json")
    for name in sorted(_COUNTS & configuration.keys()):
        value = configuration[name]
        if value is not None and (type(value) is not int or value < 1):
            raise _impossible(reference, name, value)
    padding, vocabulary = configuration.get("pad_token_id"), configuration.get("vocab_size")
    if padding is not None and (type(padding) is not int or not -1 <= padding < (vocabulary or padding + 1)):
        raise _impossible(reference, "pad_token_id", padding)
    if (most := _first_read(places, "tokenizer_config.json").get("model_max_length")) is not None and not _is_a_length(
        most
    ):
        raise _impossible(reference, "model_max_length", most)
    held = [int(found[1]) + 1 for place in places for name in weight_names(place) if (found := _LAYER.search(name))]
    described = next((configuration[name] for name in _LAYERS if configuration.get(name)), None)
    if described is not None and max(held, default=0) > described:
        raise _other_weights(reference, f"its files hold {max(held)} layers, and it describes {described}")


def require_trained(reference: str, network: Any, *, new_head: bool = False) -> None:
    """Raise `ModelError` where weights of a transformer are none of its files: the library has drawn them.

    `weights_missing` where these are layers, and `no_head` where they are what stands on top of them, unless a head is
    meant to be new, as it is where it will be trained. What pools for a head is a part of it.
    """
    prefix = "" if network.base_model is network else f"{network.base_model_prefix}."
    # the library's own mark of what it read
    weights = (name for name, one in network.named_parameters() if not getattr(one, "_is_hf_initialized", False))
    drawn = [name for name in weights if _NOT_OF_THE_FILES not in name]
    if layers := [name for name in drawn if name.startswith(prefix) and "pooler" not in name]:
        raise _other_weights(reference, f"its files do not hold {layers[0]}")
    if drawn and not new_head:
        message = (
            f"{reference!r} was not trained for this: its files hold no {drawn[0]}, and drawn at random it would say "
            "nothing; take a model that was, or train this one first"
        )
        raise ModelError("no_head", message, model=reference)


def require_readable(reference: str, tokenizer: Any, network: Any, longest: int | None = None) -> None:
    """Raise `ModelError` (`impossible`) where a tokenizer reads no token, or its own tokens have no vector.

    `longest` is how many tokens are read at once, where that is known besides.
    """
    for name, value in (("model_max_length", tokenizer.model_max_length), ("max_seq_length", longest)):
        if value is not None and not _is_a_length(value):
            raise _impossible(reference, name, value)
    padding = network.config.pad_token_id
    if "roberta" in network.config.model_type and padding != tokenizer.pad_token_id:  # its positions are counted by it
        raise _impossible(reference, "pad_token_id", padding)
    vectors = network.get_input_embeddings().num_embeddings
    if strange := [one for one in tokenizer.all_special_ids if not 0 <= one < vectors]:
        raise _impossible(reference, "token id", strange[0])


@contextmanager
def loading(reference: str) -> Iterator[None]:
    """Tell what a library cannot load as `ModelError`: `weights_missing` of other shapes than told, or `unloadable`.

    A full disk and a full memory are no fault of the model's: they are raised as they are.
    """
    from safetensors import SafetensorError

    try:
        yield
    except RuntimeError as error:
        if "ignore_mismatched_sizes" not in str(error):
            raise
        raise _other_weights(reference, "its files hold weights of other shapes") from error
    except (OSError, ValueError, TypeError, LookupError, AttributeError, AssertionError, SafetensorError) as error:
        if is_of_the_disk(error):
            raise
        reason = next(iter(str(error).splitlines()), "")[:_REASON] or type(error).__name__
        message = f"the model {reference!r} cannot be loaded: {reason}"
        raise ModelError("unloadable", message, model=reference, reason=reason) from error


def _is_a_length(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 1


def _impossible(reference: str, name: str, value: object) -> ModelError:
    told = str(value)[:80]
    message = f"{reference!r} cannot be a model: its files say that {name} is {told}"
    return ModelError("impossible", message, model=reference, name=name, value=told)


def _other_weights(reference: str, why: str) -> ModelError:
    message = f"{reference!r}: its configuration and its weights do not belong together: {why}"
    return ModelError("weights_missing", message, model=reference)
