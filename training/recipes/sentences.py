"""The recipes of sentences: an encoder whose cosines say how alike two are, and a cross-encoder that reads both."""

from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from mrc_workbench.data.pairs import Label, PairSet
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.loading import load_bi_encoder, load_cross_encoder, prompts_of
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, DEFAULT_CROSS_ENCODER, ModelSource, is_starter
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.training.base import (
    Columns,
    Examples,
    HeldOut,
    Recipe,
    Task,
    Teacher,
    finished,
    processes,
    seconds_for,
)
from mrc_workbench.training.engine.adaptation import (
    adapt,
    drop_no_attention,
    forget,
    live_bi_encoder,
    live_scorer,
    pool_sentences,
)
from mrc_workbench.training.options import AttentionDropout, OptionError, TrainingError
from mrc_workbench.training.recipes.sentence_material import (
    ACCURACY,
    PAIRS,
    Judgement,
    PairMaterial,
    PairMeasurement,
    TeachersVectors,
    encoder_examples,
    judgement,
    labelled_pairs,
)
from mrc_workbench.training.text_options import (
    ALONE,
    SENTENCE_CROSS_ENCODER,
    SENTENCES,
    CrossSentenceObjective,
    SentenceCrossEncoderOptions,
    SentenceObjective,
    SentenceOptions,
)


class SentenceRecipe(Recipe[SentenceOptions, PairMaterial]):
    """How a sentence encoder is trained."""

    kind = SENTENCES
    family = PAIRS
    options = SentenceOptions
    base = DEFAULT_BI_ENCODER
    measure = "spearman"
    colour = PALETTE[1]  # of Dense on the other pages

    searched = ("Dense", partial(DenseSpec, windows=True))

    def measured(self, source: ModelSource) -> PairMeasurement:
        return self._measured(BiEncoder(source, self._material.texts, precision=self._options.precision))

    def task(self, source: ModelSource) -> Task:
        if is_starter(source):
            raise OptionError("base", "starter_sentences", "base must be a transformer: a starter knows only words")
        material, options = self._material, self._options
        if options.objective in ALONE and processes() > 1:
            message = f"objective {options.objective} learns weights of its own, which several processes do not share"
            raise OptionError("objective", "one_process", message)
        columns, examples = encoder_examples(options, material.train)
        model = load_bi_encoder(source, material.texts)
        pool_sentences(model, options.pooling)
        loss = sentence_loss(model, options, processes=processes())
        settled = adapt(model, options)
        if settled.get("attention_dropout") == AttentionDropout.NONE and hasattr(loss, "decoder"):
            drop_no_attention(loss.decoder)
        if options.objective is SentenceObjective.SIMCSE_UNSUPERVISED:
            forget(model, options.dropout)
        prompt, _ = prompts_of(model)
        held_out = self._held_out(model)
        material.require_judge(held_out)
        return Task(
            model=model,
            loss=loss,
            columns=columns,
            examples=examples,
            measure=lambda trained: self._measured(self._live(trained)),
            prompts={name: prompt for name in columns if name != "label"},
            settled=settled | {"best_by": material.judged_by},
            teacher=self._teacher(model, material.train),
            held_out=held_out,
            best_by=material.judged_by,
        )

    def seconds_to_measure(self, model: Any) -> float:
        encoder, asked = self._live(model), [self._material.judged, self._material.sampled]
        sentences = [sentence for distinct in asked if distinct for sentence in distinct.sentences]
        return seconds_for(encoder.encode_sentences, sorted(sentences, key=len))

    def _measured(self, encoder: BiEncoder) -> PairMeasurement:
        material = self._material
        vectors = encoder.encode_sentences(material.judged.sentences)
        judged = judgement(material.judge, material.judged, vectors, material.measure)
        learned = None
        if material.sample and material.sampled:
            vectors = encoder.encode_sentences(material.sampled.sentences)
            learned = judgement(material.sample, material.sampled, vectors, material.measure)
        return PairMeasurement(judged, learned, judge=material.judge.fingerprint)

    def _held_out(self, model: Any) -> HeldOut | None:
        """Examples of the validation part, whose loss is read; None for several processes, that see other negatives."""
        pairs = self._material.validation
        if processes() > 1 or len(pairs) < 2:  # a teacher need not be loaded
            return None
        try:
            columns, examples = encoder_examples(self._options, pairs)
        except TrainingError:  # no triples
            return None
        return HeldOut.of(columns, examples, teacher=self._teacher(model, pairs))

    def _teacher(self, model: Any, pairs: PairSet) -> Teacher | None:
        options = self._options
        if options.objective is not SentenceObjective.DISTILLATION:
            return None
        return TeachersVectors(options.teacher, pairs, model.get_embedding_dimension(), options.precision)

    def _live(self, model: Any) -> BiEncoder:
        return live_bi_encoder(model, self._options, self._material.texts)


