"""The recipes of trainings on texts: sentence encoders and cross-encoders of sentence pairs, and language models."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from mrc_workbench.data.pairs import Label, PairSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.text.corpora import Corpus, find_corpus
from mrc_workbench.data.workspace import limits, user
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.language import masking
from mrc_workbench.models.loading import load_bi_encoder, load_cross_encoder, prompts_of
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, DEFAULT_CROSS_ENCODER, STARTER, ModelSource, is_starter
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.training import text_options
from mrc_workbench.training.base import (
    Columns,
    Examples,
    Family,
    OnProgress,
    Recipe,
    Task,
    Teacher,
    ValidationExamples,
    estimate_seconds,
    finished_model_source,
    processes,
)
from mrc_workbench.training.engine import adaptation
from mrc_workbench.training.options import AttentionDropout, EmbeddingTable, OptionError, TrainingError
from mrc_workbench.training.recipes import sentence_data
from mrc_workbench.training.recipes.language_data import (
    UNIGRAM,
    LanguageMeasurement,
    LanguageTrainingData,
    MeasuredRows,
)


def _require_transformer(source: ModelSource) -> None:
    if is_starter(source):
        raise OptionError("base", "starter_sentences", "base must be a transformer: a starter knows only words")


class SentenceRecipe(Recipe[text_options.SentenceOptions, sentence_data.PairTrainingData]):
    """The training of a sentence encoder."""

    kind = text_options.SENTENCES
    family = sentence_data.PAIR_FAMILY
    options = text_options.SentenceOptions
    base = DEFAULT_BI_ENCODER
    measure = "spearman"
    colour = PALETTE[1]  # of Dense on the other pages

    retriever_spec = ("Dense", partial(DenseSpec, windows=True))

    def evaluate(self, source: ModelSource) -> sentence_data.PairMeasurement:
        return self._evaluate_encoder(BiEncoder(source, self._data.texts, precision=self._options.precision))

    def build_task(self, source: ModelSource) -> Task:
        _require_transformer(source)
        data = self._data
        options = self._options
        if options.objective in text_options.SINGLE_PROCESS_OBJECTIVES and processes() > 1:
            message = f"objective {options.objective} has weights that several processes do not share"
            raise OptionError("objective", "one_process", message)
        columns, examples = sentence_data.encoder_examples(options, data.train)
        model = load_bi_encoder(source, data.texts)
        adaptation.set_sentence_pooling(model, options.pooling)
        loss = sentence_loss(model, options, processes=processes())
        resolved_options = adaptation.adapt(model, options)
        if resolved_options.get("attention_dropout") == AttentionDropout.NONE and hasattr(loss, "decoder"):
            adaptation.disable_attention_dropout(loss.decoder)
        if options.objective is text_options.SentenceObjective.SIMCSE_UNSUPERVISED:
            adaptation.set_hidden_dropout(model, options.dropout)
        prompt, _ = prompts_of(model)
        held_out = self._make_validation_examples(model)
        data.require_evaluation(held_out)
        return Task(
            model=model,
            loss=loss,
            columns=columns,
            examples=examples,
            evaluate=lambda trained: self._evaluate_encoder(self._wrap_model(trained)),
            prompts={name: prompt for name in columns if name != "label"},
            resolved_options=resolved_options | {"best_by": data.best_by},
            teacher=self._make_teacher(model, data.train),
            held_out=held_out,
            best_by=data.best_by,
        )

    def estimate_evaluation_seconds(self, model: Any) -> float:
        encoder = self._wrap_model(model)
        sentence_sets = [self._data.evaluation_sentences, self._data.sample_sentences]
        sentences = [sentence for distinct in sentence_sets if distinct for sentence in distinct.sentences]
        return estimate_seconds(encoder.encode_sentences, sorted(sentences, key=len))

    def _evaluate_encoder(self, encoder: BiEncoder) -> sentence_data.PairMeasurement:
        data = self._data
        vectors = encoder.encode_sentences(data.evaluation_sentences.sentences)
        sentences = data.evaluation_sentences
        validation = sentence_data.predict_pairs(data.evaluation_pairs, sentences, vectors, data.measure)
        training = None
        if data.sample and data.sample_sentences:
            vectors = encoder.encode_sentences(data.sample_sentences.sentences)
            training = sentence_data.predict_pairs(data.sample, data.sample_sentences, vectors, data.measure)
        return sentence_data.PairMeasurement(validation, training, evaluation_key=data.evaluation_pairs.fingerprint)

    def _make_validation_examples(self, model: Any) -> ValidationExamples | None:
        """Return the examples of the validation loss; None for several processes: their negatives differ."""
        pairs = self._data.validation
        if processes() > 1 or len(pairs) < 2:  # without loading a teacher
            return None
        try:
            columns, examples = sentence_data.encoder_examples(self._options, pairs)
        except TrainingError:  # no triples
            return None
        return ValidationExamples.create_if_usable(columns, examples, teacher=self._make_teacher(model, pairs))

    def _make_teacher(self, model: Any, pairs: PairSet) -> Teacher | None:
        options = self._options
        if options.objective is not text_options.SentenceObjective.DISTILLATION:
            return None
        return sentence_data.TeacherVectors(options.teacher, pairs, model.get_embedding_dimension(), options.precision)

    def _wrap_model(self, model: Any) -> BiEncoder:
        return adaptation.live_bi_encoder(model, self._options, self._data.texts)


class SentenceCrossEncoderRecipe(Recipe[text_options.SentenceCrossEncoderOptions, sentence_data.PairTrainingData]):
    """The training of a cross-encoder of sentences."""

    kind = text_options.SENTENCE_CROSS_ENCODER
    family = sentence_data.PAIR_FAMILY
    options = text_options.SentenceCrossEncoderOptions
    base = DEFAULT_CROSS_ENCODER
    measure = "spearman"
    colour = PALETTE[3]  # of Reranked on the other pages

    @property
    def _label_count(self) -> int:
        return len(Label) if self._options.objective is text_options.CrossSentenceObjective.CROSS_ENTROPY else 1

    def evaluate(self, source: ModelSource) -> sentence_data.PairMeasurement:
        """Evaluate a model; a base without a head of the right size gets a random one."""
        scorer = self._make_scorer(source)
        scorer.model = self._load_model(source)
        return self._evaluate_scorer(scorer)

    def build_task(self, source: ModelSource) -> Task:
        _require_transformer(source)
        data = self._data
        model = self._load_model(source)
        columns, examples = self._make_examples(data.train)
        resolved_options = adaptation.adapt(model, self._options)
        held_out = ValidationExamples.create_if_usable(*self._make_examples(data.validation))
        data.require_evaluation(held_out)
        return Task(
            model=model,
            loss=cross_sentence_loss(model, self._options.objective),
            columns=columns,
            examples=examples,
            evaluate=lambda trained: self._evaluate_scorer(
                adaptation.live_scorer(trained, self._options, [], self._label_count)
            ),
            resolved_options=resolved_options | {"best_by": data.best_by},
            held_out=held_out,
            best_by=data.best_by,
        )

    def evaluate_finished(self, model_folder: Path) -> tuple[dict[str, sentence_data.PairMeasurement], dict[str, Any]]:
        return {"after": self._evaluate_scorer(self._make_scorer(finished_model_source(model_folder)))}, {}

    def estimate_evaluation_seconds(self, model: Any) -> float:
        scorer = adaptation.live_scorer(model, self._options, [], self._label_count)
        pair_sets = (self._data.evaluation_pairs, self._data.sample)
        sentence_pairs = [pair for pairs in pair_sets if pairs for pair in _pairs(pairs)]
        return estimate_seconds(scorer.score, sorted(sentence_pairs, key=lambda pair: len(pair[0]) + len(pair[1])))

    def _make_examples(self, pairs: PairSet) -> tuple[Columns, Examples]:
        return sentence_data.labelled_pairs(pairs, pairs.values if self._label_count > 1 else pairs.gold)

    def _load_model(self, source: ModelSource) -> Any:
        from torch.nn import Identity, Sigmoid

        model = load_cross_encoder(source, [], self._label_count, new_head=True, resized=True)
        # the finished model returns logits of labels, or scores between 0 and 1
        model.activation_fn = Identity() if self._label_count > 1 else Sigmoid()
        if self._label_count > 1:
            model.config.id2label = {label.value: label.name.lower() for label in Label}
            model.config.label2id = {name: number for number, name in model.config.id2label.items()}
        return model

    def _evaluate_scorer(self, scorer: CrossEncoderScorer) -> sentence_data.PairMeasurement:
        validation = self._predict_pairs(scorer, self._data.evaluation_pairs)
        sample = self._data.sample
        training = self._predict_pairs(scorer, sample) if sample else None
        key = self._data.evaluation_pairs.fingerprint
        return sentence_data.PairMeasurement(validation, training, evaluation_key=key)

    def _predict_pairs(self, scorer: CrossEncoderScorer, pairs: PairSet) -> sentence_data.PairPredictions:
        scores = scorer.score(_pairs(pairs))
        if self._data.measure == sentence_data.ACCURACY:
            labels = scores.argmax(axis=1).astype(np.int8)
            return sentence_data.PairPredictions(sentence_data.ACCURACY, labels, pairs.values)
        return sentence_data.PairPredictions(self._data.measure, scores, pairs.gold.astype(np.float32))

    def _make_scorer(self, source: ModelSource) -> CrossEncoderScorer:
        return CrossEncoderScorer(source, [], precision=self._options.precision, labels=self._label_count)


def _pairs(pairs: PairSet) -> list[tuple[str, str]]:
    first, second = pairs.texts
    return list(zip(first, second, strict=True))


def sentence_loss(model: Any, options: text_options.SentenceOptions, *, processes: int = 1) -> Any:
    """Return the loss module; call it before freezing weights. Raises `OptionError` if the base cannot be a decoder."""
    from sentence_transformers.sentence_transformer import losses

    match options.objective:
        case text_options.SentenceObjective.NLI_SOFTMAX:
            has_vectors, has_difference, has_product = options.concatenation.parts
            loss: Any = losses.SoftmaxLoss(
                model,
                model.get_embedding_dimension(),
                len(Label),
                concatenation_sent_rep=has_vectors,
                concatenation_sent_difference=has_difference,
                concatenation_sent_multiplication=has_product,
            )
        case text_options.SentenceObjective.COSINE:
            loss = losses.CosineSimilarityLoss(model)
        case text_options.SentenceObjective.COSENT:
            loss = losses.CoSENTLoss(model, scale=options.scale)
        case text_options.SentenceObjective.TRIPLET:
            metric = losses.TripletDistanceMetric.COSINE
            loss = losses.TripletLoss(model, distance_metric=metric, triplet_margin=options.triplet_margin)
        case text_options.SentenceObjective.SIMCSE_UNSUPERVISED | text_options.SentenceObjective.SIMCSE_SUPERVISED:
            scale = 1 / options.temperature
            loss = losses.MultipleNegativesRankingLoss(model, scale=scale, gather_across_devices=processes > 1)
        case text_options.SentenceObjective.DISTILLATION:
            loss = losses.MSELoss(model)
        case text_options.SentenceObjective.TSDAE:
            _require_decoder(model, options.base)
            loss = losses.DenoisingAutoEncoderLoss(model).float()
    return loss


def cross_sentence_loss(model: Any, objective: text_options.CrossSentenceObjective) -> Any:
    """Return the loss module of a cross-encoder's objective; a sigmoid maps predictions to gold scores."""
    from sentence_transformers.cross_encoder import losses
    from torch.nn import Sigmoid

    match objective:
        case text_options.CrossSentenceObjective.BINARY_CROSS_ENTROPY:
            return losses.BinaryCrossEntropyLoss(model)
        case text_options.CrossSentenceObjective.MSE:
            return losses.MSELoss(model, Sigmoid())
        case text_options.CrossSentenceObjective.CROSS_ENTROPY:
            return losses.CrossEntropyLoss(model)


