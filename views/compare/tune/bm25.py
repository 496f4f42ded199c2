"""The BM25 lab: which analyzer, which k1 and b, whether windows of sentences; and what analyzers make of a text."""

import pandas as pd
import streamlit as st

from retrieval.analysis.labs import BS, K1S, best, bm25_lab, numbers, tried
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.first_stage import BM25Spec, WindowedBM25Spec
from retrieval.lexical.terms import NAMED, readings
from text.analyzers import Analyzer
from views.compare.charts import heat
from views.compare.tune.bench import Bench, LabResult, draw_table, draw_verdict, figure_columns, names_of, run
from views.resources.retrieval import analyzers_of
from views.resources.sets import question_set
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.state import choose_several, typed
from views.ui.words import plain, word

_LONGEST_TEXT = 2000


def draw_readings(bench: Bench) -> None:
    with st.expander(word("tune.readings"), icon=":material/segment:"):
        text = st.text_area(
            word("tune.text"),
            question_set(bench.view.data.key).questions[0].text[:_LONGEST_TEXT],
            max_chars=_LONGEST_TEXT,
            height=80,
            help=word("tune.text_help"),
            key="lab_text",
        )
        with st.spinner(word("tune.reading")):
            found = readings(text)
        rows = [(str(analyzer), len(tokens), tokens) for analyzer, tokens in found.items()]
        columns = {
            "analyzer": tables.text("tune.analyzer", width="small", pinned=True),
            "count": tables.number("tune.token_count", width="small"),
            "tokens": st.column_config.ListColumn(word("tune.tokens"), width="large"),
        }
        tables.draw(pd.DataFrame(rows, columns=[*columns]), columns, row_height=44)


def draw_unmatched(found: LabResult) -> None:
    """Draw, for every analyzer of a lab, the questions none of whose terms is in a passage, or in their own."""
    specs = [spec for spec in tried(found.experiment) if isinstance(spec, BM25Spec | WindowedBM25Spec)]
    analyzers = list(dict.fromkeys(spec.analyzer for spec in specs))
    with st.expander(word("tune.unmatched"), icon=":material/search_off:"):
        st.caption(word("tune.unmatched_help"))
        counts = {analyzer: found.opened.unmatched(analyzer) for analyzer in analyzers}
        table = [(str(analyzer), len(rows.own), len(rows.anywhere)) for analyzer, rows in counts.items()]
        labels = [word(f"tune.{name}") for name in ("analyzer", "not_in_own", "not_anywhere")]
        columns = dict(zip(("analyzer", "own", "anywhere"), labels, strict=True))
        tables.draw(pd.DataFrame(table, columns=[*columns]), columns)
        with_some = [str(analyzer) for analyzer, rows in counts.items() if len(rows.own)]
        if not with_some:
            st.markdown(word("tune.all_matched"))
            return
        chosen = st.segmented_control(word("tune.analyzer"), with_some, default=with_some[0], key="lab_unmatched")
        _draw_questions(found, Analyzer(chosen or with_some[0]))


def _draw_questions(found: LabResult, analyzer: Analyzer) -> None:
    opened = found.opened
    rows = opened.unmatched(analyzer)
    nowhere = set(rows.anywhere.tolist())
    questions = [opened.question_set.questions[row] for row in rows.own]
    passages = [opened.question_set.passages[opened.question_set.row_of_passage[one.relevant[0]]] for one in questions]
    table = pd.DataFrame(
        {
            "question": [one.text for one in questions],
            "passage": [" · ".join(part for part in (one.title, one.text) if part) for one in passages],
            "anywhere": [row not in nowhere for row in rows.own.tolist()],
        }
    )
    columns = {
        "question": tables.text("column.question", "", width="medium"),
        "passage": tables.text("tune.own_passage", width="large"),
        "anywhere": tables.checkbox("tune.in_others"),
    }
    tables.draw(table, columns)


_WINDOWS = ("0", "1", "3")  # sentences; 0 is the whole passage
_MOST_K1 = 10.0


def draw(bench: Bench) -> None:
    names = names_of(bench, BM25Spec, WindowedBM25Spec)
    if not names:
        st.info(word("tune.needs_bm25"), icon=":material/info:")
        draw_readings(bench)
        return
    experiment = _pick(bench, names)
    found = run(bench, experiment) if experiment else None
    if found and experiment:
        _draw_found(bench, found, next(spec.name for spec in experiment.retriever if not spec.chosen_on))
        draw_unmatched(found)
    draw_readings(bench)


def _pick(bench: Bench, names: list[str]) -> Experiment | None:
    with st.container(border=True):
        present = st.selectbox(word("tune.present"), names, help=word("tune.present_help"), key="lab_bm25")
        with st.expander(word("tune.values")):
            analyzers = choose_several(
                st.pills,
                "analyzers",
                word("tune.analyzers"),
                [analyzer.value for analyzer in NAMED],
                [analyzer.value for analyzer in analyzers_of(bench.view.data.key)],
                help=word("tune.analyzers_help"),
                key="lab_analyzers",
            )
            windows = choose_several(
                st.pills,
                "windows",
                word("tune.windows"),
                _WINDOWS,
                _WINDOWS[:1],
                format_func=lambda length: word(f"tune.window_{length}"),
                help=word("tune.windows_help"),
                key="lab_windows",
            )
            left, right = st.columns(2)
            # in the address, so that a reload finds the same lab
            k1s, bs = (
                typed(
                    place.text_input, name, name, ", ".join(f"{one:g}" for one in usual), help=word(f"tune.{name}_help")
                )
                for place, name, usual in ((left, "k1", K1S), (right, "b", BS))
            )
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


def _draw_found(bench: Bench, found: LabResult, present: str) -> None:
    table, leader = found.table, best(found.table)
    answer = st.container()
    _draw_heat(bench, table, leader)
    name = draw_table(
        found,
        table.assign(window=[word(f"tune.window_{length}") for length in table["sentences"]]),
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
