"""Judged questions: kept by corpus, made into sets, and never lost to another page or a damaged file."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pydantic import BaseModel

from mrc_workbench.data.questions.judgements import (
    COLUMNS,
    LONGEST_NOTE,
    Judged,
    JudgedAnswer,
    Remarks,
    Verdict,
    as_table,
    damaged_files,
    forget,
    judge,
    judge_answer,
    judged_answer,
    judged_answers,
    judged_passages,
    judgements_of,
    mark_negative,
    path_of,
    remarks_of,
    unmark_negative,
    verdicts_of,
    with_judged,
    write_note,
)
from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.data.workspace import PROJECT, workspace
from tests.doubles import PASSAGES, QUESTIONS, small_set

SET = small_set()
CORPUS = SET.corpus_fingerprint
OF = SET.fingerprint


def test_a_judgement_is_kept_and_taken_back() -> None:
    judge(CORPUS, "누가  한글을\n만들었나?", "p1", Verdict.RIGHT)
    for _ in range(2):  # judged twice it is judged once
        judge(CORPUS, "누가 한글을 만들었나?", "p2", Verdict.RIGHT)
    judge(CORPUS, "다른 질문", "p3", Verdict.RIGHT)
    assert judgements_of(CORPUS) == (Judged("누가 한글을 만들었나?", ("p1", "p2")), Judged("다른 질문", ("p3",)))
    judge(CORPUS, "누가 한글을 만들었나?", "p1", None)
    assert judged_passages(judgements_of(CORPUS), " 누가 한글을  만들었나?") == ("p2",)
    judge(CORPUS, "누가 한글을 만들었나?", "p2", None)
    assert judgements_of(CORPUS) == (Judged("다른 질문", ("p3",)),)
    forget(CORPUS, "다른 질문")
    assert judgements_of(CORPUS) == ()


def test_another_corpus_has_its_own() -> None:
    judge(CORPUS, "질문", "p1", Verdict.RIGHT)
    other = QuestionSet("other", SET.passages[:2], ())
    assert judgements_of(other.corpus_fingerprint) == ()
    assert judgements_of(replace(SET, questions=(), name="copy").corpus_fingerprint) == judgements_of(CORPUS)


def test_pages_that_judge_at_once_lose_nothing() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: judge(CORPUS, f"질문 {number}", "p1", Verdict.RIGHT), range(40)))
    assert {one.question for one in judgements_of(CORPUS)} == {f"질문 {number}" for number in range(40)}


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"questions": 3}', '{"questions": [{"question": 1}]}', '{"questions": [["a", "b"]]}']
)
def test_a_damaged_file_is_set_aside_before_a_new_one_is_written(content: str) -> None:
    path = workspace() / "judgements" / f"{CORPUS}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    assert judgements_of(CORPUS) == ()
    assert damaged_files(CORPUS, OF) == [path], "reading changes nothing"
    judge(CORPUS, "질문", "p1", Verdict.RIGHT)
    assert judgements_of(CORPUS) == (Judged("질문", ("p1",)),)
    copy = path.with_name(f"{path.name}.damaged")
    assert copy.read_text() == content
    assert damaged_files(CORPUS, OF) == [copy]


def test_odd_entries_alone_are_skipped_and_nothing_is_lost() -> None:
    for number in range(20):
        judge(CORPUS, f"질문 {number}", "p1", Verdict.RIGHT)
    judge_answer(CORPUS, "질문 1", "서울", True)
    path = path_of("judgements", CORPUS)
    content = json.loads(path.read_text())
    content["questions"][3]["unsure"] = None
    content["answers"].append({"question": "질문 2"})
    path.write_text(damaged := json.dumps(content, ensure_ascii=False))
    expected = {f"질문 {number}" for number in range(20) if number != 3}
    assert {one.question for one in judgements_of(CORPUS)} == expected
    assert judged_answers(CORPUS) == (JudgedAnswer("질문 1", "서울", True),)
    judge(CORPUS, "새 질문", "p2", Verdict.WRONG)
    assert {one.question for one in judgements_of(CORPUS)} == expected | {"새 질문"}
    assert path.with_name(f"{path.name}.damaged").read_text() == damaged
    judge(CORPUS, "또 새 질문", "p2", Verdict.WRONG)
    assert len(damaged_files(CORPUS, OF)) == 1, "a sound file is not set aside"


def test_a_second_damaged_file_is_set_aside_beside_the_first() -> None:
    path = path_of("judgements", CORPUS)
    path.parent.mkdir(parents=True, exist_ok=True)
    for content in ("{", "{{"):
        path.write_text(content)
        judge(CORPUS, "질문", "p1", Verdict.RIGHT)
    copies = [path.with_name(f"{path.name}.damaged{ending}") for ending in ("", "-2")]
    assert [copy.read_text() for copy in copies] == ["{", "{{"]


def test_a_file_that_cannot_be_set_aside_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    path = path_of("judgements", CORPUS)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{")

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copy2", full_disk)
    with pytest.raises(OSError, match="No space left"):
        judge(CORPUS, "질문", "p1", Verdict.RIGHT)
    assert path.read_text() == "{"


def test_a_file_that_the_system_cannot_read_is_not_overwritten() -> None:
    path = path_of("judgements", CORPUS)
    path.mkdir(parents=True)  # reading it raises `OSError`
    assert judgements_of(CORPUS) == ()
    with pytest.raises(OSError, match="directory"):
        judge(CORPUS, "질문", "p1", Verdict.RIGHT)
    assert path.is_dir()


@pytest.mark.parametrize("name", ["", "..", "../../x", "../runs", "/etc/passwd", "g" * 64, OF + "/..", OF.upper()])
def test_a_fingerprint_is_never_a_path(name: str) -> None:
    assert (judgements_of(name), remarks_of(name)) == ((), Remarks())
    with pytest.raises(ValueError, match="no fingerprint"):
        judge(name, "질문", "p1", Verdict.RIGHT)
    with pytest.raises(ValueError, match="no fingerprint"):
        mark_negative(name, "q1", "p1")
    assert not workspace().exists()


def test_judged_questions_become_a_set() -> None:
    judged = (Judged("새 질문", ("p1",)), Judged("또 새 질문", ("p2", "p3")))
    alone = with_judged(SET, judged, "mine", alone=True)
    assert (alone.name, alone.passages) == ("mine", SET.passages)
    assert [(one.id, one.text, one.relevant) for one in alone.questions] == [
        ("judged-1", "새 질문", ("p1",)),
        ("judged-2", "또 새 질문", ("p2", "p3")),
    ]
    both = with_judged(SET, judged, "both", alone=False)
    assert both.questions == SET.questions + alone.questions


def test_a_question_that_the_set_asks_gets_the_passages_besides_its_own() -> None:
    first = SET.questions[0]
    other = next(id_ for id_ in SET.passages.ids if id_ not in first.relevant)
    both = with_judged(SET, (Judged(f" {first.text} ", (other, *first.relevant)),), "both", alone=False)
    assert len(both.questions) == len(SET.questions)
    assert both.questions[0] == replace(first, relevant=(*first.relevant, other))


def test_a_passage_that_a_person_judges_right_is_of_grade_one_at_least() -> None:
    first = Question.judged("q1", SET.questions[0].text, {"p1": 2, "p2": 0})
    both = with_judged(replace(SET, questions=(first,)), (Judged(first.text, ("p1", "p2", "p3")),), "both", alone=False)
    assert both.questions[0].relevant == ("p1", "p2", "p3")
    assert both.questions[0].grade_of == {"p1": 2, "p2": 1, "p3": 1}


def test_what_is_not_right_is_kept_and_becomes_a_grade_of_zero() -> None:
    first = SET.questions[0]
    for passage, verdict in zip(("p2", "p3", "p4", "p5"), (*Verdict, Verdict.RIGHT), strict=True):
        judge(CORPUS, first.text, passage, verdict)
    judge(CORPUS, first.text, "p5", Verdict.WRONG)  # another word takes the place of the one before
    judge(CORPUS, "새 질문", "p1", Verdict.WRONG)
    judged = judgements_of(CORPUS)
    assert judged[0] == Judged(first.text, ("p2",), wrong=("p3", "p5"), unsure=("p4",))
    assert verdicts_of(judged)[first.text, "p4"] is Verdict.UNSURE
    both = with_judged(SET, judged, "both", alone=False)
    assert len(both.questions) == len(SET.questions), "a new question without a right passage measures nothing"
    assert both.questions[0].grade_of == {"p1": 1, "p2": 1, "p3": 0, "p5": 0}, "unsure is unjudged"
    assert both.questions[1:] == SET.questions[1:]
    assert with_judged(SET, judged, "alone", alone=True).questions == both.questions[:1], "with what the set knows"
    assert with_judged(SET, (Judged(first.text, (), wrong=("p1",)),), "both", alone=False).questions == SET.questions
    judge(CORPUS, "새 질문", "p1", None)
    assert judgements_of(CORPUS) == judged[:1]


def test_the_file_is_read_by_earlier_versions_and_theirs_is_read_here() -> None:
    @dataclass(frozen=True)
    class Before:
        question: str
        passages: tuple[str, ...]
        answers: tuple[str, ...] = ()

    class FileBefore(BaseModel):
        questions: list[Before] = []
        answers: list[JudgedAnswer] = []

    path = path_of("judgements", CORPUS)
    judge(CORPUS, "질문", "p1", Verdict.RIGHT)
    judge(CORPUS, "질문", "p2", Verdict.WRONG)
    judge_answer(CORPUS, "질문", "답", True)
    read = FileBefore.model_validate_json(path.read_text(encoding="utf-8"))
    assert (read.questions, read.answers) == ([Before("질문", ("p1",))], [JudgedAnswer("질문", "답", True)])
    path.write_text(read.model_dump_json(exclude={"questions": {"__all__": {"answers"}}}), encoding="utf-8")
    assert judgements_of(CORPUS) == (Judged("질문", ("p1",), ("답",)),)


def test_ids_that_are_taken_are_passed_over() -> None:
    named = replace(SET, questions=(replace(SET.questions[0], id="judged-1"), *SET.questions[1:]))
    made = with_judged(named, (Judged("새 질문", ("p1",)),), "both", alone=False)
    assert made.questions[-1].id == "judged-2"


def test_nothing_judged_makes_no_set() -> None:
    with pytest.raises(ValueError, match="no question was judged"):
        with_judged(SET, (), "mine", alone=True)


def test_an_answer_is_judged_right_or_wrong_and_taken_back() -> None:
    judge_answer(CORPUS, "누가  만들었나?", " 세종 \n대왕", True)
    assert judged_answer(judged_answers(CORPUS), "누가 만들었나?", "세종 대왕") is True
    assert judgements_of(CORPUS) == (), "a question without a right passage is none for a set"
    judge(CORPUS, "누가 만들었나?", "p1", Verdict.RIGHT)
    assert judgements_of(CORPUS) == (Judged("누가 만들었나?", ("p1",), ("세종 대왕",)),)
    judge_answer(CORPUS, "누가 만들었나?", "세종 대왕", False)
    assert judged_answer(judged_answers(CORPUS), "누가 만들었나?", "세종 대왕") is False
    assert judgements_of(CORPUS) == (Judged("누가 만들었나?", ("p1",)),)
    judge_answer(CORPUS, "누가 만들었나?", "세종 대왕", None)
    assert judged_answers(CORPUS) == ()
    assert judged_passages(judgements_of(CORPUS), "누가 만들었나?") == ("p1",)


def test_answers_judged_right_are_the_answers_of_a_set() -> None:
    judge(CORPUS, "누가 만들었나?", "p1", Verdict.RIGHT)
    judge_answer(CORPUS, "누가 만들었나?", "세종", True)
    judge_answer(CORPUS, "누가 만들었나?", "한글", False)
    first = SET.questions[0]
    judge(CORPUS, first.text, "p1", Verdict.RIGHT)
    judge_answer(CORPUS, first.text, "세종대왕", True)
    made = with_judged(SET, judgements_of(CORPUS), "more", alone=False)
    assert made.questions[0].answers == (*first.answers, "세종대왕")
    assert made.questions[-1].answers == ("세종",)


def test_what_is_forgotten_has_no_judged_answer() -> None:
    judge_answer(CORPUS, "질문", "답", True)
    judge_answer(CORPUS, "다른 질문", "답", False)
    forget(CORPUS, "질문")
    assert [one.question for one in judged_answers(CORPUS)] == ["다른 질문"]


KILLED = """
import os, sys
from mrc_workbench.data import workspace
from mrc_workbench.data.questions import judgements as remarks
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


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"negatives": 3}', '{"negatives": [["q1"], "q1", ["q1", 3], {}], "notes": null}']
)
def test_damaged_remarks_are_set_aside_before_new_ones_are_written(content: str) -> None:
    file().parent.mkdir(parents=True)
    file().write_text(content)
    assert remarks_of(OF) == Remarks()
    mark_negative(OF, "q1", "p2")
    assert remarks_of(OF).negatives == (("q1", "p2"),)
    copy = file().with_name(f"{file().name}.damaged")
    assert copy.read_text() == content
    assert damaged_files(CORPUS, OF) == [copy]


