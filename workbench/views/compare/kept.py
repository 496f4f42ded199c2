"""The Saved tab, comparisons stored in the workspace; and the Export tab, a retriever as a folder for an engine."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd
import streamlit as st

from mrc_workbench.data.jobs.folder import Status
from mrc_workbench.data.workspace import MEGABYTE
from mrc_workbench.retrieval.analysis.open_comparison import comparable
from mrc_workbench.retrieval.comparison import store
from mrc_workbench.retrieval.comparison.first_stage import LateSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import StoredComparison
from mrc_workbench.retrieval.takeaway.folder import EXPORTS, Taken, Wanted, archive_of
from mrc_workbench.retrieval.takeaway.fusion import TRAITS, Engine, Figure
from mrc_workbench.retrieval.takeaway.models import ModelFigure
from mrc_workbench.retrieval.takeaway.signals import foreseen
from mrc_workbench.workbench.views.compare import running
from mrc_workbench.workbench.views.compare.scores import ComparisonView, in_points
from mrc_workbench.workbench.views.names import (
    best_by,
    leading_measure,
    plain_names,
    retriever_name,
    retriever_names,
    set_name,
)
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.resources.sets import chosen_set, stored_sets, use_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.job import begin, draw_job
from mrc_workbench.workbench.views.ui.state import choose_named
from mrc_workbench.workbench.views.ui.words import draw_damaged, moment, plain, word, word_or

_OPENED = "opened_comparison"  # of the session
_OF_ANOTHER = (*running.CHOICES, "view", "question", "slice")  # choices that one just opened begins without


def draw(view: ComparisonView) -> None:
    kept = [one for one in store.kept_comparisons() if one.lab is None]
    st.caption(word("kept.about"))
    here = view.opened.folder.name
    table = _table(kept, here)
    draw_damaged(store.damaged_comparisons(), store.delete)
    columns = {str(name): tables.text(f"kept.{name}") for name in table if name != "best"}
    best = word("compare.best_by", figure=leading_measure().long)
    rows = tables.draw_choice(table, {**columns, "best": st.column_config.TextColumn(best)}, "kept_list")
    if not rows:
        st.caption(word("kept.choose"))
        return
    selected = kept[rows[0]]
    _draw_actions(selected)
    if current := next((one for one in kept if one.key == here != selected.key), None):
        _draw_changes(view, selected, current)


def title_of(kept: StoredComparison) -> str:
    return kept.name or set_name(kept.data)


def asked_for() -> StoredComparison | None:
    """Return the stored comparison that the address names, its dataset made the one in use; None without one.

    A user who then selects another dataset leaves the comparison behind. If one cannot be shown, only the reason is.
    """
    running.leave_other_dataset(chosen_set())
    key = st.query_params.get(running.KEY)
    if not key:
        return None
    if running.is_of_page(key, chosen_set()):
        st.session_state[_OPENED] = key
        return None
    kept = store.kept_comparison(key)
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
    running.clear()
    st.query_params[running.KEY] = key


def close() -> None:
    """Go back to the comparison of what is selected by default, without the stored one's choices."""
    running.clear(choices=True)


