"""Tokenizers trained on a user's text: WordPiece, BPE, byte-level BPE and Unigram, over words or over morphemes.

Training documents are in a file, so that several tokenizers read the same text and Kiwi analyzes it once. Trainers hold
all distinct words in memory: a corpus larger than `max_characters` is sampled. Each tokenizer is a standard
`tokenizer.json` for `tokenizers.Tokenizer.from_file` and transformers' `PreTrainedTokenizerFast`. A tokenizer over
morphemes expects texts that `mark_morphemes` prepared.
"""

import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from mrc_workbench.data.text.analyzers import kiwi_tokens
from mrc_workbench.data.text.corpora import (
    Corpus,
    LanguageError,
    ProgressCallback,
    is_held_out,
    report_documents,
    scale_progress,
)
from mrc_workbench.data.texts import in_blocks
from mrc_workbench.data.workspace import replacing, write_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, UNKNOWN, CLS, SEP, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # numbered from 0
BLANKS = ("▁", "Ġ")  # a blank in Metaspace and byte-level BPE
BOUNDARY = "\N{INVISIBLE SEPARATOR}"  # invisible, unchanged by NFC, and missing in natural texts
_BLOCK = 256  # texts per call of Kiwi, which takes a hundred times the memory of the text
MIN_VOCABULARY = 1_000
MAX_VOCABULARY = 64_000
TRAINED = "trained"  # key of provenance in tokenizer_config.json
MAX_CHARACTERS = 50_000_000
_MIN_PAIR_FREQUENCY = 2
_READING_FRACTION = 0.6  # of the progress; the library reports no progress of the rest
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
_SIGN = r"[[\p{P}\p{S}]&&[^▁]]"  # punctuation and symbols are single words


class TokenizerKind(StrEnum):
    """The algorithm of a vocabulary.

    `WORDPIECE` (Schuster & Nakajima 2012) is trained by BPE's merges, as in the library, and cuts the longest piece
    first, as in BERT. `BPE` (Sennrich et al. 2016), `BYTE_BPE` without unknown characters (Radford et al. 2019),
    `UNIGRAM` (Kudo 2018).
    """

    WORDPIECE = "wordpiece"
    BPE = "bpe"
    BYTE_BPE = "byte-bpe"
    UNIGRAM = "unigram"


class PreTokenization(StrEnum):
    """Boundaries that no piece crosses: of words, or also of morphemes."""

    WORDS = "words"
    MORPHEMES = "morphemes"


def normalize_text(text: str) -> str:
    """Return a text in NFC without boundary marks; positions of cuts refer to it."""
    return unicodedata.normalize("NFC", text).replace(BOUNDARY, "")


def cut_positions(spans: np.ndarray, text: str) -> np.ndarray:
    """Return positions in words at which one of the ordered `spans` `(n, 2)` begins and that no span crosses."""
    starts, ends = spans.T
    reached = np.maximum.accumulate(np.concatenate([[0], ends]))[:-1]
    positions = np.unique(starts[starts >= reached])
    inside = positions[(positions > 0) & (positions < len(text))].tolist()
    return np.array([position for position in inside if text[position - 1 : position + 1].isalnum()], dtype=np.int64)


def morpheme_boundaries(texts: Sequence[str]) -> list[np.ndarray]:
    """Return the positions inside words at which a morpheme of Kiwi begins: 갔다 is 갔 | 다."""
    boundaries = []
    for block in in_blocks(texts, _BLOCK):
        for text, tokens in zip(block, kiwi_tokens(block), strict=True):
            spans = [(token.start, token.start + token.len) for token in tokens]
            boundaries.append(cut_positions(np.array(spans, dtype=np.int64).reshape(-1, 2), text))
    return boundaries


