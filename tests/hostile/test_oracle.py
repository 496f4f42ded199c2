"""Damaged files are never silently wrong, nor is what else `make attack` goes through: a sample of its half hour."""

import pytest

from mrc_workbench.data.questions.read import read
from tests.depth import sampled
from tests.hostile.areas import AREAS
from tests.hostile.damages import TIMES
from tests.hostile.oracle import Damage, _rows, _wrong, verdict
from tests.hostile.written import FORMATS, random_rows, write


@pytest.mark.parametrize("format_", FORMATS)
def test_what_is_whole_is_read_as_it_was_written(format_: str) -> None:
    written = write(format_, random_rows(1))
    reading = read(written.content, "whole")
    assert tuple(_rows(reading)) == written.rows
    assert reading.problems == ()


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
def test_damage_is_told_or_stays_where_it_is(format_: str) -> None:
    wrong = {seed: found for seed in range(sampled(40, 15)) if (found := verdict(format_, seed)[1])}
    assert wrong == {}


def test_the_oracle_sees_a_row_that_changed_and_one_that_was_lost() -> None:
    written = write("csv", random_rows(2))
    place = next(place for place, row in enumerate(written.rows) if '"' not in row[2])
    content = written.content.replace(written.rows[place][2].encode(), "다른 질문?".encode(), 1)
    far = Damage(content, len(content) + 100, 0, b"")
    (changed,) = _wrong(written, far, read(content, "set"))
    assert "다른 질문?" in changed
    start, end = written.places[7]
    shorter = written.content[:start] + written.content[end:]
    (lost,) = _wrong(written, Damage(shorter, written.places[20][0] + 5, 1, b""), read(shorter, "set"))
    assert lost == f"{written.rows[7]} was lost"
    whole = write("excel", random_rows(2))
    others = ((*whole.rows[0][:2], "다른 질문?", *whole.rows[0][3:]), *whole.rows[1:])
    (changed,) = _wrong(whole, far, read(write("excel", others).content, "set"))
    assert "was never written" in changed


CASES = {"pairs": 10, "experiments": 15, "seals": 15, "index": 4, "models": 6}


@pytest.mark.parametrize(
    "area", [pytest.param(one, marks=pytest.mark.slow) if one == "models" else one for one in AREAS]
)
def test_nothing_is_wrong(area: str) -> None:
    found = {seed: AREAS[area](seed) for seed in range(CASES[area] * TIMES)}
    assert {seed: wrong for seed, (_, wrong) in found.items() if wrong} == {}
