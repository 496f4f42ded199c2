"""The losses of rankers: those of the library, late interaction in little memory, shared passages and distillation.

**Late interaction.** A score is the mean over a question's tokens of the best dot product with a token of the passage
(MaxSim: Khattab & Zaharia 2020, divided by the number of the question's tokens). All products of 256 questions of 30
tokens and 32 passages of 400 take 400 MB, and their gradient as much again. But only a question token's best product
with a passage has a gradient: its position is stored, and products are computed passage by passage.

**Shared passages.** For a question `q` with the passage `p(q)`, and `P` the distinct passages of the batch, the loss is
the mean over questions of `-log(exp(s(q, p(q))) / sum over p in P of exp(s(q, p)))` with `s = score / temperature`:
InfoNCE (van den Oord et al. 2018), each passage encoded once. It is the loss of `MultipleNegativesRankingLoss` or
`MultiVectorMultipleNegativesRankingLoss`, of which no batch may hold a passage twice. With a weight `w` of the mix
above 0 it is `(1 - w) * InfoNCE + w * KL(t || softmax(s))`, with `t` the softmax over `P` of the mix's z-scores divided
by `MIX_TEMPERATURE`; passages that are no candidates of the question have `t = 0`.

**Distillation.** A student's score is the cosine of a question and a passage, divided by `temperature`: cosines lie
close together, those of a base such as E5 all above .7, so that a softmax over them as they are would be flat. A
teacher's score is its logit, divided by `teacher_temperature`. With `s` and `t` those of a question's passages, the
positive's first:

- MarginMSE (Hofstätter et al. 2020): the mean over questions and negatives of `((s_0 - s_n) - (t_0 - t_n)) ** 2`;
- KL (Lin et al. 2020): the mean over questions of `sum_n p_n * (log p_n - log q_n)` with `p = softmax(t)` and
  `q = softmax(s)`. The library multiplies by the square of its student temperature, which is 1 here: the scores are
  divided before, so the loss has the same scale as that of multiple-negatives at the same temperature.

A late-interaction encoder learns by KL. With a weight `w` below 1, the loss is `w * distillation + (1 - w) *
multiple-negatives`, at the same temperature.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.base.losses.gradcache import CachedLossMixin
from sentence_transformers.base.losses.merged_forward import embed_columns, embed_columns_padded
from sentence_transformers.cross_encoder import losses as cross_encoder_losses
from sentence_transformers.multi_vector_encoder.losses import MultiVectorMultipleNegativesRankingLoss
from sentence_transformers.multi_vector_encoder.scoring import mean_colbert_kd_scores, mean_colbert_scores
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sparse_encoder import losses as sparse_losses
from sentence_transformers.util import pairwise_cos_sim, stack_padded_token_embeddings
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax, normalize, softmax

from mrc_workbench.models.loading import load_bi_encoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.base import processes
from mrc_workbench.training.engine.adaptation import has_routes
from mrc_workbench.training.options import TrainingOptions
from mrc_workbench.training.ranker_options import (
    DISTILLATION_OBJECTIVES,
    BiEncoderObjective,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
    LateObjective,
    LateOptions,
    SparseEncoderOptions,
)
from mrc_workbench.training.recipes.training_data import TrainingData
from mrc_workbench.training.text_options import SentenceOptions

Features = dict[str, Any]


def mean_max_sims(model: Any, questions: Features, passages: Features) -> Tensor:
    """Return a `MultiVectorEncoder`'s scores, `(n_questions, n_passages)` float32, without masked tokens."""
    question_tokens, question_lengths = _tokens(model(dict(questions), task="query"))
    passage_tokens, passage_lengths = _tokens(model(dict(passages), task="document"))
    with torch.autocast(question_tokens.device.type, enabled=False):
        best = best_products(question_tokens.float(), passage_tokens.float(), passage_lengths)
    counts = torch.tensor(question_lengths, device=best.device)
    question_of = torch.repeat_interleave(torch.arange(len(counts), device=best.device), counts)
    sums = best.new_zeros((len(counts), best.shape[1])).index_add(0, question_of, best)
    return sums / counts[:, None]


