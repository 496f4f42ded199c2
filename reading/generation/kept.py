"""What a language model answered, kept by all that it was told, so that nobody is asked twice."""

import threading
from dataclasses import asdict
from typing import Any

from chat.endpoint import Answer, Usage
from chat.lines import append_line, lines_of
from data.cache import key_of
from data.workspace import number_in, workspace, write_json
from reading.generate.generator import Generator, Messages


class KeptAnswers:
    """The answers so far of a model with one prompt and temperature; any thread may add some.

    A line of `workspace/generated/<key>/answers.jsonl` each; beside it, `generator.json` says who answered. An answer
    is found by the text that was sent: the question, and the passages as far as they were. So whichever retriever found
    them gets it, and wherever the model was served.
    """

    def __init__(self, generator: Generator) -> None:
        self._told = {
            "model": generator.model,
            "temperature": float(generator.temperature),
            "prompt": asdict(generator.prompt),
        }
        self._folder = workspace() / "generated" / key_of(self._told)[:16]
        self._writing = threading.Lock()
        self._answers = {
            str(entry["asked"]): _answer(entry)
            for entry in lines_of(self._folder / "answers.jsonl")
            if "asked" in entry and isinstance(entry.get("said"), str)
        }

    def get(self, messages: Messages) -> Answer | None:
        """Return what was answered, None where it was not yet."""
        return self._answers.get(messages.key)

    def add(self, messages: Messages, answer: Answer) -> None:
        """Keep an answer. Raises `OSError`: a full disk."""
        with self._writing:
            if not (self._folder / "generator.json").exists():
                write_json(self._folder / "generator.json", self._told)
            entry = {"asked": messages.key, "said": answer.text, **asdict(answer.usage)}
            append_line(self._folder / "answers.jsonl", entry)
            self._answers[messages.key] = answer


def _answer(entry: dict[str, Any]) -> Answer:
    prompt, completion = (_tokens(entry.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    usage = Usage(prompt, completion, number_in(entry, "first_seconds"), number_in(entry, "seconds"))
    return Answer(str(entry["said"]), usage)


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