def mark_morphemes(texts: Sequence[str]) -> list[str]:
    """Return normalized texts with `BOUNDARY` before each morpheme inside a word, for tokenizers over morphemes."""
    composed = [normalize_text(text) for text in texts]
    return [*map(insert_boundaries, composed, morpheme_boundaries(composed))]


def insert_boundaries(text: str, positions: np.ndarray) -> str:
    """Return a text with `BOUNDARY` at the positions."""
    ends = [0, *positions.tolist(), len(text)]
    return BOUNDARY.join(text[start:end] for start, end in pairwise(ends))


def to_unmarked_offsets(positions: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Convert offsets in a text with marks at `positions` to offsets in the text without marks."""
    return np.asarray(offsets - np.searchsorted(positions + np.arange(1, len(positions) + 1), offsets, side="right"))


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A sample of training documents; the fraction `held_out`, selected by `seed`, is for evaluation."""

    split: PreTokenization = PreTokenization.WORDS
    lowercase: bool = False
    held_out: float = 0.1
    seed: int = 0
    max_characters: int = MAX_CHARACTERS

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            message = f"held_out must be at least 0 and below 1, not {self.held_out}"
            raise LanguageError("held_out", message, share=str(self.held_out))


@dataclass(frozen=True)
class TrainingDocuments:
    """Training documents, a line each at `path`; `alphabet` by frequency, `fraction` of documents not held out."""

    corpus: Corpus
    sample: Sample
    path: Path
    alphabet: tuple[str, ...]
    documents: int
    characters: int
    fraction: float

    def lines(self, alphabet_size: int | None = None, on_progress: ProgressCallback | None = None) -> Iterator[str]:
        """Yield the lines; a blank replaces characters beyond the `alphabet_size` most frequent ones."""
        n_frequent = len(self.alphabet) if alphabet_size is None else alphabet_size
        rare = {ord(letter): " " for letter in self.alphabet[n_frequent:] if letter != BOUNDARY}
        with self.path.open(encoding="utf-8", newline="\n") as file:
            for line in report_documents(file, self.characters, on_progress):
                yield line.translate(rare) if rare else line


@contextmanager
def gather_documents(
    corpus: Corpus, sample: Sample, on_progress: ProgressCallback | None = None
) -> Iterator[TrainingDocuments]:
    """Write the documents to a temporary file. Raises `LanguageError` (`nothing_to_learn`) if all are held out."""
    character_counts = Counter[str]()
    documents = 0
    characters = 0
    fraction = min(1.0, sample.max_characters / max(1.0, corpus.characters * (1 - sample.held_out)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "documents.txt")
        with path.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            all_documents = report_documents(corpus.documents(), corpus.characters, on_progress)
            not_held_out = (text for text in all_documents if not is_held_out(text, sample.held_out, sample.seed))
            learned = (document for document in not_held_out if is_held_out(document, fraction, sample.seed + 1))
            for block in in_blocks(learned, _BLOCK):
                uses_morphemes = sample.split is PreTokenization.MORPHEMES
                for text in mark_morphemes(block) if uses_morphemes else map(normalize_text, block):
                    line = " ".join(text.split())
                    line = line.lower() if sample.lowercase else line
                    character_counts.update(line)
                    file.write(line + "\n")
                    documents += 1
                    characters += len(line)
        if not documents:
            message = f"{corpus.name} is too small: all documents are held out for evaluation"
            raise LanguageError("nothing_to_learn", message, corpus=corpus.name)
        frequent = sorted(character_counts, key=lambda letter: (-character_counts[letter], letter))
        yield TrainingDocuments(corpus, sample, path, tuple(frequent), documents, characters, fraction)


@dataclass(frozen=True)
class TokenizerOptions:
    """The kind and vocabulary size, including special pieces. Raises `LanguageError` (`vocabulary`)."""

    kind: TokenizerKind = TokenizerKind.WORDPIECE
    vocabulary: int = 8_000
    sample: Sample = field(default_factory=Sample)

    def __post_init__(self) -> None:
        if not MIN_VOCABULARY <= self.vocabulary <= MAX_VOCABULARY:
            details = {"pieces": f"{self.vocabulary:,}", "least": f"{MIN_VOCABULARY:,}", "most": f"{MAX_VOCABULARY:,}"}
            message = "a vocabulary of {pieces} pieces: there may be {least} to {most}".format(**details)
            raise LanguageError("vocabulary", message, **details)

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.sample.split}-{self.vocabulary}"


@dataclass(frozen=True)
class TrainedTokenizer:
    """A tokenizer with its provenance; `fraction` is that of its `TrainingDocuments`."""

    tokenizer: "Tokenizer"
    options: TokenizerOptions
    corpus: str
    fingerprint: str
    fraction: float
    seconds: float

    def provenance(self) -> dict[str, Any]:
        options = {"kind": self.options.kind, "vocabulary": self.options.vocabulary, **asdict(self.options.sample)}
        statistics = {"pieces": self.tokenizer.get_vocab_size(), "fraction": self.fraction, "seconds": self.seconds}
        return {**options, **statistics, "corpus": self.corpus, "fingerprint": self.fingerprint}

    def save(self, folder: Path) -> None:
        """Write or replace a folder for `AutoTokenizer.from_pretrained`."""
        with replacing(folder) as new:
            new.mkdir()
            self.tokenizer.save(str(new / "tokenizer.json"))
            # transformers keeps unknown keys, so that loaded tokenizers declare their marks
            write_json(new / "tokenizer_config.json", {**_CONFIG, TRAINED: self.provenance()})


def train_on(
    documents: TrainingDocuments, kind: TokenizerKind, vocabulary: int, on_progress: ProgressCallback | None = None
) -> TrainedTokenizer:
    """Train a tokenizer on gathered documents; `on_progress` reports reading.

    Characters take at most half of the vocabulary; rarer ones are unknown. Only `UNIGRAM` is not deterministic: the
    library sums its expectations in random order. Raises `LanguageError` (`vocabulary`).
    """
    began = perf_counter()
    options = TokenizerOptions(kind, vocabulary, documents.sample)
    tokenizer = untrained(kind, documents.sample.split, lowercase=documents.sample.lowercase)
    if kind is TokenizerKind.WORDPIECE:
        _train_wordpiece(tokenizer, documents, vocabulary, on_progress)
    else:
        alphabet_size = None if kind is TokenizerKind.BYTE_BPE else vocabulary // 2
        lines = documents.lines(alphabet_size, scale_progress(on_progress, 0, _READING_FRACTION))
        tokenizer.train_from_iterator(lines, _trainer(kind, vocabulary, SPECIAL))
    corpus = documents.corpus
    return TrainedTokenizer(
        tokenizer, options, corpus.name, corpus.fingerprint, documents.fraction, perf_counter() - began
    )


def _train_wordpiece(
    tokenizer: "Tokenizer", documents: TrainingDocuments, vocabulary: int, on_progress: ProgressCallback | None
) -> None:
    """Train by BPE's merges deterministically.

    The library numbers characters inside words in random order, which decides ties between merges. A first training
    without merges collects them, so that they get fixed numbers like special pieces.
    """
    from tokenizers import AddedToken, models

    def trained(first: Sequence[str], size: int, report: ProgressCallback | None) -> dict[str, int]:
        learner = untrained(TokenizerKind.WORDPIECE, documents.sample.split)
        # a character is two pieces: at the beginning of words and inside
        lines = documents.lines(vocabulary // 4, report)
        learner.train_from_iterator(lines, _trainer(TokenizerKind.WORDPIECE, size, first))
        pieces: dict[str, int] = learner.get_vocab()
        return pieces

    callbacks = (
        scale_progress(on_progress, 0, _READING_FRACTION / 2),
        scale_progress(on_progress, _READING_FRACTION / 2, _READING_FRACTION),
    )
    inside = sorted(piece for piece in trained(SPECIAL, len(SPECIAL), callbacks[0]) if piece.startswith("##"))
    tokenizer.model = models.WordPiece(trained([*SPECIAL, *inside], vocabulary, callbacks[1]), unk_token=UNKNOWN)
    tokenizer.add_special_tokens([AddedToken(piece, special=True) for piece in SPECIAL])


def _trainer(kind: TokenizerKind, vocabulary: int, first: Sequence[str]) -> Any:
    from tokenizers import pre_tokenizers, trainers

    shared: dict[str, Any] = {"vocab_size": vocabulary, "special_tokens": [*first], "show_progress": False}
    match kind:
        case TokenizerKind.UNIGRAM:
            return trainers.UnigramTrainer(**shared, unk_token=UNKNOWN)
        case TokenizerKind.WORDPIECE:
            return trainers.WordPieceTrainer(**shared, min_frequency=_MIN_PAIR_FREQUENCY)
        case TokenizerKind.BPE:
            return trainers.BpeTrainer(**shared, min_frequency=_MIN_PAIR_FREQUENCY)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return trainers.BpeTrainer(**shared, min_frequency=_MIN_PAIR_FREQUENCY, initial_alphabet=alphabet)


def untrained(kind: TokenizerKind, split: PreTokenization, *, lowercase: bool = False) -> "Tokenizer":
    """Return a tokenizer without a vocabulary: BERT's `[CLS] a [SEP] b [SEP]`, in NFC with accents.

    All kinds split words at blanks and around each symbol. WordPiece marks continuations with ##; the others mark the
    first piece of a word with ▁ or the blank.
    """
    from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers, processors

    model, pre_tokenizer_steps, decoder = _of_kind(kind)
    if split is PreTokenization.MORPHEMES:
        # WordPiece keeps the boundary as the mark of a morpheme inside a word
        behaviour = "merged_with_next" if kind is TokenizerKind.WORDPIECE else "removed"
        pre_tokenizer_steps.append(pre_tokenizers.Split(BOUNDARY, behaviour))
    final_normalizers = []
    if kind is TokenizerKind.BYTE_BPE:
        pre_tokenizer_steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        final_normalizers = [normalizers.Prepend(" ")]
    first_normalizers = [normalizers.Lowercase()] if lowercase else []
    blanks = [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([*first_normalizers, normalizers.NFC(), *blanks, *final_normalizers])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(pre_tokenizer_steps)
    tokenizer.decoder = decoder
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(piece, SPECIAL.index(piece)) for piece in (CLS, SEP)],
    )
    return tokenizer


def _of_kind(kind: TokenizerKind) -> tuple[Any, list[Any], Any]:
    from tokenizers import Regex, decoders, models, pre_tokenizers

    if kind is TokenizerKind.WORDPIECE:
        pre_tokenizer_steps = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(_SIGN), "isolated")]
        decoder = decoders.Sequence([decoders.WordPiece(), decoders.Replace(f" {BOUNDARY}", "")])
        return models.WordPiece(unk_token=UNKNOWN), pre_tokenizer_steps, decoder
    if kind is TokenizerKind.BYTE_BPE:
        pre_tokenizer_steps = [
            pre_tokenizers.Split(" ", "merged_with_next"),
            pre_tokenizers.Split(Regex(f" ?{_SIGN}"), "isolated"),
        ]
        return models.BPE(), pre_tokenizer_steps, decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    blanks = pre_tokenizers.Metaspace(prepend_scheme="always")
    pre_tokenizer_steps = [blanks, pre_tokenizers.Split(Regex(f"▁?{_SIGN}"), "isolated")]
    model = models.BPE(unk_token=UNKNOWN) if kind is TokenizerKind.BPE else models.Unigram()
    return model, pre_tokenizer_steps, decoders.Metaspace(prepend_scheme="always")
