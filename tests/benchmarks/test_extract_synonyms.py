"""A name in brackets after a word is extracted as its synonym."""

from benchmarks.quality.lexical_options import extract_synonyms
from mrc_workbench.data.text.dictionary import format_dictionary, read_dictionary


def groups(*texts: str, min_texts: int = 1) -> set[tuple[str, ...]]:
    return set(extract_synonyms(texts, min_texts).synonyms)


def test_names_in_brackets_are_synonyms_of_the_preceding_word() -> None:
    assert groups("유엔(영어: United Nations, 국제연합)은 1945년에 섰다.") == {("유엔", "United Nations", "국제연합")}


def test_skips_brackets_without_a_name() -> None:
    assert groups("세종(1397~1450)은 왕(4대)이다. 서울(서울), 강(길이 514킬로미터에 이르는 큰 강 하나)") == set()


def test_assigns_a_name_to_its_most_frequent_group() -> None:
    texts = ["연합(UN)", "국제연합(UN)과 유럽연합(EU)", "국제연합(UN)"]
    assert groups(*texts) == {("국제연합", "UN"), ("유럽연합", "EU")}
    assert groups(*texts, min_texts=2) == {("국제연합", "UN")}


def test_counts_repetitions_in_a_text_once() -> None:
    assert groups("나토(NATO), 나토(NATO)", min_texts=2) == set()


def test_merges_synonyms_of_synonyms() -> None:
    assert groups("국제연합(UN)", "국제연합(UN)", "UN(유엔)") == {("국제연합", "UN", "유엔")}


def test_writes_groups_that_can_be_read_as_a_dictionary() -> None:
    dictionary = extract_synonyms(["국제연합(UN)", "UN(유엔, 국제기구)", "국제기구(기구)", "블랙펄(Black Pearl)"], 1)
    assert read_dictionary(format_dictionary(dictionary).encode()) == dictionary
