"""What the making of questions can be told, and what can go wrong with it."""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from data.failure import Failure
from data.made import Maker, made_by


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
