"""Datasets: questions, passages and the judgements that link them, from files, tables and dictionaries."""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pandas as pd

from mrc_workbench.api import values as api_values
from mrc_workbench.api.values import ApiError
from mrc_workbench.data.formats.columns import QuestionColumns
from mrc_workbench.data.formats.tables import display_text
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.questions.read import WORK, QuestionSetReading, read_paths_in_subprocess
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import CATALOG, display_name, find, read_entry, stored
from mrc_workbench.data.subprocess_reader import File
from mrc_workbench.retrieval.comparison.store import store_question_set

_COLUMNS = [field.name for field in fields(QuestionColumns)]
_FILE = re.compile(r"\b([Tt]he|this) file\b")  # in the templates of problems
_LONGEST = 200


@runtime_checkable
class _Table(Protocol):
    """A table of another library: Polars, Hugging Face datasets."""

    def to_pandas(self) -> Any: ...


@dataclass(frozen=True, repr=False)
class Dataset:
    """Questions over a corpus of passages. `load` makes one.

    Attributes
    ----------
    question_set
        the records that retrieval and training read
    problems
        notes on the reading, in English: skipped rows, repaired cells, guessed columns
    source
        the origin of the data: a path, a catalog name, or "Python"
    """

    question_set: QuestionSet
    problems: tuple[str, ...] = ()
    source: str = ""

    @property
    def name(self) -> str:
        """The name that the app and the command line display."""
        return self.question_set.name

    @property
    def key(self) -> str:
        """A hash of the content, 16 hexadecimal digits: the key in the workspace."""
        return self.question_set.fingerprint[:16]

    @cached_property
    def questions(self) -> pd.DataFrame:
        """One row per question, indexed by id: text, answers, ids of relevant passages, kind and part."""
        questions = self.question_set.questions
        rows = [(entry.text, list(entry.answers), dict(entry.grade_of), entry.kind, entry.part) for entry in questions]
        index = pd.Index([question.id for question in questions], name="id")
        return pd.DataFrame(rows, columns=["text", "answers", "relevant", "kind", "part"], index=index)

    @cached_property
    def passages(self) -> pd.DataFrame:
        """One row per passage, indexed by id: title and text."""
        passages = self.question_set.passages
        rows = [(passage.title, passage.text) for passage in passages]
        return pd.DataFrame(rows, columns=["title", "text"], index=pd.Index(list(passages.ids), name="id"))

    def save(self) -> str:
        """Store the dataset in the workspace, where the app lists it; returns its key.

        `compare` and `train` store their datasets too.
        """
        store_question_set(self.question_set, self.source)
        return self.key

    def __repr__(self) -> str:
        counts = f"{len(self.question_set.questions):,} questions, {len(self.question_set.passages):,} passages"
        return f"<Dataset {self.name!r}: {counts}>"

    def _repr_html_(self) -> str:
        sample = self.questions.reset_index()[["id", "text", "answers"]].head(5)
        return api_values.html_table(sample, caption=repr(self)[1:-1], notes=self.problems[:5])


Source: TypeAlias = (
    Dataset
    | QuestionSet
    | str
    | os.PathLike[str]
    | Sequence[str | os.PathLike[str]]
    | pd.DataFrame
    | Sequence[Mapping[str, Any]]
    | Mapping[str, Any]
    | _Table
)


def load(source: Source, *, columns: Mapping[str, str] | None = None, name: str = "", encoding: str = "") -> Dataset:
    """Load questions and passages. Raises `DataError`, with the reason and a solution.

    Parameters
    ----------
    source
        A path or several paths of one collection (CSV, Excel, Parquet, JSON, SQuAD, BEIR, TREC and the other formats
        of the Data page); the name of a public dataset ("sample") or of a dataset in the workspace; a table of
        pandas, Polars or Hugging Face datasets, or a list of dictionaries, with a row per question and passage; or
        `{"corpus": ..., "queries": ..., "qrels": ...}` as BEIR and ir_datasets give them.
    columns
        Column names by role, if they are not recognised: `{"question": "질문", "context": "지문"}`.
    name
        The name to display; by default that of the file, or for data of Python its size: "Table of 120 questions".
    encoding
        Encoding of text files; detected by default.

    Examples
    --------
    >>> import mrc_workbench as mrc
    >>> mrc.load([{"질문": "자격루는 누가 만들었는가?", "지문": "자격루는 장영실이 만든 물시계이다."}],
    ...          columns={"question": "질문", "context": "지문"}, name="과학사")
    <Dataset '과학사': 1 questions, 1 passages>
    >>> corpus = {"d1": {"title": "Clock", "text": "Jang Yeong-sil built the water clock."}, "d2": "It rains."}
    >>> data = mrc.load({"corpus": corpus, "queries": {"q1": "Who built the clock?"}, "qrels": {"q1": {"d1": 1}}})
    >>> data.questions["relevant"]["q1"]
    {'d1': 1}
    """
    column_by_role = _checked(columns)
    given: object = source  # of any type at run time
    if isinstance(source, Dataset):
        dataset = source
    elif isinstance(source, QuestionSet):
        dataset = Dataset(source, source="Python")
    elif isinstance(source, str | os.PathLike):
        dataset = _of_reference(os.fspath(source), column_by_role, encoding)
    elif isinstance(source, pd.DataFrame):
        dataset = _of_files("Table", api_values.table_files(source), column_by_role)
    elif isinstance(source, Mapping):
        dataset = _of_files("Collection", api_values.collection_files(source), {})
    elif isinstance(source, _Table):
        dataset = _of_files("Table", api_values.table_files(source.to_pandas()), column_by_role)
    elif isinstance(given, Iterable) and not isinstance(given, bytes):
        dataset = _of_items(list(given), column_by_role, encoding)
    else:
        raise _unknown("None" if given is None else type(given).__name__)
    if title := display_name(name):
        return replace(dataset, question_set=replace(dataset.question_set, name=title))
    return dataset


