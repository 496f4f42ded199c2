"""How much the tests that draw at random or read real data go through.

A sample by default; everything with `MRC_DEEP=yes`, as the nightly run does.
"""

import os

DEEP = bool(os.environ.get("MRC_DEEP"))


def sampled(everything: int, sample: int) -> int:
    """Return how many cases to go through."""
    return everything if DEEP else sample
