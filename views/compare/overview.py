"""The overview of a comparison: who finds more and how sure that is, on which kind of question, and one question."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from data.split import FOLDS
from retrieval.analysis.evidence import JUDGED, judged_measures, published, turned
from retrieval.analysis.slices import Property, most_telling
from retrieval.comparison.compare import Result
from retrieval.comparison.first_stage import DenseSpec
from retrieval.comparison.multistage import RerankSpec
from retrieval.comparison.spec import ReadingSpec
from retrieval.comparison.store import origin_of
from retrieval.evaluation.measures import Measure
from retrieval.evaluation.significance import PairTest
from views import reasons
from views.compare.charts import on_slices, signal_bars
from views.compare.controls import show_why
from views.compare.scores import ComparisonView, begin_judging, draw_table, draw_times, in_points, means, verdict_of
from views.compare.where import charted, telling_words, usual_property
from views.compare.why.questions import QuestionCase, listed
from views.names import answers_line, slice_names
from views.ui import charts, tables
from views.ui.charts import draw_chart
from views.ui.passages import draw_style
from views.ui.words import plain, word, word_or

_PASSED_OVER = ("other_questions", "unknown_passages", "repeated")  # of an imported run


def draw(view: ComparisonView) -> None:
    _draw_sentences(view)
    of = view.comparison
    told = means(view.results), len(of.question_set.questions), view.figure, of.experiment.ks
    draw_table(*told, against=view.against, intervals=view.opened.intervals)
    if view.scored:
        _draw_pictures(view)
        if len(view.scored) > 1:
            left, right = st.columns(2)
            with left:
                _draw_kinds(view)
            with right, st.container(border=True):
                _draw_question(view)
        _draw_others(view)
        for result in view.scored:
            if result.signals:
                _draw_mix(result, view.spec(result.name).parts)
        _draw_judged(view)
    _draw_published(view)
    _draw_footnotes(view)


def _draw_sentences(view: ComparisonView) -> None:
    """Say on which kind of question another is furthest above the baseline, and on which below, where that is sure."""
    by = usual_property(view)
    parts = view.opened.slices(by) if len(view.scored) > 1 else []
    if not parts:
        return
    figures, labels = _figures(view, by), slice_names(parts, by)
    sides = {"ahead": figures[figures["difference"] > 0], "behind": figures[figures["difference"] < 0]}
    said = [
        word(f"compare.finding_{side}", **telling_words(most, labels, by, view.baseline))
        for side, table in sides.items()
        if (most := most_telling(table)) is not None
    ]
    if said:
        st.markdown(" ".join(said))


def _draw_kinds(view: ComparisonView) -> None:
    by = usual_property(view)
    parts = view.opened.slices(by)
    if not parts:
        return
    st.markdown(f"**{word('compare.by_kind', by=word(f'where.by_{by.value}'), figure=view.figure.long)}**")
    drawn, rows = charted(_figures(view, by), slice_names(parts, by), 5)
    title = word("where.with_interval", figure=view.figure.long)
    draw_chart(on_slices, drawn, view.leading, view.names, rows, x=title)


def _figures(view: ComparisonView, by: Property) -> pd.DataFrame:
    """The figures by kind of question of those that lead, tested with all that are picked."""
    figures = view.opened.slice_figures(by, view.scored_names, str(view.figure))
    return figures[figures["retriever"].isin(view.leading)]


def _draw_mix(result: Result, parts: Sequence[str]) -> None:
    """Draw what a learned mix of `parts` is made of: each signal's share of the decision, and what is lost without."""
    st.markdown(f"**{word('compare.mix_title', name=plain(result.name))}**")
    signals = {name if name in parts else signal_words(name): told for name, told in result.signals.items()}
    rows = [(name, 100 * told["share"], 100 * told["brings"]) for name, told in signals.items()]
    table = pd.DataFrame(rows, columns=["signal", "share", "brings"]).sort_values("share", ascending=False)
    draw_chart(signal_bars, table, x=word("compare.mix_share"))
    st.caption(word("compare.mix_about", questions=f"{result.notes.get('questions', 0):,}", folds=FOLDS))
    with st.expander(word("compare.as_table")):
        columns = {
            "signal": tables.text("compare.mix_signal", width=tables.width_of(table["signal"]), pinned=True),
            "share": tables.number("compare.mix_share", "%.1f"),
            "brings": tables.number("compare.mix_brings", "%+.2f"),
        }
        tables.draw(table, columns)


def signal_words(name: str) -> str:
    """Return the words for a signal that is a mix's own, one thing of its BM25 changed."""
    return word_or(f"signal.{name.removeprefix('BM25 ').replace(' ', '_')}", name)


