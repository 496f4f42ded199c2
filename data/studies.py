"""A study computes a result from a spec and stores both in one folder of the workspace.

A lab declares one `Study` in `labs/NAME/study.py`, which defines its job, stored results, tables, report, command and
page. `run` computes the result without a folder or a page: it is the study's Python API.

A result is a dataclass or pydantic model: its folder holds `scores.json` and the arrays of its fields in `arrays.npz`.
Annotate arrays as `Array`, floats that may be infinite or NaN as `Number`, and errors as `StoredError`. Pages, CSV
files, reports and terminals show the declared columns of its tables.
"""

import math
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import numpy as np
import pandas as pd
import tomli_w
from pydantic import BeforeValidator, PlainSerializer, PlainValidator, SerializationInfo, TypeAdapter
from pydantic_core.core_schema import ValidationInfo

from mrc_workbench.data.cache import SCORES, Artifact, key_of
from mrc_workbench.data.files import back_up_damaged_file, read_user_file
from mrc_workbench.data.formats.text_tables import csv_bytes
from mrc_workbench.data.jobs.folder import Job, Progress, Status, progress_writer, run_job_exclusively
from mrc_workbench.data.problems import Failure, failure_dict
from mrc_workbench.data.terminal import format_table
from mrc_workbench.data.workspace import read_json, remove_folder, workspace, write_json, write_text

Result = TypeVar("Result")


def _store_array(array: np.ndarray, info: SerializationInfo) -> Any:
    """Add the array to the collected arrays of the context; without a context, write its values into the JSON."""
    if info.context is None:
        return array.tolist()
    name = f"array_{len(info.context)}"
    info.context[name] = array
    return {"array": name}


def _load_array(value: Any, info: ValidationInfo) -> np.ndarray:
    if isinstance(value, dict) and info.context is not None:
        array: np.ndarray = info.context[value["array"]]
        return array
    return np.asarray(value)


def _store_error(error: Exception) -> dict[str, object]:
    kind = f"{type(error).__module__}:{type(error).__qualname__}" if isinstance(error, Failure) else ""
    return failure_dict(error) | ({"kind": kind} if kind else {})


def _load_error(value: Any) -> Exception:
    """Return the error as an instance of its subclass of `Failure`, or of `Failure` if that is not imported."""
    if isinstance(value, Exception):
        return value
    content = dict(value)
    name = str(content.pop("kind", "")).rpartition(":")[2]
    kinds = {kind.__qualname__: kind for kind in _failure_kinds(Failure)}
    return kinds.get(name, Failure).from_dict(content)


def _failure_kinds(kind: type[Failure]) -> list[type[Failure]]:
    return [kind, *(below for direct in kind.__subclasses__() for below in _failure_kinds(direct))]


Array = Annotated[np.ndarray, PlainValidator(_load_array), PlainSerializer(_store_array)]
Number = Annotated[
    float,
    BeforeValidator(float),
    PlainSerializer(lambda value: value if math.isfinite(value) else str(value), when_used="json"),
]
StoredError = Annotated[Exception, PlainValidator(_load_error), PlainSerializer(_store_error)]


class ColumnUnit(StrEnum):
    """The unit of the values of a column."""

    TEXT = "text"
    COUNT = "count"
    NUMBER = "number"
    FRACTION = "fraction"  # 0 to 1, displayed as a percentage
    SECONDS = "seconds"
    BYTES = "bytes"


@dataclass(frozen=True)
class Column:
    """A column: its name in the DataFrame, the unit of its values, and the decimals to display."""

    name: str
    unit: ColumnUnit = ColumnUnit.NUMBER
    digits: int = 2

    @property
    def title(self) -> str:
        words = self.name.replace("_", " ")
        return f"{words} (%)" if self.unit is ColumnUnit.FRACTION else words

    def displayed(self, value: Any) -> Any:
        return value * 100 if self.unit is ColumnUnit.FRACTION else value

    def text(self, value: Any) -> str:
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "-"
        match self.unit:
            case ColumnUnit.TEXT:
                return str(value)
            case ColumnUnit.COUNT | ColumnUnit.BYTES:
                return f"{value:,.0f}"
        return f"{self.displayed(value):,.{self.digits}f}"


@dataclass(frozen=True)
class Chart:
    """A generic chart of columns of a table; `x` is a category for bars, else a number."""

    kind: Literal["bars", "lines", "points"]
    x: str
    y: str
    color: str = ""


