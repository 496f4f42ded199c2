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
    """What a sentence encoder's training makes smaller."""

    NLI_SOFTMAX = "nli-softmax"  # Reimers & Gurevych 2019: which label, told by a classifier over both vectors
    COSINE = "cosine"  # Reimers & Gurevych 2019: the squared difference of cosine and gold score
    COSENT = "cosent"  # Su 2022: pairs of a higher gold score have a higher cosine
    TRIPLET = "triplet"  # Schroff et al. 2015
    SIMCSE_UNSUPERVISED = "simcse-unsupervised"  # Gao et al. 2021: a sentence twice, told apart by dropout alone
    SIMCSE_SUPERVISED = "simcse-supervised"  # Gao et al. 2021: what is entailed, and what contradicts as hard negative
    DISTILLATION = "distillation"  # Reimers & Gurevych 2020: a teacher's vectors, of a sentence and its translation
    TSDAE = "tsdae"  # Wang et al. 2021: the sentence again, from the vector of what is left of it


class CrossSentenceObjective(StrEnum):
    """What the training of a cross-encoder of sentences makes smaller."""

    BINARY_CROSS_ENTROPY = "binary-cross-entropy"  # of gold scores from 0 to 1
    MSE = "mse"  # of the same
    CROSS_ENTROPY = "cross-entropy"  # of three labels


class Concatenation(StrEnum):
    """What the classifier over two vectors u and v reads: the ablation of Reimers & Gurevych 2019, table 6."""

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
    """How one vector is made of a sentence's token vectors."""

    BASE = "base"  # as the base model does
    MEAN = "mean"
    CLS = "cls"
    MAX = "max"
    FIRST_LAST_AVERAGE = "first-last-average"  # Li et al. 2020: the mean of the first and the last layer's, over tokens


class SentenceBestBy(StrEnum):
    """What picks the best checkpoint."""

    AUTO = "auto"  # Spearman's correlation where there are scores, accuracy where there are labels, else the loss
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
SINGLE_PROCESS_OBJECTIVES = (
    SentenceObjective.NLI_SOFTMAX,
    SentenceObjective.TSDAE,
)  # the losses with weights of their own
IN_BATCH_OBJECTIVES = (SentenceObjective.SIMCSE_UNSUPERVISED, SentenceObjective.SIMCSE_SUPERVISED)
_OBJECTIVE_DEFAULTS: dict[StrEnum, dict[str, Any]] = {  # what is not said by the papers' settings is as for scores
    SentenceObjective.NLI_SOFTMAX: {"epochs": 1.0},
    SentenceObjective.TRIPLET: {"epochs": 1.0},
    SentenceObjective.SIMCSE_UNSUPERVISED: {"epochs": 1.0, "batch_size": 64, "learning_rate": 3e-5},
    # 5e-5 for batches of 512, as the paper has it, and so less for smaller ones
    SentenceObjective.SIMCSE_SUPERVISED: {"epochs": 1.0, "batch_size": 128, "learning_rate": 1e-5},
    SentenceObjective.DISTILLATION: {"epochs": 1.0, "batch_size": 64},
    SentenceObjective.TSDAE: {"epochs": 1.0, "batch_size": 8, "learning_rate": 3e-5},
}


@dataclass(frozen=True, kw_only=True)
class SentencePairOptions(TrainingOptions):
    """What the trainings on a set of sentence pairs share."""

    best_by: SentenceBestBy = option(
        SentenceBestBy.AUTO, "what picks the best checkpoint; auto: the correlation or accuracy"
    )
    judged_on: str = option("", "set of scored pairs whose validation part is measured; empty: that of the data")
    evaluation_limit: int = option(1500, "validation pairs measured during training; 0: all", 0, 10**9)

    def _problems(self) -> Iterator[Problem]:
        yield from super()._problems()
        if self.base == STARTER:
            yield "base", "starter_sentences", "must be a transformer: a starter knows the words of its passages only"

    @classmethod
    def defaults_for(cls, base: str = "") -> Self:
        """A small packaged base moves by larger steps."""
        defaults = super().defaults_for(base)
        return replace(defaults, learning_rate=5e-5) if base.startswith(PREFIX) else defaults

    @classmethod
    def available_bases(cls) -> tuple[str, ...]:
        return () if default_model() == STARTER else (default_model(),)  # a starter cannot be trained on sentences

    def check_pair_kind(self, name: str, kind: PairKind) -> None:
        """Raise `OptionError` if the objective does not learn from pairs of this kind; `name` is that of the set."""
        if kind in PAIR_KINDS_OF_OBJECTIVE[self.objective]:
            return
        expected = " or ".join(PAIR_KINDS_OF_OBJECTIVE[self.objective])
        others = [objective.value for objective in type(self.objective) if kind in PAIR_KINDS_OF_OBJECTIVE[objective]]
        alternatives = f"there are {', '.join(others)}" if others else "this kind of training has none"
        message = f"{self.objective} learns from {expected} pairs, and {name} holds {kind}: for these {alternatives}"
        raise OptionError("objective", "pair_kind", message)


