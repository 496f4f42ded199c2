"""Loads models safely, from safetensors, and only for computations.

Before loading, the size is compared with the memory, and files are checked. After loading, weights are checked: the
libraries initialize missing weights at random and ignore surplus ones, with only a log message. No metric is computed
with untrained weights.
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from mrc_workbench.data.cache import is_intact, sealing
from mrc_workbench.data.jobs.processes import without_garbage_collection
from mrc_workbench.data.workspace import read_json
from mrc_workbench.models import files, sources
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import TokenLayers, layer_modules, transformers_in
from mrc_workbench.models.sources import ModelSource

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder

WEIGHTS: dict[str, Any] = {"use_safetensors": True, "dtype": "float32"}
_BYTES = 4  # of a float32 parameter
_MAX_COUNT = 10**9  # of any size in a configuration
_MAX_PARAMETER_RATIO = 2  # of the estimate from a configuration to the count in files
_NAMES = {
    "hidden": ("hidden_size", "d_model", "dim", "n_embd"),
    "layers": ("num_hidden_groups", "num_hidden_layers", "num_layers", "n_layers", "n_layer"),  # ALBERT's share weights
    "wide": ("intermediate_size", "d_ff", "hidden_dim", "ffn_dim"),
    "vocabulary": ("vocab_size",),
    "embedding": ("embedding_size", "hidden_size", "d_model", "dim", "n_embd"),
}
_COUNTS = {*(name for names in _NAMES.values() for name in names), "num_attention_heads", "max_position_embeddings"}
_LAYER = re.compile(r"(?:^|\.)(?:layers?|h|block)\.(\d+)\.")  # in names of weights
_LAYERS = _NAMES["layers"][1:]


@without_garbage_collection()
def load_bi_encoder(source: ModelSource, corpus: Sequence[str]) -> "SentenceTransformer":
    """Load a float32 bi-encoder from safetensors, or a starter, built once from `corpus`. Raises `ModelError`."""
    from sentence_transformers import SentenceTransformer

    from mrc_workbench.models.starter import AnalyzedEmbedding, build_bi_encoder

    if module := _starter(source, "bi-encoder", corpus, AnalyzedEmbedding, build_bi_encoder):
        return SentenceTransformer(modules=[module], similarity_fn_name="cosine")
    # the transformer's own pooler is not used
    return _loaded(SentenceTransformer, source, where_of(source), new_head=True)


@without_garbage_collection()
def load_cross_encoder(
    source: ModelSource, corpus: Sequence[str], labels: int = 1, *, new_head: bool = False, resized: bool = False
) -> "CrossEncoder":
    """Load a float32 cross-encoder with `labels` outputs from safetensors. A starter is built once from `corpus`.

    `new_head` initializes a missing head, deterministically, for training. Raises `ModelError` `labels` if the number
    of outputs differs, unless `resized`.
    """
    import torch
    from sentence_transformers import CrossEncoder

    from mrc_workbench.models.starter import KernelPooling, build_cross_encoder

    if module := _starter(source, "cross-encoder", corpus, KernelPooling, build_cross_encoder):
        return CrossEncoder(modules=[module])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a new head is deterministic
        options = {"num_labels": labels, "model_kwargs": WEIGHTS | {"ignore_mismatched_sizes": resized}}
        try:
            model = _loaded(CrossEncoder, source, where_of(source), new_head=new_head, **options)
        except ModelError as error:
            if not isinstance(error.__cause__, RuntimeError):
                raise
            load_cross_encoder(source, corpus, labels, new_head=True, resized=True)  # reports errors in other layers
            message = f"{source.reference!r} has another head: it does not return {labels} scores per pair"
            raise ModelError("labels", message, model=source.reference) from error
    use_single_segment(model.tokenizer, model.config)
    return model


@without_garbage_collection()
def load_sparse_encoder(source: ModelSource) -> "SparseEncoder":
    """Load a sparse encoder, or a masked language model as untrained SPLADE. Raises `ModelError` (`not_sparse`)."""
    from sentence_transformers import SparseEncoder

    sources.require_sparse(source)
    where = where_of(source)
    if source.hub_id:
        sources.require_sparse(source, files_of(source, where))
    return _loaded(SparseEncoder, source, where)


@without_garbage_collection()
def load_token_encoder(source: ModelSource, *layers: TokenLayers) -> "MultiVectorEncoder":
    """Load a float32 late-interaction model from safetensors; for other transformers, `layers` represent tokens.

    They are balanced by default; vectors of several are concatenated. The model's `token_layers` are empty if it was
    trained for late interaction. A bi-encoder keeps its prompts without its pooling. Raises `ModelError` (`not_late`).
    """
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    sources.require_tokens(source)
    where = where_of(source)
    if sources.is_late_interaction(files_of(source, where)):
        late_model = _loaded(MultiVectorEncoder, source, where)
        late_model.token_layers = ()
        return late_model
    bi_encoder = load_bi_encoder(source, ())
    if not isinstance(bi_encoder[0], Transformer):
        message = f"{source.reference!r} has no vectors of tokens: late interaction needs a transformer"
        raise ModelError("not_late", message, model=source.reference)
    question, passage = prompts_of(bi_encoder)
    layers = layers or (TokenLayers.BALANCED,)
    of_layers = layer_modules(bi_encoder[0], [layer.of_passages for layer in layers])
    normalize = Normalize(module_input_name="token_embeddings")
    modules: list[Any] = [bi_encoder[0], *of_layers, MultiVectorMask(), normalize]
    prompts = {"query": question, "document": passage}
    model = MultiVectorEncoder(modules=modules, prompts=prompts, similarity_fn_name="meanmaxsim")
    model.token_layers = layers
    return model


def prompts_of(model: "SentenceTransformer") -> tuple[str, str]:
    """Return the prompts of questions and passages, as in `encode_query` and `encode_document`."""
    return select_prompts(model.prompts, model.default_prompt_name)


def select_prompts(prompts: Mapping[str, Any], default_name: str | None) -> tuple[str, str]:
    """Return the prompts of questions and passages among a model's prompts by name."""

    def prompt(*names: str) -> str:
        name = next((name for name in names if name in prompts), default_name)
        return str(prompts.get(name or "") or "")

    return prompt("query"), prompt("document", "passage", "corpus")


