"""A tokenizer that can be followed by hand: every letter is a token, and spaces are none; and what is refused."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.text.corpora import LanguageError
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
    """As fast tokenizers of transformers answer."""

    def __len__(self) -> int:
        return 5 + len(_ALPHABET)

    def __call__(self, texts: list[str], **_: Any) -> _BatchEncoding:
        indices = [[index for index, letter in enumerate(text) if not letter.isspace()] for text in texts]
        return _BatchEncoding(
            [
                _Encoding(
                    [id_of(text[index]) for index in text_indices], [(index, index + 1) for index in text_indices]
                )
                for text, text_indices in zip(texts, indices, strict=True)
            ]
        )


def id_of(letter: str) -> int:
    return 5 + _ALPHABET.index(letter) if letter in _ALPHABET else UNKNOWN


def ids_of(text: str) -> list[int]:
    return [id_of(letter) for letter in text if not letter.isspace()]


def special_ids(size: int = 5 + len(_ALPHABET)) -> np.ndarray:
    return np.arange(size) < 5


def documents(count: int, seed: int = 0) -> list[str]:
    """Different ones, of two to sixty words of one to six letters."""
    rng = np.random.default_rng(seed)
    return [
        " ".join("".join(rng.choice(list(_ALPHABET), size=rng.integers(1, 7))) for _ in range(rng.integers(2, 61)))
        for _ in range(count)
    ]


def token_stream(texts: list[str]) -> list[int]:
    return list(chain.from_iterable([*ids_of(text), END] for text in texts))


def raises_failure(code: str, kind: type[Failure] = LanguageError) -> pytest.RaisesExc[Failure]:
    """What has to raise this failure with this code."""
    return pytest.raises(kind, check=lambda failure: failure.code == code)
