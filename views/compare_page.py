"""Compare: what each retriever finds of the same questions, side by side."""

import json
from collections.abc import Hashable

import numpy as np
import pandas as pd
import streamlit as st

from data.split import Part
from data.store import StoredSet
from retrieval.compare import Comparison, Result
from retrieval.experiment import DenseSpec, Experiment, RerankSpec, Spec, write_experiment
from retrieval.job import Job
from retrieval.metrics import DEFAULT_KS
from views import charts
from views.choices import BM25_NAME, Choices, choices_for, free_name
from views.resources import comparison, finished_at
from views.state import chosen_set, remember, remembered
from views.words import duration, known, plain, word

_POLL_SECONDS = 0.5
_MEASURES = ("recall", "hit", "mrr", "ndcg")


def draw() -> None:
    """Draw the page."""
    data = chosen_set()
    added: list[Spec] = st.session_state.setdefault(f"added_{data.key}", [])
    choices = choices_for(data, added)
    title, buttons = st.columns([3, 2], vertical_alignment="bottom")
    title.title(word("compare.title"))
    answer = st.container()
    picked, part = _controls(choices, data)
    if not picked:
        st.info(word("compare.pick_one"), icon=":material/info:")
        return
    experiment = choices.experiment(data, picked, part)
    job = Job.of(experiment, data.fingerprint)
    with buttons.container(horizontal=True, horizontal_alignment="right"):
        _start_button(job, experiment)
        found = _finished(job, experiment, data)
        _exports(found, experiment)
    if found is None:
        with answer:
            _wait(job.folder.name, experiment.model_dump_json())
        return
    shown = [result for result in found.results if result.name in picked]
    with answer:
        _answer(found, shown)
        _notices(found, shown, choices, part)
    _results(shown, list(choices.specs))


def _controls(choices: Choices, data: StoredSet) -> tuple[list[str], Part]:
    names = list(choices.specs)
    default = remembered("retrievers", "", [st.query_params.get("retrievers", "")])
    from_address = [name for name in default.split("|") if name in names]
    with st.container(border=True):
        left, right = st.columns([4, 1], vertical_alignment="bottom")
        picked = left.pills(
            word("compare.retrievers"),
            names,
            selection_mode="multi",
            default=from_address or [name for name in choices.first_picked if name in names],
            key=f"picked_{data.key}_{len(names)}",
            help=word("compare.retrievers_help"),
        )
        with right:
            _add_dialog_button(choices, data)
        parts = [part.value for part in Part]
        first_part = Part.TEST if any(name in choices.trained for name in picked) else Part.ALL
        part = st.segmented_control(
            word("compare.questions"),
            parts,
            default=remembered("part", first_part.value, parts),
            format_func=lambda value: word(f"part.{value}"),
            help=word("compare.questions_help"),
        )
    ordered = [name for name in names if name in picked]
    if ordered != list(choices.first_picked) or "retrievers" in st.query_params:
        st.query_params["retrievers"] = "|".join(ordered)
    chosen = Part(part or first_part)
    if chosen is not first_part or "part" in st.query_params:  # else it follows what is picked
        remember("part", chosen.value)
    return ordered, chosen


def _add_dialog_button(choices: Choices, data: StoredSet) -> None:
    with st.popover(word("compare.add"), icon=":material/add:", width="stretch"):
        kind = st.selectbox(word("compare.add_kind"), ["dense", "rerank"], format_func=lambda k: word(f"kind.{k}"))
        model = st.text_input(word("compare.add_model"), help=word("compare.add_model_help")).strip()
        if st.button(word("compare.add_this"), disabled=not model, type="primary"):
            name = free_name(f"{word(f'kind_short.{kind}')} · {model.split('/')[-1]}", choices.specs)
            spec: Spec = (
                DenseSpec(name=name, model=model)
                if kind == "dense"
                else RerankSpec(name=name, first=BM25_NAME, model=model)
            )
            st.session_state[f"added_{data.key}"].append(spec)
            st.rerun()


def _start_button(job: Job, experiment: Experiment) -> None:
    running = not job.done and job.progress() is not None
    label = word("compare.run_again") if job.done else word("compare.run")
    if st.button(label, type="primary", icon=":material/play_arrow:", disabled=running, key="run"):
        job.start(experiment)
        st.rerun()


def _finished(job: Job, experiment: Experiment, data: StoredSet) -> Comparison | None:
    if not job.done:
        return None
    return comparison(data.key, experiment.model_dump_json(), finished_at(job.folder))


