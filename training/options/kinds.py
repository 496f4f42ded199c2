"""The options of each kind."""

from models.sources import DEFAULT_BI_ENCODER, DEFAULT_CROSS_ENCODER, STARTER
from training.options.bi_encoder import BiEncoderOptions
from training.options.common import Kind
from training.options.cross_encoder import CrossEncoderOptions

OPTIONS = {Kind.BI_ENCODER: BiEncoderOptions, Kind.CROSS_ENCODER: CrossEncoderOptions}


def default_options(kind: Kind, base: str | None = None) -> BiEncoderOptions | CrossEncoderOptions:
    """Return options that suit the base: a starter learns from large steps, a pretrained model from small ones."""
    starter = base in (None, STARTER)
    if kind is Kind.BI_ENCODER:
        if starter:
            return BiEncoderOptions(batch_size=256, learning_rate=1e-3)
        return BiEncoderOptions(base=base or DEFAULT_BI_ENCODER)
    if starter:
        return CrossEncoderOptions(epochs=2.0, learning_rate=1e-2)
    return CrossEncoderOptions(base=base or DEFAULT_CROSS_ENCODER, epochs=1.0, batch_size=16, evaluation_batch_size=32)
