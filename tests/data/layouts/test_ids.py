"""Ids that are numbers written in two ways."""

import pytest

from mrc_workbench.data.layouts.references import NumberIds, canonical_id


@pytest.mark.parametrize(
    ("ids", "name", "found"),
    [
        (["0", "1", "10"], "1.0", "1"),
        (["0", "1", "10"], "0.0", "0"),
        (["1.0", "2.0"], "2", "2.0"),
        (["001", "002"], "2", "002"),
        (["1", "1.0"], "01", None),
        (["d1"], "d1.0", None),
        (["1"], "1.5", None),
        (["1"], "1e0", None),
        (["1000", "2500"], "1e3", "1000"),
        (["1000", "2500"], "2.5E+03", "2500"),
        (["1000"], "1.0005e3", None),
        (["1"], "１.0", None),
        (["1"], "", None),
    ],
)
def test_finds_the_id_with_the_same_number(ids: list[str], name: str, found: str | None) -> None:
    assert NumberIds(lambda: ids).find(name) == found


def test_sees_ids_that_come_later() -> None:
    ids = ["1"]
    numbers = NumberIds(lambda: ids)
    assert numbers.find("2.0") is None
    ids.append("2")
    assert numbers.find("2.0") == "2"


def test_canonical_ids_are_equal_for_equal_numbers() -> None:
    assert {canonical_id(id_) for id_ in ("7", "07", "7.0", "7.00")} == {"7"}
    assert canonical_id("7a") == "7a"
