"""Tests of plain text and encodings: byte order marks, detection, named encodings."""

import json
from pathlib import Path

import pytest

from mrc_workbench.data.formats import text as content_module
from mrc_workbench.data.formats.encodings import ENCODING_PROBLEMS, ENCODINGS, detect_encoding, encoding_candidates
from mrc_workbench.data.formats.text import Content, EncodedText, encodings_to_choose
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.questions.read import read_files_in_subprocess, read_paths_in_subprocess
from mrc_workbench.data.subprocess_reader import File, UnusableFileError
from tests.data.layouts.written import zipped


@pytest.mark.parametrize("blank", ["\n", " \n", "\t \r\n", "\x0b\n", "\u3000\n"])
@pytest.mark.parametrize("count", [10, 1000, 100_000])
def test_scans_blank_lines_once(blank: str, count: int) -> None:
    at_the_end = iter(["가나다 라마\n", "나라\n", *[blank] * count])  # can be read once
    assert not content_module.has_inner_blank_line(at_the_end)
    inner = iter(["가나다 라마\n", *[blank] * count, "나라\n", "끝\n"])
    assert content_module.has_inner_blank_line(inner)
    assert list(inner) == ["끝\n"], "reads no further lines"


@pytest.mark.parametrize(
    ("text", "passages"),
    [
        ("\n\n하나\n둘\n\n\n", ["하나", "둘"]),
        ("하나\n둘\n\n셋\n", ["하나\n둘", "셋"]),
        ("하나\r\n \r\n둘\r\n", ["하나", "둘"]),
        ("하나\r둘\r", ["하나", "둘"]),
        ("하나\n둘\n" + " \n" * 250_000, ["하나", "둘"]),
    ],
    ids=["at the ends", "inside", "line breaks of Windows", "of old Macs", "many at the end"],
)
def test_blank_lines_between_text_end_a_passage(text: str, passages: list[str]) -> None:
    assert [row.cells["text"] for row in content_module.plain_text_table(text).rows] == passages


TEXT = "질문,지문\n수도는?,서울이다 똠 漢江 ℃\n"


def decode(content: bytes) -> tuple[str, str, tuple[Problem, ...]]:
    content_to_decode = Content(content)
    encoding = content_to_decode.encoding
    return EncodedText(content_to_decode, encoding).whole, encoding.name, encoding.problems


EUC_KR = "질문,지문\n수도는?,서울이다\n"
FEW = "question,context\nhow hot?,30℃ today\n"
JAPANESE = "質問,本文\n受付はどこですか。,受付は一階の奥にあります。\n何時に閉まりますか。,夜の九時です。\n"
CHINESE = "问题,答案\n图书馆几点关门？,晚上九点关门。\n可以借几本书？,每个人可以借五本书。\n"
TAIWANESE = "問題,答案\n圖書館幾點關門？,晚上九點關門。\n可以借幾本書？,每個人可以借五本書。\n"
KOREAN = "질문,지문\n도서관은 몇 시에 닫나요?,도서관은 밤 아홉 시에 닫습니다.\n"
GERMAN = "Frage,Antwort\nWann schließt die Bücherei?,Sie schließt um neun Uhr, samstags früher.\n"
FRENCH = "question,réponse\nOù est la bibliothèque ?,Elle est près de l'hôtel, à l'étage.\n"
RUSSIAN = "вопрос,ответ\nКогда закрывается библиотека?,Библиотека закрывается в девять часов вечера.\n"
THAI = "คำถาม,คำตอบ\nห้องสมุดปิดกี่โมง,ห้องสมุดปิดสามทุ่ม\n"
POLISH = "pytanie,odpowiedź\nGdzie jest źródło?,Źródło jest w górach, obok żółtej ścieżki.\n"


