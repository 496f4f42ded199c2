"""What the trainings on sentence pairs, on plain text and of readers take, and what each objective learns from."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

from mrc_workbench.data.pairs import PairKind
from mrc_workbench.labs.reading.scores import ScoringRules
from mrc_workbench.models.language.masking import MaskingOptions, Size
from mrc_workbench.models.language.tokenizer_training import TokenizerKind
from mrc_workbench.models.language.tokenizers import WholeWords
from mrc_workbench.models.packaged import PREFIX
from mrc_workbench.models.reader import SpanOptions
from mrc_workbench.models.sources import (
    DEFAULT_BI_ENCODER,
    DEFAULT_CROSS_ENCODER,
    DEFAULT_READER,
    STARTER,
    default_model,
)
from mrc_workbench.training.options import EmbeddingTable, OptionError, Problem, RankerOptions, TrainingOptions, option

LANGUAGE_MODEL = "language-model"
SENTENCES = "sentences"
SENTENCE_CROSS_ENCODER = "sentence-cross-encoder"


class SentenceObjective(StrEnum):
    """Loss of a sentence encoder."""

    NLI_SOFTMAX = "nli-softmax"  # Reimers & Gurevych 2019: a classifier over both vectors predicts the label
    COSINE = "cosine"  # Reimers & Gurevych 2019: the squared difference of cosine and gold score
    COSENT = "cosent"  # Su 2022: pairs of a higher gold score have a higher cosine
    TRIPLET = "triplet"  # Schroff et al. 2015
    SIMCSE_UNSUPERVISED = "simcse-unsupervised"  # Gao et al. 2021: a sentence twice, with different dropout
    SIMCSE_SUPERVISED = "simcse-supervised"  # Gao et al. 2021: entailments; contradictions are hard negatives
    DISTILLATION = "distillation"  # Reimers & Gurevych 2020: a teacher's vectors of a sentence and its translation
    TSDAE = "tsdae"  # Wang et al. 2021: reconstruct a sentence from the vector of its corrupted form


class CrossSentenceObjective(StrEnum):
    """Loss of a cross-encoder of sentences."""

    BINARY_CROSS_ENTROPY = "binary-cross-entropy"  # of gold scores from 0 to 1
    MSE = "mse"  # of gold scores
    CROSS_ENTROPY = "cross-entropy"  # of three labels


class Concatenation(StrEnum):
    """Input of the classifier over the vectors u and v (Reimers & Gurevych 2019, table 6)."""

    BOTH = "u,v"
    DIFFERENCE = "|u-v|"
    PRODUCT = "u*v"
    DIFFERENCE_PRODUCT = "|u-v|,u*v"
    BOTH_PRODUCT = "u,v,u*v"
    BOTH_DIFFERENCE = "u,v,|u-v|"
    ALL = "u,v,|u-v|,u*v"

    @property
    def parts(self) -> tuple[bool, bool, bool]:
        terms = self.value.split(",")
        return "u" in terms, "|u-v|" in terms, "u*v" in terms


class SentencePooling(StrEnum):
    """How token vectors become a sentence's vector."""

    BASE = "base"  # as the base model does
    MEAN = "mean"
    CLS = "cls"
    MAX = "max"
    FIRST_LAST_AVERAGE = "first-last-average"  # Li et al. 2020: the mean of the first and the last layer's, over tokens


class SentenceBestBy(StrEnum):
    """The measure that selects the best checkpoint."""

    AUTO = "auto"  # Spearman's correlation of scored pairs, accuracy of labelled pairs, else the loss
    LOSS = "loss"  # of validation examples