@st.fragment
def _draw_question(view: ComparisonView) -> None:
    """Draw the question disputed most by the baseline and the best dense retriever, or the best other without one."""
    first, *others = view.leading
    dense = [name for name in others if isinstance(view.spec(name).local, DenseSpec)]
    figures = {name: view.comparison.scores[name].means()[str(view.figure)] for name in dense or others}
    pair = (first, max(figures, key=figures.__getitem__))
    rows = view.opened.disputed_rows(pair, 1)
    if not rows:
        st.caption(word("compare.all_agree"))
        return
    case = QuestionCase(listed(view), rows[0])
    draw_style()
    st.caption(word("compare.disputed", names=plain(" · ".join(pair))))
    st.markdown("  \n".join(filter(None, (f"**{plain(case.question.text)}**", answers_line(case.question)))))
    by_rank = sorted(pair, key=lambda name: case.duel(name).right_rank or case.depth(name) + 1)
    with st.spinner(word("why.reading")):
        reasons.draw(case.asked, [view.spec(name) for name in by_rank], view.names)
    if st.button(word("compare.open_question"), icon=":material/arrow_forward:", type="tertiary", key="disputed"):
        show_why({"question": case.question.id})
        st.rerun()  # the whole page: another view is to be seen


def _draw_pictures(view: ComparisonView) -> None:
    detail, height = word("compare.retriever"), word(f"measure.{view.measure}")
    against = [test for test in view.against if test.a in view.leading]
    beside = [name for name in view.scored_names if name not in view.leading]
    ends = view.opened.intervals
    rows = [
        (result.name, *Measure.parse(measure), mean, *ends[result.name][measure])
        for result in view.results
        if result.scores
        for measure, mean in result.scores.means().items()
    ]
    every = pd.DataFrame(rows, columns=[detail, "measure", "K", "mean", "low", "high"])
    curve = every[every["measure"] == view.measure].rename(columns={"mean": height})
    left, right = st.columns(2)
    with left:
        if against:
            st.markdown(f"**{word('compare.forest', figure=view.figure.long, baseline=view.baseline)}**")
            differences = in_points(against).rename(columns={"a": detail})
            draw_chart(charts.forest, differences, view.names, x=word("compare.points"), detail=detail)
            st.caption(word("compare.forest_help"))
    with right:
        st.markdown(f"**{word('compare.curve', measure=height)}**")
        draw_chart(charts.curves, curve[~curve[detail].isin(beside)], view.names, x="K", y=height, detail=detail)
    if beside:
        st.caption(word("compare.only_in_table", names=plain(", ".join(beside))))
    with st.expander(word("compare.as_table")):
        st.caption(word("compare.interval_help"))
        figures = (100 * curve[[height, "low", "high"]]).itertuples(index=False)
        curve["text"] = [f"{value:.2f} [{low:.1f}, {high:.1f}]" for value, low, high in figures]
        st.dataframe(curve.pivot_table(index=detail, columns="K", values="text", aggfunc="first", sort=False))
        draw_times(view.results)
        _draw_tests(view.against)


def _draw_others(view: ComparisonView) -> None:
    """Draw the tests of every pair without the baseline: nothing is tested, and told, twice."""
    names = tuple(name for name in view.scored_names if name != view.baseline)
    if len(names) < 2:
        return
    with st.expander(word("compare.pairs", figure=view.figure.long)):
        st.caption(word("compare.pairs_help"))
        tests = view.opened.tests(names, str(view.figure))
        _draw_tests([turned(test) if test.difference < 0 else test for test in tests])  # the better one first


def _draw_published(view: ComparisonView) -> None:
    """Draw what others published for a set of this name beside what was measured here, marked as theirs."""
    asked = len(view.comparison.question_set.questions)
    for known in published(view.data.name):
        source = known.source
        here = {name: scores.means().get(source.measure) for name, scores in view.comparison.scores.items()}
        rows = [(name, word("published.here"), figure) for name, figure in here.items() if figure is not None]
        rows += [(name, word(f"published.{known.kinds[name]}"), figure) for name, figure in known.figures.items()]
        table = pd.DataFrame(rows, columns=["name", "kind", "figure"]).sort_values("figure", ascending=False)
        with st.expander(word("published.title", name=known.title)):
            st.caption(word("published.about", title=source.title, address=source.address, date=f"{source.date}"))
            if asked != known.questions:
                st.caption(word("published.others", theirs=f"{known.questions:,}", here=f"{asked:,}"))
            columns = {
                "name": tables.text("published.name", "", width=tables.width_of(table["name"]), pinned=True),
                "kind": tables.text("published.kind", ""),
                "figure": tables.measure(source.measure, Measure.parse(source.measure).long),
            }
            tables.draw(table.assign(figure=100 * table["figure"]).style.format("{:.2f}", subset=["figure"]), columns)


