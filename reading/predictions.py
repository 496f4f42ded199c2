"""Answers by question id in a file: KorQuAD's and SQuAD's official form, one JSON object with a text for each id."""

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from data.workspace import write_text
from reading.problems import ReadingError

_FORM: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


def read_predictions(path: Path) -> dict[str, str]:
    """Read the answers of a file; the empty text is "no answer". Raises `ReadingError`, `OSError`."""
    try:
        return _FORM.validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f" at {place!r}" for place in first["loc"][:1])
        form = 'one object of question ids and answers is needed, as {"q1": "서울", "q2": ""}'
        raise ReadingError("bad_predictions", f"{path.name}{where}: {first['msg']}; {form}") from error


def write_predictions(answers: Mapping[str, str], path: Path) -> None:
    """Write answers so that `read_predictions` and the published scripts read them. Raises `OSError`."""
    write_text(path, json.dumps(answers, ensure_ascii=False, indent=1))
