"""Multiple-negatives ranking over the distinct passages of a batch, each of which is encoded once.

For a question `q` with the passage `p(q)`, and `P` the distinct passages of the batch, the loss is the mean over
questions of `-log(exp(s(q, p(q))) / sum over p in P of exp(s(q, p)))` with `s = score / temperature`: InfoNCE (van den
Oord et al. 2018). Scores are cosines of a bi-encoder's vectors, or those of late interaction. The loss is that of
`MultipleNegativesRankingLoss` or `MultiVectorMultipleNegativesRankingLoss`, of which no batch may hold a passage twice.

With a weight `w` of the mix above 0 it is `(1 - w) * InfoNCE + w * KL(t || softmax(s))`, with `t` the softmax over `P`
of the mix's z-scores divided by `MIX_TEMPERATURE`; passages that are no candidates of the question have `t = 0`.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax, normalize, softmax

MIX_TEMPERATURE = 0.4  # of z-scores

Features = dict[str, Any]
Scores = Callable[[Any, Features, Features], Tensor]  # of a model, questions and passages: (n_questions, n_passages)


def cosines(model: Any, questions: Features, passages: Features) -> Tensor:
    """Return the cosines of a bi-encoder's vectors, `(n_questions, n_passages)` float32."""
    question_vectors = normalize(model(dict(questions))["sentence_embedding"].float(), dim=-1)
    passage_vectors = normalize(model(passages)["sentence_embedding"].float(), dim=-1)
    return question_vectors @ passage_vectors.T


class SharedPassagesLoss(torch.nn.Module):
    """The loss of questions and of one passage each, which other questions of the batch may have, too.

    `scores` computes how well questions and passages fit, higher is better. `mix_weight` is the weight of the mix's
    scores, which are read from labels as of `training.rankers.mix_teacher`.
    """

    def __init__(self, model: Any, temperature: float, mix_weight: float = 0.0, scores: Scores = cosines) -> None:
        super().__init__()
        self.model = model
        self._scores = scores
        self._temperature = temperature
        self._mix_weight = mix_weight

    def forward(self, features: Iterable[Features], labels: Tensor | None = None) -> Tensor:
        """Return the loss of questions and passages, the tokens of a pair in one row of each."""
        question_features, passage_features = features
        distinct, first, passage_of = distinct_rows(passage_features)
        scores = self._scores(self.model, question_features, distinct) / self._temperature
        loss = cross_entropy(scores, passage_of)
        if labels is None or not self._mix_weight:
            return loss
        target = mix_probabilities(labels, labels[first, 0])
        learned = kl_div(log_softmax(scores, dim=1), target, reduction="batchmean")
        return (1 - self._mix_weight) * loss + self._mix_weight * learned


def mix_probabilities(labels: Tensor, passages: Tensor) -> Tensor:
    """The share that the mix gives each of a batch's passages, `(n_questions, n_passages)`.

    `passages` are rows of the corpus, labels `[passage, candidates..., scores...]`. Rows sum to 1: the passage of the
    example is a candidate.
    """
    candidates, scores = labels[:, 1:].float().chunk(2, dim=1)
    same = candidates[:, :, None] == passages[None, None, :].float()
    known = same.any(dim=1)
    mix_scores = (same * scores[:, :, None]).sum(dim=1)
    return softmax((mix_scores / MIX_TEMPERATURE).masked_fill(~known, -torch.inf), dim=1)


def distinct_rows(features: Features) -> tuple[Features, list[int], Tensor]:
    """Return the features of the distinct texts, the first row of each, and which of them each row has."""
    positions: dict[bytes, int] = {}
    first: list[int] = []
    position_of_row: list[int] = []
    rows = torch.where(features["attention_mask"].bool(), features["input_ids"], -1).to("cpu", torch.int32).numpy()
    for row, tokens in enumerate(rows):
        key = tokens.tobytes()
        if key not in positions:
            positions[key] = len(first)
            first.append(row)
        position_of_row.append(positions[key])
    selected = {name: value[first] if isinstance(value, Tensor) else value for name, value in features.items()}
    return selected, first, torch.tensor(position_of_row, device=features["input_ids"].device)
