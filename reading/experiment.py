"""The experiment file of reading: that of a comparison, and who reads what its retrievers find.

An evaluation of readers in a process of its own: the page that asked for it imports no torch, and may be closed.

The process runs `python -m reading run FOLDER`. What it has read lies in the cache, so that one that was ended goes on.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from data.cache import key_of
from data.workspace import workspace, write_text
from jobs.folder import Job
from models.sources import find_model
from reading.generate.generator import GeneratorSpec, Name
from reading.judge.rules import Rules
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
        """How many passages of a question are read."""
        return max(self.depths_read)


def read_experiment(path: Path) -> ReadingExperiment:
    """Read an experiment file (TOML). Raises `ExperimentError`."""
    return read_as(ReadingExperiment, path)


_VERSION = 1  # raise when results of the same experiment change
_EXPERIMENT = "experiment.toml"


class ReadingJob(Job):
    """The job of one experiment, `workspace/reading/<key>/`: `experiment.toml`, and what `store.keep` writes."""

    @classmethod
    def of(cls, experiment: ReadingExperiment, fingerprint: str) -> "ReadingJob":
        """Return the job of an experiment on the question set with this fingerprint; it may not exist yet.

        Raises `ModelError` where there is no such reader.
        """
        readers = [_content(one.model) for one in experiment.reader]
        versions = (_VERSION, RETRIEVAL_VERSION, ANALYZER_VERSION)
        key = key_of(*versions, experiment.model_dump(mode="json"), fingerprint, readers)[:16]
        return cls(workspace() / "reading" / key)

    def start(self, experiment: ReadingExperiment) -> None:
        """Start the process, where none is at work on it. Raises `LimitError` as `admit` does, and writes nothing."""
        self.admit()
        write_text(self.folder / _EXPERIMENT, write_experiment(experiment))
        self.launch("reading", "run", self.folder)

    def experiment(self) -> ReadingExperiment:
        """Read what was asked. Raises `ExperimentError`."""
        return read_experiment(self.folder / _EXPERIMENT)


def _content(reference: str) -> str:
    """What tells a model of this machine from one that took its place; the hub's are known by their names."""
    source = find_model(reference)
    return source.fingerprint("") if source.folder else ""
