"""The starter bi-encoder: a static embedding whose vectors are an LSA of the user's own passages."""

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, Self

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from models.starter.vocabulary import Vocabulary, latent_vectors, tokens_of_some
from text.analyzers import Analyzer, choose

DIMENSIONS = 512


class AnalyzedEmbedding(StaticEmbedding):
    """A `StaticEmbedding` whose tokens come from an analyzer; each distinct token of a text counts once."""

    config_keys: list[str] = ["analyzer"]

    def __init__(self, tokenizer: Tokenizer, analyzer: str, **kwargs: Any) -> None:
        super().__init__(tokenizer, **kwargs)
        self.analyzer = analyzer
        numbers = tokenizer.get_vocab()
        self._vocabulary = Vocabulary(Analyzer(analyzer), sorted(numbers, key=numbers.__getitem__))

    def preprocess(self, inputs: list[str], prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """Token ids of all texts, concatenated, and the offset at which each text begins."""
        del prompt, kwargs  # a bag of tokens has no use for a prompt
        ids = self._vocabulary.distinct(inputs)
        return {
            "input_ids": torch.tensor(list(chain.from_iterable(ids)), dtype=torch.long),
            "offsets": torch.tensor(list(accumulate((len(text) for text in ids[:-1]), initial=0))),
        }

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


def build_bi_encoder(texts: Sequence[str], dimensions: int = DIMENSIONS) -> SentenceTransformer:
    """Make a bi-encoder of the indexed texts of a corpus.

    The vector of a token is its LSA vector times its idf, the vector of a text the mean over its distinct tokens: under
    cosine similarity that is the text folded into the LSA space. Raises `ValueError` for a corpus without a word.
    """
    analyzer = choose(Analyzer.AUTO, texts)
    tokens, vectors, idf = latent_vectors(tokens_of_some(analyzer, texts), dimensions)
    tokenizer = Tokenizer(WordLevel({token: number for number, token in enumerate(tokens)}))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    module = AnalyzedEmbedding(tokenizer, analyzer.value, embedding_weights=vectors * idf[:, None])
    return SentenceTransformer(modules=[module], similarity_fn_name="cosine", device="cpu")
