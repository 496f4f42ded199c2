"""Scores of answers, slices, prediction files, and the command."""

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
from mrc_workbench.labs.reading import scores as scoring
from mrc_workbench.labs.reading.labels import NO_ANSWER, LabelKind
from mrc_workbench.labs.reading.scores import ReadingError, ScoringRules, score_answer, score_answers
from mrc_workbench.retrieval import significance
from mrc_workbench.workbench.cli import main
from tests.doubles import raises_failure
from tests.labs.reading.doubles import score_words

WHO = 12
WHERE = 6
KORQUAD = Path(os.environ.get("MRC_DATA", "")) / "KorQuAD_v1.0_dev.json"


PASSAGES = [Passage("p1", "서울은 한국의 수도이다."), Passage("p2", "물은 백 도에서 끓는다.")]
QUESTIONS = (
    Question("q1", "한국의 수도는?", ("서울",), ("p1",)),
    Question("q2", "서울은 어느 나라의 수도인가?", ("한국",), ("p1",)),
    Question("q3", "물은 몇 도에서 끓나?", ("백 도", "백"), ("p2",)),
    Question("q4", "물은 누가 만들었나?"),
)
FOUR_QUESTIONS = QuestionSet("four", PASSAGES, QUESTIONS)


def test_missing_answer_counts_as_wrong() -> None:
    predictions = {"q1": "서울", "q2": "한국의", "q3": "백도", "q4": "", "another": "x"}
    answer_scores = score_answers(FOUR_QUESTIONS, predictions, ScoringRules.KORQUAD)
    assert answer_scores.per_question["em"].tolist() == [1, 0, 0, 1]
    assert answer_scores.per_question["f1"] == pytest.approx([1, 4 / 5, 1, 1])
    expected = {"em": 0.5, "f1": 0.95, "no_answer_accuracy": 1, "em_answerable": 1 / 3, "f1_answerable": 2.8 / 3}
    assert answer_scores.means() == pytest.approx(expected)
    values = np.stack([*answer_scores.per_question.values()], axis=1)
    ends = significance.proportion_intervals(values, significance.question_groups(FOUR_QUESTIONS))
    assert [*answer_scores.intervals.values()] == [tuple(row) for row in ends]
    answer_scores = score_answers(FOUR_QUESTIONS, {"q1": "서울"}, ScoringRules.KLUE)
    assert answer_scores.n_missing == 3
    answerable = {"em_answerable": 1 / 3, "rouge_w_answerable": 1 / 3}
    expected = {"em": 0.25, "rouge_w": 0.25, "no_answer_accuracy": 0, **answerable}
    assert answer_scores.means() == pytest.approx(expected)


def test_compares_readers_by_each_metric() -> None:
    right = {"q1": "서울", "q2": "한국", "q3": "백", "q4": ""}
    predictions = {"a": right, "b": {"q1": "서울"}}
    scores = {name: score_answers(FOUR_QUESTIONS, item, ScoringRules.KORQUAD) for name, item in predictions.items()}
    tests = scoring.compare_readers(FOUR_QUESTIONS, scores)
    assert [(test.a, test.b, test.measure) for test in tests] == [("a", "b", "em"), ("a", "b", "f1")]
    assert [test.difference for test in tests] == [0.75, 0.75]
    assert (tests[0].wins, tests[0].ties, tests[0].losses) == (3, 1, 0)
    assert scoring.compare_readers(FOUR_QUESTIONS, {}) == []


def test_rejects_answers_of_other_questions_and_empty_sets() -> None:
    with raises_failure("other_questions", ReadingError, match="no answer is of a question of 'four'"):
        score_answers(FOUR_QUESTIONS, {"x": "서울"}, ScoringRules.KORQUAD)
    with pytest.raises(ReadingError, match="holds no question"):
        score_answers(QuestionSet("none", FOUR_QUESTIONS.passages, ()), {}, ScoringRules.KORQUAD)


