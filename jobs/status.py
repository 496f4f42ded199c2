"""How a job stands."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter

from jobs.machine import Process

_ENOUGH_TO_GUESS = 0.1  # share of the work after which the time left is told from the time spent


class State(StrEnum):
    """How a job stands. `STOPPING` is never written: it is a running one that was asked to stop."""

    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    DONE = "done"
    INTERRUPTED = "interrupted"  # its process is gone and did not say why


DAMAGED = "damaged"  # the code of a status whose file cannot be read
RESUMABLE = frozenset({State.STOPPED, State.FAILED, State.INTERRUPTED})


@dataclass(frozen=True)
class Status:
    """How it goes. Times are seconds since 1970 in UTC; `code` names the reason of a failure in the locale files."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    state: State = State.QUEUED
    phase: str = ""  # what it is doing: a phase of a training, the retriever that a comparison is at
    share: Annotated[float, Field(ge=0)] = 0.0  # of its work that is done, 0 to 1
    step: int = 0
    total_steps: int = 0
    seconds_left: float | None = None
    tells_time: bool = False  # it says itself what is left: where it does not, nobody knows
    queued: float = 0.0
    started: float = 0.0
    heartbeat: float = 0.0
    seconds: float = 0.0  # spent at work before this start, where it was resumed
    pid: Annotated[int, Field(ge=0, lt=2**31)] = 0
    pid_started: float = 0.0
    code: str = ""
    message: str = ""

    @property
    def at_work(self) -> bool:
        return self.state in (State.RUNNING, State.STOPPING)

    @property
    def spent(self) -> float:
        """Seconds at work, all starts together."""
        return self.seconds + max(0.0, self.heartbeat - self.started if self.started else 0.0)

    @property
    def left(self) -> float | None:
        """Seconds left: as the process says or, where it has no steps, as the share done promises; None if unknown."""
        if self.tells_time or self.total_steps or not _ENOUGH_TO_GUESS < self.share < 1:
            return self.seconds_left
        return (self.heartbeat - self.started) * (1 - self.share) / self.share

    @property
    def attended(self) -> bool:
        """Whether the process noted last still lives."""
        return self.pid > 0 and Process(self.pid, self.pid_started).lives


_READER = TypeAdapter(Status)


def read_status(content: dict[str, Any]) -> Status:
    """Read what was written of a status. Raises `ValueError` where it is none."""
    if "state" not in content:
        raise ValueError("a status says how the job stands")
    return _READER.validate_python(content)