def best_products(questions: Tensor, passages: Tensor, lengths: list[int]) -> Tensor:
    """Return each question token's best dot product with each passage, `(n_question_tokens, n_passages)`."""
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
        of_questions = torch.zeros_like(questions)
        of_passages = torch.zeros_like(passages)
        for column in range(gradient.shape[1]):
            rows = positions[:, column]
            weights = gradient[:, column, None]
            of_questions += weights * passages[rows]
            of_passages.index_add_(0, rows, weights * questions)
        return of_questions, of_passages, None


def _tokens(outputs: Features) -> tuple[Tensor, list[int]]:
    """Return the vectors of the tokens that count, `(n_tokens, dimensions)`, and how many each text has."""
    mask = outputs["attention_mask"].bool()
    is_empty = ~mask.any(dim=1)
    mask = torch.cat([mask[:, :1] | is_empty[:, None], mask[:, 1:]], dim=1)
    return outputs["token_embeddings"][mask], mask.sum(dim=1).tolist()


MIX_TEMPERATURE = 0.4  # of z-scores

Scores = Callable[[Any, Features, Features], Tensor]  # of a model, questions and passages: (n_questions, n_passages)


def cosines(model: Any, questions: Features, passages: Features) -> Tensor:
    """Return the cosines of a bi-encoder's vectors, `(n_questions, n_passages)` float32."""
    question_vectors = normalize(model(dict(questions))["sentence_embedding"].float(), dim=-1)
    passage_vectors = normalize(model(passages)["sentence_embedding"].float(), dim=-1)
    return question_vectors @ passage_vectors.T


class SharedPassagesLoss(torch.nn.Module):
    """The loss of questions and one passage each, which several questions of the batch can share."""

    def __init__(self, model: Any, temperature: float, mix_loss_weight: float = 0.0, scores: Scores = cosines) -> None:
        super().__init__()
        self.model = model
        self._scores = scores
        self._temperature = temperature
        self._mix_weight = mix_loss_weight

    def forward(self, features: Iterable[Features], labels: Tensor | None = None) -> Tensor:
        """Return the loss of questions and passages; the same row of both holds a pair."""
        question_features, passage_features = features
        distinct, first, passage_of = distinct_rows(passage_features)
        scores = self._scores(self.model, question_features, distinct) / self._temperature
        loss = cross_entropy(scores, passage_of)
        if labels is None or not self._mix_weight:
            return loss
        target = mix_probabilities(labels, labels[first, 0])
        mix_loss = kl_div(log_softmax(scores, dim=1), target, reduction="batchmean")
        return (1 - self._mix_weight) * loss + self._mix_weight * mix_loss


def mix_probabilities(labels: Tensor, passages: Tensor) -> Tensor:
    """Return the mix's probability of each of the batch's `passages`, `(n_questions, n_passages)`."""
    candidates, scores = labels[:, 1:].float().chunk(2, dim=1)
    matches = candidates[:, :, None] == passages[None, None, :].float()
    is_candidate = matches.any(dim=1)
    mix_scores = (matches * scores[:, :, None]).sum(dim=1)
    return softmax((mix_scores / MIX_TEMPERATURE).masked_fill(~is_candidate, -torch.inf), dim=1)


def distinct_rows(features: Features) -> tuple[Features, list[int], Tensor]:
    """Return the features of the distinct texts, the first row of each, and the number of each row's text."""
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


