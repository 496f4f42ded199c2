"""What is wrong with given data, in the person's language."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import streamlit as st

from data.problems import DataError, Problem, ProblemCode
from views.words import catalog, known, language, plain, word

_NAMED_BY_READERS = ("found", "expected", "unit", "reason")
_NAMED_BY_USERS = (ProblemCode.MISSING_COLUMN, ProblemCode.UNKNOWN_COLUMN)  # `found` lists the file's own columns


@contextmanager
def errors_told() -> Iterator[None]:
    """Show the words of a `DataError` raised inside, in place of its traceback."""
    try:
        yield
    except DataError as error:
        st.error(plain(error_text(error)), icon=":material/error:")


def error_text(error: DataError) -> str:
    """Return the words of an error: not Markdown, escape them with `plain` where they are read as such."""
    texts = catalog(language())
    first = next((problem for problem in error.others if problem.leaves_out_row), None)
    return _text(error.problem, texts, {"first": problem_text(first, texts)} if first else {})


def problem_text(problem: Problem, texts: Mapping[str, str] | None = None) -> str:
    """Return the words of a problem, led by its row; `texts` where no page is being drawn."""
    return _text(problem, texts or catalog(language()), {})


def reason_text(problem: Problem, texts: Mapping[str, str] | None = None) -> str:
    """Return the words of a problem without its row, for tables that have a column for it."""
    return _text(Problem(problem.code, None, problem.details), texts or catalog(language()), {})


def _text(problem: Problem, texts: Mapping[str, str], values: dict[str, str]) -> str:
    details = {name: _detail(problem, name, value, texts) for name, value in problem.details.items()}
    template = texts[f"problem.{problem.code.value}"]
    template = template[0].upper() + template[1:] if problem.row is None else texts["problem.row"] + template
    return " ".join(template.format(row=problem.row, **details | values).split())


def _detail(problem: Problem, name: str, value: str | int, texts: Mapping[str, str]) -> str | int:
    if not isinstance(value, str):
        return value
    if name == "role":
        return texts[f"column.{value}"]
    if name not in _NAMED_BY_READERS or problem.code in _NAMED_BY_USERS:
        return value
    return _translated(value, texts)


def _translated(value: str, texts: Mapping[str, str]) -> str:
    """The value with the phrases that readers use, and only those, in the person's language."""
    start = value[:1].lower() + value[1:]
    phrases = [key.removeprefix("detail.") for key in texts if key.startswith("detail.")]
    known = [phrase for phrase in phrases if start == phrase or start.startswith(f"{phrase} ")]
    if not known:
        return value
    longest = max(known, key=len)
    rest = value[len(longest) :].strip()
    if not longest.endswith(":"):  # a colon leads names of the file's own
        rest = _translated(rest, texts)
    return f"{texts[f'detail.{longest}']} {rest}".strip()


def reason(error: Exception) -> str:
    """Return why a retriever failed, in words; not Markdown."""
    code = getattr(error, "code", "")
    for key in (f"model.{code}", f"milvus.{code}"):
        if known(key):
            return word(key, **{name: getattr(error, name, "") for name in ("model", "place")})
    first_line = next(iter(str(error).splitlines()), "")[:300]
    return word("search.failed", reason=first_line or type(error).__name__)