def _require_decoder(model: Any, base: str) -> None:
    """Raise `OptionError` if the library has no decoder with cross-attention for the base's architecture."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    decoder = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    if decoder is None or "encoder_hidden_states" not in signature(decoder.forward).parameters:
        message = f"objective tsdae needs a base that can be a decoder, such as BERT or RoBERTa, and {base} is none"
        raise OptionError("objective", "no_decoder", message)


class LanguageFamily(Family):
    """Trainings of language models."""

    measures = {masking.GUESSED: "Masked tokens predicted", masking.FOLLOWED: "Next segments predicted"}
    curves = (masking.GUESSED, masking.FOLLOWED)
    tag = "fill-mask"

    def find(self, reference: str) -> Corpus:
        return find_corpus(reference)

    def check(self, data: Corpus, options: text_options.LanguageOptions) -> None:
        if options.tokenizer.strip() and user() and not limits().paths:
            raise OptionError("tokenizer", "server_path", "tokenizer must be empty: users cannot read folders")
        if options.tokenizer.strip() and not (Path(options.tokenizer) / "tokenizer.json").is_file():
            raise OptionError("tokenizer", "no_tokenizer", "tokenizer must name a folder with a tokenizer.json in it")

    def texts(self, data: Corpus, options: text_options.LanguageOptions) -> Sequence[str]:
        return list(islice(data.documents(), 1000))  # enough to detect the language

    def describe(
        self, data: Corpus, split_options: SplitOptions, options: text_options.LanguageOptions
    ) -> dict[str, Any]:
        training_data = LanguageTrainingData.from_corpus(data, split_options, options)
        parts = {f"{part}_documents": count for part, count in training_data.documents.items()}
        total = sum(training_data.documents.values())
        sizes = {"rows": len(training_data.training_rows), "vocabulary": len(training_data.tokenizer)}
        return {"documents": total, "tokens": training_data.tokens, **parts, **sizes}

    def prepare_training_data(self, data: Corpus, plan: Any, on_progress: OnProgress | None) -> LanguageTrainingData:
        return LanguageTrainingData.from_corpus(data, plan.split, plan.options, on_progress)

    def card_rows(self, options: text_options.LanguageOptions, scores: Mapping[str, Any]) -> dict[str, str]:
        return {UNIGRAM: "Token frequency", "before": "The base", "after": "**This model**"}


LANGUAGE_FAMILY: Family = LanguageFamily()


class LanguageRecipe(Recipe[text_options.LanguageOptions, LanguageTrainingData]):
    """The training of a masked language model."""

    kind = text_options.LANGUAGE_MODEL
    family = LANGUAGE_FAMILY
    options = text_options.LanguageOptions
    base = STARTER
    measure = masking.GUESSED
    colour = PALETTE[5]

    def evaluate(self, source: ModelSource) -> LanguageMeasurement:
        return self._evaluate_model(self._load_model(source))

    def build_task(self, source: ModelSource) -> Task:
        options = self._options
        data = self._data
        model = self._load_model(source)
        if model.new_heads and options.lora_rank:
            message = "lora_rank must be 0 for a base without a head: random weights must be trained"
            raise OptionError("lora_rank", "new_model", message)
        if options.base == STARTER and options.embedding_table is EmbeddingTable.AUTO:
            options = replace(options, embedding_table=EmbeddingTable.TRAINED)
        model.pairs_weight = options.pairs_weight
        resolved_options = adaptation.adapt(model, options)
        best_by = (
            masking.LOG_LIKELIHOOD
            if options.best_by is text_options.LanguageBestBy.PERPLEXITY
            else options.best_by.value
        )
        rows = data.training_rows
        validation_rows = data.validation_rows
        return Task(
            model=model,
            loss=None,
            columns=rows.columns(data.tokenizer),
            examples=Examples.independent(rows.blocks.lengths()),
            evaluate=self._evaluate_model,
            resolved_options=resolved_options,
            metadata={"new_heads": list(model.new_heads)} if options.base != STARTER and model.new_heads else {},
            held_out=ValidationExamples.create_if_usable(
                {},
                Examples.independent(validation_rows.hidden.blocks.lengths()[validation_rows.rows]),
                features=validation_rows.features,
            ),
            features=rows.features,
            max_snapshots=options.max_snapshots,
            best_by=best_by,
        )

    def evaluate_finished(self, model_folder: Path) -> tuple[dict[str, LanguageMeasurement], dict[str, Any]]:
        from mrc_workbench.models.reader_networks import load_masked

        source = finished_model_source(model_folder)
        return {"after": self._evaluate_model(load_masked(source, pairs=self._options.pairs))}, {}

    def estimate_evaluation_seconds(self, model: Any) -> float:
        row_sets = (self._data.validation_rows, self._data.training_sample)
        return sum(estimate_seconds(partial(self._guess_tokens, model, rows), rows.batches()) for rows in row_sets)

    def _load_model(self, source: ModelSource) -> Any:
        from mrc_workbench.models.reader_networks import load_masked, new_masked

        options = self._options
        tokenizer = self._data.tokenizer
        if options.base != STARTER:
            loaded = load_masked(source, pairs=options.pairs)
            if options.max_length > loaded.max_seq_length:
                message = f"max_length must be {loaded.max_seq_length} or less, the maximum of the base"
                raise OptionError("max_length", "longer_than_the_base", message)
            return loaded
        config = masking.configuration(options.size, len(tokenizer), options.max_length, tokenizer.pad_token_id)
        return new_masked(config, tokenizer, pairs=options.pairs, seed=options.seed)

    def _evaluate_model(self, model: Any) -> LanguageMeasurement:
        row_sets = (self._data.validation_rows, self._data.training_sample)
        validation, training = (self._guess_tokens(model, rows, rows.batches()) for rows in row_sets)
        return LanguageMeasurement(validation, training, evaluation_key=self._data.evaluation_key)

    def _guess_tokens(self, model: Any, rows: MeasuredRows, batches: list[list[int]]) -> masking.MaskedPredictions:
        return masking.predict_masked_tokens(model, map(rows.hidden.features, batches), self._options.precision)
