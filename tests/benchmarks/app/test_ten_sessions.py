from benchmarks.app.ten_sessions import Cost, table


def test_the_table_says_what_is_late() -> None:
    alone = {"quick": Cost([0.1], 0, 0), "slow": Cost([0.4, 0.6, 0.7], 0, 0)}
    at_once = {"quick": Cost([0.2, 0.4, 0.9], 0.05, 0.1), "slow": Cost([0.9, 1.0, 1.5], 0.07, 0.2)}
    bare = {"quick": [0.1, 0.2, 0.3], "slow": [0.1, 0.2, 1.1]}
    lines = table(alone, at_once, bare, 3)
    assert lines[2] == "| quick | 0.10 | 0.40 | 0.90 | 0.05 | 0.10 | 0.20 | 0.30 |"
    assert lines[3] == "| slow | 0.60 | 1.00 | 1.50 | 0.07 | 0.20 | 0.20 | 1.10 |"
    assert lines[-1] == "Alone above 0.5 s: slow; slowest of 3 above 1.0 s: slow; and without browsers: slow."
