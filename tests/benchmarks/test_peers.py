"""What was measured is kept in place of what was, told in an order, and a bound that is missed says so."""

from pathlib import Path

from benchmarks import peers

ROUNDS = [(2.0, 4.0), (1.0, 3.0), (1.0, 5.0)]


def test_the_ratio_is_the_median_of_the_rounds(tmp_path: Path) -> None:
    one = peers.of_rounds("search", "other", "10 passages", ROUNDS, wanted=2)
    assert (one.ours, one.theirs, one.ratio, one.spread) == (1.0, 4.0, 3.0, (2.0, 5.0))
    file = tmp_path / "results.json"
    peers.keep([one], file)
    peers.keep([peers.of_rounds("search", "other", "10 passages", [(1.0, 1.0)], wanted=2)], file)
    (row,) = peers.table(file)[2:]
    assert row == "| search | other | 10 passages | 1 s | 1 s | **1** (1 to 1) | wanted 2, **missed** |"


def test_sizes_are_told_in_their_order(tmp_path: Path) -> None:
    sizes = ("2,000 questions, 1,000 passages", "10 questions, 30,000 passages", "500 passages")
    measured = [peers.of_rounds("search", "other", size, ROUNDS) for size in sizes]
    other = peers.Measured("build", "", "9 passages", 3.0, unit="GiB")
    peers.keep([measured[0], other, *measured[1:]], tmp_path / "results.json")
    rows = [row.split(" | ")[2] for row in peers.table(tmp_path / "results.json")[2:]]
    assert rows == [sizes[2], sizes[0], sizes[1], "9 passages"]
