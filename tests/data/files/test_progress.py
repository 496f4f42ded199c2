"""The progress of the reader process: what it writes, and what the waiting process reports of it."""

import sys
from pathlib import Path

import pytest

from data import apart
from data.files import progress
from data.files.progress import read_progress, report_files_read, write_progress_to
from data.questions.read import read_paths_apart


@pytest.fixture(autouse=True)
def _no_report() -> None:
    progress._reports.clear()


def test_reported_files_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"
    assert read_progress(path) is None
    write_progress_to(path)
    report_files_read(0, 10)
    assert read_progress(path) == (0, 10)
    report_files_read(1, 10)
    assert read_progress(path) == (0, 10), "not written again so soon"
    report_files_read(10, 10)
    assert read_progress(path) == (10, 10), "the end is always written"


def test_reports_without_a_file_and_on_a_full_disk_are_dropped(tmp_path: Path) -> None:
    report_files_read(1, 2)
    write_progress_to(tmp_path / "missing" / "progress.txt")
    report_files_read(1, 2)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_no_progress(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"
    path.write_text("3", encoding="ascii")
    assert read_progress(path) is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="copies processes")
def test_progress_of_many_files_reaches_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "started", apart.forked)
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "강은?"}\n', encoding="utf-8")
    lines = "".join(f'{{"_id": "{number}", "text": "한강은 {number}번째 강이다."}}\n' for number in range(60_000))
    (tmp_path / "corpus.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n", encoding="utf-8")
    reports: list[tuple[int, int]] = []
    read_paths_apart([tmp_path], progress=lambda done, total: reports.append((done, total)))
    assert reports
    assert all(0 <= done <= total == 3 for done, total in reports)
