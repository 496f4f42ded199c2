"""Every format, delimiter and encoding of a table gives the same rows."""

import io
import random
from collections.abc import Callable

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.formats.text_tables import DELIMITERS
from mrc_workbench.data.questions.read import read
from tests.data.sample_files import Row, as_csv, as_excel, as_json, as_jsonl, as_parquet, questions_with_passages

WORDS = {
    "ko": "강 산 들 서울 부산 도서관은 언제 문을 여나 오전 아홉 시에 엽니다 버스가 다닌다 입장료는 무료이다",
    "ja": "川 山 東京 図書館は いつ 開きますか 朝の 九時に 開きます バスが 走ります 入場料は 無料です",
    "zh": "北京 上海 图书馆 什么时候 开门 早上 九点 开门 这里 有 公共汽车 门票 是 免费 的",
    "tw": "臺北 高雄 圖書館 什麼時候 開門 早上 九點 開門 這裡 有 公車 門票 是 免費 的",
    "de": "Fluß München Bücherei öffnet wann schließt früh täglich Straße über Gebäude größer als",
}
# by what pandas, Excel and editors of the languages write
ENCODINGS = [
    *(("ko", codec) for codec in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp949", "euc_kr", "johab")),
    *(("ja", codec) for codec in ("shift_jis", "cp932", "euc_jp")),
    *(("zh", codec) for codec in ("gbk", "gb18030")),
    ("tw", "big5"),
    ("de", "cp1252"),
]
NAMES = ("id", "question", "context", "title", "answers")


def rows_of(language: str, seed: int, count: int = 6) -> list[Row]:
    rng = random.Random(seed)
    words = WORDS[language].split()

    def text(most: int) -> str:
        return " ".join(rng.choices(words, k=rng.randint(4, most)))

    rows = []
    for number in range(count):
        context = f"{text(12)} ({number}), {text(6)}; {text(5)}."
        answer = context.partition(" ")[0]
        rows.append(dict(zip(NAMES, (str(number), f"{text(6)} {number}?", context, text(4), [answer]), strict=True)))
    return rows


def check(content: bytes, rows: list[Row]) -> None:
    """Check that all rows are read, without a problem."""
    reading = read(content, "set")
    assert reading.left_out == 0, [problem.message for problem in reading.problems]
    assert questions_with_passages(reading.question_set) == [
        (row["id"], row["question"], tuple(row["answers"]), row["context"], row["title"]) for row in rows
    ]


def as_delimited(rows: list[Row], delimiter: str) -> str:
    if len(delimiter) == 1:
        return as_csv(rows, delimiter)
    return as_csv(rows, "\x1e").replace("\x1e", delimiter)


def as_markdown(rows: list[Row]) -> str:
    lines = [NAMES, ["---"] * len(NAMES)]
    lines += [[*(row[name] for name in NAMES[:-1]), row["answers"][0]] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def as_console(rows: list[Row]) -> str:
    """Format a table like the console of MySQL."""
    ruled = as_markdown(rows).splitlines()
    rule = "+----+---+---+---+---+"
    return "\n".join([rule, ruled[0], rule, *ruled[2:], rule]) + "\n"


@pytest.mark.parametrize("language", WORDS)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_every_format_reads_the_same(language: str, seed: int) -> None:
    rows = rows_of(language, seed)
    writers: list[Callable[[list[Row]], str | bytes]] = [as_json, as_jsonl, as_parquet, as_excel]
    for content in (*(write(rows) for write in writers), as_markdown(rows), as_console(rows)):
        check(content if isinstance(content, bytes) else content.encode(), rows)


@pytest.mark.parametrize("delimiter", DELIMITERS)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_every_delimiter_reads_the_same(delimiter: str, seed: int) -> None:
    rows = rows_of("ko", seed)
    for titles in ("", "표 제목\n\n"):
        check((titles + as_delimited(rows, delimiter)).encode(), rows)


@pytest.mark.parametrize(("language", "codec"), ENCODINGS)
@pytest.mark.parametrize("delimiter", [",", "\t", "|", "JSON"])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_every_encoding_reads_the_same(language: str, codec: str, delimiter: str, seed: int) -> None:
    rows = rows_of(language, seed)
    text = as_json(rows) if delimiter == "JSON" else as_delimited(rows, delimiter)
    check(text.encode(codec), rows)


def with_merges() -> bytes:
    """A workbook with lines above the header, merged cells and another sheet."""
    workbook = openpyxl.load_workbook(io.BytesIO(as_excel(rows_of("ko", 3))))
    workbook.active.insert_rows(1, 2)
    workbook.active["A1"] = "표 제목"
    workbook.active.merge_cells("D4:D6")
    workbook.create_sheet("다른 시트").append(["안내"])
    out = io.BytesIO()
    workbook.save(out)
    return out.getvalue()


KOREAN = rows_of("ko", 3)
SAMPLES = {
    **{f"delimited by {delimiter!r}": as_delimited(KOREAN, delimiter).encode() for delimiter in ("\t", ";", "|", "||")},
    **{codec: as_csv(rows_of(language, 3)).encode(codec) for language, codec in ENCODINGS[3::3]},
    "titles": ("표 제목\n\n" + as_csv(KOREAN) + "\n※ 설명\n").encode(),
    "markdown": as_markdown(KOREAN).encode(),
    "console": as_console(KOREAN).encode(),
    "json in English": as_json(KOREAN).encode(),
    "merges": with_merges(),
}
