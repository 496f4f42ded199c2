"""Layers judged by questions: with whose vectors they find the passages that answer them."""

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.split import Part
from data.store import StoredSet
from language.inside.layers import MOST_PASSAGES, MOST_QUESTIONS, Pooling
from views.language.inside import asked, told, watched
from views.language.layer_figures import draw_figures, draw_table, pooling_name
from views.names import set_name
from views.resources.language import LayerFindings, part_to_search, search_by_layer
from views.resources.sets import chosen_set
from views.ui import tables
from views.ui.words import plain, signed, word

_NAME = "search_layers"
_MEASURE = "nDCG@10"


def draw(model: str, answer: DeltaGenerator, controls: DeltaGenerator) -> None:
    """Draw nDCG@10 by layer and pooling, once a click had it measured on the question set in use."""
    data = chosen_set()
    if not data.questions:
        st.info(word("inside.no_questions", data=plain(set_name(data.name))), icon=":material/info:")
        return
    with controls:
        wanted = asked(_NAME, (model, data.key), word("inside.search_layers"))
    if not wanted:
        limits = {"questions": MOST_QUESTIONS, "passages": MOST_PASSAGES}
        answer.info(word("inside.search_about", data=plain(set_name(data.name)), **limits), icon=":material/info:")
        return
    part = part_to_search(data)
    with told(), watched(_NAME, (model, data.key)) as tell:
        findings = search_by_layer(model, data, part, tell)
        answer.markdown(_answer(findings))
        means = findings.found.means
        draw_figures(means, y=_MEASURE)
        st.caption(_limits(findings, data, part))
        draw_table(means)
        tables.draw_csv("inside.layers_download", lambda: table_of(findings), "layers.csv", "download_layers")


def _answer(findings: LayerFindings) -> str:
    """Which way is the best, and whether it is told apart from the usual."""
    found = findings.found
    layer, pooling = found.best
    low, high = findings.intervals[layer, pooling]
    mean = found.means[layer, [*Pooling].index(pooling)]
    values = {"layer": layer, "pooling": pooling_name(pooling), "best": f"{100 * mean:.1f}"}
    values |= {"low": f"{100 * low:.1f}", "high": f"{100 * high:.1f}"}
    test = findings.tests.get((layer, pooling))
    if test is None:
        return word("inside.search_answer_usual", **values)
    usual = f"{100 * found.means[-1, [*Pooling].index(Pooling.MEAN)]:.1f}"
    ends = {"difference": signed(test.difference), "from_": signed(test.low), "to": signed(test.high)}
    key = "inside.search_answer_sure" if test.sure else "inside.search_answer_unsure"
    return word(key, **values, last=len(found.ndcg) - 1, usual=usual, **ends)


def _limits(findings: LayerFindings, data: StoredSet, part: Part) -> str:
    searched = findings.found.searched
    counts = {"questions": len(searched.questions), "passages": len(searched.passages)}
    return word("inside.search_help", data=plain(set_name(data.name)), part=word(f"part.{part}"), **counts)


def table_of(findings: LayerFindings) -> pd.DataFrame:
    """One row a layer and pooling: the mean, its interval, and the difference from the usual with its test, shares."""
    means, rows = findings.found.means, []
    for (layer, pooling), (low, high) in findings.intervals.items():
        mean = means[layer, [*Pooling].index(pooling)]
        row = {"layer": layer, "pooling": pooling.value, "ndcg@10": mean, "low": low, "high": high}
        if test := findings.tests.get((layer, pooling)):
            row |= {"difference": test.difference, "difference_low": test.low, "difference_high": test.high}
            row["p"] = test.p_family
        rows.append(row)
    return pd.DataFrame(rows)
