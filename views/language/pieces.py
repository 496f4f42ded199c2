"""The views of pieces: one sentence cut by all tokenizers, side by side, and a word built by a BPE, merge by merge.

What a person or a vocabulary wrote is escaped."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

import pandas as pd
import streamlit as st

from language.morphemes import BOUNDARY, UNKNOWN, TokenizerKind
from language.prepared import Step
from language.texts import LanguageError
from views.language.tokenizers import TokenizersView, pick_tokenizer
from views.resources.language import CutPiece, cut_text, steps_of
from views.ui import tables
from views.ui.problems import failure_text
from views.ui.state import choose, typed
from views.ui.words import plain, word

_STYLE = Path(__file__).with_name("pieces.css")
_LEADS = {"##": "##", "▁": "▁", BOUNDARY: "+"}  # what a piece begins with, and as what it is seen


def draw_style() -> None:
    st.html(_STYLE)


def cut_html(name: str, note: str, pieces: Sequence[CutPiece]) -> str:
    """Return a text cut by the tokenizer of this name: each piece in a frame, more of it where one points at it."""
    return _framed(name, note, [_piece(one) for one in pieces])


def names_html(name: str, note: str, names: Sequence[str], new: str = "") -> str:
    """Return pieces of which only the names are known; those named `new` are told from the others."""
    return _framed(name, note, [_item(*_parted(one), "new" if one == new else "", "") for one in names])


def seen(name: str) -> str:
    return "".join(_parted(name))


def _framed(name: str, note: str, items: Sequence[str]) -> str:
    head = f'<div class="of"><b>{escape(name)}</b><span>{escape(note)}</span></div>'
    return f'<div class="pieces">{head}<ol>{"".join(items)}</ol></div>'


def _piece(one: CutPiece) -> str:
    told = word("tokenizers.piece_told", name=seen(one.name), number=one.number, count=f"{one.occurrences:,}")
    if not one.known:
        return _item(f"{UNKNOWN} ", one.letters, "unknown", told)
    return _item(*_parted(one.name), "", told)


def _item(lead: str, text: str, kind: str, told: str) -> str:
    small = f"<small>{escape(lead)}</small>" if lead else ""
    title = f' title="{escape(told)}"' if told else ""
    return f'<li class="{kind}"{title}>{small}{escape(text)}</li>' if kind else f"<li{title}>{small}{escape(text)}</li>"


def _parted(name: str) -> tuple[str, str]:
    lead = next((one for one in _LEADS if (name.startswith(one) and name != one) or name == one != "##"), "")
    return _LEADS.get(lead, ""), name.removeprefix(lead)


SENTENCE = "세종대왕께서는 집현전 학자들과 함께 훈민정음을 만드셨다고 배웠습니다."
WORD = "도서관에서부터"
_LETTERS, _LETTERS_OF_WORD = 300, 40
_OF_MERGES = (TokenizerKind.BPE, TokenizerKind.BYTE_BPE)
Cuts = Sequence[tuple[str, Sequence[CutPiece]]]


def draw(view: TokenizersView) -> None:
    answer = st.container()
    text = typed(
        st.text_input,
        "cut",
        word("tokenizers.sentence"),
        SENTENCE,
        max_chars=_LETTERS,
        help=word("tokenizers.sentence_help"),
    ).strip()
    if not text:
        answer.info(word("tokenizers.type_sentence"), icon=":material/info:")
        return
    found: list[tuple[str, Sequence[CutPiece]]] = []
    for one in view.kept.tokenizers:
        try:
            if pieces := cut_text(one, text):
                found.append((view.name(one), pieces))
        except LanguageError as error:
            told = {"model": plain(view.name(one)), "reason": plain(failure_text(error))}
            st.error(word("tokenizers.model_failed", **told), icon=":material/error:")
    if not found:
        return
    answer.markdown(_answer(found))
    draw_style()
    frames = [cut_html(name, word("tokenizers.pieces_count", count=len(cut)), cut) for name, cut in found]
    st.html("".join(frames))
    st.caption(word("tokenizers.marks", documents=f"{view.kept.counted:,}"))
    _draw_table(found)


def _answer(found: Cuts) -> str:
    """Who cuts it into how many pieces, of those that know all of it: one piece may be a whole word that is unknown."""
    able = [one for one in found if all(piece.known for piece in one[1])]
    ranked = able or found
    (least, few), (most, many) = (pick(ranked, key=lambda one: len(one[1])) for pick in (min, max))
    told = {"least": plain(least), "fewest": len(few), "most": plain(most), "count": len(many)}
    told["tokenizers"] = len(ranked)
    alike = "_alike" if len(few) == len(many) else ""
    key = f"sentence_answer{alike}" if len(ranked) > 1 else "sentence_answer_one"
    left_out = [word("tokenizers.sentence_unknown", count=len(found) - len(able))] if 0 < len(able) < len(found) else []
    return " ".join([word(f"tokenizers.{key}", **told), *left_out])


def _draw_table(found: Cuts) -> None:
    told = [(name, seen(one.name), one) for name, pieces in found for one in pieces]
    rows = [(name, piece, one.letters, one.number, one.occurrences) for name, piece, one in told]
    columns = {
        "tokenizer": tables.text("tokenizers.tokenizer", "", width="medium"),
        "piece": tables.text("tokenizers.piece", ""),
        "letters": tables.text("tokenizers.letters", ""),
        "number": tables.number("tokenizers.number", "%d"),
        "occurrences": tables.number("tokenizers.occurrences", "localized"),
    }
    with st.expander(word("tokenizers.as_table")):
        tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)


def draw_merges(view: TokenizersView) -> None:
    answer = st.container()
    able = {one.folder.name: one for one in view.kept.tokenizers if one.measured.trained.get("kind") in _OF_MERGES}
    if not able:
        answer.info(word("tokenizers.no_bpe"), icon=":material/info:")
        return
    left, right = st.columns(2, vertical_alignment="bottom")
    with left:
        text = typed(st.text_input, "built", word("tokenizers.word"), WORD, max_chars=_LETTERS_OF_WORD).strip()
    with right:
        label, explained = word("tokenizers.of_bpe"), word("tokenizers.of_bpe_help")
        chosen = pick_tokenizer(view, able, "merges_of", label, help=explained)
    if not text:
        answer.info(word("tokenizers.type_word"), icon=":material/info:")
        return
    try:
        found = steps_of(chosen, text)
    except LanguageError as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return
    last = found[-1]
    told = {"word": plain(text), "merges": len(found) - 1, "letters": len(found[0].pieces), "pieces": len(last.pieces)}
    answer.markdown(word("tokenizers.built", **told))
    _draw_steps(found)


def _draw_steps(found: Sequence[Step]) -> None:
    at = _pick(found) if len(found) > 1 else 0
    draw_style()
    step = found[at]
    note = word("tokenizers.pieces_count", count=len(step.pieces))
    head = word("tokenizers.after_merges", merges=f"{step.merges:,}")
    st.html(names_html(head, note, step.pieces, step.joined))
    st.caption(word("tokenizers.merges_help"))
    if len(found) < 2:
        return
    rows = [
        {"number": one.merges, "first": seen(one.pair[0]), "second": seen(one.pair[1])}
        | {"pieces": " · ".join(map(seen, one.pieces))}
        for one in found[1:]
    ]
    columns = {
        "number": tables.number("tokenizers.merge", "localized"),
        "first": tables.text("tokenizers.first", ""),
        "second": tables.text("tokenizers.second", ""),
        "pieces": tables.text("tokenizers.word_then", "", width="large"),
    }
    made = [tables.BOLD if row < at else "" for row in range(len(rows))]
    tables.draw(pd.DataFrame(rows).style.apply(lambda _: made), columns)


def _pick(found: Sequence[Step]) -> int:
    """Draw the slider over the merges; it stops where one of them changes the word."""
    places = [str(place) for place in range(len(found))]
    chosen = choose(
        st.select_slider,
        "merges",
        word("tokenizers.merges"),
        places,
        places[-1],
        follows=True,
        format_func=lambda place: f"{found[int(place)].merges:,}" if int(place) < len(found) else place,
    )
    return int(chosen)
