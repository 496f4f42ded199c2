"""What the commands print of pairs, and what they keep."""

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from data.__main__ import main
from data.pairs.store import load, stored
from data.workspace import PROJECT

GOOD = [f"가 {row}\t나 {row}\t{row % 6}" for row in range(20)]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A training file with a row too few and a sentence of the test file, which stands beside it."""
    train, test = tmp_path / "sts-train.tsv", tmp_path / "sts-test.tsv"
    head = "sentence1\tsentence2\tscore"
    train.write_text("\n".join([head, "\t나\t1", *GOOD, "다\t라\t4.5"]), encoding="utf-8")
    test.write_text("\n".join([head, "마\t라\t2.5", "바\t사\t0"]), encoding="utf-8")
    return [str(train), str(test)]


def test_inspecting_tells_what_was_understood(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect-pairs", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
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
        "Rows that repeat an earlier one's sentences: 0; pairs judged differently: 0; "
        "rows with the same sentence twice: 0",
        "Split: train 19, validation 2, test 2; train, test as published; validation drawn by shared sentences, seed 0",
        "  1 test rows hold 1 sentences of train rows, 0 a whole row",
    ]


def test_rows_that_were_left_out_are_told_where_too_few_remain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "few.tsv"
    file.write_text("sentence1\tsentence2\tlabel\n가\t나\tentailment\n다\t라\tmaybe\n", encoding="utf-8")
    assert main(["inspect-pairs", str(file)]) == 1
    first, row = capsys.readouterr().err.splitlines()
    assert first.startswith("Only 1 rows can be used")
    assert row.startswith("  Row 3: ")
    assert "maybe" in row


def test_inspecting_as_json(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect-pairs", *files, "--json", "--kind", "scored", "--scale", "-5", "5"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["name"], told["kind"], told["scale"], told["rows_left_out"]) == ("sts", "scored", [-5, 5], 1)
    assert told["files"][0]["problems"][0]["code"] == "empty_sentence"
    assert told["split"] == {
        "published": ["train", "test"],
        "rows": {"all": 23, "train": 19, "validation": 2, "test": 2},
    }
    assert told["audit"]["leaks"][1] == {"from": "train", "into": "test", "sentences": 1, "rows": 1, "repeated": 0}
    assert sum(told["audit"]["score_counts"]) == 23


def test_keeping(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--columns", "sentence1=sentence2", "sentence2=sentence1", "--parts", "none", "test"]
    assert main(["keep-pairs", *files, *words]) == 0
    (kept,) = stored()
    assert capsys.readouterr().out.endswith(f"Kept as {kept.key}\n")
    pairs = load(kept.key)
    assert (kept.source, kept.rows, pairs.texts[0][0]) == ("sts-train.tsv, sts-test.tsv", 23, "나 0")
    assert pairs.published.tolist() == [-1] * 21 + [2] * 2


def test_what_cannot_be_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "표.csv"
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    assert main(["inspect-pairs", str(file)]) == 1
    assert capsys.readouterr().err.startswith("No column of sentences was found. The columns are: a, b.")
    assert main(["keep-pairs", str(tmp_path / "none.csv")]) == 1
    assert stored() == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--scale", "5", "0"], "the lower one first"),
        (["--parts", "train"], "--parts names 1 parts of 2 files"),
        (["--parts", "all", "test"], "none of train, validation, test and none"),
        (["--columns", "text=a"], "a role of sentence1"),
        (["--kind", "question"], "--kind"),
    ],
)
def test_words_that_make_no_sense(
    files: list[str], words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect-pairs", *files, *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("score", ["1e39", "1e300", "9" * 200_000])
def test_a_score_beyond_all_is_told_with_its_row(
    score: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scores.tsv"
    file.write_text("\n".join(["sentence1\tsentence2\tscore", *GOOD, f"다\t라\t{score}"]), encoding="utf-8")
    for command in ("inspect-pairs", "keep-pairs"):
        assert main([command, str(file)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "scores: 20 rows, scored, scale 0 to 5"
        assert lines[2] == "Problems: 1; rows left out: 1"
        assert lines[3].startswith("  Row 22: the score (score) is too large: ")
    (kept,) = stored()
    assert (kept.rows, kept.scale, load(kept.key).values.max()) == (20, (0.0, 5.0), 5.0)


@pytest.mark.slow
def test_where_files_may_grow_no_further_it_is_told(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    rows = [f"가 {row} {'말 ' * 40}\t나 {row}\t{row % 6}" for row in range(2000)]
    file.write_text("\n".join(["sentence1\tsentence2\tscore", *rows]), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "data", "keep-pairs", str(file)],
        cwd=PROJECT,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr == f"The disk cannot be written to ({os.strerror(errno.EFBIG)}). Nothing that was kept is lost.\n"
    )
    assert stored() == []
