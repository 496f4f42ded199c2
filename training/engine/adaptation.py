"""What is changed of a loaded model before it is trained, and how it encodes meanwhile."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.sources import ModelSource
from mrc_workbench.models.token_encoder import directions
from mrc_workbench.training.base import transformer_layers
from mrc_workbench.training.options import (
    AttentionDropout,
    EmbeddingTable,
    LoraAlso,
    OptionError,
    TrainingOptions,
    uses_bfloat16,
)
from mrc_workbench.training.text_options import SentencePooling

_LARGE_VOCABULARY = 100_000  # pieces, above which `auto` freezes their vectors
_FITTED_ON = 128  # passages, whose tokens a projection begins with
_AT_A_TIME = 1024  # texts


def pool(model: Any, pooling: str) -> None:
    """Let a loaded `SentenceTransformer` pool so. Raises `OptionError` where it pools in a way of its own."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    if pooling == "base":  # as it does
        return
    if len(model) < 2 or not isinstance(model[1], Pooling):
        raise OptionError("pooling", "starter", "pooling must be base: the model pools in its own way")
    model[1] = Pooling(model[1].embedding_dimension, pooling, include_prompt=model[1].include_prompt)


def adapt(model: Any, options: TrainingOptions) -> dict[str, str]:
    """Change a loaded model as the options say, and return what became of `auto`. Raises `OptionError`."""
    layered = ("max_length", "frozen_layers", "lora_rank", "mini_batch_size", "recompute")
    wanted = [name for name in layered if getattr(options, name, 0)]
    reader = _reader(model)
    if wanted and reader is None:
        raise OptionError(wanted[0], "starter", f"{wanted[0]} must be 0 for {options.base}: it has no such part")
    if options.max_length:
        config = reader.auto_model.config
        # RoBERTa counts its positions from the padding token's number on
        offset = (config.pad_token_id or 0) + 1 if "roberta" in config.model_type else 0
        positions = int(getattr(config, "max_position_embeddings", 1 << 30)) - offset
        model.max_seq_length = min(options.max_length, positions)
    if options.frozen_layers:
        _freeze(reader.auto_model, options.frozen_layers)
    if reader is None:
        return {}
    network = reader.auto_model
    settled = {"attention_dropout": AttentionDropout.BASE, "embedding_table": EmbeddingTable.TRAINED}
    on_a_cpu = options.attention_dropout is AttentionDropout.AUTO and model.device.type == "cpu"
    if on_a_cpu or options.attention_dropout is AttentionDropout.NONE:
        # with dropout the fused kernel for a CPU cannot be used: all probabilities are written out
        settled["attention_dropout"] = AttentionDropout.NONE
        drop_no_attention(network)
    if model.device.type == "cpu" and uses_bfloat16(options):
        from mrc_workbench.training.engine.speed import use_plain_attention_if_short

        use_plain_attention_if_short(network)
    if options.lora_rank:
        _add_adapters(model, reader, options.lora_rank)
        _train_also(reader.auto_model, options)
    elif _freezes(options.embedding_table, network):
        network.get_input_embeddings().requires_grad_(False)
    if not any(weight.requires_grad for weight in reader.auto_model.get_input_embeddings().parameters()):
        settled["embedding_table"] = EmbeddingTable.FROZEN
    return {name: value.value for name, value in settled.items()}


def settle(model: Any) -> None:
    """Make adapters part of the weights, so that what is saved is a standard model."""
    reader = _reader(model)
    if reader is not None and (merge := getattr(reader.auto_model, "merge_and_unload", None)):
        reader.model = merge()


def _reader(model: Any) -> Any:
    """The module with the transformer, which may be in a route; None of a starter."""
    inside = (module for module in model.modules() if module is not model)
    return next((module for module in inside if hasattr(module, "auto_model")), None)


