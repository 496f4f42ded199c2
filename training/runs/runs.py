"""Run folders: the only truth about a training, readable after any kill.

`workspace/runs/<id>/` holds `run.json` (what was asked), `status.json` (how it goes), `progress.jsonl` (one line a
logged step), `log.txt`, `provenance.json` (base, revision, versions, hardware), `checkpoints/`, `model/`, `scores.json`
(before and after) and, to stop it, a file `stop`.
"""

import json
import re
import secrets
import shutil
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from data.remarks import remarks_of
from data.split import SplitOptions
from data.workspace import read_json, workspace, write_text
from jobs.processes import lives, this_process
from training.options.bi_encoder import BiEncoderOptions
from training.options.common import Kind
from training.options.cross_encoder import CrossEncoderOptions
from training.options.kinds import OPTIONS


class State(StrEnum):
    """How a run stands. `STOPPING` is never written: it is a running one that was asked to stop."""

    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    DONE = "done"
    INTERRUPTED = "interrupted"  # its process is gone and did not say why


RESUMABLE = frozenset({State.STOPPED, State.FAILED, State.INTERRUPTED})


class Phase(StrEnum):
    """What a running training is doing."""

    LOADING = "loading"
    MINING = "mining"
    MEASURING_BEFORE = "measuring_before"
    TRAINING = "training"
    MEASURING_AFTER = "measuring_after"


@dataclass(frozen=True)
class Plan:
    """What was asked: everything that decides the result, and the name a person gave it."""

    kind: Kind
    name: str
    data: str  # a stored set's key, or a file
    data_name: str
    fingerprint: str
    split: SplitOptions
    options: BiEncoderOptions | CrossEncoderOptions
    created: str
    marked_negatives: tuple[tuple[str, str], ...] = ()  # ids of question and passage, as they were marked when planned

    def as_json(self) -> str:
        """The content of `run.json`."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=2) + "\n"


@dataclass(frozen=True)
class Status:
    """How it goes. Times are seconds since 1970 in UTC; `code` names the reason of a failure in the locale files."""

    state: State = State.QUEUED
    phase: Phase = Phase.LOADING
    step: int = 0
    total_steps: int = 0
    seconds_left: float | None = None
    queued: float = 0.0
    started: float = 0.0
    heartbeat: float = 0.0
    seconds: float = 0.0  # spent at work before this start, where the run was resumed
    pid: int = 0
    pid_started: float = 0.0
    code: str = ""
    message: str = ""

    @property
    def at_work(self) -> bool:
        """Whether a process carries it out."""
        return self.state in (State.RUNNING, State.STOPPING)

    @property
    def spent(self) -> float:
        """Seconds at work, all starts together."""
        return self.seconds + max(0.0, self.heartbeat - self.started if self.started else 0.0)

    @property
    def attended(self) -> bool:
        """Whether the process noted last still lives."""
        return self.pid > 0 and lives(self.pid, self.pid_started)


@dataclass(frozen=True, order=True)
class Run:
    """One run folder."""

    folder: Path

    @property
    def id(self) -> str:
        """Name of the folder: made by the program, never by a person."""
        return self.folder.name

    @property
    def model_folder(self) -> Path:
        """Where the finished model is."""
        return self.folder / "model"

    def plan(self) -> Plan:
        """Read what was asked. Raises `OSError` or `ValueError` where the folder is no run."""
        raw = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        kind = Kind(raw["kind"])
        known = {field.name for field in fields(OPTIONS[kind])}
        options = OPTIONS[kind](**{name: value for name, value in raw["options"].items() if name in known})
        rest = {name: raw[name] for name in ("name", "data", "data_name", "fingerprint", "created")}
        marked = tuple((question, passage) for question, passage in raw.get("marked_negatives", []))
        return Plan(kind=kind, split=SplitOptions(**raw["split"]), options=options, marked_negatives=marked, **rest)

    def status(self) -> Status:
        """Read how it goes, and see whether its process still lives."""
        try:
            raw = json.loads((self.folder / "status.json").read_text(encoding="utf-8"))
            status = Status(**{**raw, "state": State(raw["state"]), "phase": Phase(raw["phase"])})
        except (OSError, ValueError, KeyError, TypeError):
            return Status(State.INTERRUPTED)
        if status.state is State.QUEUED and status.pid and not status.attended:
            return replace(status, state=State.INTERRUPTED)  # its process died while it stood in line
        if not status.at_work:
            return status
        if status.attended:
            return replace(status, state=State.STOPPING) if self.asked_to_stop else status
        return replace(status, state=State.STOPPED if self.asked_to_stop else State.INTERRUPTED, seconds_left=None)

    def write_status(self, status: Status) -> None:
        """Replace the status in one step."""
        text = json.dumps({**asdict(status), "heartbeat": datetime.now(UTC).timestamp()})
        write_text(self.folder / "status.json", text + "\n")

    def add_progress(self, entry: dict[str, Any]) -> None:
        """Append one logged step."""
        with (self.folder / "progress.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def add_measures(self, name: str, measures: dict[str, float]) -> None:
        """Append what was measured before the first step, as `<name>_<measure>`."""
        self.add_progress({"step": 0, **{f"{name}_{measure}": value for measure, value in measures.items()}})

    def forget_progress_after(self, step: int) -> None:
        """Drop what was logged past a step: training goes on from there and logs it again."""
        kept = [json.dumps(entry) + "\n" for entry in self.progress() if entry.get("step", 0) <= step]
        write_text(self.folder / "progress.jsonl", "".join(kept))

    def progress(self) -> list[dict[str, Any]]:
        """Read the logged steps; a line torn by a kill is left out."""
        try:
            lines = (self.folder / "progress.jsonl").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        entries = []
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict):
                entries.append(entry)
        return entries

    def scores(self) -> dict[str, Any]:
        """Read the figures before and after; empty until the run is done."""
        return read_json(self.folder / "scores.json")

    def provenance(self) -> dict[str, Any]:
        """Read what the run was made of: base and revision, data, split, library versions, hardware; empty before."""
        return read_json(self.folder / "provenance.json")

    def write(self, name: str, content: dict[str, Any]) -> None:
        """Write one of the folder's JSON files, such as `scores.json`, in one step."""
        write_text(self.folder / name, json.dumps(content, ensure_ascii=False, indent=2) + "\n")

    def log(self) -> str:
        """Read what its process wrote; empty where it wrote nothing."""
        try:
            return (self.folder / "log.txt").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def ask_to_stop(self) -> None:
        """Let the training end after its current step."""
        (self.folder / "stop").touch()

    @property
    def asked_to_stop(self) -> bool:
        """Whether somebody asked."""
        return (self.folder / "stop").exists()

    def delete(self) -> None:
        """Remove the folder. Raises `ValueError` while it runs, or its process is about to."""
        status = self.status()
        if status.at_work or (status.state is State.QUEUED and status.attended and not self.asked_to_stop):
            raise ValueError("a running training must be stopped before it is deleted")
        # first out of the list: a kill in the middle leaves nothing that looks like a run
        (self.folder / "run.json").unlink(missing_ok=True)
        shutil.rmtree(self.folder)


