"""What it takes to compare all sentences: which points are measured, and how the others follow from them."""

import math

import pytest

from mrc_workbench.labs.embeddings.encoder import COST, SIZES, EmbeddingError, Method, _Clock, _line, cost
from tests.labs.embeddings.worlds import labelled_pairs


def clock(seconds: float) -> _Clock:
    return _Clock(seconds, lambda _: None)


def test_a_line_is_measured_while_there_is_time_and_goes_on_as_it_grows() -> None:
    at, told = clock(60.0), []

    def run(size: int) -> float:
        told.append(size)
        at.spent += size**2 / 10_000
        return size**2 / 10_000

    line = _line(run, lambda size: size**2, 10_000, at)
    assert told == [30, 100, 200, 500]  # 0.09 + 1 + 4 + 25 seconds; 100 more would be too many
    assert [one.measured for one in line] == [True] * 4 + [False] * 4
    assert [one.seconds for one in line] == pytest.approx([size**2 / 10_000 for size in SIZES])


def test_no_more_sentences_are_measured_than_there_are_and_the_first_size_always_is() -> None:
    few = _line(float, float, 250, clock(1e9))
    assert [one.measured for one in few] == [True] * 3 + [False] * 5
    assert [one.seconds for one in few] == [*SIZES]
    slow = _line(float, float, 10_000, clock(0.0001))
    assert [one.measured for one in slow] == [True] + [False] * 7


def test_too_few_sentences_are_told() -> None:
    with pytest.raises(EmbeddingError, match="3 sentences are too few to measure with, 30 are needed"):
        cost("starter", "starter", ["가", "나", "다"])


@pytest.mark.slow
def test_both_kinds_of_encoder_are_measured_on_the_spot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.labs.embeddings.encoder.SIZES", sizes := (30, 60, 100, 10_000))
    sentences, shares = labelled_pairs(60).sentences[:99], []
    found = cost("starter", "starter", sentences, seconds=600, on_progress=shares.append)
    assert [(one.method, one.sentences) for one in found.points] == [(how, size) for how in Method for size in sizes]
    by_method = {how: [one for one in found.points if one.method is how] for how in Method}
    for line in by_method.values():
        assert [one.measured for one in line] == [True, True, False, False]
        assert all(one.seconds > 0 for one in line)
    pairs = by_method[Method.CROSS_ENCODER]
    assert pairs[-1].seconds == pytest.approx(pairs[1].seconds * math.comb(10_000, 2) / math.comb(60, 2))
    assert 0.9 <= found.agreement <= 1
    assert shares[-1] == 1
    assert shares == sorted(shares)
    assert COST.validate_json(COST.dump_json(found)) == found