@dataclass(frozen=True)
class ResultTable(Generic[Result]):
    """A table of a result: a function that returns its DataFrame, and its columns in display order."""

    name: str
    frame: Callable[[Result], pd.DataFrame]
    columns: Sequence[Column]
    chart: Chart | None = None

    def rows(self, result: Result) -> pd.DataFrame:
        """Return the DataFrame with the declared columns, in stored units (fractions from 0 to 1)."""
        return self.frame(result)[[column.name for column in self.columns]]

    def texts(self, result: Result) -> list[list[str]]:
        records = self.rows(result).to_dict("records")
        return [[column.text(record[column.name]) for column in self.columns] for record in records]

    def lines(self, result: Result) -> list[str]:
        rows = [(cells[0], cells[1:]) for cells in self.texts(result)]
        titles = [column.title for column in self.columns[1:]]
        width = max([len(title) for title in titles] + [len(cell) for _, cells in rows for cell in cells], default=0)
        return format_table(titles, rows, width)

    def markdown(self, result: Result) -> str:
        titles = [column.title for column in self.columns]
        rules = [":--" if column.unit is ColumnUnit.TEXT else "--:" for column in self.columns]
        cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in self.texts(result)]
        return "\n".join(f"| {' | '.join(row)} |" for row in [titles, rules, *cells])


Spec = TypeVar("Spec")
_KEY = re.compile("[0-9a-f]{16}")
_NAME = "name.json"


@dataclass(frozen=True, kw_only=True)
class Study(Generic[Spec, Result]):
    """One kind of study. If the spec has a field `data`, the fingerprint of this dataset is a part of the key."""

    name: str  # of the folder in the workspace, the command, the page and the section of locale files
    summary: str  # the first line of the help
    versions: Sequence[int | str]  # change them if the result for the same spec changes
    spec: Any  # a type that pydantic reads and writes, like `result`
    run: Callable[[Spec, Progress], Result] | None = None
    run_in: Callable[[Spec, Progress, Path], Result] | None = None  # in place of `run`, with the folder of the job
    result: Any = None
    inputs: Callable[[Spec], Sequence[object]] = lambda _spec: ()  # what else decides the result, as JSON
    tables: Sequence[ResultTable[Result]] = ()
    save: Callable[[Result, Path], None] | None = None  # in place of the typed result folder, as `load` is
    load: Callable[[Path], Result] | None = None
    spec_file: str = "request.json"  # JSON, or TOML if it ends in .toml

    @cached_property
    def spec_type(self) -> TypeAdapter[Spec]:
        return TypeAdapter(self.spec)

    @cached_property
    def results(self) -> Artifact[Result]:
        return Artifact(f"result of {self.name}", TypeAdapter(self.result))

    @property
    def folder(self) -> Path:
        return workspace() / self.name

    def job(self, spec: Spec, *inputs: object, exclude: set[str] | None = None) -> "StudyJob[Spec, Result]":
        """Return the job of a spec; its key depends on all fields but `exclude`, and on the inputs."""
        parts = [
            *self.versions,
            self.spec_type.dump_python(spec, mode="json", by_alias=True, exclude=exclude),
            *inputs,
            *self.inputs(spec),
        ]
        return StudyJob(self.folder / key_of(*parts)[:16], self)

    def job_on(self, spec: Spec, fingerprint: str) -> "StudyJob[Spec, Result]":
        """Return the job on a dataset, whose key does not depend on how `data` refers to the dataset."""
        return self.job(spec, *([fingerprint] if fingerprint else []), exclude={"data"})

    def stored(self) -> list["StudyJob[Spec, Result]"]:
        folders = [path.parent for path in self.folder.glob(f"*/{SCORES}") if _KEY.fullmatch(path.parent.name)]
        folders.sort(key=lambda folder: (folder / SCORES).stat().st_mtime, reverse=True)
        return [StudyJob(folder, self) for folder in folders]

    def stored_job(self, key: str) -> "StudyJob[Spec, Result]":
        """Return the job of this key. Raises `KeyError` if it has no result; a path never reaches the file system."""
        if not _KEY.fullmatch(key) or not (self.folder / key / SCORES).is_file():
            raise KeyError(key)
        return StudyJob(self.folder / key, self)

    def find(self, key: str) -> "StudyJob[Spec, Result]":
        """Return the stored job with this key or name. Raises `ValueError`."""
        for job in self.stored():
            if key in (job.id, job.name):
                return job
        raise ValueError(f"{self.name} has no stored result {key!r}")

    def run_folder(self, folder: Path, /) -> int:
        return StudyJob(folder, self).run()


