"""The view of attention: one head over a sentence, and what all heads look at."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from language.inside.in_context import Heads, SentenceAttention, Target, heads_of
from views.language import charts
from views.language.inside import told
from views.resources.language import attention
from views.ui import tables
from views.ui.charts import draw_chart
from views.ui.state import choose
from views.ui.typed import lines_of, typed
from views.ui.words import plain, word

SENTENCES = (
    "항구에서 배를 탔다",
    "세종대왕은 집현전 학자들과 함께 한글을 창제했다",
    "비가 많이 와서 강물이 불어났다",
    "도서관은 월요일에 문을 닫지만 열람실은 열려 있다",
)
MOST = 20  # sentences that heads are told by
_LETTERS = 300
_SHOWN = 40  # pieces of a map that is drawn: more are a table alone


def draw(model: str, names: Mapping[str, str]) -> None:
    """Draw the map of one head over one sentence, and all heads by what they look at."""
    del names
    answer = st.container()
    text = typed(
        st.text_area,
        "attended",
        word("inside.attended"),
        "\n".join(SENTENCES),
        height=120,
        help=word("inside.attended_help", most=MOST),
    )
    sentences = lines_of(text, MOST, _LETTERS)
    if not sentences:
        answer.info(word("inside.type_sentence"), icon=":material/info:")
        return
    controls = st.container(horizontal=True, vertical_alignment="bottom")
    with told():
        found = [attention(model, sentence) for sentence in sentences]
        _draw_found(found, sentences, answer, controls)


def _draw_found(
    found: Sequence[SentenceAttention], sentences: Sequence[str], answer: DeltaGenerator, controls: DeltaGenerator
) -> None:
    heads = heads_of(found)
    with controls:
        target = _pick_target()
        best = _strongest(heads, target)
        layer = _pick("attention_layer", "inside.layer", heads.shares.shape[0], best[0])
        head = _pick("attention_head", "inside.head", heads.shares.shape[1], best[1])
        shown = _pick_sentence(sentences)
    answer.markdown(_answer(heads, target, best))
    left, right = st.columns([3, 2])
    with left:
        _draw_map(found[shown], layer, head)
        st.caption(_shares(heads, layer, head))
    with right:
        _draw_heads(heads, target)
    _draw_table(heads, target)


def _pick_target() -> Target:
    return Target(
        choose(
            st.selectbox,
            "target",
            word("inside.target"),
            [*Target],
            Target.PREVIOUS,
            format_func=target_name,
            help=word("inside.target_help"),
            width=200,
        )
    )


def target_name(target: str) -> str:
    """Return what is looked at, in words."""
    return word(f"inside.target_{target}")


def _pick(name: str, label: str, count: int, usual: int) -> int:
    """Draw the choice of a layer or a head, counted from 1; returns its place, counted from 0."""
    options = [str(place + 1) for place in range(count)]
    return int(choose(st.selectbox, name, word(label), options, options[usual], follows=True, width=90)) - 1


def _pick_sentence(sentences: Sequence[str]) -> int:
    options = [str(place) for place in range(len(sentences))]
    return int(
        choose(
            st.selectbox,
            "attention_of",
            word("inside.sentence"),
            options,
            "0",
            format_func=lambda one: sentences[int(one)] if int(one) < len(sentences) else one,
            width=320,
        )
    )


def _strongest(heads: Heads, target: Target) -> tuple[int, int]:
    """The layer and head that give most to a target; the first where none has anything to give."""
    shares = np.nan_to_num(heads.shares[:, :, [*Target].index(target)])
    layer, head = np.unravel_index(shares.argmax(), shares.shape)
    return int(layer), int(head)


def _answer(heads: Heads, target: Target, best: tuple[int, int]) -> str:
    place = [*Target].index(target)
    share, even = heads.shares[*best, place], heads.even[place]
    if np.isnan(share):
        return word("inside.attention_none", target=target_name(target))
    return word(
        "inside.attention_answer",
        target=target_name(target),
        layer=best[0] + 1,
        head=best[1] + 1,
        share=f"{share:.0%}",
        even=f"{even:.0%}",
    )


def _draw_map(found: SentenceAttention, layer: int, head: int) -> None:
    weights = found.weights[layer, head]
    labels = [f"{place + 1} {one.text}" for place, one in enumerate(found.pieces)]
    st.markdown(f"**{word('inside.map', layer=layer + 1, head=head + 1)}**")
    if len(labels) <= _SHOWN:
        rows, columns = np.indices(weights.shape).reshape(2, -1)
        cells = pd.DataFrame(
            {
                "row": [labels[at] for at in rows],
                "column": [labels[at] for at in columns],
                "first": [labels[at] for at in rows],
                "second": [labels[at] for at in columns],
                "value": weights.ravel().astype(float),
            }
        )
        draw_chart(charts.grid, cells, labels, labels, title=word("inside.attention"), share=True)
    st.caption(word("inside.map_help"))
    with st.expander(word("inside.as_table"), expanded=len(labels) > _SHOWN):
        st.dataframe(pd.DataFrame(weights, index=labels, columns=labels).style.format("{:.3f}"))


def _shares(heads: Heads, layer: int, head: int) -> str:
    """What one head looks at, over all sentences."""
    shares = zip(Target, heads.shares[layer, head], strict=True)
    told_of = " · ".join(f"{target_name(one)} {share:.0%}" for one, share in shares if not np.isnan(share))
    return word("inside.head_shares", shares=plain(told_of))


def _draw_heads(heads: Heads, target: Target) -> None:
    shares = heads.shares[:, :, [*Target].index(target)]
    if np.isnan(shares).any():
        return
    st.markdown(f"**{word('inside.heads_map', target=target_name(target))}**")
    rows, columns = np.indices(shares.shape).reshape(2, -1)
    cells = pd.DataFrame(
        {
            "row": [str(at + 1) for at in rows],
            "column": [str(at + 1) for at in columns],
            "first": [word("inside.layer_number", layer=at + 1) for at in rows],
            "second": [word("inside.head_number", head=at + 1) for at in columns],
            "value": shares.ravel(),
        }
    )
    names = [[str(place + 1) for place in range(size)] for size in shares.shape]
    draw_chart(charts.grid, cells, *names, title=target_name(target), share=True)
    st.caption(word("inside.heads_map_help"))


def _draw_table(heads: Heads, target: Target) -> None:
    """All heads, those that give most to the target first."""
    layers, count = heads.shares.shape[:2]
    rows, columns = np.indices((layers, count)).reshape(2, -1)
    shares = 100 * heads.shares.reshape(-1, len(Target))
    table = pd.DataFrame(shares, columns=[one.value for one in Target])
    table.insert(0, "head", columns + 1)
    table.insert(0, "layer", rows + 1)
    named = {
        one.value: st.column_config.NumberColumn(
            target_name(one), format="%.1f", help=word("inside.share_help", even=f"{100 * even:.1f}")
        )
        for one, even in zip(Target, heads.even, strict=True)
    }
    with st.expander(word("inside.heads_table")):
        st.dataframe(
            table.sort_values(target.value, ascending=False, ignore_index=True),
            hide_index=True,
            placeholder="–",
            column_config={
                "layer": tables.number("inside.layer", "%d", ""),
                "head": tables.number("inside.head", "%d", ""),
                **named,
            },
        )
        st.caption(word("inside.heads_help"))