def most_tokens(tokenizer: Any, config: Any) -> int:
    """Return the maximum length in tokens; RoBERTa's positions start after the id of its padding token."""
    offset = (config.pad_token_id or 0) + 1 if "roberta" in config.model_type else 0
    positions = int(getattr(config, "max_position_embeddings", 1 << 30)) - offset
    return min(positions, int(tokenizer.model_max_length))


def use_single_segment(tokenizer: Any, config: Any) -> None:
    """Drop segments of tokenizers if the model has only one, such as klue/roberta-base with BERT's tokenizer."""
    if tokenizer is not None and getattr(config, "type_vocab_size", 2) < 2:
        names = ["input_ids", "attention_mask"]
        tokenizer.model_input_names = names
        tokenizer.init_kwargs["model_input_names"] = names  # saved for other programs


def where_of(source: ModelSource) -> dict[str, Any]:
    """Return the library's arguments that locate a model; write a packaged base first. Raises `ModelError`."""
    if source.packaged:
        source.packaged.write()
    if source.folder:
        files.require_sealed_content(source.reference, source.folder)
        find = partial(sources.file_in_folder, source.folder)
        files.require_safetensors(source.reference, find, is_folder=True)
        files.require_possible_modules(source.reference, find)
        require_fitting_folder(source.reference, source.folder)
        require_possible(source.reference, source.folder)
        return {"model_name_or_path": str(source.folder)}
    revision = files.hub_revision(str(source.hub_id))
    require_memory(str(source.hub_id), revision.size)
    where = {
        "model_name_or_path": source.hub_id,
        "revision": revision.commit,
        # the library retries for minutes if the hub does not answer, even for local files
        "local_files_only": not revision.online,
        "token": files.hub_token(),
    }
    files.require_safetensors(source.reference, partial(files.hub_file, where), is_folder=False)
    return where


