"""Transformers that are trained as models of sentence-transformers are, row by row, and one that points at answers.

They have their transformer in the first module, so that what is done to those is done to it: precision, frozen layers,
adapters, passes of like length. The latter says of every token how well an answer begins there, and ends there; place
0, the token that stands for the whole, means that there is none (Devlin et al. 2019, 4.3).
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Features = dict[str, Any]


class TransformerModule(torch.nn.Module):
    """A transformer with its tokenizer."""

    def __init__(self, network: Any, tokenizer: Any) -> None:
        super().__init__()
        self.model, self.tokenizer = network, tokenizer

    @property
    def auto_model(self) -> Any:
        """The transformer, as sentence-transformers calls it."""
        return self.model

    def preprocess(self, texts: list[str], **_: Any) -> Features:
        """Tokens of texts that stand alone."""
        return dict(self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt"))


class TrainedNetwork(torch.nn.Sequential):
    """A module that gives a loss for every row; it reads `most` tokens at once."""

    trained_by = "losses"  # what a training step wants of a pass

    def __init__(self, module: TransformerModule, most: int) -> None:
        super().__init__(module)
        self.max_seq_length = most

    @property
    def tokenizer(self) -> Any:
        """The tokenizer."""
        return self[0].tokenizer

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def preprocess(self, texts: list[str], **_: Any) -> Features:
        """Tokens of texts that stand alone."""
        return dict(self[0].preprocess(texts))

    def save_pretrained(self, folder: str, **_: Any) -> None:
        """Save as plain transformers read it: weights as safetensors, and the tokenizer."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        self[0].model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


class SpanModule(TransformerModule):
    """The transformer of `AutoModelForQuestionAnswering` with its tokenizer."""

    def forward(self, features: Features, **_: Any) -> Features:
        """Logits of `starts` and `ends`, `(n_windows, width)` each."""
        names = ("input_ids", "attention_mask", "token_type_ids")
        told = self.model(**{name: features[name] for name in names if name in features})
        return {"starts": told.start_logits, "ends": told.end_logits}


class SpanNetwork(TrainedNetwork):
    """A reader as it is trained: it gives a loss for every window, whose smallest value is 0."""

    def __init__(self, network: Any, tokenizer: Any, most: int) -> None:
        super().__init__(SpanModule(network, tokenizer), most)

    @property
    def has_segments(self) -> bool:
        """Whether it is told which tokens are the question's."""
        return "token_type_ids" in self.tokenizer.model_input_names

    def forward(self, features: Features, **_: Any) -> Features:
        """The loss of every window, `losses` `(n_windows,)`.

        It is the mean of both -log P, of a begin and of an end that are marked in `begins` and `finishes`,
        `(n_windows, width)` bool each; P is a softmax over the places `allowed`. Of several that are marked, any will
        do: P is their sum (Karpukhin et al. 2020 name it the marginal likelihood).
        """
        logits = self[0](features)
        sides = (("starts", "begins"), ("ends", "finishes"))
        losses = [_missed(logits[of], features["allowed"], features[right]) for of, right in sides]
        return {"losses": (losses[0] + losses[1]) / 2}


def log_shares(logits: Tensor, allowed: Tensor) -> Tensor:
    """The logarithm of a softmax over the places allowed; of the others it is minus infinity."""
    return torch.log_softmax(logits.float().masked_fill(~allowed, float("-inf")), dim=-1)


def _missed(logits: Tensor, allowed: Tensor, marked: Tensor) -> Tensor:
    # a finite number instead of infinity: the gradient of what is not allowed must be 0, not undefined
    kept = logits.float().masked_fill(~allowed, torch.finfo(torch.float32).min)
    right = logits.float().masked_fill(~(marked & allowed), torch.finfo(torch.float32).min)
    return torch.logsumexp(kept, dim=-1) - torch.logsumexp(right, dim=-1)
