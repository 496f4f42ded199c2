"""Colours and marks of retrievers, the same in every chart, table and legend; imports no library of charts."""

from collections.abc import Sequence

# Okabe & Ito's colours in an order that keeps neighbours apart for colour-blind eyes, readable on light and dark
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#8C8C00", "#7A5195", "#5F6B7A", "#B5651D")
# marks, and the same as text
LETTERS = {"circle": "●", "square": "■", "triangle-up": "▲", "diamond": "◆", "cross": "✚", "triangle-down": "▼"}
SHAPES = tuple(LETTERS)
READABLE = "#7c818c"  # on light and dark alike: figures inside a chart do not follow the theme
# of what became of a question (`retrieval.analysis.questions.Fate`), not the colours of retrievers in their order
FATE_COLOURS = {
    "below": "#E69F00",
    "not_found": "#7A8290",
    "not_a_candidate": "#56B4E9",
    "lost_in_fusion": "#CC79A7",
    "lost_in_reranking": "#D55E00",
}


def colour_of(name: str, names: Sequence[str]) -> str:
    """Return the colour of a retriever; `names` are all that can be picked, in their fixed order."""
    return PALETTE[list(names).index(name) % len(PALETTE)]


def shape_of(name: str, names: Sequence[str]) -> str:
    """Return the mark of a retriever, so that colour alone never tells."""
    return SHAPES[list(names).index(name) % len(SHAPES)]


def letter_of(name: str, names: Sequence[str]) -> str:
    """Return the same mark as a character, for a legend in text."""
    return LETTERS[shape_of(name, names)]
