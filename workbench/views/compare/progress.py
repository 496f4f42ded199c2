"""How each retriever of a running comparison stands. The times shown for the retrievers add up to the total shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mrc_workbench.data.jobs.folder import Status
from mrc_workbench.retrieval.comparison.store import FinishedRetriever
from mrc_workbench.workbench.views.forecasts import rounded_duration
from mrc_workbench.workbench.views.ui.words import duration, word

State = Literal["done", "failed", "running", "waiting"]
_ICONS: dict[State, str] = {"done": "check_circle", "failed": "error", "running": "pending", "waiting": "schedule"}
_IN_MINUTES = 3540.0  # seconds in total from which times are shown in whole minutes


@dataclass(frozen=True)
class ProgressRow:
    """One retriever. `seconds` is the time it still takes, a whole number as it is shown, None if unknown."""

    name: str
    state: State
    seconds: float | None = None

    @property
    def icon(self) -> str:
        return _ICONS[self.state]


def progress_rows(names: Sequence[str], status: Status, finished: Mapping[str, FinishedRetriever]) -> list[ProgressRow]:
    """Return how each retriever stands, from the status of the job and the retrievers that it noted as finished."""
    left = dict(status.parts_left)
    rows = []
    for name in names:
        if name in finished:
            rows.append(ProgressRow(name, "failed" if finished[name].failed else "done"))
        else:
            rows.append(ProgressRow(name, "running" if name == status.phase else "waiting", left.get(name)))
    return _rounded(rows)


def total_left(rows: Sequence[ProgressRow]) -> float | None:
    """Return the sum of the times shown; None where the time of a retriever is unknown."""
    pending = [row.seconds for row in rows if row.state in ("running", "waiting")]
    known = [seconds for seconds in pending if seconds is not None]
    return sum(known) if len(known) == len(pending) > 0 else None


def state_words(rows: Sequence[ProgressRow]) -> list[str]:
    """Return the words for the state of each retriever, with the time it still takes where that is known."""
    in_minutes = _in_minutes(rows)
    said = []
    for row in rows:
        words = word(f"compare.state_{row.state}")
        if row.seconds:
            time = rounded_duration(row.seconds) if in_minutes else duration(row.seconds)
            words = word("compare.state_with_time", state=words, time=time)
        said.append(words)
    return said


def total_words(doing: str, rows: Sequence[ProgressRow]) -> str:
    """Return what the comparison does, with the time that all of it still takes where that is known."""
    total = total_left(rows)
    if not total:
        return doing
    left = rounded_duration(total) if _in_minutes(rows) else duration(total)
    return word("job.left", at_work=doing, left=left)


def _rounded(rows: list[ProgressRow]) -> list[ProgressRow]:
    unit = 60 if _in_minutes(rows) else 1
    return [row if row.seconds is None else replace(row, seconds=round(row.seconds / unit) * unit) for row in rows]


def _in_minutes(rows: Sequence[ProgressRow]) -> bool:
    return sum(row.seconds or 0.0 for row in rows) >= _IN_MINUTES