def _draw_tests(found: list[PairTest]) -> None:
    if not found:
        return
    table = in_points(found).assign(verdict=[verdict_of(test) for test in found])
    columns = {
        "a": tables.text("compare.first_of_pair", width=tables.width_of(table["a"]), pinned=True),
        "b": tables.text("compare.second_of_pair", width=tables.width_of(table["b"])),
        "verdict": tables.text("compare.verdict"),
        "difference": tables.number("compare.difference", "%+.2f"),
        **tables.interval("%+.2f", "compare.family_help"),
        "p_family": tables.p_family(),
        "p": st.column_config.NumberColumn(
            word("compare.p_alone"), format="%.4f", help=word("compare.p_randomization")
        ),
        **{name: tables.number(f"compare.{name}") for name in ("wins", "ties", "losses")},
    }
    tables.draw(table, columns)


def _draw_judged(view: ComparisonView) -> None:
    """Draw the figures of what was judged; where only relevant passages are known, what that means."""
    judged = judged_measures({result.name: result.scores for result in view.scored if result.scores})
    if view.comparison.question_set.judged is None:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(word("compare.only_relevant"), width="stretch")
            begin_judging(view)
    if JUDGED not in judged:
        return
    st.markdown(f"**{word('compare.judged')}**")
    st.caption(word("compare.judged_about"))
    table = means(view.scored)
    table["unjudged"] = 1 - table[JUDGED]
    shown = [JUDGED, "unjudged", *(one for one in judged if one != JUDGED)]
    table[shown] *= 100
    columns = {
        "retriever": tables.retriever(width=tables.width_of(table["retriever"])),
        JUDGED: tables.measure(JUDGED),
        "unjudged": tables.number("compare.unjudged", "%.2f"),
        **{one: tables.measure(one) for one in judged if one != JUDGED},
    }
    tables.draw(table.style.format(dict.fromkeys(shown, "{:.2f}"), na_rep="–"), columns, placeholder="–")
    if not view.opened.at_disadvantage:
        begin_judging(view)


def _draw_footnotes(view: ComparisonView) -> None:
    """Say what the figures leave open: questions that nothing was found for, what an imported run held, Recall."""
    for result in view.results:
        if result.unanswered and result in view.scored:
            st.caption(word("compare.unanswered", name=plain(result.name), questions=f"{result.unanswered:,}"))
        for name, part, questions in view.comparison.blind:
            if name == result.name:
                st.caption(word("compare.blind", name=plain(name), part=plain(part), questions=f"{questions:,}"))
        if result.imported:
            notes = result.notes  # see `retrieval.trec.run.Notes`
            told = [word("imported.read", questions=f"{notes['questions']:,}", depth=f"{notes['depth']:,}")]
            told += [word(f"imported.{name}", count=f"{notes[name]:,}") for name in _PASSED_OVER if notes.get(name)]
            st.caption(f"{plain(result.name)}: {' '.join(told)}")
    _draw_cut_off(view)
    if len(set((weights := _weights(view)).values())) > 1:
        listed = ", ".join(f"{plain(name)} {weight:g}" for name, weight in weights.items())
        st.caption(word("compare.weights_differ", weights=listed))
    several = (np.diff(view.comparison.question_set.relevance.indptr) > 1).any()
    st.caption(word("compare.recall_is_not_hit") if several else word("compare.recall_is_hit"))
    asked = view.comparison.question_set.questions
    for name, holds in (("graded", any(one.grades for one in asked)), ("grouped", any(one.groups for one in asked))):
        if holds:
            st.caption(word(f"compare.{name}", grade=view.comparison.experiment.relevant_from))


def _draw_cut_off(view: ComparisonView) -> None:
    """Say which of the retrievers shown read only the beginning of long passages, or wrap one that does."""
    shown = {result.name for result in view.results}
    passages = f"{len(view.comparison.question_set.passages):,}"
    for name, count, around in view.comparison.cut_off:
        wraps = [plain(other) for other in around if other in shown]
        if name in shown or wraps:
            said = [word("compare.cut_off", name=plain(name), count=f"{count:,}", passages=passages)]
            said += [word("compare.cut_off_too", names=", ".join(wraps))] if wraps else []
            if isinstance(view.spec(name), ReadingSpec):
                said.append(word("compare.cut_off_help", windows=word("compare.windows")))
            st.caption(" ".join(said))


def _weights(view: ComparisonView) -> dict[str, float]:
    """The share of the score that each reranker was given: by a person, by its training, or as is usual."""
    made = origin_of(view.opened.folder).get("retrievers")
    shown = {result.name for result in view.scored}
    rerankers = [one.name for one in view.comparison.experiment.retriever if isinstance(one, RerankSpec)]
    told = {name: made[name] for name in rerankers if name in shown and name in made} if isinstance(made, dict) else {}
    weights = {name: one.get("weight") for name, one in told.items() if isinstance(one, dict)}
    return {name: float(weight) for name, weight in weights.items() if isinstance(weight, int | float)}