def create_run(plan: Plan, folder: Path | None = None, *, attended: bool = False) -> Run:
    """Make a run folder, in the workspace or at `folder` (which must not hold anything yet).

    It stands in line at once: for a worker or, where `attended`, for this process alone, which will carry it out.
    """
    run = Run(folder or workspace() / "runs" / _new_id(plan))
    if run.folder.is_file() or (run.folder.exists() and any(run.folder.iterdir())):
        raise ValueError(f"{run.folder} is not an empty folder; name a new one")
    run.folder.mkdir(parents=True, exist_ok=True)
    pid, pid_started = this_process() if attended else (0, 0.0)
    run.write_status(Status(queued=datetime.now(UTC).timestamp(), pid=pid, pid_started=pid_started))
    write_text(run.folder / "run.json", plan.as_json())
    return run


def all_runs() -> list[Run]:
    """Runs of the workspace, newest first; folders that are no runs are left out."""
    folders = sorted((workspace() / "runs").glob("*/run.json"), reverse=True)
    return [run for run in (Run(path.parent) for path in folders) if _readable(run)]


def find_run(run_id: str) -> Run | None:
    """Return the workspace's run with this id, None where there is none."""
    run = Run(workspace() / "runs" / run_id)
    return run if run.id == run_id and _readable(run) else None


def run_at_work() -> Run | None:
    """Return the run of the workspace that a process carries out, None where none does."""
    return next((run for run in all_runs() if run.status().at_work), None)


def queued_runs() -> list[Run]:
    """Runs of the workspace that wait for their turn, the next one first."""
    waiting = [(run.status(), run) for run in all_runs()]
    return [run for _, run in sorted((s.queued, run) for s, run in waiting if s.state is State.QUEUED)]


def new_plan(
    kind: Kind,
    name: str,
    data: tuple[str, str, str],
    split: SplitOptions,
    options: BiEncoderOptions | CrossEncoderOptions,
) -> Plan:
    """Return a plan made now, with the hard negatives marked by now.

    `data` is the reference, the name and the fingerprint of the question set.
    """
    reference, data_name, fingerprint = data
    created = datetime.now(UTC).isoformat(timespec="seconds")
    marked = remarks_of(fingerprint).negatives
    return Plan(kind, name, reference, data_name, fingerprint, split, options, created, marked)


def _readable(run: Run) -> bool:
    try:
        run.plan()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return True


def _new_id(plan: Plan) -> str:
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = re.sub(r"[^A-Za-z0-9]+", "-", plan.name).strip("-").lower()[:30]
    return "-".join(part for part in (moment, name or plan.kind.value, secrets.token_hex(2)) if part)
