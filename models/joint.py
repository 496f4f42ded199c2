"""How a tokenizer joins two texts: what it puts around them and between them."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

_PROBE = ("a b", "c d e")


@dataclass(frozen=True)
class Joint:
    """What the tokenizer puts around a pair and between its texts; the segments are those of all five pieces."""

    first: np.ndarray
    between: np.ndarray
    last: np.ndarray
    segments: tuple[int, int, int, int, int]

    @property
    def length(self) -> int:
        """How many tokens that are."""
        return len(self.first) + len(self.between) + len(self.last)


def joint_of(tokenizer: Any) -> Joint | None:
    """Find out what a tokenizer joins with, by a pair it joined; None where it does not tell which text is whose."""
    if not getattr(tokenizer, "is_fast", False) or tokenizer.padding_side != "right":
        return None
    told = tokenizer(*_PROBE)
    owners, ids = told.sequence_ids(), np.array(told["input_ids"], dtype=np.int32)
    segments = told.get("token_type_ids", [0] * len(ids))
    firsts, seconds = ([place for place, owner in enumerate(owners) if owner == text] for text in (0, 1))
    if not firsts or not seconds:
        return None
    bounds = [0, firsts[0], firsts[-1] + 1, seconds[0], seconds[-1] + 1, len(ids)]
    spans = [ids[start:end] for start, end in pairwise(bounds)]
    of = [segments[min(start, len(ids) - 1)] for start in bounds[:-1]]
    return Joint(spans[0], spans[2], spans[4], (of[0], of[1], of[2], of[3], of[4]))