def files_of(source: ModelSource, where: dict[str, Any]) -> Callable[[str], Path | None]:
    """Return a function that returns a model's file by name, None if missing; `where` is as of `where_of`."""
    return partial(sources.file_in_folder, source.folder) if source.folder else partial(files.hub_file, where)


def _loaded(kind: Any, source: ModelSource, where: dict[str, Any], *, new_head: bool = False, **options: Any) -> Any:
    with files.loading(source.reference):
        model = kind(**where, **{"model_kwargs": WEIGHTS, **options})
        for module, network in transformers_in(model):
            require_trained(source.reference, network, new_head=new_head)
            require_readable(source.reference, module.tokenizer, network, model.max_seq_length)
    return model


def _starter(source: ModelSource, kind: str, corpus: Sequence[str], module: Any, build: Callable[..., Any]) -> Any:
    folder = source.folder
    if folder is None and source.hub_id is None:
        folder = sources.starter_folder(source, kind, corpus)
        if not is_intact(folder):
            with sealing(folder) as new:
                build(corpus).save_pretrained(str(new), create_model_card=False)
    # load the class here, as sentence-transformers imports foreign classes only with trust_remote_code
    name, subfolder = (sources.starter_module(folder) if folder else None) or ("", "")
    if folder is None or name != module.__qualname__:
        return None
    files.require_sealed_content(source.reference, folder)
    files.require_safetensors(source.reference, partial(sources.file_in_folder, folder), is_folder=True)
    with files.loading(source.reference):
        return module.load(str(folder), subfolder=subfolder)


def require_fitting_folder(reference: str, folder: Path) -> None:
    """Raise `ModelError` if a model exceeds the memory (`too_large`) or its own weights (`weights_missing`)."""
    folders = _module_folders(folder)
    held = sum(prod(shape) for _, shape in _weights(folders))
    configuration = _first_readable(folders, "config.json")
    claimed = claimed_parameters(configuration)
    if held and claimed > _MAX_PARAMETER_RATIO * held and "quantization_config" not in configuration:
        message = f"{reference!r} describes at least {claimed:,} parameters, and its files hold {held:,}"
        raise ModelError("weights_missing", message, model=reference, claimed=claimed, held=held)
    require_memory(reference, max(held, claimed) * _BYTES)


def claimed_parameters(configuration: dict[str, Any]) -> int:
    """Return the least parameters of a `config.json`, 0 if unknown: vocabulary * h, and 2 h^2 + 2 h w per layer."""

    def count(names: tuple[str, ...]) -> int:
        values = (configuration.get(name) for name in names)
        return next((min(value, _MAX_COUNT) for value in values if type(value) is int and value > 0), 0)

    counts = {name: count(aliases) for name, aliases in _NAMES.items()}
    hidden = counts["hidden"]
    layer = 2 * hidden**2 + 2 * hidden * counts["wide"]
    return counts["vocabulary"] * counts["embedding"] + counts["layers"] * layer


def require_memory(reference: str, needed: int) -> None:
    """Raise `ModelError` (`too_large`) if `needed` bytes of weights do not fit into memory."""
    available = int(psutil.virtual_memory().available)
    if needed > available:
        sizes = {"needed": f"{needed / 1e9:,.1f} GB", "available": f"{available / 1e9:,.1f} GB"}
        message = f"the weights of {reference!r} take {sizes['needed']} and {sizes['available']} of memory are free"
        raise ModelError("too_large", message, model=reference, **sizes)


