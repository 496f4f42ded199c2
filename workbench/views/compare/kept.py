"""Comparisons kept in the workspace: opened again, renamed, set beside the one shown, deleted and taken away."""

from typing import NoReturn

import pandas as pd
import streamlit as st

from mrc_workbench.retrieval.analysis.open_comparison import comparable
from mrc_workbench.retrieval.comparison.store import (
    StoredComparison,
    damaged_comparisons,
    delete,
    kept_comparison,
    kept_comparisons,
    rename,
)
from mrc_workbench.workbench.views.compare import address
from mrc_workbench.workbench.views.compare.scores import ComparisonView, in_points
from mrc_workbench.workbench.views.leading import best_by, leading_measure
from mrc_workbench.workbench.views.names import retriever_name, retriever_names, set_name
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.resources.sets import chosen_set, stored_sets, use_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.problems import draw_damaged
from mrc_workbench.workbench.views.ui.words import moment, plain, word

_OPENED = "opened_comparison"  # of the session
_OF_ANOTHER = (*address.CHOICES, "view", "question", "slice")  # choices that one just opened begins without


def draw(view: ComparisonView) -> None:
    kept = [one for one in kept_comparisons() if one.lab is None]
    st.caption(word("kept.about"))
    here = view.opened.folder.name
    table = _table(kept, here)
    draw_damaged(damaged_comparisons(), delete)
    columns = {str(name): tables.text(f"kept.{name}") for name in table if name != "best"}
    best = word("compare.best_by", figure=leading_measure().long)
    rows = tables.draw_choice(table, {**columns, "best": st.column_config.TextColumn(best)}, "kept_list")
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
    address.leave_other_dataset(chosen_set())
    key = st.query_params.get(address.KEY)
    if not key:
        return None
    if address.is_of_page(key, chosen_set()):
        st.session_state[_OPENED] = key
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
    address.forget_written()
    st.query_params[address.KEY] = key


def close() -> None:
    """Go back to the comparison of what is selected by default, without the stored one's choices."""
    address.clear(choices=True)


def _table(kept: list[StoredComparison], here: str) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": [("▶ " if one.key == here else "") + (one.name or _usual_name(one)) for one in kept],
            "made": [moment(one.made) for one in kept],
            "data": [set_name(one.data) for one in kept],
            "part": [word(f"part.{one.part.value}") for one in kept],
            "questions": [f"{one.questions:,}" for one in kept],
            "retrievers": [", ".join(retriever_names(one.retrievers).values()) for one in kept],
            "best": [_best(one) for one in kept],
        }
    )


def _usual_name(kept: StoredComparison) -> str:
    """What tells a comparison apart that nobody named: how many retrievers, the first of them, and the questions."""
    first, *others = retriever_names(kept.retrievers).values()
    count = word("kept.others", first=first, count=len(others)) if others else first
    return f"{count} · {word(f'part.{kept.part.value}')}"


def _best(kept: StoredComparison) -> str:
    """Say which retriever is best by the leading metric; by nDCG@10, which is then named, if none has the metric."""
    leading = leading_measure(kept.ks)
    found = best_by(leading, kept.figures)
    if found is None:
        return "–"
    name, measure, mean = found
    told = f"{retriever_name(name)} {100 * mean:.1f}"
    return told if measure == leading_measure() else f"{told} ({measure.long})"


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
