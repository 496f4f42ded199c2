import gc
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.problems import DataError
from data.records import Passage, Question, QuestionSet
from data.store import find, keep, last_used, load, note_used, passages_of, remove, stored

SET = QuestionSet(
    "../이름: 질문/들",
    (Passage("a", "서울은\n수도", "서울"), Passage("b", "부산")),
    (Question("1", "수도는?", ("서울", "한양"), ("a", "b"), "keyword"), Question("2", "왜?")),
)


def test_what_is_kept_comes_back(workspace_folder: Path) -> None:
    kept = keep(SET, source="질문.csv")
    assert (kept.key, kept.name, kept.source) == (SET.fingerprint[:16], SET.name, "질문.csv")
    assert (kept.passages, kept.questions) == (2, 2)
    assert load(kept.key) == SET
    assert stored() == [kept]
    assert [path.name for path in (workspace_folder / "datasets").iterdir()] == [kept.key]


def test_the_newest_is_first_and_equal_content_is_kept_once(workspace_folder: Path) -> None:
    keep(SET)
    other = keep(SET.with_questions([0]))
    again = keep(QuestionSet("new name", SET.passages, SET.questions))
    assert [kept.key for kept in stored()] == [again.key, other.key]
    assert load(again.key).name == "new name"


def test_removing(workspace_folder: Path) -> None:
    kept = keep(SET)
    remove(kept.key)
    assert stored() == []
    assert list((workspace_folder / "datasets").iterdir()) == []
    with pytest.raises(DataError, match=f"There is no question set {kept.key}"):
        remove(kept.key)


@pytest.mark.parametrize("key", ["..", "../datasets", "", "0123456789abcdeg", "/", "\x00"])
def test_a_key_is_never_a_path(workspace_folder: Path, key: str) -> None:
    keep(SET)
    for act in (load, remove):
        with pytest.raises(DataError, match="There is no question set"):
            act(key)
    assert len(stored()) == 1


def test_the_set_used_last_is_noted(workspace_folder: Path) -> None:
    assert last_used() == ""
    for key in ("0123456789abcdef", "fedcba9876543210"):
        note_used(key)
        assert last_used() == key
    assert [path.name for path in workspace_folder.iterdir()] == ["last_used.json"], "it was written in one step"


@pytest.mark.parametrize("note", ["", "{", "[]", "{}", "\x00", "[" * 100_000])
def test_a_damaged_note_of_the_set_used_last_is_none(workspace_folder: Path, note: str) -> None:
    note_used("0123456789abcdef")
    (workspace_folder / "last_used.json").write_text(note, encoding="utf-8")
    assert last_used() == ""


def test_a_note_that_cannot_be_written_stops_nobody(workspace_folder: Path) -> None:
    (workspace_folder / "last_used.json").mkdir(parents=True)
    note_used("0123456789abcdef")
    assert last_used() == ""


@pytest.mark.parametrize("note", ["", "{", "[]", '{"key": 1}', "\x00", "[" * 100_000])
def test_unreadable_folders_are_passed_over(workspace_folder: Path, note: str) -> None:
    kept = keep(SET)
    broken = workspace_folder / "datasets" / "0123456789abcdef"
    broken.mkdir()
    (broken / "set.json").write_text(note)
    (workspace_folder / "datasets" / "notes.txt").write_text("")
    assert stored() == [kept]
    remove(broken.name)
    assert not broken.exists()


def test_changed_content_is_refused(workspace_folder: Path) -> None:
    kept, other = keep(SET), keep(SET.with_questions([0]))
    folder = workspace_folder / "datasets"
    (folder / kept.key / "questions.parquet").write_bytes((folder / other.key / "questions.parquet").read_bytes())
    with pytest.raises(DataError, match=r"\(its content is not what was kept\)\. Remove it and read its source"):
        load(kept.key)
    (folder / kept.key / "questions.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=f"The kept question set {kept.key} cannot be read"):
        load(kept.key)


def test_passages_of_another_set_are_refused(workspace_folder: Path) -> None:
    kept, other = keep(SET), keep(QuestionSet("other", (*SET.passages, Passage("c", "대구")), SET.questions))
    folder = workspace_folder / "datasets"
    for name in ("passages.arrow", "passages.json"):
        (folder / kept.key / name).write_bytes((folder / other.key / name).read_bytes())
    with pytest.raises(DataError, match=r"\(its content is not what was kept\)"):
        load(kept.key)


@pytest.mark.parametrize("damage", [lambda old: old[:-9], lambda old: old.replace("부산".encode(), "울산".encode())])
def test_damaged_passages_are_refused(workspace_folder: Path, damage: Callable[[bytes], bytes]) -> None:
    kept = keep(SET)
    path = workspace_folder / "datasets" / kept.key / "passages.arrow"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=f"The kept question set {kept.key} cannot be read"):
        load(kept.key)


