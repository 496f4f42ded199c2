"""The kinds of tokenizers, the pieces that all have, and where morphemes begin inside words, for a tokenizer to see."""

import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

import numpy as np

from mrc_workbench.data.text.analyzers import kiwi_tokens
from mrc_workbench.data.texts import in_blocks

PAD, UNKNOWN, CLS, SEP, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # numbered from 0
BLANKS = ("▁", "Ġ")  # as Metaspace and byte-level BPE write one


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


BOUNDARY = "\N{INVISIBLE SEPARATOR}"  # nobody sees it, NFC keeps it, and texts of people hold none
_BLOCK = 256  # texts that Kiwi is given at a time: its morphemes take a hundred times the memory of the text


def composed_letters(text: str) -> str:
    """Return a text as cuts are told in it: its letters composed (NFC), and no boundary marked."""
    return unicodedata.normalize("NFC", text).replace(BOUNDARY, "")


def cuts(spans: np.ndarray, text: str) -> np.ndarray:
    """Return the places `(n,)` between two letters or digits at which a span begins and over which none reaches.

    `spans` `(n, 2)` are in the order of their beginnings. Blanks and punctuation part words for everybody and are no
    cuts. Two pieces that share a letter, as morphemes that contracted or bytes of one letter, are not cut apart there.
    """
    starts, ends = spans.T
    reached = np.maximum.accumulate(np.concatenate([[0], ends]))[:-1]
    places = np.unique(starts[starts >= reached])
    inside = [place for place in places.tolist() if 0 < place < len(text) and text[place - 1 : place + 1].isalnum()]
    return np.array(inside, dtype=np.int64)


def morpheme_cuts(texts: Sequence[str]) -> list[np.ndarray]:
    """Return for each text (`composed_letters`) the places inside its words at which a morpheme begins, by Kiwi.

    Where Kiwi restores letters (갔다 is 가 + 았 + 다), a morpheme stands where its letters are seen: 갔 | 다.
    """
    found = []
    for block in in_blocks(texts, _BLOCK):
        for text, tokens in zip(block, kiwi_tokens(block), strict=True):
            spans = [(token.start, token.start + token.len) for token in tokens]
            found.append(cuts(np.array(spans, dtype=np.int64).reshape(-1, 2), text))
    return found


def marked(texts: Sequence[str]) -> list[str]:
    """Return the texts composed, with `BOUNDARY` where a morpheme begins inside a word.

    Without the marks each is as `composed_letters` has it: nothing is lost but the difference between loose letters and
    composed ones. What a tokenizer that was trained on morphemes is given, here and wherever else it is used.
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
