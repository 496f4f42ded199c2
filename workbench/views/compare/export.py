"""What a comparison is exported as: a report, tables, data, and what repeats it elsewhere."""

import json
import tempfile
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import streamlit as st

from mrc_workbench.data.formats.text_tables import csv_bytes
from mrc_workbench.retrieval.analysis.evidence import evidence
from mrc_workbench.retrieval.comparison.experiment import write_experiment
from mrc_workbench.retrieval.comparison.store import origin_of, scores_content
from mrc_workbench.retrieval.report.exports import (
    latex_table,
    markdown_table,
    per_question_json,
    per_question_table,
    save,
)
from mrc_workbench.training.runs import find_run
from mrc_workbench.workbench.views.compare.scores import ComparisonView, means
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui.state import remember
from mrc_workbench.workbench.views.ui.words import language, word

File = tuple[str, str, Callable[[], str | bytes]]  # name, MIME type, and what makes the content


def draw_export(view: ComparisonView | None) -> None:
    with st.popover(word("compare.export"), icon=":material/download:", disabled=view is None):
        if view is None:
            return
        files = _files(view, language())
        left, right = st.columns(2)
        with left:
            _draw_group("report", ("report",), files)
            _draw_group("tables", ("table", "markdown", "latex"), files)
        with right:
            _draw_group("data", ("questions", "questions_json", "json", "everything"), files)
            _draw_group("again", ("experiment",), files)
            _draw_again()


def _draw_group(name: str, kinds: tuple[str, ...], files: dict[str, File]) -> None:
    st.caption(f"**{word(f'export.group_{name}')}**")
    for kind in kinds:
        file_name, mime, content = files[kind]
        st.download_button(
            word(f"export.{kind}"),
            content,
            file_name,
            mime,
            on_click="ignore",
            type="tertiary",
            icon=":material/download:",
            help=word("export.everything_help") if kind == "everything" else None,
            key=f"export_{kind}",
        )


def _draw_again() -> None:
    icon = ":material/move_up:"
    st.button(word("export.take_away"), icon=icon, type="tertiary", on_click=remember, args=("view", "takeaway"))
    st.caption(word("export.again_about"))


def _files(view: ComparisonView, in_language: str) -> dict[str, File]:
    """File name, kind and maker of each export, by its name."""
    found, opened = view.comparison, view.opened

    def made_report() -> str:
        # charts and templates: only who takes a report away waits for them
        from mrc_workbench.retrieval.report.report import report

        by_baseline = opened.evidence if opened.evidence.baseline == view.baseline else evidence(found, view.baseline)
        return report(found, in_language, origin_of(opened.folder), by_baseline, recommended=view.recommendation)

    def made_json() -> str:
        return json.dumps(scores_content(found), ensure_ascii=False, indent=2)

    return {
        "report": ("report.html", "text/html", made_report),
        "table": ("scores.csv", "text/csv", lambda: csv_bytes(means(found.results))),
        "questions": ("questions.csv", "text/csv", lambda: csv_bytes(per_question_table(found))),
        "questions_json": ("questions.jsonl", "application/jsonl", lambda: per_question_json(found)),
        "markdown": ("scores.md", "text/markdown", lambda: markdown_table(found, opened.evidence)),
        "latex": ("scores.tex", "application/x-tex", lambda: latex_table(found, opened.evidence)),
        "json": ("scores.json", "application/json", made_json),
        "experiment": ("experiment.toml", "application/toml", lambda: _experiment(view)),
        "everything": ("comparison.zip", "application/zip", lambda: _zipped(view, in_language)),
    }


def _experiment(view: ComparisonView) -> str:
    """The experiment, with what somebody elsewhere must know: `data` and trained models are names of this workspace."""
    of = view.comparison.question_set
    counts = {"passages": f"{len(of.passages):,}", "questions": f"{len(question_set(view.data.key).questions):,}"}
    remarks = [word("export.about_data", name=of.name, fingerprint=view.data.fingerprint, **counts)]
    for spec in view.comparison.experiment.retriever:
        if run := find_run(str(dict(spec).get("model", ""))):
            remarks.append(word("export.about_model", name=spec.name, model=run.id, base=run.plan().options.base))
    return write_experiment(view.comparison.experiment, remarks)


def _zipped(view: ComparisonView, in_language: str) -> bytes:
    """All that `mrc report` writes: TREC files and the BEIR folder too."""
    content = BytesIO()
    with tempfile.TemporaryDirectory() as holder:
        folder = Path(holder, "comparison")
        save(view.comparison, folder, origin_of(view.opened.folder), in_language)
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                archive.write(path, path.relative_to(folder.parent))
            archive.writestr("comparison/experiment.toml", _experiment(view))
    return content.getvalue()
