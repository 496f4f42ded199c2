"""How much each token of a question counts in late interaction: by how rare it is in the corpus."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

VERSION = 1  # raise when weights change: vectors of questions are stored with them
_AT_ONCE = 1000  # texts that are tokenized together


@dataclass(frozen=True)
class TokenWeights:
    """Weights of the tokens of questions: the square root of BM25's inverse document frequency.

    `by_token` `(n_vocabulary,)` float32 holds sqrt(ln(1 + (N - n + .5) / (n + .5))) for a token in n of N passages
    (Robertson & Zaragoza 2009), and 0 for special tokens. Tokens of the prompt count 0.
    """

    by_token: np.ndarray

    @classmethod
    def of(cls, tokenizer: Any, texts: Sequence[str]) -> "TokenWeights":
        counts = np.zeros(len(tokenizer), dtype=np.int64)
        for start in range(0, len(texts), _AT_ONCE):
            read = tokenizer([*texts[start : start + _AT_ONCE]], add_special_tokens=False, verbose=False)["input_ids"]
            distinct = [set(ids) for ids in read]
            np.add.at(counts, np.fromiter(chain.from_iterable(distinct), dtype=np.int64), 1)
        weights = np.sqrt(np.log1p((len(texts) - counts + 0.5) / (counts + 0.5)))
        weights[[*tokenizer.all_special_ids]] = 0.0
        return cls(weights.astype(np.float32))

    def of_text(self, tokenizer: Any, prompt: str, text: str, n_tokens: int) -> np.ndarray:
        """Weights of the first `n_tokens` of a question after its prompt, `(n_tokens,)` float32, with a mean of 1.

        All are 1 if none would count, or if the tokenizer returns fewer tokens: a model may add some of its own.
        """
        ids = tokenizer(prompt + text, verbose=False)["input_ids"]
        of_prompt = tokenizer(prompt.rstrip(), add_special_tokens=False)["input_ids"]
        weights = self.by_token[ids]
        first = next((place for place, weight in enumerate(weights.tolist()) if weight), 0)
        if ids[first : first + len(of_prompt)] == of_prompt:
            weights[first : first + len(of_prompt)] = 0.0
        if len(ids) > n_tokens:  # the model reads the beginning, and a special token after it
            weights = np.append(weights[: n_tokens - 1], np.float32(0))
        if len(weights) < n_tokens or not weights.any():
            return np.ones(n_tokens, dtype=np.float32)
        return np.asarray(weights / weights.mean(), dtype=np.float32)
