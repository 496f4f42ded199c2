"""Answers judged question by question, what is told of them, and files of them."""

import json
from pathlib import Path

import numpy as np
import pytest

from data.records import Passage, Question, QuestionSet
from reading.__main__ import main
from reading.rules import ReadingError, Rules, read_predictions, write_predictions
from reading.scores import compared, scored
from retrieval.evaluation.significance import question_groups, share_intervals
from tests.reading.doubles import score_words


def asked() -> QuestionSet:
    """Four questions on two passages; nobody can answer the last."""
    return QuestionSet(
        "four",
        [Passage("p1", "서울은 한국의 수도이다."), Passage("p2", "물은 백 도에서 끓는다.")],
        (
            Question("q1", "한국의 수도는?", ("서울",), ("p1",)),
            Question("q2", "서울은 어느 나라의 수도인가?", ("한국",), ("p1",)),
            Question("q3", "물은 몇 도에서 끓나?", ("백 도", "백"), ("p2",)),
            Question("q4", "물은 누가 만들었나?"),
        ),
    )


def test_each_question_has_its_values_and_the_means_are_theirs() -> None:
    found = scored(asked(), {"q1": "서울", "q2": "한국의", "q3": "백도", "q4": "", "another": "x"}, Rules.KORQUAD)
    assert found.per_question["em"].tolist() == [1, 0, 0, 1]
    assert found.per_question["f1"] == pytest.approx([1, 4 / 5, 1, 1])
    assert found.means() == pytest.approx(
        {"em": 0.5, "f1": 0.95, "no_answer_accuracy": 1, "em_answerable": 1 / 3, "f1_answerable": 2.8 / 3}
    )
    values = np.stack([*found.per_question.values()], axis=1)
    assert [*found.intervals.values()] == [tuple(row) for row in share_intervals(values, question_groups(asked()))]


def test_what_is_not_said_is_wrong_also_where_nobody_can_answer() -> None:
    found = scored(asked(), {"q1": "서울"}, Rules.KLUE)
    assert found.unsaid == 3
    assert found.means() == pytest.approx(
        {"em": 0.25, "rouge_w": 0.25, "no_answer_accuracy": 0, "em_answerable": 1 / 3, "rouge_w_answerable": 1 / 3}
    )


def test_readers_are_told_apart_by_each_measure() -> None:
    right = {"q1": "서울", "q2": "한국", "q3": "백", "q4": ""}
    scores = {"a": scored(asked(), right, Rules.KORQUAD), "b": scored(asked(), {"q1": "서울"}, Rules.KORQUAD)}
    tests = compared(asked(), scores)
    assert [(one.a, one.b, one.measure, one.difference) for one in tests] == [
        ("a", "b", "em", 0.75),
        ("a", "b", "f1", 0.75),
    ]
    assert (tests[0].wins, tests[0].ties, tests[0].losses) == (3, 1, 0)
    assert compared(asked(), {}) == []


def test_answers_of_other_questions_and_sets_without_any_are_refused() -> None:
    with pytest.raises(ReadingError, match="no answer is of a question of 'four'") as told:
        scored(asked(), {"x": "서울"}, Rules.KORQUAD)
    assert told.value.code == "other_questions"
    with pytest.raises(ReadingError, match="holds no question"):
        scored(QuestionSet("none", asked().passages, ()), {}, Rules.KORQUAD)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_predictions({"q1": "서울", "q4": ""}, tmp_path / "said.json")
    assert json.loads((tmp_path / "said.json").read_text(encoding="utf-8")) == {"q1": "서울", "q4": ""}
    assert read_predictions(tmp_path / "said.json") == {"q1": "서울", "q4": ""}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "EOF"),
        ("[]", "object"),
        ('{"q1": 3}', "at 'q1'"),
        ('{"q1": ["서울"]}', "at 'q1'"),
        ("\xff", "is needed"),
    ],
)
def test_another_form_is_told_with_its_place(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "said.json"
    path.write_bytes(content.encode("latin-1" if content == "\xff" else "utf-8"))
    with pytest.raises(ReadingError, match=told) as error:
        read_predictions(path)
    assert error.value.code == "bad_predictions"
    assert "said.json" in str(error.value)


def test_the_command_tells_every_reader_and_their_differences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = score_words(tmp_path, asked().with_questions(range(3)), ["서울", "한국", "백"], ["서울", "", "백 도"])
    files = [str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "four: 3 questions, by the rules of korquad"
    assert lines[1] == files[0]
    assert lines[2].split()[:2] == ["em", "100.00"]
    assert lines[5].split()[:2] == ["em", "66.67"]
    assert lines[-2].startswith(f"em: {files[0]} less {files[1]} +33.33")
    assert main([*words, "--json", "--rules", "klue"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rules"] == "klue"
    assert told["readers"][files[1]]["rouge_w"] == pytest.approx(2 / 3)
    assert {one["measure"] for one in told["differences"]} == {"em", "rouge_w"}


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.json").write_text("[]", encoding="utf-8")
    assert main(["score", "--data", "sample", "--predictions", str(tmp_path / "bad.json")]) == 2
    assert capsys.readouterr().err.startswith("error: bad.json: ")
