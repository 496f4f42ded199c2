"""What a person chooses on the Answers page: retrievers, K, the questions, the rules and the measure."""

from collections.abc import Sequence

import streamlit as st

from data.problems import DataError
from data.split import Part, SplitOptions
from data.store import StoredSet
from reading.experiment import DEFAULT_DEPTHS
from reading.rules import Rules
from reading.scores import EXACT
from views.choices import WORDS_NAME, Choices
from views.resources.sets import split_of
from views.ui.state import choose, choose_several
from views.ui.words import plain, word

MOST_RETRIEVERS = 4
OVERLAP = "overlap"
_USUAL_K = "5"


def pick_retrievers(data: StoredSet, choices: Choices) -> list[str]:
    """Draw the choice of retrievers, `MOST_RETRIEVERS` at most; returns their names."""
    names = choices.searchable
    usual = [name for name in choices.first_picked if name in names and name != WORDS_NAME][:MOST_RETRIEVERS]
    picked = choose_several(
        st.pills,
        "retrievers",
        word("compare.retrievers"),
        names,
        usual,
        key=f"answering_{data.key}_{len(names)}",
        wrap=True,
        format_func=plain,
        help=word("answers.retrievers_help", most=MOST_RETRIEVERS),
    )
    if len(picked) > MOST_RETRIEVERS:
        told = plain(", ".join(picked[:MOST_RETRIEVERS]))
        st.caption(word("search.only_first", most=MOST_RETRIEVERS, names=told))
    return picked[:MOST_RETRIEVERS]


def pick_k(ks: Sequence[int] = DEFAULT_DEPTHS) -> int:
    """Draw the choice of how many passages are read; returns it."""
    options = [str(k) for k in ks]
    usual = _USUAL_K if _USUAL_K in options else options[-1]
    return int(choose(st.selectbox, "read", "K", options, usual, help=word("answers.k_help"), width=80))


def pick_measure(rules: Rules) -> str:
    """Draw the choice of the measure; returns `EXACT` or the name of the rules' overlap."""
    measure = choose(
        st.segmented_control,
        "right_by",
        word("compare.measure"),
        [EXACT, OVERLAP],
        EXACT,
        format_func=lambda one: word(f"answers.measure_{EXACT if one == EXACT else rules.overlap_name}"),
        help=word("answers.measure_help"),
    )
    return EXACT if measure == EXACT else rules.overlap_name


def pick_rules() -> Rules:
    """Draw the choice of who says what is right; returns it."""
    rules = choose(
        st.selectbox,
        "rules",
        word("answers.rules"),
        [one.value for one in Rules],
        Rules.KORQUAD.value,
        format_func=lambda one: word(f"answers.rules_{one}"),
        help=word("answers.rules_help"),
        width=130,
    )
    return Rules(rules)


def pick_part(data: StoredSet, shares: SplitOptions) -> Part | None:
    """Draw the choice among the parts that hold questions with passages; None where none does."""
    counts = _counts(data, shares)
    if not counts:
        return None
    part = choose(
        st.selectbox,
        "answered_part",
        word("compare.questions"),
        [*counts],
        Part.TEST.value if Part.TEST.value in counts else next(iter(counts)),
        follows=True,
        format_func=lambda one: word("answers.part_of", part=word(f"part.{one}"), questions=f"{counts.get(one, 0):,}"),
        help=word("answers.part_help"),
        width=150,
    )
    return Part(part)


def _counts(data: StoredSet, shares: SplitOptions) -> dict[str, int]:
    """How many questions each part holds, those without any left out."""
    try:
        rows = split_of(data.key, shares.validation, shares.test, shares.seed).rows
    except DataError:
        return {}
    return {part.value: len(rows[part]) for part in Part if len(rows[part])}
