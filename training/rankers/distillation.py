"""Losses by which an encoder learns a teacher's scores of each question's own passages.

A student's score is the cosine of a question and a passage, divided by `temperature`: cosines lie close together, those
of a base such as E5 all above .7, so that a softmax over them as they are would be flat whatever they say. A teacher's
score is its logit, divided by `teacher_temperature`. With `s` and `t` those of a question's passages, the positive's
first:

- MarginMSE (Hofstätter et al. 2020): the mean over questions and negatives of `((s_0 - s_n) - (t_0 - t_n)) ** 2`;
- KL (Lin et al. 2020): the mean over questions of `sum_n p_n * (log p_n - log q_n)` with `p = softmax(t)` and
  `q = softmax(s)`. The library multiplies by the square of its own student temperature, which is 1 here: the scores are
  divided before, so the loss weighs as much as multiple-negatives' does at the same temperature.

A late-interaction encoder learns by KL: its score is the mean over the question's tokens of the best cosine.

With a weight `w` below 1 the loss is `w * taught + (1 - w) * multiple-negatives`, at the same temperature.
"""

from collections.abc import Iterable
from typing import Any

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.base.losses.gradcache import CachedLossMixin
from sentence_transformers.base.losses.merged_forward import embed_columns, embed_columns_padded
from sentence_transformers.multi_vector_encoder.scoring import mean_colbert_kd_scores, mean_colbert_scores
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.util import pairwise_cos_sim, stack_padded_token_embeddings
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from mrc_workbench.training.ranker_options import BiEncoderObjective, BiEncoderOptions, LateOptions


class Distillation(torch.nn.Module):
    """The teacher's loss and that of the batch's negatives, of the same vectors.

    `labels` are the teacher's scores `(n_questions, 1 + n_negatives)`.
    """

    def __init__(self, model: SentenceTransformer, options: BiEncoderOptions, *, gathered: bool = False) -> None:
        super().__init__()
        self.model, self._weight, scale = model, options.distillation_weight, 1 / options.temperature

        def scores(questions: Tensor, passages: Tensor) -> Tensor:
            return pairwise_cos_sim(questions, passages) * scale

        self._taught: Any = (
            losses.MarginMSELoss(model, scores)
            if options.objective is BiEncoderObjective.MARGIN_MSE
            else losses.DistillKLDivLoss(model, scores)
        )
        self._contrasted = losses.MultipleNegativesRankingLoss(model, scale, gather_across_devices=gathered)
        self._teacher_temperature = options.teacher_temperature

    def forward(self, features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        return self._of(embed_columns(self.model, features), labels)

    def _of(self, vectors: list[Tensor], labels: Tensor) -> Tensor:
        loss: Tensor = self._taught.compute_loss_from_embeddings(vectors, labels / self._teacher_temperature)
        if self._weight == 1:
            return loss
        contrasted = self._contrasted.compute_loss_from_embeddings(vectors, labels)
        return self._weight * loss + (1 - self._weight) * contrasted


class CachedDistillation(CachedLossMixin, Distillation):
    """The same, with texts encoded in parts of `mini_batch_size` (Gao et al. 2021)."""

    def __init__(self, model: SentenceTransformer, options: BiEncoderOptions, *, gathered: bool = False) -> None:
        super().__init__(model, options, gathered=gathered)
        self.mini_batch_size = options.mini_batch_size

    def forward(self, features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        return self.forward_cached(features, labels)

    def calculate_loss(self, reps: list[list[Tensor]], labels: Any = None, *, with_backward: bool = False) -> Tensor:
        """Return the loss of vectors that come in parts; the graph ends with it where `with_backward`."""
        loss = self._of([torch.cat(parts) for parts in reps], labels)
        if with_backward:
            loss.backward()
        return loss.detach() if with_backward else loss


class LateDistillation(torch.nn.Module):
    """The same of late interaction, of one pass over all texts; the teacher's loss is KL.

    `labels` are the teacher's scores `(n_questions, 1 + n_negatives)`.
    """

    def __init__(self, model: MultiVectorEncoder, options: LateOptions) -> None:
        super().__init__()
        self.model, self._options = model, options

    def forward(self, features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        asked, *shown = [dict(one) for one in features]
        questions = self.model(asked, task="query")
        vectors, masks = embed_columns_padded(self.model, shown, None, task_default="document")
        stacked, mask = stack_padded_token_embeddings(vectors, masks)
        told = (questions["token_embeddings"], stacked, questions["attention_mask"].bool(), mask)
        own = mean_colbert_kd_scores(*told) / self._options.temperature
        wanted = log_softmax(labels / self._options.teacher_temperature, dim=-1)
        loss = kl_div(log_softmax(own, dim=-1), wanted, reduction="batchmean", log_target=True)
        if (weight := self._options.distillation_weight) == 1:
            return loss
        every = mean_colbert_scores(*told) / self._options.temperature
        right = torch.arange(len(every), device=every.device) * stacked.shape[1]  # each question's passages together
        return weight * loss + (1 - weight) * cross_entropy(every, right)
