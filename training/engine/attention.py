"""Attention of a training in bfloat16 on processors: by its plain formula where texts are short.

torch's fused kernel is slow backwards there. Forward and backward together, the plain formula takes 0.65 of its time
for texts of 340 tokens, 0.5 for 256 and 0.1 for 40, and holds the probabilities of all pairs of tokens; for texts of
512 tokens it takes 1.7 times as long. Without a gradient both take the same time.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

LONGEST = 384  # tokens of a text for which the plain formula is used
_NAME = "plain_if_short"


def use_plain_attention_if_short(network: Any) -> None:
    """Let a transformer compute the attention of short texts by the plain formula while it learns."""
    AttentionInterface.register(_NAME, attention)
    AttentionMaskInterface.register(_NAME, sdpa_mask)
    network.set_attn_implementation(_NAME)


def attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> tuple[Tensor, Tensor | None]:
    """Compute `softmax(q k^T * scaling) v`, `(n_texts, n_tokens, n_heads, dimensions)`; no probabilities beside it.

    `query`, `key`, `value` are `(n_texts, n_heads, n_tokens, dimensions)`; `attention_mask` is true where a token reads
    another. Whatever this does not know (dropout, a causal mask, heads that share keys) is left to torch's kernel.
    """
    scaling = settings.get("scaling")
    is_plain = (
        torch.is_grad_enabled()
        and key.shape[2] <= LONGEST
        and query.shape[:2] == key.shape[:2]
        and scaling is not None
        and not settings.get("dropout")
        and not (settings.get("is_causal") or getattr(module, "is_causal", False))
    )
    if not is_plain:
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
        return output, None
    scores = torch.matmul(query * scaling, key.transpose(2, 3))
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    return torch.matmul(scores.softmax(dim=-1), value).transpose(1, 2).contiguous(), None
