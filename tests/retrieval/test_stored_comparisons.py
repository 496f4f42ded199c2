"""What `compare` stores, and how the other commands are told which comparison is meant."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mrc_workbench.data.jobs.processes import FORKS
from mrc_workbench.data.store import find, keep, stored
from mrc_workbench.data.workspace import PROJECT, workspace
from mrc_workbench.retrieval.comparison.compare import Result
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.references import ComparisonNotFoundError, find_comparison, find_experiment
from mrc_workbench.retrieval.comparison.store import ComparisonJob, kept_comparisons
from mrc_workbench.retrieval.report import report
from mrc_workbench.workbench.cli import main
from tests.doubles import small_set

HEAD = "ks = [1, 10]\n"
WORDS = '[[retriever]]\nname = "words"\nkind = "bm25"\nanalyzer = "word"\n'
RUN = '[[retriever]]\nname = "run"\nkind = "run"\npath = "a.trec"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a user's: an experiment, with its data and a run beside it."""
    folder = tmp_path / "mine"
    folder.mkdir()
    rows = "".join(f"낱말{row} 뜻은 무엇인가?,낱말{row} 뜻을 적은 글이다,글\n" for row in range(12))
    (folder / "data.csv").write_text(f"question,context,answers\n{rows}", encoding="utf-8")
    (folder / "e.toml").write_text(f'data = "data.csv"\n{HEAD}{WORDS}', encoding="utf-8")
    return folder


def key_printed(capsys: pytest.CaptureFixture[str]) -> str:
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("stored as ")]
    return lines[-1].removeprefix("stored as ")


def test_a_comparison_is_stored_where_the_page_looks_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_the_page = keep(small_set())
    (tmp_path / "e.toml").write_text(f'data = "small"\n{HEAD}{WORDS}', encoding="utf-8")
    assert main(["compare", str(tmp_path / "e.toml")]) == 0
    spec = {"name": "words", "kind": "bm25", "analyzer": "word"}
    experiment = Experiment.model_validate({"data": of_the_page.key, "ks": (1, 10), "retriever": [spec]})
    job = ComparisonJob.of(experiment, of_the_page.fingerprint)
    assert (job.done, job.id) == (True, key_printed(capsys))
    assert [one.name for one in stored()] == ["small"]


@pytest.mark.slow
def test_a_file_a_folder_and_a_key_mean_the_same(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = folder / "out"
    with pytest.raises(ComparisonNotFoundError, match="is not compared yet: run `mrc compare"):
        find_comparison(str(folder / "e.toml"))
    assert main(["compare", str(folder / "e.toml"), "--out", str(out)]) == 0
    key = key_printed(capsys)
    monkeypatch.chdir(tmp_path)  # paths of the experiment hold from anywhere
    for reference in (key, "mine/e.toml", "mine/out"):
        assert find_comparison(reference).key == key
        experiment, base = find_experiment(reference)
        assert (experiment.retriever[0].name, base.is_dir()) == ("words", True)
        assert main(["export", reference, "words", "--to", "opensearch", "--out", f"taken-{reference[-3:]}"]) == 0
        assert main(["report", reference, "--out", f"export-{reference[-3:]}"]) == 0
        assert (tmp_path / f"export-{reference[-3:]}" / "report.html").is_file()
    assert main(["rename", "mine/e.toml", "first"]) == 0
    assert [one.name for one in kept_comparisons()] == ["first"]
    assert main(["delete", "mine/out"]) == 0
    assert kept_comparisons() == []
    capsys.readouterr()
    assert main(["delete", "mine/out"]) == 2  # the folder is there, and stays
    assert "is not stored in this workspace" in capsys.readouterr().err
    assert (out / "scores.json").is_file()
    assert main(["report", "mine/out", "--out", "again"]) == 0


@pytest.mark.parametrize("reference", ["0" * 16, "nothing", "x" * 5000, ".", "../..", "/"])
def test_an_unknown_reference_is_refused(reference: str) -> None:
    with pytest.raises(ComparisonNotFoundError, match="`mrc list` lists the stored comparisons"):
        find_comparison(reference)
    with pytest.raises(ComparisonNotFoundError):
        find_experiment(reference)


@pytest.mark.slow
def test_paths_of_the_experiment_are_stored_from_the_root(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(folder / "e.toml"), "--out", str(folder / "out")]) == 0
    (made,) = (folder / "out").glob("words.trec")
    made.rename(folder / "a.trec")
    (folder / "e.toml").write_text(f'data = "data.csv"\n{HEAD}{RUN}', encoding="utf-8")
    assert main(["compare", str(folder / "e.toml")]) == 0
    (spec,) = find_experiment(key_printed(capsys))[0].retriever
    assert spec.path == str(folder / "a.trec")  # type: ignore[attr-defined]


