"""Which piece of a passage answered which piece of a question in late interaction, as a table."""

from collections.abc import Mapping

import pandas as pd

from retrieval.explain.encoders import LateExplanation
from views.ui import tables


def draw_matches(sides: Mapping[str, LateExplanation]) -> None:
    """Draw a row a piece of the question, and what answered it in each passage; sides are called `why.match_SIDE`."""
    first = next(iter(sides.values()))
    table = pd.DataFrame({"asked": [first.question[slice(*match.asked)] for match in first.told]})
    columns = {
        "number": tables.number("why.match_number", width=45, pinned=True),
        "asked": tables.text("why.match_asked", width=115, pinned=True),
    }
    for side, explained in sides.items():
        table[side] = [explained.passage.text[slice(*match.answered)] for match in explained.told]
        table[f"{side}_cosine"] = [match.cosine for match in explained.told]
        columns |= {
            side: tables.text(f"why.match_{side}"),
            f"{side}_cosine": tables.number("why.match_cosine", "%.3f"),
        }
    table["number"] = range(1, len(table) + 1)
    tables.draw(table, columns)
