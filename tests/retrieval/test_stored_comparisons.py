"""Stored comparisons, and commands that select them."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pytest

from mrc_workbench.data.jobs.processes import FORKS
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.store import find, save_question_set, stored
from mrc_workbench.data.workspace import PROJECT, workspace
from mrc_workbench.retrieval import measures
from mrc_workbench.retrieval.comparison import store
from mrc_workbench.retrieval.comparison.compare import Result
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.rankings import Rankings
from mrc_workbench.retrieval.report import report
from mrc_workbench.workbench.cli import main
from tests.doubles import small_set

Capture = pytest.CaptureFixture[str]
HEAD = "ks = [1, 10]\n"
WORDS = '[[retriever]]\nname = "words"\nkind = "bm25"\nanalyzer = "word"\n'
RUN = '[[retriever]]\nname = "run"\nkind = "run"\npath = "a.trec"\n'
RANKINGS = Rankings(np.array([[5, 0, 3], [2, 1, -1]], np.int32), np.array([[3, 2, 1], [2, 1, -np.inf]], np.float32))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a user's: an experiment, with its data and a run beside it."""
    folder = tmp_path / "mine"
    folder.mkdir()
    rows = "".join(f"낱말{row} 뜻은 무엇인가?,낱말{row} 뜻을 적은 글이다,글\n" for row in range(12))
    (folder / "data.csv").write_text(f"question,context,answers\n{rows}", encoding="utf-8")
    (folder / "e.toml").write_text(f'data = "data.csv"\n{HEAD}{WORDS}', encoding="utf-8")
    return folder


def key_printed(capsys: Capture) -> str:
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("stored as ")]
    return lines[-1].removeprefix("stored as ")


def test_stores_comparison_in_workspace(tmp_path: Path, capsys: Capture) -> None:
    of_the_page = save_question_set(small_set())
    (tmp_path / "e.toml").write_text(f'data = "small"\n{HEAD}{WORDS}', encoding="utf-8")
    assert main(["compare", str(tmp_path / "e.toml")]) == 0
    spec = {"name": "words", "kind": "bm25", "analyzer": "word"}
    experiment = Experiment.model_validate({"data": of_the_page.key, "ks": (1, 10), "retriever": [spec]})
    job = store.ComparisonJob.of(experiment, of_the_page.fingerprint)
    assert (job.done, job.id) == (True, key_printed(capsys))
    assert [comparison.name for comparison in stored()] == ["small"]


