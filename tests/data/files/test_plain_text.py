import pytest

from data.formats.opening import Format, recognise
from data.problems import DataError
from data.read import read

PROSE = "서울은 수도이고, 한강이 흐른다.\n부산은 항구이다.\n대구는 분지이며, 덥고, 사과가 난다.\n광주는 멀다.\n"


def passages(text: str, name: str = "글.txt") -> list[str]:
    return list(read(text.encode(), name).question_set.passages.texts)


def test_without_blank_lines_every_line_is_a_passage() -> None:
    assert passages(PROSE) == PROSE.splitlines()
    assert read(PROSE.encode(), "글.txt").format is Format.TEXT


def test_blank_lines_part_passages_of_several_lines() -> None:
    assert passages("\n첫 줄,\n둘째 줄.\r\n\r\n \n다음 지문.\n\n") == ["첫 줄,\n둘째 줄.", "다음 지문."]


def test_rows_are_numbered_by_the_line_a_passage_begins_in() -> None:
    problems = read("가나다\n\n\x00\n\n라마바\n\n".encode(), "글.txt").problems
    assert [problem.row for problem in problems] == [3]


def test_equal_passages_are_one() -> None:
    reading = read("같은 글이다.\n다른 글이다.\n같은 글이다.\n".encode(), "글.txt")
    assert (reading.row_count, reading.paragraph_count, len(reading.question_set.passages)) == (3, 3, 2)


@pytest.mark.parametrize("head", ["지문", "text", '"context"'])
def test_one_named_column_is_a_table(head: str) -> None:
    content = f'{head}\n"서울은 ""수도""이고, 한강이 흐른다."\n부산은 항구, 대구는 분지이다.\n'.encode()
    assert recognise(content).format is Format.CSV
    assert passages(content.decode()) == ['서울은 "수도"이고, 한강이 흐른다.', "부산은 항구, 대구는 분지이다."]


def test_a_table_with_commas_everywhere_stays_a_table() -> None:
    content = "question,context\n가?,나,다,라\n마?,바,사\n"
    assert recognise(content.encode()).format is Format.CSV


def test_one_line_is_no_corpus() -> None:
    with pytest.raises(DataError, match="text without columns"):
        read("한 줄뿐이다.".encode(), "글.txt")
