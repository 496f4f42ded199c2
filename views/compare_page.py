"""Compare: what each retriever finds of the same questions, side by side."""

import json

import numpy as np
import streamlit as st

from data.split import Part
from data.store import StoredSet
from retrieval.compare import Comparison, Result
from retrieval.experiment import DenseSpec, Experiment, RerankSpec, Spec, write_experiment
from retrieval.job import Job
from views import compare_results
from views.choices import BM25_NAME, Choices, choices_for, free_name
from views.resources import comparison, finished_at
from views.state import chosen_set, remember, remembered
from views.words import duration, known, plain, word

_POLL_SECONDS = 0.5


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
        compare_results.answer(found, shown)
        _notices(found, shown, choices, part)
    compare_results.results(shown, list(choices.specs))


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
            wrap=True,
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
        table = compare_results.means(found.results)
        st.download_button(word("compare.csv"), table.to_csv(index=False).encode("utf-8-sig"), "scores.csv", "text/csv")
        scores = json.dumps(found.as_dict(), ensure_ascii=False, indent=2)
        st.download_button(word("compare.json"), scores, "scores.json", "application/json")
        file = write_experiment(experiment)
        st.download_button(word("compare.experiment"), file, "experiment.toml", "application/toml")
        st.caption(word("compare.experiment_help"))


def _wait(key: str, asked: str) -> None:
    """Start the comparison nobody has run yet, or whose rankings are gone, once; and show how far it is."""
    experiment = Experiment.model_validate_json(asked)
    job = Job.of(experiment, chosen_set().fingerprint)
    started = f"started_{key}"
    if started not in st.session_state and (job.done or job.progress() is None):
        st.session_state[started] = True
        job.start(experiment)
        st.rerun()  # the button above is drawn already, and must not offer to start it again
    if job.done:
        st.warning(word("compare.not_run"), icon=":material/info:")
    else:
        _follow(asked)


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
        found = comparison(chosen_set().key, first.model_dump_json(), 0.0)
        if found:
            compare_results.table(found.results, "recall")


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
