"""Tokenizers trained on a user's text: WordPiece, BPE, byte-level BPE and Unigram, over words or over morphemes.

Training documents lie in a file, so that several kinds and vocabularies read the same text and Kiwi analyzes it once.
Trainers hold all distinct words in memory: of a corpus larger than `most_characters` they read a sample of documents.
Each tokenizer is a standard `tokenizer.json` for `tokenizers.Tokenizer.from_file` and transformers'
`PreTrainedTokenizerFast`. One that was trained on morphemes expects texts in which `marked` has marked them.
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
from mrc_workbench.data.text.corpora import Corpus, LanguageError, OnProgress, gone_through, held_out, within
from mrc_workbench.data.texts import in_blocks
from mrc_workbench.data.workspace import replacing, write_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer


PAD, UNKNOWN, CLS, SEP, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # numbered from 0
BLANKS = ("▁", "Ġ")  # as Metaspace and byte-level BPE write one
BOUNDARY = "\N{INVISIBLE SEPARATOR}"  # nobody sees it, NFC keeps it, and texts of people hold none
_BLOCK = 256  # texts that Kiwi is given at a time: its morphemes take a hundred times the memory of the text
LEAST, MOST = 1_000, 64_000  # pieces of a vocabulary
TRAINED = "trained"  # how a tokenizer was trained, in its tokenizer_config.json
MOST_CHARACTERS = 50_000_000
_FEWEST = 2  # times that a pair occurs before it is a piece
_READING = 0.6  # share of a training that is reading: the library does not tell how far it is with the rest
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
_SIGN = r"[[\p{P}\p{S}]&&[^▁]]"  # punctuation and symbols, each of them a word


class TokenizerKind(StrEnum):
    """How a vocabulary is found.

    `WORDPIECE` (Schuster & Nakajima 2012) is trained as the library does, by BPE's merges, and cuts as BERT does, the
    longest piece first. `BPE` (Sennrich et al. 2016), `BYTE_BPE` of bytes, which knows every letter (Radford et al.
    2019), `UNIGRAM` (Kudo 2018).
    """

    WORDPIECE = "wordpiece"
    BPE = "bpe"
    BYTE_BPE = "byte-bpe"
    UNIGRAM = "unigram"


class Split(StrEnum):
    """What no piece crosses: the ends of words, or those of the morphemes in them as well."""

    WORDS = "words"
    MORPHEMES = "morphemes"


def composed_letters(text: str) -> str:
    """Return a text as cuts are told in it: its letters composed (NFC), and no boundary marked."""
    return unicodedata.normalize("NFC", text).replace(BOUNDARY, "")


def cuts(spans: np.ndarray, text: str) -> np.ndarray:
    """Return the places `(n,)` between two letters or digits at which a span begins and over which none reaches.

    `spans` `(n, 2)` are in the order of their beginnings. Blanks and punctuation are no cuts, and pieces that share a
    letter are not cut apart there.
    """
    starts, ends = spans.T
    reached = np.maximum.accumulate(np.concatenate([[0], ends]))[:-1]
    places = np.unique(starts[starts >= reached])
    inside = [place for place in places.tolist() if 0 < place < len(text) and text[place - 1 : place + 1].isalnum()]
    return np.array(inside, dtype=np.int64)


def morpheme_cuts(texts: Sequence[str]) -> list[np.ndarray]:
    """Return the places inside the words of each text at which a morpheme begins, by Kiwi: 갔다 is 갔 | 다."""
    found = []
    for block in in_blocks(texts, _BLOCK):
        for text, tokens in zip(block, kiwi_tokens(block), strict=True):
            spans = [(token.start, token.start + token.len) for token in tokens]
            found.append(cuts(np.array(spans, dtype=np.int64).reshape(-1, 2), text))
    return found


def marked(texts: Sequence[str]) -> list[str]:
    """Return the texts composed, with `BOUNDARY` where a morpheme begins inside a word.

    A tokenizer that was trained on morphemes expects such texts. Without the marks each is as `composed_letters`
    returns it.
    """
    composed = [composed_letters(text) for text in texts]
    return [mark(text, places) for text, places in zip(composed, morpheme_cuts(composed), strict=True)]


def mark(text: str, places: np.ndarray) -> str:
    """Return a text with `BOUNDARY` at the places."""
    ends = [0, *places.tolist(), len(text)]
    return BOUNDARY.join(text[start:end] for start, end in pairwise(ends))


def unmarked(places: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return where positions `at` of a text that was marked at `places` stand in the text without the marks."""
    return at - np.searchsorted(places + np.arange(1, len(places) + 1), at, side="right") if len(places) else at


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Which documents are learned from. `held_out` is the share kept for measuring, chosen by `seed`."""

    split: Split = Split.WORDS
    lowercase: bool = False
    held_out: float = 0.1
    seed: int = 0
    most_characters: int = MOST_CHARACTERS

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            message = f"the share held out is {self.held_out}: it is at least 0 and below 1"
            raise LanguageError("held_out", message, share=str(self.held_out))


@dataclass(frozen=True)
class Material:
    """Documents to learn from, a line each at `path`; `letters` by frequency, `share` of the documents not held out."""

    corpus: Corpus
    sample: Sample
    path: Path
    letters: tuple[str, ...]
    documents: int
    characters: int
    share: float

    def lines(self, letters: int | None = None, on_progress: OnProgress | None = None) -> Iterator[str]:
        """With `letters`, all but so many of the most frequent leave a gap in their word."""
        kept = len(self.letters) if letters is None else letters
        rare = {ord(letter): " " for letter in self.letters[kept:] if letter != BOUNDARY}
        with self.path.open(encoding="utf-8", newline="\n") as file:
            for line in gone_through(file, self.characters, on_progress):
                yield line.translate(rare) if rare else line


@contextmanager
def gathered(corpus: Corpus, sample: Sample, on_progress: OnProgress | None = None) -> Iterator[Material]:
    """Write the documents to a temporary file. Raises `LanguageError` (`nothing_to_learn`) if all are held out."""
    letters, documents, characters = Counter[str](), 0, 0
    share = min(1.0, sample.most_characters / max(1.0, corpus.characters * (1 - sample.held_out)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "documents.txt")
        with path.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            every = gone_through(corpus.documents(), corpus.characters, on_progress)
            not_held_out = (one for one in every if not held_out(one, sample.held_out, sample.seed))
            learned = (one for one in not_held_out if held_out(one, share, sample.seed + 1))
            for block in in_blocks(learned, _BLOCK):
                for text in marked(block) if sample.split is Split.MORPHEMES else map(composed_letters, block):
                    line = " ".join(text.split())
                    line = line.lower() if sample.lowercase else line
                    letters.update(line)
                    file.write(line + "\n")
                    documents, characters = documents + 1, characters + len(line)
        if not documents:
            message = f"{corpus.name} is too small: all of its documents are held out for measuring"
            raise LanguageError("nothing_to_learn", message, corpus=corpus.name)
        frequent = sorted(letters, key=lambda letter: (-letters[letter], letter))
        yield Material(corpus, sample, path, tuple(frequent), documents, characters, share)


@dataclass(frozen=True)
class TokenizerOptions:
    """The kind and vocabulary size, special pieces included. Raises `LanguageError` (`vocabulary`)."""

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


def train_on(
    material: Material, kind: TokenizerKind, vocabulary: int, on_progress: OnProgress | None = None
) -> TrainedTokenizer:
    """Train a tokenizer on gathered documents; `on_progress` is called while they are read.

    Letters take at most half of the vocabulary; rarer ones are unknown. Bytes are 256. All kinds but `UNIGRAM` are
    deterministic: the library sums Unigram's expectations in random order. Memory is that of the distinct words. Raises
    `LanguageError` (`vocabulary`).
    """
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

    The library numbers letters inside words in random order, which decides between merges of the same frequency. A
    training without merges finds them first, so that they are numbered like special pieces.
    """
    from tokenizers import AddedToken, models

    def trained(first: Sequence[str], size: int, told: OnProgress | None) -> dict[str, int]:
        learner = untrained(TokenizerKind.WORDPIECE, material.sample.split)
        # a letter is a piece at the beginning of words and another inside
        lines = material.lines(vocabulary // 4, told)
        learner.train_from_iterator(lines, _trainer(TokenizerKind.WORDPIECE, size, first))
        pieces: dict[str, int] = learner.get_vocab()
        return pieces

    halves = within(on_progress, 0, _READING / 2), within(on_progress, _READING / 2, _READING)
    inside = sorted(piece for piece in trained(SPECIAL, len(SPECIAL), halves[0]) if piece.startswith("##"))
    tokenizer.model = models.WordPiece(trained([*SPECIAL, *inside], vocabulary, halves[1]), unk_token=UNKNOWN)
    tokenizer.add_special_tokens([AddedToken(piece, special=True) for piece in SPECIAL])


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
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return trainers.BpeTrainer(**shared, min_frequency=_FEWEST, initial_alphabet=alphabet)


def untrained(kind: TokenizerKind, split: Split, *, lowercase: bool = False) -> "Tokenizer":
    """Return a tokenizer without a vocabulary: BERT's `[CLS] a [SEP] b [SEP]`, letters composed (NFC), accents kept.

    All kinds split words alike, at blanks and around each sign. WordPiece marks a piece inside a word with ##; the
    others mark the first of a word with ▁ (or, of bytes, the blank itself).
    """
    from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers, processors

    model, words, decoder = _of_kind(kind)
    if split is Split.MORPHEMES:  # WordPiece has no other sign that a morpheme goes on with a word: the boundary stays
        behaviour = "merged_with_next" if kind is TokenizerKind.WORDPIECE else "removed"
        words.append(pre_tokenizers.Split(BOUNDARY, behaviour))
    after = []
    if kind is TokenizerKind.BYTE_BPE:
        words.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        after = [normalizers.Prepend(" ")]
    before = [normalizers.Lowercase()] if lowercase else []
    blanks = [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([*before, normalizers.NFC(), *blanks, *after])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(words)
    tokenizer.decoder = decoder
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(piece, SPECIAL.index(piece)) for piece in (CLS, SEP)],
    )
    return tokenizer


def _of_kind(kind: TokenizerKind) -> tuple[Any, list[Any], Any]:
    """The model without pieces, what parts words at blanks and around signs, and what makes text of pieces."""
    from tokenizers import Regex, decoders, models, pre_tokenizers

    if kind is TokenizerKind.WORDPIECE:
        words = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(_SIGN), "isolated")]
        decoder = decoders.Sequence([decoders.WordPiece(), decoders.Replace(f" {BOUNDARY}", "")])
        return models.WordPiece(unk_token=UNKNOWN), words, decoder
    if kind is TokenizerKind.BYTE_BPE:
        words = [pre_tokenizers.Split(" ", "merged_with_next"), pre_tokenizers.Split(Regex(f" ?{_SIGN}"), "isolated")]
        return models.BPE(), words, decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    blanks = pre_tokenizers.Metaspace(prepend_scheme="always")
    words = [blanks, pre_tokenizers.Split(Regex(f"▁?{_SIGN}"), "isolated")]
    model = models.BPE(unk_token=UNKNOWN) if kind is TokenizerKind.BPE else models.Unigram()
    return model, words, decoders.Metaspace(prepend_scheme="always")
