"""Rules for k1 and b are evaluated on datasets that they are not fitted on; segmenters count tokens correctly."""

from collections.abc import Mapping

import numpy as np

from benchmarks.quality.bm25_values import DEFAULT, PAIRS, Rule, SetResult, harmless_pair, report, threshold_rule
from benchmarks.quality.japanese import _kanji, _Row, _runs, _tokenize, table
from tests.doubles import small_set

N_QUESTIONS = 4


def set_result(gains: Mapping[tuple[float, float], float], **statistics: float) -> SetResult:
    """Return a dataset on which each question has these gains by pair, and no gain with other pairs."""
    values = np.full((len(PAIRS), N_QUESTIONS), 0.5)
    for pair, gain in gains.items():
        values[PAIRS.index(pair)] += gain
    groups = np.arange(N_QUESTIONS)
    return SetResult(small_set(), values, groups, statistics, (0.01, -0.02, 0.04))


def test_pair_from_other_datasets_loses_on_none_of_them() -> None:
    first = set_result({(1.2, 0.4): 0.3, (0.6, 0.4): 0.1})
    second = set_result({(1.2, 0.4): -0.01, (0.6, 0.4): 0.1})
    assert PAIRS[harmless_pair([first])] == (1.2, 0.4)
    assert PAIRS[harmless_pair([first, second])] == (0.6, 0.4)
    assert PAIRS[harmless_pair([set_result({pair: -0.1 for pair in PAIRS if pair != DEFAULT})])] == DEFAULT


def test_rule_splits_datasets_by_the_statistic_with_the_largest_gain() -> None:
    short = [set_result({(0.3, 0.0): 0.2}, length=value, other=other) for value, other in ((5.0, 1.0), (10.0, 4.0))]
    long = [set_result({(2.0, 1.0): 0.2}, length=value, other=other) for value, other in ((30.0, 2.0), (60.0, 3.0))]
    rule = threshold_rule([*short, *long])
    assert (rule.statistic, rule.threshold) == ("length", 20.0)
    assert [PAIRS[rule.pair({"length": length})] for length in (19.0, 21.0)] == [(0.3, 0.0), (2.0, 1.0)]
    assert Rule("length", 20.0, 1, 2).pair({"length": 20.0}) == 2


def test_report_evaluates_the_pair_from_other_datasets() -> None:
    sets = {
        "first": set_result({(1.2, 0.4): 0.1}, length=1.0),
        "second": set_result({(2.0, 0.6): 0.2}, length=2.0),
        "third": set_result({(2.0, 0.6): 0.2}, length=3.0),
    }
    rows = [line.split(" | ") for line in report(sets) if line.startswith("| first")]
    (cells,) = rows
    assert cells[3] == "50.00"
    assert cells[4] == "1.2, 0.4: +10.00 (+10.00 to +10.00)"
    assert cells[5] == "+1.00 (-2.00 to +4.00)"
    assert cells[6] == "2, 0.6: +0.00 (+0.00 to +0.00)"


def test_splits_runs_by_script_and_skips_hiragana() -> None:
    text = "東京タワーは1958年にNHKが"
    assert _runs([text]) == [["東京", "タワー", "1958", "年", "nhk"]]
    assert _kanji([text]) == [["東", "京", "年"]]
    assert _tokenize([text], [_kanji, _kanji]) == [["0:東", "0:京", "0:年", "1:東", "1:京", "1:年"]]


def test_table_compares_segmentations_with_bigrams() -> None:
    values = np.array([0.0, 1.0, 1.0, 0.0])
    rows = {"bigrams": _Row(values, 10, 100.0), "more": _Row(np.ones(4), 2000, 50.0)}
    lines = table(rows, np.arange(4))
    assert lines[2] == "| bigrams | 50.00 |  | 10 | 100 |"
    assert lines[3].startswith("| more | 100.00 | +50.00 (")
    assert lines[3].endswith("| 2,000 | 50 |")
