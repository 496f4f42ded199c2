"""A finished comparison as every view of the page is given it: its scores as a table, and what it says in sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import streamlit as st

from data.split import Part
from data.store import StoredSet
from retrieval.analysis.evidence import (
    JUDGED,
    Intervals,
    at_ceiling,
    telling_figure,
    turned,
    usual_baseline,
    usual_figure,
)
from retrieval.analysis.open_comparison import OpenComparison
from retrieval.comparison.compare import Comparison, Result
from retrieval.comparison.spec import Spec
from retrieval.evaluation.measures import CUT, Measure
from retrieval.evaluation.significance import PairTest
from views.choices import Choices, without_plainest
from views.names import made_words
from views.search.judging import draw_begin
from views.ui import tables
from views.ui.problems import failure_text
from views.ui.state import remember
from views.ui.words import plain, signed, word


@dataclass(frozen=True)
class ComparisonView:
    """A comparison, the retrievers picked of it, and the figure looked at.

    `names` are all that can be picked, in the order that gives each its colour; `measure` is "recall", "hit", "mrr",
    "ndcg" or "ndcg_exp"; the others are told against the `baseline`.
    """

    data: StoredSet
    opened: OpenComparison  # all that can be asked of it
    results: tuple[Result, ...]
    names: tuple[str, ...]
    measure: str
    k: int
    baseline: str

    @property
    def comparison(self) -> Comparison:
        return self.opened.comparison

    @property
    def figure(self) -> Measure:
        return Measure(self.measure, self.k)

    @cached_property
    def against(self) -> list[PairTest]:
        return self.opened.tests(self.scored_names, str(self.figure), self.baseline)

    @cached_property
    def scored(self) -> tuple[Result, ...]:
        """The results that have the figure looked at: a retriever that failed, or is not deep enough, has none."""
        return tuple(one for one in self.results if one.scores and str(self.figure) in one.scores.per_question)

    @property
    def scored_names(self) -> tuple[str, ...]:
        """Names of those, the baseline first."""
        return tuple(sorted((one.name for one in self.scored), key=lambda name: name != self.baseline))

    @property
    def leading(self) -> tuple[str, ...]:
        """Names of those that sentences and pictures are about, the baseline first: see `without_plainest`."""
        kept = without_plainest(self.scored_names)
        return tuple(name for name in self.scored_names if name in kept or name == self.baseline)

    @property
    def best_test(self) -> PairTest | None:
        """What a sentence about all questions tells: the largest sure gain over the baseline, else the largest."""
        tests = [test for test in self.against if test.a in self.leading]
        surely_above = [test for test in tests if test.sure and test.difference > 0]
        return max(surely_above or tests, key=lambda test: test.difference, default=None)

    def test(self, a: str, b: str) -> PairTest | None:
        """Return the test of a pair from the side of `a`, of the family that the tables show it in; None without it."""
        others = tuple(name for name in self.scored_names if name != self.baseline)
        tests = self.against if self.baseline in (a, b) else self.opened.tests(others, str(self.figure))
        found = next((test for test in tests if {test.a, test.b} == {a, b}), None)
        return turned(found) if found and found.a != a else found

    def spec(self, name: str) -> Spec:
        return self.comparison.experiment.specs[name]


_FIGURE_WIDTHS = {f"mrr@{CUT}": 76, f"ndcg@{CUT}": 84}  # pixels


def means(found: Sequence[Result]) -> pd.DataFrame:
    """One row a retriever: its name, every measure (0 to 1) and its times; nothing but the name where it failed."""
    return pd.DataFrame([{"retriever": result.name, **result.figures} for result in found])


def in_points(tests: Sequence[PairTest]) -> pd.DataFrame:
    """One row a test with its fields, the difference and its interval in percentage points."""
    table = pd.DataFrame(tests)
    table[["difference", "low", "high"]] *= 100
    return table


def draw_table(
    table: pd.DataFrame,
    questions: int,
    figure: Measure,
    ks: Sequence[int],
    *,
    against: Sequence[PairTest] = (),
    intervals: Mapping[str, Intervals] | None = None,
) -> None:
    """Draw the figure of `means` with its interval and what the tests `against` the baseline say, the highest first.

    Beside it the same measure at the first few of `ks`, MRR and nDCG, in percent, but for what all find entirely; the
    best of a column is bold, where not all are equal. More of `ks`, and times, are in the table: a page as wide as a
    notebook's screen has room for no more.
    """
    of_figure, measures = str(figure), [f"{figure.name}@{k}" for k in ks]
    measures += [one for one in (f"mrr@{CUT}", f"ndcg@{CUT}") if one not in measures]
    table = table.reindex(columns=["retriever", of_figure, *measures, "build_seconds", "query_seconds"])
    table = table.loc[:, ~table.columns.duplicated()]
    table["per_question"] = table.pop("query_seconds") / questions * 1000
    tests = {test.a: test for test in against}
    baseline = next((test.b for test in against), "")
    verdicts = {name: verdict_of(test) for name, test in tests.items()} | {baseline: word("compare.is_baseline")}
    table["verdict"] = [verdicts.get(name, "") for name in table["retriever"]]
    ends = [(intervals or {}).get(name, {}).get(of_figure) for name in table["retriever"]]
    table["interval"] = [f"{100 * one[0]:.1f} – {100 * one[1]:.1f}" if one else "" for one in ends]
    table["looked_at"] = table[of_figure]
    table = table.sort_values("looked_at", ascending=False, kind="stable", ignore_index=True)
    shares = ["looked_at", *measures]
    table[shares] *= 100
    bold = [column for column in shares if table[column].round(2).nunique() > 1]
    styled = table.style.highlight_max(subset=pd.IndexSlice[:, bold], props=tables.BOLD)
    deep = {f"{figure.name}@{k}" for k in ks[4:]}  # of the measure looked at
    beside = [one for one in measures if one not in {of_figure, *deep} and not (table[one].round(2) == 100).all()]
    columns = {
        "retriever": tables.retriever(width=tables.width_of(table["retriever"])),
        "looked_at": tables.measure(of_figure, figure.long, width=85),
        **({"interval": tables.text("compare.interval", "compare.interval_help", width=100)} if intervals else {}),
        **({"verdict": tables.text("compare.verdict", width=100)} if against else {}),
        **{column: tables.measure(column, width=_FIGURE_WIDTHS.get(column, 64)) for column in beside},
    }
    st.dataframe(
        styled.format("{:.2f}", subset=[*shares, "build_seconds", "per_question"], na_rep="–"),
        hide_index=True,
        placeholder="–",
        column_order=[*columns],
        column_config=columns,
    )


def draw_times(shown: Sequence[Result]) -> None:
    table = means(shown)
    if "build_seconds" not in table:
        return
    questions = next((len(result.rankings.indices) for result in shown if result.rankings), 1)
    table["per_question"] = table["query_seconds"] / questions * 1000
    columns = {
        "retriever": tables.retriever(width=tables.width_of(table["retriever"])),
        "build_seconds": tables.number("compare.build", "%.2f", explained_by="help.build"),
        "per_question": tables.number("compare.per_question", "%.2f", explained_by="help.per_question"),
    }
    tables.draw(table, columns, placeholder="–")


def verdict_of(test: PairTest) -> str:
    if not test.sure:
        return word("compare.unsure")
    return word("compare.higher" if test.difference > 0 else "compare.lower")


def draw_answer(view: ComparisonView, choices: Choices) -> None:
    """Say what beats the baseline and what training brought, as sure as the tables have it; and where none is seen."""
    test = view.best_test
    if test is None:
        return
    trained = [name for name in view.leading if name in choices.trained]
    best = max(trained, key=lambda name: view.comparison.scores[name].means()[str(view.figure)], default="")
    if best:
        st.markdown(_of_trained(view, choices, best))
    else:
        sure = ("more" if test.difference > 0 else "less") if test.sure else "unsure"
        sure = sure if test.wins or test.losses else "same"
        values = {"best": plain(test.a), "first": plain(test.b), "questions": _questions(view)}
        st.markdown(word(f"compare.answer_{sure}", figure=view.figure.long, **values, **_difference(test)))
    _draw_ceiling(view)


def _of_trained(view: ComparisonView, choices: Choices, best: str) -> str:
    """Say what the best of the trained gained over itself before the training, and over the baseline or BM25."""
    before = untrained(best, choices)
    others = dict.fromkeys((before, view.baseline, usual_baseline(view.comparison)))
    told = [test for name in others if name != best and (test := view.test(best, name))][:2]
    gains = [_gain(test, "compare.before_training" if test.b == before else "compare.as_it_is") for test in told]
    values = {"best": plain(best), "figure": view.figure.long, "questions": _questions(view)}
    said = word("compare.answer_trained", gains=word("compare.gain_and").join(gains), **values)
    missing = before and before not in view.scored_names
    return f"{said} {word('compare.pick_untrained', name=plain(before))}" if missing else said


def untrained(name: str, choices: Choices) -> str:
    """Return what a trained retriever was before its training, of all that can be picked; empty where that is none."""
    spec, plan = choices.specs[name], choices.trained[name]
    parts = tuple(dict.fromkeys(untrained(one, choices) if one in choices.trained else one for one in spec.parts))
    model = plan.options.base if "model" in dict(spec) else None

    def same(other: Spec) -> bool:
        return other.kind == spec.kind and other.parts == parts and dict(other).get("model") == model

    return next((one.name for one in choices.specs.values() if one.name not in choices.trained and same(one)), "")


def untrained_of(names: Sequence[str], choices: Choices) -> list[str]:
    return [before for name in names if name in choices.trained and (before := untrained(name, choices))]


def _gain(test: PairTest, key: str) -> str:
    side = "more" if test.difference > 0 else "less"
    how = (side if test.sure else f"maybe_{side}") if test.wins or test.losses else "same"
    return word(f"compare.gain_{how}", other=word(key, name=plain(test.b)), **_difference(test))


def _difference(test: PairTest) -> dict[str, str]:
    return {"points": f"{abs(test.difference) * 100:.1f}", "low": signed(test.low), "high": signed(test.high)}


def _questions(view: ComparisonView) -> str:
    return f"{len(view.comparison.question_set.questions):,}"


def _draw_ceiling(view: ComparisonView) -> None:
    """Where all find nearly everything, say so and offer what still tells them apart."""
    scores = {name: view.comparison.scores[name] for name in view.leading}
    usual = usual_figure(view.measure, view.comparison.experiment.ks)
    if view.k < usual.cut and at_ceiling(scores, usual):
        st.caption(word("compare.ceiling_left", figure=usual.long, shown=view.figure.long))
    if not at_ceiling(scores, view.figure):
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(word("compare.saturated", figure=view.figure.long), width="content")
        if (finer := telling_figure(scores, view.comparison.experiment.ks, view.figure)) != view.figure:
            label = word("compare.look_finer", figure=finer.long)
            st.button(label, on_click=remember, args=("k", str(finer.cut)), type="tertiary", key="finer")


def draw_notices(view: ComparisonView, choices: Choices) -> None:
    """Say what speaks against the figures; of which retrievers too little is judged, with the way to judge more."""
    for result in view.results:
        if result.error is not None:
            reason = plain(failure_text(result.error))
            st.error(word("compare.failed", name=plain(result.name), reason=reason), icon=":material/error:")
        elif result not in view.scored:
            told = word("compare.not_deep_enough", name=plain(result.name), figure=view.figure.long)
            st.info(told, icon=":material/info:")
    asked = view.comparison.question_set
    if asked.made:
        st.warning(made_words(asked.made, len(asked.questions)), icon=":material/auto_awesome:")
    experiment = view.comparison.experiment
    specs = {result.name: experiment.needed([result.name]) for result in view.results}  # those it wraps included
    trained = {dict(choices.specs[name]).get("model") for name in choices.trained} - {None}
    asked_of = {dict(spec).get("model") for of in specs.values() for spec in of}
    if experiment.split is not Part.TEST and asked_of & trained:
        st.warning(word("compare.trained_on_these"), icon=":material/warning:")
    if tuned := [plain(name) for name, of in specs.items() if any(spec.tuned_on(experiment.split) for spec in of)]:
        st.warning(word("compare.tuned_on_these", names=", ".join(tuned)), icon=":material/warning:")
    behind = [test for test in view.opened.at_disadvantage if test.a in view.scored_names]
    if behind:
        shares = {name: 100 * of.means().get(JUDGED, 0.0) for name, of in view.comparison.scores.items()}
        names = ", ".join(f"{plain(test.a)} ({shares[test.a]:.0f}%)" for test in behind)
        best = behind[0].b
        said = word("compare.behind", names=names, best=plain(best), share=f"{shares[best]:.0f}", k=CUT)
        st.warning(said, icon=":material/balance:")
        begin_judging(view)


def begin_judging(view: ComparisonView) -> None:
    draw_begin(view.data, view.opened.folder.name, len(view.comparison.question_set.questions))
