"""Compare: what each retriever finds of the same questions, side by side; and the files it is exported as."""

import json
import math
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.formats.text_tables import csv_bytes
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.workspace import MEGABYTE
from mrc_workbench.retrieval.analysis.evidence import evidence, usual_baseline
from mrc_workbench.retrieval.comparison.experiment import Experiment, write_experiment
from mrc_workbench.retrieval.comparison.first_stage import LateSpec
from mrc_workbench.retrieval.comparison.multistage import LATE_NAME
from mrc_workbench.retrieval.comparison.pace import forecasts
from mrc_workbench.retrieval.comparison.store import StoredComparison, origin_of, scores_content
from mrc_workbench.retrieval.report import exports
from mrc_workbench.training.runs import find_run
from mrc_workbench.workbench.views.choices import Choices, choices_for, draw_methods
from mrc_workbench.workbench.views.compare import controls, kept, running, scores
from mrc_workbench.workbench.views.compare.running import Selected
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.names import plain_names, set_name
from mrc_workbench.workbench.views.navigation import draw_copy_link, way_to
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.resources.sets import chosen_set, question_set
from mrc_workbench.workbench.views.ui.state import choose_tab, remember
from mrc_workbench.workbench.views.ui.words import duration, language, moment, plain, word

File = tuple[Callable[[], str | bytes], str, str]  # what makes the content, name, MIME type


_FILES = {  # of a menu, by group
    "report": ("report",),
    "tables": ("table", "markdown", "latex"),
    "data": ("questions", "questions_json", "json", "everything"),
    "again": ("experiment",),
}


def draw_export(view: ComparisonView | None) -> None:
    with st.popover(word("compare.export"), icon=":material/download:", disabled=view is None):
        if view is None:
            return
        files = _files(view, language())
        left, right = st.columns(2)
        for group, kinds in _FILES.items():
            column = left if group in ("report", "tables") else right
            column.caption(f"**{word(f'export.group_{group}')}**")
            for kind in kinds:
                about = word("export.everything_help") if kind == "everything" else None
                look: dict[str, Any] = {"icon": ":material/download:", "help": about, "key": f"export_{kind}"}
                column.download_button(word(f"export.{kind}"), *files[kind], on_click="ignore", type="tertiary", **look)
        look = {"icon": ":material/move_up:", "on_click": remember, "args": ("view", "takeaway")}
        right.button(word("export.take_away"), type="tertiary", **look)
        right.caption(word("export.again_about"))


def _files(view: ComparisonView, in_language: str) -> dict[str, File]:
    found, opened = view.comparison, view.opened

    def scores_json() -> str:
        return json.dumps(scores_content(found), ensure_ascii=False, indent=2)

    def report_html() -> str:
        # charts and templates: only who takes a report away waits for them
        from mrc_workbench.retrieval.report.report import report

        by_baseline = opened.evidence if opened.evidence.baseline == view.baseline else evidence(found, view.baseline)
        return report(found, in_language, origin_of(opened.folder), by_baseline, recommended=view.recommendation)

    return {
        "report": (report_html, "report.html", "text/html"),
        "table": (lambda: csv_bytes(scores.means(found.results)), "scores.csv", "text/csv"),
        "questions": (lambda: csv_bytes(exports.per_question_table(found)), "questions.csv", "text/csv"),
        "questions_json": (lambda: exports.per_question_json(found), "questions.jsonl", "application/jsonl"),
        "markdown": (lambda: exports.markdown_table(found, opened.evidence), "scores.md", "text/markdown"),
        "latex": (lambda: exports.latex_table(found, opened.evidence), "scores.tex", "application/x-tex"),
        "json": (scores_json, "scores.json", "application/json"),
        "experiment": (lambda: _experiment(view), "experiment.toml", "application/toml"),
        "everything": (lambda: _zipped(view, in_language), "comparison.zip", "application/zip"),
    }


def _experiment(view: ComparisonView) -> str:
    """Return the experiment, with what it takes elsewhere: `data` and trained models are names of this workspace."""
    of = view.comparison.question_set
    counts = {"passages": f"{len(of.passages):,}", "questions": f"{len(question_set(view.data.key).questions):,}"}
    remarks = [word("export.about_data", name=of.name, fingerprint=view.data.fingerprint, **counts)]
    for spec in view.comparison.experiment.retriever:
        if run := find_run(str(dict(spec).get("model", ""))):
            remarks.append(word("export.about_model", name=spec.name, model=run.id, base=run.plan().options.base))
    return write_experiment(view.comparison.experiment, remarks)


