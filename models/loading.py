"""How a model is loaded: safely, from safetensors, and only when something must be computed."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.cache import is_sound, sealing
from jobs.machine import without_collections
from models.hub import ModelError, hub_revision, hub_token
from models.soundness import (
    loading,
    require_fitting_download,
    require_fitting_folder,
    require_possible,
    require_readable,
    require_trained,
)
from models.sources import (
    ModelSource,
    is_late,
    own_file,
    require_sparse,
    require_tokens,
    starter_folder,
    starter_module,
)

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder


@without_collections()
def load_bi_encoder(source: ModelSource, corpus: Sequence[str]) -> "SentenceTransformer":
    """Load a bi-encoder in float32 from safetensors. A starter is built from `corpus` once and kept on disk.

    Raises `ModelError`, as all loaders here, where its files do not fit each other; see `models.soundness`.
    """
    from sentence_transformers import SentenceTransformer

    from models.starter import AnalyzedEmbedding, build_bi_encoder

    folder = source.folder or _starter(source, "bi-encoder", corpus, build_bi_encoder)
    if folder and (module := _own_module(folder, AnalyzedEmbedding)):
        return SentenceTransformer(modules=[module], similarity_fn_name="cosine")
    where = where_of(source)
    with loading(source.reference):
        model = SentenceTransformer(**where, model_kwargs=WEIGHTS)
    _require_whole(source, model, new_head=True)  # of the transformer: what pools for a head is not asked
    return model


@without_collections()
def load_cross_encoder(
    source: ModelSource, corpus: Sequence[str], labels: int = 1, *, new_head: bool = False, resized: bool = False
) -> "CrossEncoder":
    """Load a cross-encoder with so many outputs in float32 from safetensors. A starter is built from `corpus` once.

    With `new_head` a base without a head is given one, always the same, to be trained. Raises `ModelError` `labels`
    where it has another number of outputs; with `resized` it is given the number wanted.
    """
    import torch
    from sentence_transformers import CrossEncoder

    from models.starter import KernelPooling, build_cross_encoder

    folder = source.folder or _starter(source, "cross-encoder", corpus, build_cross_encoder)
    if folder and (module := _own_module(folder, KernelPooling)):
        return CrossEncoder(modules=[module])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a base model has no scoring head: one is drawn while loading, the same every time
        where, weights = where_of(source), WEIGHTS | {"ignore_mismatched_sizes": resized}
        try:
            with loading(source.reference):
                model: CrossEncoder = CrossEncoder(**where, num_labels=labels, model_kwargs=weights)
        except ModelError as error:
            if not isinstance(error.__cause__, RuntimeError):
                raise
            load_cross_encoder(source, corpus, labels, new_head=True, resized=True)  # its layers are another matter
            message = f"{source.reference!r} tells labels apart or has another head: it gives no {labels} scores a pair"
            raise ModelError("labels", message, model=source.reference) from error
    _require_whole(source, model, new_head=new_head)
    name_one_segment(model.tokenizer, model.config)
    return model


def prompts_of(model: "SentenceTransformer") -> tuple[str, str]:
    """What a model puts before a question and before a passage, as `encode_query` and `encode_document` do."""

    def prompt(*names: str) -> str:
        name = next((name for name in names if name in model.prompts), model.default_prompt_name)
        return model.prompts.get(name or "", "") or ""

    return prompt("query"), prompt("document", "passage", "corpus")


def most_tokens(tokenizer: Any, config: Any) -> int:
    """How many tokens are read at once: RoBERTa counts its positions from the padding token's number on."""
    offset = (config.pad_token_id or 0) + 1 if "roberta" in config.model_type else 0
    positions = int(getattr(config, "max_position_embeddings", 1 << 30)) - offset
    return min(positions, int(tokenizer.model_max_length))


def name_one_segment(tokenizer: Any, config: Any) -> None:
    """RoBERTa knows one segment, but klue/roberta-base comes with BERT's tokenizer, which numbers two."""
    if tokenizer is not None and getattr(config, "type_vocab_size", 2) < 2:
        names = ["input_ids", "attention_mask"]
        tokenizer.model_input_names = names
        tokenizer.init_kwargs["model_input_names"] = names  # what is saved with it: others load the model too


