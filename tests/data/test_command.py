import errno
import json
import os
from pathlib import Path

import pytest

from data import __main__ as module
from data.__main__ import main
from data.store import find, load, stored
from tests.data.layouts.written import beir, zipped

TEXT = (
    "번호,제목,질문,지문,정답\n1,서울,수도는?,서울은 수도이다,서울\n2,서울,강은?,,한강\n3,부산,바다는?,부산 바다,남해\n"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "set.csv"
    path.write_text(TEXT, encoding="cp949")
    return path


def test_plain_text(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "set: csv, CP949",
        "2 paragraphs -> 2 passages; 3 rows -> 2 questions",
        "Columns: question <- 질문, context <- 지문, answers <- 정답, title <- 제목, id <- 번호",
        "Problems: 1; rows left out: 1",
        "  Row 3: the context (지문) is empty. Fill in the passage, or remove the row.",
        "Articles: 2; passages without a question: 0; unanswerable questions: 0",
        "Characters a passage: median 6, 5 to 8; a question: median 4, 4 to 4",
        "Wording that question and passage share: 50.0% of the letter pairs; by chance 0.0%",
        "Questions asked more than once: 0; answers not found in their passage: 1",
        "Split of the answerable questions by article, seed 0: train 2 (2 groups), validation 0 (0 groups), "
        "test 0 (0 groups)",
    ]


def test_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--json", str(file)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["format"], told["encoding"], told["row_count"]) == ("csv", "CP949", 3)
    assert told["problems"] == [
        {
            "code": "empty_context",
            "row": 3,
            "message": "Row 3: the context (지문) is empty. Fill in the passage, or remove the row.",
        }
    ]
    assert told["audit"]["answers_not_found"] == ["3"]
    assert told["audit"]["passage_lengths"] == {"min": 5, "median": 6.5, "mean": 6.5, "max": 8}
    assert told["split"]["questions"] == {"all": 2, "train": 2, "validation": 0, "test": 0}


def test_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "set.csv"
    path.write_text("가,나,제목\n수도는?,서울,도시\n")
    assert main(["inspect", str(path)]) == 1
    assert capsys.readouterr().err.startswith("No column for the context was found. The columns are: 가, 나, 제목.")
    assert main(["inspect", str(path), "--columns", "question=가", "context=나"]) == 0
    assert "Columns: question <- 가, context <- 나, title <- 제목" in capsys.readouterr().out


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path / "none.csv")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith(
        "none.csv cannot be read (No such file or directory). Check the path and its permissions.\n"
    )


def test_a_column_without_a_role(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(file), "--columns", "질문"]) == 2
    assert "is not ROLE=NAME with a role of question, context, answers, title, id, kind" in capsys.readouterr().err


def test_keep(file: Path, workspace_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keep", str(file), "--columns", "title=번호"]) == 0
    (kept,) = stored()
    assert capsys.readouterr().out.splitlines()[-1] == f"Kept as {kept.key}"
    assert (kept.name, kept.source, kept.passages, kept.questions) == ("set", "set.csv", 2, 2)
    assert [passage.title for passage in load(kept.key).passages] == ["1", "3"]


@pytest.mark.parametrize("command", ["inspect", "keep"])
def test_a_full_disk_is_told(
    command: str, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module, "keep" if command == "keep" else "read_paths_apart", full)
    assert main([command, str(file)]) == 1
    assert capsys.readouterr().err == (
        "The disk cannot be written to (No space left on device). Nothing that was kept is lost.\n"
    )


def test_kinds_do_not_command_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "set.csv"
    path.write_text("question,context,kind\n수도는?,서울,가\x9b31m\n", encoding="utf-8")
    assert main(["inspect", str(path)]) == 0
    assert "Kinds: 가\\u009b31m 1" in capsys.readouterr().out


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "scifact.zip"
    path.write_bytes(zipped(beir()))
    return path


def test_a_collection_is_told_file_by_file(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(archive)]) == 0
    assert capsys.readouterr().out.splitlines()[:7] == [
        "scifact: laid out as beir",
        "5 passages, 3 questions, 5 judgements, 2 questions with grades",
        "  scifact/corpus.jsonl: passages, jsonl, UTF-8; 5 rows",
        "  scifact/queries.jsonl: questions, jsonl, UTF-8; 3 rows",
        "  scifact/qrels/test.tsv: judgements, tsv, UTF-8; 5 rows",
        "  Questions without a judgement: 1, such as q3. They can be searched, and no figure counts them.",
        "Problems: none",
    ]
    assert main(["inspect", "--json", str(archive)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["layout"], told["judgement_count"], told["files"][2]["rows"]) == ("beir", 5, 5)
    assert told["gaps"][0]["code"] == "unjudged_questions"


def test_folders_and_files_together_are_kept_and_written_again(
    archive: Path, tmp_path: Path, workspace_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in beir().items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    names = ("corpus.jsonl", "queries.jsonl", "qrels")
    assert main(["keep", *(str(tmp_path / "scifact" / name) for name in names)]) == 0
    (kept,) = stored()
    assert kept.source == "corpus.jsonl, queries.jsonl, qrels"
    for layout in ("beir", "mteb"):
        out = tmp_path / "out" / f"{layout}.zip"
        assert main(["write", kept.key, "--layout", layout, "--out", str(out)]) == 0
        assert find(str(out)).fingerprint == kept.fingerprint
    assert main(["write", kept.key, "--layout", "trec", "--out", str(archive)]) == 2