class SentenceCrossEncoderRecipe(Recipe[SentenceCrossEncoderOptions, PairMaterial]):
    """How a cross-encoder of sentences is trained."""

    kind = SENTENCE_CROSS_ENCODER
    family = PAIRS
    options = SentenceCrossEncoderOptions
    base = DEFAULT_CROSS_ENCODER
    measure = "spearman"
    colour = PALETTE[3]  # of Reranked on the other pages

    @property
    def _labels(self) -> int:
        return len(Label) if self._options.objective is CrossSentenceObjective.CROSS_ENTROPY else 1

    def measured(self, source: ModelSource) -> PairMeasurement:
        """Measure a model on the pairs that judge it; a base without a head of this size has the one drawn for it."""
        scorer = self._scorer(source)
        scorer.model = self._loaded(source)
        return self._measured(scorer)

    def task(self, source: ModelSource) -> Task:
        if is_starter(source):
            raise OptionError("base", "starter_sentences", "base must be a transformer: a starter knows only words")
        material = self._material
        model = self._loaded(source)
        columns, examples = self._examples(material.train)
        settled = adapt(model, self._options)
        held_out = HeldOut.of(*self._examples(material.validation))
        material.require_judge(held_out)
        return Task(
            model=model,
            loss=cross_sentence_loss(model, self._options.objective),
            columns=columns,
            examples=examples,
            measure=lambda trained: self._measured(live_scorer(trained, self._options, [], self._labels)),
            settled=settled | {"best_by": material.judged_by},
            held_out=held_out,
            best_by=material.judged_by,
        )

    def concluded(self, model_folder: Path) -> tuple[dict[str, PairMeasurement], dict[str, Any]]:
        return {"after": self._measured(self._scorer(finished(model_folder)))}, {}

    def seconds_to_measure(self, model: Any) -> float:
        scorer = live_scorer(model, self._options, [], self._labels)
        asked = [pair for pairs in (self._material.judge, self._material.sample) if pairs for pair in _pairs(pairs)]
        return seconds_for(scorer.score, sorted(asked, key=lambda pair: len(pair[0]) + len(pair[1])))

    def _examples(self, pairs: PairSet) -> tuple[Columns, Examples]:
        return labelled_pairs(pairs, pairs.values if self._labels > 1 else pairs.gold)

    def _loaded(self, source: ModelSource) -> Any:
        from torch.nn import Identity, Sigmoid

        model = load_cross_encoder(source, [], self._labels, new_head=True, resized=True)
        # what it says when it is used: logits of labels, and scores between 0 and 1
        model.activation_fn = Identity() if self._labels > 1 else Sigmoid()
        if self._labels > 1:
            model.config.id2label = {label.value: label.name.lower() for label in Label}
            model.config.label2id = {name: number for number, name in model.config.id2label.items()}
        return model

    def _measured(self, scorer: CrossEncoderScorer) -> PairMeasurement:
        judged = self._judgement(scorer, self._material.judge)
        sample = self._material.sample
        learned = self._judgement(scorer, sample) if sample else None
        return PairMeasurement(judged, learned, judge=self._material.judge.fingerprint)

    def _judgement(self, scorer: CrossEncoderScorer, pairs: PairSet) -> Judgement:
        scores = scorer.score(_pairs(pairs))
        if self._material.measure == ACCURACY:
            return Judgement(ACCURACY, scores.argmax(axis=1).astype(np.int8), pairs.values)
        return Judgement(self._material.measure, scores, pairs.gold.astype(np.float32))

    def _scorer(self, source: ModelSource) -> CrossEncoderScorer:
        return CrossEncoderScorer(source, [], precision=self._options.precision, labels=self._labels)


def _pairs(pairs: PairSet) -> list[tuple[str, str]]:
    first, second = pairs.texts
    return list(zip(first, second, strict=True))


def sentence_loss(model: Any, options: SentenceOptions, *, processes: int = 1) -> Any:
    """Return the loss module of an objective. Raises `OptionError` if no decoder can be made of the base.

    TSDAE's loss ties the encoder's weights to its decoder's, so it is made before any are frozen.
    """
    from sentence_transformers.sentence_transformer import losses

    match options.objective:
        case SentenceObjective.NLI_SOFTMAX:
            both, difference, product = options.concatenation.parts
            loss: Any = losses.SoftmaxLoss(
                model,
                model.get_embedding_dimension(),
                len(Label),
                concatenation_sent_rep=both,
                concatenation_sent_difference=difference,
                concatenation_sent_multiplication=product,
            )
        case SentenceObjective.COSINE:
            loss = losses.CosineSimilarityLoss(model)
        case SentenceObjective.COSENT:
            loss = losses.CoSENTLoss(model, scale=options.scale)
        case SentenceObjective.TRIPLET:
            metric = losses.TripletDistanceMetric.COSINE
            loss = losses.TripletLoss(model, distance_metric=metric, triplet_margin=options.triplet_margin)
        case SentenceObjective.SIMCSE_UNSUPERVISED | SentenceObjective.SIMCSE_SUPERVISED:
            loss = losses.MultipleNegativesRankingLoss(
                model, scale=1 / options.temperature, gather_across_devices=processes > 1
            )
        case SentenceObjective.DISTILLATION:
            loss = losses.MSELoss(model)
        case SentenceObjective.TSDAE:
            _require_decoder(model, options.base)
            loss = losses.DenoisingAutoEncoderLoss(model).float()
    return loss


def cross_sentence_loss(model: Any, objective: CrossSentenceObjective) -> Any:
    """Return the loss module of a cross-encoder's objective; gold scores are learned behind a sigmoid."""
    from sentence_transformers.cross_encoder import losses
    from torch.nn import Sigmoid

    match objective:
        case CrossSentenceObjective.BINARY_CROSS_ENTROPY:
            return losses.BinaryCrossEntropyLoss(model)
        case CrossSentenceObjective.MSE:
            return losses.MSELoss(model, Sigmoid())
        case CrossSentenceObjective.CROSS_ENTROPY:
            return losses.CrossEntropyLoss(model)


def _require_decoder(model: Any, base: str) -> None:
    """Raise `OptionError` where the library has no decoder of the base's architecture that reads a vector."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    decoder = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    if decoder is None or "encoder_hidden_states" not in signature(decoder.forward).parameters:
        message = f"objective tsdae needs a base that can be a decoder, such as BERT or RoBERTa, and {base} is none"
        raise OptionError("objective", "no_decoder", message)