def drop_no_attention(network: Any) -> None:
    """Set the dropout of attention's probabilities to 0, whatever an architecture calls it; all other dropout stays."""
    import torch

    for module in network.modules():
        if "Attention" not in type(module).__name__:
            continue
        for name in ("dropout", "attn_dropout", "attention_dropout", "dropout_prob", "dropout_p"):
            dropout = getattr(module, name, None)
            if isinstance(dropout, torch.nn.Dropout):
                dropout.p = 0.0
            elif isinstance(dropout, float):
                setattr(module, name, 0.0)


def _freezes(wanted: EmbeddingTable, network: Any) -> bool:
    pieces = network.get_input_embeddings().weight.shape[0]
    return wanted is EmbeddingTable.FROZEN or (wanted is EmbeddingTable.AUTO and pieces > _LARGE_VOCABULARY)


def _freeze(network: Any, count: int) -> None:
    backbone = getattr(network, network.base_model_prefix, network)
    layers = transformer_layers(network)
    available = 0 if layers is None else len(layers)
    if count > available:
        raise OptionError("frozen_layers", "layers", f"frozen_layers must be {available} or less for this base")
    for module in (backbone.get_input_embeddings(), getattr(backbone, "embeddings", None), *layers[:count]):
        if module is not None:
            module.requires_grad_(False)


def _add_adapters(model: Any, reader: Any, rank: int) -> None:
    from peft import LoraConfig, TaskType, get_peft_model
    from sentence_transformers import CrossEncoder

    # a scoring or pointing head is new, so it is trained in full; peft knows it by the task
    points = hasattr(reader.auto_model, "qa_outputs")
    scoring = TaskType.SEQ_CLS if isinstance(model, CrossEncoder) else TaskType.FEATURE_EXTRACTION
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        lora_dropout=0.0,
        target_modules="all-linear",
        exclude_modules=["qa_outputs"] if points else None,
        task_type=TaskType.QUESTION_ANS if points else scoring,
    )
    reader.model = get_peft_model(reader.auto_model, config)


def _train_also(network: Any, options: TrainingOptions) -> None:
    """Let weights learn that stand beside the adapters: in place, so that a merged model has them like any other."""
    import torch

    if options.lora_also is LoraAlso.NONE:
        return
    kept = network.get_input_embeddings() if _freezes(options.embedding_table, network) else None
    for module in network.modules():
        embeds = options.lora_also is LoraAlso.NORMS_AND_EMBEDDINGS and isinstance(module, torch.nn.Embedding)
        if "Norm" in type(module).__name__ or (embeds and module is not kept):
            for weight in module.parameters(recurse=False):
                weight.requires_grad_(True)


def live_bi_encoder(model: Any, options: TrainingOptions, texts: Sequence[str]) -> BiEncoder:
    """Return an encoder of a loaded model; `texts` are those of the corpus."""
    size, precision = options.evaluation_batch_size, options.precision
    return BiEncoder(ModelSource(options.base), texts, precision=precision, batch_size=size, at_hand=model)


def live_scorer(model: Any, options: TrainingOptions, texts: Sequence[str], labels: int = 1) -> CrossEncoderScorer:
    """Return a scorer of pairs by a loaded model."""
    size, precision = options.evaluation_batch_size, options.precision
    source = ModelSource(options.base)
    scorer = CrossEncoderScorer(source, texts, precision=precision, batch_size=size, labels=labels)
    scorer.model = model
    return scorer


def project(model: Any, dimensions: int, texts: Sequence[str]) -> None:
    """Append a linear layer to a loaded `MultiVectorEncoder`; it starts with the principal directions of tokens.

    Raises `OptionError` if the vectors are not longer than `dimensions`, or projected already.
    """
    import torch
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    wide = int(model.get_embedding_dimension() or model[0].get_embedding_dimension())
    if wide == dimensions:
        return
    if wide < dimensions or any(isinstance(module, Dense) for module in model):
        message = f"dimensions must be 0 or {wide}: so many the base has"
        raise OptionError("dimensions", "range", message)
    some = [texts[row] for row in np.linspace(0, len(texts) - 1, min(_FITTED_ON, len(texts))).astype(int).tolist()]
    vectors = np.concatenate(model.encode_document(some, convert_to_numpy=True, show_progress_bar=False))
    identity = torch.nn.Identity()
    layer = Dense(wide, dimensions, bias=False, activation_function=identity, module_input_name="token_embeddings")
    layer.linear.weight = torch.nn.Parameter(torch.from_numpy(directions(vectors.astype(np.float32), dimensions).T))
    position = next(position for position, module in enumerate(model) if isinstance(module, MultiVectorMask))
    model.insert(position, layer.to(model.device))


