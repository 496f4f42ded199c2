"""Tests of dictionaries: lines, errors with rows, stored dictionaries and references."""

import tomllib
import unicodedata
from pathlib import Path
from string import Formatter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.text import dictionary as dictionaries
from mrc_workbench.data.text.analyzers import kiwi_tokenizer
from mrc_workbench.data.text.dictionary import Dictionary, DictionaryError, Word, load, read_dictionary, save, stored
from mrc_workbench.data.workspace import PROJECT, workspace
from mrc_workbench.workbench.cli import main
from tests.doubles import raises_failure

EVERY_KIND = """# 관공서
세종시 세종 시   # 이름
국립중앙박물관
블랙 펄\tNNP\t1.5
달리\tVV
자동차, 차량, 승용차

휴대폰, 핸드폰 => 휴대 전화
"""
READ = Dictionary(
    (Word("세종시", parts=("세종", "시")), Word("국립중앙박물관"), Word("블랙 펄", "NNP", 1.5), Word("달리", "VV")),
    (("자동차", "차량", "승용차"), ("휴대 전화", "휴대폰", "핸드폰")),
)
PIECES = st.sampled_from(
    ["세종", "세종시", "시", "GPT", "gpt", "4", "a", "NNP", "FOO", "1.5", "nan", "...", "\u1109\u1166"]
) | st.sampled_from(["#", " ", "\t", "\n", "\r\n", ",", "=>", "\x00", "\u200b", "\\", "\ufeff"])


def read(lines: str) -> Dictionary:
    return read_dictionary(lines.encode())


def test_reads_every_kind_of_line() -> None:
    dictionary = read(EVERY_KIND)
    assert (dictionary.words, dictionary.synonyms) == (READ.words, READ.synonyms)
    cars = dict.fromkeys(["자동차", "차량", "승용차"], "자동차")
    phones = dict.fromkeys(["휴대전화", "휴대폰", "핸드폰"], "휴대전화")
    assert dictionary.names == cars | phones
    assert dictionary.parts == {"세종시": ("세종", "시"), "국립중앙박물관": (), "블랙펄": ("블랙", "펄"), "달리": ()}
    assert dictionaries.normalize_word("Black  Pearl") == dictionaries.normalize_word("blackpearl") == "blackpearl"


@pytest.mark.parametrize(
    "content",
    [
        EVERY_KIND.encode("utf-8-sig"),
        EVERY_KIND.replace("\n", "\r\n").encode(),
        EVERY_KIND.replace("\n", "\r").encode(),
        unicodedata.normalize("NFD", EVERY_KIND).encode(),
    ],
)
def test_reads_line_endings_of_every_system(content: bytes) -> None:
    assert read_dictionary(content) == READ


@pytest.mark.parametrize(
    ("lines", "code", "row", "details"),
    [
        ("", "no_words", None, {}),
        ("# 주석\n\n \t \n", "no_words", None, {}),
        ("가, 가\n", "no_words", None, {}),
        ("가\n" + "나" * 5_001, "long_line", 2, {"size": 5_001}),
        ("가\n나\x00다", "character", 2, {"found": "U+0000"}),
        ("가\u200b나", "character", 1, {"found": "U+200B"}),
        ("a\\,b, c", "character", 1, {"found": "U+005C"}),
        ("가,#나", "character", 1, {"found": "#"}),
        ("가\tNNP\t1\t2", "fields", 1, {"found": 4}),
        ("가\tFOO", "unknown_tag", 1, {"tag": "FOO"}),
        ("가\t", "unknown_tag", 1, {"tag": ""}),
        ("가\tNNP\tviel", "bad_score", 1, {"score": "viel"}),
        ("가\tNNP\tnan", "bad_score", 1, {"score": "nan"}),
        ("가\tNNP\t101", "bad_score", 1, {"score": "101"}),
        ("\tNNP", "empty_word", 1, {}),
        ("가, , 나", "empty_word", 1, {}),
        ("가,", "empty_word", 1, {}),
        ("가 =>", "empty_word", 1, {}),
        ("=> 가", "empty_word", 1, {}),
        ("!?", "no_letter", 1, {"word": "!?"}),
        ("가" * 51, "long_word", 1, {"limit": 50}),
        ("세종시 세종 청", "wrong_parts", 1, {"word": "세종시", "parts": "세종 청"}),
        ("가 => 나, 다", "many_right", 1, {}),
        ("가 => 나 => 다", "many_right", 1, {}),
        ("가\tNNP\nA\tNNP\n가\tNNG", "two_readings", 3, {"first": 1}),
        ("가나다 가 나다\n가나다 가나 다", "two_readings", 2, {"first": 1}),
        ("가, 나\n다, 나", "two_groups", 2, {"first": 1, "word": "나"}),
        ("GPT, 모델\ngpt => 지피티", "two_groups", 2, {"first": 1, "word": "gpt"}),  # the first in another group
        ("가 => 나\n나 => 다", "two_groups", 2, {"first": 1}),
        ("가 => 나\n나 => 가", "two_groups", 2, {"first": 1}),
        ("가\n나\n\udcb0\udca1", "not_utf8", 3, {"byte": "0xB0"}),
    ],
)
def test_reports_row_of_invalid_line(lines: str, code: str, row: int | None, details: dict[str, object]) -> None:
    with pytest.raises(DictionaryError) as raised:
        read_dictionary(lines.encode(errors="surrogateescape"))
    assert (raised.value.code, raised.value.details.get("row")) == (code, row)
    assert details.items() <= raised.value.details.items()