@pytest.mark.parametrize(
    ("text", "codec", "name"),
    [
        (TEXT, "utf-8", "UTF-8"),
        (TEXT, "utf-8-sig", "UTF-8"),
        ("question,context\na\x00?,bb\n", "utf-8", "UTF-8"),  # a NUL makes no UTF-16
        (TEXT, "utf-16", "UTF-16"),
        (TEXT, "utf-16-le", "UTF-16"),
        (TEXT, "utf-16-be", "UTF-16"),
        (TEXT, "cp949", "CP949"),
        (EUC_KR, "euc_kr", "CP949"),
        (JAPANESE, "shift_jis", "Shift-JIS"),
        (JAPANESE, "cp932", "Shift-JIS"),
        (JAPANESE, "euc_jp", "EUC-JP"),
        (JAPANESE, "iso2022_jp", "ISO-2022-JP"),
        (JAPANESE, "utf-16-le", "UTF-16"),
        (JAPANESE, "utf-16-be", "UTF-16"),
        (RUSSIAN, "utf-16-le", "UTF-16"),
        (THAI, "utf-16-le", "UTF-16"),
        (CHINESE, "gbk", "GB18030"),
        (CHINESE, "gb18030", "GB18030"),
        (TAIWANESE, "big5", "Big5"),
        (KOREAN, "euc_kr", "CP949"),
        (KOREAN, "johab", "Johab"),
        (GERMAN, "cp1252", "Windows-1252"),
        (GERMAN, "latin-1", "Windows-1252"),
        (FRENCH, "mac_roman", "MacRoman"),
        (RUSSIAN, "cp1251", "Windows-1251"),
        (RUSSIAN, "koi8_r", "KOI8-R"),
        (POLISH, "cp1250", "Windows-1250"),
        (KOREAN, "utf-32", "UTF-32"),
        (KOREAN, "utf-32-le", "UTF-32"),
        (KOREAN, "utf-32-be", "UTF-32"),
    ],
)
def test_detects_encodings(text: str, codec: str, name: str) -> None:
    assert decode(text.encode(codec)) == (text, name, ())
    if codec == "utf-16-be":
        assert decode(b"\xfe\xff" + text.encode(codec)) == (text, name, ())


@pytest.mark.parametrize(
    ("text", "codec", "name", "other"),
    [
        (FEW, "cp949", "CP949", "Windows-1252: 30¡É today"),  # one sign among English
        (FRENCH, "cp1252", "Windows-1252", "Windows-1250: "),
    ],
)
def test_reports_guessed_encoding_with_other_candidates(text: str, codec: str, name: str, other: str) -> None:
    decoded, encoding_name, (problem,) = decode(text.encode(codec))
    assert (decoded, encoding_name, problem.code) == (text, name, ProblemCode.GUESSED_ENCODING)
    assert other in problem.message
    assert "--encoding" in problem.message


def test_column_names_decide_the_encoding() -> None:
    rows = "ㄱㄴㄷㄹ?,漢江漢江漢江\n"
    assert decode(("질문,지문\n" + rows).encode("cp949"))[:2] == ("질문,지문\n" + rows, "CP949")
    with pytest.raises(DataError, match=r"equally likely \(Big5: 丑中之予\?; Johab: .*--encoding"):
        decode(("question,context\n" + rows).encode("cp949"))


def test_reads_broken_byte_in_a_named_encoding() -> None:
    """No encoding decodes the whole text, so all are offered."""
    content = "질문,지문\n수도는?,서울은 수도이다.\n".encode("cp949").replace(b"\n", b"\xff\n", 1)
    with pytest.raises(DataError, match="The encoding of the text is unknown"):
        decode(content)
    samples = {candidate.name: candidate.sample for candidate in encoding_candidates(Content(content))}
    assert samples["CP949"].startswith("질문")
    assert detect_encoding(Content(content), "CP949").name == "CP949"


def test_rejects_unlikely_text_with_byte_and_flag() -> None:
    with pytest.raises(DataError, match=r"byte 0x90 in line 2.*--encoding"):
        decode(b"a\nq\xc3\x8fx\x90\x81y\xffz\xe1!\x9d?\x8d\n")


