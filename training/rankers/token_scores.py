"""Late-interaction scores of all questions and passages of a batch, in little memory.

A score is the mean over a question's tokens of the best dot product with a token of the passage (MaxSim: Khattab &
Zaharia 2020, divided by the number of the question's tokens). All products of 256 questions of 30 tokens and 32
passages of 400 take 400 MB, and their gradient as much again. But only a question token's best product with a passage
has a gradient: the positions of the best tokens are stored, and products are computed passage by passage.
"""

from typing import Any

import torch
from torch import Tensor

Features = dict[str, Any]


def mean_max_sims(model: Any, questions: Features, passages: Features) -> Tensor:
    """Return the scores of the model's texts, `(n_questions, n_passages)` float32, higher is better.

    `model` is a `MultiVectorEncoder`; tokens that it masks do not count. If all tokens of a text are masked, its first
    one counts.
    """
    question_tokens, question_lengths = _tokens(model(dict(questions), task="query"))
    passage_tokens, passage_lengths = _tokens(model(dict(passages), task="document"))
    with torch.autocast(question_tokens.device.type, enabled=False):
        best = best_products(question_tokens.float(), passage_tokens.float(), passage_lengths)
    counts = torch.tensor(question_lengths, device=best.device)
    question_of = torch.repeat_interleave(torch.arange(len(counts), device=best.device), counts)
    sums = best.new_zeros((len(counts), best.shape[1])).index_add(0, question_of, best)
    return sums / counts[:, None]


def best_products(questions: Tensor, passages: Tensor, lengths: list[int]) -> Tensor:
    """Return each question token's best dot product with a token of each passage, `(n_question_tokens, n_passages)`.

    The tokens of questions and of passages stand one after the other, `(n_tokens, dimensions)`; `lengths` are how many
    each passage has, at least 1. A gradient goes to the best token, of equals to one.
    """
    best: Tensor = _BestProducts.apply(questions, passages, lengths)
    return best


class _BestProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, questions: Tensor, passages: Tensor, lengths: list[int]) -> Tensor:
        values = questions.new_empty((len(questions), len(lengths)))
        positions = torch.empty(values.shape, dtype=torch.int32, device=values.device)
        start = 0
        for column, tokens in enumerate(passages.split(lengths)):
            products, best = (questions @ tokens.T).max(dim=1)
            values[:, column] = products
            positions[:, column] = best + start
            start += len(tokens)
        ctx.save_for_backward(questions, passages, positions)
        return values

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        questions, passages, positions = ctx.saved_tensors
        of_questions, of_passages = torch.zeros_like(questions), torch.zeros_like(passages)
        for column in range(gradient.shape[1]):
            rows, weights = positions[:, column], gradient[:, column, None]
            of_questions += weights * passages[rows]
            of_passages.index_add_(0, rows, weights * questions)
        return of_questions, of_passages, None


def _tokens(outputs: Features) -> tuple[Tensor, list[int]]:
    """Return the vectors of the tokens that count, `(n_tokens, dimensions)`, and how many each text has."""
    mask = outputs["attention_mask"].bool()
    is_empty = ~mask.any(dim=1)
    mask = torch.cat([mask[:, :1] | is_empty[:, None], mask[:, 1:]], dim=1)
    return outputs["token_embeddings"][mask], mask.sum(dim=1).tolist()
