"""Tests of the commands for datasets and pairs: output and stored sets."""

import errno
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mrc_workbench.data import cli as module
from mrc_workbench.data.pairs.store import load as load_pairs
from mrc_workbench.data.pairs.store import stored as stored_pairs
from mrc_workbench.data.store import find, load, stored
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.workbench.cli import main
from tests.data.formats.test_refusals import DOCX, PDF
from tests.data.layouts.written import beir, zipped

Command = Callable[..., str]
TEXT = (
    "번호,제목,질문,지문,정답\n1,서울,수도는?,서울은 수도이다,서울\n2,서울,강은?,,한강\n3,부산,바다는?,부산 바다,남해\n"
)


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a successful command and return its output."""

    def run(*words: object) -> str:
        assert main([*map(str, words)]) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def error(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a failing command and return its error."""

    def run(*words: object) -> str:
        assert main([*map(str, words)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        return captured.err

    return run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "set.csv"
    path.write_text(TEXT, encoding="cp949")
    return path


def test_inspect_prints_plain_text(file: Path, output: Command) -> None:
    assert output("data", "inspect", file).splitlines() == [
        "set: csv, CP949",
        "2 paragraphs -> 2 passages; 3 rows -> 2 questions",
        "Columns: question <- 질문, context <- 지문, answers <- 정답, title <- 제목, id <- 번호",
        "Problems: 1; rows left out: 1",
        "  Row 3: the passage (지문) is empty. Fill it in, or remove the row.",
        "Articles: 2; passages without a question: 0; unanswerable questions: 0",
        "Characters a passage: median 6, 5 to 8; a question: median 4, 4 to 4",
        "Wording that question and passage share: 50.0% of the letter pairs; by chance 0.0%",
        "Questions asked more than once: 0; answers not found in their passage: 1",
        "Split of the answerable questions, drawn by article, seed 0: train 2 (2 groups), validation 0 (0 groups), "
        "test 0 (0 groups)",
        "Too few train questions: 2. With fewer than 20, most differences are chance.",
        "Too few validation questions: 0. With fewer than 20, most differences are chance.",
        "Too few test questions: 0. With fewer than 20, most differences are chance.",
    ]


def test_inspect_prints_json(file: Path, output: Command) -> None:
    report = json.loads(output("data", "inspect", "--json", file))
    assert (report["format"], report["encoding"], report["row_count"]) == ("csv", "CP949", 3)
    assert "records" not in report
    message = "Row 3: the passage (지문) is empty. Fill it in, or remove the row."
    assert report["problems"] == [{"code": "empty_context", "row": 3, "message": message}]
    assert report["audit"]["missing_answer_ids"] == ["3"]
    assert report["audit"]["passage_lengths"] == {"min": 5, "median": 6.5, "mean": 6.5, "max": 8}
    assert report["split"]["questions"] == {"all": 2, "train": 2, "validation": 0, "test": 0}


def test_inspect_prints_notes_about_texts(tmp_path: Path, output: Command, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pages.csv"
    path.write_text("질문,지문\n수도는?,<p>서울은 수도이다.</p>\n바다는?,부산은 항구이다.\n")
    assert main(["data", "inspect", str(path)]) == 0
    line = "  Passages with markup: 1 of 2 checked (50.0%; HTML tags 1, entities 0, Markdown tables 0, wiki markup 0)"
    assert line in capsys.readouterr().out
    (notice,) = json.loads(output("data", "inspect", "--json", path))["notices"]
    assert (notice["code"], notice["count"], notice["examples"]) == ("markup", 1, "p1: <p>서울은 수도이다.</p>")
    assert notice["message"].endswith("Convert the file to plain text and read it again.")


def test_inspect_takes_columns(tmp_path: Path, output: Command, error: Command) -> None:
    path = tmp_path / "set.csv"
    path.write_text("가,나,제목\n수도는?,서울,도시\n")
    missing = "error: No context column found. Columns in the file: 가, 나, 제목."
    assert error("data", "inspect", path).startswith(missing)
    out = output("data", "inspect", path, "--columns", "question=가", "context=나")
    assert "Columns: question <- 가, context <- 나, title <- 제목" in out


def test_rejects_missing_file(tmp_path: Path, error: Command) -> None:
    message = "none.csv cannot be read (No such file or directory). Check the path and its permissions.\n"
    assert error("data", "inspect", tmp_path / "none.csv").endswith(message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--columns", "질문"], "is not ROLE=NAME with a role of question, context, answers, title, id, kind"),
        (["--records"], "--records needs --json"),
    ],
)
def test_rejects_wrong_options(words: list[str], message: str, file: Path, error: Command) -> None:
    assert message in error("data", "inspect", file, *words)


def test_import_stores_the_dataset(file: Path, workspace_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "import", str(file), "--columns", "title=번호"]) == 0
    (stored_set,) = stored()
    assert capsys.readouterr().out.splitlines()[-1] == f"stored as {stored_set.key}"
    assert (stored_set.name, stored_set.source, stored_set.passages, stored_set.questions) == ("set", "set.csv", 2, 2)
    assert [passage.title for passage in load(stored_set.key).passages] == ["1", "3"]


@pytest.mark.parametrize("command", ["inspect", "import"])
def test_reports_full_disk(command: str, file: Path, error: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module, "save_question_set" if command == "import" else "read_paths_in_subprocess", full)
    assert error("data", command, file) == "error: the disk is full\n"


def test_escapes_question_kinds_and_prints_dash_for_missing_chance(tmp_path: Path, output: Command) -> None:
    path = tmp_path / "set.csv"
    text = "question,context,kind\n수도는 어디인가?,대한민국의 수도는 서울이다.,가\x9b31m\n"
    path.write_text(text, encoding="utf-8")
    out = output("data", "inspect", path)
    assert "Kinds: 가\\u009b31m 1" in out
    assert "by chance -" in out
    assert "nan%" not in out


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "scifact.zip"
    path.write_bytes(zipped(beir()))
    return path


def test_inspect_reports_each_file_of_a_collection(archive: Path, output: Command) -> None:
    assert output("data", "inspect", archive).splitlines()[:9] == [
        "scifact: laid out as beir",
        "5 passages, 3 questions, 5 judgements, 2 questions with grades",
        "  scifact/corpus.jsonl: passages, jsonl, UTF-8; 5 rows",
        "  scifact/queries.jsonl: questions, jsonl, UTF-8; 3 rows",
        "  scifact/qrels/test.tsv: judgements, tsv, UTF-8; 5 rows",
        "Used columns: _id, title, text, query-id, corpus-id, score",
        "Metadata columns: metadata",
        "  Questions without a judgement: 1, such as q3. They can be searched, but no metric includes them.",
        "Problems: none",
    ]
    report = json.loads(output("data", "inspect", "--json", archive))
    assert (report["layout"], report["judgement_count"], report["files"][2]["rows"]) == ("beir", 5, 5)
    assert report["gaps"][0]["code"] == "unjudged_questions"


def test_imports_and_exports_folders_with_files(archive: Path, tmp_path: Path, workspace_folder: Path) -> None:
    for name, content in beir().items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    names = ("corpus.jsonl", "queries.jsonl", "qrels")
    assert main(["data", "import", *(str(tmp_path / "scifact" / name) for name in names)]) == 0
    (stored_set,) = stored()
    assert stored_set.source == "corpus.jsonl, queries.jsonl, qrels"
    for layout in ("beir", "mteb"):
        out = tmp_path / "out" / f"{layout}.zip"
        assert main(["data", "export", stored_set.key, "--format", layout, "--out", str(out)]) == 0
        assert find(str(out)).fingerprint == stored_set.fingerprint
    assert main(["data", "export", stored_set.key, "--format", "trec", "--out", str(archive)]) == 2


GOOD = [f"가 {row}\t나 {row}\t{row % 6}" for row in range(20)]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A training file with an incomplete row and a sentence of the test file."""
    train = tmp_path / "sts-train.tsv"
    test = tmp_path / "sts-test.tsv"
    head = "sentence1\tsentence2\tscore"
    train.write_text("\n".join([head, "\t나\t1", *GOOD, "다\t라\t4.5"]), encoding="utf-8")
    test.write_text("\n".join([head, "마\t라\t2.5", "바\t사\t0"]), encoding="utf-8")
    return [str(train), str(test)]


def test_inspect_pairs_prints_the_reading(files: list[str], output: Command) -> None:
    lines = output("pairs", "inspect", *files).splitlines()
    assert lines == [
        "sts: 23 rows, scored, scale 0 to 5",
        "  sts-train.tsv: tsv, UTF-8, published for train; 22 rows; "
        "sentence1 <- sentence1, sentence2 <- sentence2, score <- score",
        "  sts-test.tsv: tsv, UTF-8, published for test; 2 rows; "
        "sentence1 <- sentence1, sentence2 <- sentence2, score <- score",
        "Problems in sts-train.tsv: 1; rows left out: 1",
        "  Row 2: a sentence (sentence1) is empty. Fill it in, or remove the row.",
        "Problems in sts-test.tsv: none",
        "Different sentences: 45; characters: median 3, 1 to 4; median 3, 1 to 4",
        "Scores: 0 to 0.5: 5, 0.5 to 1: 0, 1 to 1.5: 4, 1.5 to 2: 0, 2 to 2.5: 3, 2.5 to 3: 1, 3 to 3.5: 3, "
        "3.5 to 4: 0, 4 to 4.5: 3, 4.5 to 5: 4",
        "Rows that repeat an earlier row: 0; pairs judged differently: 0; rows with the same sentence twice: 0",
        "Split: train 19, validation 2, test 2; train, test as published; validation drawn by shared sentences, seed 0",
        "  1 test rows hold 1 sentences of train rows, 0 a whole row",
    ]


def test_lists_rejected_rows_if_too_few_remain(tmp_path: Path, error: Command) -> None:
    file = tmp_path / "few.tsv"
    file.write_text("sentence1\tsentence2\tlabel\n가\t나\tentailment\n다\t라\tmaybe\n", encoding="utf-8")
    first, row = error("pairs", "inspect", file).splitlines()
    assert first.startswith("error: Too few usable rows (1)")
    assert row.startswith("  Row 3: ")
    assert "maybe" in row


def test_inspect_pairs_prints_json(files: list[str], output: Command) -> None:
    report = json.loads(output("pairs", "inspect", *files, "--json", "--kind", "scored", "--scale", "-5", "5"))
    assert (report["name"], report["kind"], report["scale"], report["rows_left_out"]) == ("sts", "scored", [-5, 5], 1)
    assert report["files"][0]["problems"][0]["code"] == "empty_sentence"
    assert report["split"]["published"] == ["train", "test"]
    assert report["split"]["rows"] == {"all": 23, "train": 19, "validation": 2, "test": 2}
    assert report["audit"]["leaks"][1] == {"from": "train", "into": "test", "sentences": 1, "rows": 1, "repeated": 0}
    assert sum(report["audit"]["score_counts"]) == 23


def test_import_stores_pairs(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--columns", "sentence1=sentence2", "sentence2=sentence1", "--parts", "none", "test"]
    assert main(["pairs", "import", *files, *words]) == 0
    (stored_set,) = stored_pairs()
    assert capsys.readouterr().out.endswith(f"stored as {stored_set.key}\n")
    pairs = load_pairs(stored_set.key)
    assert (stored_set.source, stored_set.rows, pairs.texts[0][0]) == ("sts-train.tsv, sts-test.tsv", 23, "나 0")
    assert pairs.published.tolist() == [-1] * 21 + [2] * 2


def test_rejects_files_that_are_not_pairs(tmp_path: Path, error: Command) -> None:
    file = tmp_path / "표.csv"
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    assert error("pairs", "inspect", file).startswith("error: No sentence column found. Columns in the file: a, b.")
    assert main(["pairs", "import", str(tmp_path / "none.csv")]) == 2
    assert stored_pairs() == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--scale", "5", "0"], "the lower one first"),
        (["--parts", "train"], "--parts names 1 parts of 2 files"),
        (["--parts", "all", "test"], "none of train, validation, test and none"),
        (["--columns", "text=a"], "a role of sentence1"),
        (["--kind", "question"], "--kind"),
    ],
)
def test_rejects_invalid_pair_options(files: list[str], words: list[str], message: str, error: Command) -> None:
    assert message in error("pairs", "inspect", *files, *words)


@pytest.mark.parametrize("score", ["1e39", "1e300", "9" * 200_000])
def test_reports_row_of_out_of_scale_score(score: str, tmp_path: Path, output: Command) -> None:
    file = tmp_path / "scores.tsv"
    file.write_text("\n".join(["sentence1\tsentence2\tscore", *GOOD, f"다\t라\t{score}"]), encoding="utf-8")
    for command in ("inspect", "import"):
        lines = output("pairs", command, file).splitlines()
        assert lines[0] == "scores: 20 rows, scored, scale 0 to 5"
        assert lines[2] == "Problems: 1; rows left out: 1"
        assert lines[3].startswith("  Row 22: the score (score) is too large: ")
    (stored_set,) = stored_pairs()
    assert (stored_set.rows, stored_set.scale, load_pairs(stored_set.key).values.max()) == (20, (0.0, 5.0), 5.0)


@pytest.mark.slow
def test_reports_file_size_limit(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    rows = [f"가 {row} {'말 ' * 40}\t나 {row}\t{row % 6}" for row in range(2000)]
    file.write_text("\n".join(["sentence1\tsentence2\tscore", *rows]), encoding="utf-8")
    command = [sys.executable, "-m", "mrc_workbench", "pairs", "import", str(file)]
    variables = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (20_000, 20_000))
    done = subprocess.run(
        command, cwd=PROJECT, env=variables, capture_output=True, text=True, check=False, preexec_fn=limit
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: the disk is full")
    assert stored_pairs() == []


def test_inspects_and_imports_catalog_dataset_by_its_title(output: Command) -> None:
    lines = output("data", "inspect", "sample").splitlines()
    assert lines[0] == "Korean sample: squad, UTF-8"
    assert "480 questions" in lines[1]
    pairs = output("pairs", "inspect", "sample-sts")
    assert pairs.startswith("Korean sample, similarity: 300 rows, scored, scale 0 to 5\n")
    assert "stored as " in output("data", "import", "sample")
    assert "stored as " in output("pairs", "import", "sample-nli")
    assert [stored_set.name for stored_set in stored()] == ["Korean sample"]


def test_file_takes_precedence_over_catalog_name(
    tmp_path: Path, output: Command, error: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample").write_text("질문,지문\n수도는?,서울은 수도이다.\n", encoding="utf-8")
    assert "1 questions" in output("data", "inspect", "sample")
    assert "samples cannot be read" in error("data", "inspect", "samples")


JUDGED = {
    "corpus.jsonl": """{"_id": "a", "title": "강", "text": "한강은 서울을 지난다."}
{"_id": "b", "text": "부산은 항구이다."}
""",
    "queries.jsonl": '{"_id": "q1", "text": "강은?"}\n',
    "test.tsv": "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\n",
}


def test_records_list_every_passage_and_the_grade_of_every_judged_passage(tmp_path: Path, output: Command) -> None:
    paths = [tmp_path / name for name in JUDGED]
    for path in paths:
        path.write_text(JUDGED[path.name], encoding="utf-8")
    printed = json.loads(output("data", "inspect", *paths, "--json", "--records"))
    assert printed["records"] == {
        "passages": [
            {"id": "a", "title": "강", "text": "한강은 서울을 지난다."},
            {"id": "b", "title": "", "text": "부산은 항구이다."},
        ],
        "questions": [{"id": "q1", "text": "강은?", "grades": {"a": 2, "b": 0}, "answers": [], "starts": []}],
    }
    dataset = printed["dataset"]
    assert dataset["files"] == [*JUDGED]
    assert (dataset["articles"], dataset["published_split"]) == (1, False)
    assert sum(dataset["split"].values()) == 1
    assert [*dataset["split"]] == ["train", "validation", "test"]
    assert {"used_columns", "metadata_columns", "unused_columns"} <= dataset.keys()


def test_records_hold_answers_and_where_they_start_and_rejected_passages(tmp_path: Path, output: Command) -> None:
    def question(id_: str, text: str, answers: list[dict[str, object]]) -> dict[str, object]:
        return {"id": id_, "question": text, "answers": answers, "is_impossible": not answers}

    questions = [question("1", "수도는?", [{"text": "서울", "answer_start": 0}]), question("2", "강은?", [])]
    paragraph = {"context": "서울은 수도이다.", "qas": questions}
    path = tmp_path / "set.json"
    path.write_text(json.dumps({"data": [{"title": "도시", "paragraphs": [paragraph]}]}), encoding="utf-8")
    printed = json.loads(output("data", "inspect", path, "--json", "--records"))
    passage = printed["records"]["passages"][0]["id"]
    first, second = printed["records"]["questions"]
    assert (first["grades"], first["answers"], first["starts"]) == ({passage: 1}, ["서울"], [0])
    assert (second["grades"], second["answers"]) == ({passage: 0}, [])
    assert printed["dataset"]["files"] == ["set.json"]


@pytest.mark.parametrize(("name", "content"), [("a.docx", DOCX), ("a.pdf", PDF)])
def test_broken_document_error_gives_advice(name: str, content: bytes, tmp_path: Path, error: Command) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert "open it in its program and save it again" in error("data", "inspect", path)
    assert "save its rows as CSV or Excel" in error("data", "inspect", path, "--columns", "context=text")


def test_groups_many_files_by_format(tmp_path: Path, output: Command) -> None:
    for number in range(30):
        (tmp_path / f"{number}.md").write_text(f"# {number}\n\ntext {number}\n", encoding="utf-8")
    assert "  30 files: passages, markdown; 30 rows\n" in output("data", "inspect", tmp_path)
    for number in range(20):
        (tmp_path / f"{number}.md").unlink()
    assert "/29.md: passages, markdown; 1 rows\n" in output("data", "inspect", tmp_path)