def test_detects_encoding_from_a_single_json_line() -> None:
    text = json.dumps([{"question": "受付は？", "context": "受付は一階にあります。"}] * 500, ensure_ascii=False)
    assert decode(text.encode("shift_jis"))[1:] == ("Shift-JIS", ())


@pytest.mark.parametrize("given", ["Shift-JIS", "shift_jis", "SHIFTJIS", "cp932"])
def test_uses_the_named_encoding(given: str) -> None:
    content = Content("id,text\n1,東京\n2,大阪\n".encode("shift_jis"), given)
    assert EncodedText(content, content.encoding).whole == "id,text\n1,東京\n2,大阪\n"


@pytest.mark.parametrize("mark", [b"", b"\xff\xfe"])
def test_reads_named_utf16_with_and_without_byte_order_mark(mark: bytes) -> None:
    content = Content(mark + "질문,지문\n".encode("utf-16-le"), "UTF-16")
    assert EncodedText(content, content.encoding).whole == "질문,지문\n"


@pytest.mark.parametrize("name", [name for name in ENCODINGS if name != "UTF-32"])
def test_accepts_every_listed_encoding(name: str) -> None:
    assert Content(b"id,text\n1,one\n2,two\n" * 4, name).encoding.name == name


@pytest.mark.parametrize("name", ["klingon", "base64", "rot13", "idna\x00"])
def test_rejects_unknown_and_wrong_encoding_names(name: str) -> None:
    with pytest.raises(DataError, match=r"is not a known encoding.*Shift-JIS") as caught:
        detect_encoding(Content(b"a,b\n"), name)
    assert caught.value.problem.code in ENCODING_PROBLEMS
    with pytest.raises(DataError, match="not Shift-JIS: byte 0xE9 in line 2"):
        detect_encoding(Content("a\nqué,\n".encode("latin-1")), "Shift-JIS")


def test_repairs_a_few_broken_bytes_of_a_named_encoding() -> None:
    content = Content((KOREAN * 20).encode("cp949") + b"\xff\n", "CP949")
    (problem,) = content.encoding.problems
    assert (problem.code, problem.details) == (ProblemCode.MENDED_BYTES, {"encoding": "CP949", "count": 1, "line": 41})


def test_subprocess_uses_the_named_encoding(tmp_path: Path) -> None:
    rows = "id,text\n1,北京\n2,上海\n".encode("gbk")
    (tmp_path / "a.csv").write_bytes(rows)
    reading = read_paths_in_subprocess([tmp_path / "a.csv"], encoding="GB18030")
    assert list(reading.question_set.passages.texts) == ["北京", "上海"]
    packed = File(Content(zipped({"a.csv": rows})), "a.zip").with_encoding("GB18030")
    assert list(read_files_in_subprocess([packed]).question_set.passages.texts) == ["北京", "上海"]
    with pytest.raises(UnusableFileError, match="is not a known encoding"):
        read_paths_in_subprocess([tmp_path / "a.csv"], encoding="klingon")


def test_repairs_and_reports_damaged_utf8() -> None:
    content = ("수도는 서울이다.\n" * 20).encode().replace("울".encode(), b"\xec\x9a", 1)
    text, _, (problem,) = decode(content)
    assert text.startswith("수도는 서�이다.\n수도는 서울이다.\n")
    assert problem == Problem(ProblemCode.MENDED_BYTES, None, {"encoding": "UTF-8", "count": 1, "line": 1})


def test_candidates_have_names_of_the_flag_and_differ() -> None:
    content = Content("вопрос,текст\nгде,там\n".encode("koi8_r"))
    candidates = encodings_to_choose([Content(b"plain"), content])
    samples = {candidate.name: candidate.sample for candidate in candidates}
    assert samples["KOI8-R"] == "вопрос"
    assert len({*samples.values()}) == len(samples) > 1
    for name in samples:
        assert Content(content.source, name).encoding.name == name
    assert encodings_to_choose([Content("질문".encode()), Content("질문,지문\n".encode("cp949"))]) == ()