def _table(kept: list[StoredComparison], here: str) -> pd.DataFrame:
    rows = []
    for one in kept:
        names, part = [*retriever_names(one.retrievers).values()], word(f"part.{one.part.value}")
        first = word("kept.others", first=names[0], count=len(names) - 1) if len(names) > 1 else names[0]
        row = {
            "name": ("▶ " if one.key == here else "") + (one.name or f"{first} · {part}"),
            "made": moment(one.made),
            "data": set_name(one.data),
            "part": part,
            "questions": f"{one.questions:,}",
            "retrievers": ", ".join(names),
            "best": _best(one),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _best(kept: StoredComparison) -> str:
    best = best_by(leading_measure(kept.ks), kept.figures)
    if best is None:
        return "–"
    name, measure, mean = best
    text = f"{retriever_name(name)} {100 * mean:.1f}"
    return text if measure == leading_measure() else f"{text} ({measure.long})"


def _draw_actions(selected: StoredComparison) -> None:
    with st.container(horizontal=True, vertical_alignment="center", border=True):
        st.markdown(f"**{plain(title_of(selected))}** · {moment(selected.made)}")
        icon = ":material/open_in_full:"
        st.button(word("kept.open"), type="primary", icon=icon, key="kept_open", on_click=_open, args=(selected.key,))
        with st.popover("", icon=":material/more_vert:", help=word("kept.menu")):
            with st.form(f"rename_{selected.key}", border=False):
                example = set_name(selected.data)
                name = st.text_input(word("kept.name"), selected.name, max_chars=120, placeholder=example)
                if st.form_submit_button(word("kept.rename"), icon=":material/edit:", width="stretch"):
                    store.rename(selected.key, name)
                    st.rerun()
            st.divider()
            st.caption(word("kept.delete_sure"))
            if st.button(word("kept.delete"), icon=":material/delete:", key="kept_delete", width="stretch"):
                store.delete(selected.key)
                st.rerun()


def _draw_changes(view: ComparisonView, chosen: StoredComparison, current: StoredComparison) -> None:
    st.subheader(word("kept.changes", figure=view.figure.long))
    if reason := comparable(chosen, current):
        st.info(word(f"kept.{reason}"), icon=":material/compare_arrows:")
        return
    earlier = open_comparison(view.data.key, chosen.folder)
    changes = view.opened.changes_since(earlier) if earlier else []
    found = [change for change in changes if change.test.measure == str(view.figure)]
    if not found:
        st.info(word("kept.no_shared"), icon=":material/compare_arrows:")
        return
    table = in_points([change.test for change in found]).assign(
        retriever=[change.retriever for change in found],
        before=[100 * change.before for change in found],
        after=[100 * change.after for change in found],
        verdict=[word("kept.changed" if change.test.sure else "kept.not_changed") for change in found],
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


def draw_take_away(view: ComparisonView) -> None:
    st.caption(word("takeaway.about"))
    found = view.comparison.rankings
    names = [name for name in view.names if name in found]
    if not names:
        st.info(word("takeaway.nothing_found"), icon=":material/info:")
        return
    left, right = st.columns(2)
    with left:
        called = dict(zip(names, view.called(names), strict=True))
        name = choose_named("take", word("takeaway.retriever"), called, names[0])
    with right:
        labels = {engine.value: word(f"takeaway.engine_{engine.value}") for engine in Engine}
        engine = Engine(choose_named("for", word("takeaway.engine"), labels, Engine.ELASTICSEARCH.value))
    local = view.spec(name).local
    if engine in TRAITS and isinstance(local, LateSpec) and local.first:
        values = {"name": view.display_names[name], "first": view.display_names[local.first]}
        st.info(word("takeaway.over_candidates", **values), icon=":material/info:")
        return
    wanted = Wanted(view.opened.folder.name, name, engine)
    job = EXPORTS.job(wanted, str(store.origin_of(view.opened.folder).get("made")))
    if not job.done:

        def reason(status: Status) -> str:
            return word_or(f"takeaway.{status.code}", status.message, name=view.display_names[name])

        def at_work(status: Status) -> str:
            return word(f"takeaway.at_{status.phase or 'begin'}")

        look: dict[str, Any] = {"about": _foreseen(view.comparison.experiment.specs, name, engine), "reason": reason}
        draw_job(job, lambda: job.start(wanted), at_work, "takeaway", word("takeaway.make"), **look)
        return
    try:
        taken, size = job.load(), archive_of(job).stat().st_size
    except (OSError, ValueError):
        st.error(word("takeaway.damaged"), icon=":material/error:")
        if st.button(word("takeaway.make"), icon=":material/play_arrow:"):
            begin(lambda: job.start(wanted))
        return
    _draw_taken(archive_of(job), taken, engine, size)


def _foreseen(specs: Mapping[str, Spec], name: str, engine: Engine) -> str:
    """Return what is known of the engine, and what certainly differs there, as Markdown."""
    lines = [word(f"takeaway.of_{engine.value}")]
    if traits := TRAITS.get(engine):
        codes = foreseen(specs, name, tokens=bool(traits.tokens), sparse=bool(traits.sparse))
        lines += [f"- {word('takeaway.foreseen_left_out') if one == 'left_out' else _differs(one)}" for one in codes]
        lines.append(f"- {word('takeaway.foreseen_figure')}")
    return "\n".join(lines)


def _differs(code: str, left_out: Sequence[str] = ()) -> str:
    return word(f"takeaway.differs_{code}").format(left_out=plain_names(left_out))


def _draw_taken(archive: Path, taken: Taken, engine: Engine, size: int) -> None:
    own = next((one for one in taken.figures if one.engine is engine), None)
    if own:
        st.markdown(drift_words((own.there - own.here) * 100))
        if engine in TRAITS:
            lines = [word("takeaway.kept"), *(_differs(code, own.left_out) for code in own.differs)]
            st.markdown("\n".join(f"- {line}" for line in lines))
    label = word("takeaway.download", size=f"{size / MEGABYTE:,.1f}")
    look: dict[str, Any] = {"type": "primary", "icon": ":material/download:", "key": "takeaway_download"}
    name = f"takeaway-{engine.value}.zip"
    st.download_button(label, archive.read_bytes, name, "application/zip", on_click="ignore", **look)
    if taken.models:
        _draw_models(taken.models)
    if taken.figures:
        _draw_figures(taken.figures, engine)


def drift_words(points: float) -> str:
    """Return, as Markdown, how far nDCG@10 in the engine is above or below the comparison, in percentage points."""
    if abs(points) < 0.005:
        return word("takeaway.same")
    return word("takeaway.higher" if points > 0 else "takeaway.lower", points=f"{abs(points):.2f}")


def _draw_figures(figures: Sequence[Figure], engine: Engine) -> None:
    st.subheader(word("takeaway.figures"))
    rows = [(one.there, one.there - one.here, one.low, one.high) for one in figures]
    table = pd.DataFrame(rows, columns=["there", "difference", "low", "high"]) * 100
    table["engine"] = [word(f"takeaway.engine_{one.engine.value}") for one in figures]
    table["left_out"] = [", ".join(map(retriever_name, one.left_out)) for one in figures]
    chosen = [one.engine is engine for one in figures]
    columns = {
        "engine": tables.text("takeaway.engine", "", pinned=True),
        "there": tables.number("takeaway.there", "%.2f"),
        "difference": tables.number("compare.difference", "%+.2f", "takeaway.difference_help"),
        **tables.interval("%+.2f"),
        "left_out": tables.text("takeaway.left_out"),
    }
    styled = table.style.map(lambda _: tables.BOLD, subset=(chosen, ["engine", "there"]))
    tables.draw(styled, columns)
    st.caption(word("takeaway.here", here=f"{figures[0].here * 100:.2f}"))


def _draw_models(models: Sequence[ModelFigure]) -> None:
    st.subheader(word("takeaway.models"))
    rows = []
    for one in models:
        for form, agreement, ndcg, seconds, size in (
            ("torch", None, one.ndcg, one.seconds, None),
            ("float", one.agreement, one.ndcg_float, one.seconds_float, one.bytes_float),
            ("int8", one.agreement_int8, one.ndcg_int8, one.seconds_int8, one.bytes_int8),
        ):
            texts = ("–" if agreement is None else f"{agreement:.4f}", f"{size / MEGABYTE:,.0f}" if size else "–")
            rows.append((one.retriever, word(f"takeaway.form_{form}"), texts[0], ndcg * 100, seconds, texts[1]))
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
