"""`python -m retrieval compare`, run as a user runs it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ir_measures
import pytest
from ir_measures import RR, R, Success, nDCG

ROOT = Path(__file__).parents[2]
KS = (1, 5, 10, 20)
THEIRS = {
    **{f"recall@{k}": R @ k for k in KS},
    **{f"hit@{k}": Success @ k for k in KS},
    "mrr@10": RR @ 10,
    "ndcg@10": nDCG @ 10,
}
EVERY_KIND = """
data = "sample"
split = "test"
ks = [1, 5, 10, 20]

[[retriever]]
name = "BM25 (words)"
kind = "bm25"
analyzer = "word"

[[retriever]]
name = "../dense/starter"
kind = "dense"

[[retriever]]
name = "qrels"
kind = "hybrid"
of = ["BM25 (words)", "../dense/starter"]

[[retriever]]
name = ".."
kind = "rerank"
first = "qrels"
depth = 10
"""
WORDS = 'data = "sample"\nks = [1]\n[[retriever]]\nname = "words"\nkind = "bm25"\nanalyzer = "word"\n'
ALWAYS = {"qrels.trec", "scores.json", "provenance.json", "rankings.npz"}
LOST = '[[retriever]]\nname = "lost"\nkind = "dense"\nmodel = "no such model!"\n'


@dataclass(frozen=True)
class Run:
    status: int
    printed: str
    errors: str
    folder: Path

    @property
    def scores(self) -> dict[str, Any]:
        return json.loads((self.folder / "scores.json").read_text(encoding="utf-8"))


def run(experiment: str, folder: Path, *command: str) -> Run:
    folder.mkdir(exist_ok=True)
    (folder / "experiment.toml").write_text(experiment, encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            *(command or ("-m", "retrieval")),
            "compare",
            folder / "experiment.toml",
            "--out",
            folder / "out",
        ],
        cwd=ROOT,
        env=os.environ | {"MRC_WORKSPACE": str(folder / "workspace")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return Run(done.returncode, done.stdout, done.stderr, folder / "out")


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(EVERY_KIND, tmp_path_factory.mktemp("every-kind"))


@pytest.mark.slow
def test_every_kind_is_scored(every_kind: Run) -> None:
    assert every_kind.status == 0, every_kind.errors
    scores = every_kind.scores
    assert list(scores) == ["data", "fingerprint", "split", "questions", "passages", "retrievers"]
    assert (scores["data"], scores["split"], scores["passages"]) == ("Korean sample", "test", 200)
    assert list(scores["retrievers"]) == ["BM25 (words)", "../dense/starter", "qrels", ".."]
    for measured in scores["retrievers"].values():
        assert list(measured) == [*THEIRS, "build_seconds", "query_seconds"]
        assert all(0 <= measured[name] <= 1 for name in THEIRS)
        assert measured["recall@20"] > 0.5
        assert measured["build_seconds"] > 0
        assert measured["query_seconds"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("BM25 (words)", "BM25_words_.trec"),
        ("../dense/starter", "_dense_starter.trec"),
        ("qrels", "qrels-2.trec"),
        ("..", "retriever.trec"),
    ],
)
def test_other_tools_read_the_same_figures_from_the_files(every_kind: Run, name: str, file: str) -> None:
    qrels = list(ir_measures.read_trec_qrels(str(every_kind.folder / "qrels.trec")))
    ranking = list(ir_measures.read_trec_run(str(every_kind.folder / file)))
    assert len({judgement.query_id for judgement in qrels}) == every_kind.scores["questions"]
    theirs = ir_measures.calc_aggregate(list(THEIRS.values()), qrels, ranking)
    ours = every_kind.scores["retrievers"][name]
    assert {m: ours[m] for m in THEIRS} == pytest.approx({m: theirs[THEIRS[m]] for m in THEIRS}, abs=1e-6)


@pytest.mark.slow
def test_nothing_is_written_beside_the_folder(every_kind: Run) -> None:
    runs = {"BM25_words_.trec", "_dense_starter.trec", "qrels-2.trec", "retriever.trec"}
    assert {path.name for path in every_kind.folder.iterdir()} == ALWAYS | runs
    assert {path.name for path in every_kind.folder.parent.iterdir()} == {"experiment.toml", "out", "workspace"}


@pytest.mark.slow
def test_the_table_shows_the_figures_of_the_file(every_kind: Run) -> None:
    lines = every_kind.printed.splitlines()
    assert lines[0] == f"{every_kind.scores['questions']} questions, 200 passages"
    assert lines[1].split() == [*(f"recall@{k}" for k in KS), "mrr@10", "ndcg@10"]
    for line, (name, measured) in zip(lines[2:], every_kind.scores["retrievers"].items(), strict=True):
        assert line.startswith(name)
        shown = [float(cell) for cell in line.removeprefix(name).split()]
        assert shown == pytest.approx([measured[measure] for measure in lines[1].split()], abs=5.1e-5)


def test_words_alone_need_no_torch(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from retrieval.__main__ import main\n"
        "import retrieval.compare\n"
        "status = main(sys.argv[1:])\n"
        "print(sorted({'torch', 'transformers', 'sentence_transformers', 'streamlit'} & set(sys.modules)))\n"
        "sys.exit(status)"
    )
    done = run(WORDS, tmp_path, "-c", program)
    assert (done.status, done.printed.splitlines()[-1]) == (0, "[]"), done.errors


def test_a_failed_retriever_gives_status_1_and_the_others_scores(tmp_path: Path) -> None:
    done = run(WORDS + LOST, tmp_path)
    assert done.status == 1
    assert "lost failed: 'no such model!' is no folder, no finished run and no hub id" in done.errors
    assert set(done.scores["retrievers"]["lost"]) == {"error", "code", "model"}
    assert 0.5 < done.scores["retrievers"]["words"]["recall@1"] < 1
    assert done.printed.splitlines()[-1].split() == ["lost", "failed", "failed", "failed"]
    assert {path.name for path in done.folder.iterdir()} == ALWAYS | {"words.trec"}


@pytest.mark.parametrize(
    ("experiment", "told"),
    [
        (WORDS.replace("word", "wort"), "error: experiment.toml: retriever.0.bm25.analyzer"),
        (WORDS.replace('"sample"', '"no-such.json"'), "no-such.json"),
        (WORDS.replace("ks", 'split = "validation"\nvalidation_share = 0.0\nks'), "error: the validation part has no"),
    ],
)
def test_what_cannot_be_compared_gives_status_2_and_no_files(experiment: str, told: str, tmp_path: Path) -> None:
    done = run(experiment, tmp_path)
    assert done.status == 2
    assert told in done.errors
    assert "Traceback" not in done.errors
    assert not done.folder.exists()
