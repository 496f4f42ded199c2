"""What a person chooses on the Compare page: retrievers, questions, K, the measure, and the view of the results."""

from collections.abc import Sequence

import streamlit as st

from data.split import Part
from data.store import StoredSet
from views.choices import Choices
from views.compare import adding as compare_adding
from views.state import remember, remembered
from views.words import plain, word

_MEASURES = ("recall", "hit", "mrr", "ndcg")
_VIEW = "compare_view"
_ROUND = "picked_round"  # how often something else than a click changed what is picked


def pick_retrievers(choices: Choices, data: StoredSet) -> tuple[list[str], Part]:
    """Draw the choice of retrievers and of the questions asked; returns both."""
    with st.container(border=True):
        left, right = st.columns([4, 1], vertical_alignment="bottom")
        with left:
            picked = _pills(list(choices.specs), choices.first_picked, f"picked_{data.key}_{len(choices.specs)}")
            if choices.large:
                st.caption(word("compare.large_set", passages=f"{data.passages:,}"))
        with right, st.popover(word("compare.add"), icon=":material/add:", width="stretch"):
            added = compare_adding.draw(choices, data)
        if added:
            pick_also(picked, added)
            st.rerun()
        parts = [part.value for part in Part]
        first_part = Part.TEST if any(name in choices.trained for name in picked) else Part.ALL
        part = st.segmented_control(
            word("compare.questions"),
            parts,
            default=remembered("part", first_part.value, parts),
            format_func=lambda value: word(f"part.{value}"),
            help=word("compare.questions_help"),
        )
    chosen = Part(part or first_part)
    if chosen is not first_part or "part" in st.query_params:  # else it follows what is picked
        remember("part", chosen.value)
    return picked, chosen


def pick_among(names: Sequence[str], key: str) -> list[str]:
    """Draw the choice among the retrievers of a kept comparison."""
    with st.container(border=True):
        return _pills(list(names), tuple(names), f"picked_{key}")


def pick_figure(measured: Sequence[int]) -> tuple[str, int]:
    """Draw the choice of the measure and of K, one of those measured; returns both."""
    ks = [str(k) for k in measured]
    first = "10" if "10" in ks else ks[-1]
    left, right = st.columns(2, vertical_alignment="bottom")
    k = left.segmented_control("K", ks, default=remembered("k", first, ks), help=word("compare.k_help")) or first
    measure = right.segmented_control(
        word("compare.measure"),
        _MEASURES,
        default=remembered("measure", "recall", _MEASURES),
        format_func=lambda value: word(f"measure.{value}"),
        help=word("compare.measure_help"),
    )
    measure = measure or "recall"
    remember("k", k)
    remember("measure", measure)
    return measure, int(k)


def pick_view(views: Sequence[str]) -> str:
    """Draw the choice of what to look at; returns it."""
    # written every time: what a fragment chose would otherwise not reach the browser
    st.session_state[_VIEW] = st.session_state.get(_VIEW) or remembered("view", views[0], views)
    chosen = st.segmented_control(
        word("compare.view"),
        views,
        format_func=lambda value: word(f"compare.view_{value}"),
        label_visibility="collapsed",
        key=_VIEW,
    )
    view = chosen or views[0]
    if view != views[0] or "view" in st.query_params:
        remember("view", view)
    return view


def open_view(view: str) -> None:
    """Have the page show another view when it is drawn next; only in a callback."""
    st.session_state[_VIEW] = view
    remember("view", view)


def pick_also(names: Sequence[str], name: str, part: Part | None = None) -> None:
    """Have the page pick one more retriever than `names` when it is drawn next, and ask the questions of `part`."""
    st.query_params["retrievers"] = "|".join([*(one for one in names if one != name), name])
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    if part:
        remember("part", part.value)


def _pills(names: list[str], first_picked: tuple[str, ...], key: str) -> list[str]:
    wanted = remembered("retrievers", "", [st.query_params.get("retrievers", "")])
    from_address = [name for name in wanted.split("|") if name in names]
    picked = st.pills(
        word("compare.retrievers"),
        names,
        selection_mode="multi",
        wrap=True,
        default=from_address or [name for name in first_picked if name in names],
        format_func=plain,
        key=f"{key}_{st.session_state.get(_ROUND, 0)}",
        help=word("compare.retrievers_help"),
    )
    ordered = [name for name in names if name in picked]
    if ordered != list(first_picked) or "retrievers" in st.query_params:
        st.query_params["retrievers"] = "|".join(ordered)
    return ordered
