"""Columns of pairs by their names, and by their looks."""

import pytest

from data.formats.columns import PAIR_NAMES as NAMES
from data.formats.columns import PairColumns, guess_pair_columns, wanted_names
from data.formats.columns import is_pair_column as is_known


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ("genre", "filename", "year", "id", "score", "sentence1", "sentence2"),
            PairColumns("sentence1", "sentence2", score="score"),
        ),
        (("sentence1", "sentence2", "gold_label"), PairColumns("sentence1", "sentence2", label="gold_label")),
        (
            ("guid", "source", "premise", "hypothesis", "gold_label", "author", "label2"),
            PairColumns("premise", "hypothesis", label="gold_label"),
        ),
        (
            ("sentence1", "sentence2", "labels.label", "labels.real-label", "labels.binary-label"),
            PairColumns("sentence1", "sentence2", label="labels.label"),
        ),
        (("문장1", "문장 2", "유사도 점수", "구분"), PairColumns("문장1", "문장 2", score="유사도 점수", part="구분")),
        (("전제", "가설", "레이블"), PairColumns("전제", "가설", label="레이블")),
        (("anchor", "positive", "negative"), PairColumns("anchor", "positive", "negative")),
        (("en", "ko"), PairColumns("ko", "en")),
        (("translation.ko", "translation.en"), PairColumns("translation.ko", "translation.en")),
        (("question1", "question2", "is_duplicate"), PairColumns("question1", "question2", score="is_duplicate")),
        (("번호", "문장"), PairColumns("문장")),
        (("문장1", "문장2"), PairColumns("문장1", "문장2")),
        (("가", "나"), PairColumns()),
    ],
)
def test_names(names: tuple[str, ...], expected: PairColumns) -> None:
    assert guess_pair_columns(names) == expected


def test_a_column_that_is_filled_wins() -> None:
    rows = [{"score": None, "similarity": "3", "sentence1": "가", "sentence2": "나"}]
    assert guess_pair_columns(("score", "similarity", "sentence1", "sentence2"), rows).score == "similarity"


def test_columns_of_several_words_are_sentences_where_no_name_tells() -> None:
    rows = [{"no": str(row), "가": f"첫 문장 {row}", "나": f"다른 문장 {row}", "다": "4"} for row in range(5)]
    assert guess_pair_columns(("no", "가", "나", "다"), rows) == PairColumns("가", "나")


def test_more_columns_of_words_than_sentences_are_not_guessed() -> None:
    rows = [dict.fromkeys("가나다라", "여러 낱말")]
    assert guess_pair_columns(tuple("가나다라"), rows) == PairColumns()


def test_sentences_end_where_one_is_missing() -> None:
    assert PairColumns("가", "나", "다").sentences == ("가", "나", "다")
    assert PairColumns("가", None, "다").sentences == ("가",)
    assert PairColumns(None, "나").sentences == ()


def test_no_name_is_of_two_roles() -> None:
    names = [name for known in NAMES.values() for name in known]
    assert len(names) == len(set(names))
    assert is_known("Sentence 1")
    assert not is_known("문단")
    assert wanted_names("sentence3") == "문장3, 셋째문장, 부정, sentence3, sent3, text3"
