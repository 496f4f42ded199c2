"""Tests of passages: ids of merged copies become aliases; merges and new ids are reported."""

import pytest

from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.passages import PassageBuilder, fill_ids
from mrc_workbench.data.problems import ProblemCode
from mrc_workbench.data.questions.read import read, read_files_in_subprocess
from mrc_workbench.data.subprocess_reader import File


def _builder_of(*rows: tuple[str, str, str]) -> PassageBuilder:
    builder = PassageBuilder()
    for id_, text, title in rows:
        builder.add(text, title, id_, is_copy=True)
    return builder


def _notices(builder: PassageBuilder) -> dict[ProblemCode, tuple[object, object]]:
    return {notice.code: (notice.details["count"], notice.details["examples"]) for notice in builder.notices()}


def test_ids_of_merged_copies_become_aliases() -> None:
    builder = _builder_of(("a", "하나", ""), ("b", "둘", ""), ("c", "하나", ""), ("d", "하나", ""), ("a", "하나", ""))
    assert builder.passages().ids == ["a", "b"]
    assert builder.aliases() == {"c": "a", "d": "a"}
    merged = (2, "c → a, d → a")
    assert _notices(builder) == {ProblemCode.MERGED_PASSAGES: merged, ProblemCode.REPEATED_PASSAGES: (1, "하나")}


def test_passage_takes_id_of_its_copy_and_ambiguous_id_is_no_alias() -> None:
    builder = _builder_of(("", "하나", ""), ("a", "하나", ""), ("b", "하나", ""))
    assert builder.passages().ids == ["a"]
    assert builder.aliases() == {"b": "a"}
    builder = _builder_of(("a", "하나", ""), ("b", "둘", ""), ("a", "둘", ""), ("x", "하나", ""), ("x", "둘", ""))
    assert builder.aliases() == {}
    assert _notices(builder)[ProblemCode.CHANGED_IDS] == (2, "a, x")


def test_generated_ids_avoid_ids_of_copies_and_are_reported() -> None:
    builder = _builder_of(("a", "하나", ""), ("p1", "하나", ""), ("", "둘", ""))
    assert builder.passages().ids == ["a", "p2"]
    assert builder.aliases() == {"p1": "a"}
    assert _notices(builder)[ProblemCode.GENERATED_IDS] == (1, "p2")
    assert _notices(_builder_of(("", "하나", ""), ("", "둘", ""))) == {}
    assert list(fill_ids("p", ["", ""], reserved=["p1"])) == ["p2", "p3"]


def test_reports_changed_ids_and_conflicting_titles() -> None:
    builder = _builder_of(("a", "하나", "가"), ("a", "둘", ""), ("b", "하나", "나"), ("c", "셋", ""), ("c", "셋", "다"))
    assert _notices(builder)[ProblemCode.CHANGED_IDS] == (1, "a → p1")
    assert _notices(builder)[ProblemCode.SEVERAL_TITLES] == (1, "나 → 가")
    assert list(builder.passages().titles) == ["가", "", "다"], "a missing title is no conflict"


ROWS = "question,context\n언제 오나?,두루미는 철원에 온다.\n어디에 오나?,두루미는 철원에 온다.\n"
WITH_IDS = "id,question,context\nq7,언제 오나?,두루미는 철원에 온다.\n,어디에 사나?,수달은 강에 산다.\n"
LINES = "두루미는 철원에 온다.\n수달은 강에 산다.\n두루미는 철원에 온다.\n"


@pytest.mark.parametrize(
    ("content", "notices"),
    [
        (LINES, [(ProblemCode.REPEATED_PASSAGES, {"count": 1, "examples": "두루미는 철원에 온다."})]),
        (ROWS, []),  # questions about the same passage are no merge
        (WITH_IDS, [(ProblemCode.GENERATED_QUESTION_IDS, {"ids": 1, "examples": "q1"})]),
        (WITH_IDS.replace("q7", ""), []),  # no question has an id
    ],
)
def test_reading_reports_repeated_passages_and_generated_ids(content: str, notices: list[object]) -> None:
    reading = read(content.encode(), "file")
    assert [(item.code, item.details) for item in reading.problems if item.row is None] == notices
    if content == WITH_IDS:
        assert [item.id for item in reading.question_set.questions] == ["q7", "q1"]


def test_merged_passages_keep_their_ids_in_any_process() -> None:
    content = "id,text\nd1,두루미는 철원에 온다.\nd2,수달은 강에 산다.\nd3,두루미는 철원에 온다.\n".encode()
    files = [File(Content.from_bytes(content), "corpus.csv")]
    for reading in (read(content, "corpus.csv"), read_files_in_subprocess(files)):
        assert reading.question_set.aliases == {"d3": "d1"}
        (notice,) = reading.problems
        assert (notice.code, notice.row) == (ProblemCode.MERGED_PASSAGES, None)
        assert "(copy → stored passage: d3 → d1)" in notice.message
