"""What a person chooses on the Compare page: retrievers, questions, K, the measure, and the view of the results."""

from collections.abc import Sequence

import streamlit as st

from data.split import Part
from data.store import StoredSet
from views.choices import Choices
from views.compare import adding as compare_adding
from views.state import choose, choose_several, remember
from views.words import plain, word

_MEASURES = ("recall", "hit", "mrr", "ndcg")
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
        first_part = Part.TEST if any(name in choices.trained for name in picked) else Part.ALL
        part = choose(
            st.segmented_control,
            "part",
            word("compare.questions"),
            [part.value for part in Part],
            first_part.value,
            follows=True,
            format_func=lambda value: word(f"part.{value}"),
            help=word("compare.questions_help"),
        )
    return picked, Part(part)


def pick_among(names: Sequence[str], key: str) -> list[str]:
    """Draw the choice among the retrievers of a kept comparison."""
    with st.container(border=True):
        return _pills(names, names, f"picked_{key}")


def pick_figure(measured: Sequence[int]) -> tuple[str, int]:
    """Draw the choice of the measure and of K, one of those measured; returns both."""
    ks = [str(k) for k in measured]
    left, right = st.columns(2, vertical_alignment="bottom")
    usual = "10" if "10" in ks else ks[-1]
    k = choose(left.segmented_control, "k", "K", ks, usual, help=word("compare.k_help"))
    measure = choose(
        right.segmented_control,
        "measure",
        word("compare.measure"),
        _MEASURES,
        "recall",
        format_func=lambda value: word(f"measure.{value}"),
        help=word("compare.measure_help"),
    )
    return measure, int(k)


def pick_view(views: Sequence[str]) -> str:
    """Draw the choice of what to look at; returns it."""
    return choose(
        st.segmented_control,
        "view",
        word("compare.view"),
        views,
        views[0],
        format_func=lambda value: word(f"compare.view_{value}"),
        label_visibility="collapsed",
    )


def pick_also(names: Sequence[str], name: str, part: Part | None = None) -> None:
    """Have the page pick one more retriever than `names` when it is drawn next, and ask the questions of `part`."""
    st.query_params["retrievers"] = "|".join([*(one for one in names if one != name), name])
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    if part:
        remember("part", part.value)


def _pills(names: Sequence[str], usual: Sequence[str], key: str) -> list[str]:
    return choose_several(
        st.pills,
        "retrievers",
        word("compare.retrievers"),
        names,
        usual,
        key=f"{key}_{st.session_state.get(_ROUND, 0)}",
        wrap=True,
        format_func=plain,
        help=word("compare.retrievers_help"),
    )
