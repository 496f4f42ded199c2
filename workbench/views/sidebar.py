"""The sidebar (question set, language, training), and the title of the browser's tab."""

from typing import Any

import streamlit as st

from mrc_workbench.data.jobs.folder import Job, State
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.split import SplitMethod, SplitOptions
from mrc_workbench.data.workspace import user, workspace
from mrc_workbench.labs import labs
from mrc_workbench.training.jobs import QUEUE
from mrc_workbench.training.runs import Run
from mrc_workbench.workbench.views.access import draw_user
from mrc_workbench.workbench.views.names import as_shared, phase_words, run_name, set_name, split_text
from mrc_workbench.workbench.views.navigation import FIRST, PAGES
from mrc_workbench.workbench.views.resources.sets import missing_set, selected_set, split_of, stored_sets, use_set
from mrc_workbench.workbench.views.ui.job import with_time_left
from mrc_workbench.workbench.views.ui.state import distinct_labels
from mrc_workbench.workbench.views.ui.words import LANGUAGES, language, plain, word

_POLL_SECONDS = 2.0
_JOB_FOLDERS = ("comparisons", "cache/dry_runs", *(lab.name for lab in labs()))  # of jobs outside the queue


def draw() -> None:
    with st.sidebar:
        st.subheader(word("app.title"))
        _pick_set()
        training = QUEUE.running_job()
        if training or QUEUE.queued():
            _follow_training(training)
        _pick_language()
        if user():
            others = (path for folder in _JOB_FOLDERS for path in workspace().glob(f"{folder}/*/status.json"))
            draw_user(is_running=bool(training) or any(Job(path.parent).status().is_running for path in others))


def _pick_set() -> None:
    labels = {dataset.key: as_shared(set_name(dataset.name), shared=dataset.shared) for dataset in stored_sets()}
    names = distinct_labels(labels, labels.__getitem__)
    current = None if missing_set() else selected_set()  # the page reports a missing dataset
    # Without a key the box follows a choice made elsewhere
    kwargs: dict[str, Any] = {"format_func": names.__getitem__, "help": word("sidebar.data_help")}
    kwargs["index"] = [*names].index(current.key) if current else None
    kwargs["placeholder"] = None if current else word("missing_set.placeholder")
    selected = st.selectbox(word("sidebar.data"), [*names], **kwargs)
    if selected and (current is None or selected != current.key):
        use_set(selected)
        st.rerun()
    if current is None:
        return
    use_set(current.key)
    st.caption(word("sidebar.counts", passages=f"{current.passages:,}", questions=f"{current.questions:,}"))
    if current.generated:
        st.caption(f":material/auto_awesome: {word('sidebar.made', made=f'{current.generated:,}')}")
    if not current.questions:
        return
    try:
        split = split_of(current.key, SplitOptions())
    except DataError:  # the page reports it
        return
    counts = {part.value: f"{len(rows):,}" for part, rows in split.rows.items()}
    help_text = word("sidebar.split_help" if split.by_article else "sidebar.split_passages_help")
    if split.method is not SplitMethod.GROUPED:
        help_text = split_text(split)
    st.caption(word("sidebar.split", **counts), help=help_text)


def _pick_language() -> None:
    names = [*LANGUAGES]
    label = word("sidebar.language")
    selected = st.selectbox(label, names, index=names.index(language()), format_func=LANGUAGES.__getitem__)
    st.session_state["language"] = language()
    if selected and selected != language():
        st.session_state["language"] = selected
        st.query_params["lang"] = selected
        st.rerun()


@st.fragment(run_every=_POLL_SECONDS)
def _follow_training(previous: Run | None) -> None:
    running = QUEUE.running_job()
    waiting = len(QUEUE.queued())
    if running != previous:
        st.rerun()
    if running:
        status = running.status()
        text = word("state.stopping") if status.state is State.STOPPING else phase_words(running, status)
        label = f"**{plain(run_name(running.plan()))}** · {with_time_left(text, status)}"
        st.progress(min(1.0, status.progress), text=label)
    if waiting:
        st.caption(f":material/schedule: {word('sidebar.waiting', count=waiting)}")


def title_of(opened: str) -> str:
    page = PAGES[0] if opened in ("", FIRST) else next((page for page in PAGES if page.name == opened), None)
    if page and not page.is_in_menu and not missing_set():  # pages in the menu use other data
        return word("app.tab_of_data", page=page.title, data=set_name(selected_set().name))
    return word("app.tab", page=page.title if page else word("page.missing_title"))