def _exports(found: Comparison | None, experiment: Experiment) -> None:
    with st.popover(word("compare.export"), icon=":material/download:", disabled=found is None):
        if found is None:
            return
        table = _means(found.results)
        st.download_button(word("compare.csv"), table.to_csv(index=False).encode("utf-8-sig"), "scores.csv", "text/csv")
        scores = json.dumps(found.as_dict(), ensure_ascii=False, indent=2)
        st.download_button(word("compare.json"), scores, "scores.json", "application/json")
        file = write_experiment(experiment)
        st.download_button(word("compare.experiment"), file, "experiment.toml", "application/toml")
        st.caption(word("compare.experiment_help"))


def _wait(key: str, experiment: str) -> None:
    """Start the comparison nobody has run yet, and show how far it is."""
    request = f"asked_{key}"
    job = Job.of(Experiment.model_validate_json(experiment), chosen_set().fingerprint)
    if request not in st.session_state and job.progress() is None:
        st.session_state[request] = True
        job.start(Experiment.model_validate_json(experiment))
    _follow(experiment)


@st.fragment(run_every=_POLL_SECONDS)
def _follow(asked: str) -> None:
    experiment = Experiment.model_validate_json(asked)
    job = Job.of(experiment, chosen_set().fingerprint)
    if job.done:
        st.rerun()
    progress = job.progress()
    if progress is None:
        st.warning(word("compare.not_run"), icon=":material/info:")
        if log := job.log():
            with st.expander(word("compare.log")):
                st.code(log, language=None)
        return
    at_work = word("compare.at_work", name=progress.name) if progress.name else word("compare.starting")
    left = progress.seconds * (1 - progress.share) / progress.share if progress.share > 0.1 else None
    text = word("compare.at_work_left", at_work=at_work, left=duration(left)) if left else at_work
    bar, stop = st.columns([5, 1], vertical_alignment="bottom")
    bar.progress(min(1.0, progress.share), text=text)
    if stop.button(word("compare.stop"), icon=":material/stop:", width="stretch"):
        job.stop()
        st.rerun(scope="fragment")
    finished = int(progress.share * len(experiment.retriever) + 1e-6)
    if finished:  # what is ready need not wait for the rest
        first = experiment.model_copy(update={"retriever": experiment.retriever[:finished]})
        _table(list(comparison(chosen_set().key, first.model_dump_json(), 0.0).results), "recall")


def _answer(found: Comparison, shown: list[Result]) -> None:
    """Say in one sentence who finds more, and how sure that is."""
    scored = [result for result in shown if result.scores]
    measure = "recall@10"
    if len(scored) < 2:
        return
    by_mean = sorted(scored, key=lambda r: r.scores.means()[measure] if r.scores else 0.0, reverse=True)
    first = scored[0]
    best = by_mean[0] if by_mean[0] is not first else by_mean[1]
    difference = best.scores.per_question[measure] - first.scores.per_question[measure]  # type: ignore[union-attr]
    low, high = _interval(difference)
    sure = "unsure" if low <= 0 <= high else ("more" if difference.mean() > 0 else "less")
    st.markdown(
        word(
            f"compare.answer_{sure}",
            best=plain(best.name),
            first=plain(first.name),
            points=f"{abs(difference.mean()) * 100:.1f}",
            low=f"{low * 100:+.1f}",
            high=f"{high * 100:+.1f}",
            questions=f"{len(found.asked.questions):,}",
        )
    )


def _interval(difference: np.ndarray) -> tuple[float, float]:
    from retrieval.significance import mean_interval

    return mean_interval(difference)


def _notices(found: Comparison, shown: list[Result], choices: Choices, part: Part) -> None:
    for result in shown:
        if result.error is not None:
            code = f"model.{getattr(result.error, 'code', '')}"
            reason = word(code, model=getattr(result.error, "model", "")) if known(code) else str(result.error)
            st.error(word("compare.failed", name=plain(result.name), reason=reason), icon=":material/error:")
    if part in (Part.ALL, Part.TRAIN) and any(result.name in choices.trained for result in shown):
        st.warning(word("compare.trained_on_these"), icon=":material/warning:")
    several = (np.diff(found.asked.relevance.indptr) > 1).any()
    st.caption(word("compare.recall_is_not_hit") if several else word("compare.recall_is_hit"))