def test_a_copied_workspace_is_read_through(
    workspace_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep(SET)
    shutil.copytree(workspace_folder, tmp_path / "copy", copy_function=shutil.copyfile)
    (tmp_path / "copy" / "datasets" / kept.key / "passages.json").unlink()
    monkeypatch.setenv("MRC_WORKSPACE", str(tmp_path / "copy"))
    assert load(kept.key) == SET


def test_a_set_kept_as_parquet_still_opens(workspace_folder: Path) -> None:
    kept = keep(SET)
    folder = workspace_folder / "datasets" / kept.key
    rows = {name: [getattr(passage, name) for passage in SET.passages] for name in ("id", "text", "title")}
    pq.write_table(pa.table(rows), folder / "passages.parquet", compression="zstd")
    for name in ("passages.arrow", "passages.json"):
        (folder / name).unlink()
    assert load(kept.key) == SET


def test_passages_are_mapped_and_not_read(workspace_folder: Path) -> None:
    kept = keep(SET)
    gc.collect()  # what other tests left to be freed is not to be freed meanwhile
    before = pa.total_allocated_bytes()
    passages = passages_of(kept.key)
    gc.collect()
    assert pa.total_allocated_bytes() <= before
    assert passages[1] == SET.passages[1]
    assert load(kept.key).passages == passages


def test_find(workspace_folder: Path, tmp_path: Path) -> None:
    kept = keep(SET)
    (tmp_path / "file.csv").write_text("question,context\na?,b\n")
    assert find("file.csv", tmp_path).name == "file"
    assert find(str(tmp_path / "file.csv")).name == "file"
    assert find(kept.key) == SET
    assert find(SET.name) == SET
    assert len(find("sample").questions) >= 100


@pytest.mark.parametrize("reference", ["nothing.csv", "", "x" * 5000, "\x00"])
def test_find_lists_what_exists(workspace_folder: Path, tmp_path: Path, reference: str) -> None:
    kept = keep(SET)
    with pytest.raises(DataError) as caught:
        find(reference, tmp_path)
    assert str(caught.value).endswith(f"one of: sample, korquad-v1-dev, {SET.name} ({kept.key}).")


def test_made_questions_come_back_as_made(workspace_folder: Path) -> None:
    first, *others = SET.questions
    made = QuestionSet("made", SET.passages, (replace(first, made="sentence", hidden=True), *others))
    kept = keep(made)
    assert (kept.made, keep(SET).made) == (1, 0)
    assert load(kept.key).questions == made.questions
    assert load(kept.key).made == {"sentence": 1}


def test_where_answers_begin_and_what_does_not_answer_comes_back(workspace_folder: Path) -> None:
    first, *others = SET.questions
    told = replace(first, starts=(3, -1)[: len(first.answers)], rejected=(SET.passages[0].id,))
    kept = keep(QuestionSet(SET.name, SET.passages, (told, *others)))
    assert load(kept.key).questions == (told, *others)
    assert kept.key == keep(SET).key, "claims of a file are no content"


def test_a_set_kept_before_questions_could_be_made_still_opens(workspace_folder: Path) -> None:
    kept = keep(SET)
    folder = workspace_folder / "datasets" / kept.key
    questions = folder / "questions.parquet"
    pq.write_table(pq.read_table(questions).drop_columns(["made", "hidden", "starts", "rejected"]), questions)
    note = json.loads((folder / "set.json").read_text())
    (folder / "set.json").write_text(json.dumps({name: value for name, value in note.items() if name != "made"}))
    assert load(kept.key) == SET
    assert stored()[0].made == 0
