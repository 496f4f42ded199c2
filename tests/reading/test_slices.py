"""Slices of judged answers: what is in them, figures against those of each slice judged alone, and the command."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data.records import Passage, Question, QuestionSet
from reading.__main__ import main
from reading.labels import NO_ANSWER, Property
from reading.rules import Rules
from reading.scores import FEWEST, AnswerScores, scored, slice_figures, slices
from retrieval.evaluation.significance import (
    Pair,
    holm,
    mean_interval,
    paired_tests,
    question_groups,
    share_intervals,
)
from tests.reading.doubles import score_words

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
    judged, groups = readers(), question_groups(asked())
    found = slice_figures(asked(), judged, Property.QUESTION_WORD)
    table = found[(found["measure"] == "f1") & (found["reader"] == "second")].set_index("slice")
    p = []
    for part in slices(asked(), Property.QUESTION_WORD):
        own = np.unique(groups[part.rows], return_inverse=True)[1]
        first, second = (judged[name].per_question["f1"][part.rows] for name in ("first", "second"))
        row = table.loc[part.label]
        assert row[["low", "high"]].tolist() == share_intervals(second[:, None], own)[0].tolist()
        assert row[["difference_low", "difference_high"]].tolist() == list(mean_interval(second - first, own))
        p.append(paired_tests([Pair("first", "second", "f1", first, second)], own)[0].p)
    assert table["p_holm"].tolist() == holm(np.array(p)).tolist()


def test_one_reader_alone_has_figures_and_no_difference() -> None:
    table = slice_figures(asked(), {"only": readers()["second"]}, Property.ANSWER_KIND)
    assert set(table["reader"]) == {"only"}
    assert table["p_holm"].isna().all()
    assert table["slice"].tolist() == ["short_phrase", NO_ANSWER] * 2


def test_a_set_of_few_questions_has_no_figures() -> None:
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
    assert main(words) == 0
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
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert [*told["slices"]] == [*Property]
    first, second, *_ = told["slices"]["answer_place"]
    assert (first["slice"], first["questions"], first["measure"], first["p_holm"]) == ("first_third", 12, "em", None)
    assert second["difference"] == -1
    assert main([*words[:-1], "--json"]) == 0
    assert "slices" not in json.loads(capsys.readouterr().out)