def test_a_list_of_nothing_says_how_to_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "No comparisons yet: `mrc compare EXPERIMENT.toml` runs and stores one.\n"
    assert main(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.slow
def test_a_workspace_that_cannot_be_written_does_not_stop_the_files(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "/workspace/datasets")

    monkeypatch.setattr("mrc_workbench.retrieval.comparison.references.store_question_set", refuse)
    assert main(["compare", str(folder / "e.toml"), "--out", str(folder / "out")]) == 0
    few = "Warning: Too few questions are compared: 12. With fewer than 20, most differences are chance.\n"
    refused = "not stored in the workspace: no permission to use /workspace/datasets (Read-only file system)\n"
    assert capsys.readouterr().err == few + refused
    assert (folder / "out" / "report.html").is_file()


@pytest.mark.slow
def test_a_stopped_export_leaves_the_folder_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["compare", str(folder / "e.toml"), "--out", str(folder / "out")]
    assert main(words) == 0
    (folder / "out" / "notes.txt").write_text("mine")
    before = {path: path.read_bytes() for path in (folder / "out").rglob("*") if path.is_file()}

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "report", stop)
    assert main(words) == 130
    assert {path: path.read_bytes() for path in (folder / "out").rglob("*") if path.is_file()} == before
    assert main(["compare", str(folder / "e.toml"), "--out", str(folder / "new")]) == 130
    assert not (folder / "new").exists()


@pytest.mark.parametrize("score", ["nan", "inf", "1e39"])
def test_a_run_with_odd_scores_is_refused_in_words(score: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "a.trec").write_text(f"1 Q0 1 1 {score} run\n", encoding="utf-8")
    (folder / "e.toml").write_text(f'data = "data.csv"\n{HEAD}{WORDS}{RUN}', encoding="utf-8")
    assert main(["compare", str(folder / "e.toml")]) == 1
    told = capfd.readouterr().err
    assert "\nrun failed: " in told  # after the warning of few questions
    assert "Traceback" not in told


def test_too_little_memory_is_said_in_words() -> None:
    result = Result("dense", error=MemoryError())
    assert (result.error_message, result.as_dict()) == ("not enough memory", {"error": "not enough memory"})


def _listen_to_ctrl_c() -> None:
    """A process that was started in the background ignores it, and so do those that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
@pytest.mark.skipif(not FORKS, reason="signals are those of Linux")
def test_ctrl_c_says_what_is_kept_and_the_same_command_continues(tmp_path: Path) -> None:
    passages = "".join(f"질문 {row}?,{'도시와 강과 산의 이야기를 적은 글이다. ' * 40}{row},글\n" for row in range(4000))
    (tmp_path / "data.csv").write_text(f"question,context,answers\n{passages}", encoding="utf-8")
    retriever = '[[retriever]]\nname = "kiwi"\nkind = "bm25"\nanalyzer = "kiwi"\n'
    (tmp_path / "e.toml").write_text(f'data = "data.csv"\n{HEAD}{retriever}', encoding="utf-8")
    command = [sys.executable, "-m", "mrc_workbench", "compare", str(tmp_path / "e.toml"), "--progress", "json"]
    place = {**os.environ, "MRC_WORKSPACE": str(workspace())}
    told = {"cwd": PROJECT, "env": place, "stderr": subprocess.PIPE, "text": True, "preexec_fn": _listen_to_ctrl_c}
    with subprocess.Popen(command, **told) as process:  # type: ignore[call-overload]
        first = process.stderr.readline()
        assert json.loads(first)["fraction"] < 1
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    assert said.splitlines()[-1].endswith("run the same command again to continue.")
    assert "Traceback" not in said


def test_show_prints_what_was_noticed_in_a_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions = find(str(folder / "data.csv"))
    ids = questions.passages.ids
    lines = [f"{one.id} Q0 {ids[row]} 1 1 x\n{one.id} Q0 zzz 2 0 x\n" for row, one in enumerate(questions.questions)]
    (folder / "a.trec").write_text("".join(lines))
    (folder / "run.toml").write_text(f'data = "data.csv"\n{HEAD}{RUN}', encoding="utf-8")
    assert main(["compare", str(folder / "run.toml")]) == 0
    key = key_printed(capsys)
    assert main(["show", key]) == 0
    printed = capsys.readouterr().err
    assert "Warning: run: 12 results name passages that are not in the dataset; skipped." in printed
    assert "Warning: run has at most 1 passages per question" in printed
