"""A comparison in a process of its own: the page that asked for it imports no torch, and may be closed.

The process runs `python -m retrieval compare` and leaves rankings in the cache, from which the page's own call of
`compare` then reads: both give the same numbers because they are the same function over the same rankings.
"""

from threading import Thread

from data.cache import key_of
from data.workspace import workspace, write_text
from jobs.detached import read_on
from jobs.folder import Job
from retrieval.comparison.experiment import Experiment, write_experiment
from retrieval.comparison.spec import VERSION
from text.analyzers import VERSION as ANALYZER_VERSION


class ComparisonJob(Job):
    """The job of one comparison, `workspace/comparisons/<key>/`: experiment, and what `store.keep` writes."""

    @classmethod
    def of(cls, experiment: Experiment, fingerprint: str) -> "ComparisonJob":
        """Return the job of an experiment over the question set with this fingerprint; it may not exist yet."""
        key = key_of(VERSION, ANALYZER_VERSION, experiment.model_dump(mode="json"), fingerprint)[:16]
        return cls(workspace() / "comparisons" / key)

    def start(self, experiment: Experiment) -> None:
        """Start the process, where none is at work on it. Raises `LimitError` as `admit` does, and writes nothing."""
        self.admit()
        write_text(self.folder / "experiment.toml", write_experiment(experiment))
        Thread(target=read_on, daemon=True).start()  # most comparisons need a model soon
        words = ("compare", self.folder / "experiment.toml", "--out", self.folder, "--tell")
        self.launch("retrieval", *words, light=True)
