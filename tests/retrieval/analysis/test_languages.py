"""The languages of a question set."""

import tomllib
from pathlib import Path

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.analysis.slices import set_languages

SENTENCES = tomllib.loads((Path(__file__).parents[2] / "data" / "text" / "sentences.toml").read_text(encoding="utf-8"))


def question_set(passages: list[str], questions: list[str]) -> QuestionSet:
    return QuestionSet(
        "languages",
        tuple(Passage(f"p{row}", text) for row, text in enumerate(passages)),
        tuple(Question(f"q{row}", text, (), ("p0",)) for row, text in enumerate(questions)),
    )


def test_questions_in_another_language_are_counted() -> None:
    korean = "도서관은 어디에 있나요?"
    questions = [SENTENCES["en"][3], korean, SENTENCES["de"][3], "AB-123", korean]
    found = set_languages(question_set(SENTENCES["en"], questions))
    assert (found.language, found.analyzer, found.examined) == ("en", Analyzer.ENGLISH, 5)
    assert {language: rows.tolist() for language, rows in found.foreign.items()} == {"ko": [1, 4], "de": [2]}
    assert list(found.foreign) == ["ko", "de"], "the most frequent first"
    assert found.foreign_count == 3


def test_without_a_clear_language_no_question_is_foreign() -> None:
    mixed = [" ".join(SENTENCES[language]) for language in ("en", "de", "fr")]
    found = set_languages(question_set(mixed, SENTENCES["ru"]))
    assert (found.language, found.analyzer, found.foreign) == ("", Analyzer.WORD, {})


def test_a_language_that_some_passages_are_in_is_not_foreign() -> None:
    korean = ["도서관은 강 옆에 있다.", "박물관은 아침 아홉 시에 문을 연다.", "표는 입구에서 살 수 있다."]
    found = set_languages(question_set([*korean, SENTENCES["en"][0]], [SENTENCES["en"][3], SENTENCES["de"][3]]))
    assert found.language == "ko"
    assert list(found.foreign) == ["de"]


def test_a_set_without_questions() -> None:
    found = set_languages(question_set(SENTENCES["fr"], []))
    assert (found.language, found.examined, found.foreign) == ("fr", 0, {})
