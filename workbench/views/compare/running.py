"""The comparison that is selected: what starts it, how far it is, and what to show while it has no result.

The times shown for the retrievers add up to the total shown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from threading import Thread
from typing import Literal

import pandas as pd
import streamlit as st

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.store import StoredSet
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import (
    ComparisonJob,
    FinishedRetriever,
    StoredComparison,
    kept_comparisons,
    stopped_jobs,
)
from mrc_workbench.workbench.views.choices import Choices, method_line, rounded_duration
from mrc_workbench.workbench.views.compare.controls import pick_only
from mrc_workbench.workbench.views.compare.scores import draw_table
from mrc_workbench.workbench.views.names import leading_measure, retriever_name, set_name
from mrc_workbench.workbench.views.ui import job as job_view
from mrc_workbench.workbench.views.ui.words import duration, errors_told, plain, word

RetrieverState = Literal["done", "failed", "running", "waiting"]
_ICONS: dict[RetrieverState, str] = {
    "done": "check_circle",
    "failed": "error",
    "running": "pending",
    "waiting": "schedule",
}
_IN_MINUTES = 3540.0  # seconds in total from which times are shown in whole minutes


@dataclass(frozen=True)
class ProgressRow:
    """One retriever. `seconds` is the time it still takes, a whole number as it is shown, None if unknown."""

    name: str
    state: RetrieverState
    seconds: float | None = None

    @property
    def icon(self) -> str:
        return _ICONS[self.state]


def progress_rows(names: Sequence[str], status: Status, finished: Mapping[str, FinishedRetriever]) -> list[ProgressRow]:
    left = dict(status.parts_left)
    rows = []
    for name in names:
        if name in finished:
            rows.append(ProgressRow(name, "failed" if finished[name].failed else "done"))
        else:
            rows.append(ProgressRow(name, "running" if name == status.phase else "waiting", left.get(name)))
    return _rounded(rows)


def total_left(rows: Sequence[ProgressRow]) -> float | None:
    pending = [row.seconds for row in rows if row.state in ("running", "waiting")]
    known = [seconds for seconds in pending if seconds is not None]
    return sum(known) if len(known) == len(pending) > 0 else None


def state_words(rows: Sequence[ProgressRow]) -> list[str]:
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


Ending = Literal["stopped", "failed", "interrupted"]


def finished_names(job: ComparisonJob) -> list[str]:
    """Return the names of the retrievers that the job has searched without failing."""
    return [name for name, retriever in job.finished().items() if not retriever.failed]


def how_it_ended(job: ComparisonJob) -> Ending:
    if job.is_stopped:
        return "stopped"
    return "failed" if job.status().state is State.FAILED else "interrupted"


def draw_heading(how: Ending | Literal["running"], names: Sequence[str]) -> None:
    st.markdown(word(f"compare.partial_{how}", names=_listed(names)))


def draw_missing(how: Ending, experiment: Experiment, finished: Sequence[str]) -> None:
    missing = [name for name in experiment.specs if name not in finished]
    st.markdown(word(f"compare.missing_{how}", names=_listed(missing)))


def draw_metrics(job: ComparisonJob, experiment: Experiment, names: Sequence[str]) -> None:
    """Draw a row for each retriever, also before it is searched: browsers load the code of tables meanwhile."""
    finished = job.finished()
    rows = []
    for name in names:
        figures = finished[name].figures if name in finished else {}
        rows.append({"retriever": name, **figures})
    questions = max((retriever.questions for retriever in finished.values()), default=0)
    draw_table(pd.DataFrame(rows), questions or 1, leading_measure(experiment.ks), experiment.ks)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(plain(retriever_name(name)) for name in names)


_ENDED = "ended_while_drawn"  # of the session
_POLL_SECONDS, _FIRST_POLL_SECONDS = 0.5, 0.3  # the first figures are waited for most


@dataclass(frozen=True)
class Selected:
    """The comparison that the page is asked for: the retrievers and questions selected, and the job that compares."""

    data: StoredSet
    choices: Choices
    experiment: Experiment

    @property
    def job(self) -> ComparisonJob:
        return ComparisonJob.of(self.experiment, self.data.fingerprint)

    @property
    def methods(self) -> dict[str, str]:
        return {spec.name: method_line(spec, self.choices) for spec in self.experiment.retriever}

    def of_finished(self, names: Sequence[str]) -> "Selected":
        split, grade = self.experiment.split, self.experiment.relevant_from
        return Selected(self.data, self.choices, self.choices.experiment(self.data, [*names], split, grade))


def last_finished(data: StoredSet, picked: Sequence[str], experiment: Experiment) -> StoredComparison | None:
    """Return the comparison to show until a user runs the selected one: same questions, most retrievers, newest."""
    wanted = set(picked)
    with_any = [
        stored
        for stored in kept_comparisons()
        if stored.data_fingerprint == data.fingerprint and not stored.lab and wanted & set(stored.retrievers)
    ]

    def fit(stored: StoredComparison) -> tuple[bool, int]:
        return asks_same_questions(stored, experiment), len(wanted & set(stored.retrievers))

    return max(with_any, key=fit, default=None)  # of equals the first, which is the newest


def holds(kept: StoredComparison, experiment: Experiment) -> bool:
    """Whether a stored comparison asked the same of more retrievers than the experiment."""
    return asks_same_questions(kept, experiment) and set(experiment.specs) < set(kept.retrievers)


def shows_all_finished(kept: StoredComparison, selected: Selected) -> bool:
    finished = finished_names(selected.job)
    return not finished or (asks_same_questions(kept, selected.experiment) and set(finished) <= set(kept.figures))


def asks_same_questions(kept: StoredComparison, experiment: Experiment) -> bool:
    return (kept.part, kept.relevant_from) == (experiment.split, experiment.relevant_from)


def start_from_link(selected: Selected) -> None:
    asked = st.query_params.pop("run", None) is not None
    if asked and not selected.job.done and not selected.job.is_stopped:
        selected.job.start(selected.experiment)


def begin(selected: Selected) -> None:
    """Start a comparison, once a session, if it is quick and no user stopped it; show its progress, or why it waits."""
    job, started = selected.job, f"started_{selected.data.key}_{selected.job.id}"
    if job.running:
        follow(job, selected)
        return
    reason = _reason_to_wait(selected)
    if not reason and started not in st.session_state and (job.may_start_by_itself or job.done):
        st.session_state[started] = True
        job.start(selected.experiment)
        # what draws the figures, while they are waited for
        Thread(target=import_module, args=("mrc_workbench.workbench.views.compare.overview",), daemon=True).start()
        st.rerun()  # the button above is drawn already, and must not offer to start it again
    if reason:
        st.info(reason, icon=":material/schedule:")
    else:
        follow(job, selected)


def _reason_to_wait(selected: Selected) -> str:
    stopped = [spec for job in stopped_jobs(selected.data.key) for spec in job.unfinished()]
    if names := [plain(retriever_name(spec.name)) for spec in selected.experiment.retriever if spec in stopped]:
        return word("compare.waits_stopped", names=", ".join(names))
    expected, names = selected.choices.expected, [*selected.experiment.specs]
    slow = [name for name in names if expected and name not in expected.starting(names)]
    return word("compare.waits_slow", names=", ".join(plain(retriever_name(name)) for name in slow)) if slow else ""


def follow(job: ComparisonJob, selected: Selected) -> None:
    _open_when_done(job)
    if not job.running:
        st.warning(word("compare.not_run"), icon=":material/info:")
        if not job.done:
            job_view.draw_last_lines(job, word("compare.log"))
        return
    data, experiment = selected.data, selected.experiment
    counts = {"passages": f"{data.passages:,}", "questions": f"{data.questions:,}"}
    name, count = plain(set_name(data.name)), len(experiment.retriever)
    key = "compare.comparing_one" if count == 1 else "compare.comparing"
    st.markdown(word(key, name=name, count=count, **counts))
    done = job.finished()
    below = partial(_draw_methods, job, selected.methods, set(done))
    every = _POLL_SECONDS if done else _FIRST_POLL_SECONDS
    job_view.follow(job, _at_work, below, every=every, text=_progress_text(job, experiment))
    names = finished_names(job)
    if names and len(names) < len(experiment.retriever):
        draw_heading("running", names)
        _draw_finished_only(selected, names, "compare.stop_and_compare")
    draw_metrics(job, experiment, [*experiment.specs])


def follow_lab(job: ComparisonJob) -> None:
    _open_when_done(job)
    if job.running:
        job_view.follow(job, _at_work, every=_POLL_SECONDS)
        return
    st.warning(word("compare.lab_not_run"), icon=":material/info:")
    if not job.done:
        job_view.draw_last_lines(job, word("compare.log"))


def draw_unfinished(selected: Selected, *, shows_result: bool) -> None:
    """Show the retrievers that a comparison had searched when it ended early, with the ways to go on.

    If the page shows the result of an earlier comparison (`shows_result`), only the ways to go on are drawn.
    """
    job = selected.job
    names = finished_names(job)
    how = how_it_ended(job)
    with st.container(border=True, key="unfinished"):
        if shows_result or not names:
            draw_missing(how, selected.experiment, names)
        else:
            draw_heading(how, names)
        with st.container(horizontal=True):
            if st.button(word("compare.resume"), type="primary", icon=":material/play_arrow:", key="resume"):
                with errors_told():
                    job.start(selected.experiment)
                    st.rerun()
            if names and not shows_result:
                _draw_finished_only(selected, names, "compare.only_finished")
        if how != "stopped":
            job_view.draw_last_lines(job, word("compare.log"))
    if names and not shows_result:
        draw_metrics(job, selected.experiment, names)


def _draw_finished_only(selected: Selected, names: list[str], label: str) -> None:
    if not st.button(word(label), icon=":material/done_all:", key="only_finished"):
        return
    with errors_told():
        if selected.job.running:
            selected.job.end()
        finished = selected.of_finished(names)
        if not finished.job.done:
            finished.job.start(finished.experiment)
        pick_only(names, finished.experiment.split)
        st.rerun()


def _open_when_done(job: ComparisonJob) -> None:
    if not job.done:
        return
    ended = (job.id, job.status().started)
    if st.session_state.get(_ENDED) != ended:
        st.session_state[_ENDED] = ended
        st.rerun()


def _at_work(status: Status) -> str:
    return (
        word("compare.at_work", name=plain(retriever_name(status.phase))) if status.phase else word("compare.starting")
    )


def _progress_text(job: ComparisonJob, experiment: Experiment) -> Callable[[Status], str]:
    def text(status: Status) -> str:
        rows = progress_rows([*experiment.specs], status, job.finished())
        is_searching = any(row.state == "running" for row in rows)
        doing = _at_work(status) if is_searching else word("compare.starting")
        return total_words(doing, rows)

    return text


def _draw_methods(job: ComparisonJob, methods: Mapping[str, str], drawn: set[str], status: Status) -> None:
    """Draw each retriever with what it does, how it stands and how long it still takes.

    The metrics of finished ones stand below, drawn once: drawing them at every poll takes a core from the search.
    """
    done = job.finished()
    rows = progress_rows([*methods], status, done)
    lines = []
    for row, words in zip(rows, state_words(rows), strict=True):
        name = retriever_name(row.name)
        does = methods[row.name].removeprefix(f"{name}: ")
        lines.append(f":material/{row.icon}: **{plain(name)}** · {words} · {plain(does)}")
    st.caption("  \n".join(lines))
    if set(done) != drawn:
        st.rerun()
