"""The questions of the Why tab: filters read from the address, the map of ranks, and a single question."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from mrc_workbench.data.records import Passage, Question
from mrc_workbench.retrieval.analysis import questions
from mrc_workbench.retrieval.analysis.questions import Quadrant, RankBlock, RetrievalOutcome, SliceProperty
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.explain.standing import PassagePair
from mrc_workbench.retrieval.rankings import QueryHits
from mrc_workbench.retrieval.report.charts import TEXT_COLOUR, legend
from mrc_workbench.workbench.views.choices import without_weak_baselines
from mrc_workbench.workbench.views.compare.controls import change_address
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.names import slice_names, with_display_names
from mrc_workbench.workbench.views.search.answer import QuestionResults
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.words import plain, word

# From light to dark, so that the order is visible without colour
_COLOURS = ("#a8ddb5", "#7bccc4", "#4eb3d3", "#2b8cbe", "#3f66ae", "#7a4fa8", "#a1126f")


@dataclass(frozen=True)
class Filter:
    """The rows of the questions that pass a filter, and its description as Markdown."""

    rows: np.ndarray
    text: str


@dataclass(frozen=True)
class QuestionList:
    """The retrievers with rankings, the pair to compare, the values of the filter widgets, and the valid filters."""

    view: ComparisonView
    names: tuple[str, ...]
    pair: tuple[str, str]
    quadrant: Quadrant | None
    block: RankBlock | None
    grouping: SliceProperty | None
    within: int | None  # index of the slice
    words: str
    filters: Sequence[Filter]

    @property
    def mask(self) -> np.ndarray:
        """Whether each question passes the filters, `(n_questions,)` bool."""
        count = len(self.view.comparison.question_set.questions)
        rows = reduce(np.intersect1d, [item.rows for item in self.filters], np.arange(count))
        return np.isin(np.arange(count), rows)

    def describe(self) -> str:
        return " · ".join(item.text for item in self.filters)


def read_question_list(view: ComparisonView) -> QuestionList:
    """Read the address. At least one retriever must have rankings."""
    opened = view.opened
    k = view.k
    filters = list[Filter]()
    labels = {name: plain(displayed) for name, displayed in view.display_names.items()}
    names = tuple(result.name for result in view.results if result.rankings)
    first = _allowed_value("a", names) or (view.baseline if view.baseline in names else names[0])
    others = tuple(name for name in names if name != first)
    second = _allowed_value("b", others)
    if not second:
        compared = (first, *([name for name in without_weak_baselines(names) if name != first] or others))
        second = compared[questions.most_different_retriever(opened.ranks(compared).ranks, 0, k)]
    pair = (first, second)
    quadrant = Quadrant(value) if (value := _allowed_value("quadrant", tuple(Quadrant))) else None
    if quadrant:
        text = word(f"why.filter_{quadrant.value}", a=labels[first], b=labels[second], k=k)
        filters.append(Filter(opened.quadrants(pair, k)[quadrant], text))
    block_key = st.query_params.get("block", "")
    blocks = opened.ranks(names).blocks() if block_key else []
    block = next((block for block in blocks if block_name(names, block) == block_key), None)
    if block:
        text = word("why.filter_block", name=labels[names[block.column]], band=band_words(block.band))
        filters.append(Filter(opened.ranks(names).order[block.start : block.end], text))
    fate = _allowed_value("fate", questions.OUTCOMES)
    fate_retriever = _allowed_value("of", names)
    fates: dict[str, np.ndarray] = {}
    with suppress(ValueError):  # an imported run may have fewer hits
        fates = opened.outcomes(k) if fate else {}
    if fate_retriever in fates:
        rows = np.flatnonzero(fates[fate_retriever] == questions.OUTCOMES.index(RetrievalOutcome(fate)))
        filters.append(Filter(rows, word(f"why.filter_{fate}", name=labels[fate_retriever], k=k)))
    grouping = SliceProperty(value) if (value := _allowed_value("slice", tuple(SliceProperty))) else None
    index = str(st.query_params.get("within", ""))
    parts = opened.slices(grouping) if grouping and index.isdecimal() else []
    within = int(index) if parts and int(index) < len(parts) else None
    if grouping and within is not None:
        label = plain(slice_names(parts, grouping)[within])
        filters.append(Filter(parts[within].rows, f"{word(f'where.by_{grouping.value}')}: {label}"))
    words = str(st.query_params.get("words", ""))[:200].strip()
    if words:
        filters.append(Filter(opened.rows_with_text(words), word("why.filter_words", words=plain(words))))
    return QuestionList(view, names, pair, quadrant, block, grouping, within, words, filters)


def block_name(names: tuple[str, ...], block: RankBlock) -> str:
    return f"{block.start}-{block.end} {names[block.column]}"


def band_words(band: int) -> str:
    if band == len(questions.BANDS):
        return word("why.band_beyond", rank=questions.BANDS[-1])
    if band == 0:
        return word("why.band_first")
    return word("why.band", first=questions.BANDS[band - 1] + 1, last=questions.BANDS[band])


def _allowed_value(name: str, allowed: tuple[str, ...]) -> str:
    value = st.query_params.get(name, "")
    return value if value in allowed else ""


@dataclass(frozen=True)
class QuestionCase:
    """The question at `row` of the comparison."""

    question_list: QuestionList
    row: int

    @property
    def view(self) -> ComparisonView:
        return self.question_list.view

    @property
    def key(self) -> str:
        return self.view.data.key

    @property
    def question(self) -> Question:
        return self.view.comparison.question_set.questions[self.row]

    @cached_property
    def relevant(self) -> tuple[int, ...]:
        return tuple(self.view.comparison.question_set.row_of_passage[id_] for id_ in self.question.relevant)

    @cached_property
    def findings(self) -> dict[str, QueryHits]:
        rankings = self.view.comparison.rankings.items()
        return {name: QueryHits.from_rankings(ranking, self.row) for name, ranking in rankings}

    @cached_property
    def results(self) -> QuestionResults:
        depths = {name: self.depth(name) for name in self.findings}
        among = self.view.comparison.question_set
        return QuestionResults(self.key, self.question.text, self.relevant, self.findings, depths, among)

    def depth(self, name: str) -> int:
        rankings = self.view.comparison.rankings.get(name)
        return rankings.indices.shape[1] if rankings else 0

    def passage(self, row: int) -> Passage:
        return self.view.comparison.question_set.passages[row]

    def passage_name(self, row: int) -> str:
        passage = self.passage(row)
        return " · ".join(filter(None, (passage.title, passage.id)))

    def spec(self, name: str) -> Spec:
        """Return the spec of a retriever; for Milvus, the local spec with the same scores."""
        return self.view.spec(name).local_spec

    def passage_pair(self, name: str, against: int | None = None) -> PassagePair:
        return self.results.passage_pair(name, against)


def draw_map(question_list: QuestionList) -> None:
    ranks = question_list.view.opened.ranks(question_list.names).ranks
    everywhere_first = int((ranks == 1).all(axis=1).sum())  # the first columns of the map
    count = len(question_list.view.comparison.question_set.questions)
    left, right = st.columns([5, 3], vertical_alignment="center")
    with left:
        tables.draw_heading(word("why.map"), help=word("why.map_help"))
    kwargs: dict[str, Any] = {"disabled": everywhere_first in (0, count), "key": "why_zoom"}
    kwargs["help"] = word("why.map_zoom_help", count=f"{everywhere_first:,}")
    kwargs["on_change"] = lambda: change_address({"map": "apart" if st.session_state["why_zoom"] else ""})
    zoomed = right.toggle(word("why.map_zoom"), value=st.query_params.get("map") == "apart", **kwargs)
    first = everywhere_first if zoomed and everywhere_first < count else 0
    # A chart keeps its selection as long as it keeps its key
    key = f"why_map_{'-'.join(question_list.names)}_{first}_{bool(question_list.block)}"

    def choose() -> None:
        selected = st.session_state[key]["selection"].get("block") or [{"block": ""}]
        change_address({"block": selected[0]["block"], "question": ""})

    blocks = with_display_names(_blocks(question_list, first), question_list.view.display_names)
    names = tuple(question_list.view.labels_for(question_list.names))
    charts.draw_chart(_rank_map, blocks, names, first, count, key=key, on_select=choose, selection_mode="block")
    with st.expander(word("compare.as_table")):
        bands = [band_words(band) for band in range(len(questions.BANDS) + 1)]
        table = pd.DataFrame(questions.band_counts(ranks), columns=bands)
        table.insert(0, "retriever", list(question_list.names))
        counts = dict.fromkeys(bands, st.column_config.NumberColumn(format="localized"))
        tables.draw(table, {"retriever": tables.retriever(), **counts})


def _blocks(question_list: QuestionList, first: int) -> pd.DataFrame:
    names = question_list.names
    selected = question_list.block
    rows = [
        (names[block.column], max(block.start, first), block.end, block.band, block_name(names, block))
        for block in question_list.view.opened.ranks(names).blocks()
        if block.end > first
    ]
    table = pd.DataFrame(rows, columns=["retriever", "start", "end", "position", "block"])
    table["band"] = table["position"].map(band_words)
    table["count"] = table["end"] - table["start"]
    table["selected"] = table["block"] == (block_name(names, selected) if selected else "")
    return table


def _rank_map(table: pd.DataFrame, names: tuple[str, ...], first: int, count: int) -> alt.Chart:
    bands = [band_words(band) for band in range(len(questions.BANDS) + 1)]
    selection = alt.selection_point(name="block", fields=["block"])
    count_title = word("data_page.questions_axis")
    rank = word("why.rank_of_answer")
    colours = alt.Scale(domain=bands, range=list(_COLOURS))
    keys = legend(title=rank, columns=1, symbolStrokeWidth=0)  # fits on a phone
    x_scale = alt.Scale(domain=[first, count], nice=False)
    axis = alt.Axis(grid=False, tickMinStep=1)
    base = alt.Chart(table).encode(
        y=alt.Y("retriever:N", sort=list(names), title=None, axis=alt.Axis(labelLimit=220)),
        x=alt.X("start:Q", title=count_title, scale=x_scale, axis=axis),
        x2="end",
        color=alt.Color("band:N", scale=colours, legend=keys),
        strokeWidth=alt.condition("datum.selected", alt.value(3), alt.value(0)),
        opacity=alt.condition(selection, alt.value(1), alt.value(0.45)),
        tooltip=charts.tooltips(("retriever", word("compare.retriever")), ("band", rank), ("count", count_title, ",")),
    )
    # For screen readers: how many of the displayed questions each retriever ranks first
    firsts = table[table["position"] == 0].groupby("retriever")["count"].sum()
    rows = [f"{name} {int(firsts.get(name, 0)):,} / {count - first:,}" for name in names]
    description = charts.describe(f"{rank}: {band_words(0)}", rows)
    marks = base.mark_rect(cursor="pointer", stroke=TEXT_COLOUR).add_params(selection)
    return marks.properties(height=40 * len(names) + 240, description=description)
