"""`mrc compare` and the commands of stored comparisons, run as a user runs them."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ir_measures
import pytest
import tomli_w
from beir.datasets.data_loader import GenericDataLoader

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.store import find, save_question_set
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.retrieval import job as module
from mrc_workbench.retrieval.comparison.experiment import read_experiment
from mrc_workbench.retrieval.comparison.store import ComparisonJob, list_comparisons, load
from mrc_workbench.retrieval.report import exports
from mrc_workbench.workbench.cli import main
from tests.doubles import small_set
from tests.programs import run_module
from tests.retrieval.compared import ir_measures_by_name

Capture = pytest.CaptureFixture[str]
UNKNOWN = [["rename", "NOPE", "x"], ["delete", "../.."], ["show", "0" * 16], ["report", "0" * 16, "--out", "x"]]
KS = (1, 5, 10, 20)
THEIRS = ir_measures_by_name(KS)
SPECS = [
    {"name": "BM25 (words)", "kind": "bm25", "analyzer": "word"},
    {"name": "../dense/starter", "kind": "dense"},
    {"name": "qrels", "kind": "hybrid", "retrievers": ["BM25 (words)", "../dense/starter"]},
    {"name": "..", "kind": "rerank", "first_stage": "qrels", "rerank_top_k": 10},
]
EVERY_KIND = tomli_w.dumps({"data": "sample", "split": "test", "ks": KS, "retriever": SPECS})
RUNS = {
    "BM25 (words)": "BM25_words_.trec",
    "../dense/starter": "_dense_starter.trec",
    "qrels": "qrels-2.trec",
    "..": "retriever.trec",
}
WORDS = 'data = "sample"\nks = [1]\n[[retriever]]\nname = "words"\nkind = "bm25"\nanalyzer = "word"\n'
COST_FIELDS = {"build_seconds", "query_seconds", "model_seconds", "memory_bytes", "incomplete", "unanswered"}
ALWAYS = {
    *("scores.json", "significance.json", "provenance.json", "rankings.npz", "qrels.trec", "beir"),
    *("questions.jsonl", "questions.csv", "table.md", "table.tex", "report.html", "manifest.json"),
}
WITHOUT_TORCH = """
import sys
from mrc_workbench.data.records import Passage
from mrc_workbench.retrieval.explain import BM25Explainer
assert BM25Explainer([Passage('p', '한강은 길다')]).explain('한강', 0).score > 0
print(sorted({'torch', 'bm25s', 'faiss', 'sentence_transformers'} & set(sys.modules)))
from mrc_workbench.workbench.cli import main
assert main(sys.argv[1:]) == 0
print(sorted({'torch', 'transformers', 'sentence_transformers', 'streamlit'} & set(sys.modules)))
"""
LOST = '[[retriever]]\nname = "lost"\nkind = "dense"\nmodel = "no such model!"\n'
LOST_FIRST = WORDS.replace("[[", f"{LOST}[[", 1)


@dataclass(frozen=True)
class Run:
    status: int
    printed: str
    errors: str
    folder: Path

    @property
    def scores(self) -> dict[str, Any]:
        return json.loads((self.folder / "scores.json").read_text(encoding="utf-8"))


def words_of(experiment: str, folder: Path) -> list[str]:
    folder.mkdir(exist_ok=True)
    (folder / "experiment.toml").write_text(experiment, encoding="utf-8")
    return ["compare", str(folder / "experiment.toml"), "--out", str(folder / "out")]


def run_here(experiment: str, folder: Path, capsys: Capture, *arguments: str) -> Run:
    """In this process, where reading the libraries again is not the subject."""
    status = main([*words_of(experiment, folder), *arguments])
    captured = capsys.readouterr()
    return Run(status, captured.out, captured.err, folder / "out")


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("every-kind")
    environment = {"MRC_WORKSPACE": str(folder / "workspace")}
    done = run_module("mrc_workbench", *words_of(EVERY_KIND, folder), environment=environment)
    return Run(done.returncode, done.stdout, done.stderr, folder / "out")


@pytest.mark.slow
def test_every_kind_is_scored(every_kind: Run) -> None:
    assert every_kind.status == 0, every_kind.errors
    scores = every_kind.scores
    assert list(scores) == ["data", "fingerprint", "split", "questions", "passages", "parts", "retrievers"]
    assert (scores["data"], scores["split"], scores["passages"]) == ("Korean sample", "test", 200)
    assert list(scores["retrievers"]) == list(RUNS)
    for measured in scores["retrievers"].values():
        assert list(measured)[: len(THEIRS)] == list(measured["interval"]) == list(THEIRS)
        assert set(measured) - set(THEIRS) == COST_FIELDS | {"interval"}
        assert all(low <= measured[name] <= high for name, (low, high) in measured["interval"].items())
        assert all(0 <= measured[name] <= 1 for name in THEIRS)
        assert measured["recall@20"] > 0.5
        assert min(measured["build_seconds"], measured["query_seconds"]) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "file"), RUNS.items())
def test_other_tools_compute_same_metrics_from_files(every_kind: Run, name: str, file: str) -> None:
    qrels = list(ir_measures.read_trec_qrels(str(every_kind.folder / "qrels.trec")))
    ranking = list(ir_measures.read_trec_run(str(every_kind.folder / file)))
    assert len({judgement.query_id for judgement in qrels}) == every_kind.scores["questions"]
    theirs = ir_measures.calc_aggregate(list(THEIRS.values()), qrels, ranking)
    ours = every_kind.scores["retrievers"][name]
    assert {m: ours[m] for m in THEIRS} == pytest.approx({m: theirs[THEIRS[m]] for m in THEIRS}, abs=1e-6)


@pytest.mark.slow
def test_writes_significance_of_every_pair_and_measure(every_kind: Run) -> None:
    tests = json.loads((every_kind.folder / "significance.json").read_text(encoding="utf-8"))
    baseline, *names = every_kind.scores["retrievers"]
    against = [(measure, name, baseline) for measure in THEIRS for name in names]
    others = [(m, a, b) for m in THEIRS for index, a in enumerate(names) for b in names[index + 1 :]]
    assert [(test["measure"], test["a"], test["b"]) for test in tests] == against + others
    for test in tests:
        a, b = (every_kind.scores["retrievers"][test[side]][test["measure"]] for side in "ab")
        assert test["difference"] == pytest.approx(a - b, abs=1e-9)
        assert test["wins"] + test["ties"] + test["losses"] == every_kind.scores["questions"]
        assert 0 < test["p"] <= test["p_family"] <= 1


@pytest.mark.slow
def test_writes_each_run_and_its_questions(every_kind: Run) -> None:
    assert {path.name for path in every_kind.folder.iterdir()} == ALWAYS | {*RUNS.values()}
    assert {path.name for path in every_kind.folder.parent.iterdir()} == {"experiment.toml", "out", "workspace"}
    corpus, queries, qrels = GenericDataLoader(str(every_kind.folder / "beir")).load(split="test")
    assert (len(corpus), len(queries)) == (200, every_kind.scores["questions"])
    judged = {(q.query_id, q.doc_id) for q in ir_measures.read_trec_qrels(str(every_kind.folder / "qrels.trec"))}
    assert {(question, passage) for question, passages in qrels.items() for passage in passages} == judged


@pytest.mark.slow
def test_output_folder_can_be_reopened(every_kind: Run) -> None:
    origin = json.loads((every_kind.folder / "provenance.json").read_text(encoding="utf-8"))
    whole = find("sample")
    assert origin["data"]["fingerprint"] == whole.fingerprint
    assert origin["split"]["questions"]["test"] == every_kind.scores["questions"]
    assert origin["retrievers"][".."]["weight"] == 0.5
    opened = load(every_kind.folder, whole)
    for result in opened.results:
        assert result.scores is not None
        ours = every_kind.scores["retrievers"][result.name]
        assert result.scores.means() == {name: ours[name] for name in THEIRS}
    assert "qrels" in (every_kind.folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_prints_same_metrics_as_file(every_kind: Run) -> None:
    lines = every_kind.printed.splitlines()
    assert lines[0] == f"{every_kind.scores['questions']} questions, 200 passages, in percent"
    assert lines[1].split() == [*(f"R@{k}" for k in KS), "MRR@10", "nDCG@10"]
    assert lines[-2] == "test part; split drawn by article, seed 0"
    assert re.fullmatch("stored as [0-9a-f]{16}", lines[-1])
    measures = [*(f"recall@{k}" for k in KS), "mrr@10", "ndcg@10"]
    for line, (name, measured) in zip(lines[2:-2], every_kind.scores["retrievers"].items(), strict=True):
        assert line.startswith(name)
        cells = [float(cell) / 100 for cell in line.removeprefix(name).split()]
        assert cells == pytest.approx([measured[measure] for measure in measures], abs=5.1e-5)


@pytest.mark.slow
def test_compares_lexical_retrievers_without_torch(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH, *words_of(WORDS, tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    assert (done.stdout.splitlines()[0], done.stdout.splitlines()[-1]) == ("[]", "[]")


@pytest.mark.slow
def test_failed_retriever_gives_status_1_and_scores_others(tmp_path: Path, capsys: Capture) -> None:
    done = run_here(WORDS + LOST, tmp_path, capsys)
    assert done.status == 1
    assert "lost failed: 'no such model!' is no folder, no finished run and no hub id" in done.errors
    assert set(done.scores["retrievers"]["lost"]) == {"error", "code", "model"}
    assert 0.5 < done.scores["retrievers"]["words"]["recall@1"] < 1
    assert done.printed.splitlines()[-2].split() == ["lost", "failed", "failed", "failed"]
    assert {path.name for path in done.folder.iterdir()} == ALWAYS | {"words.trec"}


NO_VALIDATION = WORDS.replace("ks", 'split = "validation"\nvalidation_fraction = 0.0\nks')


@pytest.mark.parametrize(
    ("experiment", "arguments", "message"),
    [
        (WORDS.replace("word", "wort"), (), "error: experiment.toml: retriever.0.bm25.analyzer"),
        (WORDS.replace('"sample"', '"no-such.json"'), (), "no-such.json"),
        (NO_VALIDATION, (), "the validation part has no"),
        (WORDS, ("--at-least", "ndcg@10"), "'ndcg@10' names no metric to reach"),
        (WORDS, ("--at-least", "ndcg@10=95"), "between 0 and 1"),
        (WORDS, ("--at-least", "other:ndcg@10=.9"), "no retriever of this experiment is called 'other'"),
        (WORDS, ("--at-least", "recall@3=.9"), "recall@3 is not measured here"),
        (WORDS, ("--not-below", "0123456789abcdef"), "0123456789abcdef holds no finished comparison"),
        (WORDS, ("--metric", "speed@10"), "a measure is one of"),
    ],
)
def test_invalid_experiment_or_gate_returns_status_2_and_writes_nothing(
    experiment: str, arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: Capture
) -> None:
    done = run_here(experiment, tmp_path, capsys, *arguments)
    assert (done.status, done.printed, done.folder.exists()) == (2, "", False)
    assert message in done.errors
    assert "Traceback" not in done.errors


@pytest.mark.slow
def test_gate_rejects_missed_or_worse_metric(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    words = WORDS.replace("[1]", "[1, 10]")
    kiwi = words.replace('"word"', '"kiwi"')
    before = run_here(kiwi, tmp_path / "before", capsys)
    ndcg = before.scores["retrievers"]["words"]["ndcg@10"]
    not_below = ("--not-below", str(before.folder))
    monkeypatch.setattr("mrc_workbench.retrieval.report.exports.save", lambda *_: None)

    def gate(experiment: str, *arguments: str) -> tuple[int, str]:
        done = run_here(experiment, tmp_path / "now", capsys, *arguments)
        return done.status, (done.printed + done.errors).splitlines()[-1]

    status, output = gate(kiwi, "--at-least", f"ndcg@10={ndcg - 0.001}", "words:recall@1=0")
    assert (status, output.endswith("at least 0")) == (0, True)
    status, output = gate(kiwi, "--at-least", f"words:ndcg@10={ndcg + 0.001}")
    assert (status, f"{ndcg:.4f} (95 %" in output, "below" in output) == (1, True, True)
    assert gate(kiwi, *not_below)[0] == 0
    status, output = gate(kiwi.replace('"kiwi"', '"kiwi"\nk1 = 1.0'), *not_below)
    assert (status, output.endswith(", not worse")) == (0, True)
    status, output = gate(words, *not_below, "--metric", "hit@10")
    hits = f"{before.scores['retrievers']['words']['hit@10']:.4f} before"
    assert (status, hits in output, output.endswith(", worse")) == (1, True, True)
    status, output = gate(words.replace('"bm25"\nanalyzer = "word"', '"dense"\nmodel = "no such!"'), *not_below)
    assert (status, output) == (1, "words failed, and did not before")


def test_prints_metrics_when_disk_is_full(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(exports, "save", full)
    done = run_here(WORDS, tmp_path, capsys)
    assert done.status == 2
    assert done.errors == "error: the disk is full\n"
    assert done.printed.splitlines()[-2].startswith("words ")


def queue_comparison(tmp_path: Path, experiment: str) -> tuple[ComparisonJob, list[str]]:
    stored = save_question_set(small_set())
    (tmp_path / "experiment.toml").write_text(experiment.replace("sample", stored.key), encoding="utf-8")
    job = ComparisonJob.of(read_experiment(tmp_path / "experiment.toml"), stored.fingerprint)
    job.folder.mkdir(parents=True)
    job.write_spec(read_experiment(tmp_path / "experiment.toml"))
    return job, ["internal", "comparisons", str(job.folder)]


def run_queued_comparison(tmp_path: Path) -> ComparisonJob:
    job, words = queue_comparison(tmp_path, WORDS)
    assert main(words) == 0
    return job


def test_job_writes_status_notes_and_scores_for_page(tmp_path: Path) -> None:
    job = run_queued_comparison(tmp_path)
    assert job.done
    left = {"experiment.toml", "rankings.npz", "provenance.json", "scores.json", "status.json", "progress.jsonl"}
    assert {path.name for path in job.folder.iterdir()} == left | {".running.lock"}
    status = job.status()
    assert (status.state, status.phase, status.progress) == (State.DONE, "", 1.0)
    scores_by_retriever = {note["finished"]: note["metrics"] for note in job.progress()}
    assert scores_by_retriever == {result.name: result.metrics for result in load(job.folder, small_set()).results}


def finished_of(job: ComparisonJob) -> list[str]:
    return [entry["finished"] for entry in job.progress()]


def test_runs_lexical_retrievers_before_new_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, words = queue_comparison(tmp_path, LOST_FIRST)
    seen: list[tuple[list[str], bool, str]] = []

    def start_preloaded(program: str, *arguments: object, log: Path) -> SimpleNamespace:
        assert (program, log) == ("mrc_workbench", job.folder / "log.txt")
        assert arguments == (*words[:2], job.folder, "--rest")
        seen.append((finished_of(job), job.done, job.status().phase))
        return SimpleNamespace(wait=lambda: main([*map(str, arguments)]))

    monkeypatch.setattr(module, "start_preloaded", start_preloaded)
    assert main(words) == 0
    assert seen == [(["words"], False, "lost")]
    assert job.done
    assert job.status().state is State.DONE
    assert finished_of(job)[-2:] == ["lost", "words"]
    [stored] = list_comparisons()
    assert list(stored.metrics) == ["words"]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_runs_rest_here_if_handover_fails(is_stopped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, words = queue_comparison(tmp_path, LOST_FIRST)
    monkeypatch.setattr(module, "start_preloaded", lambda *_, **__: pytest.fail("stopped") if is_stopped else None)
    if is_stopped:
        job.request_stop()
    assert main(words) == (2 if is_stopped else 1)  # a retriever failed
    assert job.done is not is_stopped


def test_lists_renames_and_deletes_stored_comparisons(tmp_path: Path, capsys: Capture) -> None:
    def printed(*command: str) -> str:
        assert main([*command]) == 0
        return capsys.readouterr().out

    key = run_queued_comparison(tmp_path).folder.name
    capsys.readouterr()
    [entry] = json.loads(printed("list", "--json"))
    assert (entry["key"], entry["data"], entry["retrievers"], entry["part"]) == (key, "small", ["words"], "all")
    assert entry["metrics"]["words"]["recall@1"] == list_comparisons()[0].metrics["words"]["recall@1"]
    assert printed("rename", key, "첫 비교 / ../x") == f"renamed {key}\n"
    assert printed("list") == f"{key}  {entry['created_at'][:16]}  첫 비교 / ../x (all, 6 questions): words\n"
    assert "words" in printed("show", key)
    scores = json.loads(printed("show", key, "--json"))["retrievers"]["words"]
    assert scores["recall@1"] == entry["metrics"]["words"]["recall@1"]
    assert printed("delete", key) == f"deleted {key}\n"
    assert printed("list") == ""


@pytest.mark.slow
def test_reports_stored_comparison_without_cache(tmp_path: Path) -> None:
    job = run_queued_comparison(tmp_path)
    shutil.rmtree(tmp_path / "workspace" / "cache")
    assert main(["report", job.folder.name, "--out", str(tmp_path / "out"), "--language", "ko"]) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == ALWAYS | {"words.trec"}
    assert '<html lang="ko">' in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    for file in ("scores.json", "provenance.json"):
        assert (tmp_path / "out" / file).read_text() == (job.folder / file).read_text()


@pytest.mark.parametrize("command", UNKNOWN)
def test_unknown_comparison_returns_status_2(command: list[str], capsys: Capture) -> None:
    assert main(command) == 2
    assert f"error: no comparison is stored as {command[1]!r}" in capsys.readouterr().err
