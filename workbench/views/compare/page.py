"""Compare: what each retriever finds of the same questions, side by side."""

import math
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.workspace import MEGABYTE
from mrc_workbench.retrieval.analysis.evidence import usual_baseline
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import LateSpec
from mrc_workbench.retrieval.comparison.multistage import LATE_NAME
from mrc_workbench.retrieval.comparison.pace import expected_seconds
from mrc_workbench.retrieval.comparison.store import ComparisonJob, StoredComparison
from mrc_workbench.workbench.views.choices import Choices, choices_for, draw_methods
from mrc_workbench.workbench.views.compare import address, running
from mrc_workbench.workbench.views.compare import kept as compare_kept
from mrc_workbench.workbench.views.compare.controls import (
    pick_among,
    pick_figure,
    pick_grade,
    pick_part,
    pick_retrievers,
)
from mrc_workbench.workbench.views.compare.export import draw_export
from mrc_workbench.workbench.views.compare.headline import draw_headline
from mrc_workbench.workbench.views.compare.running import Selected
from mrc_workbench.workbench.views.compare.scores import ComparisonView, draw_notices, untrained_of
from mrc_workbench.workbench.views.names import retriever_name, set_name
from mrc_workbench.workbench.views.navigation import way_to
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.resources.sets import chosen_set, question_set
from mrc_workbench.workbench.views.ui.document import draw_copy_link
from mrc_workbench.workbench.views.ui.state import choose_tab
from mrc_workbench.workbench.views.ui.words import duration, moment, plain, word

_MOST_NAMES = 2  # on a button, which a narrow screen would cut

VIEWS = {
    "overview": "mrc_workbench.workbench.views.compare.overview",
    "where": "mrc_workbench.workbench.views.compare.where",
    "why": "mrc_workbench.workbench.views.compare.why.view",
    "tune": "mrc_workbench.workbench.views.compare.tune.view",
    "takeaway": "mrc_workbench.workbench.views.compare.take_away",
    "kept": "mrc_workbench.workbench.views.compare.kept",
}


def draw() -> None:
    if kept := compare_kept.asked_for():
        _draw_kept(kept)
        return
    data = chosen_set()
    if not data.questions:
        _draw_head(data)
        st.info(word("compare.no_questions"), icon=":material/info:")
        return
    choices = choices_for(data)
    buttons = _draw_head(data)
    answer = st.container()
    controls = _place_of_controls()
    with controls:
        picked = pick_retrievers(choices, data)
        methods = st.container()
    if not picked:
        st.info(word("compare.pick_one"), icon=":material/info:")
        return
    with controls, st.container(horizontal=True, vertical_alignment="bottom"):
        experiment = choices.experiment(data, picked, pick_part(choices, picked), pick_grade(data))
        selected = Selected(data, choices, experiment)
        job = selected.job
        running.start_from_link(selected)
        last = _earlier(selected, picked)
        folder = job.folder if job.done else last.folder if last else None
        told = [*picked, *untrained_of(picked, choices)] if last else picked
        shown = _shown(folder, data, told, list(choices.specs)) if folder else None
        if shown:
            with st.popover(word("compare.methods"), icon=":material/info:"):
                draw_methods(picked, choices)
    address.write_displayed(folder.name if shown and folder else "", data, experiment.split, picked)
    another = last if shown and last and not running.holds(last, experiment) else None
    waits = job.is_unfinished and (shown is None or another is not None)  # for a user to resume it
    with buttons:
        if not another and not waits:
            _draw_start(word("compare.run_again" if shown else "compare.run"), job, experiment, again=shown is not None)
        _draw_export_and_link(shown)
    with methods:
        if not shown and not job.running:  # one at work tells of each what it does
            draw_methods(picked, choices)
        if not job.done and not job.running:
            _draw_costs(data, experiment, choices)
    with answer:
        if shown and last:
            _draw_badge(last)
        if waits:
            running.draw_unfinished(selected, shows_result=shown is not None)
        elif shown is None:
            running.begin(selected)
        elif another:
            _draw_offer(job, experiment, another, picked)
    if shown:
        _draw_comparison(shown, choices, answer, more_offered=waits or another is not None)


def _earlier(selected: Selected, picked: Sequence[str]) -> StoredComparison | None:
    """Return the earlier comparison to show in place of the selected one, None where that one has more to show."""
    if selected.job.done or selected.job.running:
        return None
    last = address.holding(selected.experiment, selected.data)
    if last is None and selected.job.is_unfinished:
        last = address.in_address(selected.data)
    last = last or running.last_finished(selected.data, picked, selected.experiment)
    if last and selected.job.is_unfinished and not running.shows_all_finished(last, selected):
        return None
    return last


def _draw_badge(shown: StoredComparison) -> None:
    """Say whose result is shown where it is not that of the selected comparison."""
    questions = word(f"compare.questions_{shown.part.value}", count=f"{shown.questions:,}")
    st.badge(word("compare.earlier", questions=questions, made=moment(shown.made)), icon=":material/history:")


