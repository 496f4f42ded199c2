"""Answers judged question by question, slices of them, files of answers, and the command."""

import json
import os
import tomllib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.labs.reading.labels import NO_ANSWER, Property
from mrc_workbench.labs.reading.scores import (
    FEWEST,
    AnswerScores,
    ReadingError,
    Rules,
    compared,
    judged,
    normalized,
    read_predictions,
    scored,
    slice_figures,
    slices,
    write_predictions,
)
from mrc_workbench.retrieval import significance
from mrc_workbench.workbench.cli import main
from tests.labs.reading.doubles import score_words


def four() -> QuestionSet:
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


def test_means_are_those_of_the_questions_and_a_missing_answer_is_wrong() -> None:
    found = scored(four(), {"q1": "서울", "q2": "한국의", "q3": "백도", "q4": "", "another": "x"}, Rules.KORQUAD)
    assert found.per_question["em"].tolist() == [1, 0, 0, 1]
    assert found.per_question["f1"] == pytest.approx([1, 4 / 5, 1, 1])
    assert found.means() == pytest.approx(
        {"em": 0.5, "f1": 0.95, "no_answer_accuracy": 1, "em_answerable": 1 / 3, "f1_answerable": 2.8 / 3}
    )
    values = np.stack([*found.per_question.values()], axis=1)
    assert [*found.intervals.values()] == [
        tuple(row) for row in significance.share_intervals(values, significance.question_groups(four()))
    ]
    found = scored(four(), {"q1": "서울"}, Rules.KLUE)
    assert found.unsaid == 3
    assert found.means() == pytest.approx(
        {"em": 0.25, "rouge_w": 0.25, "no_answer_accuracy": 0, "em_answerable": 1 / 3, "rouge_w_answerable": 1 / 3}
    )


def test_readers_are_told_apart_by_each_measure() -> None:
    right = {"q1": "서울", "q2": "한국", "q3": "백", "q4": ""}
    scores = {"a": scored(four(), right, Rules.KORQUAD), "b": scored(four(), {"q1": "서울"}, Rules.KORQUAD)}
    tests = compared(four(), scores)
    assert [(one.a, one.b, one.measure, one.difference) for one in tests] == [
        ("a", "b", "em", 0.75),
        ("a", "b", "f1", 0.75),
    ]
    assert (tests[0].wins, tests[0].ties, tests[0].losses) == (3, 1, 0)
    assert compared(four(), {}) == []


def test_answers_of_other_questions_and_sets_without_any_are_refused() -> None:
    with pytest.raises(ReadingError, match="no answer is of a question of 'four'") as told:
        scored(four(), {"x": "서울"}, Rules.KORQUAD)
    assert told.value.code == "other_questions"
    with pytest.raises(ReadingError, match="holds no question"):
        scored(QuestionSet("none", four().passages, ()), {}, Rules.KORQUAD)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_predictions({"q1": "서울", "q4": ""}, tmp_path / "said.json")
    assert json.loads((tmp_path / "said.json").read_text(encoding="utf-8")) == {"q1": "서울", "q4": ""}
    assert read_predictions(tmp_path / "said.json") == {"q1": "서울", "q4": ""}