def _zipped(view: ComparisonView, in_language: str) -> bytes:
    content = BytesIO()
    with tempfile.TemporaryDirectory() as holder:
        folder = Path(holder, "comparison")
        exports.save(view.comparison, folder, origin_of(view.opened.folder), in_language)
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                archive.write(path, path.relative_to(folder.parent))
            archive.writestr("comparison/experiment.toml", _experiment(view))
    return content.getvalue()


_MOST_NAMES = 2  # on a button, which a narrow screen would cut

VIEWS = {  # module and function that draw each; read when it is first drawn: opening the app does not wait for Altair
    "overview": ("overview", "draw"),
    "where": ("where", "draw"),
    "why": ("why", "draw"),
    "tune": ("tune", "draw"),
    "takeaway": ("kept", "draw_take_away"),
    "kept": ("kept", "draw"),
}


def draw() -> None:
    if stored := kept.asked_for():
        _draw_kept(stored)
        return
    data = chosen_set()
    buttons = _draw_head(data)
    if not data.questions:
        st.info(word("compare.no_questions"), icon=":material/info:")
        return
    choices = choices_for(data)
    answer, settings = st.container(), _settings()
    with settings:
        picked = controls.pick_retrievers(choices, data)
        methods = st.container()
    if not picked:
        st.info(word("compare.pick_one"), icon=":material/info:")
        return
    with settings, st.container(horizontal=True, vertical_alignment="bottom"):
        experiment = choices.experiment(data, picked, controls.pick_part(choices, picked), controls.pick_grade(data))
        selected = Selected(data, choices, experiment)
        job = selected.job
        running.start_from_link(selected)
        last = _earlier(selected, picked)
        folder = job.folder if job.done else last.folder if last else None
        before = scores.untrained_of(picked, choices) if last else []
        shown = _shown(folder, data, [*picked, *before], list(choices.specs)) if folder else None
        if shown:
            with st.popover(word("compare.methods"), icon=":material/info:"):
                draw_methods(picked, choices)
    running.write_displayed(folder.name if shown and folder else "", data, experiment.split, picked)
    another = last if shown and last and not running.holds(last, experiment) else None
    waits = job.is_unfinished and (shown is None or another is not None)  # for a user to resume it
    with buttons:
        if not another and not waits:
            _draw_start(word("compare.run_again" if shown else "compare.run"), selected, again=shown is not None)
        draw_export(shown)
        draw_copy_link()
    with methods:
        if not shown and not job.running:  # one at work tells of each what it does
            draw_methods(picked, choices)
        if not job.done and not job.running:
            _draw_costs(data, experiment, choices)
    with answer:
        if shown and last:
            questions = word(f"compare.questions_{last.part.value}", count=f"{last.questions:,}")
            st.badge(word("compare.earlier", questions=questions, made=moment(last.made)), icon=":material/history:")
        if waits:
            running.draw_unfinished(selected, shows_result=shown is not None)
        elif shown is None:
            running.begin(selected)
        elif another:
            _draw_offer(selected, another, picked)
    if shown:
        _draw_comparison(shown, choices, answer, more_offered=waits or another is not None)


def _earlier(selected: Selected, picked: Sequence[str]) -> StoredComparison | None:
    """Return the earlier comparison to show in place of the selected one, None if that one has more to show."""
    if selected.job.done or selected.job.running:
        return None
    last = running.holding(selected.experiment, selected.data)
    if last is None and selected.job.is_unfinished:
        last = running.in_address(selected.data)
    last = last or running.last_finished(selected.data, picked, selected.experiment)
    if last and selected.job.is_unfinished and not running.shows_all_finished(last, selected):
        return None
    return last