_ANY_KIND = tuple(PairKind)
PAIR_KINDS_OF_OBJECTIVE: dict[StrEnum, tuple[PairKind, ...]] = {
    SentenceObjective.NLI_SOFTMAX: (PairKind.LABELLED,),
    SentenceObjective.COSINE: (PairKind.SCORED,),
    SentenceObjective.COSENT: (PairKind.SCORED,),
    SentenceObjective.TRIPLET: (PairKind.TRIPLETS, PairKind.LABELLED),
    SentenceObjective.SIMCSE_UNSUPERVISED: _ANY_KIND,
    SentenceObjective.SIMCSE_SUPERVISED: (PairKind.LABELLED, PairKind.TRIPLETS),
    SentenceObjective.DISTILLATION: (PairKind.PARALLEL,),
    SentenceObjective.TSDAE: _ANY_KIND,
    CrossSentenceObjective.BINARY_CROSS_ENTROPY: (PairKind.SCORED,),
    CrossSentenceObjective.MSE: (PairKind.SCORED,),
    CrossSentenceObjective.CROSS_ENTROPY: (PairKind.LABELLED,),
}
SINGLE_PROCESS_OBJECTIVES = (SentenceObjective.NLI_SOFTMAX, SentenceObjective.TSDAE)  # their losses have weights
IN_BATCH_OBJECTIVES = (SentenceObjective.SIMCSE_UNSUPERVISED, SentenceObjective.SIMCSE_SUPERVISED)
_OBJECTIVE_DEFAULTS: dict[StrEnum, dict[str, Any]] = {  # the papers' settings
    SentenceObjective.NLI_SOFTMAX: {"epochs": 1.0},
    SentenceObjective.TRIPLET: {"epochs": 1.0},
    SentenceObjective.SIMCSE_UNSUPERVISED: {"epochs": 1.0, "batch_size": 64, "learning_rate": 3e-5},
    # the paper has 5e-5 for batches of 512
    SentenceObjective.SIMCSE_SUPERVISED: {"epochs": 1.0, "batch_size": 128, "learning_rate": 1e-5},
    SentenceObjective.DISTILLATION: {"epochs": 1.0, "batch_size": 64},
    SentenceObjective.TSDAE: {"epochs": 1.0, "batch_size": 8, "learning_rate": 3e-5},
}


@dataclass(frozen=True, kw_only=True)
class SentencePairOptions(TrainingOptions):
    """Options of trainings on sentence pairs."""

    epochs: float = option(2.0, "passes over the training examples", 0.01, 1000)
    batch_size: int = option(32, "examples per training step", 2, 65536)
    best_by: SentenceBestBy = option(SentenceBestBy.AUTO, "measure of the best checkpoint; auto: correlation, accuracy")
    evaluation_set: str = option("", "set of scored pairs whose validation part is evaluated; empty: that of the data")
    evaluation_limit: int = option(1500, "validation pairs evaluated during training; 0: all", 0, 10**9)

    def _problems(self) -> Iterator[Problem]:
        yield from super()._problems()
        if self.base == STARTER:
            yield "base", "starter_sentences", "must be a transformer: a starter knows only the words of its passages"

    @classmethod
    def defaults_for(cls, base: str = "") -> Self:
        defaults = super().defaults_for(base)
        return replace(defaults, learning_rate=5e-5) if base.startswith(PREFIX) else defaults  # small models

    @classmethod
    def available_bases(cls) -> tuple[str, ...]:
        return () if default_model() == STARTER else (default_model(),)  # a starter cannot be trained on sentences

    def check_pair_kind(self, name: str, kind: PairKind) -> None:
        """Raise `OptionError` if the objective does not support the pairs of the set `name`."""
        if kind in PAIR_KINDS_OF_OBJECTIVE[self.objective]:
            return
        expected = " or ".join(PAIR_KINDS_OF_OBJECTIVE[self.objective])
        others = [objective.value for objective in type(self.objective) if kind in PAIR_KINDS_OF_OBJECTIVE[objective]]
        alternatives = f"use {', '.join(others)}" if others else "this kind of training has no objective"
        message = f"{self.objective} learns from {expected} pairs, and {name} holds {kind}: for these {alternatives}"
        raise OptionError("objective", "pair_kind", message)


