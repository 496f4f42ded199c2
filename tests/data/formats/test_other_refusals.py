"""Text that is no data is refused with what it is and what to do."""

import json

import pytest

from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import read

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "1" * 64 + "\nsize 12345\n"
PROSE = "서울은 수도이고, 한강이 흐른다.\n부산은 항구이다.\n대구는 분지이며, 덥다.\n광주는 멀다.\n"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (LFS, ProblemCode.LFS_POINTER, r"LFS pointer.*12,345 bytes.*git lfs pull"),
        ("/annex/objects/SHA256E-s10--abc.csv\n", ProblemCode.ANNEX_POINTER, "git annex get"),
        ("../.git/annex/objects/Xw/9k/SHA256E-s10--a.csv", ProblemCode.ANNEX_POINTER, "git annex get"),
        (
            "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>no</body></html>",
            ProblemCode.WEB_PAGE,
            r"web page \(HTML: Sign in\)",
        ),
        ('\n<!-- a --><HTML lang="ko"><body></body></HTML>', ProblemCode.WEB_PAGE, r"web page \(HTML\)"),
        ('<?xml version="1.0"?><html xmlns="x"></html>', ProblemCode.WEB_PAGE, "web page"),
        ("2\tqid:1\t# 7\t강\n0\tqid:1\t# 8\t산\n", ProblemCode.ONLY_JUDGEMENTS, "judgements.*corpus"),
        ("2 qid:1 1:0.5 2:3 # d7\n0 qid:2 1:0.1 2:1 # d8\n", ProblemCode.ONLY_JUDGEMENTS, "judgements.*corpus"),
        (
            "- question: 강은?\n  answer: 한강\n- question: 산은?\n  answer: 북한산\n",
            ProblemCode.UNKNOWN_STRUCTURE,
            "YAML",
        ),
        ("INSERT INTO t VALUES (1);\n" * 3, ProblemCode.UNKNOWN_STRUCTURE, "SQL"),
        ("강§물\n산§돌\n들§풀\n", ProblemCode.UNKNOWN_DELIMITER, "separated by §"),
        ("강#$#물#$#a\n산#$#돌#$#b\n들#$#풀#$#c\n", ProblemCode.UNKNOWN_DELIMITER, r"separated by #\$#"),
        ("강##물##a\n산##돌##b\n들##풀##c\n", ProblemCode.UNKNOWN_DELIMITER, "separated by ##"),
        (
            "강이 흐른다\x1e물이 맑다\n산이 높다\x1e돌이 많다\n들이 넓다\x1e풀이 푸르다\n",
            ProblemCode.UNKNOWN_DELIMITER,
            r"separated by '\\x1e'",
        ),
    ],
)
def test_what_is_no_data_is_refused(text: str, code: ProblemCode, words: str) -> None:
    with pytest.raises(DataError, match=words) as error:
        read(text.encode(), "파일.csv")
    assert error.value.problem.code is code


@pytest.mark.parametrize(
    "text",
    [
        PROSE,
        "강물은 흐른다; 산은 높다.\n들은 넓다.\n하늘은 푸르다; 구름은 희다.\n바다는 깊다.\n",
        "물가는 3% 올랐다.\n임금은 5~6% 올랐다.\n집값은 내렸다.\n환율은 그대로다 (1$ = 1,300원).\n",
        "첫째 글이다.\n둘째 글이다 - 끝.\n셋째 글이다.\n",
        "version https://git-lfs.github.com 에서 받는다.\n다른 글이다.\n",
    ],
)
def test_prose_is_passages(text: str) -> None:
    assert list(read(text.encode(), "글.txt").question_set.passages.texts) == text.splitlines()


@pytest.mark.parametrize("cut", [0.3, 0.5, 0.9, 0.99])
def test_json_cut_by_a_download_is_incomplete(cut: float) -> None:
    rows = [{"question": f"{number}번 강은?", "context": f"{number}번 강은 길다."} for number in range(50)]
    text = json.dumps(rows, ensure_ascii=False, indent=1)
    with pytest.raises(DataError) as error:
        read(text[: int(len(text) * cut)].encode(), "파일.json")
    assert error.value.problem.code in (ProblemCode.CUT_JSON, ProblemCode.BROKEN_JSON)
