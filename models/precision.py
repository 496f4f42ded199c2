"""The numbers that matrix products are computed in, by training, encoding and reranking alike."""

from enum import StrEnum


class Precision(StrEnum):
    """The numbers matrix products are computed in; weights, vectors and scores stay float32."""

    AUTO = "auto"  # bfloat16 where the processor or GPU computes in it; never for a starter
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


def in_bfloat16(precision: Precision) -> bool:
    """Whether matrix products of a transformer are computed in bfloat16: as told, or where this machine is made for it.

    Asking for `AUTO` imports torch.
    """
    if precision is not Precision.AUTO:
        return precision is Precision.BFLOAT16
    import torch

    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_avx512_bf16_supported())
