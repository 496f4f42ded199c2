"""Private words, ambiguous class names and indirect sentences stay within limits that only decrease."""

import json
from functools import cache

import pytest

from benchmarks import wording
from mrc_workbench.data.workspace import PROJECT

pytestmark = pytest.mark.slow  # reads every file of the project


@cache
def counts() -> dict[str, dict[str, int]]:
    return wording.counts(PROJECT)


@pytest.mark.parametrize("group", ["names", "sentences", "code"])
def test_counts_stay_within_their_limits(group: str) -> None:
    limits = json.loads((PROJECT / wording.LIMITS).read_text(encoding="utf-8"))[group]
    current = counts()[group]
    assert {name: count for name, count in current.items() if count > limits[name]} == {}
    # a limit far above the count would let the word come back: `python benchmarks/wording.py --lower`
    assert {name: limit for name, limit in limits.items() if limit > 1.1 * current[name] + 10} == {}


def test_splits_names_into_words() -> None:
    assert wording.words_of("KeptRuns_of") == ["kept", "runs", "of"]
    assert wording.words_of("_read_HTTPPage2") == ["read", "http", "page"]


def test_counts_names_but_neither_keywords_nor_texts() -> None:
    source = wording.PythonSource('def told(found):\n    return "kept"  # one\n')
    assert source.identifiers == ["told", "found"]
    assert source.prose == ["one", "", ""]


def test_counts_assignments_of_several_values() -> None:
    source = wording.PythonSource("a, b = 1, 2\nc, d = pair\ne = 1, 2\n(f, g), h = (1, 2), 3\n")
    assert source.packed_assignments == 2


def test_finds_class_names_with_two_meanings() -> None:
    both = wording.PythonSource("class Hit: ...\n")
    assert wording.ambiguous_classes({"data/a.py": both, "models/b.py": both}) == {"Hit": ["data/a.py", "models/b.py"]}
    assert wording.ambiguous_classes({"data/a.py": both, "tests/b.py": both}) == {}
