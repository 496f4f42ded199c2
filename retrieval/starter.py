"""The starter bi-encoder: vectors made of the user's own corpus, so the first minute needs no download.

This file imports torch and sentence-transformers; import it inside functions only.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from data.records import Passage
from retrieval.analyzers import Analyzer, Tokens, analyze, choose, tokens_of
from retrieval.bm25 import indexed_texts

DIMENSIONS = 512
MAX_TOKENS = 50_000  # vectors kept, by how many passages hold the token: bounds the model at 100 MB
_REMEMBERED_TEXTS = 200_000


class AnalyzedEmbedding(StaticEmbedding):
    """A `StaticEmbedding` whose tokens come from an analyzer; each distinct token of a text counts once."""

    config_keys: list[str] = ["analyzer"]

    def __init__(self, tokenizer: Tokenizer, analyzer: str, **kwargs: Any) -> None:
        super().__init__(tokenizer, **kwargs)
        self.analyzer = analyzer
        self._known = set(tokenizer.get_vocab())
        self._analyzed: dict[str, str] = {}  # training meets every text once an epoch: analyze it once

    def preprocess(self, inputs: list[str], prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """Token ids of all texts, concatenated, and the offset at which each text begins."""
        del prompt  # a bag of tokens has no use for one
        if len(self._analyzed) > _REMEMBERED_TEXTS:
            self._analyzed.clear()
        new = list(dict.fromkeys(text for text in inputs if text not in self._analyzed))
        for text, tokens in zip(new, analyze(Analyzer(self.analyzer), new), strict=True):
            self._analyzed[text] = " ".join(dict.fromkeys(token for token in tokens if token in self._known))
        return dict(super().preprocess([self._analyzed[text] for text in inputs], **kwargs))

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Save weights (safetensors), vocabulary and the analyzer's name."""
        super().save(output_path, *args, safe_serialization=safe_serialization, **kwargs)
        self.save_config(output_path)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> Self:
        """Load what `save` wrote."""
        plain = StaticEmbedding.load(model_name_or_path, subfolder=subfolder, **kwargs)
        config = cls.load_config(model_name_or_path, subfolder=subfolder)
        return cls(plain.tokenizer, config["analyzer"], embedding_weights=plain.embedding.weight.data)


def build_starter(passages: Sequence[Passage], dimensions: int = DIMENSIONS) -> SentenceTransformer:
    """Latent semantic analysis of the passages (Deerwester et al. 1990) as a static embedding.

    With X the `(n_passages, n_tokens)` matrix of distinct tokens weighted by idf = ln(N / n) + 1, rows of length 1, and
    X ~ U S Vt its truncated SVD, the vector of a token is its row of V times its idf. A text is the mean of its distinct
    tokens' vectors; with cosine similarity that equals folding the text into the LSA space.
    """
    texts = indexed_texts(passages, title=True)
    analyzer = choose(Analyzer.AUTO, texts)
    vocabulary, vectors = token_vectors(tokens_of(analyzer, texts), dimensions)
    tokenizer = Tokenizer(WordLevel({token: number for number, token in enumerate(vocabulary)}))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    module = AnalyzedEmbedding(tokenizer, analyzer.value, embedding_weights=vectors)
    return SentenceTransformer(modules=[module], similarity_fn_name="cosine", device="cpu")


def token_vectors(tokens: Tokens, dimensions: int) -> tuple[list[str], np.ndarray]:
    """LSA vectors `(n_tokens, dimensions)` float32 of the tokens that most passages hold, and those tokens."""
    rows = np.repeat(np.arange(len(tokens)), np.diff(tokens.offsets))
    shape = (len(tokens), len(tokens.vocabulary))
    distinct = csr_array((np.ones(len(rows), dtype=np.float32), (rows, tokens.ids)), shape=shape)
    distinct.data[:] = 1.0  # csr summed repeated tokens
    passage_counts = np.bincount(distinct.indices, minlength=shape[1])
    kept = np.sort(np.argsort(-passage_counts, kind="stable")[:MAX_TOKENS])
    idf = (np.log(len(tokens) / passage_counts[kept]) + 1).astype(np.float32)
    weighted = normalize(distinct[:, kept] * idf)
    dimensions = max(1, min(dimensions, min(weighted.shape) - 1))
    svd = TruncatedSVD(dimensions, n_iter=4, random_state=0).fit(weighted)
    vectors = (svd.components_ * idf).T.astype(np.float32)
    return [tokens.vocabulary[number] for number in kept], np.ascontiguousarray(vectors)
