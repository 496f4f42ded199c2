"""Tokenizers that were trained here or come with models, merges of a BPE, and files of training tokens."""

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xxhash

from mrc_workbench.data.text.analyzers import kiwi_tokens
from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.data.workspace import read_json, write_json
from mrc_workbench.models.files import hub_revision, hub_token
from mrc_workbench.models.language import tokenizer_training as training
from mrc_workbench.models.language.tokenizer_training import BOUNDARY, PreTokenization, TrainedTokenizer
from mrc_workbench.models.sources import ModelSource, find_model, is_starter

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CHARACTERS_AT_ONCE = 1 << 18  # of documents that are tokenized together


class Cut(NamedTuple):
    """The piece ids of a text `(n,)` and their character spans `(n, 2)` without blanks; bytes share characters."""

    numbers: np.ndarray
    spans: np.ndarray


class TokenPiece(NamedTuple):
    """A piece of a text: its characters, its name in the vocabulary, and whether it is known."""

    text: str
    name: str
    known: bool


@dataclass(frozen=True)
class PreparedTokenizer:
    """A named tokenizer; `trained` is its provenance if it was trained here."""

    name: str
    tokenizer: "Tokenizer"
    trained: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    @classmethod
    def from_trained(cls, trained: TrainedTokenizer) -> "PreparedTokenizer":
        return cls(trained.options.name, trained.tokenizer, trained.provenance())

    @property
    def marks_morphemes(self) -> bool:
        return self.trained.get("split") == PreTokenization.MORPHEMES

    @cached_property
    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.tokenizer.to_str())
        return content

    @cached_property
    def unknown(self) -> int | None:
        """The id of the unknown piece; None of byte-level tokenizers."""
        model = self.content["model"]
        piece = model.get("unk_token")
        return model.get("unk_id") if piece is None else self.tokenizer.token_to_id(piece)

    def prepared(self, texts: Sequence[str]) -> list[str]:
        return (
            training.mark_morphemes(texts)
            if self.marks_morphemes
            else [training.normalize_text(text) for text in texts]
        )

    def cut(self, texts: Sequence[str], morphemes: Sequence[np.ndarray]) -> list[Cut]:
        """Cut normalized texts without special pieces; `morphemes` are their `morpheme_boundaries`."""
        if not self.marks_morphemes:
            morphemes = [np.zeros(0, dtype=np.int64)] * len(texts)
        marked_texts = [*map(training.insert_boundaries, texts, morphemes)]
        encodings = self.tokenizer.encode_batch(marked_texts, add_special_tokens=False)
        return [*map(_cut, encodings, texts, morphemes)]

    def pieces(self, text: str) -> list[TokenPiece]:
        text = training.normalize_text(text)
        ((numbers, spans),) = self.cut([text], training.morpheme_boundaries([text]) if self.marks_morphemes else ())
        names: Any = map(self.tokenizer.id_to_token, numbers.tolist())
        known = (numbers != self.unknown).tolist()
        texts = [text[start:end] for start, end in spans.tolist()]
        return [TokenPiece(*piece) for piece in zip(texts, names, known, strict=True)]


def load_tokenizer(folder: Path, name: str = "") -> PreparedTokenizer:
    """Load a folder with a `tokenizer.json`. Raises `LanguageError` (`no_tokenizer`)."""
    from tokenizers import Tokenizer

    name = name or folder.name
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # the library has no exception class
        raise _no_tokenizer(name) from error
    trained = read_json(folder / "tokenizer_config.json").get(training.TRAINED)
    return PreparedTokenizer(name, _without_truncation(tokenizer), trained if isinstance(trained, dict) else {}, folder)


def find_tokenizer(reference: str) -> PreparedTokenizer:
    """Return the tokenizer of a model by reference. Raises `LanguageError` (`no_tokenizer`) and `ModelError`."""
    source = find_model(reference)
    if is_starter(source):
        raise _no_tokenizer(reference)
    if source.packaged:
        source.packaged.write()
    if source.folder and (source.folder / "tokenizer.json").is_file():
        return load_tokenizer(source.folder, reference)
    return PreparedTokenizer(reference, _without_truncation(_by_transformers(source)))


def _by_transformers(source: ModelSource) -> "Tokenizer":
    from transformers import AutoTokenizer

    options: dict[str, Any] = {}
    if source.hub_id:
        revision = hub_revision(source.hub_id)
        options = {"revision": revision.commit, "local_files_only": not revision.online, "token": hub_token()}
    try:
        tokenizer = AutoTokenizer.from_pretrained(source.hub_id or source.folder, **options)
    except (ImportError, ValueError) as error:  # a missing library, or custom code
        raise _no_tokenizer(source.reference) from error
    if not tokenizer.is_fast:
        raise _no_tokenizer(source.reference)
    backend: Tokenizer = tokenizer.backend_tokenizer
    return backend


