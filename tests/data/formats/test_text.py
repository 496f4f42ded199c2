"""Text without columns: which lines are a passage, found in one pass over the lines."""

from collections.abc import Iterator

import pytest

from mrc_workbench.data.apart import File
from mrc_workbench.data.formats.text import Content, has_inner_blank_line, plain_text_table
from mrc_workbench.data.questions.read import read_files_apart


class CountedLines:
    """Lines that count how often one is read."""

    def __init__(self, lines: list[str]) -> None:
        self.lines, self.reads = lines, 0

    def __iter__(self) -> Iterator[str]:
        for line in self.lines:
            self.reads += 1
            yield line


@pytest.mark.parametrize("blank", ["\n", " \n", "\t \r\n", "\x0b\n", "\u3000\n"])
@pytest.mark.parametrize("count", [10, 1000, 100_000])
def test_blank_lines_are_looked_through_once(blank: str, count: int) -> None:
    trailing = CountedLines(["가나다 라마\n", "나라\n", *[blank] * count])
    assert not has_inner_blank_line(trailing)
    assert trailing.reads == count + 2
    inner = CountedLines(["가나다 라마\n", *[blank] * count, "나라\n", "끝\n"])
    assert has_inner_blank_line(inner)
    assert inner.reads == count + 2, "nothing is read behind the answer"


@pytest.mark.parametrize("blank", ["\n", " \n"])
def test_text_with_500_kb_of_blank_lines_is_read_within_the_limits_of_its_reader(blank: str) -> None:
    text = "가나다 라마\n나라\n" + blank * (500_000 // len(blank))
    reading = read_files_apart([File(Content(text.encode()), "blank.txt")])
    assert list(reading.question_set.passages.texts) == ["가나다 라마", "나라"]


@pytest.mark.parametrize(
    ("text", "passages"),
    [
        ("\n\n하나\n둘\n\n\n", ["하나", "둘"]),
        ("하나\n둘\n\n셋\n", ["하나\n둘", "셋"]),
        ("하나\r\n \r\n둘\r\n", ["하나", "둘"]),
        ("하나\r둘\r", ["하나", "둘"]),
    ],
)
def test_blank_lines_between_filled_ones_end_a_passage(text: str, passages: list[str]) -> None:
    assert [row.cells["text"] for row in plain_text_table(text).rows] == passages