@dataclass(frozen=True, kw_only=True)
class SentenceOptions(SentencePairOptions):
    """A sentence encoder is a bi-encoder that reads both sentences with the question prompt, if it has one."""

    base: str = option(DEFAULT_BI_ENCODER, "starting point: a hub id, a folder, a packaged base, or a finished run")
    objective: SentenceObjective = option(SentenceObjective.COSENT, "loss function")
    concatenation: Concatenation = option(Concatenation.BOTH_DIFFERENCE, "input of the classifier (nli-softmax)")
    scale: float = option(20.0, "factor of cosines (cosent)", 0.1, 1000)
    triplet_margin: float = option(0.3, "target difference of the cosines to both others (triplet)", 0, 2)
    temperature: float = option(0.05, "divisor of cosines (simcse)", 0.001, 10)
    dropout: float = option(0.1, "dropout of hidden values (simcse-unsupervised)", 0, 0.9)
    deletion: float = option(0.6, "fraction of the words that are deleted from a sentence (tsdae)", 0, 0.99)
    teacher: str = option("", "bi-encoder whose vectors of the first sentences are learned (distillation)")
    pooling: SentencePooling = option(SentencePooling.BASE, "how token vectors become the sentence's vector")

    @classmethod
    def defaults_for_objective(cls, objective: str) -> dict[str, Any]:
        return _OBJECTIVE_DEFAULTS.get(SentenceObjective(objective), {})

    @property
    def auxiliary_models(self) -> dict[str, str]:
        return {"teacher": self.teacher} if self.objective is SentenceObjective.DISTILLATION else {}

    @property
    def uses_in_batch_negatives(self) -> bool:
        return self.objective in IN_BATCH_OBJECTIVES

    def _problems(self) -> Iterator[Problem]:
        yield from super()._problems()
        if self.objective is SentenceObjective.DISTILLATION and not self.teacher.strip():
            yield "teacher", "teacher", "must name a bi-encoder for distillation"


@dataclass(frozen=True, kw_only=True)
class SentenceCrossEncoderOptions(SentencePairOptions):
    """The model reads both sentences together and predicts their similarity from 0 to 1, or one of three labels."""

    base: str = option(DEFAULT_CROSS_ENCODER, "starting point: a hub id, a folder, a packaged base, or a finished run")
    objective: CrossSentenceObjective = option(CrossSentenceObjective.BINARY_CROSS_ENTROPY, "loss function")


class LanguageObjective(StrEnum):
    """Loss of a language model."""

    MLM = "mlm"  # Devlin et al. 2019: the cross-entropy of masked tokens
    MLM_NSP = "mlm-nsp"  # in addition, predict whether the second segment follows the first


class LanguageBestBy(StrEnum):
    """The measure on held-out documents that selects the best checkpoint."""

    PERPLEXITY = "perplexity"
    ACCURACY = "masked_accuracy"


@dataclass(frozen=True, kw_only=True)
class LanguageOptions(TrainingOptions):
    """The model predicts masked tokens. A starter is a new BERT of a size, with a new tokenizer."""

    base: str = option(STARTER, "starting point: starter, a new model, a hub id, a folder, or a finished run")
    objective: LanguageObjective = option(LanguageObjective.MLM, "loss function")
    pairs_weight: float = option(1.0, "weight of the loss of pairs beside that of masked tokens (mlm-nsp)", 0.01, 1000)
    best_by: LanguageBestBy = option(LanguageBestBy.PERPLEXITY, "measure that selects the checkpoint")
    size: Size = option(Size.MINI, "size of a new model")
    tokenizer: str = option("", "folder with the tokenizer.json of a new model; empty: train one first")
    tokenizer_kind: TokenizerKind = option(TokenizerKind.WORDPIECE, "kind of the tokenizer that is trained first")
    vocabulary: int = option(8000, "vocabulary size of the tokenizer that is trained first", 1000, 64_000)
    epochs: float = option(10.0, "passes over the training examples", 0.01, 1000)
    batch_size: int = option(32, "rows of tokens per training step", 2, 65536)
    evaluation_batch_size: int = option(32, "rows of tokens per evaluation batch", 1, 65536)
    evaluation_limit: int = option(500, "held-out rows of tokens evaluated during training; 0: all", 0, 10**9)
    learning_rate: float = option(1e-3, "peak learning rate", 1e-9, 10)
    max_length: int = option(128, "tokens per row", 8, 65536)
    mask_fraction: float = option(0.15, "fraction of the tokens that are masked", 0.01, 0.9)
    mask_token_fraction: float = option(0.8, "fraction of the masked tokens that become [MASK]", 0, 1)
    random_token_fraction: float = option(0.1, "fraction of the masked tokens that become a random token", 0, 1)
    whole_words: WholeWords = option(WholeWords.OFF, "whether whole words are masked, and what a word is")
    max_snapshots: int = option(8, "evaluated models to store, evenly over the steps, 1 GiB in total; 0: none", 0, 100)

    @classmethod
    def defaults_for(cls, base: str = STARTER) -> Self:
        return cls(base=base) if base == STARTER else cls(base=base, learning_rate=1e-4, epochs=3.0)

    @classmethod
    def available_bases(cls) -> tuple[str, ...]:
        return (STARTER,)

    @property
    def has_layers(self) -> bool:
        return True  # a new model is a transformer too

    @property
    def pairs(self) -> bool:
        return self.objective is LanguageObjective.MLM_NSP

    @property
    def masking(self) -> MaskingOptions:
        return MaskingOptions(self.mask_fraction, self.mask_token_fraction, self.random_token_fraction)

    def _problems(self) -> Iterator[Problem]:
        # the limits of other starters do not apply to a new transformer
        yield from (problem for problem in super()._problems() if problem[1] != "starter")
        if self.mask_token_fraction + self.random_token_fraction > 1 + 1e-9:
            yield "random_token_fraction", "shares", "must be 1 - mask_token_fraction at most"
        if self.base != STARTER:
            if self.tokenizer.strip():
                yield "tokenizer", "of_the_base", "must be empty: the base has a tokenizer"
            return
        for name in ("frozen_layers", "lora_rank"):
            if getattr(self, name):
                yield name, "new_model", "must be 0 for a new model: random weights must be trained"
        if self.embedding_table is EmbeddingTable.FROZEN:
            yield "embedding_table", "new_model", "must not be frozen for a new model: its vectors are random"