class Distillation(torch.nn.Module):
    """The teacher's loss and the loss of in-batch negatives; `labels` are `(n_questions, 1 + n_negatives)`."""

    def __init__(self, model: SentenceTransformer, options: BiEncoderOptions, *, gathers: bool = False) -> None:
        super().__init__()
        self.model = model
        self._weight = options.distillation_weight
        scale = 1 / options.temperature

        def scores(questions: Tensor, passages: Tensor) -> Tensor:
            return pairwise_cos_sim(questions, passages) * scale

        is_margin_mse = options.objective is BiEncoderObjective.MARGIN_MSE
        teacher_loss = losses.MarginMSELoss if is_margin_mse else losses.DistillKLDivLoss
        self._teacher_loss: Any = teacher_loss(model, scores)
        self._in_batch_loss = losses.MultipleNegativesRankingLoss(model, scale, gather_across_devices=gathers)
        self._teacher_temperature = options.teacher_temperature

    def forward(self, features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        return self._loss_of_vectors(embed_columns(self.model, features), labels)

    def _loss_of_vectors(self, vectors: list[Tensor], labels: Tensor) -> Tensor:
        loss: Tensor = self._teacher_loss.compute_loss_from_embeddings(vectors, labels / self._teacher_temperature)
        if self._weight == 1:
            return loss
        in_batch_loss = self._in_batch_loss.compute_loss_from_embeddings(vectors, labels)
        return self._weight * loss + (1 - self._weight) * in_batch_loss


class CachedDistillation(CachedLossMixin, Distillation):
    """Distillation with texts encoded in parts of `mini_batch_size` (Gao et al. 2021)."""

    def __init__(self, model: SentenceTransformer, options: BiEncoderOptions, *, gathers: bool = False) -> None:
        super().__init__(model, options, gathers=gathers)
        self.mini_batch_size = options.mini_batch_size

    def forward(self, features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        return self.forward_cached(features, labels)

    def calculate_loss(self, reps: list[list[Tensor]], labels: Any = None, *, with_backward: bool = False) -> Tensor:
        """Return the loss of vectors in parts; `with_backward` computes gradients and detaches it."""
        loss = self._loss_of_vectors([torch.cat(parts) for parts in reps], labels)
        if with_backward:
            loss.backward()
        return loss.detach() if with_backward else loss


class LateDistillation(torch.nn.Module):
    """Distillation of late interaction by KL, in one pass over all texts."""

    def __init__(self, model: MultiVectorEncoder, options: LateOptions) -> None:
        super().__init__()
        self.model = model
        self._options = options

    def forward(self, features: Iterable[dict[str, Tensor]], labels: Tensor) -> Tensor:
        question_features, *passage_features = [dict(column) for column in features]
        questions = self.model(question_features, task="query")
        vectors, masks = embed_columns_padded(self.model, passage_features, None, task_default="document")
        stacked, mask = stack_padded_token_embeddings(vectors, masks)
        tokens = (questions["token_embeddings"], stacked, questions["attention_mask"].bool(), mask)
        student_scores = mean_colbert_kd_scores(*tokens) / self._options.temperature
        teacher = log_softmax(labels / self._options.teacher_temperature, dim=-1)
        loss = kl_div(log_softmax(student_scores, dim=-1), teacher, reduction="batchmean", log_target=True)
        if (weight := self._options.distillation_weight) == 1:
            return loss
        batch_scores = mean_colbert_scores(*tokens) / self._options.temperature
        # a question's passages are adjacent, its positive is the first
        targets = torch.arange(len(batch_scores), device=batch_scores.device) * stacked.shape[1]
        return weight * loss + (1 - weight) * cross_entropy(batch_scores, targets)


def negatives_of_processes(options: TrainingOptions) -> str:
    """Return which negatives an objective uses with several processes.

    `gathered`: the passages of all processes; the loss equals that of one process with the same batch. `own`: only
    those of the process's part of the batch. `none`: the objective has no in-batch negatives.
    """
    if isinstance(options, SparseEncoderOptions):
        return "gathered"
    if isinstance(options, SentenceOptions):
        return "gathered" if options.uses_in_batch_negatives else "none"
    if isinstance(options, LateOptions) and options.uses_in_batch_negatives:
        return "gathered" if options.objective is LateObjective.MULTIPLE_NEGATIVES else "own"
    if not isinstance(options, BiEncoderOptions) or not options.uses_in_batch_negatives:
        return "none"
    gathering_objectives = (BiEncoderObjective.MULTIPLE_NEGATIVES, BiEncoderObjective.GIST, *DISTILLATION_OBJECTIVES)
    return "gathered" if options.objective in gathering_objectives else "own"


def encoder_loss(model: Any, options: BiEncoderOptions | LateOptions | SparseEncoderOptions, data: TrainingData) -> Any:
    """Return the loss module of an encoder's objective."""
    if isinstance(options, BiEncoderOptions):
        return bi_encoder_loss(model, options, data, processes=processes())
    if isinstance(options, LateOptions):
        return late_loss(model, options, processes=processes())
    return sparse_encoder_loss(model, options, processes=processes())


def bi_encoder_loss(model: Any, options: BiEncoderOptions, data: TrainingData, *, processes: int = 1) -> Any:
    """Return the loss module; Matryoshka (Kusupati et al. 2022) adds the same loss over the first dimensions."""
    parts = {"mini_batch_size": options.mini_batch_size} if options.mini_batch_size else {}
    gather_settings = {"gather_across_devices": processes > 1}
    match options.objective:
        case BiEncoderObjective.MEGA_BATCH_MARGIN:
            loss = losses.MegaBatchMarginLoss(
                model,
                positive_margin=options.positive_margin,
                negative_margin=options.negative_margin,
                use_mini_batched_version=bool(parts),
                **parts,
            )
        case BiEncoderObjective.MULTIPLE_NEGATIVES:
            if options.shares_passages and processes == 1:
                loss = SharedPassagesLoss(model, options.temperature, options.mix_loss_weight)
            else:
                loss_class = losses.CachedMultipleNegativesRankingLoss if parts else losses.MultipleNegativesRankingLoss
                loss = loss_class(model, scale=1 / options.temperature, **gather_settings, **parts)
        case BiEncoderObjective.GIST:
            guide = load_bi_encoder(find_model(options.guide or options.base), data.texts)
            gist_loss_class = losses.CachedGISTEmbedLoss if parts else losses.GISTEmbedLoss
            loss = gist_loss_class(model, guide, temperature=options.temperature, **gather_settings, **parts)
        case BiEncoderObjective.TRIPLET:
            metric = losses.TripletDistanceMetric.COSINE
            loss = losses.TripletLoss(model, distance_metric=metric, triplet_margin=options.triplet_margin)
        case BiEncoderObjective.MARGIN_MSE | BiEncoderObjective.KL:
            distillation = CachedDistillation if parts else Distillation
            loss = distillation(model, options, gathers=processes > 1)
    if shorter := options.matryoshka_dimensions:
        full_dimension = int(model.get_embedding_dimension())
        sizes = [full_dimension, *(size for size in shorter if size < full_dimension)]
        loss = losses.MatryoshkaLoss(model, loss, sizes)
    return loss


def late_loss(model: Any, options: LateOptions, *, processes: int = 1) -> Any:
    """Return the loss module of a late-interaction encoder's objective."""
    if options.objective is LateObjective.KL:
        return LateDistillation(model, options)
    if options.shares_passages and processes == 1:
        return SharedPassagesLoss(model, options.temperature, scores=mean_max_sims)
    settings = {"scale": 1 / options.temperature, "gather_across_devices": processes > 1}
    return MultiVectorMultipleNegativesRankingLoss(model, similarity_fct=mean_colbert_scores, **settings)


def sparse_encoder_loss(model: Any, options: SparseEncoderOptions, *, processes: int = 1) -> Any:
    """Return SPLADE's loss: multiple negatives by dot products, and the FLOPS (Paria et al. 2020) of both sides."""
    settings = {"scale": 1 / options.temperature, "gather_across_devices": processes > 1}
    ranking = sparse_losses.SparseMultipleNegativesRankingLoss(model, similarity_fct=_exact_dot, **settings)
    parts = {"mini_batch_size": options.mini_batch_size} if options.mini_batch_size else {}
    loss_class = sparse_losses.CachedSpladeLoss if parts else sparse_losses.SpladeLoss
    return loss_class(
        model,
        ranking,
        document_regularizer_weight=options.passage_regularizer,
        query_regularizer_weight=None if has_routes(model) else options.question_regularizer,
        **parts,
    )


def _exact_dot(questions: Any, passages: Any) -> Any:
    """Return dot products in float32: bfloat16 has no numbers between 20 and 20.125."""
    with torch.autocast(questions.device.type, enabled=False):
        return questions.float() @ passages.float().T


def cross_encoder_loss(model: Any, options: CrossEncoderOptions) -> Any:
    """Return the loss module of a cross-encoder's objective."""
    match options.objective:
        case CrossEncoderObjective.BINARY_CROSS_ENTROPY:
            return cross_encoder_losses.BinaryCrossEntropyLoss(model)
        case CrossEncoderObjective.MARGIN_MSE:
            return cross_encoder_losses.MarginMSELoss(model)
        case CrossEncoderObjective.LAMBDA:
            return cross_encoder_losses.LambdaLoss(model, mini_batch_size=-1)
        case CrossEncoderObjective.RANKNET:
            return cross_encoder_losses.RankNetLoss(model, mini_batch_size=-1)
        case CrossEncoderObjective.LISTNET:
            return cross_encoder_losses.ListNetLoss(model, mini_batch_size=-1)
