"""The headline of Compare: which retriever to use, how sure that is, and what training brought."""

import streamlit as st

from mrc_workbench.retrieval.analysis.evidence import at_ceiling, telling_figure, usual_baseline, usual_figure
from mrc_workbench.retrieval.evaluation.significance import PairTest
from mrc_workbench.retrieval.report.words import headline_words, markdown_style
from mrc_workbench.workbench.views.choices import Choices
from mrc_workbench.workbench.views.compare.scores import ComparisonView, untrained
from mrc_workbench.workbench.views.names import retriever_name
from mrc_workbench.workbench.views.ui.state import remember
from mrc_workbench.workbench.views.ui.words import language, plain, signed, word


def draw_headline(view: ComparisonView, choices: Choices, *, more_offered: bool = False) -> None:
    """Draw the recommendation, the largest text under the title, and what is to be known beside it.

    `more_offered` if the page offers to compare other retrievers as well: then nobody is asked to select one.
    """
    found = view.recommendation
    if found is None:
        return
    style = markdown_style(language(), lambda name: plain(retriever_name(name)))
    words = headline_words(found, style, view.opened.intervals[found.name][str(found.measure)])
    with st.container(key="headline", gap="small"):
        st.markdown(words.answer)
        notes = list(words.notes)
        if not found.compared and not more_offered:
            notes.append(word("compare.pick_another"))
        if trained := _of_training(view, choices):
            notes.append(trained)
        for note in notes:
            st.caption(note)
        _draw_ceiling(view)


def _of_training(view: ComparisonView, choices: Choices) -> str:
    """Say what the best trained retriever gained over itself before training, and over the baseline or BM25."""
    trained = [name for name in view.ranked if name in choices.trained]
    if not trained:
        return ""
    best = trained[0]
    before = untrained(best, choices)
    others = dict.fromkeys((before, view.baseline, usual_baseline(view.comparison)))
    tests = [test for name in others if name != best and (test := view.test(best, name))][:2]
    gains = [_gain(test, "compare.before_training" if test.b == before else "compare.as_it_is") for test in tests]
    values = {
        "best": plain(retriever_name(best)),
        "figure": view.figure.long,
        "questions": f"{len(view.comparison.question_set.questions):,}",
    }
    said = word("compare.answer_trained", gains=word("compare.gain_and").join(gains), **values) if gains else ""
    if before and before not in view.scored_names:
        said = f"{said} {word('compare.pick_untrained', name=plain(retriever_name(before)))}".strip()
    return said


def _gain(test: PairTest, key: str) -> str:
    side = "more" if test.difference > 0 else "less"
    how = (side if test.sure else f"maybe_{side}") if test.wins or test.losses else "same"
    interval = {"low": signed(test.low), "high": signed(test.high)}
    points = f"{abs(test.difference) * 100:.1f}"
    other = word(key, name=plain(retriever_name(test.b)))
    return word(f"compare.gain_{how}", other=other, points=points, **interval)


def _draw_ceiling(view: ComparisonView) -> None:
    """If all retrievers find nearly everything, say so and offer the metric that still tells them apart."""
    scores = {name: view.comparison.scores[name] for name in view.leading}
    ks = view.comparison.experiment.ks
    default = usual_figure(view.measure, ks)
    if view.k < default.cut and at_ceiling(scores, default):
        st.caption(word("compare.ceiling_left", figure=default.long, shown=view.figure.long))
    if not at_ceiling(scores, view.figure):
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(word("compare.saturated", figure=view.figure.long), width="content")
        finer = telling_figure(scores, ks, view.figure)
        if finer != view.figure:
            label = word("compare.look_finer", figure=finer.long)
            st.button(label, on_click=remember, args=("k", str(finer.cut)), type="tertiary", key="finer")
