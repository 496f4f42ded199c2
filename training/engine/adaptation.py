"""Changes to a loaded model before its training, and encoders of models in training."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.sources import ModelSource
from mrc_workbench.models.token_encoder import principal_directions
from mrc_workbench.training.base import transformer_layers
from mrc_workbench.training.options import (
    AttentionDropout,
    EmbeddingTable,
    LoraFullWeights,
    OptionError,
    TrainingOptions,
    uses_bfloat16,
)
from mrc_workbench.training.text_options import SentencePooling

_LARGE_VOCABULARY = 100_000  # tokens, above which `auto` freezes their vectors
_PROJECTION_SAMPLE_SIZE = 128  # passages from whose tokens a projection is initialized
_TEXTS_PER_CHUNK = 1024


def set_pooling(model: Any, pooling: str) -> None:
    """Set the pooling of a loaded `SentenceTransformer`. Raises `OptionError` if it has no pooling module."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    if pooling == "base":
        return
    if len(model) < 2 or not isinstance(model[1], Pooling):
        raise OptionError("pooling", "starter", "pooling must be base: the model has no pooling module")
    model[1] = Pooling(model[1].embedding_dimension, pooling, include_prompt=model[1].include_prompt)


def adapt(model: Any, options: TrainingOptions) -> dict[str, str]:
    """Adapt a loaded model to the options; returns the values of `auto` options. Raises `OptionError`."""
    transformer_options = ("max_length", "frozen_layers", "lora_rank", "mini_batch_size", "gradient_checkpointing")
    requested = [name for name in transformer_options if getattr(options, name, 0)]
    transformer = _transformer_module(model)
    if requested and transformer is None:
        raise OptionError(requested[0], "starter", f"{requested[0]} must be 0 for {options.base}, which has no layers")
    if options.max_length:
        config = transformer.auto_model.config
        # RoBERTa counts positions from the id of the padding token
        offset = (config.pad_token_id or 0) + 1 if "roberta" in config.model_type else 0
        positions = int(getattr(config, "max_position_embeddings", 1 << 30)) - offset
        model.max_seq_length = min(options.max_length, positions)
    if options.frozen_layers:
        _freeze_layers(transformer.auto_model, options.frozen_layers)
    if transformer is None:
        return {}
    network = transformer.auto_model
    resolved_options = {"attention_dropout": AttentionDropout.BASE, "embedding_table": EmbeddingTable.TRAINED}
    is_auto_on_cpu = options.attention_dropout is AttentionDropout.AUTO and model.device.type == "cpu"
    if is_auto_on_cpu or options.attention_dropout is AttentionDropout.NONE:
        # with dropout, the fused kernel for CPUs cannot be used, and all probabilities are stored
        resolved_options["attention_dropout"] = AttentionDropout.NONE
        disable_attention_dropout(network)
    if model.device.type == "cpu" and uses_bfloat16(options):
        from mrc_workbench.training.engine.speed import use_plain_attention_if_short

        use_plain_attention_if_short(network)
    if options.lora_rank:
        _add_adapters(model, transformer, options.lora_rank)
        _unfreeze_extra_weights(transformer.auto_model, options)
    elif _freezes_embeddings(options.embedding_table, network):
        network.get_input_embeddings().requires_grad_(False)
    if not any(weight.requires_grad for weight in transformer.auto_model.get_input_embeddings().parameters()):
        resolved_options["embedding_table"] = EmbeddingTable.FROZEN
    return {name: value.value for name, value in resolved_options.items()}


def merge_adapters(model: Any) -> None:
    """Merge adapters into the weights: the saved model is a standard one."""
    transformer = _transformer_module(model)
    if transformer is not None and (merge_weights := getattr(transformer.auto_model, "merge_and_unload", None)):
        transformer.model = merge_weights()


def _transformer_module(model: Any) -> Any:
    """Return the module with the transformer, which may be in a route; None for a starter."""
    submodules = (module for module in model.modules() if module is not model)
    return next((module for module in submodules if hasattr(module, "auto_model")), None)