READER = "reader"


class ReaderObjective(StrEnum):
    """Loss of a reader."""

    SPAN = "span"  # Devlin et al. 2019: the cross-entropy of the answer's first and last token


class ReaderBestBy(StrEnum):
    """The measure on validation questions that selects the best checkpoint."""

    EXACT = "em"
    OVERLAP = "f1"


@dataclass(frozen=True, kw_only=True)
class ReaderOptions(RankerOptions):
    """The model reads a question and a passage together, and selects the span that answers, or none."""

    base: str = option(DEFAULT_READER, "starting point: a hub id, a folder, a packaged base, or a finished run")
    objective: ReaderObjective = option(ReaderObjective.SPAN, "loss function")
    best_by: ReaderBestBy = option(ReaderBestBy.OVERLAP, "measure on validation questions that selects the checkpoint")
    normalization: ScoringRules = option(ScoringRules.KORQUAD, "dataset whose rules normalize and score answers")
    batch_size: int = option(16, "windows per training step", 2, 65536)
    evaluation_limit: int = option(300, "validation examples evaluated during training; 0: all", 0, 10**9)
    max_length: int = option(384, "tokens of a question and a window of its passage; 0: the maximum of the base", 0)
    overlap: int = option(128, "tokens that two windows of a passage share", 0, 65536)
    longest_answer: int = option(30, "maximum length of an answer in tokens", 1, 1000)
    title: bool = option(False, "put the article title before the passage")
    negatives: int = option(1, "passages without the answer, for each question that gets any", 1, 100)
    negative_question_fraction: float = option(0.25, "fraction of questions with passages without the answer", 0, 1)

    @classmethod
    def defaults_for(cls, base: str = DEFAULT_READER) -> Self:
        return cls(base=base, learning_rate=1e-4 if base.startswith(PREFIX) else 5e-5)

    @classmethod
    def available_bases(cls) -> tuple[str, ...]:
        return tuple(dict.fromkeys(base for base in (default_model(), DEFAULT_READER) if base != STARTER))

    @property
    def mines_negatives(self) -> bool:
        return self.negative_question_fraction > 0

    @property
    def span_options(self) -> SpanOptions:
        return SpanOptions(self.max_length, self.overlap, self.longest_answer)

    def _problems(self) -> Iterator[Problem]:
        if self.base == STARTER:
            yield "base", "starter_reader", "must be a transformer: a starter ignores word order"
        yield from super()._problems()
        if self.max_length and self.max_length < 2 * self.overlap:
            yield "overlap", "overlap", "must be half of max_length at most"
