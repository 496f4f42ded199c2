"""What a user selects on the Compare page, and what the address holds: a comparison, retrievers, figures, filters.

The key of the displayed comparison is in the address as `comparison`, so that a link opens the same results after other
comparisons were made. The page of a dataset writes it there and goes on as before; a link to a comparison that this
page would not display opens the stored comparison.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import streamlit as st

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.records import RELEVANT_GRADE
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet
from mrc_workbench.retrieval.analysis.evidence import telling_figure, usual_figure
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import ComparisonJob, StoredComparison, kept_comparison
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.workbench.views.choices import Choices, choices_for, without_plainest
from mrc_workbench.workbench.views.compare.adding import draw_adding
from mrc_workbench.workbench.views.names import MEASURES, leading_name, retriever_name
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui.state import (
    assume,
    choose,
    choose_named,
    choose_several,
    is_assumed,
    keep,
    remember,
    remembered,
)
from mrc_workbench.workbench.views.ui.words import plain, word

KEY = "comparison"
CHOICES = ("retrievers", "part")  # of the address, beside the key
_WRITTEN = "comparison_in_address"  # of the session: key of the dataset and of the comparison that its page wrote


def write_displayed(key: str, data: StoredSet, part: Part, retrievers: Sequence[str]) -> None:
    """Put the comparison displayed by the page of the dataset into the address in one step; an empty key means none."""
    if not key:
        clear()
        return
    st.session_state[_WRITTEN] = (data.key, key)
    if "part" not in st.query_params or is_assumed("part"):
        assume("part", part.value)
    address = {KEY: key, "part": part.value, "retrievers": "|".join(retrievers)}
    if any(st.query_params.get(name) != value for name, value in address.items()):
        st.query_params.update(address)


def clear(*, choices: bool = False) -> None:
    st.session_state.pop(_WRITTEN, None)
    for name in (KEY, *(CHOICES if choices else ())):
        if name in st.query_params:
            del st.query_params[name]


def forget_written() -> None:
    """Have the key in the address open the stored comparison, also if the page of the dataset wrote it."""
    st.session_state.pop(_WRITTEN, None)


def leave_other_dataset(data: StoredSet) -> None:
    """Clear the address if the page of another dataset wrote it: the user has switched to `data` since."""
    of_data, key = st.session_state.get(_WRITTEN, ("", ""))
    if of_data and of_data != data.key and st.query_params.get(KEY) == key:
        clear(choices=True)


def is_of_page(key: str, data: StoredSet) -> bool:
    """Whether the page of the dataset displays this comparison: it wrote the key, or the address selects the same."""
    if st.session_state.get(_WRITTEN) == (data.key, key):
        return True
    experiment = _selected(data)
    if experiment is None:
        return False
    job = ComparisonJob.of(experiment, data.fingerprint)
    if job.is_unfinished:  # the page offers to resume it, and displays the comparison of the key meanwhile
        return True
    return job.id == key or not (job.done or job.running or holding(experiment, data) is None)


def in_address(data: StoredSet) -> StoredComparison | None:
    stored = kept_comparison(st.query_params.get(KEY, ""))
    return stored if stored and stored.data_fingerprint == data.fingerprint else None


def asks_same_questions(stored: StoredComparison, experiment: Experiment) -> bool:
    return (stored.part, stored.relevant_from) == (experiment.split, experiment.relevant_from)


def holds(stored: StoredComparison, experiment: Experiment) -> bool:
    """Whether a stored comparison asked the same of more retrievers than the experiment."""
    return asks_same_questions(stored, experiment) and set(experiment.specs) < set(stored.retrievers)


def holding(experiment: Experiment, data: StoredSet) -> StoredComparison | None:
    """Return the comparison in the address if it holds the experiment."""
    stored = in_address(data)
    return stored if stored and holds(stored, experiment) else None


def _selected(data: StoredSet) -> Experiment | None:
    names = [name for name in st.query_params.get("retrievers", "").split("|") if name]
    part, grade = st.query_params.get("part", ""), st.query_params.get("grade", str(RELEVANT_GRADE))
    if not names or part not in [known.value for known in Part] or not grade.isdecimal():
        return None
    choices = choices_for(data)
    if not choices.specs.keys() >= {*names}:
        return None
    selected = [name for name in choices.specs if name in names]
    return choices.experiment(data, selected, Part(part), int(grade))


def choose_in_address(
    name: str, options: Mapping[str, str], chosen: str, label: str, *, also: Sequence[str] = (), disabled: bool = False
) -> None:
    """Draw a choice that lies in the address; a change takes the parameters `also` out of it."""
    look = tie(name, chosen, *also)
    st.selectbox(label, [*options], format_func=lambda one: options.get(one, one), disabled=disabled, **look)


def tie(name: str, value: str, *also: str) -> dict[str, Any]:
    """Return what ties a widget to a parameter of the address, at `value`; an entry takes `also` out of it."""
    key = f"why_{name}"
    st.session_state[key] = value

    def enter() -> None:
        change({**dict.fromkeys(also, ""), name: str(st.session_state.get(key) or "").strip()})

    return {"key": key, "on_change": enter}


def change(parameters: Mapping[str, str]) -> None:
    kept = {name: value for name, value in st.query_params.to_dict().items() if name not in parameters}
    st.query_params.from_dict(kept | {name: value for name, value in parameters.items() if value})


NO_FILTERS = dict.fromkeys(("quadrant", "block", "of", "fate", "slice", "within", "words"), "")  # of the address


def show_why(filters: Mapping[str, str]) -> None:
    keep("view", "why")
    change({**NO_FILTERS, "question": "", **filters, "view": "why"})


_ROUND = "picked_round"  # how often something else than a click changed what is picked


def pick_retrievers(choices: Choices, data: StoredSet) -> list[str]:
    left, right = st.columns([6, 1], vertical_alignment="bottom")
    with left:
        times = {name: choices.expected.label(name) if choices.expected else "" for name in choices.specs}
        key = f"{data.key}_{len(choices.specs)}"
        # forecasts change with every measurement: what was selected at first stays selected in this session
        first = st.session_state.setdefault(f"first_picked_{key}", choices.first_picked)
        # a chip is known to the browser by its label: other labels make another widget
        picked = pick_among([*choices.specs], first, f"{key}_{key_of(times)[:8]}", times)
    with right, st.popover(word("compare.add"), icon=":material/add:", width="stretch"):
        added = draw_adding(choices, data)
    if choices.large:
        st.caption(word("compare.large_set", passages=f"{data.passages:,}"))
    elif any(times.values()):
        st.caption(word("compare.slow_unselected"))
    if added:
        pick_also(picked, added)
        st.rerun()
    return picked


def pick_part(choices: Choices, picked: Sequence[str]) -> Part:
    usual = Part.TEST if any(name in choices.trained for name in picked) else Part.ALL
    parts = {part.value: word(f"part.{part}") for part in Part}
    look: dict[str, Any] = {"help": word("compare.questions_help"), "width": 110}
    return Part(choose_named("part", word("compare.questions"), parts, usual.value, **look))


def pick_grade(data: StoredSet) -> int:
    gains = question_set(data.key).gains
    grades = [] if gains is None else np.unique(gains.data).astype(int).tolist()
    options = [str(grade) for grade in dict.fromkeys((RELEVANT_GRADE, *grades))]
    if len(options) == 1:
        return RELEVANT_GRADE
    label, look = word("compare.relevant_from"), {"help": word("compare.relevant_from_help"), "width": 110}
    return int(choose(st.selectbox, "grade", label, options, options[0], follows=True, **look))


def pick_figure(comparison: Comparison, names: Sequence[str], baseline: str) -> tuple[str, int, str]:
    """Draw the choice of metric, K and baseline; returns them. The default K is one that tells the retrievers apart."""
    measured = comparison.experiment.ks
    ks = [str(k) for k in measured]
    known = {Measure.parse(one).name for of in comparison.scores.values() for one in of.per_question}
    measures = [one for one in MEASURES if one in known] or [*MEASURES[:-1]]
    measure = leading_name(measures)
    told = without_plainest([name for name in names if name in comparison.scores])
    scores = {name: comparison.scores[name] for name in told}
    usual = str(telling_figure(scores, measured, usual_figure(measure, measured)).cut)
    k, chosen = remembered("k", usual, ks), remembered("baseline", baseline, names)
    look: dict[str, Any] = {"format_func": lambda name: word(f"measure.{name}"), "help": word("compare.measure_help")}
    choose(st.selectbox, "measure", word("compare.measure"), measures, measures[0], width=180, **look)
    choose(st.selectbox, "k", "K", ks, usual, follows=True, help=word("compare.k_help"), width=90)
    look = {"format_func": retriever_name, "help": word("compare.baseline_help"), "follows": True, "width": 220}
    choose(st.selectbox, "baseline", word("compare.baseline"), names, baseline, **look)
    return measure, int(k), chosen


def pick_also(names: Sequence[str], name: str, part: Part | None = None) -> None:
    """Select one more retriever than `names`, and the questions of `part`, when the page is drawn next."""
    st.query_params["run"] = "now"  # it was asked for: what was compared last is not shown in its place
    pick_only([*(one for one in names if one != name), name], part)


def pick_only(names: Sequence[str], part: Part | None) -> None:
    st.query_params["retrievers"] = "|".join(names)
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    if part:
        remember("part", part.value)


def pick_among(
    names: Sequence[str], usual: Sequence[str], key: str, times: Mapping[str, str] | None = None
) -> list[str]:
    """Draw the choice of retrievers; `times` are what the chips of some say about the time they take."""

    def chip(name: str) -> str:
        return " · ".join(filter(None, (plain(retriever_name(name)), (times or {}).get(name))))

    look: dict[str, Any] = {"wrap": True, "format_func": chip, "help": word("compare.retrievers_help")}
    key = f"picked_{key}_{st.session_state.get(_ROUND, 0)}"
    return choose_several(st.pills, "retrievers", word("compare.retrievers"), names, usual, key=key, **look)