def has_routes(model: Any) -> bool:
    """Whether a loaded `SparseEncoder` has modules for questions and others for passages."""
    from sentence_transformers.base.modules import Router

    return isinstance(model[0], Router)


def by_idf(model: Any, texts: Sequence[str]) -> Any:
    """Return a `SparseEncoder` that reads passages as `model` does, and weighs questions' terms by idf in `texts`.

    Raises `OptionError` if the model weighs more terms than its tokenizer knows.
    """
    import torch
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sparse_encoder import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding

    passages = [*model[0].sub_modules["document"], *[*model][1:]] if has_routes(model) else [*model]
    tokenizer = passages[0].tokenizer
    if passages[0].auto_model.config.vocab_size != len(tokenizer):
        message = "question_side must be base: this model weighs other terms than its tokenizer knows"
        raise OptionError("question_side", "vocabulary", message)
    questions = SparseStaticEmbedding(tokenizer, torch.from_numpy(idf_of(tokenizer, texts)), frozen=True)
    return SparseEncoder(
        modules=[Router.for_query_document([questions], passages)], prompts=model.prompts, similarity_fn_name="dot"
    )


def idf_of(tokenizer: Any, texts: Sequence[str]) -> np.ndarray:
    """Return the idf of every term of a tokenizer's vocabulary among the texts, `(n_terms,)` float32."""
    held = np.zeros(len(tokenizer), dtype=np.int64)
    for start in range(0, len(texts), _AT_A_TIME):
        for ids in tokenizer(list(texts[start : start + _AT_A_TIME]), add_special_tokens=False)["input_ids"]:
            held[np.unique(np.array(ids, dtype=np.int64))] += 1
    return np.log1p((len(texts) - held + 0.5) / (held + 0.5)).astype(np.float32)


def pool_sentences(model: Any, pooling: SentencePooling) -> None:
    """Set the pooling of a loaded `SentenceTransformer`. Raises `OptionError` if its modules do not allow it.

    The first and the last layer are averaged by the library's weighted mean of layers, whose weights are not learned.
    """
    import torch
    from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling

    averages = [module for module in model if isinstance(module, WeightedLayerPooling)]
    if pooling is not SentencePooling.FIRST_LAST_AVERAGE:
        if averages and pooling is not SentencePooling.BASE:
            raise OptionError("pooling", "starter", "pooling must be base: the model pools in its own way")
        pool(model, pooling.value)
    elif not averages:
        pool(model, SentencePooling.MEAN.value)
        config = model[0].auto_model.config
        config.output_hidden_states = True
        count = config.num_hidden_layers
        weights = torch.zeros(count)
        weights[[0, -1]] = 1.0
        layer_weights = torch.nn.Parameter(weights)
        pooling_layer = WeightedLayerPooling(config.hidden_size, count, layer_start=1, layer_weights=layer_weights)
        model.insert(1, pooling_layer.to(model.device))
    for module in (one for one in model if isinstance(one, WeightedLayerPooling)):
        module.requires_grad_(False)


def forget(model: Any, share: float) -> None:
    """Set the dropout of hidden values, not that of attention. Raises `OptionError` where the base has none to set."""
    import torch

    dropouts = [
        module
        for parent in model[0].auto_model.modules()
        if "Attention" not in type(parent).__name__
        for module in parent.children()
        if isinstance(module, torch.nn.Dropout)
    ]
    if not dropouts:
        raise OptionError("dropout", "no_dropout", "dropout cannot be set: the base has none between its layers")
    for module in dropouts:
        module.p = share
