"""A transformer of plain transformers that is trained as models of sentence-transformers are, row by row of losses.

It has its transformer in the first module, so that what is done to those is done to it: precision, frozen layers,
adapters, passes of like length.
"""

from pathlib import Path
from typing import Any

import torch

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
