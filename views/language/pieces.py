"""The Pieces view: one sentence cut by all tokenizers, side by side; what a person or a vocabulary wrote is escaped."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

import pandas as pd
import streamlit as st

from language.comparison import KeptTokenizer
from language.morphemes import BOUNDARY, UNKNOWN
from language.text_file import LanguageError
from views.language.tokenizers import TokenizersView
from views.resources.language import CutPiece, cut_text
from views.ui import tables
from views.ui.problems import failure_text
from views.ui.typed import typed
from views.ui.words import plain, word

_STYLE = Path(__file__).with_name("pieces.css")
_LEADS = {"##": "##", "▁": "▁", BOUNDARY: "+"}  # what a piece begins with, and as what it is seen


def draw_style() -> None:
    """Put the style of pieces in; it takes no room."""
    st.html(_STYLE)


def cut_html(name: str, note: str, pieces: Sequence[CutPiece]) -> str:
    """Return a text cut by the tokenizer of this name: each piece in a frame, more of it where one points at it."""
    return _framed(name, note, [_piece(one) for one in pieces])


def names_html(name: str, note: str, names: Sequence[str], new: str = "") -> str:
    """Return pieces of which only the names are known; those named `new` are told from the others."""
    return _framed(name, note, [_item(*_parted(one), "new" if one == new else "", "") for one in names])


def seen(name: str) -> str:
    """Return a piece's name with what it begins with made visible."""
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
MOST_LETTERS = 300
Cuts = Sequence[tuple[str, Sequence[CutPiece]]]


def draw(view: TokenizersView) -> None:
    """Draw a field for the sentence, and how each tokenizer cuts it."""
    answer = st.container()
    text = typed(
        st.text_input,
        "cut",
        word("tokenizers.sentence"),
        SENTENCE,
        max_chars=MOST_LETTERS,
        help=word("tokenizers.sentence_help"),
    ).strip()
    if not text:
        answer.info(word("tokenizers.type_sentence"), icon=":material/info:")
        return
    cuts = [(view.name(one), _cut(view, one, text)) for one in view.kept.tokenizers]
    found = [(name, pieces) for name, pieces in cuts if pieces]
    if not found:
        return
    answer.markdown(_answer(found))
    draw_style()
    st.html("".join(cut_html(name, _count(pieces), pieces) for name, pieces in found))
    st.caption(word("tokenizers.marks", documents=f"{view.kept.counted:,}"))
    _draw_table(found)


def _cut(view: TokenizersView, one: KeptTokenizer, text: str) -> Sequence[CutPiece]:
    try:
        return cut_text(one, text)
    except LanguageError as error:
        told = {"model": plain(view.name(one)), "reason": plain(failure_text(error))}
        st.error(word("tokenizers.model_failed", **told), icon=":material/error:")
        return []


def _count(pieces: Sequence[CutPiece]) -> str:
    return word("tokenizers.pieces_count", count=len(pieces))


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
    rows = [
        {
            "tokenizer": name,
            "piece": seen(one.name),
            "letters": one.letters,
            "number": one.number,
            "occurrences": one.occurrences,
        }
        for name, pieces in found
        for one in pieces
    ]
    columns = {
        "tokenizer": tables.text("tokenizers.tokenizer", "", width="medium"),
        "piece": tables.text("tokenizers.piece", ""),
        "letters": tables.text("tokenizers.letters", ""),
        "number": tables.number("tokenizers.number", "%d"),
        "occurrences": tables.number("tokenizers.occurrences", "localized"),
    }
    with st.expander(word("tokenizers.as_table")):
        st.dataframe(pd.DataFrame(rows), hide_index=True, column_config=columns)
