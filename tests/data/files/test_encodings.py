import pytest

from data.formats.text import Content, EncodedText, encoding_of
from data.problems import DataError, Problem, ProblemCode

TEXT = "질문,지문\n수도는?,서울이다 똠 漢江 ℃\n"


def decode(content: bytes) -> tuple[str, str, tuple[Problem, ...]]:
    given = Content(content)
    found = encoding_of(given)
    return EncodedText(given, found).whole, found.name, found.problems


@pytest.mark.parametrize(
    ("codec", "name"),
    [
        ("utf-8", "UTF-8"),
        ("utf-8-sig", "UTF-8"),
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16"),
        ("utf-16-be", "UTF-16"),
        ("cp949", "CP949"),
    ],
)
def test_known_encodings(codec: str, name: str) -> None:
    assert decode(TEXT.encode(codec)) == (TEXT, name, ())


def test_euc_kr_is_read_as_cp949() -> None:
    text = "질문,지문\n수도는?,서울이다\n"
    assert decode(text.encode("euc_kr")) == (text, "CP949", ())


def test_utf16_big_endian_with_mark() -> None:
    assert decode(b"\xfe\xff" + TEXT.encode("utf-16-be"))[:2] == (TEXT, "UTF-16")


def test_few_korean_letters_among_english() -> None:
    text = "question,context\nhow hot?,30℃ today\n"
    assert decode(text.encode("cp949"))[:2] == (text, "CP949")


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        ("質問,本文\n質問ですか,とても長い本文です\n", "euc_jp"),
        ("質問,本文\n質問ですか,とても長い本文です。\n", "shift_jis"),
        ("首都是哪里,上海是大城市\n", "gbk"),
        ("qué,señor está aquí\n", "latin-1"),
        (TEXT, "utf-32"),
    ],
)
def test_other_encodings_are_refused(text: str, codec: str) -> None:
    with pytest.raises(DataError, match=r"(neither|not) UTF-8.* CP949 .* Save the file as UTF-8"):
        decode(text.encode(codec))


def test_cp949_with_more_hanja_and_jamo_than_hangul() -> None:
    rows = "ㄱㄴㄷㄹ?,漢江漢江漢江\n"
    assert decode(("질문,지문\n" + rows).encode("cp949"))[:2] == ("질문,지문\n" + rows, "CP949")
    with pytest.raises(DataError, match="more Hanja and single jamo than Hangul"):
        decode(("question,context\n" + rows).encode("cp949"))


def test_the_refusal_names_byte_and_line() -> None:
    with pytest.raises(DataError, match="byte 0xE9 in line 3"):
        decode("a\nb\nqué,\n".encode("latin-1"))


def test_damaged_utf8_is_mended_and_told() -> None:
    content = ("수도는 서울이다.\n" * 20).encode().replace("울".encode(), b"\xec\x9a", 1)
    text, _, (problem,) = decode(content)
    assert text.startswith("수도는 서�이다.\n수도는 서울이다.\n")
    assert (problem.code, problem.row, problem.details) == (
        ProblemCode.MENDED_BYTES,
        None,
        {"count": 1, "line": 1},
    )


def test_a_nul_does_not_make_utf8_utf16() -> None:
    assert decode(b"question,context\na\x00?,bb\n") == ("question,context\na\x00?,bb\n", "UTF-8", ())
