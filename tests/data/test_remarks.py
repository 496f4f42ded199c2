import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from data.remarks import (
    COLUMNS,
    LONGEST_NOTE,
    Remarks,
    as_table,
    mark_negative,
    remarks_of,
    unmark_negative,
    write_note,
)
from data.workspace import PROJECT, workspace
from tests.doubles import PASSAGES, QUESTIONS, small_set

OF = small_set().fingerprint
KILLED = """
import os, sys
from data import remarks, workspace
replace = workspace.Path.replace
def cut_off(self, target):
    os.kill(os.getpid(), 9)
workspace.Path.replace = cut_off
remarks.write_note(sys.argv[1], "q2", "second")
"""


def file() -> Path:
    return workspace() / "remarks" / f"{OF}.json"


def test_marks_and_notes_are_kept_in_their_order_and_taken_away() -> None:
    assert remarks_of(OF) == Remarks()
    mark_negative(OF, "q1", "p3")
    mark_negative(OF, "q1", "p2")
    mark_negative(OF, "q1", "p3")
    write_note(OF, "q2", "  왜 졌을까?\n")
    write_note(OF, "q1", "first")
    write_note(OF, "q1", "changed")
    known = remarks_of(OF)
    assert known == Remarks((("q1", "p3"), ("q1", "p2")), (("q2", "왜 졌을까?"), ("q1", "changed")))
    assert len(known) == 4
    assert (known.note("q1"), known.note("q3")) == ("changed", "")
    unmark_negative(OF, "q1", "p3")
    unmark_negative(OF, "q1", "never")
    write_note(OF, "q2", "  ")
    assert remarks_of(OF) == Remarks((("q1", "p2"),), (("q1", "changed"),))
    assert remarks_of("a" * 64) == Remarks()


def test_a_note_is_cut_and_comes_back_as_it_is() -> None:
    text = '<script>"=1+1" 한글 \u202e \\ ' + "가" * LONGEST_NOTE
    write_note(OF, "../../q", text)
    assert remarks_of(OF).note("../../q") == text[:LONGEST_NOTE]
    assert [path.name for path in (workspace() / "remarks").glob("*.json")] == [f"{OF}.json"]


@pytest.mark.parametrize("path", ["../runs", "", "x" * 64, "/etc/passwd", OF + "/..", OF.upper()])
def test_a_fingerprint_is_never_a_path(path: str) -> None:
    assert remarks_of(path) == Remarks()
    with pytest.raises(ValueError, match="no fingerprint"):
        mark_negative(path, "q1", "p1")
    assert not workspace().exists()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"negatives": 3}', '{"negatives": [["q1"], "q1", ["q1", 3], {}], "notes": null}']
)
def test_what_cannot_be_read_is_passed_over(content: str) -> None:
    file().parent.mkdir(parents=True)
    file().write_text(content)
    assert remarks_of(OF) == Remarks()
    mark_negative(OF, "q1", "p2")
    assert remarks_of(OF).negatives == (("q1", "p2"),)


@pytest.mark.slow
def test_a_kill_leaves_what_was_there() -> None:
    write_note(OF, "q1", "first")
    done = subprocess.run([sys.executable, "-c", KILLED, OF], cwd=PROJECT, check=False)
    assert done.returncode == -9
    assert remarks_of(OF).notes == (("q1", "first"),)
    write_note(OF, "q2", "second")  # nobody holds the lock any more
    assert json.loads(file().read_text(encoding="utf-8"))["notes"] == [["q1", "first"], ["q2", "second"]]


def test_two_pages_at_a_time_lose_nothing() -> None:
    threads = [threading.Thread(target=mark_negative, args=(OF, "q1", f"p{number}")) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(remarks_of(OF).negatives) == sorted(("q1", f"p{number}") for number in range(12))


def test_the_table_by_hand() -> None:
    known = Remarks((("q1", "p3"), ("gone", "p1"), ("q2", "gone")), (("q2", "note"), ("gone", "lost")))
    table = as_table(known, small_set())
    assert tuple(table.columns) == COLUMNS
    assert table.to_numpy().tolist() == [
        ["q2", QUESTIONS[1].text, "note", "", "", ""],
        ["q1", QUESTIONS[0].text, "", "p3", "서울", PASSAGES[2].text],
    ]
    assert list(as_table(Remarks(), small_set()).columns) == list(COLUMNS)