def _draw_costs(data: StoredSet, experiment: Experiment, choices: Choices) -> None:
    """Say what is kept of every token, and how long reading takes, before anybody waits for it."""
    for spec in experiment.retriever:
        if isinstance(spec, LateSpec) and not _comes_with_the_sample(spec, choices):
            asked = question_set(data.key)
            megabytes = math.ceil(spec.expected_bytes(asked.passages) / MEGABYTE)
            seconds = expected_seconds(spec, asked)
            time = word("compare.cost_time", time=duration(seconds)) if seconds else word("compare.cost_unknown")
            if choices.expected and choices.expected.label(spec.name):
                time = ""  # its chip says it
            told = {
                "name": plain(retriever_name(spec.name)),
                "megabytes": f"{megabytes:,}",
                "passages": f"{data.passages:,}",
            }
            st.caption(f"{word('compare.cost', **told)} {time}".strip())


def _comes_with_the_sample(spec: LateSpec, choices: Choices) -> bool:
    """Whether the token vectors of a retriever ship with the sample, which is the current dataset."""
    return choices.expected is None and spec.name == LATE_NAME


def _draw_head(data: StoredSet) -> DeltaGenerator:
    """Draw what the page is for, the question set and the ways on; returns the place of its buttons."""
    head = st.container(horizontal=True, vertical_alignment="center")
    head.title(word("compare.purpose"), anchor=False)
    counts = word("sidebar.counts", passages=f"{data.passages:,}", questions=f"{data.questions:,}")
    about, ways = st.columns([2, 3], vertical_alignment="center")
    about.caption(f"{plain(set_name(data.name))} · {counts}")
    with ways.container(horizontal=True, horizontal_alignment="right", key="ways_on"):
        for name in ("data", "train", "search"):
            way_to(name, word(f"compare.to_{name}"))
    return head.container(horizontal=True, horizontal_alignment="right", width="content")


def _draw_export_and_link(shown: ComparisonView | None) -> None:
    draw_export(shown)
    draw_copy_link()


def _place_of_controls() -> DeltaGenerator:
    """Return where the controls go: the same place on every tab; on a narrow screen folded away until asked for."""
    st.toggle(word("compare.controls"), key="show_controls")  # of a narrow screen alone: see look.css
    return st.container(key="controls")


def _draw_kept(kept: StoredComparison) -> None:
    data = chosen_set()
    title, buttons = st.columns([1, 1], vertical_alignment="bottom")
    title.title(plain(compare_kept.title_of(kept)))
    st.info(word("kept.shown", made=moment(kept.made), part=word(f"part.{kept.part}")), icon=":material/history:")
    answer = st.container()
    controls = _place_of_controls()
    with controls:
        picked = pick_among(kept.retrievers, kept.retrievers, kept.key)
    with controls, st.container(horizontal=True, vertical_alignment="bottom"):
        shown = _shown(kept.folder, data, picked, kept.retrievers)
    with buttons.container(horizontal=True, horizontal_alignment="right"):
        st.button(word("kept.back"), icon=":material/arrow_back:", on_click=compare_kept.close)
        _draw_export_and_link(shown)
    if shown is None:
        answer.error(word("kept.cannot_open"), icon=":material/error:")
    elif not picked:
        answer.info(word("compare.pick_one"), icon=":material/info:")
    else:
        _draw_comparison(shown, choices_for(data), answer)


def _draw_comparison(
    view: ComparisonView, choices: Choices, answer: DeltaGenerator, *, more_offered: bool = False
) -> None:
    """Draw a comparison; `more_offered` if a button above compares retrievers that it does not have."""
    with answer:
        draw_headline(view, choices, more_offered=more_offered)
        draw_notices(view, choices)
    name, place = choose_tab("view", {view: word(f"compare.view_{view}") for view in VIEWS})
    with place:
        import_module(VIEWS[name]).draw(view)  # read when it is first drawn: who opens the app does not wait for Altair


def _draw_start(label: str, job: ComparisonJob, experiment: Experiment, *, again: bool = False) -> None:
    kind: Literal["primary", "secondary"] = "secondary" if again else "primary"
    if st.button(label, type=kind, icon=":material/play_arrow:", disabled=job.running, key="run"):
        job.start(experiment)
        st.rerun()


def _draw_offer(job: ComparisonJob, experiment: Experiment, shown: StoredComparison, picked: Sequence[str]) -> None:
    """Offer to run the comparison that is selected, in place of the earlier one that is shown."""
    new = [plain(retriever_name(name)) for name in picked if name not in shown.retrievers]
    with st.container(horizontal=True, vertical_alignment="center", key="offer"):
        if not running.asks_same_questions(shown, experiment):
            label = word("compare.run_picked")
        elif len(new) > _MOST_NAMES:
            label = word("compare.with_count", count=len(new))
        elif new:
            label = word("compare.with_new", names=", ".join(new))
        else:
            label = word("compare.run_picked")
        _draw_start(label, job, experiment)


def _shown(folder: Path, data: StoredSet, picked: list[str], names: Sequence[str]) -> ComparisonView | None:
    opened = open_comparison(data.key, folder)
    if opened is None:
        return None
    results = tuple(result for result in opened.comparison.results if result.name in picked)
    named = [result.name for result in results if result.scores] or [result.name for result in results]
    usual = usual_baseline(opened.comparison)
    measure, k, baseline = pick_figure(opened.comparison, named, usual if usual in named else named[0])
    return ComparisonView(data, opened, results, tuple(names), measure, k, baseline)