def _without_truncation(tokenizer: "Tokenizer") -> "Tokenizer":
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _cut(encoding: Any, text: str, morphemes: np.ndarray) -> Cut:
    spans = training.to_unmarked_offsets(morphemes, np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2))
    blank = np.array([character.isspace() for character in text] + [False])
    next_filled = np.minimum.accumulate(np.where(blank, len(text), np.arange(len(text) + 1))[::-1])[::-1]
    starts = np.minimum(next_filled[spans[:, 0]], spans[:, 1])
    # the added blank before the first word has the position of its first character
    ends = np.where([name in training.BLANKS for name in encoding.tokens], starts, spans[:, 1])
    return Cut(np.array(encoding.ids, dtype=np.int64), np.stack([starts, ends], axis=1))


def _no_tokenizer(name: str) -> LanguageError:
    message = f"{name[:200]!r} has no readable tokenizer: use a folder with a tokenizer.json, or a model"
    return LanguageError("no_tokenizer", message, name=name[:200])


def readable(name: str, *, in_bytes: bool) -> str:
    """Return a readable piece: blanks as ▁, and bytes as text or, if invalid, in hexadecimal."""
    if not in_bytes or not set(name) <= _byte_of().keys():
        return name
    content = bytes(_byte_of()[letter] for letter in name)
    try:
        return content.decode().replace(" ", "▁")
    except UnicodeDecodeError:
        return f"<{content.hex(' ').upper()}>"


def is_of_bytes(tokenizer: PreparedTokenizer) -> bool:
    """Whether the pieces of a tokenizer are bytes, see `readable`."""
    return "ByteLevel" in json.dumps(tokenizer.content["pre_tokenizer"])


