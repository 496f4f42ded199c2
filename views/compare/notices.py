"""What must be said beside the figures of a comparison, so that nobody reads more into them than they say."""

import numpy as np
import streamlit as st

from data.split import Part
from retrieval.comparison.kinds.multistage import RerankSpec
from retrieval.comparison.store import origin_of
from views.choices import Choices
from views.compare.adding import run_words
from views.compare.scores import ComparisonView
from views.names import made_words
from views.ui.problems import failure_text
from views.ui.words import plain, word


def draw(view: ComparisonView, choices: Choices) -> None:
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
