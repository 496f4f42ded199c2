"""Damaged files are never silently wrong, nor is what else `make attack` goes through: a sample of its half hour."""

import pytest

from mrc_workbench.data.questions.read import read
from tests.depth import sampled
from tests.hostile.areas import AREAS
from tests.hostile.damages import TIMES
from tests.hostile.oracle import FORMATS, Damage, _find_errors, _rows, random_rows, verdict


@pytest.mark.parametrize("format_", FORMATS)
def test_reads_undamaged_files_as_written(format_: str) -> None:
    written = FORMATS[format_](random_rows(1))
    reading = read(written.content, "whole")
    assert tuple(_rows(reading)) == written.rows
    assert reading.problems == ()


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
def test_damage_is_reported_or_stays_local(format_: str) -> None:
    wrong = {seed: errors for seed in range(sampled(40, 15)) if (errors := verdict(format_, seed)[1])}
    assert wrong == {}


def test_oracle_detects_changed_and_lost_rows() -> None:
    written = FORMATS["csv"](random_rows(2))
    index = next(index for index, row in enumerate(written.rows) if '"' not in row[2])
    content = written.content.replace(written.rows[index][2].encode(), "다른 질문?".encode(), 1)
    far = Damage(content, len(content) + 100, 0, b"")
    (changed,) = _find_errors(written, far, read(content, "set"))
    assert "다른 질문?" in changed
    start, end = written.spans[7]
    shorter = written.content[:start] + written.content[end:]
    (lost,) = _find_errors(written, Damage(shorter, written.spans[20][0] + 5, 1, b""), read(shorter, "set"))
    assert lost == f"{written.rows[7]} was lost"
    whole = FORMATS["excel"](random_rows(2))
    others = ((*whole.rows[0][:2], "다른 질문?", *whole.rows[0][3:]), *whole.rows[1:])
    (changed,) = _find_errors(whole, far, read(FORMATS["excel"](others).content, "set"))
    assert "was never written" in changed


CASES = {"pairs": 10, "experiments": 15, "seals": 15, "index": 4, "models": 6}


@pytest.mark.parametrize(
    "area", [pytest.param(name, marks=pytest.mark.slow) if name == "models" else name for name in AREAS]
)
def test_areas_report_no_errors(area: str) -> None:
    verdicts = {seed: AREAS[area](seed) for seed in range(CASES[area] * TIMES)}
    assert {seed: wrong for seed, (_, wrong) in verdicts.items() if wrong} == {}
