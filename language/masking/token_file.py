"""A file of tokens: text of any size, cut once, and read where it lies."""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash

from data.workspace import read_json, write_json
from language.masking.masker import WholeWords, word_starts
from language.tokenizers.kinds import Split
from language.tokenizers.morphemes import composed_letters, marked

_CHARACTERS_AT_ONCE = 1 << 18  # of documents tokenized together


class Specials(NamedTuple):
    """Ids that a tokenizer puts around texts."""

    pad: int
    begin: int  # [CLS]
    end: int  # [SEP]


@dataclass(frozen=True)
class TokenFile:
    """Tokens of documents, each followed by [SEP], one after the other.

    `bounds` says where documents begin and where the last one ends, `(n_documents + 1,)`; `same`, `(n_documents,)`, is
    equal for those of the same text; `counts` how often every token of the vocabulary occurs, [SEP] left out.
    """

    tokens: np.ndarray = field(repr=False)
    starts: np.ndarray = field(repr=False)  # like `tokens`, bool: whether a word begins
    bounds: np.ndarray = field(repr=False)
    same: np.ndarray = field(repr=False)
    counts: np.ndarray = field(repr=False)

    @classmethod
    def open(cls, folder: Path) -> "TokenFile":
        """Map a folder that `write_tokens` wrote into memory."""
        dtype = np.dtype(read_json(folder / "about.json")["dtype"])
        mapped = (_mapped(folder / "tokens.bin", dtype), _mapped(folder / "starts.bin", np.dtype(bool)))
        return cls(*mapped, *(np.load(folder / f"{name}.npy") for name in ("bounds", "same", "counts")))


def write_tokens(
    folder: Path, documents: Iterable[str], tokenizer: Any, specials: Specials, whole_words: WholeWords
) -> None:
    """Write the tokens of documents into a folder, some documents at a time.

    `tokenizer` is a fast one of transformers; morphemes are marked for one that was trained so
    (`language.tokenizers.train`).
    """
    morphemes = getattr(tokenizer, "init_kwargs", {}).get("trained", {}).get("split") == Split.MORPHEMES
    size = len(tokenizer)
    dtype = np.dtype(np.uint16 if size <= 1 << 16 else np.uint32)
    folder.mkdir(parents=True, exist_ok=True)
    counts, lengths, same = np.zeros(size, dtype=np.int64), array("q"), array("Q")  # of numbers, not of objects
    with (folder / "tokens.bin").open("wb") as tokens, (folder / "starts.bin").open("wb") as starts:
        for some in _some(documents):
            texts = marked(some) if morphemes else [composed_letters(text) for text in some]
            told = tokenizer(texts, add_special_tokens=False, truncation=False, verbose=False).encodings
            letters = [np.array(one.offsets, dtype=np.int64).reshape(-1, 2) for one in told]
            for text, one, begins in zip(texts, told, word_starts(texts, letters, whole_words), strict=True):
                ids = np.array(one.ids, dtype=np.int64)
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
    texts, characters = list[str](), 0
    for document in documents:
        texts.append(document)
        characters += len(document)
        if characters > _CHARACTERS_AT_ONCE:
            yield texts
            texts, characters = [], 0
    if texts:
        yield texts


def _mapped(path: Path, dtype: np.dtype[Any]) -> np.ndarray:
    return np.asarray(np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype=dtype))
