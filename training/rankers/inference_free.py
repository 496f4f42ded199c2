"""Questions without inference: their own terms, weighed by idf, so that no model reads them when they are asked.

Geng et al. 2024, "Towards Competitive Search Relevance For Inference-Free Learned Sparse Retrievers". The idf is BM25's
`ln(1 + (N - n + .5) / (n + .5))` with N passages, n of them holding the term; it stays while passages learn.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from training.options.common import OptionError

_AT_A_TIME = 1024  # texts


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