def test_predictions_round_trip(tmp_path: Path) -> None:
    scoring.write_predictions({"q1": "서울", "q4": ""}, tmp_path / "predictions.json")
    assert json.loads((tmp_path / "predictions.json").read_text(encoding="utf-8")) == {"q1": "서울", "q4": ""}
    assert scoring.read_predictions(tmp_path / "predictions.json") == {"q1": "서울", "q4": ""}


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "EOF"), ("[]", "object"), ('{"q1": 3}', "at 'q1'"), ('{"q1": ["서울"]}', "at 'q1'"), ("\xff", "is needed")],
)
def test_rejects_malformed_file(tmp_path: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "predictions.json"
    path.write_bytes(content.encode("latin-1" if content == "\xff" else "utf-8"))
    with raises_failure("bad_predictions", ReadingError, match=rf"predictions\.json.*{message}"):
        scoring.read_predictions(path)
    assert main(["reading", "score", "--data", "sample", "--predictions", str(path)]) == 2
    assert capsys.readouterr().err.startswith("error: predictions.json")


def test_command_reports_readers_and_differences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answerable = FOUR_QUESTIONS.with_questions(range(3))
    words = score_words(tmp_path, answerable, ["서울", "한국", "백"], ["서울", "", "백 도"])
    files = [str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    assert main(["reading", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "four: 3 questions, by the rules of korquad"
    assert lines[1] == files[0]
    assert lines[2].split()[:2] == ["em", "100.00"]
    assert lines[5].split()[:2] == ["em", "66.67"]
    assert lines[-2].startswith(f"em: {files[0]} less {files[1]} +33.33")
    assert main(["reading", *words, "--json", "--rules", "klue"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["rules"] == "klue"
    assert content["readers"][files[1]]["rouge_w"] == pytest.approx(2 / 3)
    assert {difference["measure"] for difference in content["differences"]} == {"em", "rouge_w"}


def make_question_set() -> QuestionSet:
    """Return twelve who, six where and one why questions, three for each passage, and five unanswerable ones."""
    passages = [Passage(f"p{index}", f"지문 {index}: 세종은 서울에서 한글을 만들었다.") for index in range(7)]
    texts = ["누가 만들었나?"] * WHO + ["어디에서 만들었나?"] * WHERE + ["왜 만들었나?"]
    answers = ["세종"] * WHO + ["서울"] * WHERE + ["백성"]
    pairs = enumerate(zip(texts, answers, strict=True))
    answerable = [Question(f"q{row}", text, (answer,), (f"p{row // 3}",)) for row, (text, answer) in pairs]
    unanswerable = [Question(f"n{row}", "언제 만들었나?") for row in range(scoring.MIN_SLICE_QUESTIONS)]
    return QuestionSet("questions", passages, (*answerable, *unanswerable))


def readers() -> dict[str, scoring.AnswerScores]:
    """Return a reader that answers "세종" to everything, and one that knows where, and has no answer to most others."""
    first = {question.id: "세종" for question in make_question_set().questions}
    second = {question.id: "서울" if "어디" in question.text else "" for question in make_question_set().questions}
    second |= {"q0": "세종", "q3": "세종대왕"}
    predictions = {"first": first, "second": second}
    return {name: score_answers(make_question_set(), item, ScoringRules.KORQUAD) for name, item in predictions.items()}


def test_slices_keep_label_order_and_omit_small_ones() -> None:
    parts = scoring.slice_questions(make_question_set(), LabelKind.QUESTION_WORD)
    expected = [("who", range(WHO)), ("where", range(WHO, WHO + WHERE)), (NO_ANSWER, range(19, 24))]
    assert [(part.label, part.rows.tolist()) for part in parts] == [(label, [*rows]) for label, rows in expected]
    for n_questions, n_slices in ((scoring.MIN_SLICE_QUESTIONS - 1, 0), (scoring.MIN_SLICE_QUESTIONS, 1)):
        question_set = make_question_set().with_questions(range(n_questions))
        assert len(scoring.slice_questions(question_set, LabelKind.QUESTION_WORD)) == n_slices


def test_slice_means_and_differences_match_by_hand() -> None:
    slice_scores = scoring.score_slices(make_question_set(), readers(), LabelKind.QUESTION_WORD)
    table = slice_scores.set_index(["measure", "slice", "reader"]).sort_index()
    assert list(table.index.unique("measure")) == ["em", "f1"]
    expected = {("who", "first"): 1, ("who", "second"): 1 / 12, ("where", "first"): 0, ("where", "second"): 1}
    expected |= {(NO_ANSWER, "first"): 0, (NO_ANSWER, "second"): 1}
    assert table.loc["em", "mean"].to_dict() == pytest.approx(expected)
    assert table.loc[("f1", "who", "second"), "mean"] == pytest.approx((1 + 4 / 6) / 12)  # 2 of 2 and of 4 letters
    assert table.loc[("em", "who", "second"), "difference"] == pytest.approx(-11 / 12)
    assert table["questions"].unstack("slice").iloc[0].to_dict() == {"who": 12, "where": 6, NO_ANSWER: 5}
    assert table["p_holm"].unstack("reader")["first"].isna().all()


def test_slice_scores_use_only_its_questions() -> None:
    scores_by_reader = readers()
    groups = significance.question_groups(make_question_set())
    slice_scores = scoring.score_slices(make_question_set(), scores_by_reader, LabelKind.QUESTION_WORD)
    table = slice_scores[(slice_scores["measure"] == "f1") & (slice_scores["reader"] == "second")].set_index("slice")
    p = []
    for part in scoring.slice_questions(make_question_set(), LabelKind.QUESTION_WORD):
        own_groups = np.unique(groups[part.rows], return_inverse=True)[1]
        first, second = (scores_by_reader[name].per_question["f1"][part.rows] for name in ("first", "second"))
        row = table.loc[part.label]
        ends = significance.proportion_intervals(second[:, None], own_groups)[0].tolist()
        assert row[["low", "high"]].tolist() == ends
        difference_ends = significance.mean_interval(second - first, own_groups)
        assert row[["difference_low", "difference_high"]].tolist() == list(difference_ends)
        pair = significance.Pair("first", "second", "f1", first, second)
        p.append(significance.paired_tests([pair], own_groups)[0].p)
    assert table["p_holm"].tolist() == significance.holm(np.array(p)).tolist()


def test_no_difference_for_single_reader_and_no_small_slices() -> None:
    table = scoring.score_slices(make_question_set(), {"only": readers()["second"]}, LabelKind.ANSWER_KIND)
    assert set(table["reader"]) == {"only"}
    assert table["p_holm"].isna().all()
    assert table["slice"].tolist() == ["short_phrase", NO_ANSWER] * 2
    few = make_question_set().with_questions(range(3))
    scores_by_reader = {"only": score_answers(few, {"q0": "세종"}, ScoringRules.KLUE)}
    for by in LabelKind:
        assert scoring.score_slices(few, scores_by_reader, by).empty


def test_command_reports_slices_and_differences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = make_question_set().with_questions(range(WHO + WHERE + 1))
    questions = [replace(question, text=f"{question.text} {question.id}") for question in few.questions]
    distinct_questions = replace(few, questions=tuple(questions))
    predictions = (["세종"] * len(few.questions), ["서울"] * len(few.questions))
    words = [*score_words(tmp_path, distinct_questions, *predictions), "--by-slice"]
    assert main(["reading", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(row for row, line in enumerate(lines) if line.startswith("by question_word"))
    assert lines[start + 1].split()[:4] == ["who", "12", "em", "100.00"]
    assert lines[start + 1].endswith("a.json")
    assert lines[start + 2].split()[:4] == ["who", "12", "em", "0.00"]
    assert "b.json -100.00 (-100.00 to -100.00, p 0." in lines[start + 2]
    assert [line.split(":")[0] for line in lines if line.startswith("by ")] == [f"by {by}" for by in LabelKind]
    assert main(["reading", *words, "--json"]) == 0
    content = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert [*content["slices"]] == [*LabelKind]
    first, second, *_ = content["slices"]["answer_position"]
    assert (first["slice"], first["questions"], first["measure"], first["p_holm"]) == ("first_third", 12, "em", None)
    assert second["difference"] == -1
    assert main(["reading", *words[:-1], "--json"]) == 0
    assert "slices" not in json.loads(capsys.readouterr().out)


CASES_BY_RULES = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))
CASES = [(rules, *case) for rules, cases in CASES_BY_RULES.items() for case in cases]


@pytest.mark.parametrize(("rules", "prediction", "right", "exact", "overlap"), CASES)
def test_scores_cases_by_hand(rules: str, prediction: str, right: list[str], exact: int, overlap: str) -> None:
    assert score_answer(prediction, right, ScoringRules(rules)) == pytest.approx((exact, float(Fraction(overlap))))


def test_normalizes_answers_by_rules() -> None:
    answer = "  《소나기》(1953),  황순원의 'The' 소설 "
    assert scoring.normalize_answer(answer, ScoringRules.KORQUAD) == "소나기 1953 황순원의 the 소설"
    assert scoring.normalize_answer("《소나기》(1953), The 소설", ScoringRules.SQUAD) == "《소나기》1953 소설"
    assert scoring.normalize_answer("《소나기》(1953), The 소설", ScoringRules.KLUE) == "《소나기》1953 the 소설"


@pytest.mark.slow
@pytest.mark.skipif(not KORQUAD.is_file(), reason="MRC_DATA names no folder with KorQuAD_v1.0_dev.json")
def test_korquad_scores_match_constructed_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of five questions, one is right, one has an extra character, two are wrong, and one has no prediction."""
    questions = read_file(KORQUAD).question_set.questions
    removed_characters = "'\"《》<>〈〉()‘’!#$%&*+,-./:;=?@[\\]^_`{|}~"
    predictions = {}
    overlap = 0.0
    for row, question in enumerate(questions):
        (right,) = question.answers
        if row % 5 == 0:
            predictions[question.id] = f"《{right.upper()}》 "
            overlap += 1
        elif row % 5 == 1:
            predictions[question.id] = f"{right}뷁"
            n_characters = sum(character not in removed_characters and not character.isspace() for character in right)
            overlap += 2 * n_characters / (2 * n_characters + 1)
        elif row % 5 < 4:
            predictions[question.id] = "뷁" if row % 5 == 2 else ""
    path = tmp_path / "predictions.json"
    path.write_text(json.dumps(predictions), encoding="utf-8")
    assert main(["reading", "score", "--data", str(KORQUAD), "--predictions", str(path), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["readers"][str(path)]
    n = len(questions)
    assert n == 5774
    assert metrics["em"] == pytest.approx((n + 4) // 5 / n)
    assert metrics["f1"] == pytest.approx(overlap / n)
    assert metrics["missing"] == n // 5
    assert metrics["interval"]["em"][0] < metrics["em"] < metrics["interval"]["em"][1]