@pytest.mark.parametrize(
    ("content", "told"),
    [("", "EOF"), ("[]", "object"), ('{"q1": 3}', "at 'q1'"), ('{"q1": ["서울"]}', "at 'q1'"), ("\xff", "is needed")],
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
    words = score_words(tmp_path, four().with_questions(range(3)), ["서울", "한국", "백"], ["서울", "", "백 도"])
    files = [str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    assert main(["reading", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "four: 3 questions, by the rules of korquad"
    assert lines[1] == files[0]
    assert lines[2].split()[:2] == ["em", "100.00"]
    assert lines[5].split()[:2] == ["em", "66.67"]
    assert lines[-2].startswith(f"em: {files[0]} less {files[1]} +33.33")
    assert main(["reading", *words, "--json", "--rules", "klue"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rules"] == "klue"
    assert told["readers"][files[1]]["rouge_w"] == pytest.approx(2 / 3)
    assert {one["measure"] for one in told["differences"]} == {"em", "rouge_w"}


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.json").write_text("[]", encoding="utf-8")
    assert main(["reading", "score", "--data", "sample", "--predictions", str(tmp_path / "bad.json")]) == 2
    assert capsys.readouterr().err.startswith("error: bad.json: ")


WHO, WHERE = 12, 6


def asked() -> QuestionSet:
    """Twelve who, six where and one why in passages of three questions each; nobody can answer the last five."""
    passages = [Passage(f"p{place}", f"지문 {place}: 세종은 서울에서 한글을 만들었다.") for place in range(7)]
    texts = ["누가 만들었나?"] * WHO + ["어디에서 만들었나?"] * WHERE + ["왜 만들었나?"]
    answers = ["세종"] * WHO + ["서울"] * WHERE + ["백성"]
    answered = [
        Question(f"q{row}", text, (answer,), (f"p{row // 3}",))
        for row, (text, answer) in enumerate(zip(texts, answers, strict=True))
    ]
    nobody = [Question(f"n{row}", "언제 만들었나?") for row in range(FEWEST)]
    return QuestionSet("asked", passages, (*answered, *nobody))


def readers() -> dict[str, AnswerScores]:
    """The first knows who and answers where nobody can; the second knows where, says "세종대왕", and is silent else."""
    first = {question.id: "세종" for question in asked().questions}
    second = {question.id: "서울" if "어디" in question.text else "" for question in asked().questions}
    second |= {"q0": "세종", "q3": "세종대왕"}
    return {"first": scored(asked(), first, Rules.KORQUAD), "second": scored(asked(), second, Rules.KORQUAD)}


def test_slices_come_in_the_order_of_their_labels_and_small_ones_are_left_out() -> None:
    parts = slices(asked(), Property.QUESTION_WORD)
    assert [(part.label, part.rows.tolist()) for part in parts] == [
        ("who", list(range(WHO))),
        ("where", list(range(WHO, WHO + WHERE))),
        (NO_ANSWER, list(range(19, 24))),
    ]
    assert slices(asked().with_questions(range(FEWEST - 1)), Property.QUESTION_WORD) == []
    assert len(slices(asked().with_questions(range(FEWEST)), Property.QUESTION_WORD)) == 1


def test_means_and_differences_are_counted_by_hand() -> None:
    table = (
        slice_figures(asked(), readers(), Property.QUESTION_WORD).set_index(["measure", "slice", "reader"]).sort_index()
    )
    assert list(table.index.unique("measure")) == ["em", "f1"]
    assert table.loc["em", "mean"].to_dict() == pytest.approx(
        {
            ("who", "first"): 1,
            ("who", "second"): 1 / 12,
            ("where", "first"): 0,
            ("where", "second"): 1,
            (NO_ANSWER, "first"): 0,
            (NO_ANSWER, "second"): 1,
        }
    )
    assert table.loc[("f1", "who", "second"), "mean"] == pytest.approx((1 + 4 / 6) / 12)  # 2 of 2 and of 4 letters
    assert table.loc[("em", "who", "second"), "difference"] == pytest.approx(-11 / 12)
    assert table["questions"].unstack("slice").iloc[0].to_dict() == {"who": 12, "where": 6, NO_ANSWER: 5}
    assert table["p_holm"].unstack("reader")["first"].isna().all()


def test_figures_of_a_slice_are_those_of_its_questions_alone() -> None:
    judged, groups = readers(), significance.question_groups(asked())
    found = slice_figures(asked(), judged, Property.QUESTION_WORD)
    table = found[(found["measure"] == "f1") & (found["reader"] == "second")].set_index("slice")
    p = []
    for part in slices(asked(), Property.QUESTION_WORD):
        own = np.unique(groups[part.rows], return_inverse=True)[1]
        first, second = (judged[name].per_question["f1"][part.rows] for name in ("first", "second"))
        row = table.loc[part.label]
        assert row[["low", "high"]].tolist() == significance.share_intervals(second[:, None], own)[0].tolist()
        assert row[["difference_low", "difference_high"]].tolist() == list(
            significance.mean_interval(second - first, own)
        )
        p.append(significance.paired_tests([significance.Pair("first", "second", "f1", first, second)], own)[0].p)
    assert table["p_holm"].tolist() == significance.holm(np.array(p)).tolist()


def test_one_reader_has_no_difference_and_few_questions_no_figures() -> None:
    table = slice_figures(asked(), {"only": readers()["second"]}, Property.ANSWER_KIND)
    assert set(table["reader"]) == {"only"}
    assert table["p_holm"].isna().all()
    assert table["slice"].tolist() == ["short_phrase", NO_ANSWER] * 2
    few = asked().with_questions(range(3))
    judged = {"only": scored(few, {"q0": "세종"}, Rules.KLUE)}
    for by in Property:
        assert slice_figures(few, judged, by).empty


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The command's, with questions that have answers, in a file, and two readers of them."""
    few = asked().with_questions(range(WHO + WHERE + 1))
    told_apart = replace(few, questions=tuple(replace(one, text=f"{one.text} {one.id}") for one in few.questions))
    said = (["세종"] * len(few.questions), ["서울"] * len(few.questions))
    return [*score_words(tmp_path, told_apart, *said), "--by-slice"]


def test_the_command_tells_every_slice_and_its_differences(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reading", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(row for row, line in enumerate(lines) if line.startswith("by question_word"))
    assert lines[start + 1].split()[:4] == ["who", "12", "em", "100.00"]
    assert lines[start + 1].endswith("a.json")
    assert lines[start + 2].split()[:4] == ["who", "12", "em", "0.00"]
    assert "b.json -100.00 (-100.00 to -100.00, p 0." in lines[start + 2]
    assert [line.split(":")[0] for line in lines if line.startswith("by ")] == [f"by {by}" for by in Property]


def test_the_command_gives_slices_as_json_with_null_for_what_is_not_known(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reading", *words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert [*told["slices"]] == [*Property]
    first, second, *_ = told["slices"]["answer_place"]
    assert (first["slice"], first["questions"], first["measure"], first["p_holm"]) == ("first_third", 12, "em", None)
    assert second["difference"] == -1
    assert main(["reading", *words[:-1], "--json"]) == 0
    assert "slices" not in json.loads(capsys.readouterr().out)


KORQUAD = Path(os.environ.get("MRC_DATA", "")) / "KorQuAD_v1.0_dev.json"
CASES = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("rules", "said", "right", "exact", "overlap"), [(rules, *case) for rules, cases in CASES.items() for case in cases]
)
def test_cases_by_hand(rules: str, said: str, right: list[str], exact: int, overlap: str) -> None:
    assert judged(said, right, Rules(rules)) == pytest.approx((exact, float(Fraction(overlap))))


def test_what_is_compared_is_the_text_without_what_the_rules_take_away() -> None:
    assert normalized("  《소나기》(1953),  황순원의 'The' 소설 ", Rules.KORQUAD) == "소나기 1953 황순원의 the 소설"
    assert normalized("《소나기》(1953), The 소설", Rules.SQUAD) == "《소나기》1953 소설"
    assert normalized("《소나기》(1953), The 소설", Rules.KLUE) == "《소나기》1953 the 소설"


@pytest.mark.slow
@pytest.mark.skipif(not KORQUAD.is_file(), reason="MRC_DATA names no folder with KorQuAD_v1.0_dev.json")
def test_answers_of_all_of_korquad_have_the_figures_that_were_made_into_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of every five questions one is right, one has a particle too many, two are wrong, and one is not answered."""
    questions = read_file(KORQUAD).question_set.questions
    taken, said, overlap = "'\"《》<>〈〉()‘’!#$%&*+,-./:;=?@[\\]^_`{|}~", {}, 0.0
    for row, question in enumerate(questions):
        (right,) = question.answers
        if row % 5 == 0:
            said[question.id], overlap = f"《{right.upper()}》 ", overlap + 1
        elif row % 5 == 1:
            said[question.id] = f"{right}뷁"
            letters = sum(character not in taken and not character.isspace() for character in right)
            overlap += 2 * letters / (2 * letters + 1)
        elif row % 5 < 4:
            said[question.id] = "뷁" if row % 5 == 2 else ""
    path = tmp_path / "said.json"
    path.write_text(json.dumps(said), encoding="utf-8")
    assert main(["reading", "score", "--data", str(KORQUAD), "--predictions", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["readers"][str(path)]
    n = len(questions)
    assert n == 5774
    assert told["em"] == pytest.approx((n + 4) // 5 / n)
    assert told["f1"] == pytest.approx(overlap / n)
    assert told["unsaid"] == n // 5
    assert told["interval"]["em"][0] < told["em"] < told["interval"]["em"][1]
