"""The Compare page: the scores of retrievers on the same questions, and the export of a comparison as files."""

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
from mrc_workbench.retrieval.analysis.evidence import default_baseline, evidence
from mrc_workbench.retrieval.comparison.experiment import Experiment, write_experiment
from mrc_workbench.retrieval.comparison.first_stage import LateSpec
from mrc_workbench.retrieval.comparison.multistage import LATE_NAME
from mrc_workbench.retrieval.comparison.pace import forecast_retrievers
from mrc_workbench.retrieval.comparison.store import StoredComparison, read_provenance, scores_content
from mrc_workbench.retrieval.report import exports
from mrc_workbench.training.runs import find_run
from mrc_workbench.workbench.views.choices import RetrieverChoices, choices_for, draw_methods
from mrc_workbench.workbench.views.compare import controls, running, saved, scores
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.names import plain_names, set_name
from mrc_workbench.workbench.views.navigation import draw_copy_link, draw_page_link
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.resources.sets import question_set, selected_set
from mrc_workbench.workbench.views.ui.state import choose_tab, remember
from mrc_workbench.workbench.views.ui.words import duration, language, moment, plain, word

File = tuple[Callable[[], str | bytes], str, str]  # function that returns the content, name, MIME type
_FILES = {  # files of the export menu by group
    "report": ("report",),
    "tables": ("table", "markdown", "latex"),
    "data": ("questions", "questions_json", "json", "everything"),
    "again": ("experiment",),
}
_MOST_NAMES = 2  # names on a button
VIEWS = {  # module and function of each tab, imported when first drawn: the app opens without Altair
    "overview": ("overview", "draw"),
    "where": ("where", "draw"),
    "why": ("why", "draw"),
    "tune": ("tune", "draw"),
    "takeaway": ("saved", "draw_export_tab"),
    "kept": ("saved", "draw"),
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
                kwargs: dict[str, Any] = {"icon": ":material/download:", "help": about, "key": f"export_{kind}"}
                kwargs |= {"on_click": "ignore", "type": "tertiary"}
                column.download_button(word(f"export.{kind}"), *files[kind], **kwargs)
        kwargs = {"icon": ":material/move_up:", "on_click": remember, "args": ("view", "takeaway")}
        right.button(word("export.take_away"), type="tertiary", **kwargs)
        right.caption(word("export.again_about"))


def _files(view: ComparisonView, in_language: str) -> dict[str, File]:
    comparison = view.comparison
    opened = view.opened

    def scores_json() -> str:
        return json.dumps(scores_content(comparison), ensure_ascii=False, indent=2)

    def report_html() -> str:
        # Import charts and templates only for a report
        from mrc_workbench.retrieval.report.report import report

        by_baseline = opened.evidence
        if by_baseline.baseline != view.baseline:
            by_baseline = evidence(comparison, view.baseline)
        origin = read_provenance(opened.folder)
        return report(comparison, in_language, origin, by_baseline, recommended=view.recommendation)

    return {
        "report": (report_html, "report.html", "text/html"),
        "table": (lambda: csv_bytes(scores.means(comparison.results)), "scores.csv", "text/csv"),
        "questions": (lambda: csv_bytes(exports.per_question_table(comparison)), "questions.csv", "text/csv"),
        "questions_json": (lambda: exports.per_question_json(comparison), "questions.jsonl", "application/jsonl"),
        "markdown": (lambda: exports.markdown_table(comparison, opened.evidence), "scores.md", "text/markdown"),
        "latex": (lambda: exports.latex_table(comparison, opened.evidence), "scores.tex", "application/x-tex"),
        "json": (scores_json, "scores.json", "application/json"),
        "experiment": (lambda: _experiment(view), "experiment.toml", "application/toml"),
        "everything": (lambda: _zipped(view, in_language), "comparison.zip", "application/zip"),
    }


def _experiment(view: ComparisonView) -> str:
    """Return the experiment as TOML, with remarks on the dataset and trained models that another workspace needs."""
    compared = view.comparison.question_set
    questions = question_set(view.data.key).questions
    counts = {"passages": f"{len(compared.passages):,}", "questions": f"{len(questions):,}"}
    remarks = [word("export.about_data", name=compared.name, fingerprint=view.data.fingerprint, **counts)]
    for spec in view.comparison.experiment.retriever:
        if run := find_run(str(dict(spec).get("model", ""))):
            remarks.append(word("export.about_model", name=spec.name, model=run.id, base=run.plan().options.base))
    return write_experiment(view.comparison.experiment, remarks)


def _zipped(view: ComparisonView, in_language: str) -> bytes:
    content = BytesIO()
    with tempfile.TemporaryDirectory() as holder:
        folder = Path(holder, "comparison")
        exports.save(view.comparison, folder, read_provenance(view.opened.folder), in_language)
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                archive.write(path, path.relative_to(folder.parent))
            archive.writestr("comparison/experiment.toml", _experiment(view))
    return content.getvalue()


def draw() -> None:
    if stored := saved.requested_comparison():
        _draw_stored(stored)
        return
    data = selected_set()
    buttons = _draw_head(data)
    if data.questions:
        _draw_selected(data, buttons)
    else:
        st.info(word("compare.no_questions"), icon=":material/info:")


def _draw_selected(data: StoredSet, buttons: DeltaGenerator) -> None:
    """Draw the controls, and the comparison of the selected retrievers or the last one before it is run."""
    choices = choices_for(data)
    answer = st.container()
    settings = _settings()
    with settings:
        names = controls.pick_retrievers(choices, data)
        methods = st.container()
    if not names:
        st.info(word("compare.select_retriever"), icon=":material/info:")
        return
    with settings, st.container(horizontal=True, vertical_alignment="bottom"):
        experiment = choices.experiment(data, names, controls.pick_part(choices, names), controls.pick_grade(data))
        selected = running.SelectedComparison(data, choices, experiment)
        job = selected.job
        running.start_from_link(selected)
        last = running.earlier_comparison(selected, names)
        folder = job.folder if job.done else last.folder if last else None
        untrained = scores.untrained_names(names, choices) if last else []
        view = _open_view(folder, data, [*names, *untrained], list(choices.specs)) if folder else None
        if view:
            with st.popover(word("compare.methods"), icon=":material/info:"):
                draw_methods(names, choices)
    running.write_displayed(folder.name if view and folder else "", data, experiment.split, names)
    other_comparison = last if view and last and not running.is_superset(last, experiment) else None
    awaits_user = job.is_unfinished and (view is None or other_comparison is not None)
    with buttons:
        if not other_comparison and not awaits_user:
            _draw_start(word("compare.run_again" if view else "compare.run"), selected, again=view is not None)
        draw_export(view)
        draw_copy_link()
    with methods:
        if not view and not job.running:  # the progress of a running job has them
            draw_methods(names, choices)
        if not job.done and not job.running:
            _draw_costs(data, experiment, choices)
    with answer:
        if view and last:
            questions = word(f"compare.questions_{last.part.value}", count=f"{last.questions:,}")
            text = word("compare.earlier", questions=questions, created=moment(last.created_at))
            st.badge(text, icon=":material/history:")
        if awaits_user:
            running.draw_unfinished(selected, shows_result=view is not None)
        elif view is None:
            running.begin(selected)
        elif other_comparison:
            _draw_offer(selected, other_comparison, names)
    if view:
        _draw_comparison(view, choices, answer, more_offered=awaits_user or other_comparison is not None)


def _draw_costs(data: StoredSet, experiment: Experiment, choices: RetrieverChoices) -> None:
    """Draw the expected disk space and time of late interaction retrievers before a user starts them."""
    for spec in experiment.retriever:
        comes_with_sample = choices.expected is None and spec.name == LATE_NAME
        if isinstance(spec, LateSpec) and not comes_with_sample:
            all_questions = question_set(data.key)
            megabytes = math.ceil(spec.expected_bytes(all_questions.passages) / MEGABYTE)
            forecast = forecast_retrievers({spec.name: spec}, all_questions)[spec.name]
            seconds = forecast.seconds if forecast.is_measured else None
            time = word("compare.cost_time", time=duration(seconds)) if seconds else word("compare.cost_unknown")
            has_time_label = choices.expected and choices.expected.label(spec.name)
            counts = {"megabytes": f"{megabytes:,}", "passages": f"{data.passages:,}"}
            cost = word("compare.cost", name=plain_names([spec.name]), **counts)
            st.caption(cost if has_time_label else f"{cost} {time}")


def _draw_head(data: StoredSet) -> DeltaGenerator:
    head = st.container(horizontal=True, vertical_alignment="center")
    head.title(word("compare.purpose"), anchor=False)
    counts = word("sidebar.counts", passages=f"{data.passages:,}", questions=f"{data.questions:,}")
    about, links = st.columns([2, 3], vertical_alignment="center")
    about.caption(f"{plain(set_name(data.name))} · {counts}")
    with links.container(horizontal=True, horizontal_alignment="right", key="ways_on"):
        for name in ("data", "train", "search"):
            draw_page_link(name, word(f"compare.to_{name}"))
    return head.container(horizontal=True, horizontal_alignment="right", width="content")


def _settings() -> DeltaGenerator:
    st.toggle(word("compare.controls"), key="show_controls")  # visible on a narrow screen: see look.css
    return st.container(key="controls")


def _draw_stored(stored: StoredComparison) -> None:
    data = selected_set()
    title, buttons = st.columns([1, 1], vertical_alignment="bottom")
    title.title(plain(saved.title_of(stored)))
    text = word("saved.displayed", created=moment(stored.created_at), part=word(f"part.{stored.part}"))
    st.info(text, icon=":material/history:")
    answer = st.container()
    settings = _settings()
    with settings:
        names = controls.pick_among(stored.retrievers, stored.retrievers, stored.key)
    with settings, st.container(horizontal=True, vertical_alignment="bottom"):
        view = _open_view(stored.folder, data, names, stored.retrievers)
    with buttons.container(horizontal=True, horizontal_alignment="right"):
        st.button(word("saved.back"), icon=":material/arrow_back:", on_click=saved.close)
        draw_export(view)
        draw_copy_link()
    if view is None:
        answer.error(word("saved.cannot_open"), icon=":material/error:")
    elif not names:
        answer.info(word("compare.select_retriever"), icon=":material/info:")
    else:
        _draw_comparison(view, choices_for(data), answer)


def _draw_comparison(
    view: ComparisonView, choices: RetrieverChoices, answer: DeltaGenerator, *, more_offered: bool = False
) -> None:
    """Draw a comparison; `more_offered` if a button above compares other retrievers."""
    with answer:
        scores.draw_headline(view, choices, more_offered=more_offered)
        scores.draw_notices(view, choices)
    name, container = choose_tab("view", {view: word(f"compare.view_{view}") for view in VIEWS})
    with container:
        module, function = VIEWS[name]
        getattr(import_module(f"mrc_workbench.workbench.views.compare.{module}"), function)(view)


def _draw_start(label: str, selected: running.SelectedComparison, *, again: bool = False) -> None:
    kind: Literal["primary", "secondary"] = "secondary" if again else "primary"
    if st.button(label, type=kind, icon=":material/play_arrow:", disabled=selected.job.running, key="run"):
        selected.job.start(selected.experiment)
        st.rerun()


def _draw_offer(selected: running.SelectedComparison, earlier: StoredComparison, names: Sequence[str]) -> None:
    """Offer to run the selected comparison in place of the displayed earlier one."""
    new = [name for name in names if name not in earlier.retrievers]
    if not new or not running.asks_same_questions(earlier, selected.experiment):
        label = word("compare.run_selected")
    elif len(new) > _MOST_NAMES:
        label = word("compare.with_count", count=len(new))
    else:
        label = word("compare.with_new", names=plain_names(new))
    with st.container(horizontal=True, vertical_alignment="center", key="offer"):
        _draw_start(label, selected)


def _open_view(folder: Path, data: StoredSet, selected: list[str], names: Sequence[str]) -> ComparisonView | None:
    opened = open_comparison(data.key, folder)
    if opened is None:
        return None
    results = tuple(result for result in opened.comparison.results if result.name in selected)
    scored_names = [result.name for result in results if result.scores] or [result.name for result in results]
    baseline = default_baseline(opened.comparison)
    if baseline not in scored_names:
        baseline = scored_names[0]
    measure, k, baseline = controls.pick_metric(opened.comparison, scored_names, baseline)
    return ComparisonView(data, opened, results, tuple(names), measure, k, baseline)
