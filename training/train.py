"""One training from its run folder: load, measure, train, measure, say how it ended."""

import errno
import json
import logging
import time
from dataclasses import replace
from typing import Any

from data.problems import DataError
from data.processes import this_process
from data.store import find
from data.workspace import write_text
from retrieval.hub import ModelError
from training.material import Material
from training.options import BiEncoderOptions
from training.progress import RunFolderCallback, running
from training.runs import Phase, Run, State, Status

logger = logging.getLogger(__name__)

_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)  # libraries raise OSError for much else
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory")  # what torch says of a GPU, and of a CPU


class _AskedToStop(Exception):  # noqa: N818 - no error
    """Somebody asked before the next phase began."""


def train(run: Run) -> Status:
    """Carry out a run in this process and return how it ended; whatever goes wrong ends up in its status."""
    pid, pid_started = this_process()
    status = Status(started=time.time(), pid=pid, pid_started=pid_started)
    try:
        scores = _train(run, status)
    except _AskedToStop:
        ended = replace(run.status(), state=State.STOPPED)
    except (Exception, KeyboardInterrupt) as error:
        logger.exception("the training failed")
        ended = replace(run.status(), state=State.FAILED, code=_code(error), message=_message(error))
    else:
        if scores is not None:
            write_text(run.folder / "scores.json", json.dumps(scores, indent=2) + "\n")
        ended = replace(run.status(), state=State.STOPPED if scores is None else State.DONE, seconds_left=0.0)
    run.write_status(ended)
    return ended


def _train(run: Run, status: Status) -> dict[str, Any] | None:
    from training.bi_encoder import train_bi_encoder
    from training.cross_encoder import train_cross_encoder

    def enter(phase: Phase) -> RunFolderCallback:
        if run.asked_to_stop:
            raise _AskedToStop
        now = running(replace(status, step=run.status().step, total_steps=run.status().total_steps), phase)
        run.write_status(now)
        return RunFolderCallback(run, now)

    enter(Phase.LOADING)
    plan = run.plan()
    question_set = find(plan.data)
    if question_set.fingerprint != plan.fingerprint:
        raise ValueError(f"{plan.data_name} is not what it was when this training was planned")
    material = Material.of(plan, question_set)
    run.add_measures("bm25", material.first_stage_measures)
    began = time.monotonic()
    options = plan.options
    measured = (
        train_bi_encoder(run, options, material, enter)
        if isinstance(options, BiEncoderOptions)
        else train_cross_encoder(run, options, material, enter)
    )
    if measured is None:
        return None
    return {
        **measured,
        "measured_on": "validation",
        "questions": len(material.validation.questions),
        "bm25": material.first_stage_measures,
        "seconds": time.monotonic() - began,
    }


def _code(error: BaseException) -> str:
    if isinstance(error, ModelError):
        return error.code
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
        return "disk"
    if isinstance(error, MemoryError) or any(said in str(error) for said in _OUT_OF_MEMORY):
        return "memory"
    return "data" if isinstance(error, DataError) else "unexpected"


def _message(error: BaseException) -> str:
    return str(error) or type(error).__name__
