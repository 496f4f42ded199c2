"""Starter models, built from the user's corpus without a download.

The bi-encoder is a static embedding with an LSA of the passages; the cross-encoder pools kernels over token vectors and
trains on a CPU in a minute. This module imports torch: import it inside functions only.
"""

import json
from collections.abc import Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from scipy.sparse import csr_array
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import InputModule
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import Tensor, nn

from mrc_workbench.data.text.analysis import Tokens, analyze, has_cached_tokens, tokens_of
from mrc_workbench.data.text.analyzers import PLAIN_PART, Analyzer, resolve_analyzer

MAX_TEXTS = 20_000  # sample of passages; more cost minutes and change little
MAX_TOKENS = 50_000  # the most frequent tokens: at most 100 MB
_REMEMBERED_TEXTS = 200_000
_CENTRES = (0.9, 0.7, 0.5, 0.3, 0.1, -0.1)  # of the soft-match kernels, in cosine


class Vocabulary:
    """Numbers the tokens of an analyzer, and caches texts, which training repeats every epoch."""

    def __init__(self, analyzer: Analyzer, tokens: Sequence[str]) -> None:
        self.analyzer = analyzer
        self.tokens = list(tokens)
        self._numbers = {token: number for number, token in enumerate(tokens)}
        self._remembered: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def remember(self, texts: Sequence[str]) -> None:
        if all(text in self._remembered for text in texts) or not has_cached_tokens(self.analyzer, texts):
            return
        ids = tokens_of(self.analyzer, texts).ids_in(self._numbers)
        self._remembered |= {text: list(dict.fromkeys(known.tolist())) for text, known in zip(texts, ids, strict=True)}

    def distinct(self, texts: Sequence[str]) -> list[list[int]]:
        if len(self._remembered) > _REMEMBERED_TEXTS:
            self._remembered.clear()
        new = list(dict.fromkeys(text for text in texts if text not in self._remembered))
        for text, tokens in zip(new, analyze(self.analyzer, new) if new else [], strict=True):
            known = dict.fromkeys(token for token in tokens if token in self._numbers)
            self._remembered[text] = [self._numbers[token] for token in known]
        return [self._remembered[text] for text in texts]


def tokens_of_some(analyzer: Analyzer, texts: Sequence[str]) -> Tokens:
    """Return the tokens of the texts, or of `MAX_TEXTS` evenly spread ones."""
    if len(texts) <= MAX_TEXTS:
        return tokens_of(analyzer, texts)
    rows = np.linspace(0, len(texts) - 1, MAX_TEXTS).astype(np.int64)
    return tokens_of(analyzer, [texts[row] for row in rows.tolist()])