@dataclass(frozen=True, order=True)
class StudyJob(Job, Generic[Spec, Result]):
    """The job of one spec: a file with the spec, and the result that its process leaves."""

    study: Study[Spec, Result] = field(compare=False)

    @property
    def name(self) -> str:
        return str(read_json(self.folder / _NAME).get("name", ""))

    @property
    def stored_at(self) -> str:
        """The time when the result was stored: ISO 8601 in UTC."""
        return datetime.fromtimestamp(self.result.stat().st_mtime, UTC).isoformat(timespec="seconds")

    def read_spec(self) -> Spec:
        """Read the spec. Raises `ValueError` if the file is damaged, `OSError` if there is none."""
        path = self.folder / self.study.spec_file
        if path.suffix == ".toml":
            return self.study.spec_type.validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
        return self.study.spec_type.validate_json(path.read_bytes())

    def write_spec(self, spec: Spec) -> None:
        path = self.folder / self.study.spec_file
        kind = self.study.spec_type
        if path.suffix == ".toml":
            write_text(path, tomli_w.dumps(kind.dump_python(spec, mode="json", exclude_none=True)))
        else:
            write_text(path, kind.dump_json(spec, indent=1).decode())

    def start(self, spec: Spec) -> None:
        """Start its process unless it is running. Raises `LimitError` before anything is written."""
        self.admit()
        self.write_spec(spec)
        self.begin()

    def begin(self) -> None:
        self.launch("internal", self.study.name, self.folder)

    def run(self, on_progress: Progress | None = None) -> int:
        """Run it in this process unless it is running in another; returns a command's exit status."""

        def work(initial_status: Status) -> None:
            report = progress_writer(self, initial_status)

            def progress(phase: str, fraction: float) -> None:
                report(phase, fraction)
                if on_progress:
                    on_progress(phase, fraction)

            progress("", 0.0)
            study = self.study
            spec = self.read_spec()
            if study.run_in:
                result = study.run_in(spec, progress, self.folder)
            elif study.run:
                result = study.run(spec, progress)
            else:
                raise NotImplementedError(f"{study.name} has neither run nor run_in")
            if study.save:
                study.save(result, self.folder)
            else:
                study.results.write(self.folder, result)

        return run_job_exclusively(self, work)

    @property
    def is_readable(self) -> bool:
        try:
            self.load()
        except ValueError:
            return False
        return True

    def load(self) -> Result:
        """Read the result. Raises `ValueError` if it is missing, incomplete or of another version."""
        return self.study.load(self.folder) if self.study.load else self.study.results.load(self.folder)

    def rename(self, name: str) -> None:
        """Set the name of the result, or remove it with an empty name. A damaged file is copied first."""
        path = self.folder / _NAME
        _, is_damaged = read_user_file(path)
        if is_damaged:
            back_up_damaged_file(path)
        write_json(path, {"name": " ".join(name.split())})

    def delete(self) -> None:
        remove_folder(self.folder)

    def export(self, folder: Path) -> None:
        """Write `report.md` and one CSV file for each table. Raises `OSError`, and `ValueError` as `load` does."""
        result = self.load()
        folder.mkdir(parents=True, exist_ok=True)
        for table in self.study.tables:
            (folder / f"{table.name}.csv").write_bytes(csv_bytes(table.rows(result)))
        write_text(folder / "report.md", report(self))


def report(job: StudyJob[Spec, Result]) -> str:
    """Return the report of a stored result in Markdown: its spec and its tables."""
    study = job.study
    result = job.load()
    parts = [f"# {job.name or study.name}", study.summary, f"Stored {job.stored_at}, key `{job.id}`.", "## Settings"]
    spec = study.spec_type.dump_python(job.read_spec(), mode="json")
    parts.append("\n".join(f"- {name}: {value}" for name, value in spec.items()))
    for table in study.tables:
        parts += [f"## {table.name.replace('_', ' ').capitalize()}", table.markdown(result)]
    return "\n\n".join(parts) + "\n"
