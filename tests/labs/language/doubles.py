"""A tokenizer for values by hand, whose tokens are the letters without spaces."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from mrc_workbench.models.language.tokenizers import Specials

PAD, UNKNOWN, BEGIN, END, MASK = range(5)
SPECIALS = Specials(PAD, BEGIN, END)
_ALPHABET = "가나다라마바사아자차카타파하abcdefghijklmnopqrstuvwxyz.0123456789"


@dataclass
class _Encoding:
    ids: list[int]
    offsets: list[tuple[int, int]]


@dataclass
class _BatchEncoding:
    encodings: list[_Encoding]


class LetterTokenizer:
    """Returns encodings as the fast tokenizers of transformers do."""

    def __len__(self) -> int:
        return 5 + len(_ALPHABET)

    def __call__(self, texts: list[str], **_: Any) -> _BatchEncoding:
        encodings = []
        for text in texts:
            offsets = [(index, index + 1) for index, letter in enumerate(text) if not letter.isspace()]
            encodings.append(_Encoding(ids_of(text), offsets))
        return _BatchEncoding(encodings)


def id_of(letter: str) -> int:
    return 5 + _ALPHABET.index(letter) if letter in _ALPHABET else UNKNOWN


def ids_of(text: str) -> list[int]:
    return [id_of(letter) for letter in text if not letter.isspace()]


def special_ids(size: int = 5 + len(_ALPHABET)) -> np.ndarray:
    return np.arange(size) < 5


def documents(count: int, seed: int = 0) -> list[str]:
    """Random documents of two to sixty words of one to six letters."""
    rng = np.random.default_rng(seed)

    def word() -> str:
        return "".join(rng.choice(list(_ALPHABET), size=rng.integers(1, 7)))

    return [" ".join(word() for _ in range(rng.integers(2, 61))) for _ in range(count)]


def token_stream(texts: list[str]) -> list[int]:
    return list(chain.from_iterable([*ids_of(text), END] for text in texts))
