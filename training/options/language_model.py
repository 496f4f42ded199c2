"""What the training of a masked language model can be told."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from language.masking import MaskingOptions, WholeWords
from language.morphemes import TokenizerKind
from language.perplexity import Size
from models.sources import STARTER
from training.options.common import EmbeddingTable, Problem, TrainingOptions, option

LANGUAGE_MODEL = "language-model"


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
    def suited_to(cls, base: str = STARTER) -> Self:
        """A new model learns by large steps for long; what goes on from a base, by small ones."""
        return cls(base=base) if base == STARTER else cls(base=base, learning_rate=1e-4, epochs=3.0)

    @classmethod
    def offered(cls) -> tuple[str, ...]:
        return (STARTER,)

    @property
    def has_layers(self) -> bool:
        """Always: what starts from nothing is a transformer, too."""
        return True

    @property
    def pairs(self) -> bool:
        return self.objective is LanguageObjective.MLM_NSP

    @property
    def masking(self) -> MaskingOptions:
        return MaskingOptions(self.mask_share, self.shown_as_mask, self.shown_as_random)

    def _problems(self) -> Iterator[Problem]:
        # what the words of a starter cannot do, a new transformer can
        yield from (one for one in super()._problems() if one[1] != "starter")
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