def _draw_costs(data: StoredSet, experiment: Experiment, choices: Choices) -> None:
    """Say how much is stored of every token, and how long reading takes, before a user waits for it."""
    for spec in experiment.retriever:
        comes_with_sample = choices.expected is None and spec.name == LATE_NAME
        if isinstance(spec, LateSpec) and not comes_with_sample:
            asked = question_set(data.key)
            megabytes = math.ceil(spec.expected_bytes(asked.passages) / MEGABYTE)
            forecast = forecasts({spec.name: spec}, asked)[spec.name]
            seconds = forecast.seconds if forecast.is_measured else None
            time = word("compare.cost_time", time=duration(seconds)) if seconds else word("compare.cost_unknown")
            if choices.expected and choices.expected.label(spec.name):
                time = ""  # its chip says it
            counts = {"megabytes": f"{megabytes:,}", "passages": f"{data.passages:,}"}
            st.caption(f"{word('compare.cost', name=plain_names([spec.name]), **counts)} {time}".strip())


def _draw_head(data: StoredSet) -> DeltaGenerator:
    head = st.container(horizontal=True, vertical_alignment="center")
    head.title(word("compare.purpose"), anchor=False)
    counts = word("sidebar.counts", passages=f"{data.passages:,}", questions=f"{data.questions:,}")
    about, ways = st.columns([2, 3], vertical_alignment="center")
    about.caption(f"{plain(set_name(data.name))} · {counts}")
    with ways.container(horizontal=True, horizontal_alignment="right", key="ways_on"):
        for name in ("data", "train", "search"):
            way_to(name, word(f"compare.to_{name}"))
    return head.container(horizontal=True, horizontal_alignment="right", width="content")


def _settings() -> DeltaGenerator:
    st.toggle(word("compare.controls"), key="show_controls")  # of a narrow screen alone: see look.css
    return st.container(key="controls")


def _draw_kept(stored: StoredComparison) -> None:
    data = chosen_set()
    title, buttons = st.columns([1, 1], vertical_alignment="bottom")
    title.title(plain(kept.title_of(stored)))
    st.info(word("kept.shown", made=moment(stored.made), part=word(f"part.{stored.part}")), icon=":material/history:")
    answer, settings = st.container(), _settings()
    with settings:
        picked = controls.pick_among(stored.retrievers, stored.retrievers, stored.key)
    with settings, st.container(horizontal=True, vertical_alignment="bottom"):
        shown = _shown(stored.folder, data, picked, stored.retrievers)
    with buttons.container(horizontal=True, horizontal_alignment="right"):
        st.button(word("kept.back"), icon=":material/arrow_back:", on_click=kept.close)
        draw_export(shown)
        draw_copy_link()
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
        scores.draw_headline(view, choices, more_offered=more_offered)
        scores.draw_notices(view, choices)
    name, place = choose_tab("view", {view: word(f"compare.view_{view}") for view in VIEWS})
    with place:
        module, function = VIEWS[name]
        getattr(import_module(f"mrc_workbench.workbench.views.compare.{module}"), function)(view)


def _draw_start(label: str, selected: Selected, *, again: bool = False) -> None:
    kind: Literal["primary", "secondary"] = "secondary" if again else "primary"
    if st.button(label, type=kind, icon=":material/play_arrow:", disabled=selected.job.running, key="run"):
        selected.job.start(selected.experiment)
        st.rerun()


def _draw_offer(selected: Selected, shown: StoredComparison, picked: Sequence[str]) -> None:
    """Offer to run the selected comparison in place of the earlier one that is shown."""
    new = [name for name in picked if name not in shown.retrievers]
    label = word("compare.run_picked")
    if running.asks_same_questions(shown, selected.experiment) and new:
        many = len(new) > _MOST_NAMES
        label = word("compare.with_count", count=len(new)) if many else word("compare.with_new", names=plain_names(new))
    with st.container(horizontal=True, vertical_alignment="center", key="offer"):
        _draw_start(label, selected)


def _shown(folder: Path, data: StoredSet, picked: list[str], names: Sequence[str]) -> ComparisonView | None:
    opened = open_comparison(data.key, folder)
    if opened is None:
        return None
    results = tuple(result for result in opened.comparison.results if result.name in picked)
    named = [result.name for result in results if result.scores] or [result.name for result in results]
    usual = usual_baseline(opened.comparison)
    measure, k, baseline = controls.pick_figure(opened.comparison, named, usual if usual in named else named[0])
    return ComparisonView(data, opened, results, tuple(names), measure, k, baseline)
