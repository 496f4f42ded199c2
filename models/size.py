"""What a model's weights take, known before they are loaded: what its files hold, and what its configuration claims.

A library makes every layer that a configuration asks for, and draws at random what the files do not hold.
"""

import json
from math import prod
from pathlib import Path
from typing import Any

import psutil

from data.workspace import read_json
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
    configuration = next((read for place in places if (read := read_json(place / "config.json"))), {})
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
    """Return where a model's transformer may lie: its folder, and that of the first module."""
    return {folder, folder / _transformer(folder)}


def weight_names(folder: Path) -> list[str]:
    """Return the names of all weights in a folder's own files; what cannot be read has none: who loads it says so."""
    return [name for path in folder.glob("*.safetensors") for name in _shapes(path)]


def _transformer(folder: Path) -> str:
    """Return the subfolder of the first module, as sentence-transformers lays its models out."""
    try:
        path = json.loads((folder / "modules.json").read_text(encoding="utf-8"))[0]["path"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    return path if isinstance(path, str) and "\0" not in path else ""


def _shapes(path: Path) -> dict[str, list[int]]:
    """Return the shapes of a safetensors file's weights by its header."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        return {}