def latent_vectors(tokens: Tokens, dimensions: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return a latent semantic analysis of passages (Deerwester et al. 1990).

    With X the `(n_passages, n_tokens)` matrix of distinct tokens weighted by idf = ln(N / n) + 1, rows of length 1, and
    X ~ U S Vt its truncated SVD, returns the selected tokens, their rows of V `(n_tokens, dimensions)` and their
    idf `(n_tokens,)`, float32.
    """
    rows = np.repeat(np.arange(len(tokens)), np.diff(tokens.offsets))
    shape = (len(tokens), len(tokens.vocabulary))
    distinct = csr_array((np.ones(len(rows), dtype=np.float32), (rows, tokens.ids)), shape=shape)
    distinct.data[:] = 1.0  # repeated tokens were summed
    passage_counts = np.bincount(distinct.indices, minlength=shape[1])
    selected = np.sort(np.argsort(-passage_counts, kind="stable")[:MAX_TOKENS])
    if not len(selected):
        raise ValueError("the passages hold no word to build a starter model from")
    idf = (np.log(len(tokens) / passage_counts[selected]) + 1).astype(np.float32)
    weighted = normalize(distinct[:, selected] * idf)
    rank = max(1, min(dimensions, *(n - 1 for n in weighted.shape)))
    svd = TruncatedSVD(rank, n_iter=2, random_state=0).fit(weighted)
    return [tokens.vocabulary[number] for number in selected], np.ascontiguousarray(svd.components_.T), idf


class AnalyzedEmbedding(StaticEmbedding):
    """A `StaticEmbedding` with tokens of an analyzer; each distinct token of a text counts once."""

    config_keys: list[str] = ["analyzer"]

    def __init__(self, tokenizer: Tokenizer, analyzer: str, **kwargs: Any) -> None:
        super().__init__(tokenizer, **kwargs)
        self.analyzer = analyzer
        numbers = tokenizer.get_vocab()
        self._vocabulary = Vocabulary(Analyzer(analyzer), sorted(numbers, key=numbers.__getitem__))

    def load_analyzer(self) -> None:
        analyze(self._vocabulary.analyzer, ["가"])

    def preprocess(self, inputs: list[str], prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """Return the concatenated token ids of all texts, and the offset of each text."""
        del prompt, kwargs  # a bag of tokens has no use for a prompt
        ids = self._vocabulary.distinct(inputs)
        return {
            "input_ids": torch.tensor(list(chain.from_iterable(ids)), dtype=torch.long),
            "offsets": torch.tensor(list(accumulate((len(text) for text in ids[:-1]), initial=0))),
        }

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        super().save(output_path, *args, safe_serialization=safe_serialization, **kwargs)
        self.save_config(output_path)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> Self:
        plain = StaticEmbedding.load(model_name_or_path, subfolder=subfolder, **kwargs)
        config = cls.load_config(model_name_or_path, subfolder=subfolder)
        return cls(plain.tokenizer, config["analyzer"], embedding_weights=plain.embedding.weight.data)


def build_bi_encoder(texts: Sequence[str], dimensions: int = 512) -> SentenceTransformer:
    """Build a bi-encoder from the indexed texts of a corpus. Raises `ValueError` for a corpus without a word.

    A token has its LSA vector times its idf, a text the mean over its distinct tokens: under cosine similarity that is
    the text folded into the LSA space.
    """
    analyzer = resolve_analyzer(Analyzer.AUTO, texts)
    tokens, vectors, idf = latent_vectors(tokens_of_some(analyzer, texts), dimensions)
    tokenizer = Tokenizer(WordLevel({token: number for number, token in enumerate(tokens)}))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    module = AnalyzedEmbedding(tokenizer, analyzer.value, embedding_weights=vectors * idf[:, None])
    return SentenceTransformer(modules=[module], similarity_fn_name="cosine", device="cpu")


class KernelPooling(InputModule):
    """K-NRM (Xiong et al. 2017) with separate exact matches and a learned weight for every question term.

    With a_i the weights of the question's terms (idf before training, summing to 1) and M_ij the cosine of term i and
    passage term j, the score of a pair is linear in `sum_i a_i log2(1 + exact matches of i)`, for every centre mu in
    `0.1 sum_i a_i ln(1 + sum_j exp(-(M_ij - mu)^2 / (2 * 0.1^2)))` over the terms that do not match exactly, and in the
    cosine of the weighted sums of both texts' vectors. Higher is more relevant; a logit. Vectors stay frozen.
    """

    config_keys: list[str] = ["analyzer", "dimensions"]

    def __init__(self, vocabulary: Sequence[str], analyzer: str, dimensions: int) -> None:
        super().__init__()
        self.analyzer = analyzer
        self.dimensions = dimensions
        self.vocabulary = Vocabulary(Analyzer(analyzer), vocabulary)
        self.padding = len(self.vocabulary)
        self.vectors = nn.Embedding(self.padding + 1, dimensions)
        self.vectors.weight.requires_grad_(False)
        self.term_weights = nn.Embedding(self.padding + 1, 1)  # logarithms
        self.score = nn.Linear(len(_CENTRES) + 2, 1)

    def preprocess(self, inputs: list[tuple[str, str]], prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """Return padded token ids of question-passage pairs, `(n_pairs, longest)` each."""
        del prompt, kwargs
        # the trainer's model card passes single texts
        pairs = [(pair, "") if isinstance(pair, str) else pair for pair in inputs]
        questions, passages = zip(*pairs, strict=True)
        return {"question_ids": self._padded(questions), "passage_ids": self._padded(passages)}

    def _padded(self, texts: Sequence[str]) -> Tensor:
        ids = self.vocabulary.distinct(texts)
        padded = np.full((len(ids), max(1, *map(len, ids))), self.padding, dtype=np.int64)
        for row, numbers in enumerate(ids):
            padded[row, : len(numbers)] = numbers
        return torch.from_numpy(padded)

    def forward(self, features: dict[str, Tensor], **kwargs: Any) -> dict[str, Tensor]:
        """Add `scores`, logits `(n_pairs, 1)`."""
        del kwargs
        questions = features["question_ids"]
        passages = features["passage_ids"]
        real_question = questions != self.padding
        real_passage = passages != self.padding
        question_vectors = self.vectors(questions)
        passage_vectors = self.vectors(passages)
        question_weights = self.term_weights(questions).squeeze(-1).exp() * real_question
        question_weights = question_weights / question_weights.sum(1, keepdim=True).clamp(min=1e-6)
        passage_weights = self.term_weights(passages).squeeze(-1).exp() * real_passage
        exact = (questions[:, :, None] == passages[:, None, :]) & real_passage[:, None, :]
        soft = real_passage[:, None, :] & ~exact
        cosines = question_vectors @ passage_vectors.transpose(1, 2)
        matches = [torch.log2(1 + exact.sum(-1).float())]
        for centre in _CENTRES:
            kernel = torch.exp(-((cosines - centre) ** 2) / (2 * 0.1**2)) * soft
            matches.append(0.1 * torch.log1p(kernel.sum(-1)))
        pooled = (torch.stack(matches, -1) * question_weights[..., None]).sum(1)
        likeness = torch.cosine_similarity(
            (question_weights[..., None] * question_vectors).sum(1),
            (passage_weights[..., None] * passage_vectors).sum(1),
        )
        features["scores"] = self.score(torch.cat([pooled, likeness[:, None]], dim=1))
        return features

    @property
    def max_seq_length(self) -> int:
        return 2**31 - 1

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        del args, kwargs
        self.save_config(output_path)
        self.save_torch_weights(output_path, safe_serialization=safe_serialization)
        text = json.dumps(self.vocabulary.tokens, ensure_ascii=False)
        Path(output_path, "vocabulary.json").write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> Self:
        del kwargs
        folder = Path(model_name_or_path, subfolder)
        vocabulary = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        module = cls(vocabulary, **cls.load_config(str(folder)))
        cls.load_torch_weights(str(folder), model=module)
        return module


def build_cross_encoder(texts: Sequence[str], dimensions: int = 128) -> CrossEncoder:
    """Build an untrained cross-encoder of a corpus, which ranks by weighted word overlap. Raises `ValueError`."""
    analyzer = resolve_analyzer(Analyzer.AUTO, texts)
    # only morphemes, or only bigrams: a third of the tokens, so ten times the speed
    analyzer = PLAIN_PART.get(analyzer, analyzer)
    tokens, vectors, idf = latent_vectors(tokens_of_some(analyzer, texts), dimensions)
    module = KernelPooling(tokens, analyzer.value, vectors.shape[1])
    with torch.no_grad():
        module.vectors.weight.zero_()
        module.vectors.weight[:-1] = nn.functional.normalize(torch.from_numpy(vectors), dim=1)
        module.term_weights.weight.zero_()
        module.term_weights.weight[:-1, 0] = torch.from_numpy(idf).log()
        # exact matches decide, the similarity of the whole texts helps
        module.score.weight.copy_(torch.tensor([[10.0, *(0.0 for _ in _CENTRES), 1.0]]))
        module.score.bias.fill_(-4.0)
    return CrossEncoder(modules=[module], device="cpu")
