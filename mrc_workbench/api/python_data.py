"""Data of a Python program as the files that would hold it: tables, rows, and collections of BEIR."""

import json
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any

import pandas as pd

from mrc_workbench.api.errors import ApiError
from mrc_workbench.api.runs import judgements
from mrc_workbench.data.apart import File
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.records import QuestionSet

COLLECTION = ("corpus", "queries", "qrels")


def table_files(table: pd.DataFrame) -> list[File]:
    """Return a table as a Parquet file; an index with a name is a column of it. Raises `ApiError`."""
    if isinstance(table.index, pd.RangeIndex):
        content = table
    elif table.index.name and table.index.name not in table.columns:
        content = table.reset_index()
    else:
        content = table.reset_index(drop=True)
    if not all(isinstance(label, str) for label in content.columns):
        content = content.rename(columns=str)
    repeated = content.columns[content.columns.duplicated()].unique()
    if len(repeated):
        names = ", ".join(map(repr, repeated))
        raise ApiError("repeated_column", f"the table has several columns named {names}: rename or drop them")
    file = BytesIO()
    try:
        content.to_parquet(file, index=False)
    except (ValueError, TypeError, OSError) as error:  # also what Arrow raises for a column of several types
        message = f"the table cannot be read: {error}; give each column one type"
        raise ApiError("mixed_table", message) from error
    return [_file("table.parquet", file.getvalue())]


def row_files(rows: Sequence[Mapping[str, Any]]) -> list[File]:
    """Return rows as JSON lines. A single row is a list, because one line alone would be read as a JSON object."""
    if len(rows) == 1:
        return [_file("rows.json", b"[" + _json_lines(rows).strip() + b"]")]
    return [_file("rows.jsonl", _json_lines(rows))]


def collection_files(source: Mapping[str, Any]) -> list[File]:
    """Return corpus, queries and judgements as the files of BEIR. Raises `ApiError`."""
    if missing := [part for part in COLLECTION if part not in source]:
        given = ", ".join(map(repr, source)) or "nothing"
        message = f"a mapping needs corpus, queries and qrels; {', '.join(missing)} is missing, given: {given[:200]}"
        raise ApiError("unknown_source", message)
    corpus = [{"_id": str(id_), **_passage(content)} for id_, content in _items(source, "corpus")]
    queries = [{"_id": str(id_), "text": _text(content)} for id_, content in _items(source, "queries")]
    graded = [
        {"query-id": query, "corpus-id": passage, "score": grade}
        for query, grades in judgements(source["qrels"]).items()
        for passage, grade in grades.items()
    ]
    return [
        _file("corpus.jsonl", _json_lines(corpus)),
        _file("queries.jsonl", _json_lines(queries)),
        _file("qrels/test.jsonl", _json_lines(graded)),
    ]


def set_name(kind: str, question_set: QuestionSet) -> str:
    """Return a name to display: "Table of 120 questions"."""
    counted, noun = len(question_set.questions), "question"
    if not counted:
        counted, noun = len(question_set.passages), "passage"
    return f"{kind} of {counted:,} {noun}{'' if counted == 1 else 's'}"


def _items(source: Mapping[str, Any], part: str) -> Iterable[tuple[Any, Any]]:
    content = source[part]
    if not isinstance(content, Mapping):
        form = '{"title": ..., "text": ...}' if part == "corpus" else '{"text": ...}'
        message = f"{part} must be a dictionary of texts, or of {form}, by id; given: {type(content).__name__}"
        raise ApiError("unknown_source", message)
    return content.items()


def _passage(content: Any) -> dict[str, str]:
    title = str(content.get("title") or "") if isinstance(content, Mapping) else ""
    return {"title": title, "text": _text(content)}


def _text(content: Any) -> str:
    text = content.get("text") if isinstance(content, Mapping) else content
    return "" if text is None else str(text)


def _json_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode()


def _file(name: str, content: bytes) -> File:
    return File(Content.of(content), name)
