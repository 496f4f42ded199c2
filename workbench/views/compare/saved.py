"""The Saved tab, comparisons stored in the workspace; and the Export tab, a retriever as a folder for an engine."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd
import streamlit as st

from mrc_workbench.data.jobs.folder import Status
from mrc_workbench.data.workspace import MEGABYTE
from mrc_workbench.retrieval.analysis.open_comparison import find_difference
from mrc_workbench.retrieval.comparison import store
from mrc_workbench.retrieval.comparison.first_stage import LateSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.export.folder import EXPORTS, ExportRequest, ExportResult, archive_path
from mrc_workbench.retrieval.export.fusion import TRAITS, EngineMetrics, ExportTarget
from mrc_workbench.retrieval.export.models import OnnxMetrics
from mrc_workbench.retrieval.export.signals import expected_differences
from mrc_workbench.workbench.views import names as naming
from mrc_workbench.workbench.views.compare import running
from mrc_workbench.workbench.views.compare.scores import ComparisonView, in_points
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.resources.sets import selected_set, stored_sets, use_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.job import begin, draw_job
from mrc_workbench.workbench.views.ui.state import choose_named
from mrc_workbench.workbench.views.ui.words import draw_damaged, moment, plain, word, word_or

_OPENED = "opened_comparison"  # session key
_RESET_PARAMETERS = (*running.CHOICES, "view", "question", "slice")  # removed when a stored comparison is opened


def draw(view: ComparisonView) -> None:
    comparisons = [comparison for comparison in store.list_comparisons() if comparison.lab is None]
    st.caption(word("saved.about"))
    displayed_key = view.opened.folder.name
    table = _table(comparisons, displayed_key)
    draw_damaged(store.damaged_comparisons(), store.delete)
    columns = {str(name): tables.text(f"saved.{name}") for name in table if name != "best"}
    best = word("compare.best_by", metric=naming.leading_measure().long_name)
    rows = tables.draw_choice(table, {**columns, "best": st.column_config.TextColumn(best)}, "saved_list")
    if not rows:
        st.caption(word("saved.choose"))
        return
    selected = comparisons[rows[0]]
    _draw_actions(selected)
    for comparison in comparisons:
        if comparison.key == displayed_key != selected.key:
            _draw_changes(view, selected, comparison)


def title_of(stored: store.StoredComparison) -> str:
    return stored.name or naming.set_name(stored.data)


def requested_comparison() -> store.StoredComparison | None:
    """Return the stored comparison in the address and select its dataset; stop the page if it is missing."""
    running.leave_other_dataset(selected_set())
    key = st.query_params.get(running.KEY)
    if not key:
        return None
    if running.is_displayed_by_page(key, selected_set()):
        st.session_state[_OPENED] = key
        return None
    stored = store.get_comparison(key)
    if stored is None:
        _report_and_stop(word("saved.not_here"))
    elif selected_set().fingerprint == stored.data_fingerprint:
        st.session_state[_OPENED] = stored.key
        return stored
    elif st.session_state.get(_OPENED) == stored.key:  # the user has selected another dataset
        close()
    elif same := next((dataset for dataset in stored_sets() if dataset.fingerprint == stored.data_fingerprint), None):
        use_set(same.key)
        st.rerun()
    else:
        _report_and_stop(word("saved.set_is_gone", data=plain(naming.set_name(stored.data))))
    return None


def _report_and_stop(text: str) -> NoReturn:
    st.error(text, icon=":material/error:")
    st.button(word("saved.back"), icon=":material/arrow_back:", on_click=close)
    st.stop()


def _open(key: str) -> None:
    for name in _RESET_PARAMETERS:
        st.query_params.pop(name, None)
    for name in (_OPENED, "stored_view"):
        st.session_state.pop(name, None)
    running.clear_address()
    st.query_params[running.KEY] = key


def close() -> None:
    """Return from a stored comparison to the default selection."""
    running.clear_address(choices=True)


def _table(comparisons: list[store.StoredComparison], displayed_key: str) -> pd.DataFrame:
    rows = []
    for comparison in comparisons:
        names = [*naming.retriever_names(comparison.retrievers).values()]
        part = word(f"part.{comparison.part.value}")
        first = word("saved.others", first=names[0], count=len(names) - 1) if len(names) > 1 else names[0]
        row = {
            "name": ("▶ " if comparison.key == displayed_key else "") + (comparison.name or f"{first} · {part}"),
            "created": moment(comparison.created_at),
            "data": naming.set_name(comparison.data),
            "part": part,
            "questions": f"{comparison.questions:,}",
            "retrievers": ", ".join(names),
            "best": _best(comparison),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _best(stored: store.StoredComparison) -> str:
    best = naming.best_retriever(naming.leading_measure(stored.ks), stored.metrics)
    if best is None:
        return "–"
    name, measure, mean = best
    text = f"{naming.retriever_name(name)} {100 * mean:.1f}"
    return text if measure == naming.leading_measure() else f"{text} ({measure.long_name})"


def _draw_actions(selected: store.StoredComparison) -> None:
    with st.container(horizontal=True, vertical_alignment="center", border=True):
        st.markdown(f"**{plain(title_of(selected))}** · {moment(selected.created_at)}")
        icon = ":material/open_in_full:"
        st.button(word("saved.open"), type="primary", icon=icon, key="saved_open", on_click=_open, args=(selected.key,))
        with st.popover("", icon=":material/more_vert:", help=word("saved.menu")):
            with st.form(f"rename_{selected.key}", border=False):
                example = naming.set_name(selected.data)
                name = st.text_input(word("saved.name"), selected.name, max_chars=120, placeholder=example)
                if st.form_submit_button(word("saved.rename"), icon=":material/edit:", width="stretch"):
                    store.rename(selected.key, name)
                    st.rerun()
            st.divider()
            st.caption(word("saved.delete_sure"))
            if st.button(word("saved.delete"), icon=":material/delete:", key="saved_delete", width="stretch"):
                store.delete(selected.key)
                st.rerun()


def _draw_changes(view: ComparisonView, selected: store.StoredComparison, current: store.StoredComparison) -> None:
    st.subheader(word("saved.changes", metric=view.metric.long_name))
    if reason := find_difference(selected, current):
        st.info(word(f"saved.{reason}"), icon=":material/compare_arrows:")
        return
    earlier = open_comparison(view.data.key, selected.folder)
    changes = view.opened.changes_since(earlier) if earlier else []
    metric_changes = [change for change in changes if change.test.measure == str(view.metric)]
    if not metric_changes:
        st.info(word("saved.no_shared"), icon=":material/compare_arrows:")
        return
    tests = in_points([change.test for change in metric_changes])
    table = pd.DataFrame(metric_changes).drop(columns="test").join(tests)
    table[["before", "after"]] *= 100
    verdicts = {True: word("saved.changed"), False: word("saved.not_changed")}
    table["verdict"] = [verdicts[change.test.is_significant] for change in metric_changes]
    columns = {
        "retriever": tables.retriever(),
        "before": tables.number("saved.before", "%.2f"),
        "after": tables.number("saved.after", "%.2f"),
        "difference": tables.number("compare.difference", "%+.2f", ""),
        **tables.interval("%+.2f"),
        "p_family": tables.p_family(),
        "verdict": tables.text("compare.verdict", ""),
    }
    tables.draw(table, columns)


def draw_export_tab(view: ComparisonView) -> None:
    st.caption(word("takeaway.about"))
    rankings = view.comparison.rankings
    names = [name for name in view.names if name in rankings]
    if not names:
        st.info(word("takeaway.no_rankings"), icon=":material/info:")
        return
    left, right = st.columns(2)
    with left:
        display_names = dict(zip(names, view.labels_for(names), strict=True))
        name = choose_named("take", word("takeaway.retriever"), display_names, names[0])
    with right:
        labels = {engine.value: word(f"takeaway.engine_{engine.value}") for engine in ExportTarget}
        engine = ExportTarget(choose_named("for", word("takeaway.engine"), labels, ExportTarget.ELASTICSEARCH.value))
    local = view.spec(name).local_spec
    if engine in TRAITS and isinstance(local, LateSpec) and local.first_stage:
        values = {"name": view.display_names[name], "first": view.display_names[local.first_stage]}
        st.info(word("takeaway.over_candidates", **values), icon=":material/info:")
        return
    request = ExportRequest(view.opened.folder.name, name, engine)
    job = EXPORTS.job(request, str(store.read_provenance(view.opened.folder).get("created_at")))
    label = word("takeaway.make")
    if not job.done:

        def reason(status: Status) -> str:
            return word_or(f"takeaway.{status.code}", status.message, name=view.display_names[name])

        def progress_text(status: Status) -> str:
            return word(f"takeaway.at_{status.phase or 'begin'}")

        about = _known_differences(view.comparison.experiment.specs, name, engine)
        draw_job(job, lambda: job.start(request), progress_text, "takeaway", label, about=about, reason=reason)
        return
    try:
        result = job.load()
        size = archive_path(job).stat().st_size
    except (OSError, ValueError):
        st.error(word("takeaway.damaged"), icon=":material/error:")
        if st.button(label, icon=":material/play_arrow:"):
            begin(lambda: job.start(request))
        return
    _draw_export(archive_path(job), result, engine, size)


def _known_differences(specs: Mapping[str, Spec], name: str, engine: ExportTarget) -> str:
    """Return, as Markdown, notes on an engine and its known differences from this workbench."""
    lines = [word(f"takeaway.of_{engine.value}")]
    if traits := TRAITS.get(engine):
        codes = expected_differences(specs, name, tokens=bool(traits.tokens), sparse=bool(traits.sparse))
        texts = [word("takeaway.expected_left_out") if code == "left_out" else _difference_text(code) for code in codes]
        lines += [f"- {text}" for text in texts]
        lines.append(f"- {word('takeaway.expected_score')}")
    return "\n".join(lines)


def _difference_text(code: str, left_out: Sequence[str] = ()) -> str:
    return word(f"takeaway.differs_{code}").format(left_out=naming.plain_names(left_out))


def _draw_export(archive: Path, result: ExportResult, engine: ExportTarget, size: int) -> None:
    engine_score = next((score for score in result.metrics if score.engine is engine), None)
    if engine_score:
        st.markdown(drift_words((engine_score.engine_score - engine_score.workbench_score) * 100))
        if engine in TRAITS:
            differences = [_difference_text(code, engine_score.left_out) for code in engine_score.differences]
            st.markdown("\n".join(f"- {line}" for line in [word("takeaway.preserved"), *differences]))
    label = word("takeaway.download", size=f"{size / MEGABYTE:,.1f}")
    kwargs: dict[str, Any] = {"type": "primary", "icon": ":material/download:", "key": "takeaway_download"}
    kwargs |= {"file_name": f"takeaway-{engine.value}.zip", "mime": "application/zip", "on_click": "ignore"}
    st.download_button(label, archive.read_bytes, **kwargs)
    if result.models:
        _draw_models(result.models)
    if result.metrics:
        _draw_engine_scores(result.metrics, engine)


def drift_words(points: float) -> str:
    """Return, as Markdown, how far nDCG@10 in the engine is above or below the comparison, in percentage points."""
    if abs(points) < 0.005:
        return word("takeaway.same")
    return word("takeaway.higher" if points > 0 else "takeaway.lower", points=f"{abs(points):.2f}")


def _draw_engine_scores(scores: Sequence[EngineMetrics], engine: ExportTarget) -> None:
    st.subheader(word("takeaway.scores"))
    rows = [(score.engine_score, score.engine_score - score.workbench_score, score.low, score.high) for score in scores]
    table = pd.DataFrame(rows, columns=["there", "difference", "low", "high"]) * 100
    table["engine"] = [word(f"takeaway.engine_{score.engine.value}") for score in scores]
    table["left_out"] = [", ".join(map(naming.retriever_name, score.left_out)) for score in scores]
    is_selected = [score.engine is engine for score in scores]
    columns = {
        "engine": tables.text("takeaway.engine", "", pinned=True),
        "there": tables.number("takeaway.there", "%.2f"),
        "difference": tables.number("compare.difference", "%+.2f", "takeaway.difference_help"),
        **tables.interval("%+.2f"),
        "left_out": tables.text("takeaway.left_out"),
    }
    styled = table.style.map(lambda _: tables.BOLD, subset=(is_selected, ["engine", "there"]))
    tables.draw(styled, columns)
    st.caption(word("takeaway.here", here=f"{scores[0].workbench_score * 100:.2f}"))


def _draw_models(models: Sequence[OnnxMetrics]) -> None:
    st.subheader(word("takeaway.models"))
    rows = []
    for model in models:
        for form, agreement, ndcg, seconds, size in (
            ("torch", None, model.ndcg, model.seconds, None),
            ("float", model.agreement, model.ndcg_float, model.seconds_float, model.bytes_float),
            ("int8", model.agreement_int8, model.ndcg_int8, model.seconds_int8, model.bytes_int8),
        ):
            agreement_text = "–" if agreement is None else f"{agreement:.4f}"
            megabytes = f"{size / MEGABYTE:,.0f}" if size else "–"
            label = word(f"takeaway.form_{form}")
            rows.append((model.retriever, label, agreement_text, ndcg * 100, seconds, megabytes))
    columns = {
        "retriever": tables.retriever(),
        "form": tables.text("takeaway.form"),
        "agreement": tables.text("takeaway.agreement", alignment="right"),
        "ndcg": tables.number("takeaway.ndcg", "%.2f"),
        "seconds": tables.number("takeaway.seconds", "%.2f"),
        "size": tables.text("takeaway.size", alignment="right"),
    }
    tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)
    st.caption(word("takeaway.models_about", questions=f"{models[0].questions:,}"))
