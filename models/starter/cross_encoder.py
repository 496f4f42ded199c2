"""The starter cross-encoder: kernel pooling over token vectors, small enough to train on a CPU in a minute."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sentence_transformers import CrossEncoder
from sentence_transformers.base.modules import InputModule
from torch import Tensor, nn

from models.starter.vocabulary import Vocabulary, latent_vectors, tokens_of_some
from text.analyzers import Analyzer, choose

DIMENSIONS = 128
CENTRES = (0.9, 0.7, 0.5, 0.3, 0.1, -0.1)  # of the soft-match kernels, in cosine
WIDTH = 0.1
# Before training: the share of the question found word for word decides, the whole texts' likeness helps.
_FIRST_WEIGHTS = (10.0, *(0.0 for _ in CENTRES), 1.0)
_FIRST_BIAS = -4.0


class KernelPooling(InputModule):
    """K-NRM (Xiong et al. 2017) with exact match apart and a learned weight for every question term.

    With a_i the weights of the question's terms (idf before training, summing to 1) and M_ij the cosine of term i and
    passage term j, the score of a pair is linear in `sum_i a_i log2(1 + exact matches of i)`, for every centre mu in
    `0.1 sum_i a_i ln(1 + sum_j exp(-(M_ij - mu)^2 / (2 * 0.1^2)))` over the terms that do not match exactly, and in the
    cosine of the weighted sums of both texts' vectors. Higher is more relevant; a logit. Vectors stay frozen.
    """

    config_keys: list[str] = ["analyzer", "dimensions"]

    def __init__(self, vocabulary: Sequence[str], analyzer: str, dimensions: int) -> None:
        super().__init__()
        self.analyzer, self.dimensions = analyzer, dimensions
        self.vocabulary = Vocabulary(Analyzer(analyzer), vocabulary)
        self.padding = len(self.vocabulary)
        self.vectors = nn.Embedding(self.padding + 1, dimensions)
        self.vectors.weight.requires_grad_(False)
        self.term_weights = nn.Embedding(self.padding + 1, 1)  # logarithms
        self.score = nn.Linear(len(CENTRES) + 2, 1)

    def preprocess(self, inputs: list[tuple[str, str]], prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """Padded token numbers of question-passage pairs, `(n_pairs, longest)` each."""
        del prompt, kwargs
        # the trainer's model card counts tokens of one column at a time: single texts
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
        questions, passages = features["question_ids"], features["passage_ids"]
        real_question, real_passage = questions != self.padding, passages != self.padding
        question_vectors, passage_vectors = self.vectors(questions), self.vectors(passages)
        question_weights = self.term_weights(questions).squeeze(-1).exp() * real_question
        question_weights = question_weights / question_weights.sum(1, keepdim=True).clamp(min=1e-6)
        passage_weights = self.term_weights(passages).squeeze(-1).exp() * real_passage
        exact = (questions[:, :, None] == passages[:, None, :]) & real_passage[:, None, :]
        soft = real_passage[:, None, :] & ~exact
        cosines = question_vectors @ passage_vectors.transpose(1, 2)
        matches = [torch.log2(1 + exact.sum(-1).float())]
        for centre in CENTRES:
            kernel = torch.exp(-((cosines - centre) ** 2) / (2 * WIDTH**2)) * soft
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
        """Texts of any length are read whole."""
        return 2**31 - 1

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Save weights (safetensors), vocabulary and configuration."""
        del args, kwargs
        self.save_config(output_path)
        self.save_torch_weights(output_path, safe_serialization=safe_serialization)
        text = json.dumps(self.vocabulary.tokens, ensure_ascii=False)
        Path(output_path, "vocabulary.json").write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> Self:
        """Load what `save` wrote, from a folder."""
        del kwargs
        folder = Path(model_name_or_path, subfolder)
        vocabulary = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        module = cls(vocabulary, **cls.load_config(str(folder)))
        cls.load_torch_weights(str(folder), model=module)
        return module


def build_cross_encoder(texts: Sequence[str], dimensions: int = DIMENSIONS) -> CrossEncoder:
    """Make an untrained cross-encoder of the indexed texts of a corpus. It already ranks: by weighted word overlap.

    Raises `ValueError` for a corpus without a word.
    """
    analyzer = choose(Analyzer.AUTO, texts)
    # morphemes alone: a third of the tokens, so ten times the pairs a second
    analyzer = Analyzer.KIWI if analyzer is Analyzer.KIWI_BIGRAM else analyzer
    tokens, vectors, idf = latent_vectors(tokens_of_some(analyzer, texts), dimensions)
    module = KernelPooling(tokens, analyzer.value, vectors.shape[1])
    with torch.no_grad():
        module.vectors.weight.zero_()
        module.vectors.weight[:-1] = nn.functional.normalize(torch.from_numpy(vectors), dim=1)
        module.term_weights.weight.zero_()
        module.term_weights.weight[:-1, 0] = torch.from_numpy(idf).log()
        module.score.weight.copy_(torch.tensor([_FIRST_WEIGHTS]))
        module.score.bias.fill_(_FIRST_BIAS)
    return CrossEncoder(modules=[module], device="cpu")
