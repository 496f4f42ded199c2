from pathlib import Path

import pytest

from benchmarks.scale.growth import draw, exponents, sentence, table

SECONDS = {"linear": {1000: 0.1, 10_000: 1.0}, "square": {1000: 0.2, 10_000: 20.0}, "once": {1000: 5.0}}


def test_exponents_are_slopes_of_the_logarithms() -> None:
    assert exponents(SECONDS["linear"]) == pytest.approx({10_000: 1.0})
    assert exponents(SECONDS["square"]) == pytest.approx({10_000: 2.0})
    assert exponents({1000: 1.0, 2000: 2**1.5, 8000: 2**1.5}) == pytest.approx({2000: 1.5, 8000: 0.0})
    assert exponents(SECONDS["once"]) == {}


def test_the_table_has_a_dash_where_nothing_was_measured() -> None:
    assert table(SECONDS)[2:] == [
        "| linear | 0.1 | 1 (1.00) |",
        "| square | 0.2 | 20 (2.00) |",
        "| once | 5 | – |",
    ]


def test_the_sentence_names_what_bends() -> None:
    assert sentence(SECONDS).startswith(
        "In the last step these grow faster than the passages: square (2.00, to 10,000);"
    )
    flat = sentence({"linear": SECONDS["linear"]})
    assert flat == "Up to the largest size nothing grows faster than the passages: steepest is linear, 1.00."
    assert sentence({"once": SECONDS["once"]}) == "One size tells nothing of growth."


@pytest.mark.slow
def test_the_chart_names_every_stage_and_has_a_ground_of_its_own(tmp_path: Path) -> None:
    draw(SECONDS, tmp_path / "growth.svg")
    drawn = (tmp_path / "growth.svg").read_text(encoding="utf-8")
    assert all(f">{stage}</text>" in drawn for stage in SECONDS)
    assert 'fill="white"' in drawn
