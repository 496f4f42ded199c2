"""Tokenizers trained on one's own text: WordPiece, BPE, byte-level BPE and Unigram, over words or over morphemes.

Each is a standard `tokenizer.json` that `tokenizers.Tokenizer.from_file` and transformers' `PreTrainedTokenizerFast`
read. One that was trained over morphemes must be given texts in which they are marked
(`language.tokenizers.morphemes.marked`), there as here: a text without marks is cut all the same, but not at morphemes.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from data.workspace import replacing, write_json
from language.corpus import Corpus
from language.morphemes import CLS, MASK, PAD, SEP, SPECIAL, UNKNOWN, Split, TokenizerKind
from language.problems import LanguageError
from language.tokenizers.material import Material, OnProgress, Sample, gathered, within

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["Split", "TokenizerKind", "TokenizerOptions", "TrainedTokenizer", "train", "train_on"]

LEAST, MOST = 1_000, 64_000  # pieces of a vocabulary
TRAINED = "trained"  # how a tokenizer was trained, in its tokenizer_config.json
_FEWEST = 2  # times that a pair occurs before it is a piece
_CONTINUED = "##"
_READING = 0.6  # share of a training that is reading: the library does not tell how far it is with the rest


@dataclass(frozen=True)
class TokenizerOptions:
    """What is trained: a kind, and how many pieces its vocabulary has, the five special ones among them.

    Raises `LanguageError` `vocabulary`.
    """

    kind: TokenizerKind = TokenizerKind.WORDPIECE
    vocabulary: int = 8_000
    sample: Sample = field(default_factory=Sample)

    def __post_init__(self) -> None:
        if not LEAST <= self.vocabulary <= MOST:
            told = {"pieces": f"{self.vocabulary:,}", "least": f"{LEAST:,}", "most": f"{MOST:,}"}
            message = "a vocabulary of {pieces} pieces: there may be {least} to {most}".format(**told)
            raise LanguageError("vocabulary", message, **told)

    @property
    def name(self) -> str:
        """What tells it from others of the same corpus, also as a folder."""
        return f"{self.kind}-{self.sample.split}-{self.vocabulary}"


@dataclass(frozen=True)
class TrainedTokenizer:
    """A tokenizer and how it came to be, `share` as of its material."""

    tokenizer: "Tokenizer"
    options: TokenizerOptions
    corpus: str
    fingerprint: str
    share: float
    seconds: float

    def provenance(self) -> dict[str, Any]:
        """Return how it was trained, as JSON has it; `pieces` are as many as were found, at most `vocabulary`."""
        options = {"kind": self.options.kind, "vocabulary": self.options.vocabulary, **asdict(self.options.sample)}
        found = {"pieces": self.tokenizer.get_vocab_size(), "share": self.share, "seconds": self.seconds}
        return {**options, **found, "corpus": self.corpus, "fingerprint": self.fingerprint}

    def save(self, folder: Path) -> None:
        """Write a folder that `AutoTokenizer.from_pretrained` reads; one that stands there is replaced."""
        with replacing(folder) as new:
            new.mkdir()
            self.tokenizer.save(str(new / "tokenizer.json"))
            # of what it does not know, transformers keeps and saves all: whoever loads it learns of the marks it needs
            write_json(new / "tokenizer_config.json", {**_CONFIG, TRAINED: self.provenance()})


_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "pad_token": PAD,
    "unk_token": UNKNOWN,
    "cls_token": CLS,
    "sep_token": SEP,
    "mask_token": MASK,
    "clean_up_tokenization_spaces": False,
    "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
}


def train(corpus: Corpus, options: TokenizerOptions) -> TrainedTokenizer:
    """Train a tokenizer on what a corpus does not hold out. Raises `LanguageError` as `gathered`."""
    with gathered(corpus, options.sample) as material:
        return train_on(material, options.kind, options.vocabulary)


def train_on(
    material: Material, kind: TokenizerKind, vocabulary: int, on_progress: OnProgress | None = None
) -> TrainedTokenizer:
    """Train a tokenizer on documents made ready.

    Letters take at most half of the vocabulary; those that are too rare for it are unknown. Bytes are 256. All kinds
    but `UNIGRAM` come out the same each time: the library sums Unigram's expectations in an order that it draws. Memory
    is that of the distinct words. `on_progress` is told while documents are read. Raises `LanguageError` `vocabulary`.
    """
    from language.tokenizers.pipeline import untrained

    began, options = perf_counter(), TokenizerOptions(kind, vocabulary, material.sample)
    tokenizer = untrained(kind, material.sample.split, lowercase=material.sample.lowercase)
    if kind is TokenizerKind.WORDPIECE:
        _train_wordpiece(tokenizer, material, vocabulary, on_progress)
    else:
        letters = None if kind is TokenizerKind.BYTE_BPE else vocabulary // 2
        lines = material.lines(letters, within(on_progress, 0, _READING))
        tokenizer.train_from_iterator(lines, _trainer(kind, vocabulary, SPECIAL))
    of = material.corpus
    return TrainedTokenizer(tokenizer, options, of.name, of.fingerprint, material.share, perf_counter() - began)


def _train_wordpiece(
    tokenizer: "Tokenizer", material: Material, vocabulary: int, on_progress: OnProgress | None
) -> None:
    """Train by BPE's merges in an order that is always the same.

    The library numbers letters inside words as it meets them, in an order that it draws, and merges as frequent as each
    other go by number. So they are found first, by a training without merges, and numbered as special pieces are.
    """
    from tokenizers import models

    from language.tokenizers.pipeline import add_special, untrained

    def trained(first: Sequence[str], size: int, told: OnProgress | None) -> dict[str, int]:
        learner = untrained(TokenizerKind.WORDPIECE, material.sample.split)
        # a letter is a piece at the beginning of words and another inside
        lines = material.lines(vocabulary // 4, told)
        learner.train_from_iterator(lines, _trainer(TokenizerKind.WORDPIECE, size, first))
        pieces: dict[str, int] = learner.get_vocab()
        return pieces

    halves = within(on_progress, 0, _READING / 2), within(on_progress, _READING / 2, _READING)
    inside = sorted(piece for piece in trained(SPECIAL, len(SPECIAL), halves[0]) if piece.startswith(_CONTINUED))
    tokenizer.model = models.WordPiece(trained([*SPECIAL, *inside], vocabulary, halves[1]), unk_token=UNKNOWN)
    add_special(tokenizer)


def _trainer(kind: TokenizerKind, vocabulary: int, first: Sequence[str]) -> Any:
    from tokenizers import pre_tokenizers, trainers

    shared: dict[str, Any] = {"vocab_size": vocabulary, "special_tokens": [*first], "show_progress": False}
    match kind:
        case TokenizerKind.UNIGRAM:
            return trainers.UnigramTrainer(**shared, unk_token=UNKNOWN)
        case TokenizerKind.WORDPIECE:
            return trainers.WordPieceTrainer(**shared, min_frequency=_FEWEST)
        case TokenizerKind.BPE:
            return trainers.BpeTrainer(**shared, min_frequency=_FEWEST)
    bytes_ = pre_tokenizers.ByteLevel.alphabet()
    return trainers.BpeTrainer(**shared, min_frequency=_FEWEST, initial_alphabet=sorted(bytes_))