def _module_folders(folder: Path) -> set[Path]:
    try:
        path = json.loads((folder / "modules.json").read_text(encoding="utf-8"))[0]["path"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {folder}
    is_folder = isinstance(path, str) and os.path.isdir(folder / path)  # noqa: PTH112 - a name may be too long
    return {folder, folder / path} if is_folder else {folder}


def _first_readable(folders: set[Path], name: str) -> dict[str, Any]:
    return next((read for folder in folders if (read := read_json(folder / name))), {})


def _weights(folders: set[Path]) -> list[tuple[str, list[int]]]:
    from safetensors import SafetensorError, safe_open

    shapes: list[tuple[str, list[int]]] = []
    for path in (path for folder in folders for path in folder.glob("*.safetensors")):
        with suppress(OSError, SafetensorError), safe_open(path, "numpy") as file:
            shapes += [(name, file.get_slice(name).get_shape()) for name in file.keys()]  # noqa: SIM118
    return shapes


def require_possible(reference: str, folder: Path) -> None:
    """Raise `ModelError` if a configuration is `impossible`, or the files hold more layers (`weights_missing`)."""
    folders = _module_folders(folder)
    configuration = _first_readable(folders, "config.json")
    for name in sorted(_COUNTS & configuration.keys()):
        value = configuration[name]
        if value is not None and (type(value) is not int or value < 1):
            raise _impossible(reference, name, value)
    padding = configuration.get("pad_token_id")
    vocabulary = configuration.get("vocab_size")
    if padding is not None and (type(padding) is not int or not -1 <= padding < (vocabulary or padding + 1)):
        raise _impossible(reference, "pad_token_id", padding)
    max_length = _first_readable(folders, "tokenizer_config.json").get("model_max_length")
    if max_length is not None and not _is_a_length(max_length):
        raise _impossible(reference, "model_max_length", max_length)
    layer_counts = [int(match[1]) + 1 for name, _ in _weights(folders) if (match := _LAYER.search(name))]
    described_layers = next((configuration[name] for name in _LAYERS if configuration.get(name)), None)
    if described_layers is not None and max(layer_counts, default=0) > described_layers:
        raise files.other_weights(reference, f"its files hold {max(layer_counts)} layers, not {described_layers}")


def require_trained(reference: str, network: Any, *, new_head: bool = False) -> None:
    """Raise `ModelError` if weights were initialized at random: of layers (`weights_missing`) or a head (`no_head`)."""
    prefix = "" if network.base_model is network else f"{network.base_model_prefix}."
    # the library marks loaded weights; those of adapters are in other files
    parameters = [(name, value) for name, value in network.named_parameters() if ".lora_" not in name]
    untrained = [name for name, value in parameters if not getattr(value, "_is_hf_initialized", False)]
    if layers := [name for name in untrained if name.startswith(prefix) and "pooler" not in name]:
        raise files.other_weights(reference, f"its files do not hold {layers[0]}")
    if untrained and not new_head:
        problem = f"{reference!r} was not trained for this: its files hold no {untrained[0]}"
        message = f"{problem}, and random weights mean nothing; use a trained model, or train this one first"
        raise ModelError("no_head", message, model=reference)


def require_readable(reference: str, tokenizer: Any, network: Any, longest: int | None = None) -> None:
    """Raise `ModelError` (`impossible`) if a tokenizer reads no tokens, or special tokens have no vectors."""
    for name, value in (("model_max_length", tokenizer.model_max_length), ("max_seq_length", longest)):
        if value is not None and not _is_a_length(value):
            raise _impossible(reference, name, value)
    padding = network.config.pad_token_id
    if "roberta" in network.config.model_type and padding != tokenizer.pad_token_id:  # it defines positions
        raise _impossible(reference, "pad_token_id", padding)
    vectors = network.get_input_embeddings().num_embeddings
    if invalid_ids := [token_id for token_id in tokenizer.all_special_ids if not 0 <= token_id < vectors]:
        raise _impossible(reference, "token id", invalid_ids[0])


def _is_a_length(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 1


def _impossible(reference: str, name: str, value: object) -> ModelError:
    value = str(value)[:80]
    message = f"{reference!r} cannot be a model: its files say that {name} is {value}"
    return ModelError("impossible", message, model=reference, name=name, value=value)
