"""A comparison in a process of its own: the page that asked for it imports no torch, and may be closed.

The process runs `python -m retrieval compare` and leaves rankings in the cache, from which the page's own call of
`compare` then reads: both give the same numbers because they are the same function over the same rankings.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.cache import key_of
from data.workspace import PROJECT, read_json, workspace, write_text
from jobs.processes import lives, this_process
from retrieval.comparison.experiment import VERSION, Experiment, write_experiment
from text.analyzers import VERSION as ANALYZER_VERSION

_SECONDS_TO_START = 20.0


@dataclass(frozen=True)
class Progress:
    """How far a comparison is: the retriever at work, the share of all work done (0 to 1), seconds since it began."""

    name: str
    share: float
    seconds: float


@dataclass(frozen=True)
class Job:
    """The folder `workspace/comparisons/<key>/` of one comparison: experiment, progress, log, what `keep` writes."""

    folder: Path

    @classmethod
    def of(cls, experiment: Experiment, fingerprint: str) -> "Job":
        """Return the job of an experiment over the question set with this fingerprint; it may not exist yet."""
        key = key_of(VERSION, ANALYZER_VERSION, experiment.model_dump(mode="json"), fingerprint)[:16]
        return cls(workspace() / "comparisons" / key)

    @property
    def done(self) -> bool:
        """Whether it ran to its end."""
        return (self.folder / "scores.json").is_file()

    def progress(self) -> Progress | None:
        """How far it is; None where it does not run."""
        raw = read_json(self.folder / "progress.json")
        if not raw:
            return None
        seconds = time.time() - raw["began"]
        if not lives(raw["pid"], raw["pid_started"]) and (raw["pid"] or seconds > _SECONDS_TO_START):
            return None
        return Progress(raw["name"], raw["share"], seconds)

    def scores(self) -> dict[str, Any]:
        """Read the finished comparison's `scores.json`. Raises `OSError` or `ValueError` where there is none."""
        scores: dict[str, Any] = json.loads((self.folder / "scores.json").read_text(encoding="utf-8"))
        return scores

    def log(self) -> str:
        """Return the last lines the process wrote, for a report of what went wrong."""
        try:
            return (self.folder / "log.txt").read_text(encoding="utf-8", errors="replace")[-3000:]
        except OSError:
            return ""

    def start(self, experiment: Experiment) -> None:
        """Start the process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "scores.json").unlink(missing_ok=True)
        write_text(self.folder / "experiment.toml", write_experiment(experiment))
        began = {"began": time.time(), "name": "", "share": 0.0}
        write_text(self.folder / "progress.json", json.dumps({**began, "pid": 0, "pid_started": 0.0}))
        command = [sys.executable, "-m", "retrieval", "compare", str(self.folder / "experiment.toml")]
        with (self.folder / "log.txt").open("wb") as log:
            subprocess.Popen(  # noqa: S603 - a list of our own words
                [*command, "--out", str(self.folder), "--tell"],
                cwd=PROJECT,
                env={**os.environ, "MRC_WORKSPACE": str(workspace())},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def tell(self, name: str, share: float, began: float) -> None:
        """Note the progress; called by the process itself."""
        pid, started = this_process()
        entry = {"began": began, "name": name, "share": share, "pid": pid, "pid_started": started}
        write_text(self.folder / "progress.json", json.dumps(entry))

    def stop(self) -> None:
        """End the process; what it kept stays kept."""
        raw = json.loads((self.folder / "progress.json").read_text(encoding="utf-8"))
        if raw["pid"] and lives(raw["pid"], raw["pid_started"]):
            os.kill(raw["pid"], signal.SIGTERM)