@dataclass(frozen=True, kw_only=True)
class SentenceOptions(SentencePairOptions):
    """A sentence encoder is a bi-encoder: both sentences are read with the prompt of questions, where there is one."""

    base: str = option(DEFAULT_BI_ENCODER, "starting point: a hub id, a folder, a packaged base, or a finished run")
    objective: SentenceObjective = option(SentenceObjective.COSENT, "what training makes smaller")
    epochs: float = option(2.0, "passes over the training examples", 0.01, 1000)
    batch_size: int = option(32, "examples a training step", 2, 65536)
    concatenation: Concatenation = option(
        Concatenation.BOTH_DIFFERENCE, "what the classifier reads of the vectors u and v (nli-softmax)"
    )
    scale: float = option(20.0, "what cosines are multiplied by (cosent)", 0.1, 1000)
    triplet_margin: float = option(0.3, "wanted difference of the cosines to both others (triplet)", 0, 2)
    temperature: float = option(0.05, "what cosines are divided by (simcse)", 0.001, 10)
    dropout: float = option(0.1, "share of hidden values that are forgotten at random (simcse-unsupervised)", 0, 0.9)
    deletion: float = option(0.6, "share of the words that are taken from a sentence (tsdae)", 0, 0.99)
    teacher: str = option("", "bi-encoder whose vectors of the first sentences are learned (distillation)")
    pooling: SentencePooling = option(SentencePooling.BASE, "how token vectors become the sentence's vector")

    @classmethod
    def defaults_for_objective(cls, objective: str) -> dict[str, Any]:
        return _OBJECTIVE_DEFAULTS.get(SentenceObjective(objective), {})

    @property
    def helpers(self) -> dict[str, str]:
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
    """Both sentences are read together: how alike they are from 0 to 1, or which of three labels."""

    base: str = option(DEFAULT_CROSS_ENCODER, "starting point: a hub id, a folder, a packaged base, or a finished run")
    objective: CrossSentenceObjective = option(
        CrossSentenceObjective.BINARY_CROSS_ENTROPY, "what training makes smaller"
    )
    epochs: float = option(2.0, "passes over the training examples", 0.01, 1000)
    batch_size: int = option(32, "examples a training step", 2, 65536)


class LanguageObjective(StrEnum):
    """What a language model's training makes smaller."""

    MLM = "mlm"  # Devlin et al. 2019: the cross-entropy of hidden tokens
    MLM_NSP = "mlm-nsp"  # and that of whether the second segment is the next one


class LanguageBestBy(StrEnum):
    """What picks the best checkpoint, measured on documents held out."""

    PERPLEXITY = "perplexity"
    ACCURACY = "masked_accuracy"


