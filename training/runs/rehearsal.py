"""What is worth knowing before a training starts: its time and memory, and the hard negatives it would use.

Both need models, so each is worked out in a process of its own; the page reads what it leaves in
`workspace/cache/rehearsals/<key>/`, and what was worked out once is there the next time.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

from data.cache import key_of
from data.workspace import PROJECT, read_json, workspace, write_text
from jobs.processes import lives
from text.analyzers import VERSION as ANALYZER_VERSION
from training.runs.runs import Plan

_DRAWN_BY = ("title", "seed")  # what decides which negatives are drawn, besides the options named so


class Task(StrEnum):
    """What is worked out."""

    ESTIMATE = "estimate"
    NEGATIVES = "negatives"


@dataclass(frozen=True)
class Estimate:
    """What a training would take on this machine, measured by a few of its own steps.

    Seconds are of training and of measuring together; bytes are the most held at a time beyond what was in use. `fits`
    says whether they are to be had; where not, `instead` holds options that would do, empty where none was found.
    """

    steps: int
    seconds_a_step: float
    seconds_measuring: float
    seconds: float
    memory: int
    memory_available: int
    device: str
    fits: bool
    instead: dict[str, int]


@dataclass(frozen=True)
class Rehearsal:
    """The folder of one question about a planned training."""

    folder: Path
    task: Task

    @classmethod
    def of(cls, plan: Plan, task: Task) -> "Rehearsal":
        """Return the rehearsal of a plan; it may not have been started yet."""
        options = asdict(plan.options)
        if task is Task.NEGATIVES:
            options = {
                name: value for name, value in options.items() if name.startswith("negatives") or name in _DRAWN_BY
            }
        decides = [plan.kind, plan.fingerprint, asdict(plan.split), options, plan.marked_negatives]
        key = key_of(task, ANALYZER_VERSION, json.dumps(decides, sort_keys=True))[:24]
        return cls(workspace() / "cache" / "rehearsals" / key, task)

    @property
    def running(self) -> bool:
        """Whether its process is at work."""
        raw = self._process()
        return bool(raw) and lives(raw["pid"], raw["pid_started"])

    @property
    def done(self) -> bool:
        """Whether the answer is there."""
        return self._answer.is_file()

    @property
    def failed(self) -> bool:
        """Whether it was started and ended without an answer."""
        return bool(self._process()) and not self.running and not self.done

    @property
    def seconds(self) -> float:
        """Seconds since it was started."""
        return time.time() - float(self._process().get("began", time.time()))

    def estimate(self) -> Estimate:
        """Read the estimate. Raises `OSError` where there is none."""
        return Estimate(**json.loads(self._answer.read_text(encoding="utf-8")))

    def negatives(self) -> pd.DataFrame:
        """Read the mined negatives, a row each (`negatives.COLUMNS`). Raises `OSError` where none are."""
        return pd.read_parquet(self._answer)

    def problem(self) -> tuple[str, str]:
        """Return the code (a key of the locale files, `failure.<code>`) and the message of what went wrong."""
        raw = read_json(self.folder / "problem.json")
        return raw.get("code", "unexpected"), raw.get("message", self._log())

    def start(self, plan: Plan) -> None:
        """Start the process. Raises `OSError` where the disk is full."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("problem.json", self._answer.name):
            (self.folder / name).unlink(missing_ok=True)
        if not (self.folder / "run.json").is_file():
            write_text(self.folder / "run.json", plan.as_json())
        with (self.folder / "log.txt").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - a list of our own words
                [sys.executable, "-m", "training", "rehearse", self.task.value, str(self.folder)],
                cwd=PROJECT,
                env={**os.environ, "MRC_WORKSPACE": str(workspace()), "TOKENIZERS_PARALLELISM": "false"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        entry = {"began": time.time(), "pid": process.pid, "pid_started": psutil.Process(process.pid).create_time()}
        write_text(self.folder / "process.json", json.dumps(entry))

    def stop(self) -> None:
        """End the process."""
        raw = self._process()
        if raw and lives(raw["pid"], raw["pid_started"]):
            os.kill(raw["pid"], signal.SIGKILL)
        (self.folder / "process.json").unlink(missing_ok=True)

    @property
    def _answer(self) -> Path:
        return self.folder / {Task.ESTIMATE: "estimate.json", Task.NEGATIVES: "negatives.parquet"}[self.task]

    def _log(self) -> str:
        try:
            return (self.folder / "log.txt").read_text(encoding="utf-8", errors="replace")[-2000:]
        except OSError:
            return ""

    def _process(self) -> dict[str, Any]:
        return read_json(self.folder / "process.json")