@without_collections()
def load_sparse_encoder(source: ModelSource) -> "SparseEncoder":
    """Load a sparse encoder in float32 from safetensors; a masked language model becomes an untrained SPLADE.

    Raises `ModelError` `not_sparse` where the model is neither: the library would add random layers to it.
    """
    from sentence_transformers import SparseEncoder

    require_sparse(source)
    where = where_of(source)
    if source.hub_id:
        require_sparse(source, partial(hub_file, where))
    with loading(source.reference):
        model = SparseEncoder(**where, model_kwargs=WEIGHTS)
    _require_whole(source, model)
    return model


@without_collections()
def load_token_encoder(source: ModelSource) -> "MultiVectorEncoder":
    """Load a late-interaction model in float32 from safetensors; of any other, its transformer tells of every token.

    A bi-encoder's prompts stay, its pooling goes. Raises `ModelError` `not_late` of a starter: it has words, no tokens.
    """
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    require_tokens(source)
    where = where_of(source)
    find = partial(own_file, source.folder) if source.folder else partial(hub_file, where)
    if is_late(find):
        with loading(source.reference):
            model = MultiVectorEncoder(**where, model_kwargs=WEIGHTS)
        _require_whole(source, model)
        return model
    bi_encoder = load_bi_encoder(source, ())
    if not isinstance(bi_encoder[0], Transformer):
        message = f"{source.reference!r} tells nothing of single tokens: late interaction needs a transformer"
        raise ModelError("not_late", message, model=source.reference)
    question, passage = prompts_of(bi_encoder)
    return MultiVectorEncoder(
        modules=[bi_encoder[0], MultiVectorMask(), Normalize(module_input_name="token_embeddings")],
        prompts={"query": question, "document": passage},
        similarity_fn_name="meanmaxsim",
    )


WEIGHTS: dict[str, Any] = {"use_safetensors": True, "dtype": "float32"}


def where_of(source: ModelSource) -> dict[str, Any]:
    """Where the library finds a model, as its loaders are told it; a packaged base is written first.

    Raises `ModelError` where it cannot be had, or is not such that it may be loaded.
    """
    if source.packaged:
        source.packaged.write()
    if source.folder:
        require_fitting_folder(source.reference, source.folder)
        require_possible(source.reference, source.folder)
        return {"model_name_or_path": str(source.folder)}
    revision = hub_revision(str(source.hub_id))
    require_fitting_download(str(source.hub_id), revision)
    return {
        "model_name_or_path": source.hub_id,
        "revision": revision.commit,
        # a hub that does not answer is asked again and again for minutes, even for files that are here
        "local_files_only": not revision.online,
        "token": hub_token(),
    }


def _require_whole(source: ModelSource, model: Any, *, new_head: bool = False) -> None:
    """Look at every transformer in a model of sentence-transformers."""
    for module in model.modules():
        if network := getattr(module, "auto_model", None):
            require_trained(source.reference, network, new_head=new_head)
            require_readable(source.reference, module.tokenizer, network, model.max_seq_length)


def hub_file(where: dict[str, Any], name: str) -> Path | None:
    """A file of a hub model, None where it has none; without the hub, where none was downloaded."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    offline = where["local_files_only"]
    asked = {"revision": where["revision"], "local_files_only": offline, "token": where["token"]}
    try:
        found = hf_hub_download(where["model_name_or_path"], name, **asked)
    except EntryNotFoundError as error:
        if isinstance(error, LocalEntryNotFoundError) and not offline:
            raise  # the hub went away: nothing is known of the file
        return None
    return Path(found)


def _own_module(folder: Path, module_class: Any) -> Any:
    # sentence-transformers imports classes of other packages only with trust_remote_code, which is never set here
    name, subfolder = starter_module(folder) or ("", "")
    return module_class.load(str(folder), subfolder=subfolder) if name == module_class.__qualname__ else None


def _starter(source: ModelSource, kind: str, corpus: Sequence[str], build: Callable[..., Any]) -> Path | None:
    if source.hub_id:
        return None
    folder = starter_folder(source, kind, corpus)
    if not is_sound(folder):
        with sealing(folder) as new:
            build(corpus).save_pretrained(str(new), create_model_card=False)
    return folder
