"""Comparisons of the workspace: one at work, the last that ended, and those kept, opened again, renamed, set beside the
one shown, deleted and taken away."""

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from threading import Thread
from typing import Any, NoReturn

import pandas as pd
import streamlit as st

from data.store import StoredSet
from jobs.folder import Status
from retrieval.analysis.changes import comparable
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.store import (
    ComparisonJob,
    StoredComparison,
    damaged_comparisons,
    delete,
    kept_comparison,
    kept_comparisons,
    rename,
)
from retrieval.evaluation.measures import CUT, Measure
from views.choices import Choices, method_line
from views.compare.scores import ComparisonView, draw_table, in_points
from views.names import set_name
from views.resources.retrieval import open_comparison
from views.resources.sets import chosen_set, stored_sets, use_set
from views.ui import job as job_view
from views.ui import tables
from views.ui.problems import draw_damaged
from views.ui.words import moment, plain, word

_OPENED, _ENDED = "opened_comparison", "ended_while_drawn"  # of the session
_POLL_SECONDS, _FIRST_POLL_SECONDS = 0.5, 0.3  # the first figures are waited for most
_OF_ANOTHER = ("retrievers", "part", "view", "question", "slice")  # choices that one just opened begins without


def draw(view: ComparisonView) -> None:
    kept = [one for one in kept_comparisons() if one.lab is None]
    st.caption(word("kept.about"))
    here = view.opened.folder.name
    table = _table(kept, here)
    draw_damaged(damaged_comparisons(), delete)
    rows = tables.draw_choice(table, {str(name): tables.text(f"kept.{name}") for name in table}, "kept_list")
    if not rows:
        st.caption(word("kept.choose"))
        return
    selected = kept[rows[0]]
    _draw_actions(selected)
    if current := next((one for one in kept if one.key == here != selected.key), None):
        _draw_changes(view, selected, current)


def title_of(kept: StoredComparison) -> str:
    """What a list calls a comparison: the name a person gave it, else its question set. Not Markdown."""
    return kept.name or set_name(kept.data)


def asked_for() -> StoredComparison | None:
    """Return the kept comparison that the address names, its question set made the one in use; None without one.

    A person who then picks another question set leaves the comparison behind. One that cannot be shown is told, and
    nothing else is drawn.
    """
    key = st.query_params.get("comparison")
    if not key:
        return None
    kept = kept_comparison(key)
    if kept is None:
        _tell_and_stop(word("kept.not_here"))
    elif chosen_set().fingerprint == kept.data_fingerprint:
        st.session_state[_OPENED] = kept.key
        return kept
    elif st.session_state.get(_OPENED) == kept.key:  # its set was in use, and another one was picked since
        close()
    elif same := next((one for one in stored_sets() if one.fingerprint == kept.data_fingerprint), None):
        use_set(same.key)
        st.rerun()
    else:
        _tell_and_stop(word("kept.set_is_gone", data=plain(set_name(kept.data))))
    return None


def _tell_and_stop(text: str) -> NoReturn:
    st.error(text, icon=":material/error:")
    st.button(word("kept.back"), icon=":material/arrow_back:", on_click=close)
    st.stop()


def _open(key: str) -> None:
    for name in _OF_ANOTHER:
        st.query_params.pop(name, None)
    for name in (_OPENED, "kept_view"):  # it begins with the overview
        st.session_state.pop(name, None)
    st.query_params["comparison"] = key


def close() -> None:
    st.query_params.pop("comparison", None)


def _table(kept: list[StoredComparison], here: str) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": [("▶ " if one.key == here else "") + (one.name or _usual_name(one)) for one in kept],
            "made": [moment(one.made) for one in kept],
            "data": [set_name(one.data) for one in kept],
            "part": [word(f"part.{one.part.value}") for one in kept],
            "questions": [f"{one.questions:,}" for one in kept],
            "retrievers": [", ".join(one.retrievers) for one in kept],
            "best": [_best(one) for one in kept],
        }
    )


def _usual_name(kept: StoredComparison) -> str:
    """What tells a comparison apart that nobody named: how many retrievers, the first of them, and the questions."""
    first, *others = kept.retrievers
    count = word("kept.others", first=first, count=len(others)) if others else first
    return f"{count} · {word(f'part.{kept.part.value}')}"


def _best(kept: StoredComparison) -> str:
    figures = {name: of["ndcg@10"] for name, of in kept.figures.items() if "ndcg@10" in of}
    best = max(figures, key=figures.__getitem__, default=None)
    return "–" if best is None else f"{best} {figures[best] * 100:.2f}"


def _draw_actions(selected: StoredComparison) -> None:
    """Draw what can be done with the selected comparison: open it, or rename or delete it from a menu."""
    with st.container(horizontal=True, vertical_alignment="center", border=True):
        st.markdown(f"**{plain(title_of(selected))}** · {moment(selected.made)}")
        icon = ":material/open_in_full:"
        st.button(word("kept.open"), type="primary", icon=icon, key="kept_open", on_click=_open, args=(selected.key,))
        with st.popover("", icon=":material/more_vert:", help=word("kept.menu")):
            _draw_menu(selected)


def _draw_menu(selected: StoredComparison) -> None:
    with st.form(f"rename_{selected.key}", border=False):
        name = st.text_input(word("kept.name"), selected.name, max_chars=120, placeholder=set_name(selected.data))
        if st.form_submit_button(word("kept.rename"), icon=":material/edit:", width="stretch"):
            rename(selected.key, name)
            st.rerun()
    st.divider()
    st.caption(word("kept.delete_sure"))
    if st.button(word("kept.delete"), icon=":material/delete:", key="kept_delete", width="stretch"):
        delete(selected.key)
        st.rerun()


