"""The answer of a comparison in a sentence or two: what beats the baseline, what a training brought, how sure it is."""

from collections.abc import Sequence

import streamlit as st

from retrieval.analysis.evidence import usual_baseline
from retrieval.analysis.figures import at_ceiling, usual_figure
from retrieval.comparison.kinds.spec import Spec
from retrieval.evaluation.significance import PairTest
from views.choices import Choices
from views.compare.scores import ComparisonView
from views.ui.state import remember
from views.ui.words import plain, signed, word


def draw(view: ComparisonView, choices: Choices) -> None:
    """Say whether anything beats the baseline; of what was trained, what that brought; and where nothing can be seen.

    How sure a difference is, is that of the tables' tests.
    """
    test = view.best_test
    if test is None:
        return
    trained = [name for name in view.leading if name in choices.trained]
    best = max(trained, key=lambda name: view.comparison.scores[name].means()[str(view.figure)], default="")
    said = _of_trained(view, choices, best) if best else _of_best(view, test)
    st.markdown(said)
    _draw_ceiling(view)


def _of_best(view: ComparisonView, best: PairTest) -> str:
    sure = ("more" if best.difference > 0 else "less") if best.sure else "unsure"
    sure = sure if best.wins or best.losses else "same"
    values = {"best": plain(best.a), "first": plain(best.b), "questions": _questions(view)}
    return word(f"compare.answer_{sure}", figure=view.figure.long, **values, **_difference(best))


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
    parts = tuple(untrained(part, choices) if part in choices.trained else part for part in spec.parts)
    model = plan.options.base if "model" in dict(spec) else None

    def same(other: Spec) -> bool:
        return other.kind == spec.kind and other.parts == parts and dict(other).get("model") == model

    return next((one.name for one in choices.specs.values() if one.name not in choices.trained and same(one)), "")


def untrained_of(names: Sequence[str], choices: Choices) -> list[str]:
    """Return what the trained ones of the retrievers were before."""
    return [before for name in names if name in choices.trained and (before := untrained(name, choices))]


def _gain(test: PairTest, key: str) -> str:
    side = "more" if test.difference > 0 else "less"
    how = (side if test.sure else f"maybe_{side}") if test.wins or test.losses else "same"
    return word(f"compare.gain_{how}", other=word(key, name=plain(test.b)), **_difference(test))


def _difference(test: PairTest) -> dict[str, str]:
    points = f"{abs(test.difference) * 100:.1f}"
    return {"points": points, "low": signed(test.low), "high": signed(test.high)}


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
        if (finer := view.telling) != view.figure:
            label = word("compare.look_finer", figure=finer.long)
            st.button(label, on_click=remember, args=("k", str(finer.cut)), type="tertiary", key="finer")