def test_reports_every_invalid_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DictionaryError) as raised:
        read("가,\n나\n다\tFOO\n!!\n")
    errors = [raised.value, *raised.value.others]
    codes = [(problem.code, problem.details["row"]) for problem in errors]
    assert codes == [("empty_word", 1), ("unknown_tag", 3), ("no_letter", 4)]
    monkeypatch.setattr(dictionaries, "MAX_REPORTED_LINES", 5)
    with pytest.raises(DictionaryError) as raised:
        read("!\n" * 50)
    assert len(raised.value.others) == 4


@pytest.mark.parametrize(("limit", "code"), [("MAX_BYTES", "too_many_bytes"), ("MAX_LINES", "too_many_lines")])
def test_rejects_files_beyond_the_limits(limit: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionaries, limit, 3)
    with raises_failure(code):
        read("a\nb\nc\nd\n")
    assert len(read("a\n").words) == 1


def test_merges_lines_of_the_same_word() -> None:
    dictionary = read("세종시\n세종시 세종 시\n세종시\tNNG\t2\n세종시\n")
    assert dictionary.words == (Word("세종시", "NNG", 2.0, ("세종", "시")),)
    dictionary = read("차 => 자동차\n자동차, 차량\n차량 => 자동차\n")
    assert dictionary.synonyms == (("자동차", "차", "차량"),)


def test_fingerprint_depends_on_content_only() -> None:
    lines = EVERY_KIND.splitlines()
    assert read("\n".join(reversed(lines))).fingerprint == READ.fingerprint
    assert read(EVERY_KIND.replace("차량, 승용차", "승용차, 차량")) == READ
    changes = [("1.5", "1.6"), ("자동차, 차량", "차량, 자동차")]
    others = [*(EVERY_KIND.replace(*change) for change in changes), EVERY_KIND + "서울\n"]
    assert len({READ, *map(read, others)}) == 4


@pytest.mark.slow
@settings(deadline=None, max_examples=400)
@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=60), st.binary(max_size=6))
def test_reads_any_file_or_reports_its_row(lines: str, after: bytes) -> None:
    content = lines.encode(errors="surrogatepass") + after
    try:
        dictionary = read_dictionary(content)
    except DictionaryError as error:
        for problem in (error, *error.others):
            assert problem.code == "no_words" or 1 <= int(problem.details["row"]) <= len(content) + 1
        return
    again = read_dictionary(dictionaries.format_dictionary(dictionary).encode())
    assert (again.words, again.synonyms) == (dictionary.words, dictionary.synonyms)
    assert again.fingerprint == dictionary.fingerprint


def test_adds_words() -> None:
    more = dictionaries.with_words(
        READ, [Word("임세영"), Word("세종시", "NNG"), Word("1,2-다이옥신"), Word("가 나", parts=("가", "나"))]
    )
    added = (Word("임세영"), Word("1,2-다이옥신", "NNP"), Word("가 나", "NNP", parts=("가", "나")))
    assert more.words[len(READ.words) :] == added
    assert more.words[0] == Word("세종시", "NNG", parts=("세종", "시"))
    assert more.synonyms == READ.synonyms
    assert dictionaries.with_lines(READ, "버스, 시내버스\n").synonyms == (*READ.synonyms, ("버스", "시내버스"))
    assert dictionaries.with_words(READ, []) == READ
    assert dictionaries.with_words(Dictionary(), [Word("가")]).words == (Word("가"),)
    for no_word in ("", " ", "a\nb", "a\tNNP", "#a", "a #b", "가\x00", "=", "\ud800"):
        with pytest.raises(DictionaryError):
            dictionaries.with_words(READ, [Word(no_word)])


def test_opens_files(tmp_path: Path) -> None:
    path = tmp_path / "사전.txt"
    path.write_text(EVERY_KIND, encoding="utf-8")
    assert dictionaries.open_dictionary(path) == READ
    for wrong in (tmp_path, tmp_path / "none"):
        with raises_failure("unreadable"):
            dictionaries.open_dictionary(wrong)


