"""What a language model wrote, kept by what it was asked, so that the same call is not made again."""

import threading
from pathlib import Path

from chat.lines import append_line, lines_of
from data.cache import key_of
from data.workspace import workspace


class KeptAnswers:
    """The questions written so far with one model, prompt and temperature, by passage; any thread may add some.

    A line of `workspace/cache/questions/<key>.jsonl` each: what is there stays, however the work ends. Where the model
    was served is no part of the key.
    """

    def __init__(self, *asked_with: str | float) -> None:
        self._path = workspace() / "cache" / "questions" / f"{key_of(*asked_with)[:16]}.jsonl"
        self._writing = threading.Lock()
        self._questions = _read(self._path)

    def get(self, title: str, text: str) -> list[str] | None:
        """Return the questions written of a passage, None where it was not asked about yet."""
        return self._questions.get(key_of(title, text))

    def add(self, title: str, text: str, questions: list[str]) -> None:
        """Keep the questions of a passage. Raises `OSError` where the disk is full."""
        key = key_of(title, text)
        with self._writing:
            append_line(self._path, {"passage": key, "questions": questions})
            self._questions[key] = questions


def _read(path: Path) -> dict[str, list[str]]:
    return {
        str(entry["passage"]): [str(one) for one in entry["questions"]]
        for entry in lines_of(path)
        if "passage" in entry and isinstance(entry.get("questions"), list)
    }
