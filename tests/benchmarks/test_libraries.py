"""Scripts for the same task run with each library, and their lines, metrics and differences are reported."""

import json
from pathlib import Path

import pytest

from benchmarks.libraries import measure
from benchmarks.libraries.measure import LIBRARIES, METRICS, TASKS, Library, Output, agreement, code_lines

SCRIPT = '''"""A docstring
of two lines."""

# a comment
import json

print(  # a call of three lines
    json.dumps("""a string
of two lines"""),
)
'''


def test_counts_lines_of_code_without_docstrings_comments_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    assert code_lines(path) == 5


def test_each_library_has_a_script_for_each_task() -> None:
    assert all(measure.script(task, library).is_file() for task in TASKS for library in LIBRARIES)
    assert all(set(library.packages) == set(TASKS) for library in LIBRARIES)


def test_parses_the_last_line_of_a_script() -> None:
    printed = 'Indexing\n{"a": [0.5, 1, 0.25], "b": [0.25, 1, 0.25], "p": 0.04}\n'
    assert Output.parse(printed) == Output((0.5, 1, 0.25), (0.25, 1, 0.25), 0.04)


def test_reports_the_largest_difference_between_libraries() -> None:
    outputs = {"x": Output((0.5, 1), (0.25, 1), 0.1), "y": Output((0.5, 0.99), (0.25, 1), 0.2)}
    assert agreement(outputs) == (
        "On the same two runs, the metrics of 2 libraries differ by at most 1.0000 percentage points."
    )


def test_missing_library_has_a_row_without_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Library("ranx", {"search": ("no-such-package",), "evaluate": ("no-such-package",)}, "none")
    assert absent.missing("search") == ["no-such-package"]
    row = measure._row("search", absent, {}, {})
    assert "not installed: no-such-package" in row
    header = measure._header()
    assert len({line.count("|") for line in (*header, row)}) == 1


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """A collection in BEIR's format, in which queries and passages share ids; such passages must not be skipped."""
    passages = {str(row): text for row, text in enumerate(("red apple", "green pear", "blue sky", "red sky"), start=1)}
    corpus = [{"_id": id_, "title": "", "text": text} for id_, text in passages.items()]
    queries = [{"_id": str(row), "text": text} for row, text in enumerate(("red apple", "sky", "green"), start=1)]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "qrels").mkdir()
    judged = "query-id\tcorpus-id\tscore\n1\t1\t1\n1\t4\t1\n2\t3\t1\n2\t4\t1\n3\t2\t1\n"
    (tmp_path / "qrels" / "test.tsv").write_text(judged, encoding="utf-8")
    for name, order in (("a", "1234"), ("b", "4321")):
        lines = "".join(
            f"{query} Q0 {passage} {rank} {9 - rank} x\n" for query in "123" for rank, passage in enumerate(order)
        )
        (tmp_path / f"{name}.run").write_text(lines, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_a_script_evaluates_two_runs(library: Library, collection: Path) -> None:
    if missing := library.missing("evaluate"):
        pytest.skip(f"not installed: {', '.join(missing)}")
    runs = [str(collection / f"{name}.run") for name in "ab"]
    output = measure.run_script("evaluate", library, [str(collection), *runs], collection)
    assert len(output.a) == len(METRICS)
    assert output.a[1:] == pytest.approx([1, (1 + 1 / 3 + 1 / 2) / 3], abs=1e-4)
    assert output.b[1:] == pytest.approx([1, (1 + 1 + 1 / 3) / 3], abs=1e-4)
    assert 0 <= output.p <= 1


@pytest.mark.slow
def test_our_script_searches(collection: Path) -> None:
    output = measure.run_script("search", LIBRARIES[0], [str(collection)], collection)
    assert output.a == pytest.approx([1, 1, 1])
