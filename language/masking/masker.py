"""Which tokens of a text are hidden from a model that learns to guess them (Devlin et al. 2019, 3.1)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from language.tokenizers.morphemes import BOUNDARY
from text.analyzers import kiwi_tokens

IGNORED = -100  # the label where nothing is to be guessed, as torch's cross-entropy has it


class WholeWords(StrEnum):
    """What is hidden at once, so that no rest of a word gives it away (Cui et al. 2021)."""

    OFF = "off"  # each token by itself
    SPACES = "spaces"  # words between spaces, an eojeol of Korean
    MORPHEMES = "morphemes"  # as Kiwi parts them


@dataclass(frozen=True)
class MaskingOptions:
    """The share of tokens to guess, and the shares of these that are shown as [MASK] and as any other token."""

    share: float = 0.15
    masked: float = 0.8
    random: float = 0.1  # the rest is shown as it is


@dataclass(frozen=True)
class Masker:
    """Hides tokens by chance. Special tokens are never hidden, and never shown in place of another."""

    options: MaskingOptions
    mask: int  # the id of [MASK]
    special: np.ndarray = field(repr=False)  # (vocabulary,) bool, true of the ids that are no text

    def masked(self, tokens: np.ndarray, words: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return what is shown, and the labels: the ids to guess, `IGNORED` elsewhere; both like `tokens` `(n, width)`.

        `words`, of the same shape, numbers the word of each token, from 0 in each row and below the width: a word is
        hidden as a whole with the probability `share`, so that this is the share of tokens, too. What its tokens are
        shown as is drawn for each of them.
        """
        drawn = np.take_along_axis(rng.random(tokens.shape), words, axis=1)
        chosen = (drawn < self.options.share) & ~self.special[tokens]
        labels = np.where(chosen, tokens, IGNORED)
        fate = rng.random(tokens.shape)
        others = np.flatnonzero(~self.special)
        shown = np.where(chosen & (fate < self.options.masked), self.mask, tokens)
        is_random = chosen & (fate >= self.options.masked) & (fate < self.options.masked + self.options.random)
        shown[is_random] = others[rng.integers(len(others), size=int(is_random.sum()))]
        return shown, labels


def word_starts(texts: Sequence[str], letters: Sequence[np.ndarray], whole_words: WholeWords) -> list[np.ndarray]:
    """Say of every token of each text whether a word begins with it, `(n_tokens,)` bool.

    `letters` holds the first and the last letter and one of every token, `(n_tokens, 2)`. Words that share a token, or
    a letter, as morphemes may, are one. Where `whole_words` is off, words are those between spaces.
    """
    morphemes = whole_words is WholeWords.MORPHEMES
    numbered = _by_morpheme(texts) if morphemes else [_by_space(text) for text in texts]
    return [_starts(numbers, spans) for numbers, spans in zip(numbered, letters, strict=True)]


def words_of(starts: np.ndarray) -> np.ndarray:
    """Number the words of rows of tokens from 0, `(n, width)`, by where they start: `(n, width)` bool."""
    return np.asarray(np.maximum(np.cumsum(starts, axis=1) - 1, 0))


def _by_space(text: str) -> np.ndarray:
    """The number of the word of each letter."""
    return _joined(text, np.zeros(len(text), dtype=bool))


def _by_morpheme(texts: Sequence[str]) -> list[np.ndarray]:
    """The same for morphemes: as they are marked, or as Kiwi finds them where nothing is."""
    unmarked = [text for text in texts if BOUNDARY not in text]
    told = iter(kiwi_tokens(unmarked))
    return [_by_mark(text) if BOUNDARY in text else _by_tokens(text, next(told)) for text in texts]


def _by_tokens(text: str, tokens: Sequence[Any]) -> np.ndarray:
    starts, end = np.zeros(len(text), dtype=bool), 0
    for token in tokens:
        starts[token.start : token.start + 1] |= token.start >= end  # 했 is 하 and 었: they share a letter
        end = max(end, token.start + token.len)
    return _joined(text, starts)


def _by_mark(text: str) -> np.ndarray:
    return _joined(text, np.fromiter((letter == BOUNDARY for letter in text), dtype=bool, count=len(text)))


def _joined(text: str, starts: np.ndarray) -> np.ndarray:
    """Number what begins at `starts` or after a blank; a blank belongs to what comes after it, as tokens have it."""
    blank = np.fromiter(map(str.isspace, text), dtype=bool, count=len(text))
    starts = starts | (~blank & np.concatenate([[True], blank[:-1]])[: len(text)])
    return np.asarray(np.cumsum(starts) + blank)


def _starts(numbers: np.ndarray, letters: np.ndarray) -> np.ndarray:
    if not len(letters):
        return np.zeros(0, dtype=bool)
    first, last = letters[:, 0], np.maximum(letters[:, 1] - 1, letters[:, 0])
    reached = np.concatenate([[-1], np.maximum.accumulate(numbers[last])[:-1]])
    return np.asarray(numbers[first] > reached)