def datasets() -> pd.DataFrame:
    """List the names that `load` takes: public datasets, then those of the workspace, the newest first.

    Examples
    --------
    >>> import mrc_workbench as mrc
    >>> mrc.datasets()["name"].tolist()[:2]
    ['sample', 'korquad-v1-dev']
    """
    public = [(entry.id, entry.title, None, None, False) for entry in CATALOG.values()]
    own = [(dataset.key, dataset.name, dataset.questions, dataset.passages, True) for dataset in stored()]
    return pd.DataFrame([*public, *own], columns=["name", "title", "questions", "passages", "stored"])


def _checked(columns: object) -> dict[str, str | None]:
    """Return the columns by role; labels of other types have the names in the file of the table."""
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        message = f"columns must be names by role, such as {{'question': '질문'}}, not {columns!r}"
        raise ApiError("wrong_columns", message)
    for role in columns:
        if role not in _COLUMNS:
            raise api_values.unknown_name("role of a column", str(role), _COLUMNS)
    return {role: None if name is None else str(name) for role, name in columns.items()}


def _of_reference(reference: str, columns: Mapping[str, str | None], encoding: str) -> Dataset:
    if not reference.strip():
        raise ApiError("unknown_source", "the name or path of the dataset is empty; `mrc.datasets()` lists the names")
    with _naming_arguments(reference):
        if reference in CATALOG and not os.path.exists(reference):  # noqa: PTH110 - a name may be too long for a path
            return _dataset(read_entry(CATALOG[reference]), reference)
        path = Path(reference).expanduser()
        if os.path.isfile(path) or (os.path.isdir(path) and reference.strip("./\\")):  # noqa: PTH112, PTH113
            return _dataset(read_paths_in_subprocess([path], columns, encoding), reference)
        return Dataset(find(reference), source=reference)


def _of_items(items: list[Any], columns: Mapping[str, str | None], encoding: str) -> Dataset:
    if items and all(isinstance(item, str | os.PathLike) for item in items):
        paths = [Path(item) for item in items]
        with _naming_arguments():
            return _dataset(read_paths_in_subprocess(paths, columns, encoding), ", ".join(path.name for path in paths))
    if items and all(isinstance(item, Mapping) for item in items):
        return _of_files("Table", api_values.row_files(items), columns)
    raise _unknown(f"a list of {type(items[0]).__name__}" if items else "an empty list")


def _of_files(kind: str, files: Sequence[File], columns: Mapping[str, str | None]) -> Dataset:
    """Read the contents of files in memory, and name the dataset by its size."""
    with _naming_arguments(is_table=True):
        dataset = _dataset(WORK.read(files, columns), "Python", is_table=True)
    named = replace(dataset.question_set, name=api_values.set_name(kind, dataset.question_set))
    return replace(dataset, question_set=named)


def _dataset(reading: QuestionSetReading, source: str, *, is_table: bool = False) -> Dataset:
    problems = (*reading.problems, *reading.gaps)
    messages = tuple(_message_of(problem, is_table=is_table) for problem in problems)
    return Dataset(reading.question_set, messages, source)


def _unknown(kind: str) -> ApiError:
    message = f"a dataset cannot be loaded from {kind}: give paths, a name, a table, dictionaries of rows or of BEIR"
    return ApiError("unknown_source", message)


@contextmanager
def _naming_arguments(reference: str = "", *, is_table: bool = False) -> Iterator[None]:
    """Reword a `DataError`: arguments instead of flags, "table" for a file in memory, and a hint if a path is missing.

    `reference` is the argument of the user, if it may be a path.
    """
    try:
        yield
    except DataError as error:
        message = _message_of(error.problem, is_table=is_table)
        is_path = bool(os.path.dirname(reference) or Path(reference).suffix)  # noqa: PTH120 - of any text
        if error.problem.code is ProblemCode.UNKNOWN_SET and is_path:
            known = error.problem.details.get("known", "")
            path = display_text(reference, _LONGEST)
            message = f"There is no dataset {path}: no such file, looked for from {Path.cwd()}. Datasets: {known}."
        error.args = (message,)
        raise


def _message_of(problem: Problem, *, is_table: bool = False) -> str:
    if "flags" in problem.details:
        flags = str(problem.details["flags"])
        problem = replace(problem, details=problem.details | {"flags": _arguments(flags)})
    return _FILE.sub(r"\1 table", problem.message) if is_table else problem.message


def _arguments(flags: str) -> str:
    """Return flags as arguments: `--columns context=본문` as `columns={"context": "본문"}`."""
    try:
        words = shlex.split(flags)
    except ValueError:
        return flags
    arguments = []
    for flag, value in pairwise(words):
        role, _, name = value.partition("=")
        if flag == "--columns":
            arguments.append(f'columns={{"{role}": "{name}"}}')
        elif flag == "--encoding":
            arguments.append(f'encoding="{value}"')
    return " or ".join(arguments) or flags
