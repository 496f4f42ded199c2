"""A study: a spec goes in, a result comes out, and both are stored in one folder of the workspace.

A lab declares one `Study` in `labs/NAME/study.py`. Its job, stored results, tables, report, command and page are made
from it. `run` computes the result and knows no folder and no page: it is the study's Python API.
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import tomli_w
from pydantic import TypeAdapter

from mrc_workbench.data.cache import SCORES, key_of
from mrc_workbench.data.files import read_user_file, set_aside
from mrc_workbench.data.formats.text_tables import csv_bytes
from mrc_workbench.data.jobs.folder import Job, Status
from mrc_workbench.data.jobs.work import Progress, carried_out_alone, progress_writer
from mrc_workbench.data.studies.results import ResultFolder
from mrc_workbench.data.studies.tables import Table
from mrc_workbench.data.workspace import read_json, remove_folder, workspace, write_json, write_text

Spec = TypeVar("Spec")
Result = TypeVar("Result")
_KEY = re.compile("[0-9a-f]{16}")
_NAME = "name.json"


def _no_inputs(spec: Any) -> tuple[object, ...]:
    del spec
    return ()


@dataclass(frozen=True, kw_only=True)
class Study(Generic[Spec, Result]):
    """One kind of study.

    `name` is its folder in the workspace, its command, its page and the section of its texts. `summary` is the first
    line of its help. `spec` and `result` are types that pydantic reads and writes. Change `versions` if the same spec
    gives another result. `inputs` returns what else decides the result, such as the content of a model; it must be
    JSON-able. The fingerprint of the dataset in a field `data` is added by the command and the page. `save` and `load`
    replace the typed result folder. A study whose result has files of its own has `run_in` in place of `run`: it gets
    the folder of the job, too.
    """

    name: str
    summary: str
    versions: Sequence[int | str]
    spec: Any
    run: Callable[[Spec, Progress], Result] | None = None
    run_in: Callable[[Spec, Progress, Path], Result] | None = None
    result: Any = None
    inputs: Callable[[Spec], Sequence[object]] = _no_inputs
    tables: Sequence[Table[Result]] = ()
    save: Callable[[Result, Path], None] | None = None
    load: Callable[[Path], Result] | None = None
    spec_file: str = "request.json"  # JSON, or TOML if it ends in .toml

    @cached_property
    def spec_type(self) -> TypeAdapter[Spec]:
        return TypeAdapter(self.spec)

    @cached_property
    def results(self) -> ResultFolder[Result]:
        return ResultFolder(f"result of {self.name}", TypeAdapter(self.result))

    @property
    def folder(self) -> Path:
        return workspace() / self.name

    def job(self, spec: Spec, *inputs: object) -> "StudyJob[Spec, Result]":
        """Return the job of a spec, which may not have been started: the same spec and inputs give the same job.

        `inputs` are those that the caller knows already, such as the fingerprint of an open dataset.
        """
        parts = [*self.versions, self.spec_type.dump_python(spec, mode="json"), *inputs, *self.inputs(spec)]
        return StudyJob(self.folder / key_of(*parts)[:16], self)

    def stored(self) -> list["StudyJob[Spec, Result]"]:
        """Return the jobs with a finished result, the newest first."""
        folders = [path.parent for path in self.folder.glob(f"*/{SCORES}") if _KEY.fullmatch(path.parent.name)]
        folders.sort(key=lambda folder: (folder / SCORES).stat().st_mtime, reverse=True)
        return [StudyJob(folder, self) for folder in folders]

    def stored_job(self, key: str) -> "StudyJob[Spec, Result]":
        """Return the job of this key. Raises `KeyError` if it has no result; a path never reaches the file system."""
        if not _KEY.fullmatch(key) or not (self.folder / key / SCORES).is_file():
            raise KeyError(key)
        return StudyJob(self.folder / key, self)

    def find(self, key: str) -> "StudyJob[Spec, Result]":
        """Return the stored job with this key or name. Raises `KeyError`."""
        for job in self.stored():
            if key in (job.id, job.name):
                return job
        raise KeyError(f"{self.name} has no stored result {key!r}")

    def run_folder(self, folder: Path, /) -> int:
        """Run the job in this folder; returns a command's exit status."""
        return StudyJob(folder, self).run()


@dataclass(frozen=True, order=True)
class StudyJob(Job, Generic[Spec, Result]):
    """The job of one spec: a file with the spec, and the result that its process leaves."""

    study: Study[Spec, Result] = field(compare=False)

    @property
    def name(self) -> str:
        """The name that a user gave it; empty if none."""
        return str(read_json(self.folder / _NAME).get("name", ""))

    @property
    def made(self) -> str:
        """When the result was stored: an ISO 8601 time in UTC."""
        return datetime.fromtimestamp(self.result.stat().st_mtime, UTC).isoformat(timespec="seconds")

    def read_spec(self) -> Spec:
        """Read the spec. Raises `ValueError` if the file is damaged, `OSError` if there is none."""
        path = self.folder / self.study.spec_file
        if path.suffix == ".toml":
            return self.study.spec_type.validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
        return self.study.spec_type.validate_json(path.read_bytes())

    def write_spec(self, spec: Spec) -> None:
        """Write the spec. Raises `OSError`."""
        path, kind = self.folder / self.study.spec_file, self.study.spec_type
        if path.suffix == ".toml":
            write_text(path, tomli_w.dumps(kind.dump_python(spec, mode="json", exclude_none=True)))
        else:
            write_text(path, kind.dump_json(spec, indent=1).decode())

    def start(self, spec: Spec) -> None:
        """Start its process unless one is running. Raises `LimitError` as `admit` does, and writes nothing then."""
        self.admit()
        self.write_spec(spec)
        self.begin()

    def begin(self) -> None:
        """Start the process, which reads the spec from the folder."""
        self.launch("internal", self.study.name, self.folder)

    def run(self, on_progress: Progress | None = None) -> int:
        """Run it in this process unless another one does; returns a command's exit status."""

        def work(began: Status) -> None:
            report = progress_writer(self, began)

            def progress(phase: str, fraction: float) -> None:
                report(phase, fraction)
                if on_progress:
                    on_progress(phase, fraction)

            progress("", 0.0)
            study, spec = self.study, self.read_spec()
            if study.run_in:
                result = study.run_in(spec, progress, self.folder)
            elif study.run:
                result = study.run(spec, progress)
            else:
                raise NotImplementedError(f"{study.name} has neither run nor run_in")
            if study.save:
                study.save(result, self.folder)
            else:
                study.results.save(self.folder, result)

        return carried_out_alone(self, work)

    def load(self) -> Result:
        """Read the result. Raises `ValueError` if there is no complete one of this version."""
        return self.study.load(self.folder) if self.study.load else self.study.results.load(self.folder)

    def rename(self, name: str) -> None:
        """Give the result a name; an empty one removes it. A damaged file of the name is set aside first."""
        path = self.folder / _NAME
        _, is_damaged = read_user_file(path)
        if is_damaged:
            set_aside(path)
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
    study, result = job.study, job.load()
    parts = [f"# {job.name or study.name}", study.summary, f"Stored {job.made}, key `{job.id}`.", "## Settings"]
    spec = study.spec_type.dump_python(job.read_spec(), mode="json")
    parts.append("\n".join(f"- {name}: {value}" for name, value in spec.items()))
    for table in study.tables:
        parts += [f"## {table.name.replace('_', ' ').capitalize()}", table.markdown(result)]
    return "\n\n".join(parts) + "\n"
