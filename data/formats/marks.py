"""Texts that say that a cell is empty."""

from mrc_workbench.data.formats.tables import is_blank

_MISSING = frozenset(
    {"nan", "n/a", "<na>", "null", "-", "–", "—"}
)  # what programs write for a missing value, in any case
_EMPTY = frozenset(  # as they are written where a cell may be empty: in passages and questions some may be the text
    {"NaN", "nan", "N/A", "n/a", "#N/A", "<NA>", "NaT", "null", "NULL", "None", "-", "없음", "해당 없음", "해당없음"}
)
_LONGEST_MISSING, _LONGEST_EMPTY = 12, max(map(len, _EMPTY))  # the first with white space around it


def is_missing(value: object) -> bool:
    """Whether a cell is blank or holds the mark of a missing value, such as NaN or N/A."""
    return is_blank(value) or (isinstance(value, str) and len(value) < _LONGEST_MISSING and is_mark(value.strip()))


def is_mark(text: str) -> bool:
    """Whether a stripped text is the mark of a missing value, whatever it stands for."""
    return len(text) < _LONGEST_MISSING and text.lower() in _MISSING


def says_empty(text: str) -> bool:
    """Whether a stripped text of a cell that may be empty says that it is."""
    return len(text) <= _LONGEST_EMPTY and text in _EMPTY
