"""An evaluation of readers in a process of its own: the page that asked for it imports no torch, and may be closed.

The process runs `python -m reading run FOLDER`. What it has read lies in the cache, so that one that was ended goes on.
"""

from data.cache import key_of
from data.workspace import workspace, write_text
from jobs.folder import Job
from models.sources import find_model
from reading.experiment import ReadingExperiment, read_experiment
from retrieval.comparison.experiment import write_experiment
from retrieval.comparison.spec import VERSION as RETRIEVAL_VERSION
from text.analyzers import VERSION as ANALYZER_VERSION

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
