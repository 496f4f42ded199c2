"""How questions are made, and what passages ask by themselves.

Titles ask for all the passages of their article, and sentences for the rest of their passage: the inverse cloze task
(Lee et al. 2019).
"""

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import regex

from data.problems import Failure
from data.records import Maker, Passages, made_by, without
from text.marking import sentence_spans


class QuestionsError(Failure):
    """Questions that cannot be made; `code` is a key of `made.` in the locale files."""


class PromptLanguage(StrEnum):
    """The language of the prompt that comes with the program."""

    KOREAN = "ko"
    ENGLISH = "en"


def option(default: Any, text: str, low: float | None = None, high: float | None = None) -> Any:
    """Declare a field: its default, a line of help, and its smallest and largest value."""
    return field(default=default, metadata={"help": text, "low": low, "high": high})


@dataclass(frozen=True, kw_only=True)
class MakerOptions:
    """How questions are made. Raises `QuestionsError` where an option is out of its range.

    Where a language model writes them, `model` is its name at the endpoint, which stands in every question; the
    endpoint itself is no option, and is kept nowhere.
    """

    by: Maker = option(Maker.SENTENCE, "what asks: the article's title, a sentence of the passage, or a language model")
    most: int = option(0, "passages (by title: articles) that are asked about, drawn by the seed; 0: all", 0)
    per_passage: int = option(1, "questions a passage at most (sentence, model)", 1, 20)
    taken_out: float = option(0.9, "share of the sentences that are taken out of their passage in training", 0, 1)
    shortest: int = option(20, "characters of a sentence, and of what is left of its passage, at least", 2, 1000)
    longest: int = option(200, "characters of a sentence at most", 2, 10_000)
    model: str = option("", "name of the language model at the endpoint")
    language: PromptLanguage = option(PromptLanguage.KOREAN, "language of the prompt, where none is given")
    prompt: str = option("", "what the language model is told; {n} stands for the number of questions")
    temperature: float = option(0.7, "how freely the language model writes", 0, 2)
    concurrency: int = option(4, "passages that the endpoint is asked about at the same time", 1, 64)
    seed: int = option(0, "seed of every random choice", 0, 2**31 - 1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", Maker(self.by))  # read from a command, they are plain words
        object.__setattr__(self, "language", PromptLanguage(self.language))
        for known in fields(self):
            value, low, high = getattr(self, known.name), known.metadata.get("low"), known.metadata.get("high")
            if (low is not None and not value >= low) or (high is not None and not value <= high):
                wanted = f"between {low} and {high}" if high is not None else f"{low} or more"
                raise QuestionsError("range", f"{known.name} must be {wanted}, not {value}", wanted=wanted)
        if self.longest < self.shortest:
            raise QuestionsError("range", "longest must not be below shortest", wanted=str(self.shortest))
        if self.by is Maker.MODEL and not self.model.strip():
            raise QuestionsError("no_model", "name the language model that is to write the questions")

    @property
    def made(self) -> str:
        """What `Question.made` says of their questions."""
        return made_by(self.by, self.model.strip())


Progress = Callable[[int, int], None]  # passages done, passages in all


class Draft(NamedTuple):
    """What asks, the row of the passage it was made of, and whether training is to take it out there."""

    text: str
    row: int
    hidden: bool = False


def drawn(count: int, most: int, seed: int) -> list[int]:
    """Return `most` of the numbers below `count` in ascending order, all where `most` is 0.

    Those drawn for a smaller `most` are among those drawn for a larger one: a preview shows what will be made.
    """
    numbers = np.random.default_rng(seed).permutation(count)
    return sorted(numbers[: most or count].tolist())


def title_drafts(passages: Passages, options: MakerOptions) -> Iterator[Draft]:
    """Yield the titles, one draft a passage, in the order of the corpus.

    They are hidden: passages are trained on without titles, or a model would learn to compare two equal lines.
    """
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    for row, title in enumerate(passages.titles):
        if title.strip():
            rows_of[title.strip()].append(row)
    titles = list(rows_of)
    for number in drawn(len(titles), options.most, options.seed):
        for row in rows_of[titles[number]]:
            yield Draft(titles[number], row, hidden=True)


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
