"""Comparisons kept in the workspace: opened again, renamed, set beside the one shown, deleted and taken away."""

import json
import tempfile
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import NoReturn

import pandas as pd
import streamlit as st

from data.formats.delimited import csv_bytes
from retrieval.analysis.changes import comparable
from retrieval.analysis.evidence import evidence
from retrieval.comparison.experiment import write_experiment
from retrieval.comparison.store import (
    StoredComparison,
    damaged_comparisons,
    delete,
    kept_comparison,
    kept_comparisons,
    origin_of,
    rename,
    scores_content,
)
from retrieval.report.exports import latex_table, markdown_table, per_question_json, per_question_table, save
from training.runs.runs import find_run
from views.compare.scores import ComparisonView, in_points, means
from views.leading import best_by, leading_measure
from views.names import retriever_name, set_name
from views.resources.retrieval import open_comparison
from views.resources.sets import chosen_set, question_set, stored_sets, use_set
from views.ui import tables
from views.ui.problems import draw_damaged
from views.ui.state import remember
from views.ui.words import language, moment, plain, word

_OPENED = "opened_comparison"  # of the session
_OF_ANOTHER = ("retrievers", "part", "view", "question", "slice")  # choices that one just opened begins without


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
        st.info(word("kept.choose"), icon=":material/touch_app:")
        return
    chosen = kept[rows[0]]
    _draw_actions(chosen)
    if current := next((one for one in kept if one.key == here != chosen.key), None):
        _draw_changes(view, chosen, current)


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
    st.query_params["comparison"] = key


def close() -> None:
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
    """Say which retriever is best by the leading metric; by nDCG@10, which is then named, if none has the metric."""
    leading = leading_measure(kept.ks)
    found = best_by(leading, kept.figures)
    if found is None:
        return "–"
    name, measure, mean = found
    told = f"{retriever_name(name)} {100 * mean:.1f}"
    return told if measure == leading_measure() else f"{told} ({measure.long})"


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
            st.button(word("kept.open"), type="primary", icon=icon, key="kept_open", on_click=_open, args=(chosen.key,))
            with st.popover(word("kept.delete"), icon=":material/delete:"):
                st.write(word("kept.delete_sure"))
                if st.button(word("kept.delete"), key="kept_delete", type="primary"):
                    delete(chosen.key)
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


def draw_export(view: ComparisonView | None) -> None:
    with st.popover(word("compare.export"), icon=":material/download:", disabled=view is None):
        if view is None:
            return
        for name, (file_name, mime, content) in _files(view, language()).items():
            label, icon = word(f"export.{name}"), ":material/description:" if name == "report" else None
            st.download_button(label, content, file_name, mime, on_click="ignore", width="stretch", icon=icon)
        icon = ":material/move_up:"
        st.button(word("export.take_away"), icon=icon, width="stretch", on_click=remember, args=("view", "takeaway"))
        st.caption(word("compare.experiment_help"))


def _files(view: ComparisonView, in_language: str) -> dict[str, tuple[str, str, Callable[[], str | bytes]]]:
    """File name, kind and maker of each export, by its name."""
    found, opened = view.comparison, view.opened

    def made_report() -> str:
        from retrieval.report.report import report  # charts and templates: only who takes a report away waits for them

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
    """All that `python -m retrieval compare` writes: TREC files and the BEIR folder too."""
    content = BytesIO()
    with tempfile.TemporaryDirectory() as holder:
        folder = Path(holder, "comparison")
        save(view.comparison, folder, origin_of(view.opened.folder), in_language)
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                archive.write(path, path.relative_to(folder.parent))
            archive.writestr("comparison/experiment.toml", _experiment(view))
    return content.getvalue()
