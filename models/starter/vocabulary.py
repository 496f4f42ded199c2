"""Tokens of a corpus as numbers and vectors: what both starter models are made of."""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

from text.analysis import analyze
from text.analyzers import Analyzer
from text.tokens import Tokens, are_kept, tokens_of

MAX_TEXTS = 20_000  # passages whose words are related to each other; more cost minutes and change little
MAX_TOKENS = 50_000  # tokens kept, those that most passages hold: bounds a model at 100 MB
_REMEMBERED_TEXTS = 200_000


class Vocabulary:
    """Numbers the tokens an analyzer finds; remembers texts, because training meets each of them every epoch."""

    def __init__(self, analyzer: Analyzer, tokens: Sequence[str]) -> None:
        self.analyzer = analyzer
        self.tokens = list(tokens)
        self._numbers = {token: number for number, token in enumerate(tokens)}
        self._remembered: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def remember(self, texts: Sequence[str]) -> None:
        """Take what is on disk of the tokens of these texts, so that no text of them is analyzed again."""
        if all(text in self._remembered for text in texts) or not are_kept(self.analyzer, texts):
            return
        ids = tokens_of(self.analyzer, texts).ids_in(self._numbers)
        self._remembered |= {text: list(dict.fromkeys(known.tolist())) for text, known in zip(texts, ids, strict=True)}

    def distinct(self, texts: Sequence[str]) -> list[list[int]]:
        """Numbers of the distinct known tokens of each text, in order of appearance."""
        if len(self._remembered) > _REMEMBERED_TEXTS:
            self._remembered.clear()
        new = list(dict.fromkeys(text for text in texts if text not in self._remembered))
        for text, tokens in zip(new, analyze(self.analyzer, new) if new else [], strict=True):
            known = dict.fromkeys(token for token in tokens if token in self._numbers)
            self._remembered[text] = [self._numbers[token] for token in known]
        return [self._remembered[text] for text in texts]


def tokens_of_some(analyzer: Analyzer, texts: Sequence[str]) -> Tokens:
    """Return the tokens of the texts; of more than `MAX_TEXTS`, those of so many, evenly spread."""
    if len(texts) <= MAX_TEXTS:
        return tokens_of(analyzer, texts)
    rows = np.linspace(0, len(texts) - 1, MAX_TEXTS).astype(np.int64)
    return tokens_of(analyzer, [texts[row] for row in rows.tolist()])


def latent_vectors(tokens: Tokens, dimensions: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Latent semantic analysis of passages (Deerwester et al. 1990).

    With X the `(n_passages, n_tokens)` matrix of distinct tokens weighted by idf = ln(N / n) + 1, rows of length 1, and
    X ~ U S Vt its truncated SVD, returns the tokens kept, their rows of V `(n_tokens, dimensions)` and their
    idf `(n_tokens,)`, float32.
    """
    rows = np.repeat(np.arange(len(tokens)), np.diff(tokens.offsets))
    shape = (len(tokens), len(tokens.vocabulary))
    distinct = csr_array((np.ones(len(rows), dtype=np.float32), (rows, tokens.ids)), shape=shape)
    distinct.data[:] = 1.0  # repeated tokens were summed
    passage_counts = np.bincount(distinct.indices, minlength=shape[1])
    kept = np.sort(np.argsort(-passage_counts, kind="stable")[:MAX_TOKENS])
    if not len(kept):
        raise ValueError("the passages hold no word to build a starter model from")
    idf = (np.log(len(tokens) / passage_counts[kept]) + 1).astype(np.float32)
    weighted = normalize(distinct[:, kept] * idf)
    rank = max(1, min(dimensions, *(n - 1 for n in weighted.shape)))
    svd = TruncatedSVD(rank, n_iter=2, random_state=0).fit(weighted)
    return [tokens.vocabulary[number] for number in kept], np.ascontiguousarray(svd.components_.T), idf
