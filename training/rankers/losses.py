"""What each objective of rankers makes smaller, and what a base is turned into before: other vectors, another side."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mrc_workbench.models.loading import load_bi_encoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.options import OptionError, TrainingOptions
from mrc_workbench.training.ranker_options import (
    TAUGHT,
    BiEncoderObjective,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
    LateObjective,
    LateOptions,
    SparseEncoderOptions,
)
from mrc_workbench.training.rankers.material import Material
from mrc_workbench.training.text_options import SentenceOptions

_AT_A_TIME = 1024  # texts
_FITTED_ON = 128  # passages, whose tokens a projection begins with


def project(model: Any, dimensions: int, texts: Sequence[str]) -> None:
    """Let a loaded `MultiVectorEncoder` end in vectors of so many dimensions, by a linear layer that is trained.

    It begins with the directions in which the tokens of some of the texts lie furthest, which lose least. Raises
    `OptionError` where the vectors have no more dimensions than wanted, or a projection already.
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
    told = {"activation_function": torch.nn.Identity(), "module_input_name": "token_embeddings"}
    layer = Dense(wide, dimensions, bias=False, **told)
    layer.linear.weight = torch.nn.Parameter(torch.from_numpy(directions(vectors.astype(np.float32), dimensions).T))
    place = next(place for place, module in enumerate(model) if isinstance(module, MultiVectorMask))
    model.insert(place, layer.to(model.device))


def has_routes(model: Any) -> bool:
    """Whether a loaded `SparseEncoder` has modules for questions and others for passages."""
    from sentence_transformers.base.modules import Router

    return isinstance(model[0], Router)


def by_idf(model: Any, texts: Sequence[str]) -> Any:
    """Return a `SparseEncoder` that reads passages as `model` does, and weighs questions' terms by idf in `texts`.

    Raises `OptionError` where the model weighs more terms than its tokenizer knows.
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


def negatives_of_processes(options: TrainingOptions) -> str:
    """Say what several processes make of an objective: `gathered`, `own` or `none`.

    Gathered: each sees the passages of all, so the loss is that of one process with the same batch. Own: each takes
    negatives of its own part of the batch only, so more processes make easier negatives. None: the objective takes no
    negatives of the batch.
    """
    if isinstance(options, SparseEncoderOptions):
        return "gathered"
    if isinstance(options, SentenceOptions):
        return "gathered" if options.contrasts else "none"
    if isinstance(options, LateOptions) and options.contrasts:
        return "gathered" if options.objective is LateObjective.MULTIPLE_NEGATIVES else "own"
    if not isinstance(options, BiEncoderOptions) or not options.contrasts:
        return "none"
    gathered = (BiEncoderObjective.MULTIPLE_NEGATIVES, BiEncoderObjective.GIST, *TAUGHT)
    return "gathered" if options.objective in gathered else "own"


def bi_encoder_loss(model: Any, options: BiEncoderOptions, material: Material, *, processes: int = 1) -> Any:
    """Return the loss module of a bi-encoder's objective.

    With `mini_batch_size` texts are encoded in parts of that size and the gradient is the whole batch's (Gao et al.
    2021). Matryoshka (Kusupati et al. 2022) adds the same loss over the first so many dimensions.
    """
    from sentence_transformers.sentence_transformer import losses

    from mrc_workbench.training.rankers.in_batch import SharedPassagesLoss

    parts = {"mini_batch_size": options.mini_batch_size} if options.mini_batch_size else {}
    gathered = {"gather_across_devices": processes > 1}
    match options.objective:
        case BiEncoderObjective.MEGA_BATCH_MARGIN:
            loss = losses.MegaBatchMarginLoss(
                model,
                positive_margin=options.positive_margin,
                negative_margin=options.negative_margin,
                use_mini_batched_version=bool(parts),
                **parts,
            )
        case BiEncoderObjective.MULTIPLE_NEGATIVES:
            if options.shares_passages and processes == 1:
                loss = SharedPassagesLoss(model, options.temperature, options.mix_weight)
            else:
                kind = losses.CachedMultipleNegativesRankingLoss if parts else losses.MultipleNegativesRankingLoss
                loss = kind(model, scale=1 / options.temperature, **gathered, **parts)
        case BiEncoderObjective.GIST:
            guide = load_bi_encoder(find_model(options.guide or options.base), material.texts)
            guided = losses.CachedGISTEmbedLoss if parts else losses.GISTEmbedLoss
            loss = guided(model, guide, temperature=options.temperature, **gathered, **parts)
        case BiEncoderObjective.TRIPLET:
            metric = losses.TripletDistanceMetric.COSINE
            loss = losses.TripletLoss(model, distance_metric=metric, triplet_margin=options.triplet_margin)
        case BiEncoderObjective.MARGIN_MSE | BiEncoderObjective.KL:
            from mrc_workbench.training.rankers.distillation import CachedDistillation, Distillation

            distillation = CachedDistillation if parts else Distillation
            loss = distillation(model, options, gathered=processes > 1)
    if shorter := options.matryoshka_dimensions:
        whole = int(model.get_embedding_dimension())
        loss = losses.MatryoshkaLoss(model, loss, [whole, *(size for size in shorter if size < whole)])
    return loss


def late_loss(model: Any, options: LateOptions, *, processes: int = 1) -> Any:
    """Return the loss module of a late-interaction encoder's objective."""
    from sentence_transformers.multi_vector_encoder.losses import MultiVectorMultipleNegativesRankingLoss
    from sentence_transformers.multi_vector_encoder.scoring import mean_colbert_scores

    if options.objective is LateObjective.KL:
        from mrc_workbench.training.rankers.distillation import LateDistillation

        return LateDistillation(model, options)
    if options.shares_passages and processes == 1:
        from mrc_workbench.training.rankers.in_batch import SharedPassagesLoss
        from mrc_workbench.training.rankers.token_scores import mean_max_sims

        return SharedPassagesLoss(model, options.temperature, scores=mean_max_sims)
    return MultiVectorMultipleNegativesRankingLoss(
        model,
        scale=1 / options.temperature,
        similarity_fct=mean_colbert_scores,
        gather_across_devices=processes > 1,
    )


