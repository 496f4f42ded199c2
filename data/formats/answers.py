"""What a cell holds beyond one text: answers with their places, metadata, and the JSON or Python text of them."""

import ast
import json
import re
from itertools import islice
from typing import Any

import numpy as np

from mrc_workbench.data.formats.tables import MOST_CHARACTERS, CellError, as_text, is_blank, is_collection, is_fit

MOST_ANSWERS = 1_000
NOWHERE = -1  # where nobody said where an answer stands
_LONGEST_PYTHON = 100_000  # characters; reading Python takes a hundred times their size in memory
OTHER_IDS = "other_ids"  # in the metadata of an exported passage: its aliases
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


def answers_in(cell: object) -> dict[str, int]:
    """Return the different answers a cell holds, in order; of more than `MOST_ANSWERS` only one more than that.

    Each with the letter of its passage at which it begins by a SQuAD-like `answer_start`, or `NOWHERE`. Takes plain
    text, a list, a SQuAD-like `{"text": [...]}` or a list of those, arrays, and the JSON or Python text of any of them,
    as tables keep it.
    """
    if isinstance(cell, str):
        text = cell.strip()
        if text[:1] not in ("[", "{"):
            return {text: NOWHERE} if text and not isinstance(cell, CellError) else {}
        cell = parsed(text)
    found: dict[str, int] = {}
    for text, start in _flat(cell, depth=4):
        if text and found.setdefault(text, start) == NOWHERE:
            found[text] = start
    return found if len(found) <= MOST_ANSWERS else dict(islice(found.items(), MOST_ANSWERS + 1))


def parsed(text: str) -> object:
    """Return the value that a cell's text stands for, JSON or Python, or the text where it stands for itself."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        if len(text) > _LONGEST_PYTHON:
            return text
    # pandas writes arrays as array(['a'], dtype=object) or ['a' 'b'], which Python would read as one text.
    python = re.sub(r"array\((\[[^\[\]]*\])(?:, dtype=\w+)?\)", r"\1", text)
    python = re.sub(r"(['\"])\s+(?=['\"])", r"\1, ", python)
    if re.match(r"\[\s*\[", python):
        python = re.sub(r"\]\s+(?=\[)", "], ", python)
    try:
        return ast.literal_eval(python)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def metadata_in(cell: object) -> dict[str, Any] | None:
    """Return the metadata that a cell holds, also as JSON text; None where it holds no object."""
    value = parsed(cell) if isinstance(cell, str) and cell.lstrip().startswith("{") else cell
    return value if isinstance(value, dict) else None


def other_ids_in(cell: object) -> list[str]:
    """Return the aliases that the metadata of an exported passage list."""
    metadata = metadata_in(cell)
    others = metadata.get(OTHER_IDS) if metadata else None
    if not isinstance(others, list):
        return []
    return [id_ for id_ in others if isinstance(id_, str) and id_ and len(id_) <= MOST_CHARACTERS and is_fit(id_)]


def _flat(value: Any, depth: int, start: Any = None) -> list[tuple[str, int]]:
    if isinstance(value, dict):
        start = _listed(value.get("answer_start"))
        value = next((value[key] for key in ("text", "texts", "answer", "value") if key in value), None)
    if type(value) is str:
        return [(value.strip(), _place(start))]
    value = _listed(value)
    if isinstance(value, (list, tuple, set)):
        starts = start if isinstance(start, list) and len(start) == len(value) else [None] * len(value)
        parts = zip(value, starts, strict=True)
        return [found for item, place in parts for found in _flat(item, depth - 1, place)] if depth else []
    return [] if isinstance(value, (dict, CellError)) else [(as_text(value), _place(start))]


def with_starts(answers: Any, starts: Any) -> Any:
    """Join answers with the starts of another cell, one or a list of them, into what `answers_in` takes."""
    answers, starts = (parsed(value) if _is_list_text(value) else _listed(value) for value in (answers, starts))
    if isinstance(answers, dict) or is_blank(answers) or is_blank(starts):
        return answers
    answers = answers if is_collection(answers) else [answers]
    starts = starts if is_collection(starts) else [starts]
    return {"text": list(answers), "answer_start": list(starts)}


def _is_list_text(value: Any) -> bool:
    return isinstance(value, str) and value.lstrip()[:1] in ("[", "{")


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _place(start: Any) -> int:
    if start is None:
        return NOWHERE
    text = as_text(start) if isinstance(start, (int, float, str)) and not isinstance(start, bool) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else NOWHERE
