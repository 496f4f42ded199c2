"""A retriever taken away: for which engine, what is the same there and what differs, by how much, and the folder."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from mrc_workbench.data.jobs.folder import Status
from mrc_workbench.data.workspace import MEGABYTE
from mrc_workbench.retrieval.comparison.first_stage import LateSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import origin_of
from mrc_workbench.retrieval.takeaway.folder import TakeAwayJob, Taken, Wanted
from mrc_workbench.retrieval.takeaway.fusion import TRAITS, Engine, Figure
from mrc_workbench.retrieval.takeaway.models import ModelFigure
from mrc_workbench.retrieval.takeaway.signals import foreseen
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.names import retriever_name
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.job import begin, draw_job
from mrc_workbench.workbench.views.ui.state import choose_named
from mrc_workbench.workbench.views.ui.words import known, plain, word


def draw(view: ComparisonView) -> None:
    st.caption(word("takeaway.about"))
    found = view.comparison.rankings
    names = [name for name in view.names if name in found]
    if not names:
        st.info(word("takeaway.nothing_found"), icon=":material/info:")
        return
    left, right = st.columns(2)
    with left:
        name = choose_named(
            "take", word("takeaway.retriever"), {one: view.display_names[one] for one in names}, names[0]
        )
    with right:
        labels = {engine.value: word(f"takeaway.engine_{engine.value}") for engine in Engine}
        engine = Engine(choose_named("for", word("takeaway.engine"), labels, Engine.ELASTICSEARCH.value))
    local = view.spec(name).local
    if engine in TRAITS and isinstance(local, LateSpec) and local.first:
        values = {"name": view.display_names[name], "first": view.display_names[local.first]}
        st.info(word("takeaway.over_candidates", **values), icon=":material/info:")
        return
    wanted = Wanted(view.opened.folder.name, name, engine)
    job = TakeAwayJob.of(wanted, str(origin_of(view.opened.folder).get("made")))
    if not job.done:

        def reason(status: Status) -> str:
            key = f"takeaway.{status.code}"
            return word(key, name=view.display_names[name]) if known(key) else status.message

        about = _foreseen(_foreseen_codes(view.comparison.experiment.specs, name, engine), engine)
        draw_job(
            job,
            lambda: job.start(wanted),
            lambda status: word(f"takeaway.at_{status.phase or 'begin'}"),
            "takeaway",
            word("takeaway.make"),
            about=about,
            reason=reason,
        )
        return
    try:
        taken, size = job.taken(), job.archive.stat().st_size
    except (OSError, ValueError):
        st.error(word("takeaway.damaged"), icon=":material/error:")
        if st.button(word("takeaway.make"), icon=":material/play_arrow:"):
            begin(lambda: job.start(wanted))
        return
    _draw_taken(job, taken, engine, size)


def _foreseen_codes(specs: Mapping[str, Spec], name: str, engine: Engine) -> list[str]:
    traits = TRAITS.get(engine)
    return foreseen(specs, name, tokens=bool(traits and traits.tokens), sparse=bool(traits and traits.sparse))


def _foreseen(codes: Sequence[str], engine: Engine) -> str:
    """Return what is known of the engine, and what surely differs there, as Markdown."""
    lines = [word(f"takeaway.of_{engine.value}")]
    if engine in TRAITS:
        lines += [f"- {word('takeaway.foreseen_left_out') if one == 'left_out' else _differs(one)}" for one in codes]
        lines.append(f"- {word('takeaway.foreseen_figure')}")
    return "\n".join(lines)


def _differs(code: str, left_out: Sequence[str] = ()) -> str:
    return word(f"takeaway.differs_{code}").format(left_out=", ".join(plain(retriever_name(name)) for name in left_out))


def _draw_taken(job: TakeAwayJob, taken: Taken, engine: Engine, size: int) -> None:
    own = next((one for one in taken.figures if one.engine is engine), None)
    if own:
        st.markdown(drift_words((own.there - own.here) * 100))
        if engine in TRAITS:
            lines = [word("takeaway.kept"), *(_differs(code, own.left_out) for code in own.differs)]
            st.markdown("\n".join(f"- {line}" for line in lines))
    st.download_button(
        word("takeaway.download", size=f"{size / MEGABYTE:,.1f}"),
        job.archive.read_bytes,
        f"takeaway-{engine.value}.zip",
        "application/zip",
        on_click="ignore",
        type="primary",
        icon=":material/download:",
        key="takeaway_download",
    )
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
    table = pd.DataFrame(
        {
            "engine": [word(f"takeaway.engine_{one.engine.value}") for one in figures],
            "there": [one.there * 100 for one in figures],
            "difference": [(one.there - one.here) * 100 for one in figures],
            "low": [one.low * 100 for one in figures],
            "high": [one.high * 100 for one in figures],
            "left_out": [", ".join(map(retriever_name, one.left_out)) for one in figures],
        }
    )
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
    table = pd.DataFrame(
        [
            {
                "retriever": one.retriever,
                "form": word(f"takeaway.form_{form}"),
                "agreement": f"{agreement:.4f}" if agreement is not None else "–",
                "ndcg": ndcg * 100,
                "seconds": seconds,
                "size": f"{size / MEGABYTE:,.0f}" if size else "–",
            }
            for one in models
            for form, agreement, ndcg, seconds, size in (
                ("torch", None, one.ndcg, one.seconds, None),
                ("float", one.agreement, one.ndcg_float, one.seconds_float, one.bytes_float),
                ("int8", one.agreement_int8, one.ndcg_int8, one.seconds_int8, one.bytes_int8),
            )
        ]
    )
    columns = {
        "retriever": tables.retriever(),
        "form": tables.text("takeaway.form"),
        "agreement": tables.text("takeaway.agreement", alignment="right"),
        "ndcg": tables.number("takeaway.ndcg", "%.2f"),
        "seconds": tables.number("takeaway.seconds", "%.2f"),
        "size": tables.text("takeaway.size", alignment="right"),
    }
    tables.draw(table, columns)
    st.caption(word("takeaway.models_about", questions=f"{models[0].questions:,}"))