def sparse_encoder_loss(model: Any, options: SparseEncoderOptions, *, processes: int = 1) -> Any:
    """Return SPLADE's loss module: multiple negatives by dot products, and the FLOPS of questions and of passages.

    FLOPS are `sum over terms of (mean weight over the batch) ** 2` (Paria et al. 2020), of each process's own part.
    Questions that no model reads have none: nothing could make them fewer.
    """
    from sentence_transformers.sparse_encoder import losses

    ranking = losses.SparseMultipleNegativesRankingLoss(
        model, scale=1 / options.temperature, similarity_fct=_exact_dot, gather_across_devices=processes > 1
    )
    parts = {"mini_batch_size": options.mini_batch_size} if options.mini_batch_size else {}
    kind = losses.CachedSpladeLoss if parts else losses.SpladeLoss
    return kind(
        model,
        ranking,
        document_regularizer_weight=options.passage_regularizer,
        query_regularizer_weight=None if has_routes(model) else options.question_regularizer,
        **parts,
    )


def _exact_dot(questions: Any, passages: Any) -> Any:
    """Dot products in float32: of 8 bits, a score of 20 would be one of 20 and 20.125."""
    import torch

    with torch.autocast(questions.device.type, enabled=False):
        return questions.float() @ passages.float().T


def cross_encoder_loss(model: Any, options: CrossEncoderOptions) -> Any:
    """Return the loss module of a cross-encoder's objective."""
    from sentence_transformers.cross_encoder import losses

    match options.objective:
        case CrossEncoderObjective.BINARY_CROSS_ENTROPY:
            return losses.BinaryCrossEntropyLoss(model)
        case CrossEncoderObjective.MARGIN_MSE:
            return losses.MarginMSELoss(model)
        case CrossEncoderObjective.LAMBDA:
            return losses.LambdaLoss(model, mini_batch_size=-1)
        case CrossEncoderObjective.RANKNET:
            return losses.RankNetLoss(model, mini_batch_size=-1)
        case CrossEncoderObjective.LISTNET:
            return losses.ListNetLoss(model, mini_batch_size=-1)
