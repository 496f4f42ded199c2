"""One colour and one mark for each retriever, the same on every page and in every chart."""

from collections.abc import Sequence

# Okabe & Ito's colours in an order that keeps neighbours apart for colour-blind eyes, readable on light and dark
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#8C8C00", "#7A5195", "#5F6B7A", "#B5651D")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
LETTERS = ("●", "■", "▲", "◆", "✚", "▼")  # the same marks as text


def colour_of(name: str, names: Sequence[str]) -> str:
    """Return the colour of a retriever; `names` are all that can be picked, in their fixed order."""
    return PALETTE[list(names).index(name) % len(PALETTE)]


def shape_of(name: str, names: Sequence[str]) -> str:
    """Return the mark of a retriever, so that colour alone never tells."""
    return SHAPES[list(names).index(name) % len(SHAPES)]


def letter_of(name: str, names: Sequence[str]) -> str:
    """Return the same mark as a character, for a legend in text."""
    return LETTERS[list(names).index(name) % len(LETTERS)]
