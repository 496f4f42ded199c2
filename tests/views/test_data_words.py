"""The sample speaks the person's language; what others bring keeps its own names."""

from data.store import find
from tests.views.driving import opened


def page() -> None:
    import streamlit as st

    from views.names import kind_words, set_name

    for text in ("Korean sample", "mine"):
        st.text(set_name(text))
    for kind in ("paraphrase", "several-sentences", "year", ""):
        st.text(kind_words(kind))


def test_in_korean_and_in_english() -> None:
    korean, english = ([text.value for text in opened(page, lang=language).text] for language in ("ko", "en"))
    assert korean == ["한국어 샘플", "mine", "바꿔 쓴 표현", "여러 문장", "year", ""]
    assert english == ["Korean sample", "mine", "Other words", "Several sentences", "year", ""]


def test_every_kind_of_the_sample_has_words() -> None:
    from views.ui.words import LANGUAGES, catalog

    kinds = {question.kind for question in find("sample").questions}
    for language in LANGUAGES:
        assert {f"question_kind.{kind}" for kind in kinds} <= catalog(language).keys()
