"""What a language model wrote, kept by what it was asked, so that the same call is not made again."""

import json
import threading
from pathlib import Path

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
        line = json.dumps({"passage": key, "questions": questions}, ensure_ascii=False)
        with self._writing:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"\n{line}")  # the line break comes first: a line torn by a kill spoils no other
            self._questions[key] = questions


def _read(path: Path) -> dict[str, list[str]]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return {}
    found: dict[str, list[str]] = {}
    for line in filter(None, lines):
        try:
            entry = json.loads(line)
            found[str(entry["passage"])] = [str(one) for one in entry["questions"]]
        except (ValueError, KeyError, TypeError):
            continue
    return found
