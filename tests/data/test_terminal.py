import json

import pytest

from data.terminal import harmless, tell


def test_no_text_commands_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    text = "종류\x1b[2J\x07\x9b31m\x7f\r\u202e끝\t\n"
    assert harmless(text) == "종류\\u001b[2J\\u0007\\u009b31m\\u007f\\u000d\\u202e끝\t\n"
    tell(text)
    tell(text, error=True)
    out, errors = capsys.readouterr()
    assert out == errors == harmless(text) + "\n"


def test_json_stays_json() -> None:
    content = {"kind": "\x9b31m\u202e\x7f가"}
    assert json.loads(harmless(json.dumps(content, ensure_ascii=False))) == content
