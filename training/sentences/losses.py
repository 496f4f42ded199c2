"""The objectives, as the losses of sentence-transformers."""

from inspect import signature
from typing import Any

from data.pairs.records import Label
from training.options.common import OptionError
from training.options.sentences import CrossSentenceObjective, SentenceObjective, SentenceOptions


def sentence_loss(model: Any, options: SentenceOptions, *, processes: int = 1) -> Any:
    """Return the loss module of an objective.

    TSDAE's ties the weights of the encoder to those of its decoder, so that it is to be made before any are frozen.
    Raises `OptionError` where no decoder can be made of the base.
    """
    from sentence_transformers.sentence_transformer import losses

    match options.objective:
        case SentenceObjective.NLI_SOFTMAX:
            both, difference, product = options.concatenation.parts
            loss: Any = losses.SoftmaxLoss(
                model,
                model.get_embedding_dimension(),
                len(Label),
                concatenation_sent_rep=both,
                concatenation_sent_difference=difference,
                concatenation_sent_multiplication=product,
            )
        case SentenceObjective.COSINE:
            loss = losses.CosineSimilarityLoss(model)
        case SentenceObjective.COSENT:
            loss = losses.CoSENTLoss(model, scale=options.scale)
        case SentenceObjective.TRIPLET:
            metric = losses.TripletDistanceMetric.COSINE
            loss = losses.TripletLoss(model, distance_metric=metric, triplet_margin=options.triplet_margin)
        case SentenceObjective.SIMCSE_UNSUPERVISED | SentenceObjective.SIMCSE_SUPERVISED:
            loss = losses.MultipleNegativesRankingLoss(
                model, scale=1 / options.temperature, gather_across_devices=processes > 1
            )
        case SentenceObjective.DISTILLATION:
            loss = losses.MSELoss(model)
        case SentenceObjective.TSDAE:
            _require_decoder(model, options.base)
            loss = losses.DenoisingAutoEncoderLoss(model).float()
    return loss


def cross_sentence_loss(model: Any, objective: CrossSentenceObjective) -> Any:
    """Return the loss module of a cross-encoder's objective; gold scores are learned behind a sigmoid."""
    from sentence_transformers.cross_encoder import losses
    from torch.nn import Sigmoid

    match objective:
        case CrossSentenceObjective.BINARY_CROSS_ENTROPY:
            return losses.BinaryCrossEntropyLoss(model)
        case CrossSentenceObjective.MSE:
            return losses.MSELoss(model, Sigmoid())
        case CrossSentenceObjective.CROSS_ENTROPY:
            return losses.CrossEntropyLoss(model)


def _require_decoder(model: Any, base: str) -> None:
    """Raise `OptionError` where the library has no decoder of the base's architecture that reads a vector."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    decoder = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    if decoder is None or "encoder_hidden_states" not in signature(decoder.forward).parameters:
        message = f"objective tsdae needs a base that can be a decoder, such as BERT or RoBERTa, and {base} is none"
        raise OptionError("objective", "no_decoder", message)
