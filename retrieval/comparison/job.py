"""A comparison in a process of its own: the page that asked for it imports no torch, and may be closed.

The process runs `python -m retrieval compare` and leaves rankings in the cache, from which the page's own call of
`compare` then reads: both give the same numbers because they are the same function over the same rankings.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from data.cache import key_of
from data.workspace import workspace, write_text
from jobs.folder import Job
from jobs.status import Status
from retrieval.comparison.experiment import Experiment, write_experiment
from retrieval.comparison.kinds.spec import VERSION
from text.analyzers import VERSION as ANALYZER_VERSION

_SECONDS_BETWEEN_WORDS = 0.2


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
        self.launch("retrieval", "compare", self.folder / "experiment.toml", "--out", self.folder, "--tell")


def teller(job: Job, began: Status) -> Callable[[str, float], None]:
    """Return what notes the retriever at work and the share of all work done (0 to 1), a few times a second at most."""
    told = 0.0

    def tell(name: str, share: float) -> None:
        nonlocal told
        if share in (0, 1) or time.monotonic() - told > _SECONDS_BETWEEN_WORDS:
            told = time.monotonic()
            job.write_status(replace(began, phase=name, share=share))

    return tell
