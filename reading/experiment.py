"""The experiment file of reading: that of a comparison, and who reads what its retrievers find.

An evaluation of readers in a process of its own: the page that asked for it imports no torch, and may be closed.

The process runs `python -m reading run FOLDER`. What it has read lies in the cache, so that one that was ended goes on.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, TypeAdapter, model_validator

from jobs.folder import RequestJob
from models.sources import contents
from reading.generate.generator import GeneratorSpec, Name
from reading.rules import Rules
from retrieval.comparison.experiment import Experiment, read_as, write_experiment
from retrieval.comparison.spec import VERSION as RETRIEVAL_VERSION
from text.analyzers import VERSION as ANALYZER_VERSION

DEFAULT_DEPTHS = (1, 2, 3, 5, 10, 20)


class ReaderSpec(BaseModel):
    """A reader: `model` is a run, a hub id, a folder or a packaged base."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: Name
    model: Name


class ReadingExperiment(Experiment):
    """Readers and generators over the first K passages of every retriever, K each of `depths`."""

    rules: Rules = Rules.KORQUAD
    depths_read: tuple[PositiveInt, ...] = Field(default=DEFAULT_DEPTHS, min_length=1)
    reader: tuple[ReaderSpec, ...] = ()
    generator: tuple[GeneratorSpec, ...] = ()

    @model_validator(mode="after")
    def _has_someone_who_answers(self) -> "ReadingExperiment":
        names = [*(one.name for one in self.reader), *(one.name for one in self.generator)]
        if not names:
            raise ValueError("a [[reader]] or a [[generator]] is needed")
        if len(set(names)) < len(names):
            raise ValueError(f"two of {names} have the same name")
        return self

    @property
    def deepest(self) -> int:
        return max(self.depths_read)


def read_experiment(path: Path) -> ReadingExperiment:
    """Read an experiment file (TOML). Raises `ExperimentError`."""
    return read_as(ReadingExperiment, path)


class ReadingJob(RequestJob[ReadingExperiment]):
    """The job of one experiment: `experiment.toml`, and what `results.keep` writes."""

    place, file = "reading", "experiment.toml"
    form = TypeAdapter(ReadingExperiment)
    versions = (1, RETRIEVAL_VERSION, ANALYZER_VERSION)

    @classmethod
    def beside(cls, request: ReadingExperiment) -> tuple[object, ...]:
        return (contents(one.model for one in request.reader),)

    @classmethod
    def written(cls, request: ReadingExperiment) -> str:
        return write_experiment(request)

    def request(self) -> ReadingExperiment:
        """Raises `ExperimentError`."""
        return read_experiment(self.folder / self.file)
