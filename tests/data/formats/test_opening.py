from pathlib import Path

import pytest

from mrc_workbench.data.formats import text as content_module
from mrc_workbench.data.formats.opening import Format, recognise
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.questions.read import propose_columns, read, read_file
from tests.data.layouts.written import zipped
from tests.data.sample_files import FILES, ROWS, as_csv, as_excel, as_json, as_jsonl, as_parquet, as_squad


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (as_squad(ROWS).encode(), Format.SQUAD),
        (as_json(ROWS).encode(), Format.JSON),
        (as_jsonl(ROWS).encode(), Format.JSONL),
        (as_csv(ROWS).encode(), Format.CSV),
        (as_csv(ROWS, ";").encode("cp949", "replace"), Format.CSV),
        (as_csv(ROWS, "\t").encode("utf-16"), Format.TSV),
        (as_excel(ROWS), Format.EXCEL),
        (as_parquet(ROWS), Format.PARQUET),
        ("question,context\n가?,나,다,라\n마?,바,사\n".encode(), Format.CSV),  # commas everywhere
    ],
)
def test_recognises_formats_by_content(content: bytes, expected: Format) -> None:
    assert recognise(content).format is expected


@pytest.mark.parametrize("text", ["문장 하나, 둘.\n" * 5, "하나, 둘\n셋, 넷\n다섯\n"])
def test_commas_before_spaces_are_not_delimiters(text: str) -> None:
    assert recognise(text.encode()).format is Format.TEXT
    assert recognise(f"질문, 지문\n{text}".encode()).format is Format.CSV


def test_does_not_unpack_workbook_that_claims_gigabytes() -> None:
    content = bytearray(zipped({"xl/workbook.xml": b"<workbook/>"}))
    claim = content.rfind(b"PK\x01\x02") + 24  # the unpacked size in the directory at the end
    content[claim : claim + 4] = (2**30 + 1).to_bytes(4, "little")
    with pytest.raises(DataError, match="claims 1,073,741,825 unpacked bytes; at most 33,554,432 are"):
        recognise(bytes(content))


@pytest.mark.parametrize("name", FILES)
def test_reads_a_file_in_parts_like_its_bytes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "set"
    path.write_bytes(FILES[name])
    whole = read(FILES[name], "set")
    assert read_file(path) == whole
    assert propose_columns(Content(path)) == propose_columns(FILES[name])
    monkeypatch.setattr(content_module, "_PART_BYTES", 7)  # characters are split between parts
    assert read(FILES[name], "set") == read_file(path) == whole


@pytest.mark.parametrize("source", [b"\xed\x95\x9c\n", b""])
def test_content_reads_bytes_and_files(source: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(source)
    for content in (Content(source), Content(path)):
        assert (content.size, content.start, content.whole) == (len(source), source, source)
        assert b"".join(content.parts()) == source
    assert Content.from_bytes(content) is content


def test_limits_size_of_json_but_not_of_jsonl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.data.formats.opening.MAX_WHOLE_BYTES", 10)
    with pytest.raises(DataError, match=r"contains or claims \d+ bytes of JSON in one piece; at most 10 are read"):
        read(FILES["json"], "set")
    assert len(read(FILES["jsonl"], "set").question_set.questions) == len(ROWS)


def passages(text: str, name: str = "글.txt") -> list[str]:
    return list(read(text.encode(), name).question_set.passages.texts)


def test_splits_multiline_passages_at_blank_lines() -> None:
    assert passages("\n첫 줄,\n둘째 줄.\r\n\r\n \n다음 지문.\n\n") == ["첫 줄,\n둘째 줄.", "다음 지문."]

    problems = read("가나다\n\n\x00\n\n라마바\n\n".encode(), "글.txt").problems
    assert [problem.row for problem in problems] == [3], "numbered by the line in which a passage begins"


def test_merges_equal_passages_and_rejects_single_line() -> None:
    reading = read("같은 글이다.\n다른 글이다.\n같은 글이다.\n".encode(), "글.txt")
    assert (reading.row_count, reading.paragraph_count, len(reading.question_set.passages)) == (3, 3, 2)
    with pytest.raises(DataError, match="text without columns"):
        read("한 줄뿐이다.".encode(), "글.txt")


@pytest.mark.parametrize("head", ["지문", "text", '"context"'])
def test_reads_single_named_column_as_a_table(head: str) -> None:
    content = f'{head}\n"서울은 ""수도""이고, 한강이 흐른다."\n부산은 항구, 대구는 분지이다.\n'.encode()
    assert recognise(content).format is Format.CSV
    assert passages(content.decode()) == ['서울은 "수도"이고, 한강이 흐른다.', "부산은 항구, 대구는 분지이다."]
