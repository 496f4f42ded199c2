"""Sentences that ask for the rest of their passage: the inverse cloze task (Lee et al. 2019)."""

import hashlib
import unicodedata
from collections.abc import Iterator

import numpy as np
import regex

from data.made import without
from data.records import Passages
from questions.draft import Draft, Progress, drawn
from questions.options import MakerOptions
from text.sentences import sentence_spans

_LETTER = regex.compile(r"\p{L}")
_LEAST_WORDS = 3
_LEAST_LETTERS = 0.6  # of its characters: what has fewer is a date, a table or a formula


def sentence_drafts(passages: Passages, options: MakerOptions, on_progress: Progress) -> list[Draft]:
    """Draw sentences of the passages, each by a lottery of its own: others coming or going change nothing for it.

    A sentence that stands in several of the passages says little of any and is not drawn. A share `taken_out` of them
    is hidden: taken out of the passage in training. The others stay, so that equal words go on to count (Lee et al.
    2019, section 5.1).
    """
    drafts: list[Draft] = []
    seen, repeated = set[int](), set[int]()
    rows = drawn(len(passages), options.most, options.seed)
    for done, row in enumerate(rows):
        on_progress(done, len(rows))
        text = passages.texts[row]
        sentences = list(dict.fromkeys(sentences_of(text)))
        hashes = set(map(hash, sentences))
        repeated |= seen & hashes
        seen |= hashes
        drafts += _drawn_sentences(text, sentences, row, options)
    on_progress(len(rows), len(rows))
    return [draft for draft in drafts if hash(draft.text) not in repeated]


def sentences_of(text: str) -> Iterator[str]:
    """Yield the sentences of a text, letter for letter as they stand in it."""
    composed = unicodedata.normalize("NFC", text)
    for start, end in sentence_spans(composed):
        sentence = composed[start:end].strip()
        if sentence and sentence in text:  # of a text that is not composed only those that do not show it
            yield sentence


def is_informative(sentence: str, options: MakerOptions) -> bool:
    """Whether a sentence says enough to ask with: it is long and short enough, and made of words."""
    words, letters = len(sentence.split()), len(_LETTER.findall(sentence))
    spaced = words >= _LEAST_WORDS or words == 1  # where words are not spaced, as in Japanese, there is one
    long_enough = options.shortest <= len(sentence) <= options.longest
    return long_enough and spaced and letters >= _LEAST_LETTERS * (len(sentence) - words + 1)


def _drawn_sentences(text: str, sentences: list[str], row: int, options: MakerOptions) -> Iterator[Draft]:
    """Yield up to `per_passage` drafts, leaving enough of the passage when all of them are taken out."""
    usable = [one for one in sentences if is_informative(one, options) and text.count(one) == 1]
    content = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    lottery = np.random.default_rng([options.seed, int.from_bytes(content[:8], "little")])
    taken: list[str] = []
    for place in lottery.permutation(len(usable)).tolist():
        if len(without(text, [*taken, usable[place]])) >= options.shortest:
            taken.append(usable[place])
            yield Draft(usable[place], row, hidden=bool(lottery.random() < options.taken_out))
        if len(taken) == options.per_passage:
            return
