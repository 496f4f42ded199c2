"""Argument checks, data of other libraries, HTML tables for notebooks, and progress bars."""

import csv
import json
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from io import BytesIO
from numbers import Integral, Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ParamSpec, TypeAlias, TypeGuard, TypeVar

import numpy as np
import pandas as pd
from markupsafe import Markup

from mrc_workbench.data.files import current_names
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.subprocess_reader import File
from mrc_workbench.data.terminal import quiet_libraries
from mrc_workbench.retrieval.comparison.experiment import RunMeasurements, RunSpec, add_run
from mrc_workbench.retrieval.rankings import Rankings
from mrc_workbench.retrieval.trec import RunNotes, rankings_from_table, read_run, write_run

_CELL = Markup('<{tag} style="text-align:{side};padding:2px 10px;border:0">{text}</{tag}>')
_TABLE = Markup(
    '<table><caption style="text-align:left;caption-side:top">{}</caption><thead>{}</thead><tbody>{}</tbody></table>{}'
)
_LONGEST = 80  # characters of a cell
OnProgress = Callable[[str, float], None]  # the running step, and the progress from 0 to 1
P = ParamSpec("P")
R = TypeVar("R")
_BAR = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"


class ApiError(Failure, ValueError):
    """An invalid argument. The message has the given and the expected value."""


