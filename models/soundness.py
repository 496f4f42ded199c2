"""Whether a model's files fit each other: no figure is made of weights that nobody trained.

A library draws at random what the files do not hold and passes over what they hold too much; a table in its log says
so, and nothing else.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from data.workspace import is_of_the_disk, read_json
from models.hub import ModelError
from models.size import NAMES, places_of, weight_names

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
    configuration = next((read for place in places if (read := read_json(place / "config.json"))), {})
    for name in sorted(_COUNTS & configuration.keys()):
        value = configuration[name]
        if value is not None and (type(value) is not int or value < 1):
            raise _impossible(reference, name, value)
    padding, vocabulary = configuration.get("pad_token_id"), configuration.get("vocab_size")
    if padding is not None and (type(padding) is not int or not -1 <= padding < (vocabulary or padding + 1)):
        raise _impossible(reference, "pad_token_id", padding)
    read_at_once = next((read for place in places if (read := read_json(place / "tokenizer_config.json"))), {})
    if (most := read_at_once.get("model_max_length")) is not None and not _is_a_length(most):
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
