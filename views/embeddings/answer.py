"""The answer of an evaluation in one sentence: which model follows people best, by how much, and how sure that is."""

import streamlit as st

from embeddings.bootstrap import Difference
from embeddings.results import ModelResult
from views.embeddings.evaluation_view import ACCURACY, EvaluationView
from views.embeddings.figures import turned
from views.embeddings.models import has_seen
from views.ui.words import plain, word


def draw(view: EvaluationView) -> None:
    """Say which model is best by the measure looked at; and what else bears on that."""
    known = {name: one for name, one in view.measured.items() if view.measure in one.figures}
    if known:
        st.markdown(_sentence(view, known))
    elif view.measured:
        st.markdown(word("embeddings.answer_none" if not view.measure else "embeddings.answer_no_probe"))
    seen = [view.names[one] for one, run in view.runs.items() if one in view.evaluation.measured and _seen(view, one)]
    if seen:
        st.warning(word("embeddings.has_seen", models=", ".join(map(plain, seen))), icon=":material/warning:")


def _seen(view: EvaluationView, reference: str) -> bool:
    return has_seen(view.runs[reference], view.data, view.part)


def _sentence(view: EvaluationView, known: dict[str, ModelResult]) -> str:
    (best, first), *others = known.items()
    figure = first.figures[view.measure]
    told = {
        "best": plain(best),
        "value": f"{figure.value * 100:.1f}",
        "measure": word(f"embeddings.{view.measure}"),
        "pairs": f"{len(first.probe.correct) if first.probe else len(view.evaluation.rows):,}",
    }
    kind = "accuracy" if view.measure == ACCURACY else "people"
    if not others:
        ends = {"low": f"{figure.low * 100:.1f}", "high": f"{figure.high * 100:.1f}"}
        return word(f"embeddings.answer_{kind}_one", **told, **ends)
    second, other = others[0]
    test = _between(view, first.model, other.model)
    told |= {"second": plain(second), "other": f"{other.figures[view.measure].value * 100:.1f}"}
    if test is None:
        return word(f"embeddings.answer_{kind}_one", **told, low="–", high="–")
    told |= {"points": _signed(test.difference), "low": _signed(test.low), "high": _signed(test.high)}
    return word(f"embeddings.answer_{kind}_{'sure' if test.sure else 'unsure'}", **told)


def _between(view: EvaluationView, first: str, second: str) -> Difference | None:
    """The first less the second."""
    for one in view.differences:
        if (one.a, one.b) == (first, second):
            return one
        if (one.b, one.a) == (first, second):
            return turned(one)
    return None


def _signed(share: float) -> str:
    return f"{share * 100:+.1f}".replace("inf", "∞")  # an open end, where too little is known
