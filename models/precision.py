"""The numbers that matrix products are computed in, by training, encoding and reranking alike."""

import time
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np

from mrc_workbench.data.cache import is_keeping

_TURNS = 15
_GAIN = 1.25  # of float32's time to that of bfloat16, from which its coarser numbers are worth it


class Precision(StrEnum):
    """The numbers matrix products are computed in; weights, vectors and scores stay float32."""

    AUTO = "auto"  # bfloat16 where the processor or GPU is quicker in it; never for a starter
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


def in_bfloat16(precision: Precision) -> bool:
    """Whether matrix products of a transformer are computed in bfloat16: as told, or where this machine is quicker so.

    Asking for `AUTO` imports torch, and the first time takes some hundredths of a second. Where nothing is kept it is
    float32: whoever asks is served beside others, and coarse numbers depend on what stands in a batch with them.
    """
    if precision is not Precision.AUTO:
        return precision is Precision.BFLOAT16
    if not is_keeping():
        return False
    import torch

    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_avx512_bf16_supported()) and _gains()


@cache
def _gains() -> bool:
    """Try it: with matrix units a processor is four times as fast, with mere instructions perhaps half as fast.

    One thread is tried, by the time that it computes: what else the machine does would decide in the place of the
    processor, and two processes would compute in different numbers.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        turns = [(_seconds(torch.float32), _seconds(torch.bfloat16)) for _ in range(_TURNS)]
    finally:
        torch.set_num_threads(threads)
    whole, half = np.min(turns, axis=0)  # the least: whatever else runs only adds to it
    return bool(whole > half * _GAIN)


def _seconds(dtype: Any) -> float:
    """How long this thread computes at a product of the sizes of a small transformer."""
    import torch

    tokens, weights = torch.ones(128, 384, dtype=dtype), torch.ones(1536, 384, dtype=dtype)
    began = time.thread_time()
    torch.nn.functional.linear(tokens, weights)
    return time.thread_time() - began
