"""What a model is told before it answers from passages, and how passages are shown to it."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from data.records import Passage
from reading.generation.citations import CITATION
from reading.judge.rules import ReadingError

_PLACEHOLDER = re.compile(r"\{(passages|question|refusal)\}")
_QUOTED = "> "


@dataclass(frozen=True)
class Prompt:
    """The system instruction, the user's text and the sentence that says that no passage holds an answer.

    `{refusal}` stands in the instruction, `{passages}` and `{question}` in the template; other braces mean themselves.
    Raises `ReadingError` (`bad_template`) where one is missing, or the refusal is empty.
    """

    instruction: str
    template: str
    refusal: str

    def __post_init__(self) -> None:
        needed = (("refusal", self.instruction), ("passages", self.template), ("question", self.template))
        for name, text in needed:
            if f"{{{name}}}" not in text:
                raise ReadingError("bad_template", f"the prompt lacks {{{name}}}", placeholder=f"{{{name}}}")
        if not self.refusal.strip():
            raise ReadingError("bad_template", "the prompt's refusal is empty", placeholder="{refusal}")

    @property
    def system(self) -> str:
        """The instruction with its refusal."""
        return _filled(self.instruction, {"refusal": self.refusal.strip()})

    def asking(self, question: str, sent: Sequence[Passage]) -> str:
        """Return the user's text with a question, on one line, and passages as `as_sent` makes them."""
        return _filled(self.template, {"passages": numbered(sent), "question": " ".join(question.split())})


@cache
def prompts() -> dict[str, Prompt]:
    """Return the prompts that come with the program, by language."""
    languages = tomllib.loads((Path(__file__).parent / "prompts.toml").read_text(encoding="utf-8"))
    return {language: Prompt(**{name: text.strip() for name, text in of.items()}) for language, of in languages.items()}


def as_sent(passage: Passage, most_characters: int) -> Passage:
    """Return a passage as a model reads it: its first characters, and nothing that it could be taken in by.

    What would be read as a citation, `[3]`, becomes `(3)`, and `<|`, by which many models mark whose turn it is, `< |`.
    """
    rest = "…" if len(passage.text) > most_characters else ""
    return Passage(passage.id, _harmless(passage.text[:most_characters] + rest), _harmless(passage.title))


def numbered(sent: Sequence[Passage]) -> str:
    """Return passages under their numbers, `[1]` and so on, each line of theirs behind `> `, the title first.

    A line without that mark is ours: whatever stands in a passage, it opens no number and ends no quotation.
    """
    return "\n\n".join(f"[{number}]\n{_quotation(passage)}" for number, passage in enumerate(sent, start=1))


def _quotation(passage: Passage) -> str:
    title = [" ".join(passage.title.split()), ""] if passage.title.strip() else []
    return "\n".join(f"{_QUOTED}{line}" for line in [*title, *passage.text.splitlines()])


def _harmless(text: str) -> str:
    return str(CITATION.sub(r"(\1)", text)).replace("<|", "< |")


def _filled(template: str, values: Mapping[str, str]) -> str:
    """The template with its placeholders, and none of what stands in the values, replaced."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)
