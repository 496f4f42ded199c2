"""Pieces of a text as HTML: all that a person or a vocabulary wrote is escaped here."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

import streamlit as st

from language.morphemes import BOUNDARY, UNKNOWN
from views.resources.language import CutPiece
from views.ui.words import word

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
