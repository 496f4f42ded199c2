import json
import logging
import os
import warnings
from collections.abc import Iterator

import pytest

from data.terminal import QUIET, VERBOSE, harmless, quiet, tell


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


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An environment in which nobody said anything, and which gets nothing of what is said here."""
    with warnings.catch_warnings():
        for name in (*QUIET, VERBOSE):
            monkeypatch.setenv(name, "")  # so that it is put back
            monkeypatch.delenv(name)
        yield
    for name in (*QUIET, VERBOSE):
        os.environ.pop(name, None)


@pytest.mark.usefixtures("unset")
def test_libraries_keep_to_themselves_what_is_no_error() -> None:
    quiet()
    assert {name: os.environ[name] for name in QUIET} == QUIET
    assert not logging.getLogger("sentence_transformers").isEnabledFor(logging.WARNING)
    assert logging.getLogger("data").isEnabledFor(logging.WARNING)
    with warnings.catch_warnings(record=True) as told:
        warnings.warn_explicit("a hint", UserWarning, "model.py", 1, module="transformers.models.bert")
        warnings.warn_explicit("ours", UserWarning, "store.py", 1, module="data.store")
    assert [str(one.message) for one in told] == ["ours"]
