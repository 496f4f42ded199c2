"""The answers a cell can hold, however a table keeps them, and where they stand in their passage."""

import ast
import json
import re
from itertools import islice
from typing import Any

import numpy as np

from data.files.cells import CellError, as_text

MOST_ANSWERS = 1_000
NOWHERE = -1  # where nobody said where an answer stands
_LONGEST_PYTHON = 100_000  # characters; reading Python takes a hundred times their size in memory
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


def answers_in(cell: object) -> dict[str, int]:
    """Return the different answers a cell holds, in order; of more than `MOST_ANSWERS` only one more than that.

    Each with the letter of its passage at which it begins by a SQuAD-like `answer_start`, or `NOWHERE`. Takes plain
    text, a list, a SQuAD-like `{"text": [...]}` or a list of those, arrays, and the JSON or Python text of any of them,
    as tables keep it.
    """
    if isinstance(cell, str) and cell.lstrip()[:1] in ("[", "{"):
        cell = _parsed(cell.strip())
    found: dict[str, int] = {}
    for text, start in _flat(cell, depth=4):
        if text and found.setdefault(text, start) == NOWHERE:
            found[text] = start
    return dict(islice(found.items(), MOST_ANSWERS + 1))


def _parsed(text: str) -> object:
    """The value a cell's text stands for, or the text where it stands for itself."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        if len(text) > _LONGEST_PYTHON:
            return text
    # pandas writes arrays as array(['a'], dtype=object) or ['a' 'b'], which Python would read as one text.
    python = re.sub(r"array\((\[[^\[\]]*\])(?:, dtype=\w+)?\)", r"\1", text)
    python = re.sub(r"(['\"])\s+(?=['\"])", r"\1, ", python)
    try:
        return ast.literal_eval(python)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _flat(value: Any, depth: int, start: Any = None) -> list[tuple[str, int]]:
    if isinstance(value, dict):
        start = _listed(value.get("answer_start"))
        value = next((value[key] for key in ("text", "texts", "answer", "value") if key in value), None)
    value = _listed(value)
    if isinstance(value, (list, tuple, set)):
        starts = start if isinstance(start, list) and len(start) == len(value) else [None] * len(value)
        parts = zip(value, starts, strict=True)
        return [found for item, place in parts for found in _flat(item, depth - 1, place)] if depth else []
    return [] if isinstance(value, (dict, CellError)) else [(as_text(value), _place(start))]


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _place(start: Any) -> int:
    text = as_text(start) if isinstance(start, (int, float, str)) and not isinstance(start, bool) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else NOWHERE
