"""Judged questions: stored by corpus, merged into sets, and safe from other pages and damaged files."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product

import pytest
from pydantic import BaseModel

from mrc_workbench.data.questions import judgements
from mrc_workbench.data.questions.judgements import JudgedQuestion, RelevanceVerdict, judge_passage, load_judgements
from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.data.workspace import PROJECT, workspace
from tests.doubles import PASSAGES, QUESTIONS, small_set

SET = small_set()
CORPUS = SET.corpus_fingerprint
OF = SET.fingerprint


def test_stores_and_withdraws_judgements() -> None:
    judge_passage(CORPUS, "누가  한글을\n만들었나?", "p1", RelevanceVerdict.RIGHT)
    for _ in range(2):  # a repeated judgement is stored once
        judge_passage(CORPUS, "누가 한글을 만들었나?", "p2", RelevanceVerdict.RIGHT)
    judge_passage(CORPUS, "다른 질문", "p3", RelevanceVerdict.RIGHT)
    expected = (JudgedQuestion("누가 한글을 만들었나?", ("p1", "p2")), JudgedQuestion("다른 질문", ("p3",)))
    assert load_judgements(CORPUS) == expected
    judge_passage(CORPUS, "누가 한글을 만들었나?", "p1", None)
    assert judgements.find_right_passages(load_judgements(CORPUS), " 누가 한글을  만들었나?") == ("p2",)
    judge_passage(CORPUS, "누가 한글을 만들었나?", "p2", None)
    assert load_judgements(CORPUS) == (JudgedQuestion("다른 질문", ("p3",)),)
    judgements.forget_question(CORPUS, "다른 질문")
    assert load_judgements(CORPUS) == ()


def test_stores_judgements_by_corpus() -> None:
    judge_passage(CORPUS, "질문", "p1", RelevanceVerdict.RIGHT)
    other = QuestionSet("other", SET.passages[:2], ())
    assert load_judgements(other.corpus_fingerprint) == ()
    assert load_judgements(replace(SET, questions=(), name="copy").corpus_fingerprint) == load_judgements(CORPUS)


def test_concurrent_judgements_lose_nothing() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: judge_passage(CORPUS, f"질문 {number}", "p1", RelevanceVerdict.RIGHT), range(40)))
    assert {entry.question for entry in load_judgements(CORPUS)} == {f"질문 {number}" for number in range(40)}


@pytest.mark.parametrize(
    ("folder", "content"),
    [
        *product(("judgements", "remarks"), ("", "{", "[]")),
        ("judgements", '{"questions": 3}'),
        ("judgements", '{"questions": [{"question": 1}]}'),
        ("judgements", '{"questions": [["a", "b"]]}'),
        ("remarks", '{"negatives": 3}'),
        ("remarks", '{"negatives": [["q1"], "q1", ["q1", 3], {}], "notes": null}'),
    ],
)
def test_backs_up_a_damaged_file_before_writing(folder: str, content: str) -> None:
    path = judgements.annotation_path(folder, CORPUS if folder == "judgements" else OF)
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert (load_judgements(CORPUS), judgements.load_remarks(OF)) == ((), judgements.Remarks())
    assert judgements.damaged_files(CORPUS, OF) == [path], "reading changes nothing"
    judge_passage(CORPUS, "질문", "p1", RelevanceVerdict.RIGHT)
    judgements.mark_negative(OF, "q1", "p2")
    assert load_judgements(CORPUS) == (JudgedQuestion("질문", ("p1",)),)
    assert judgements.load_remarks(OF) == judgements.Remarks((("q1", "p2"),))
    copy = path.with_name(f"{path.name}.damaged")
    assert copy.read_text() == content
    assert judgements.damaged_files(CORPUS, OF) == [copy]


def test_skips_only_invalid_entries() -> None:
    for number in range(20):
        judge_passage(CORPUS, f"질문 {number}", "p1", RelevanceVerdict.RIGHT)
    judgements.judge_answer(CORPUS, "질문 1", "서울", True)
    path = judgements.annotation_path("judgements", CORPUS)
    content = json.loads(path.read_text())
    content["questions"][3]["unsure"] = None
    content["answers"].append({"question": "질문 2"})
    path.write_text(damaged := json.dumps(content, ensure_ascii=False))
    expected = {f"질문 {number}" for number in range(20) if number != 3}
    assert {judged_question.question for judged_question in load_judgements(CORPUS)} == expected
    assert judgements.load_judged_answers(CORPUS) == (judgements.JudgedAnswer("질문 1", "서울", True),)
    judge_passage(CORPUS, "새 질문", "p2", RelevanceVerdict.WRONG)
    assert {judged_question.question for judged_question in load_judgements(CORPUS)} == expected | {"새 질문"}
    assert path.with_name(f"{path.name}.damaged").read_text() == damaged
    judge_passage(CORPUS, "또 새 질문", "p2", RelevanceVerdict.WRONG)
    assert len(judgements.damaged_files(CORPUS, OF)) == 1, "a sound file is not set aside"


def test_backs_up_a_second_damaged_file() -> None:
    path = judgements.annotation_path("judgements", CORPUS)
    path.parent.mkdir(parents=True, exist_ok=True)
    for content in ("{", "{{"):
        path.write_text(content)
        judge_passage(CORPUS, "질문", "p1", RelevanceVerdict.RIGHT)
    copies = [path.with_name(f"{path.name}.damaged{ending}") for ending in ("", "-2")]
    assert [copy.read_text() for copy in copies] == ["{", "{{"]


def test_does_not_overwrite_a_file_without_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    path = judgements.annotation_path("judgements", CORPUS)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{")

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copy2", full_disk)
    with pytest.raises(OSError, match="No space left"):
        judge_passage(CORPUS, "질문", "p1", RelevanceVerdict.RIGHT)
    assert path.read_text() == "{"


def test_does_not_overwrite_an_unreadable_file() -> None:
    path = judgements.annotation_path("judgements", CORPUS)
    path.mkdir(parents=True)  # reading it raises `OSError`
    assert load_judgements(CORPUS) == ()
    with pytest.raises(OSError, match="directory"):
        judge_passage(CORPUS, "질문", "p1", RelevanceVerdict.RIGHT)
    assert path.is_dir()


@pytest.mark.parametrize("name", ["", "..", "../../x", "../runs", "/etc/passwd", "g" * 64, OF + "/..", OF.upper()])
def test_rejects_fingerprints_that_are_paths(name: str) -> None:
    assert (load_judgements(name), judgements.load_remarks(name)) == ((), judgements.Remarks())
    with pytest.raises(ValueError, match="no fingerprint"):
        judge_passage(name, "질문", "p1", RelevanceVerdict.RIGHT)
    with pytest.raises(ValueError, match="no fingerprint"):
        judgements.mark_negative(name, "q1", "p1")
    assert not workspace().exists()


def test_builds_a_set_from_judged_questions() -> None:
    judged = (JudgedQuestion("새 질문", ("p1",)), JudgedQuestion("또 새 질문", ("p2", "p3")))
    alone = judgements.merge_judgements(SET, judged, "mine", only_judged=True)
    assert (alone.name, alone.passages) == ("mine", SET.passages)
    questions = [(question.id, question.text, question.relevant) for question in alone.questions]
    assert questions == [("judged-1", "새 질문", ("p1",)), ("judged-2", "또 새 질문", ("p2", "p3"))]
    both = judgements.merge_judgements(SET, judged, "both", only_judged=False)
    assert both.questions == SET.questions + alone.questions


def test_adds_judged_passages_to_existing_questions() -> None:
    first = SET.questions[0]
    other = next(id_ for id_ in SET.passages.ids if id_ not in first.relevant)
    judged = JudgedQuestion(f" {first.text} ", (other, *first.relevant))
    both = judgements.merge_judgements(SET, (judged,), "both", only_judged=False)
    assert len(both.questions) == len(SET.questions)
    assert both.questions[0] == replace(first, relevant=(*first.relevant, other))


def test_right_passages_get_a_positive_grade() -> None:
    first = Question.from_grades("q1", SET.questions[0].text, {"p1": 2, "p2": 0})
    judged = JudgedQuestion(first.text, ("p1", "p2", "p3"))
    both = judgements.merge_judgements(replace(SET, questions=(first,)), (judged,), "both", only_judged=False)
    assert both.questions[0].relevant == ("p1", "p2", "p3")
    assert both.questions[0].grade_of == {"p1": 2, "p2": 1, "p3": 1}


def test_wrong_passages_get_grade_zero() -> None:
    first = SET.questions[0]
    for passage, verdict in zip(("p2", "p3", "p4", "p5"), (*RelevanceVerdict, RelevanceVerdict.RIGHT), strict=True):
        judge_passage(CORPUS, first.text, passage, verdict)
    judge_passage(CORPUS, first.text, "p5", RelevanceVerdict.WRONG)  # a new note replaces the old note
    judge_passage(CORPUS, "새 질문", "p1", RelevanceVerdict.WRONG)
    judged = load_judgements(CORPUS)
    assert judged[0] == JudgedQuestion(first.text, ("p2",), wrong=("p3", "p5"), unsure=("p4",))
    assert judgements.collect_verdicts(judged)[first.text, "p4"] is RelevanceVerdict.UNSURE
    both = judgements.merge_judgements(SET, judged, "both", only_judged=False)
    assert len(both.questions) == len(SET.questions), "a new question without a right passage measures nothing"
    assert both.questions[0].grade_of == {"p1": 1, "p2": 1, "p3": 0, "p5": 0}, "unsure is unjudged"
    assert both.questions[1:] == SET.questions[1:]
    assert judgements.merge_judgements(SET, judged, "alone", only_judged=True).questions == both.questions[:1]
    contradicted = judgements.merge_judgements(
        SET, (JudgedQuestion(first.text, (), wrong=("p1",)),), "both", only_judged=False
    )
    assert contradicted.questions == SET.questions
    judge_passage(CORPUS, "새 질문", "p1", None)
    assert load_judgements(CORPUS) == judged[:1]


def test_file_format_is_compatible_with_earlier_versions() -> None:
    @dataclass(frozen=True)
    class Before:
        question: str
        passages: tuple[str, ...]
        answers: tuple[str, ...] = ()

    class FileBefore(BaseModel):
        questions: list[Before] = []
        answers: list[judgements.JudgedAnswer] = []

    path = judgements.annotation_path("judgements", CORPUS)
    judge_passage(CORPUS, "질문", "p1", RelevanceVerdict.RIGHT)
    judge_passage(CORPUS, "질문", "p2", RelevanceVerdict.WRONG)
    judgements.judge_answer(CORPUS, "질문", "답", True)
    read = FileBefore.model_validate_json(path.read_text(encoding="utf-8"))
    assert (read.questions, read.answers) == ([Before("질문", ("p1",))], [judgements.JudgedAnswer("질문", "답", True)])
    path.write_text(read.model_dump_json(exclude={"questions": {"__all__": {"answers"}}}), encoding="utf-8")
    assert load_judgements(CORPUS) == (JudgedQuestion("질문", ("p1",), ("답",)),)


def test_generates_unused_question_ids() -> None:
    named = replace(SET, questions=(replace(SET.questions[0], id="judged-1"), *SET.questions[1:]))
    merged = judgements.merge_judgements(named, (JudgedQuestion("새 질문", ("p1",)),), "both", only_judged=False)
    assert merged.questions[-1].id == "judged-2"


def test_rejects_a_set_without_judged_questions() -> None:
    with pytest.raises(ValueError, match="no question was judged"):
        judgements.merge_judgements(SET, (), "mine", only_judged=True)


def test_stores_and_withdraws_answer_judgements() -> None:
    judgements.judge_answer(CORPUS, "누가  만들었나?", " 세종 \n대왕", True)
    assert (
        judgements.find_answer_judgement(judgements.load_judged_answers(CORPUS), "누가 만들었나?", "세종 대왕") is True
    )
    assert load_judgements(CORPUS) == (), "a question without a right passage is none for a set"
    judge_passage(CORPUS, "누가 만들었나?", "p1", RelevanceVerdict.RIGHT)
    assert load_judgements(CORPUS) == (JudgedQuestion("누가 만들었나?", ("p1",), ("세종 대왕",)),)
    judgements.judge_answer(CORPUS, "누가 만들었나?", "세종 대왕", False)
    assert (
        judgements.find_answer_judgement(judgements.load_judged_answers(CORPUS), "누가 만들었나?", "세종 대왕") is False
    )
    assert load_judgements(CORPUS) == (JudgedQuestion("누가 만들었나?", ("p1",)),)
    judgements.judge_answer(CORPUS, "누가 만들었나?", "세종 대왕", None)
    assert judgements.load_judged_answers(CORPUS) == ()
    assert judgements.find_right_passages(load_judgements(CORPUS), "누가 만들었나?") == ("p1",)


def test_adds_answers_judged_right() -> None:
    judge_passage(CORPUS, "누가 만들었나?", "p1", RelevanceVerdict.RIGHT)
    judgements.judge_answer(CORPUS, "누가 만들었나?", "세종", True)
    judgements.judge_answer(CORPUS, "누가 만들었나?", "한글", False)
    first = SET.questions[0]
    judge_passage(CORPUS, first.text, "p1", RelevanceVerdict.RIGHT)
    judgements.judge_answer(CORPUS, first.text, "세종대왕", True)
    merged = judgements.merge_judgements(SET, load_judgements(CORPUS), "more", only_judged=False)
    assert merged.questions[0].answers == (*first.answers, "세종대왕")
    assert merged.questions[-1].answers == ("세종",)


def test_forgets_judged_answers_of_a_question() -> None:
    judgements.judge_answer(CORPUS, "질문", "답", True)
    judgements.judge_answer(CORPUS, "다른 질문", "답", False)
    judgements.forget_question(CORPUS, "질문")
    assert [judged_answer.question for judged_answer in judgements.load_judged_answers(CORPUS)] == ["다른 질문"]


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


def test_stores_and_removes_remarks_in_order() -> None:
    assert judgements.load_remarks(OF) == judgements.Remarks()
    judgements.mark_negative(OF, "q1", "p3")
    judgements.mark_negative(OF, "q1", "p2")
    judgements.mark_negative(OF, "q1", "p3")
    judgements.write_note(OF, "q2", "  왜 졌을까?\n")
    judgements.write_note(OF, "q1", "first")
    judgements.write_note(OF, "q1", "changed")
    known = judgements.load_remarks(OF)
    assert known == judgements.Remarks((("q1", "p3"), ("q1", "p2")), (("q2", "왜 졌을까?"), ("q1", "changed")))
    assert len(known) == 4
    assert (known.note("q1"), known.note("q3")) == ("changed", "")
    judgements.unmark_negative(OF, "q1", "p3")
    judgements.unmark_negative(OF, "q1", "never")
    judgements.write_note(OF, "q2", "  ")
    assert judgements.load_remarks(OF) == judgements.Remarks((("q1", "p2"),), (("q1", "changed"),))
    assert judgements.load_remarks("a" * 64) == judgements.Remarks()


def test_truncates_long_notes() -> None:
    text = '<script>"=1+1" 한글 \u202e \\ ' + "가" * judgements.MAX_NOTE_LENGTH
    judgements.write_note(OF, "../../q", text)
    assert judgements.load_remarks(OF).note("../../q") == text[: judgements.MAX_NOTE_LENGTH]
    assert [path.name for path in (workspace() / "remarks").glob("*.json")] == [f"{OF}.json"]


def test_skips_a_damaged_remark_and_keeps_the_others() -> None:
    judgements.write_note(OF, "q1", "first")
    path = judgements.annotation_path("remarks", OF)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"negatives": [["q1", "p1"], ["q2", None]]}))
    assert judgements.load_remarks(OF) == judgements.Remarks((("q1", "p1"),), (("q1", "first"),))
    judgements.write_note(OF, "q2", "second")
    assert judgements.load_remarks(OF) == judgements.Remarks((("q1", "p1"),), (("q1", "first"), ("q2", "second")))


@pytest.mark.slow
def test_killed_write_keeps_the_old_remarks() -> None:
    judgements.write_note(OF, "q1", "first")
    done = subprocess.run([sys.executable, "-c", KILLED, OF], cwd=PROJECT, check=False)
    assert done.returncode == -9
    assert judgements.load_remarks(OF).notes == (("q1", "first"),)
    judgements.write_note(OF, "q2", "second")  # the lock is released
    assert judgements.load_remarks(OF).notes == (("q1", "first"), ("q2", "second"))


def test_remarks_table_matches_expected_rows() -> None:
    known = judgements.Remarks((("q1", "p3"), ("gone", "p1"), ("q2", "gone")), (("q2", "note"), ("gone", "lost")))
    table = judgements.remarks_table(known, small_set())
    assert tuple(table.columns) == judgements.COLUMNS
    first = ["q2", QUESTIONS[1].text, "note", "", "", ""]
    second = ["q1", QUESTIONS[0].text, "", "p3", "서울", PASSAGES[2].text]
    assert table.to_numpy().tolist() == [first, second]
    assert list(judgements.remarks_table(judgements.Remarks(), small_set()).columns) == list(judgements.COLUMNS)
