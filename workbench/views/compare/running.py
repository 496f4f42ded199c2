"""The selected comparison: its start, its progress, and its key in the address.

The address names the displayed comparison as `comparison`, so a link opens the same results after later comparisons. A
link to a comparison that the page of its dataset does not display opens the stored comparison.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from threading import Thread
from typing import Literal

import pandas as pd
import streamlit as st

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.records import RELEVANT_GRADE
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet
from mrc_workbench.retrieval.comparison import store
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import ComparisonJob, FinishedRetriever, StoredComparison
from mrc_workbench.workbench.views.choices import RetrieverChoices, choices_for, comparisons_of, method_line
from mrc_workbench.workbench.views.compare.controls import select_only
from mrc_workbench.workbench.views.compare.scores import draw_table
from mrc_workbench.workbench.views.names import leading_measure, plain_names, retriever_name, set_name
from mrc_workbench.workbench.views.ui import job as job_view
from mrc_workbench.workbench.views.ui.state import assume, is_assumed
from mrc_workbench.workbench.views.ui.words import duration, plain, rounded_duration, show_errors, word

_ICONS = {"done": "check_circle", "failed": "error", "running": "pending", "waiting": "schedule"}
_IN_MINUTES = 3540.0  # seconds in total from which times are displayed in whole minutes
_POLL_SECONDS = 0.5
_FIRST_POLL_SECONDS = 0.3  # until the first retriever has metrics
KEY = "comparison"
CHOICES = ("retrievers", "part")  # address parameters beside the key
# Session keys: the job that ended while the page was drawn; the keys of the dataset and comparison its page wrote
_ENDED = "ended_while_drawn"
_WRITTEN = "comparison_in_address"


@dataclass(frozen=True)
class ProgressRow:
    """The progress of a retriever. `seconds` is the displayed time left, a whole number; None if unknown."""

    name: str
    state: Literal["done", "failed", "running", "waiting"]
    seconds: float | None = None


def progress_rows(names: Sequence[str], status: Status, finished: Mapping[str, FinishedRetriever]) -> list[ProgressRow]:
    left = dict(status.parts_left)
    rows = []
    for name in names:
        if name in finished:
            rows.append(ProgressRow(name, "failed" if finished[name].failed else "done"))
        else:
            rows.append(ProgressRow(name, "running" if name == status.phase else "waiting", left.get(name)))
    unit = 60 if _in_minutes(rows) else 1
    return [row if row.seconds is None else replace(row, seconds=round(row.seconds / unit) * unit) for row in rows]


def total_left(rows: Sequence[ProgressRow]) -> float | None:
    pending = [row.seconds for row in rows if row.state in ("running", "waiting")]
    known = [seconds for seconds in pending if seconds is not None]
    return sum(known) if len(known) == len(pending) > 0 else None


def state_words(rows: Sequence[ProgressRow]) -> list[str]:
    format_duration = rounded_duration if _in_minutes(rows) else duration
    texts = []
    for row in rows:
        text = word(f"compare.state_{row.state}")
        if row.seconds:
            text = word("compare.state_with_time", state=text, time=format_duration(row.seconds))
        texts.append(text)
    return texts


def total_words(doing: str, rows: Sequence[ProgressRow]) -> str:
    format_duration = rounded_duration if _in_minutes(rows) else duration
    total = total_left(rows)
    return word("job.left", at_work=doing, left=format_duration(total)) if total else doing


def _in_minutes(rows: Sequence[ProgressRow]) -> bool:
    return sum(row.seconds or 0.0 for row in rows) >= _IN_MINUTES


def _finished_names(job: ComparisonJob) -> list[str]:
    return [name for name, retriever in job.finished_retrievers().items() if not retriever.failed]


def _draw_metrics(job: ComparisonJob, experiment: Experiment, names: Sequence[str]) -> None:
    """Draw a row for each retriever, even before its search ends: the browser loads the code of tables early."""
    finished = job.finished_retrievers()
    rows = [{"retriever": name, **(finished[name].metrics if name in finished else {})} for name in names]
    questions = max((retriever.questions for retriever in finished.values()), default=0)
    draw_table(pd.DataFrame(rows), questions or 1, leading_measure(experiment.ks), experiment.ks)


@dataclass(frozen=True)
class SelectedComparison:
    """The selected retrievers and questions as an experiment, and the job that runs it."""

    data: StoredSet
    choices: RetrieverChoices
    experiment: Experiment

    @property
    def job(self) -> ComparisonJob:
        return ComparisonJob.of(self.experiment, self.data.fingerprint)


def earlier_comparison(selected: SelectedComparison, names: Sequence[str]) -> StoredComparison | None:
    """Return the earlier comparison to display until the selected one ends; None if that one has more results.

    It is the one in the address, else the best of the dataset: same questions, most retrievers, newest.
    """
    job = selected.job
    experiment = selected.experiment
    if job.done or job.running:
        return None

    def fit(stored: StoredComparison) -> tuple[bool, int]:
        return asks_same_questions(stored, experiment), len(set(names) & set(stored.retrievers))

    last = superset_in_address(experiment, selected.data)
    if last is None and job.is_unfinished:
        last = comparison_in_address(selected.data)
    if last is None:
        overlapping = [stored for stored in comparisons_of(selected.data) if fit(stored)[1]]
        last = max(overlapping, key=fit, default=None)  # `max` returns the first of equals, which is the newest
    finished = set(_finished_names(job)) if job.is_unfinished else set()
    if last and finished and not (asks_same_questions(last, experiment) and finished <= set(last.metrics)):
        return None
    return last


def start_from_link(selected: SelectedComparison) -> None:
    requested = st.query_params.pop("run", None) is not None
    if requested and not selected.job.done and not selected.job.is_stopped:
        selected.job.start(selected.experiment)


def begin(selected: SelectedComparison) -> None:
    """Start a quick comparison once per session, unless a user stopped it; draw its progress or why it waits."""
    job = selected.job
    started = f"started_{selected.data.key}_{selected.job.id}"
    if job.running:
        follow(job, selected)
        return
    reason = _reason_to_wait(selected)
    if not reason and started not in st.session_state and (job.can_autostart or job.done):
        st.session_state[started] = True
        job.start(selected.experiment)
        # Import the overview while the comparison runs
        Thread(target=import_module, args=("mrc_workbench.workbench.views.compare.overview",), daemon=True).start()
        st.rerun()  # the button above must not offer to start it again
    if reason:
        st.info(reason, icon=":material/schedule:")
    else:
        follow(job, selected)


def _reason_to_wait(selected: SelectedComparison) -> str:
    stopped = store.stopped_specs(selected.data.key)
    if names := [spec.name for spec in selected.experiment.retriever if spec in stopped]:
        return word("compare.waits_stopped", names=plain_names(names))
    expected = selected.choices.expected
    names = [*selected.experiment.specs]
    slow = [name for name in names if expected and name not in expected.starting(names)]
    return word("compare.waits_slow", names=plain_names(slow)) if slow else ""


def follow(job: ComparisonJob, selected: SelectedComparison) -> None:
    if not _is_running(job, "compare.not_run"):
        return
    data = selected.data
    experiment = selected.experiment
    names = [*experiment.specs]
    counts = {"passages": f"{data.passages:,}", "questions": f"{data.questions:,}", "count": len(names)}
    key = "compare.comparing_single" if len(names) == 1 else "compare.comparing"
    st.markdown(word(key, name=plain(set_name(data.name)), **counts))
    done = job.finished_retrievers()
    methods = {spec.name: method_line(spec, selected.choices) for spec in experiment.retriever}

    def text(status: Status) -> str:
        rows = progress_rows(names, status, job.finished_retrievers())
        is_searching = any(row.state == "running" for row in rows)
        return total_words(_progress_text(status) if is_searching else word("compare.starting"), rows)

    interval = _POLL_SECONDS if done else _FIRST_POLL_SECONDS
    job_view.follow(job, _progress_text, partial(_draw_methods, job, methods, set(done)), interval=interval, text=text)
    finished = _finished_names(job)
    if finished and len(finished) < len(names):
        st.markdown(word("compare.partial_running", names=plain_names(finished)))
        _draw_finished_only(selected, finished, "compare.stop_and_compare")
    _draw_metrics(job, experiment, names)


def follow_lab(job: ComparisonJob) -> None:
    if _is_running(job, "compare.lab_not_run"):
        job_view.follow(job, _progress_text, interval=_POLL_SECONDS)


def _is_running(job: ComparisonJob, otherwise: str) -> bool:
    """Whether a job runs; if not, draw the text `otherwise` and the end of its log, or open its new result."""
    ended = (job.id, job.status().started)
    if job.done and st.session_state.get(_ENDED) != ended:
        st.session_state[_ENDED] = ended
        st.rerun()
    if job.running:
        return True
    st.warning(word(otherwise), icon=":material/info:")
    if not job.done:
        job_view.draw_last_lines(job, word("compare.log"))
    return False


def draw_unfinished(selected: SelectedComparison, *, shows_result: bool) -> None:
    """Draw the buttons to continue an unfinished comparison and, unless `shows_result`, its finished retrievers."""
    job = selected.job
    experiment = selected.experiment
    names = [] if shows_result else _finished_names(job)
    ending = "failed" if job.status().state is State.FAILED else "interrupted"
    if job.is_stopped:
        ending = "stopped"
    with st.container(border=True, key="unfinished"):
        if names:
            st.markdown(word(f"compare.partial_{ending}", names=plain_names(names)))
        else:
            missing = [name for name in experiment.specs if name not in _finished_names(job)]
            st.markdown(word(f"compare.missing_{ending}", names=plain_names(missing)))
        with st.container(horizontal=True):
            if st.button(word("compare.resume"), type="primary", icon=":material/play_arrow:", key="resume"):
                job_view.begin(lambda: job.start(experiment))
            if names:
                _draw_finished_only(selected, names, "compare.only_finished")
        if ending != "stopped":
            job_view.draw_last_lines(job, word("compare.log"))
    if names:
        _draw_metrics(job, experiment, names)


def _draw_finished_only(selected: SelectedComparison, names: list[str], label: str) -> None:
    """Draw the button that compares only the finished retrievers, from their stored rankings."""
    if not st.button(word(label), icon=":material/done_all:", key="only_finished"):
        return
    with show_errors():
        if selected.job.running:
            selected.job.kill()
        split = selected.experiment.split
        grade = selected.experiment.relevance_level
        finished = replace(selected, experiment=selected.choices.experiment(selected.data, names, split, grade))
        if not finished.job.done:
            finished.job.start(finished.experiment)
        select_only(names, split)
        st.rerun()


def _progress_text(status: Status) -> str:
    return word("compare.at_work", name=plain_names([status.phase])) if status.phase else word("compare.starting")


def _draw_methods(job: ComparisonJob, methods: Mapping[str, str], displayed_names: set[str], status: Status) -> None:
    """Draw each retriever with its method, state and time left. Metrics are not polled: that would slow the search."""
    done = job.finished_retrievers()
    rows = progress_rows([*methods], status, done)
    lines = []
    for row, words in zip(rows, state_words(rows), strict=True):
        name = retriever_name(row.name)
        description = methods[row.name].removeprefix(f"{name}: ")
        lines.append(f":material/{_ICONS[row.state]}: **{plain(name)}** · {words} · {plain(description)}")
    st.caption("  \n".join(lines))
    if set(done) != displayed_names:
        st.rerun()


def write_displayed(key: str, data: StoredSet, part: Part, retrievers: Sequence[str]) -> None:
    """Put the displayed comparison into the address in one step; an empty key removes it."""
    if not key:
        clear_address()
        return
    st.session_state[_WRITTEN] = (data.key, key)
    if "part" not in st.query_params or is_assumed("part"):
        assume("part", part.value)
    address = {KEY: key, "part": part.value, "retrievers": "|".join(retrievers)}
    if any(st.query_params.get(name) != value for name, value in address.items()):
        st.query_params.update(address)


def clear_address(*, choices: bool = False) -> None:
    st.session_state.pop(_WRITTEN, None)
    for name in (KEY, *(CHOICES if choices else ())):
        if name in st.query_params:
            del st.query_params[name]


def leave_other_dataset(data: StoredSet) -> None:
    """Clear the address if the page of another dataset wrote it."""
    dataset_key, key = st.session_state.get(_WRITTEN, ("", ""))
    if dataset_key and dataset_key != data.key and st.query_params.get(KEY) == key:
        clear_address(choices=True)


def is_displayed_by_page(key: str, data: StoredSet) -> bool:
    """Whether the page of the dataset displays this comparison: it wrote the key, or the address selects the same."""
    if st.session_state.get(_WRITTEN) == (data.key, key):
        return True
    experiment = _experiment_in_address(data)
    if experiment is None:
        return False
    job = ComparisonJob.of(experiment, data.fingerprint)
    if job.is_unfinished:  # the page offers to resume it and displays the comparison of the key
        return True
    return job.id == key or not (job.done or job.running or superset_in_address(experiment, data) is None)


def comparison_in_address(data: StoredSet) -> StoredComparison | None:
    stored = store.get_comparison(st.query_params.get(KEY, ""))
    return stored if stored and stored.data_fingerprint == data.fingerprint else None


def asks_same_questions(stored: StoredComparison, experiment: Experiment) -> bool:
    return (stored.part, stored.relevance_level) == (experiment.split, experiment.relevance_level)


def is_superset(stored: StoredComparison, experiment: Experiment) -> bool:
    """Whether a stored comparison has the same questions and more retrievers than the experiment."""
    return asks_same_questions(stored, experiment) and set(experiment.specs) < set(stored.retrievers)


def superset_in_address(experiment: Experiment, data: StoredSet) -> StoredComparison | None:
    stored = comparison_in_address(data)
    return stored if stored and is_superset(stored, experiment) else None


def _experiment_in_address(data: StoredSet) -> Experiment | None:
    names = [name for name in st.query_params.get("retrievers", "").split("|") if name]
    part = st.query_params.get("part", "")
    grade = st.query_params.get("grade", str(RELEVANT_GRADE))
    if not names or part not in [known.value for known in Part] or not grade.isdecimal():
        return None
    choices = choices_for(data)
    if not choices.specs.keys() >= {*names}:
        return None
    selected = [name for name in choices.specs if name in names]
    return choices.experiment(data, selected, Part(part), int(grade))
