"""The job that makes a folder for the page, and the archive that is downloaded: one for each thing that is asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from mrc_workbench.data.jobs.folder import RequestJob
from mrc_workbench.data.jobs.work import Progress, request_carried_out
from mrc_workbench.data.store import find
from mrc_workbench.data.workspace import remove_folder, require_room
from mrc_workbench.retrieval.comparison.store import StoredComparison, kept_comparison, load
from mrc_workbench.retrieval.takeaway.folder import take_away, zip_folder
from mrc_workbench.retrieval.takeaway.fusion import Engine, Figure
from mrc_workbench.retrieval.takeaway.models import ModelFigure

_VERSION = 1  # raise it when the same request makes another folder


@dataclass(frozen=True)
class Wanted:
    """A retriever of a kept comparison, by the comparison's key and its own name, and what it is taken away for."""

    comparison: str
    retriever: str
    engine: Engine


@dataclass(frozen=True)
class Taken:
    """What was measured while a folder was made: what each engine finds, and what each model says as ONNX."""

    figures: Sequence[Figure]
    models: Sequence[ModelFigure] = ()


class TakeAwayJob(RequestJob[Wanted]):
    """The job of one folder; what it is done with stands in its archive."""

    place, form, versions = "takeaways", TypeAdapter(Wanted), (_VERSION,)

    @property
    def archive(self) -> Path:
        return self.folder / "takeaway.zip"

    def taken(self) -> Taken:
        """Read what was measured. Raises `ValueError` where that is no such thing."""
        return _TAKEN.validate_python(self.read(self.result.name))


_TAKEN = TypeAdapter(Taken)


def taken_from(of: StoredComparison, wanted: Wanted, folder: Path, on_progress: Progress) -> Taken:
    """Make the folder of a kept comparison's retriever. Raises as `take_away` does."""
    whole = find(of.reference, of.folder)
    comparison = load(of.folder, whole)
    figures, models = take_away(
        comparison, whole, wanted.retriever, wanted.engine, folder, base=of.folder, on_progress=on_progress
    )
    return Taken(figures, models)


def carry_out_job(folder: Path) -> int:
    """Do what a job's folder asks for; returns a command's exit status."""
    job = TakeAwayJob(folder)

    def work(wanted: Wanted, tell: Progress) -> None:
        made, kept = folder / "folder", kept_comparison(wanted.comparison)
        if kept is None:  # deleted meanwhile
            raise KeyError(wanted.comparison)
        taken = taken_from(kept, wanted, made, lambda phase, share: tell(phase or "files", share))
        zip_folder(made, job.archive)
        remove_folder(made)
        require_room()
        job.write(job.result.name, _TAKEN.dump_python(taken, mode="json"))

    return request_carried_out(job, work)
