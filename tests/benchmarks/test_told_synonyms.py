"""What stands in brackets behind a word is another name of it, where it can be one."""

from benchmarks.quality.lexical_options import told_synonyms
from mrc_workbench.data.text.dictionary import read_dictionary, written


def groups(*texts: str, least: int = 1) -> set[tuple[str, ...]]:
    return set(told_synonyms(texts, least).synonyms)


def test_names_behind_a_word_are_its_synonyms() -> None:
    assert groups("유엔(영어: United Nations, 국제연합)은 1945년에 섰다.") == {("유엔", "United Nations", "국제연합")}


def test_what_is_no_name_is_passed_over() -> None:
    assert groups("세종(1397~1450)은 왕(4대)이다. 서울(서울), 강(길이 514킬로미터에 이르는 큰 강 하나)") == set()


def test_a_name_is_in_the_group_that_more_texts_tell() -> None:
    texts = ["연합(UN)", "국제연합(UN)과 유럽연합(EU)", "국제연합(UN)"]
    assert groups(*texts) == {("국제연합", "UN"), ("유럽연합", "EU")}
    assert groups(*texts, least=2) == {("국제연합", "UN")}


def test_a_text_that_repeats_itself_counts_once() -> None:
    assert groups("나토(NATO), 나토(NATO)", least=2) == set()


def test_another_name_s_names_are_the_word_s() -> None:
    assert groups("국제연합(UN)", "국제연합(UN)", "UN(유엔)") == {("국제연합", "UN", "유엔")}


def test_the_groups_can_be_read_as_a_dictionary() -> None:
    found = told_synonyms(["국제연합(UN)", "UN(유엔, 국제기구)", "국제기구(기구)", "블랙펄(Black Pearl)"], 1)
    assert read_dictionary(written(found).encode()) == found
