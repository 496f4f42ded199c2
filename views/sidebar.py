"""The sidebar: which question set, which language, and what is being trained."""

import streamlit as st

from data.problems import DataError
from training.runs import Run, State, all_runs
from views.resources import split_of, stored_sets
from views.state import chosen_set, use_set
from views.words import LANGUAGES, catalog, duration, language, word

_POLL_SECONDS = 2.0


def draw() -> None:
    """Draw the sidebar of every page."""
    with st.sidebar:
        st.subheader(word("app.title"))
        _pick_set()
        _trainings()
        _pick_language()


def _pick_set() -> None:
    sets = {kept.key: kept for kept in stored_sets()}
    current = chosen_set()
    # without a key of its own the box follows the choice wherever it was made
    chosen = st.selectbox(
        word("sidebar.data"),
        list(sets),
        index=list(sets).index(current.key),
        format_func=lambda key: sets[key].name,
        help=word("sidebar.data_help"),
    )
    if chosen and chosen != current.key:
        use_set(chosen)
        st.rerun()
    use_set(current.key)
    st.caption(word("sidebar.counts", passages=f"{current.passages:,}", questions=f"{current.questions:,}"))
    try:
        groups = split_of(current.key, 0.1, 0.2, 0).group_counts
    except DataError:  # the page tells what is wrong with the set
        return
    st.caption(
        word("sidebar.split", train=groups["train"], validation=groups["validation"], test=groups["test"])  # type: ignore[index]
    )


def _pick_language() -> None:
    names = list(LANGUAGES)
    chosen = st.selectbox(
        catalog(language())["sidebar.language"],
        names,
        index=names.index(language()),
        format_func=LANGUAGES.__getitem__,
    )
    st.session_state["language"] = language()
    if chosen and chosen != language():
        st.session_state["language"] = chosen
        st.query_params["lang"] = chosen
        st.rerun()


def _trainings() -> None:
    running = [run for run in all_runs() if run.status().state is State.RUNNING]
    if running:
        _running_trainings([run.id for run in running])


@st.fragment(run_every=_POLL_SECONDS)
def _running_trainings(ids: list[str]) -> None:
    still = [run for run in all_runs() if run.id in ids and run.status().state is State.RUNNING]
    for run in still:
        _bar(run)
    if len(still) < len(ids):
        st.rerun()


def _bar(run: Run) -> None:
    status = run.status()
    share = status.step / status.total_steps if status.total_steps else 0.0
    text = word(f"phase.{status.phase.value}")
    if status.seconds_left:
        text = word("sidebar.left", phase=text, left=duration(status.seconds_left))
    st.progress(min(1.0, share), text=f"**{run.plan().kind.value}** · {text}")
