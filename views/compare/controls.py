"""What a person chooses on the Compare page: retrievers, questions, K, the measure, and the view of the results."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from data.split import Part
from data.store import StoredSet
from retrieval.analysis.figures import telling_figure, usual_figure
from retrieval.comparison.compare import Comparison
from retrieval.evaluation.measures import Measure
from views.choices import Choices, without_plainest
from views.compare import adding as compare_adding
from views.ui.state import choose, choose_several, choose_tab, remember, remembered
from views.ui.words import plain, word

_MEASURES = ("recall", "hit", "mrr", "ndcg")
_NARROW = 110  # pixels
_WITHOUT_FIGURE = ("tune", "kept")  # views that measure by something else
_ROUND = "picked_round"  # how often something else than a click changed what is picked


@dataclass(frozen=True)
class Figure:
    """The measure looked at, its K, and the retriever that others are told against."""

    measure: str
    k: int
    baseline: str


def pick_retrievers(choices: Choices, data: StoredSet) -> list[str]:
    """Draw the choice of retrievers; returns their names."""
    left, right = st.columns([6, 1], vertical_alignment="bottom")
    with left:
        picked = _pills(list(choices.specs), choices.first_picked, f"picked_{data.key}_{len(choices.specs)}")
        if choices.large:
            st.caption(word("compare.large_set", passages=f"{data.passages:,}"))
    with right, st.popover(word("compare.add"), icon=":material/add:", width="stretch"):
        added = compare_adding.draw(choices, data)
    if added:
        pick_also(picked, added)
        st.rerun()
    return picked


def pick_part(choices: Choices, picked: Sequence[str]) -> Part:
    """Draw the choice of the questions asked; returns it."""
    first_part = Part.TEST if any(name in choices.trained for name in picked) else Part.ALL
    part = choose(
        st.selectbox,
        "part",
        word("compare.questions"),
        [part.value for part in Part],
        first_part.value,
        follows=True,
        format_func=lambda value: word(f"part.{value}"),
        help=word("compare.questions_help"),
        width=_NARROW,
    )
    return Part(part)


def pick_among(names: Sequence[str], key: str) -> list[str]:
    """Draw the choice among the retrievers of a kept comparison."""
    return _pills(names, names, f"picked_{key}")


def pick_figure(comparison: Comparison, names: Sequence[str], baseline: str) -> Figure:
    """Draw the choice of the measure, of a K that was measured, and of the baseline among the names; returns them.

    Until somebody chooses, K is the usual one, or where all find everything in that many one that tells them apart.
    """
    measured = comparison.experiment.ks
    ks = [str(k) for k in measured]
    measure = remembered("measure", "recall", _MEASURES)
    told = without_plainest([name for name in names if name in comparison.scores])
    scores = {name: comparison.scores[name] for name in told}
    usual = str(telling_figure(scores, measured, usual_figure(measure, measured)).cut)
    k, chosen = remembered("k", usual, ks), remembered("baseline", baseline, names)
    figure = Figure(measure, int(k), chosen)
    if remembered("view", "", _WITHOUT_FIGURE):
        return figure
    label = word("compare.figure", figure=Measure(measure, int(k)).long, baseline=plain(chosen))
    # no popover: while it is closed, a browser does not send what lies in it, as if all of it had been taken away
    # its key keeps it open while its words change with what is chosen in it
    with st.container() if folded() else st.expander(label, icon=":material/straighten:", key="figure"):
        _draw_figure(ks, usual, names, baseline)
    return figure


def folded() -> bool:
    """Whether a view is open that has controls of its own, beside which these are folded away."""
    return bool(remembered("view", "", ("where", "why", *_WITHOUT_FIGURE)))


def _draw_figure(ks: Sequence[str], usual: str, names: Sequence[str], baseline: str) -> None:
    choose(
        st.segmented_control,
        "measure",
        word("compare.measure"),
        _MEASURES,
        "recall",
        format_func=lambda value: word(f"measure.{value}"),
        help=word("compare.measure_help"),
    )
    choose(st.segmented_control, "k", "K", ks, usual, follows=True, help=word("compare.k_help"))
    choose(
        st.selectbox,
        "baseline",
        word("compare.baseline"),
        names,
        baseline,
        follows=True,
        help=word("compare.baseline_help"),
    )


def pick_view(views: Sequence[str]) -> tuple[str, Any]:
    """Draw the tabs of what there is to look at; returns the one that is open, and where it is drawn."""
    return choose_tab("view", {view: word(f"compare.view_{view}") for view in views})


def pick_also(names: Sequence[str], name: str, part: Part | None = None) -> None:
    """Have the page pick one more retriever than `names` when it is drawn next, and ask the questions of `part`."""
    st.query_params["retrievers"] = "|".join([*(one for one in names if one != name), name])
    st.query_params["run"] = "now"  # it was asked for: what was compared last is not shown in its place
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