def _results(shown: list[Result], names: list[str]) -> None:
    ks = [str(k) for k in DEFAULT_KS]
    left, right = st.columns([2, 2], vertical_alignment="bottom")
    k = left.segmented_control("K", ks, default=remembered("k", "10", ks), help=word("compare.k_help")) or "10"
    remember("k", k)
    allowed = list(_MEASURES)
    measure = right.segmented_control(
        word("compare.measure"),
        allowed,
        default=remembered("measure", "recall", allowed),
        format_func=lambda value: word(f"measure.{value}"),
        help=word("compare.measure_help"),
    )
    measure = measure or "recall"
    remember("measure", measure)
    _table(shown, measure if measure in ("recall", "hit") else "recall")
    scored = [result for result in shown if result.scores]
    if scored:
        _pictures(scored, names, measure, k)
        _next_step()


def _means(results: tuple[Result, ...] | list[Result]) -> pd.DataFrame:
    rows = []
    for result in results:
        means = result.scores.means() if result.scores else {}
        times = {"build_seconds": result.build_seconds, "query_seconds": result.query_seconds} if means else {}
        rows.append({"retriever": result.name, **means, **times})
    return pd.DataFrame(rows)


def _table(shown: list[Result], measure: str) -> None:
    table = _means(shown)
    columns = [f"{measure}@{k}" for k in DEFAULT_KS] + ["mrr@10", "ndcg@10"]
    for column in [*columns, "build_seconds", "query_seconds"]:
        if column not in table:
            table[column] = np.nan
    queries = next((len(r.rankings.indices) for r in shown if r.rankings), 1)
    table["per_question"] = table["query_seconds"] / queries * 1000
    table = table[["retriever", *columns, "build_seconds", "per_question"]]
    table[columns] *= 100
    best = {column: table[column].max() for column in columns}

    def weigh(column: pd.Series) -> list[str]:
        top = best.get(str(column.name))
        return ["font-weight: 700; text-decoration: underline" if value == top else "" for value in column]

    numbers: list[Hashable] = [*columns, "build_seconds", "per_question"]
    styled = table.style.apply(weigh, axis=0).format("{:.2f}", subset=numbers, na_rep="–")
    st.dataframe(
        styled,
        hide_index=True,
        width="stretch",
        column_config={
            "retriever": st.column_config.TextColumn(word("compare.retriever"), pinned=True, width="medium"),
            **{
                column: st.column_config.NumberColumn(_label(column), help=word(f"help.{column.split('@')[0]}"))
                for column in columns
            },
            "build_seconds": st.column_config.NumberColumn(word("compare.build"), help=word("help.build")),
            "per_question": st.column_config.NumberColumn(word("compare.per_question"), help=word("help.per_question")),
        },
    )


def _label(column: str) -> str:
    measure, cut = column.split("@")
    return {"recall": "R", "hit": "Hit", "mrr": "MRR", "ndcg": "nDCG"}[measure] + f"@{cut}"


def _pictures(scored: list[Result], names: list[str], measure: str, k: str) -> None:
    curve_measure = measure if measure in ("recall", "hit") else "recall"
    points = pd.DataFrame(
        [
            {
                "K": at,
                word(f"measure.{curve_measure}"): r.scores.means()[f"{curve_measure}@{at}"],
                word("compare.retriever"): r.name,
            }
            for r in scored
            if r.scores
            for at in DEFAULT_KS
        ]
    )
    chosen = f"{measure}@{k}" if measure in ("recall", "hit") else f"{measure}@10"
    heights = pd.DataFrame(
        [{_label(chosen): r.scores.means()[chosen], word("compare.retriever"): r.name} for r in scored if r.scores]
    )
    left, right = st.columns(2)
    detail = word("compare.retriever")
    with left:
        st.markdown(f"**{word('compare.curve', measure=word(f'measure.{curve_measure}'))}**")
        st.altair_chart(charts.curves(points, names, x="K", y=word(f"measure.{curve_measure}"), detail=detail))
    with right:
        st.markdown(f"**{word('compare.bars', measure=_label(chosen))}**")
        st.altair_chart(charts.bars(heights, names, value=_label(chosen), detail=detail))
    with st.expander(word("compare.as_table")):
        wide = points.pivot_table(index=detail, columns="K", values=word(f"measure.{curve_measure}"), sort=False)
        st.dataframe(wide.style.format("{:.2%}"), width="stretch")


def _next_step() -> None:
    st.info(word("compare.next"), icon=":material/lightbulb:")