@dataclass(frozen=True, kw_only=True)
class LanguageOptions(TrainingOptions):
    """Tokens of a text are hidden and guessed. A starter is a new BERT of a size, with a tokenizer of its own."""

    base: str = option(STARTER, "starting point: starter, a new model, a hub id, a folder, or a finished run")
    objective: LanguageObjective = option(LanguageObjective.MLM, "what training makes smaller")
    pairs_weight: float = option(
        1.0, "how much the loss of pairs counts beside that of hidden tokens (mlm-nsp)", 0.01, 1000
    )
    best_by: LanguageBestBy = option(
        LanguageBestBy.PERPLEXITY, "measure on held-out documents that picks the checkpoint"
    )
    size: Size = option(Size.MINI, "size of a new model")
    tokenizer: str = option("", "folder with the tokenizer.json of a new model; empty: one is trained first")
    tokenizer_kind: TokenizerKind = option(TokenizerKind.WORDPIECE, "kind of the tokenizer that is trained first")
    vocabulary: int = option(8000, "pieces of the tokenizer that is trained first", 1000, 64_000)
    epochs: float = option(10.0, "passes over the training examples", 0.01, 1000)
    batch_size: int = option(32, "rows of tokens a training step", 2, 65536)
    evaluation_batch_size: int = option(32, "rows of tokens at a time while measuring", 1, 65536)
    evaluation_limit: int = option(500, "held-out rows of tokens measured during training; 0: all", 0, 10**9)
    learning_rate: float = option(1e-3, "largest step of the optimizer", 1e-9, 10)
    max_length: int = option(128, "tokens of a row", 8, 65536)
    mask_share: float = option(0.15, "share of the tokens that are hidden", 0.01, 0.9)
    shown_as_mask: float = option(0.8, "share of the hidden tokens shown as [MASK]", 0, 1)
    shown_as_random: float = option(0.1, "share of the hidden tokens shown as another token; the rest is shown", 0, 1)
    whole_words: WholeWords = option(WholeWords.OFF, "whether words are hidden as a whole, and what a word is")
    kept_models: int = option(
        8, "measured models kept on the way, evenly over the steps, 1 GiB together; 0: none", 0, 100
    )

    @classmethod
    def defaults_for(cls, base: str = STARTER) -> Self:
        """A new model learns by large steps for long; what goes on from a base, by small ones."""
        return cls(base=base) if base == STARTER else cls(base=base, learning_rate=1e-4, epochs=3.0)

    @classmethod
    def available_bases(cls) -> tuple[str, ...]:
        return (STARTER,)

    @property
    def has_layers(self) -> bool:
        return True  # what starts from nothing is a transformer, too

    @property
    def pairs(self) -> bool:
        return self.objective is LanguageObjective.MLM_NSP

    @property
    def masking(self) -> MaskingOptions:
        return MaskingOptions(self.mask_share, self.shown_as_mask, self.shown_as_random)

    def _problems(self) -> Iterator[Problem]:
        # what the words of a starter cannot do, a new transformer can
        yield from (problem for problem in super()._problems() if problem[1] != "starter")
        if self.shown_as_mask + self.shown_as_random > 1 + 1e-9:
            yield "shown_as_random", "shares", "must leave shown_as_mask its share: together they are 1 at most"
        if self.base != STARTER:
            if self.tokenizer.strip():
                yield "tokenizer", "of_the_base", "must be empty: a base reads with its own tokenizer"
            return
        for name in ("frozen_layers", "lora_rank"):  # it has layers, but none worth keeping
            if getattr(self, name):
                yield name, "new_model", "must be 0 for a new model: what is drawn by chance must learn"
        if self.embedding_table is EmbeddingTable.FROZEN:
            yield "embedding_table", "new_model", "must not be frozen for a new model: its vectors are drawn by chance"


READER = "reader"


class ReaderObjective(StrEnum):
    """What a reader's training makes smaller."""

    SPAN = "span"  # Devlin et al. 2019: the cross-entropy of where an answer begins and where it ends


class ReaderBestBy(StrEnum):
    """What picks the best checkpoint, measured on validation questions."""

    EXACT = "em"
    OVERLAP = "f1"


@dataclass(frozen=True, kw_only=True)
class ReaderOptions(RankerOptions):
    """A question and a passage are read together, and the span that answers is pointed at, or nothing."""

    base: str = option(DEFAULT_READER, "starting point: a hub id, a folder, a packaged base, or a finished run")
    objective: ReaderObjective = option(ReaderObjective.SPAN, "what training makes smaller")
    best_by: ReaderBestBy = option(ReaderBestBy.OVERLAP, "measure on validation questions that picks the checkpoint")
    rules: ScoringRules = option(ScoringRules.KORQUAD, "whose rules say whether an answer is right")
    batch_size: int = option(16, "windows a training step", 2, 65536)
    evaluation_limit: int = option(300, "validation examples measured during training; 0: all", 0, 10**9)
    max_length: int = option(384, "tokens of a question and a window of its passage; 0: as many as the base reads", 0)
    overlap: int = option(128, "tokens that two windows of a passage share", 0, 65536)
    longest_answer: int = option(30, "tokens that an answer has at most", 1, 1000)
    title: bool = option(False, "put the article title before the passage")
    negatives: int = option(1, "passages without the answer, for each of the questions that are shown any", 1, 100)
    negatives_share: float = option(0.25, "share of the questions that are shown passages without the answer", 0, 1)

    @classmethod
    def defaults_for(cls, base: str = DEFAULT_READER) -> Self:
        return cls(base=base, learning_rate=1e-4 if base.startswith(PREFIX) else 5e-5)

    @classmethod
    def available_bases(cls) -> tuple[str, ...]:
        return tuple(dict.fromkeys(base for base in (default_model(), DEFAULT_READER) if base != STARTER))

    @property
    def mines_negatives(self) -> bool:
        return self.negatives_share > 0

    @property
    def span_options(self) -> SpanOptions:
        return SpanOptions(self.max_length, self.overlap, self.longest_answer)

    def _problems(self) -> Iterator[Problem]:
        if self.base == STARTER:
            yield "base", "starter_reader", "must be a transformer: a starter knows words, not where they stand"
        yield from super()._problems()
        if self.max_length and self.max_length < 2 * self.overlap:
            yield "overlap", "overlap", "must be half of max_length at most"