@cache
def _byte_of() -> dict[str, int]:
    """Map the characters of byte-level BPE (Radford et al. 2019) to bytes: visible ones, else from 256 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + row): byte for row, byte in enumerate(others)}


@dataclass(frozen=True)
class MergeStep:
    """The readable pieces of a word after the first `merges` of a tokenizer, the last of which `joined` the `pair`."""

    merges: int
    pair: tuple[str, str]
    joined: str
    pieces: tuple[str, ...]


def merge_steps(word: str, tokenizer: PreparedTokenizer) -> list[MergeStep]:
    """Return the steps that build a word: characters or bytes (`merges` 0, no `pair`), then each applied merge.

    The first learned merge of adjacent pieces is applied everywhere, repeatedly (Sennrich et al. 2016). A tokenizer
    with only the first n merges makes the pieces of the last step with at most n. Steps may have equal numbers: a later
    merge can make an earlier one applicable. Raises `LanguageError` (`no_merges`).
    """
    learned = tokenizer.content["model"].get("merges")
    in_bytes = is_of_bytes(tokenizer)
    if learned is None:
        message = f"{tokenizer.name} is no BPE and has no merges: select bpe or byte-bpe"
        raise LanguageError("no_merges", message, name=tokenizer.name)
    merge_ranks = {(first, second): rank for rank, (first, second) in enumerate(learned)}
    backend = tokenizer.tokenizer
    (prepared_word,) = tokenizer.prepared([word])
    normal = backend.normalizer.normalize_str(prepared_word) if backend.normalizer else prepared_word
    pre_tokenized = backend.pre_tokenizer.pre_tokenize_str(normal) if backend.pre_tokenizer else [(normal, None)]
    known = backend.get_vocab()
    parts = [[letter if letter in known else training.UNKNOWN for letter in part] for part, _ in pre_tokenized]

    def step(merges: int, pair: tuple[str, str] = ("", "")) -> MergeStep:
        first, second, joined, *names = (
            readable(name, in_bytes=in_bytes) for name in (*pair, "".join(pair), *chain.from_iterable(parts))
        )
        return MergeStep(merges, (first, second), joined, tuple(names))

    history = [step(0)]
    while pairs := [pair for part in parts for pair in pairwise(part) if pair in merge_ranks]:
        pair = min(pairs, key=lambda candidate: merge_ranks[candidate])
        parts = [_merge_pair(part, pair) for part in parts]
        history.append(step(max(history[-1].merges, 1 + merge_ranks[pair]), pair))
    return history


def _merge_pair(part: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    for piece in part:
        if merged and (merged[-1], piece) == pair:
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged


class WholeWords(StrEnum):
    """The unit of masking; whole words leave no hints (Cui et al. 2021)."""

    OFF = "off"  # single tokens
    SPACES = "spaces"  # words between spaces, an eojeol of Korean
    MORPHEMES = "morphemes"  # of Kiwi


def word_starts(texts: Sequence[str], offsets: Sequence[np.ndarray], whole_words: WholeWords) -> list[np.ndarray]:
    """Return whether each token of each text begins a word, `(n_tokens,)` bool.

    `offsets` are the character spans of tokens, `(n_tokens, 2)`. Words that share a token or a character, as morphemes
    may, are merged. If `whole_words` is off, words are those between spaces.
    """
    if whole_words is WholeWords.MORPHEMES:
        begins = _morpheme_starts(texts)
    else:
        begins = [np.zeros(len(text), dtype=bool) for text in texts]
    numbered = [_numbered(text, starts) for text, starts in zip(texts, begins, strict=True)]
    return [_starts(numbers, spans) for numbers, spans in zip(numbered, offsets, strict=True)]


def _morpheme_starts(texts: Sequence[str]) -> list[np.ndarray]:
    """Return whether each character begins a morpheme, by marks if there are any, else by Kiwi."""
    tokens_of_texts = iter(kiwi_tokens([text for text in texts if BOUNDARY not in text]))
    starts_of_texts = []
    for text in texts:
        starts = np.array([character == BOUNDARY for character in text], dtype=bool)
        end = 0
        for token in () if BOUNDARY in text else next(tokens_of_texts):
            starts[token.start : token.start + 1] |= token.start >= end  # 했 is 하 and 었, which share a character
            end = max(end, token.start + token.len)
        starts_of_texts.append(starts)
    return starts_of_texts


def _numbered(text: str, starts: np.ndarray) -> np.ndarray:
    """Return the word number of each character; words begin at `starts` and after blanks."""
    blank = np.fromiter(map(str.isspace, text), dtype=bool, count=len(text))
    starts = starts | (~blank & np.concatenate([[True], blank[:-1]])[: len(text)])
    return np.asarray(np.cumsum(starts) + blank)


def _starts(numbers: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    if not len(offsets):
        return np.zeros(0, dtype=bool)
    first = offsets[:, 0]
    last = np.maximum(offsets[:, 1] - 1, offsets[:, 0])
    reached = np.concatenate([[-1], np.maximum.accumulate(numbers[last])[:-1]])
    return np.asarray(numbers[first] > reached)


class Specials(NamedTuple):
    """Ids of special tokens around texts."""

    pad: int
    begin: int  # [CLS]
    end: int  # [SEP]


@dataclass(frozen=True)
class TokenFile:
    """Concatenated tokens of documents, each followed by [SEP].

    `bounds` `(n_documents + 1,)` are the begins of documents and the end; `same` `(n_documents,)` is equal for equal
    documents; `counts` are the frequencies of the vocabulary's tokens without [SEP].
    """

    tokens: np.ndarray = field(repr=False)
    starts: np.ndarray = field(repr=False)  # like `tokens`, bool: whether a word begins
    bounds: np.ndarray = field(repr=False)
    same: np.ndarray = field(repr=False)
    counts: np.ndarray = field(repr=False)

    @classmethod
    def open(cls, folder: Path) -> "TokenFile":
        dtype = np.dtype(read_json(folder / "about.json")["dtype"])
        mapped = (_mapped(folder / "tokens.bin", dtype), _mapped(folder / "starts.bin", np.dtype(bool)))
        return cls(*mapped, *(np.load(folder / f"{name}.npy") for name in ("bounds", "same", "counts")))


def write_tokens(
    folder: Path, documents: Iterable[str], tokenizer: Any, specials: Specials, whole_words: WholeWords
) -> None:
    """Write the tokens of documents into a folder; `tokenizer` is a fast one of transformers."""
    morphemes = getattr(tokenizer, "init_kwargs", {}).get("trained", {}).get("split") == PreTokenization.MORPHEMES
    size = len(tokenizer)
    dtype = np.dtype(np.uint16 if size <= 1 << 16 else np.uint32)
    folder.mkdir(parents=True, exist_ok=True)
    counts = np.zeros(size, dtype=np.int64)
    lengths = array("q")
    same = array("Q")
    with (folder / "tokens.bin").open("wb") as tokens, (folder / "starts.bin").open("wb") as starts:
        for block in _some(documents):
            texts = training.mark_morphemes(block) if morphemes else [training.normalize_text(text) for text in block]
            encodings = tokenizer(texts, add_special_tokens=False, truncation=False, verbose=False).encodings
            offsets = [np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2) for encoding in encodings]
            for text, encoding, begins in zip(texts, encodings, word_starts(texts, offsets, whole_words), strict=True):
                ids = np.array(encoding.ids, dtype=np.int64)
                counts += np.bincount(ids, minlength=size)
                tokens.write(np.append(ids, specials.end).astype(dtype).tobytes())
                starts.write(np.append(begins, True).tobytes())
                lengths.append(len(ids) + 1)
                same.append(xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")))
    np.save(folder / "bounds.npy", np.concatenate([[0], np.cumsum(np.array(lengths, dtype=np.int64))]))
    np.save(folder / "same.npy", np.array(same, dtype=np.uint64))
    np.save(folder / "counts.npy", counts)
    write_json(folder / "about.json", {"dtype": dtype.name})


def _some(documents: Iterable[str]) -> Iterator[list[str]]:
    texts = list[str]()
    characters = 0
    for document in documents:
        texts.append(document)
        characters += len(document)
        if characters > _CHARACTERS_AT_ONCE:
            yield texts
            texts = []
            characters = 0
    if texts:
        yield texts


def _mapped(path: Path, dtype: np.dtype[Any]) -> np.ndarray:
    return np.asarray(np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype=dtype))
