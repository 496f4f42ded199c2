"""The comparisons kept in the workspace: opened again, renamed, set beside the one that is shown, deleted."""

from typing import NoReturn

import pandas as pd
import streamlit as st

from retrieval.analysis.changes import comparable
from retrieval.comparison.store import StoredComparison, damaged_comparisons, delete, kept_comparisons, rename
from views.compare.scores import ComparisonView, in_points
from views.names import set_name
from views.resources.retrieval import open_comparison
from views.resources.sets import chosen_set, stored_sets, use_set
from views.ui import tables
from views.ui.problems import draw_damaged
from views.ui.words import moment, plain, word

_HEADLINE = "ndcg@10"
_OPENED = "opened_comparison"
_OF_ANOTHER = (
    "retrievers",
    "part",
    "view",
    "question",
    "slice",
)  # choices that a comparison just opened begins without


def draw(view: ComparisonView) -> None:
    """Draw the list, and what can be done with the one chosen from it."""
    kept = [one for one in kept_comparisons() if one.lab is None]
    st.caption(word("kept.about"))
    here = view.opened.folder.name
    table = _table(kept, here)
    draw_damaged(damaged_comparisons(), delete)
    rows = tables.draw_choice(table, {str(name): tables.text(f"kept.{name}") for name in table}, "kept_list")
    if not rows:
        st.info(word("kept.choose"), icon=":material/touch_app:")
        return
    chosen = kept[rows[0]]
    _draw_actions(chosen)
    if chosen.key != here:
        _draw_changes(view, chosen, next((one for one in kept if one.key == here), None))


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
    kept = next((one for one in kept_comparisons() if one.key == key), None)
    if kept is None:
        _tell_and_stop(word("kept.not_here"))
    elif chosen_set().fingerprint == kept.data_fingerprint:
        st.session_state[_OPENED] = kept.key
        return kept
    elif st.session_state.get(_OPENED) == kept.key:  # its set was in use, and another one was picked since
        close()
    elif _switch_to_its_set(kept):
        st.rerun()
    else:
        _tell_and_stop(word("kept.set_is_gone", data=plain(set_name(kept.data))))
    return None


def _tell_and_stop(text: str) -> NoReturn:
    st.error(text, icon=":material/error:")
    st.button(word("kept.back"), icon=":material/arrow_back:", on_click=close)
    st.stop()


def _switch_to_its_set(kept: StoredComparison) -> bool:
    """Make a comparison's question set the one in use; False where it is not in the workspace any more."""
    same = next((one for one in stored_sets() if one.fingerprint == kept.data_fingerprint), None)
    if same is None:
        return False
    use_set(same.key)
    return True


def _open(kept: StoredComparison) -> None:
    for name in _OF_ANOTHER:
        st.query_params.pop(name, None)
    for name in (_OPENED, "kept_view"):  # it begins with the overview
        st.session_state.pop(name, None)
    st.query_params["comparison"] = kept.key


def close() -> None:
    """Have the page show what is picked again."""
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
    figures = {name: of[_HEADLINE] for name, of in kept.figures.items() if _HEADLINE in of}
    if not figures:
        return "–"
    name = max(figures, key=figures.__getitem__)
    return f"{name} {figures[name] * 100:.2f}"


def _draw_actions(chosen: StoredComparison) -> None:
    with st.container(border=True):
        st.markdown(f"**{plain(title_of(chosen))}** · {moment(chosen.made)}")
        with st.form(f"rename_{chosen.key}", border=False):
            left, right = st.columns([4, 1], vertical_alignment="bottom")
            name = left.text_input(word("kept.name"), chosen.name, max_chars=120, placeholder=set_name(chosen.data))
            if right.form_submit_button(word("kept.rename"), icon=":material/edit:", width="stretch"):
                rename(chosen.key, name)
                st.rerun()
        with st.container(horizontal=True):
            icon = ":material/open_in_full:"
            st.button(word("kept.open"), type="primary", icon=icon, key="kept_open", on_click=_open, args=(chosen,))
            with st.popover(word("kept.delete"), icon=":material/delete:"):
                st.write(word("kept.delete_sure"))
                if st.button(word("kept.delete"), key="kept_delete", type="primary"):
                    delete(chosen.key)
                    st.rerun()


def _draw_changes(view: ComparisonView, chosen: StoredComparison, current: StoredComparison | None) -> None:
    if current is None:
        return
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
    st.dataframe(table[[*columns]], hide_index=True, column_config=columns)