@pytest.mark.slow
def test_kiwi_knows_the_tags() -> None:
    words = {tag: f"쿠쿠루삐{chr(ord('가') + number)}" for number, tag in enumerate(sorted(dictionaries.TAGS))}
    reader = kiwi_tokenizer(read("".join(f"{word}\t{tag}\n" for tag, word in words.items())))
    for tag in ("NNG", "NNP", "SL", "MAG", "IC"):
        (tokens,) = reader.tokens([words[tag]])
        assert [(token.form, token.tag) for token in tokens] == [(words[tag], tag)]


@pytest.mark.parametrize("language", ["ko", "en"])
def test_every_problem_has_a_message(language: str) -> None:
    path = PROJECT / "workbench" / "views" / "locales" / language / "dictionary.toml"
    words = tomllib.loads(path.read_text(encoding="utf-8"))["dictionary"]

    def fields(template: str) -> set[str | None]:
        return {field for _, field, _, _ in Formatter().parse(template)} - {None}

    for code, template in dictionaries._MESSAGES.items():
        assert fields(words[code]) == fields(template), code


CITY_LINES = "# 주석\n세종시 세종 시\n자동차, 차량\n"
CITIES = read(CITY_LINES)


def test_loads_and_finds_stored_dictionary(tmp_path: Path) -> None:
    stored_dictionary = save(CITIES, "도시", source="cities.txt")
    assert stored() == [stored_dictionary]
    assert (stored_dictionary.name, stored_dictionary.source) == ("도시", "cities.txt")
    assert (stored_dictionary.words, stored_dictionary.synonyms) == (1, 1)
    loaded = load(stored_dictionary.key)
    of_it = (CITIES.words, CITIES.synonyms, stored_dictionary.fingerprint)
    assert (loaded.words, loaded.synonyms, loaded.fingerprint) == of_it
    assert stored_dictionary.reference == f"dictionary:{stored_dictionary.fingerprint[:16]}"
    assert dictionaries.find(stored_dictionary.reference) == CITIES
    for reference in ("dictionary:", "dictionary:../" + stored_dictionary.key):
        with pytest.raises(DictionaryError, match="도시") as raised:
            dictionaries.find(reference)
        assert raised.value.code == "unknown"
    (tmp_path / "file.txt").write_text("서울\n", encoding="utf-8")
    assert dictionaries.find("file.txt", tmp_path).words == (Word("서울"),)


def test_edit_makes_another_dictionary() -> None:
    stored_dictionary = save(CITIES, "도시")
    edited = save(dictionaries.with_words(load(stored_dictionary.key), [Word("임세영")]), "도시")
    assert edited.key != stored_dictionary.key
    assert dictionaries.find("도시") == load(edited.key)
    assert load(stored_dictionary.key) == CITIES
    assert save(CITIES, "again").key == stored_dictionary.key
    assert [item.name for item in stored()] == ["again", "도시"]


def test_rejects_changed_dictionary() -> None:
    stored_dictionary = save(CITIES, "도시")
    folder = workspace() / "dictionaries" / stored_dictionary.key
    (folder / "dictionary.txt").write_text("서울\n", encoding="utf-8")
    with pytest.raises(DictionaryError) as raised:
        load(stored_dictionary.key)
    assert (raised.value.code, raised.value.details) == ("broken", {"name": "도시"})
    (folder / "set.json").write_text("{", encoding="utf-8")
    assert (stored(), dictionaries.damaged()) == ([], [stored_dictionary.key])
    dictionaries.remove(stored_dictionary.key)
    assert not folder.exists()
    with pytest.raises(DictionaryError):
        dictionaries.remove(stored_dictionary.key)


def test_command_imports_and_lists_dictionaries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cities.txt"
    wrong = tmp_path / "wrong.txt"
    path.write_text(CITY_LINES, encoding="utf-8")
    wrong.write_text("가,\n나\tFOO\n", encoding="utf-8")
    assert main(["dictionaries", "list"]) == 0
    assert capsys.readouterr().err.startswith("No dictionaries yet: ")
    assert main(["dictionaries", "import", str(path)]) == 0
    assert main(["dictionaries", "list"]) == 0
    stored_dictionary = stored()[0]
    line = f"{stored_dictionary.reference}          1 words          1 groups of synonyms  cities"
    assert capsys.readouterr().out.splitlines() == [line] * 2
    assert main(["dictionaries", "import", str(wrong)]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert [line[: len("error: row 1")] for line in errors] == ["error: row 1", "  row 2: FOO"]
    assert main(["dictionaries", "list", "--json"]) == 0
    assert stored_dictionary.fingerprint in capsys.readouterr().out