@pytest.mark.slow
def test_finds_comparison(folder: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    out = folder / "out"
    with pytest.raises(store.ComparisonNotFoundError, match="is not compared yet: run `mrc compare"):
        store.find_comparison(str(folder / "e.toml"))
    assert main(["compare", str(folder / "e.toml"), "--out", str(out)]) == 0
    key = key_printed(capsys)
    monkeypatch.chdir(tmp_path)  # paths of the experiment hold from anywhere
    for reference in (key, "mine/e.toml", "mine/out"):
        assert store.find_comparison(reference).key == key
        experiment, base = store.find_experiment(reference)
        assert (experiment.retriever[0].name, base.is_dir()) == ("words", True)
        assert main(["export", reference, "words", "--to", "opensearch", "--out", f"taken-{reference[-3:]}"]) == 0
        assert main(["report", reference, "--out", f"export-{reference[-3:]}"]) == 0
        assert (tmp_path / f"export-{reference[-3:]}" / "report.html").is_file()
    assert main(["rename", "mine/e.toml", "first"]) == 0
    assert [comparison.name for comparison in store.list_comparisons()] == ["first"]
    assert main(["delete", "mine/out"]) == 0
    assert store.list_comparisons() == []
    capsys.readouterr()
    assert main(["delete", "mine/out"]) == 2  # the folder is there, and stays
    assert "is not stored in this workspace" in capsys.readouterr().err
    assert (out / "scores.json").is_file()
    assert main(["report", "mine/out", "--out", "again"]) == 0


@pytest.mark.parametrize("reference", ["0" * 16, "nothing", "x" * 5000, ".", "../..", "/"])
def test_rejects_unknown_reference(reference: str) -> None:
    with pytest.raises(store.ComparisonNotFoundError, match="`mrc list` lists the stored comparisons"):
        store.find_comparison(reference)
    with pytest.raises(store.ComparisonNotFoundError):
        store.find_experiment(reference)


@pytest.mark.slow
def test_stores_absolute_experiment_paths(folder: Path, capsys: Capture) -> None:
    assert main(["compare", str(folder / "e.toml"), "--out", str(folder / "out")]) == 0
    (run_file,) = (folder / "out").glob("words.trec")
    run_file.rename(folder / "a.trec")
    (folder / "e.toml").write_text(f'data = "data.csv"\n{HEAD}{RUN}', encoding="utf-8")
    assert main(["compare", str(folder / "e.toml")]) == 0
    (spec,) = store.find_experiment(key_printed(capsys))[0].retriever
    assert spec.path == str(folder / "a.trec")  # type: ignore[attr-defined]


def test_empty_list_explains_how_to_start(capsys: Capture) -> None:
    assert main(["list"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "No comparisons yet: `mrc compare EXPERIMENT.toml` runs and stores one.\n"
    assert main(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.slow
def test_read_only_workspace_writes_output(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "/workspace/datasets")

    monkeypatch.setattr("mrc_workbench.retrieval.comparison.store.store_question_set", refuse)
    assert main(["compare", str(folder / "e.toml"), "--out", str(folder / "out")]) == 0
    few = "Warning: Too few questions are compared: 12. With fewer than 20, most differences are chance.\n"
    refused = "not stored in the workspace: no permission to use /workspace/datasets (Read-only file system)\n"
    assert capsys.readouterr().err == few + refused
    assert (folder / "out" / "report.html").is_file()


@pytest.mark.slow
def test_interrupted_export_keeps_folder_unchanged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_rejects_run_with_invalid_scores(score: str, folder: Path, capfd: Capture) -> None:
    (folder / "a.trec").write_text(f"1 Q0 1 1 {score} run\n", encoding="utf-8")
    (folder / "e.toml").write_text(f'data = "data.csv"\n{HEAD}{WORDS}{RUN}', encoding="utf-8")
    assert main(["compare", str(folder / "e.toml")]) == 1
    message = capfd.readouterr().err
    assert "\nrun failed: " in message  # after the warning of few questions
    assert "Traceback" not in message


def test_reports_insufficient_memory() -> None:
    result = Result("dense", error=MemoryError())
    assert (result.error_message, result.as_dict()) == ("not enough memory", {"error": "not enough memory"})


def _listen_to_ctrl_c() -> None:
    """A process that was started in the background ignores it, and so do those that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
@pytest.mark.skipif(not FORKS, reason="signals are those of Linux")
def test_ctrl_c_reports_stored_work_and_rerun_continues(tmp_path: Path) -> None:
    passages = "".join(f"질문 {row}?,{'도시와 강과 산의 이야기를 적은 글이다. ' * 40}{row},글\n" for row in range(4000))
    (tmp_path / "data.csv").write_text(f"question,context,answers\n{passages}", encoding="utf-8")
    retriever = '[[retriever]]\nname = "kiwi"\nkind = "bm25"\nanalyzer = "kiwi"\n'
    (tmp_path / "e.toml").write_text(f'data = "data.csv"\n{HEAD}{retriever}', encoding="utf-8")
    command = [sys.executable, "-m", "mrc_workbench", "compare", str(tmp_path / "e.toml"), "--progress", "json"]
    environment = {**os.environ, "MRC_WORKSPACE": str(workspace())}
    options: dict[str, Any] = {"cwd": PROJECT, "env": environment, "preexec_fn": _listen_to_ctrl_c}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options) as process:
        first = process.stderr.readline()
        assert json.loads(first)["fraction"] < 1
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        message = process.stderr.read()
    assert process.returncode == 130
    assert message.splitlines()[-1].endswith("run the same command again to continue.")
    assert "Traceback" not in message


def test_show_prints_run_notes(folder: Path, capsys: Capture) -> None:
    questions = find(str(folder / "data.csv"))
    ids = questions.passages.ids
    pairs = enumerate(questions.questions)
    lines = [f"{question.id} Q0 {ids[row]} 1 1 x\n{question.id} Q0 zzz 2 0 x\n" for row, question in pairs]
    (folder / "a.trec").write_text("".join(lines))
    (folder / "run.toml").write_text(f'data = "data.csv"\n{HEAD}{RUN}', encoding="utf-8")
    assert main(["compare", str(folder / "run.toml")]) == 0
    key = key_printed(capsys)
    assert main(["show", key]) == 0
    printed = capsys.readouterr().err
    assert "Warning: run: 12 results name passages that are not in the dataset; skipped." in printed
    assert "Warning: run has at most 1 passages per question" in printed


def question_set() -> QuestionSet:
    passages = [Passage(f"p {row}", f"text {row}") for row in range(6)]
    graded = Question.from_grades("q 1", "one?", {"p 0": 2, "p 3": 1, "p 5": 0})
    return QuestionSet("set", passages, (graded, Question("q 2", "two?", relevant=("p 1",))))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "measure", "cutoff"),
    [
        *((name, measures.Measure("ndcg", 10), 10) for name in ("nDCG@10", "ndcg@10")),
        *((name, measures.Measure("recall", 5), 5) for name in ("R@5", "Recall@5")),
        ("Success@1", measures.Measure("hit", 1), 1),
        ("MRR@10", measures.Measure("mrr", 10), 10),
        *((name, None, None) for name in ("AP", "nDCG")),
        *((name, None, 5) for name in ("R(rel=2)@5", "P@5")),
        ("RBP(rel=1)@20", None, 20),
    ],
)
def test_reads_measure_and_cutoff_from_name(name: str, measure: measures.Measure | None, cutoff: int | None) -> None:
    assert (measures.own_measure(name), measures.cutoff_of(name)) == (measure, cutoff)


@pytest.mark.parametrize("name", ["nDCG@2", "R@2", "Success@1", "RR@3", "Judged@3", "nDCG(dcg='exp-log2')@3"])
def test_own_measures_equal_ir_measures(name: str) -> None:
    graded = question_set()
    qrels = {"0": {"0": 2, "3": 1, "5": 0}, "1": {"1": 1}}
    run = {"0": {"5": 3.0, "0": 2.0, "3": 1.0}, "1": {"2": 2.0, "1": 1.0}}
    results = ir_measures.iter_calc([ir_measures.parse_measure(name)], qrels, run)
    expected = {result.query_id: result.value for result in results}
    values = measures.score_by_name(RANKINGS, graded, [name])[name]
    assert values.tolist() == pytest.approx([expected["0"], expected["1"]], abs=1e-5)


def test_own_measures_equal_evaluate_beyond_rankings() -> None:
    scores = measures.evaluate(RANKINGS, question_set(), (1, 3)).per_question
    named = measures.score_by_name(RANKINGS, question_set(), ["R@3", "R@1000000000", "R@5"])
    assert named["R@3"].tolist() == scores["recall@3"].tolist()
    assert named["R@5"].tolist() == named["R@1000000000"].tolist() == [1.0, 1.0]


def test_metric_without_judged_passages_falls_back_to_ir_measures() -> None:
    plain = QuestionSet("set", question_set().passages, (Question("q", "two?", relevant=("p 1",)),))
    single_ranking = Rankings(RANKINGS.indices[1:], RANKINGS.scores[1:])
    assert measures.score_by_name(single_ranking, plain, ["Judged@2"])["Judged@2"].tolist() == [0.5]


OUT_OF_RANGE = ("P@0", "nDCG@0", "R@0", "RR@0", "P@-1", "AP@99999999999", "P(rel=0)@5", "AP(rel=-1)")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, "no metric is called") for name in ("nDCX@10", "", "AP)(", "__import__('os')", "P@ten")),
        ("ndgc@10", "did you mean nDCG@10"),
        # trec_eval ends the process for a cutoff of 0
        *((name, r"must be a whole number from 1|no metric is called") for name in OUT_OF_RANGE),
        ("P", "needs a value of .*: write for example P@10$"),
        ("IPrec", "needs a value of .*: write for example IPrec@0.5$"),
        ("INSQ", r"needs a value of .*: write for example INSQ\(max_rel=1\)$"),
        ("BPM", r"needs a value of .*: write for example BPM\(max_rel=1\)@10$"),
        ("SDCG@5", r"needs a value of .*: write for example SDCG\(max_rel=1\)@5$"),
        ("Rprec@5", "Rprec takes no cutoff"),
    ],
)
def test_rejects_invalid_metric(name: str, message: str) -> None:
    with pytest.raises(measures.MetricError, match=message):
        measures.check_metric(name)
    with pytest.raises(measures.MetricError):
        measures.score_by_name(RANKINGS, question_set(), [name])


def test_questions_without_results_score_0() -> None:
    rankings = Rankings(np.array([[0, 3], [-1, -1]], np.int32), np.array([[2, 1], [-np.inf, -np.inf]], np.float32))
    for name in ("Judged", "AP", "NumRet", "Accuracy(rel=3)"):
        assert measures.score_by_name(rankings, question_set(), [name])[name][1] == 0.0, name


def test_reports_division_by_zero() -> None:
    only_relevant = Rankings(np.array([[0], [1]], np.int32), np.array([[1], [1]], np.float32))
    with pytest.raises(measures.MetricError, match="Accuracy: it divides by zero"):
        measures.score_by_name(only_relevant, question_set(), ["Accuracy"])
