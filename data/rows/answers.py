"""The answers a cell can hold, however a table keeps them."""

import ast
import json
import re
from itertools import islice
from typing import Any

import numpy as np

from data.files.cells import CellError, as_text

MOST_ANSWERS = 1_000
_LONGEST_PYTHON = 100_000  # characters; reading Python takes a hundred times their size in memory
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


def answer_texts(cell: object) -> tuple[str, ...]:
    """Return the different answers a cell holds, in order; of more than `MOST_ANSWERS` only one more than that.

    Takes plain text, a list, a SQuAD-like `{"text": [...]}` or a list of those, arrays, and the JSON or
    Python text of any of them, as tables keep it.
    """
    if isinstance(cell, str) and cell.lstrip()[:1] in ("[", "{"):
        cell = _parsed(cell.strip())
    return tuple(islice(dict.fromkeys(text for text in _flat(cell, depth=4) if text), MOST_ANSWERS + 1))


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


def _flat(value: Any, depth: int) -> list[str]:
    if isinstance(value, dict):
        value = next((value[key] for key in ("text", "texts", "answer", "value") if key in value), None)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple, set)):
        return [text for item in value for text in _flat(item, depth - 1)] if depth else []
    return [] if isinstance(value, (dict, CellError)) else [as_text(value)]
