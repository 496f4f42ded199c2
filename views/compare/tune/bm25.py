"""The BM25 lab: which analyzer, which k1 and b, and whether passages are better searched in windows of sentences."""

import pandas as pd
import streamlit as st

from retrieval.analysis.lab_results import best
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.kinds.first_stage import BM25Spec, WindowedBM25Spec
from retrieval.comparison.labs import BS, K1S, bm25_lab, numbers
from retrieval.lexical.terms import NAMED
from text.analyzers import Analyzer
from views import tables
from views.compare.tune import terms as tune_terms
from views.compare.tune.bench import Bench, LabResult, draw_table, draw_verdict, figure_columns, names_of, run
from views.compare.tune.charts import heat
from views.resources.charts import draw_chart
from views.resources.comparisons import analyzers_of
from views.words import plain, word

_WINDOWS = (0, 1, 3)  # sentences; 0 is the whole passage
_MOST_K1 = 10.0


def draw(bench: Bench) -> None:
    """Draw what is tried, what was found, and what the analyzers make of texts."""
    names = names_of(bench, BM25Spec, WindowedBM25Spec)
    if not names:
        st.info(word("tune.needs_bm25"), icon=":material/info:")
        tune_terms.draw_readings(bench)
        return
    experiment = _pick(bench, names)
    found = run(bench, experiment) if experiment else None
    if found and experiment:
        _draw_found(bench, found, _present(experiment))
        tune_terms.draw_unmatched(found)
    tune_terms.draw_readings(bench)


def _pick(bench: Bench, names: list[str]) -> Experiment | None:
    first = [analyzer.value for analyzer in analyzers_of(bench.view.data.key)]
    with st.container(border=True):
        present = st.selectbox(word("tune.present"), names, help=word("tune.present_help"), key="lab_bm25")
        analyzers = st.pills(
            word("tune.analyzers"),
            [analyzer.value for analyzer in NAMED],
            selection_mode="multi",
            default=_listed("analyzers", first),
            help=word("tune.analyzers_help"),
            key="lab_analyzers",
        )
        windows = st.pills(
            word("tune.windows"),
            [str(length) for length in _WINDOWS],
            selection_mode="multi",
            default=_listed("windows", ["0"]),
            format_func=lambda length: word(f"tune.window_{length}"),
            help=word("tune.windows_help"),
            key="lab_windows",
        )
        left, right = st.columns(2)
        k1s = left.text_input("k1", _given("k1", K1S), help=word("tune.k1_help"), key="lab_k1")
        bs = right.text_input("b", _given("b", BS), help=word("tune.b_help"), key="lab_b")
    _remember({"analyzers": "|".join(analyzers), "windows": "|".join(windows), "k1": k1s, "b": bs}, first)
    if not analyzers or not windows or not present:
        st.info(word("tune.pick_values"), icon=":material/info:")
        return None
    try:
        values = {"k1s": numbers(k1s, most=_MOST_K1), "bs": numbers(bs, most=1.0)}
    except ValueError:
        st.error(word("tune.no_numbers"), icon=":material/error:")
        return None
    chosen = [Analyzer(value) for value in analyzers]
    lengths = [int(length) for length in windows]
    return bm25_lab(bench.view.comparison.experiment, present, chosen, sentences=lengths, **values)


def _present(experiment: Experiment) -> str:
    return next(spec.name for spec in experiment.retriever if not spec.chosen_on)


def _draw_found(bench: Bench, found: LabResult, present: str) -> None:
    table = found.table
    leader = best(table)
    answer = st.container()
    _draw_heat(bench, table, leader)
    windows = [word(f"tune.window_{length}") for length in table["sentences"]]
    name = draw_table(
        LabResult(found.experiment, found.address, table.assign(window=windows)),
        {
            "analyzer": tables.text("tune.analyzer", pinned=True),
            "window": tables.text("tune.windows", ""),
            "k1": "k1",
            "b": "b",
            **figure_columns(bench),
        },
        leader,
        key="bm25_table",
    )
    with answer:
        draw_verdict(bench, found, name, present, is_best=name == leader)


def _draw_heat(bench: Bench, table: pd.DataFrame, leader: str) -> None:
    bounds = (float(table["value"].min()), float(table["value"].max()))
    parts = table.groupby(["analyzer", "sentences"], sort=False)
    places = st.columns(2)
    for number, ((analyzer, sentences), part) in enumerate(parts):
        with places[number % 2]:
            window = f" · {word(f'tune.window_{sentences}')}" if table["sentences"].nunique() > 1 else ""
            st.markdown(f"**{plain(str(analyzer))}**{window}")
            k1, b = ("k1", "k1"), ("b", "b")
            draw_chart(heat, part, leader, x=k1, y=b, value=bench.measure.long, bounds=bounds, key=f"heat_{number}")


def _listed(name: str, default: list[str]) -> list[str]:
    given = str(st.query_params.get(name, ""))
    return [part for part in given.split("|") if part] if given and _known(name, given) else default


def _known(name: str, given: str) -> bool:
    allowed = {"analyzers": {str(analyzer) for analyzer in NAMED}, "windows": {str(length) for length in _WINDOWS}}
    return set(given.split("|")) <= allowed[name]


def _given(name: str, default: tuple[float, ...]) -> str:
    return str(st.query_params.get(name) or ", ".join(f"{value:g}" for value in default))


def _remember(values: dict[str, str], analyzers: list[str]) -> None:
    """Put what was changed into the address, so that a reload finds the same lab."""
    usual = {"analyzers": "|".join(analyzers), "windows": "0", "k1": _text(K1S), "b": _text(BS)}
    for name, value in values.items():
        if value != usual[name]:
            st.query_params[name] = value
        else:
            st.query_params.pop(name, None)


def _text(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)