def _draw_changes(view: ComparisonView, chosen: StoredComparison, current: StoredComparison) -> None:
    st.subheader(word("kept.changes", figure=view.figure.long))
    if reason := comparable(chosen, current):
        st.info(word(f"kept.{reason}"), icon=":material/compare_arrows:")
        return
    earlier = open_comparison(view.data.key, chosen.folder)
    changes = view.opened.changes_since(earlier) if earlier else []
    found = [one for one in changes if one.test.measure == str(view.figure)]
    if not found:
        st.info(word("kept.no_shared"), icon=":material/compare_arrows:")
        return
    table = in_points([one.test for one in found]).assign(
        retriever=[one.retriever for one in found],
        before=[one.before * 100 for one in found],
        after=[one.after * 100 for one in found],
        verdict=[word("kept.changed" if one.test.sure else "kept.not_changed") for one in found],
    )
    columns = {
        "retriever": tables.retriever(),
        "before": tables.number("kept.before", "%.2f"),
        "after": tables.number("kept.after", "%.2f"),
        "difference": tables.number("compare.difference", "%+.2f", ""),
        **tables.interval("%+.2f"),
        "p_family": tables.p_family(),
        "verdict": tables.text("compare.verdict", ""),
    }
    tables.draw(table, columns)


def last_finished(data: StoredSet, picked: Sequence[str], experiment: Experiment) -> StoredComparison | None:
    """Return the comparison of the set to show while nobody has run the one that is picked.

    Of those with any of the retrievers picked, one of the same questions goes before one of others, then the newest.
    """
    kept = [one for one in kept_comparisons() if one.data_fingerprint == data.fingerprint and not one.lab]
    with_any = [one for one in kept if set(one.retrievers) & set(picked)]
    return next((one for one in with_any if _is_asked(one, experiment)), with_any[0] if with_any else None)


def holds(kept: StoredComparison, experiment: Experiment) -> bool:
    """Whether a comparison that is not the experiment's own holds it: it asked the same, of more retrievers.

    One of the same retrievers would be its own, had a setting or the program not changed since.
    """
    return _is_asked(kept, experiment) and set(experiment.specs) < set(kept.retrievers)


def _is_asked(kept: StoredComparison, experiment: Experiment) -> bool:
    return (kept.part, kept.relevant_from) == (experiment.split, experiment.relevant_from)


def begin(job: ComparisonJob, experiment: Experiment, data: StoredSet, choices: Choices) -> None:
    """Start the comparison nobody has run yet, or that cannot be opened any more, once; and show how far it is."""
    started = f"started_{data.key}_{job.id}"
    if started not in st.session_state and not job.running:
        st.session_state[started] = True
        job.start(experiment)
        # what draws the figures, while they are waited for
        Thread(target=import_module, args=("views.compare.overview",), daemon=True).start()
        st.rerun()  # the button above is drawn already, and must not offer to start it again
    follow(job, experiment, data, {spec.name: method_line(spec, choices) for spec in experiment.retriever})


def follow(job: ComparisonJob, experiment: Experiment, data: StoredSet, methods: dict[str, str] | None = None) -> None:
    """Show how far a comparison or a lab is, until it ends; or say that it does not run, and what it wrote last."""
    if job.done and st.session_state.get(_ENDED) != (ended := (job.id, job.status().started)):
        st.session_state[_ENDED] = ended  # while the page was drawn: it is opened now, unless it cannot be
        st.rerun()
    if job.running and experiment.lab:
        job_view.follow(job, _at_work, every=_POLL_SECONDS)
        return
    if job.running:
        counts = {"passages": f"{data.passages:,}", "questions": f"{data.questions:,}"}
        name, count = plain(set_name(data.name)), len(experiment.retriever)
        st.markdown(word("compare.comparing", name=name, count=count, **counts))
        done = _finished(job)
        below = partial(_draw_methods, job, methods or {}, set(done))
        job_view.follow(job, _at_work, below, every=_POLL_SECONDS if done else _FIRST_POLL_SECONDS)
        _draw_figures(experiment, done)
        return
    st.warning(word("compare.lab_not_run") if experiment.lab else word("compare.not_run"), icon=":material/info:")
    if not job.done:
        job_view.draw_last_lines(job, word("compare.log"))


def _at_work(status: Status) -> str:
    return word("compare.at_work", name=plain(status.phase)) if status.phase else word("compare.starting")


def _draw_methods(job: ComparisonJob, methods: dict[str, str], drawn: set[str], status: Status) -> None:
    """Draw each retriever with what it does and how it stands.

    Figures of those that are done stand below, drawn once: drawing them at every look takes a core from the search.
    """
    done, lines = _finished(job), []
    for name, line in methods.items():
        icon = "check_circle" if name in done else "pending" if name == status.phase else "schedule"
        lines.append(f":material/{icon}: {plain(line)}")
    st.caption("  \n".join(lines))
    if set(done) != drawn:
        st.rerun()


def _draw_figures(experiment: Experiment, done: dict[str, dict[str, Any]]) -> None:
    """Draw a row for each retriever from the beginning: a browser reads what draws a table before it is filled."""
    rows = [{"retriever": name, **done.get(name, {}).get("figures", {})} for name in experiment.specs]
    questions = max((note.get("questions", 0) for note in done.values()), default=0)
    draw_table(pd.DataFrame(rows), questions or 1, Measure("recall", CUT), experiment.ks)


def _finished(job: ComparisonJob) -> dict[str, dict[str, Any]]:
    """Return what was noted of the retrievers that are done, by name; by a process of an earlier version no figures."""
    return {str(note["finished"]): note for note in job.progress() if "finished" in note}
