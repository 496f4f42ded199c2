import json
from pathlib import Path

import pytest

from mrc_workbench.data.store import find, stored
from mrc_workbench.workbench.cli import main
from tests.chat_server import KEY, MODEL, Reply, chat_server

TEXT = "\n".join(
    f"{city},{city}은 사람들이 많이 사는 큰 도시이다. {city}에는 오래된 시장과 넓은 공원이 있다."
    for city in ("서울", "부산", "대구")
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "도시.csv"
    path.write_text(f"제목,본문\n{TEXT}\n", encoding="utf-8")
    return str(path)


def test_sentences_become_a_set_of_their_own(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "generate", file, "--by", "sentence", "--shortest", "10", "--seed", "3"]) == 0
    told = capsys.readouterr().out
    assert "3 questions of 3 passages: 도시 · sentence" in told
    assert "They are made, not asked" in told
    (kept,) = stored()
    assert (kept.name, kept.source, kept.questions, kept.made) == ("도시 · sentence", "도시", 3, 3)
    assert f"stored as {kept.key}" in told
    assert find(kept.key).made == {"sentence": 3}


def test_a_preview_keeps_nothing(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "generate", file, "--by", "title", "--preview", "--most", "2"]) == 0
    assert "2 questions of 2 passages" in capsys.readouterr().out
    assert stored() == []


def test_a_language_model_of_the_environment(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("질문 {n}개", encoding="utf-8")
    with chat_server(lambda text: "음…" if "대구" in text else json.dumps([f"{text[4:6]}은 어디인가?"])) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.address)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        words = ["data", "generate", file, "--by", "model", "--model", MODEL, "--prompt", str(prompt)]
        assert main(words) == 0
        assert server.asked[0]["messages"][0]["content"] == "질문 1개"
        told = capsys.readouterr().out
        assert "2 questions of 2 passages" in told
        assert "서울은 어디인가?" in told
        assert "Passages of which no question came: 1\n  p3: unusable: 음…" in told
        server.reply = lambda _: Reply(404, {})
        assert main(words) == 2
        assert capsys.readouterr().err.startswith("error: the endpoint knows no model")
        assert main([*words, "--no-calls", "--name", "둘"]) == 0
        assert "Passages not asked about yet: 1" in capsys.readouterr().out
    assert [kept.name for kept in stored()] == ["둘"]  # the same content, under its newest name


def test_what_cannot_be_made_is_told(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "generate", file, "--by", "sentence", "--shortest", "900", "--longest", "900"]) == 2
    assert capsys.readouterr().err.startswith("error: no passage has a sentence to spare")
    assert main(["data", "generate", "nowhere", "--by", "title"]) == 2
    assert main(["data", "generate", file, "--by", "model"]) == 2
    assert "name the language model" in capsys.readouterr().err
    assert main(["data", "generate", file]) == 2
    assert main(["data", "inspect", file]) == 0
    assert "No questions: these passages can be searched" in capsys.readouterr().out


def test_stopped_by_a_person(file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(*words: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mrc_workbench.data.generate.make.make_questions", stop)
    assert main(["data", "generate", file, "--by", "title"]) == 130
    assert "run the same command again to continue" in capsys.readouterr().err