def disable_attention_dropout(network: Any) -> None:
    """Set the dropout of attention probabilities to 0 in any architecture; other dropout stays."""
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


def _freezes_embeddings(setting: EmbeddingTable, network: Any) -> bool:
    vocabulary_size = network.get_input_embeddings().weight.shape[0]
    return setting is EmbeddingTable.FROZEN or (setting is EmbeddingTable.AUTO and vocabulary_size > _LARGE_VOCABULARY)


def _freeze_layers(network: Any, count: int) -> None:
    backbone = getattr(network, network.base_model_prefix, network)
    layers = transformer_layers(network)
    available = 0 if layers is None else len(layers)
    if count > available:
        raise OptionError("frozen_layers", "layers", f"frozen_layers must be {available} or less for this base")
    for module in (backbone.get_input_embeddings(), getattr(backbone, "embeddings", None), *layers[:count]):
        if module is not None:
            module.requires_grad_(False)


def _add_adapters(model: Any, transformer: Any, rank: int) -> None:
    from peft import LoraConfig, TaskType, get_peft_model
    from sentence_transformers import CrossEncoder

    # the head is new, so it is trained in full; peft selects it by the task
    has_span_head = hasattr(transformer.auto_model, "qa_outputs")
    task_type = TaskType.SEQ_CLS if isinstance(model, CrossEncoder) else TaskType.FEATURE_EXTRACTION
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        lora_dropout=0.0,
        target_modules="all-linear",
        exclude_modules=["qa_outputs"] if has_span_head else None,
        task_type=TaskType.QUESTION_ANS if has_span_head else task_type,
    )
    transformer.model = get_peft_model(transformer.auto_model, config)


def _unfreeze_extra_weights(network: Any, options: TrainingOptions) -> None:
    """Train further weights in full besides the adapters; they stay part of the merged model."""
    import torch

    if options.lora_full_weights is LoraFullWeights.NONE:
        return
    frozen_table = network.get_input_embeddings() if _freezes_embeddings(options.embedding_table, network) else None
    for module in network.modules():
        trains_embeddings = options.lora_full_weights is LoraFullWeights.NORMS_AND_EMBEDDINGS
        is_embedding = isinstance(module, torch.nn.Embedding) and module is not frozen_table
        if "Norm" in type(module).__name__ or (trains_embeddings and is_embedding):
            for weight in module.parameters(recurse=False):
                weight.requires_grad_(True)


def live_bi_encoder(model: Any, options: TrainingOptions, texts: Sequence[str]) -> BiEncoder:
    """Return an encoder of a loaded model; `texts` are those of the corpus."""
    source = ModelSource(options.base)
    size = options.evaluation_batch_size
    return BiEncoder(source, texts, precision=options.precision, batch_size=size, loaded_model=model)


def live_scorer(model: Any, options: TrainingOptions, texts: Sequence[str], labels: int = 1) -> CrossEncoderScorer:
    """Return a scorer of pairs by a loaded model."""
    source = ModelSource(options.base)
    size = options.evaluation_batch_size
    scorer = CrossEncoderScorer(source, texts, precision=options.precision, batch_size=size, labels=labels)
    scorer.model = model
    return scorer


def add_projection(model: Any, dimensions: int, texts: Sequence[str]) -> None:
    """Append a linear layer, initialized with the principal directions of tokens. Raises `OptionError`."""
    import torch
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    width = int(model.get_embedding_dimension() or model[0].get_embedding_dimension())
    if width == dimensions:
        return
    if width < dimensions or any(isinstance(module, Dense) for module in model):
        raise OptionError("dimensions", "range", f"dimensions must be 0 or {width}, the base's number")
    rows = np.linspace(0, len(texts) - 1, min(_PROJECTION_SAMPLE_SIZE, len(texts))).astype(int)
    sample = [texts[row] for row in rows.tolist()]
    vectors = np.concatenate(model.encode_document(sample, convert_to_numpy=True, show_progress_bar=False))
    identity = torch.nn.Identity()
    layer = Dense(width, dimensions, bias=False, activation_function=identity, module_input_name="token_embeddings")
    directions = principal_directions(vectors.astype(np.float32), dimensions)
    layer.linear.weight = torch.nn.Parameter(torch.from_numpy(directions.T))
    position = next(position for position, module in enumerate(model) if isinstance(module, MultiVectorMask))
    model.insert(position, layer.to(model.device))


