"""What a comparison says in sentences: what beats the baseline, what a training brought, what must be said beside."""

from collections.abc import Sequence

import numpy as np
import streamlit as st

from data.split import Part
from retrieval.analysis.evidence import at_ceiling, usual_baseline, usual_figure
from retrieval.comparison.multistage import RerankSpec
from retrieval.comparison.spec import Spec
from retrieval.comparison.store import origin_of
from retrieval.evaluation.significance import PairTest
from views.choices import Choices
from views.compare.controls import run_words
from views.compare.scores import ComparisonView
from views.names import made_words
from views.ui.problems import failure_text
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


def draw_notices(view: ComparisonView, choices: Choices) -> None:
    """Say what failed, what has no figure, and what was made, trained or tuned on these questions."""
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
    part = view.comparison.experiment.split
    names = [result.name for result in view.results]
    if part is not Part.TEST and any(_is_trained(view, choices, name) for name in names):
        st.warning(word("compare.trained_on_these"), icon=":material/warning:")
    if tuned := [plain(name) for name in names if _is_tuned(view, name, part)]:
        st.warning(word("compare.tuned_on_these", names=", ".join(tuned)), icon=":material/warning:")


def draw_footnotes(view: ComparisonView) -> None:
    """Say what the figures leave open: questions that nothing was found for, what an imported run held, Recall."""
    for result in view.results:
        if result.unanswered and result in view.scored:
            st.caption(word("compare.unanswered", name=plain(result.name), questions=f"{result.unanswered:,}"))
        if result.notes:
            st.caption(f"{plain(result.name)}: {run_words(result.notes)}")
    if len(set((weights := _weights(view)).values())) > 1:
        listed = ", ".join(f"{plain(name)} {weight:g}" for name, weight in weights.items())
        st.caption(word("compare.weights_differ", weights=listed))
    several = (np.diff(view.comparison.question_set.relevance.indptr) > 1).any()
    st.caption(word("compare.recall_is_not_hit") if several else word("compare.recall_is_hit"))


def _weights(view: ComparisonView) -> dict[str, float]:
    """The share of the score that each reranker was given: by a person, by its training, or as is usual."""
    made = origin_of(view.opened.folder).get("retrievers")
    shown = {result.name for result in view.scored}
    rerankers = [one.name for one in view.comparison.experiment.retriever if isinstance(one, RerankSpec)]
    told = {name: made[name] for name in rerankers if name in shown and name in made} if isinstance(made, dict) else {}
    weights = {name: one.get("weight") for name, one in told.items() if isinstance(one, dict)}
    return {name: float(weight) for name, weight in weights.items() if isinstance(weight, int | float)}


def _is_trained(view: ComparisonView, choices: Choices, name: str) -> bool:
    """Whether a retriever, or one it wraps, is a model trained on this question set."""
    trained = {dict(choices.specs[known_name]).get("model") for known_name in choices.trained} - {None}
    return any(dict(spec).get("model") in trained for spec in view.comparison.experiment.needed([name]))


def _is_tuned(view: ComparisonView, name: str, part: Part) -> bool:
    """Whether values of a retriever, or of one it wraps, were chosen on some of the questions of `part`."""
    return any(spec.tuned_on(part) for spec in view.comparison.experiment.needed([name]))
