"""The advice fits what is seen, and nothing is advised where too little is known."""

from typing import Any

import pytest

from models.sources import STARTER
from tests.doubles import small_set
from tests.training.worlds import planned
from training.options.questions import READER
from training.options.rankers import BI_ENCODER
from training.runs.curves import Advice, Points, advice

RISING = [(0, 0.5), (5, 0.6), (10, 0.7)]
UP, UNSURE, DOWN = (0.01, 0.2), (-0.1, 0.1), (-0.2, -0.01)


def scores(gain: tuple[float, float], learned: tuple[float, float], *, before: float = 0.5, kept: int = 10) -> Any:
    return {
        "before": {"ndcg@10": before},
        "gain": {"measure": "ndcg@10", "interval": gain},
        "training_sample": {"gain": {"measure": "ndcg@10", "interval": learned}},
        "kept_step": kept,
    }


@pytest.mark.parametrize(
    ("found", "measured", "expected"),
    [
        (scores(DOWN, UP), RISING, Advice.FELL),
        (scores(UNSURE, UP, before=0.995), RISING, Advice.AT_THE_TOP),
        (scores(UNSURE, UNSURE), RISING, Advice.NOTHING_LEARNED),
        (scores(UNSURE, DOWN), RISING, Advice.NOTHING_LEARNED),
        (scores(UP, UP), RISING, Advice.STILL_RISING),
        (scores(UP, UNSURE), RISING, Advice.STILL_RISING),
        (scores(UP, UP, kept=5), [(0, 0.5), (5, 0.7), (10, 0.6)], Advice.PAST_ITS_BEST),
        (scores(UP, UP, kept=5), [(0, 0.5), (5, 0.7), (10, 0.7)], None),  # as good later: no course
        (scores(UP, UP, kept=5), [(0, 0.5), (5, 0.7)], None),  # measured once
        (scores(UP, UP, kept=0), RISING, None),
        (scores(UP, UP) | {"mixed_gain": {"measure": "ndcg@10", "interval": UNSURE}}, RISING, Advice.MIXED_UNSURE),
        (scores(UP, UP) | {"mixed_gain": {"measure": "ndcg@10", "interval": UP}}, RISING, Advice.STILL_RISING),
        (scores(DOWN, UP) | {"mixed_gain": {"measure": "ndcg@10", "interval": UNSURE}}, RISING, Advice.FELL),
        ({"before": {"ndcg@10": 0.5}, "gain": {"measure": "ndcg@10", "interval": UNSURE}}, RISING, None),
        ({}, [], None),
    ],
)
def test_what_is_advised(found: dict[str, Any], measured: Points, expected: Advice | None) -> None:
    assert advice(planned(BI_ENCODER, small_set()).plan(), found, measured) == expected


def test_a_reader_that_was_right_before_is_told_no_ranks_to_look_at() -> None:
    plan = planned(READER, small_set(), base="klue/roberta-base").plan()
    found = {"before": {"f1": 0.995}, "gain": {"measure": "f1", "interval": UNSURE}, "kept_step": 10}
    found |= {"training_sample": {"gain": {"measure": "f1", "interval": UP}}}
    assert advice(plan, found, RISING) is Advice.READ_AT_THE_TOP
    assert advice(plan, found | {"before": {"f1": 0.5}}, RISING) is Advice.NOT_CARRIED_OVER
    assert advice(plan, found | {"gain": {"measure": "f1", "interval": UP}}, RISING) is Advice.STILL_RISING


@pytest.mark.parametrize(
    ("base", "expected"),
    [(STARTER, Advice.STARTER_NOT_CARRIED_OVER), ("klue/roberta-base", Advice.NOT_CARRIED_OVER)],
)
def test_a_starter_learns_only_words_it_has_seen(base: str, expected: Advice) -> None:
    plan = planned(BI_ENCODER, small_set(), base=base).plan()
    assert advice(plan, scores(UNSURE, UP), RISING) is expected