def accept_earlier_keywords(**renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function accept earlier names of its keyword arguments, with a deprecation line in the log."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> R:
            return function(*args, **current_names(kwargs, renamed, f"mrc_workbench.{function.__name__}"))

        return call

    return decorate


def unknown_name(what: str, name: object, known: Iterable[str]) -> ApiError:
    """Return the error for an unknown name, with the most similar known name."""
    names = list(known)
    by_folded = {known_name.casefold(): known_name for known_name in names}
    nearest = get_close_matches(str(name).casefold(), by_folded, n=1)
    guess = f"; did you mean {by_folded[nearest[0]]!r}?" if nearest else "."
    return ApiError("unknown_name", f"no {what} is called {name!r}{guess} Known: {', '.join(names)}", name=str(name))


def is_whole_number(value: object) -> TypeGuard[int]:
    """Whether a value is an integer of Python or NumPy."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is an integer or a float of Python or NumPy."""
    return isinstance(value, Real) and not isinstance(value, bool)


def html_table(table: pd.DataFrame, *, caption: str, notes: Sequence[str] = ()) -> str:
    """Return a table as HTML. Every text is escaped, and long cells are cut."""
    sides = ["right" if pd.api.types.is_numeric_dtype(table[column]) else "left" for column in table.columns]

    def row(tag: str, texts: Iterable[object]) -> Markup:
        cells = [_CELL.format(tag=tag, side=side, text=text) for side, text in zip(sides, texts, strict=True)]
        return Markup("<tr>{}</tr>").format(Markup("").join(cells))

    body = Markup("").join(row("td", map(_cell_text, values)) for values in table.itertuples(index=False, name=None))
    lines = Markup("").join(Markup("<div>{}</div>").format(note) for note in notes)
    return str(_TABLE.format(caption, row("th", table.columns), body, lines))


def _cell_text(value: object) -> str:
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    text = "" if value is None or value is pd.NA else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


@contextmanager
def progress_bar(title: str, *, enabled: bool = True) -> Iterator[OnProgress]:
    """Yield a function that displays progress; hides the progress bars of libraries.

    A notebook shows a widget and a terminal a line; if the standard error is a file, there is no output.
    """
    with quiet_libraries():
        if not enabled:
            yield lambda *_: None
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # without ipywidgets a notebook gets the line of a terminal
            from tqdm.auto import tqdm

        with tqdm(total=100.0, desc=title, bar_format=_BAR, leave=False, disable=None) as bar:

            def report(name: str, fraction: float) -> None:
                bar.set_description_str(f"{title}: {name}" if name else title, refresh=False)
                bar.update(max(0.0, 100.0 * fraction - bar.n))

            yield report


# scores by passage id by question id, a table, records such as `ScoredDoc` of ir_measures, or a file
Run: TypeAlias = Mapping[str, Mapping[str, float]] | pd.DataFrame | Iterable[tuple[Any, ...]] | str | os.PathLike[str]
_QUERY = ("query_id", "qid", "q_id", "query-id", "query", "question_id", "question")
_PASSAGE = ("doc_id", "docno", "docid", "passage_id", "corpus-id", "corpus_id", "pid", "doc", "passage")
_SCORE = ("score", "sim", "rsv")
_GRADE = ("relevance", "rel", "grade", "label", "score")
COLLECTION = ("corpus", "queries", "qrels")
_FIRST_LINES = 20
_FIRST_CHARACTERS = 4_096
_LARGEST_GRADE = 10**9
_TEXT_COLUMNS = {"query", "question", "doc", "passage"}  # these may hold texts
_OTHER_COLUMNS = {"iteration", "iter", "q0", "split"}  # of judgements


def is_run(item: object) -> bool:
    """Whether an item is a run: passage scores by question id, or a table of them."""
    if isinstance(item, pd.DataFrame):
        return True
    return isinstance(item, Mapping) and bool(item) and all(isinstance(scores, Mapping) for scores in item.values())


def read_any_run(run: Run, question_set: QuestionSet, name: str) -> tuple[Rankings, RunNotes]:
    """Return a run as rankings over a question set, with notes. Raises `RunError` and `ApiError`."""
    if isinstance(run, str | os.PathLike):
        return read_run(Path(run).expanduser(), question_set, os.fspath(run))
    return rankings_from_table(run_table(run), question_set, name)


def store_run(run: Run, question_set: QuestionSet, name: str) -> RunSpec:
    """Store a run in the workspace like an import of the Compare page; returns its spec. Raises `RunError`."""
    rankings, notes = read_any_run(run, question_set, name)
    noticed = {note: getattr(notes, note) for note in ("unknown_passages", "repeated") if getattr(notes, note)}
    recorded = RunMeasurements(seconds_per_query=0.0, **noticed) if noticed else None
    with TemporaryDirectory() as folder:
        path = Path(folder, "run.trec")
        write_run(path, rankings, question_set, name)
        return add_run(question_set, name, path.read_bytes(), name, recorded)


def run_table(run: Run) -> pd.DataFrame:
    """Return a run in memory as a table with the columns question, passage and score. Raises `ApiError`."""
    given = records_table(run)
    if isinstance(given, pd.DataFrame):
        names = {"question": _QUERY, "passage": _PASSAGE, "score": _SCORE}
        table = pd.DataFrame({column: given[_column(given, known)].to_numpy() for column, known in names.items()})
    else:
        pairs = _by_passage(given, "run", "scores").items()
        rows = [(query, passage, score) for query, passage_scores in pairs for passage, score in passage_scores.items()]
        table = pd.DataFrame(rows, columns=["question", "passage", "score"])
    try:
        scores = table["score"].to_numpy(dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ApiError("wrong_score", f"a run needs numbers as scores: {error}") from error
    if not len(table) or not np.isfinite(scores).all():
        raise ApiError("wrong_score", "a run needs at least one passage, and finite numbers as scores")
    ids = {column: table[column].astype(str).astype("category") for column in ("question", "passage")}
    return pd.DataFrame({**ids, "score": scores})


def judgements(qrels: Any) -> dict[str, dict[str, int]]:
    """Return grades by passage id by question id from a dictionary, a table or a TREC file. Raises `ApiError`."""
    if isinstance(qrels, str | os.PathLike):
        given: Any = _qrels_table(Path(qrels).expanduser())
    else:
        given = records_table(qrels)
    if not isinstance(given, pd.DataFrame):
        by_query = _by_passage(given, "judgements", "grades")
        return {
            str(query): {str(id_): _grade(grade) for id_, grade in passage_grades.items()}
            for query, passage_grades in by_query.items()
        }
    columns = [_column(given, names) for names in (_QUERY, _PASSAGE, _GRADE)]
    grades: dict[str, dict[str, int]] = {}
    for query, passage, grade in given[columns].itertuples(index=False, name=None):
        grades.setdefault(str(query), {})[str(passage)] = _grade(grade)
    return grades


def records_table(items: Any) -> Any:
    """Return a list of named tuples, such as `Qrel` and `ScoredDoc` of ir_measures, as a table; else the argument."""
    if isinstance(items, list | tuple) and items and all(hasattr(item, "_fields") for item in items):
        return pd.DataFrame(list(items), columns=list(items[0]._fields))
    return items


def holds_judgements(columns: Iterable[object]) -> bool:
    """Whether these columns are judgements: a grade, or only ids of both kinds and a number."""
    names = {str(column).casefold() for column in columns}
    if names & {"relevance", "rel", "grade"}:
        return True
    ids = {*_QUERY, *_PASSAGE} - _TEXT_COLUMNS
    has_both_ids = bool(names & ids & set(_QUERY) and names & ids & set(_PASSAGE))
    return has_both_ids and bool(names & set(_GRADE)) and names <= ids | {*_GRADE} | _OTHER_COLUMNS


def is_qrels_file(path: Path) -> bool:
    """Whether a file starts with TREC judgements (`q1 0 d1 1`) or with the header of BEIR."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            lines = [line.split() for line in file.read(_FIRST_CHARACTERS).splitlines()[:_FIRST_LINES] if line.strip()]
    except OSError:
        return False
    if len(lines) > 1 and len(lines[0]) == 3 and holds_judgements(lines[0]):
        return all(len(line) == 3 for line in lines[:-1])
    whole = lines[:-1] or lines  # the last line may be cut
    numbers = [line[1::2] for line in whole if len(line) == 4]  # the iteration and the grade
    is_trec = len(numbers) == len(whole) > 0
    return is_trec and all(number.removeprefix("-").isdecimal() for pair in numbers for number in pair)


def _by_passage(values: Any, what: str, numbers: str) -> Mapping[Any, Mapping[Any, Any]]:
    """Return the values if they are numbers by passage id by question id, else raise `ApiError`."""
    if not isinstance(values, Mapping):
        message = f"{what} must be {numbers} by passage id by question id, a table, a list of records or a file"
        raise ApiError(f"wrong_{what}", f"{message}, not {_kind(values)}")
    for query, by_passage in values.items():
        if not isinstance(by_passage, Mapping):
            message = f"{what} of question {str(query)[:80]!r} must be {numbers} by passage id, not {_kind(by_passage)}"
            raise ApiError(f"wrong_{what}", message)
    return values


def _kind(value: object) -> str:
    return f"{type(value).__name__} {value!r}"[:100]


def _qrels_table(path: Path) -> pd.DataFrame:
    """Read judgements of TREC (four columns) or BEIR (three columns with a header)."""
    names = ["query_id", "iteration", "doc_id", "relevance"]
    try:
        with path.open(encoding="utf-8-sig") as file:
            has_header = len(file.readline().split()) == 3
        options: dict[str, Any] = {"sep": r"\s+", "dtype": str, "keep_default_na": False, "quoting": csv.QUOTE_NONE}
        table: pd.DataFrame = pd.read_csv(path, encoding="utf-8-sig", names=None if has_header else names, **options)
        return table
    except (OSError, ValueError) as error:
        raise ApiError("wrong_qrels", f"{path} cannot be read as judgements of TREC or BEIR: {error}") from error


def _grade(value: Any) -> int:
    """Return a grade. Raises `ApiError` for fractions, because rounding could change the relevance."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not number.is_integer() or abs(number) > _LARGEST_GRADE:
        raise ApiError("wrong_qrels", f"a grade must be a whole number, not {value!r} (a run's scores are no grades)")
    return int(number)


def _column(table: pd.DataFrame, names: tuple[str, ...]) -> Any:
    folded = {str(column).casefold(): column for column in table.columns}
    for name in names:
        if name in folded:
            return folded[name]
    given = ", ".join(map(repr, table.columns))
    message = f"the table needs a column {names[0]!r} (or {', '.join(names[1:])}); it has {given}"
    raise ApiError("missing_column", message)


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
    except (ValueError, TypeError, OSError) as error:  # Arrow raises several for columns of mixed types
        message = f"the table cannot be read: {error}; give each column one type"
        raise ApiError("mixed_table", message) from error
    return [_file("table.parquet", file.getvalue())]


def row_files(rows: Sequence[Mapping[str, Any]]) -> list[File]:
    """Return rows as JSON lines. A single row is a JSON list, because a file with one line is read as an object."""
    if len(rows) == 1:
        return [_file("rows.json", b"[" + _json_lines(rows).strip() + b"]")]
    return [_file("rows.jsonl", _json_lines(rows))]


def collection_files(source: Mapping[str, Any]) -> list[File]:
    """Return corpus, queries and judgements as the files of BEIR. Raises `ApiError`."""
    if missing := [part for part in COLLECTION if part not in source]:
        given = ", ".join(map(repr, source)) or "nothing"
        message = f"a mapping needs corpus, queries and qrels; {', '.join(missing)} is missing, given: {given[:200]}"
        raise ApiError("unknown_source", message)
    corpus = [
        {"_id": id_, "title": _text(content, "title"), "text": _text(content)}
        for id_, content in _items(source, "corpus")
    ]
    queries = [{"_id": id_, "text": _text(content)} for id_, content in _items(source, "queries")]
    graded = [
        {"query-id": query, "corpus-id": passage, "score": grade}
        for query, grades in judgements(source["qrels"]).items()
        for passage, grade in grades.items()
    ]
    rows: dict[str, Sequence[Mapping[str, Any]]]
    rows = {"corpus.jsonl": corpus, "queries.jsonl": queries, "qrels/test.jsonl": graded}
    return [_file(name, _json_lines(lines)) for name, lines in rows.items()]


def set_name(kind: str, question_set: QuestionSet) -> str:
    """Return a name to display: "Table of 120 questions"."""
    noun = "question" if question_set.questions else "passage"
    count = len(question_set.questions or question_set.passages)
    return f"{kind} of {count:,} {noun}{'' if count == 1 else 's'}"


def _items(source: Mapping[str, Any], part: str) -> list[tuple[str, Any]]:
    content = source[part]
    if not isinstance(content, Mapping):
        form = '{"title": ..., "text": ...}' if part == "corpus" else '{"text": ...}'
        message = f"{part} must be a dictionary of texts, or of {form}, by id; given: {type(content).__name__}"
        raise ApiError("unknown_source", message)
    return [(str(id_), entry) for id_, entry in content.items()]


def _text(content: Any, field: str = "text") -> str:
    """Return a field of a passage or question, empty if missing; plain text is the field "text"."""
    fields = content if isinstance(content, Mapping) else {"text": content}
    return "" if fields.get(field) is None else str(fields[field])


def _json_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode()


def _file(name: str, content: bytes) -> File:
    return File(Content.from_bytes(content), name)
