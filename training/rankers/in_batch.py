"""Multiple-negatives ranking over the distinct passages of a batch, each of which is encoded once.

For a question `q` with the passage `p(q)`, and `P` the distinct passages of the batch, the loss is the mean over
questions of `-log(exp(s(q, p(q))) / sum over p in P of exp(s(q, p)))` with `s = cosine / temperature`: InfoNCE (van den
Oord et al. 2018). It is that of `MultipleNegativesRankingLoss`, of which no batch may hold a passage twice.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

Features = dict[str, Any]


class SharedPassagesLoss(torch.nn.Module):
    """The loss of questions and of one passage each, which other questions of the batch may have, too."""

    def __init__(self, model: Any, temperature: float) -> None:
        super().__init__()
        self.model = model
        self._temperature = temperature

    def forward(self, features: Iterable[Features], labels: Tensor | None = None) -> Tensor:
        """Return the loss of questions and passages, the tokens of a pair in one row of each."""
        del labels
        asked, shown = features
        distinct, passage_of = distinct_rows(shown)
        questions = normalize(self.model(dict(asked))["sentence_embedding"].float(), dim=-1)
        passages = normalize(self.model(distinct)["sentence_embedding"].float(), dim=-1)
        return cross_entropy(questions @ passages.T / self._temperature, passage_of)


def distinct_rows(features: Features) -> tuple[Features, Tensor]:
    """Return the features of the distinct texts in order of first appearance, and the place of each text among them."""
    places: dict[bytes, int] = {}
    first: list[int] = []
    place_of: list[int] = []
    rows = torch.where(features["attention_mask"].bool(), features["input_ids"], -1).to("cpu", torch.int32).numpy()
    for row, tokens in enumerate(rows):
        key = tokens.tobytes()
        if key not in places:
            places[key] = len(first)
            first.append(row)
        place_of.append(places[key])
    chosen = {name: value[first] if isinstance(value, Tensor) else value for name, value in features.items()}
    return chosen, torch.tensor(place_of, device=features["input_ids"].device)
