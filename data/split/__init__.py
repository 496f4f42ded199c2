"""The train, validation and test parts of a question set, and the folds of cross-validation."""

from mrc_workbench.data.split.parts import (
    FEWEST_QUESTIONS,
    PARTS,
    Part,
    Split,
    SplitMethod,
    SplitOptions,
    few_questions,
    passage_groups,
    split,
)

__all__ = [
    "FEWEST_QUESTIONS",
    "PARTS",
    "Part",
    "Split",
    "SplitMethod",
    "SplitOptions",
    "few_questions",
    "passage_groups",
    "split",
]