def has_routes(model: Any) -> bool:
    """Whether a loaded `SparseEncoder` has separate modules for questions and passages."""
    from sentence_transformers.base.modules import Router

    return isinstance(model[0], Router)


def weight_questions_by_idf(model: Any, texts: Sequence[str]) -> Any:
    """Return a `SparseEncoder` of passages by `model` and questions by idf in `texts`. Raises `OptionError`."""
    import torch
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sparse_encoder import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding

    passages = [*model[0].sub_modules["document"], *[*model][1:]] if has_routes(model) else [*model]
    tokenizer = passages[0].tokenizer
    if passages[0].auto_model.config.vocab_size != len(tokenizer):
        message = "question_side must be base: this model has other terms than its tokenizer"
        raise OptionError("question_side", "vocabulary", message)
    questions = SparseStaticEmbedding(tokenizer, torch.from_numpy(compute_idf(tokenizer, texts)), frozen=True)
    router = Router.for_query_document([questions], passages)
    return SparseEncoder(modules=[router], prompts=model.prompts, similarity_fn_name="dot")


def compute_idf(tokenizer: Any, texts: Sequence[str]) -> np.ndarray:
    """Return the idf of each term of a tokenizer's vocabulary in the texts, `(n_terms,)` float32."""
    document_frequencies = np.zeros(len(tokenizer), dtype=np.int64)
    for start in range(0, len(texts), _TEXTS_PER_CHUNK):
        for ids in tokenizer(list(texts[start : start + _TEXTS_PER_CHUNK]), add_special_tokens=False)["input_ids"]:
            document_frequencies[np.unique(np.array(ids, dtype=np.int64))] += 1
    return np.log1p((len(texts) - document_frequencies + 0.5) / (document_frequencies + 0.5)).astype(np.float32)


def set_sentence_pooling(model: Any, pooling: SentencePooling) -> None:
    """Set the pooling of a loaded `SentenceTransformer`. Raises `OptionError` if its modules do not allow it."""
    import torch
    from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling

    average_layers = [module for module in model if isinstance(module, WeightedLayerPooling)]
    if pooling is not SentencePooling.FIRST_LAST_AVERAGE:
        if average_layers and pooling is not SentencePooling.BASE:
            raise OptionError("pooling", "starter", "pooling must be base: the model averages its layers")
        set_pooling(model, pooling.value)
    elif not average_layers:
        set_pooling(model, SentencePooling.MEAN.value)
        config = model[0].auto_model.config
        config.output_hidden_states = True
        count = config.num_hidden_layers
        weights = torch.zeros(count)
        weights[[0, -1]] = 1.0
        layer_weights = torch.nn.Parameter(weights)
        pooling_layer = WeightedLayerPooling(config.hidden_size, count, layer_start=1, layer_weights=layer_weights)
        model.insert(1, pooling_layer.to(model.device))
    for module in (layer for layer in model if isinstance(layer, WeightedLayerPooling)):
        module.requires_grad_(False)


def set_hidden_dropout(model: Any, rate: float) -> None:
    """Set the dropout of hidden values, not that of attention. Raises `OptionError` if the base has none."""
    import torch

    parents = [parent for parent in model[0].auto_model.modules() if "Attention" not in type(parent).__name__]
    children = [module for parent in parents for module in parent.children()]
    dropouts = [module for module in children if isinstance(module, torch.nn.Dropout)]
    if not dropouts:
        raise OptionError("dropout", "no_dropout", "dropout cannot be set: the base has none between its layers")
    for module in dropouts:
        module.p = rate