def test_skips_a_damaged_remark_and_keeps_the_others() -> None:
    write_note(OF, "q1", "first")
    mark_negative(OF, "q1", "p1")
    content = json.loads(file().read_text())
    content["negatives"].append(["q2", None])
    file().write_text(damaged := json.dumps(content))
    assert remarks_of(OF) == Remarks((("q1", "p1"),), (("q1", "first"),))
    write_note(OF, "q2", "second")
    assert remarks_of(OF) == Remarks((("q1", "p1"),), (("q1", "first"), ("q2", "second")))
    assert file().with_name(f"{file().name}.damaged").read_text() == damaged


@pytest.mark.slow
def test_a_kill_leaves_what_was_there() -> None:
    write_note(OF, "q1", "first")
    done = subprocess.run([sys.executable, "-c", KILLED, OF], cwd=PROJECT, check=False)
    assert done.returncode == -9
    assert remarks_of(OF).notes == (("q1", "first"),)
    write_note(OF, "q2", "second")  # nobody holds the lock any more
    assert json.loads(file().read_text(encoding="utf-8"))["notes"] == [["q1", "first"], ["q2", "second"]]


def test_the_table_by_hand() -> None:
    known = Remarks((("q1", "p3"), ("gone", "p1"), ("q2", "gone")), (("q2", "note"), ("gone", "lost")))
    table = as_table(known, small_set())
    assert tuple(table.columns) == COLUMNS
    assert table.to_numpy().tolist() == [
        ["q2", QUESTIONS[1].text, "note", "", "", ""],
        ["q1", QUESTIONS[0].text, "", "p3", "서울", PASSAGES[2].text],
    ]
    assert list(as_table(Remarks(), small_set()).columns) == list(COLUMNS)
