"""An exported folder is loaded, searched and checked by its script, as its README says."""

import json
import os
import subprocess
import sys
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.store import save_question_set
from mrc_workbench.data.workspace import PROJECT, read_json, workspace
from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.store import list_comparisons
from mrc_workbench.retrieval.comparison.store import save_comparison as keep_comparison
from mrc_workbench.retrieval.export.folder import EXPORTS, ExportRequest, archive_path, export_retriever, zip_folder
from mrc_workbench.retrieval.export.fusion import TRAITS, ExportTarget
from mrc_workbench.retrieval.export.payloads import MANIFEST, new_question_values
from mrc_workbench.retrieval.export.signals import ExportError
from mrc_workbench.retrieval.rankings import QueryHits
from mrc_workbench.workbench.cli import main
from tests.doubles import PASSAGES, QUESTIONS, small_set, texts_of
from tests.retrieval.compared import BIGRAMS, WORDS, experiment_of
from tests.retrieval.export import scripts
from tests.retrieval.export.scripts import END
from tests.retrieval.export.test_fusion import HYBRID, MIX
from tests.tiny_models import build_bi_encoder

ODD = HYBRID | {"name": "../../<b>odd</b>|name"}


def comparison_of(*specs: dict[str, object]) -> Comparison:
    return compare(experiment_of(*(specs or (BIGRAMS, WORDS, ODD))), small_set())


def written(engine: ExportTarget, folder: Path, name: str = str(ODD["name"]), *specs: dict[str, object]) -> Path:
    export_retriever(comparison_of(*specs), small_set(), name, engine, folder)
    return folder


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run_scripts(*calls: tuple[object, ...], path: str = "", packages: bool = True) -> subprocess.CompletedProcess[str]:
    """Run scripts of folders, each with the engine's address and its words, one after the other in a new process.

    Without `packages` only the standard library is available.
    """
    options = ["-P"] if packages else ["-P", "-S"]
    words = json.dumps([[*map(str, call)] for call in calls])
    command = [sys.executable, *options, scripts.__file__, words]
    given = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=300)


def run_in_this_process(*calls: list[str]) -> subprocess.CompletedProcess[str]:
    """Run scripts of folders, each with the engine's address and its words, one after the other."""
    output = StringIO()
    errors = StringIO()
    status = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(errors):
        patch.setenv("ENGINE_URL", "")
        patch.setattr(sys, "argv", [])
        try:
            scripts.run_each(calls)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
            errors.write(f"{ended.code}\n")
    return subprocess.CompletedProcess(["engine.py"], status, output.getvalue(), errors.getvalue())


IN_MILVUS = {
    f"{name} {fusion}": (name, BIGRAMS, WORDS, MIX | {"fusion": fusion})
    for name, fusion in (("bigrams", "rrf"), ("mix", "rrf"), ("mix", "z-score"))
}


@pytest.fixture(scope="module")
def milvus_output(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The output of each folder's script: load and check without the workbench, ask with it."""
    base_folder = tmp_path_factory.mktemp("milvus")
    folders = [written(ExportTarget.MILVUS, base_folder / case, *of) for case, of in IN_MILVUS.items()]
    done = run_scripts(*((folder, "", word) for folder in folders for word in ("load", "check")))
    query_outputs = run_scripts(*((folder, "", "ask", QUESTIONS[0].text) for folder in folders), path=str(PROJECT))
    assert (done.returncode, query_outputs.returncode) == (0, 0), done.stderr + query_outputs.stderr
    loaded = done.stdout.split(END)[:-1]
    answers = query_outputs.stdout.split(END)[:-1]
    return dict(zip(IN_MILVUS, map(list, zip(loaded[::2], loaded[1::2], answers, strict=True)), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("case", IN_MILVUS)
def test_milvus_matches_computed_results(case: str, milvus_output: dict[str, list[str]]) -> None:
    loaded, checked, answer = milvus_output[case]
    assert loaded == f"{len(PASSAGES)} passages are in milvus\n"
    assert checked.split()[1] == checked.split()[3]  # measured there, expected there
    hit = json.loads(answer.splitlines()[0])
    assert (hit["passage"], hit["score"] > 0) == ("p1", True)


@pytest.mark.slow
def test_milvus_reloads_only_with_recreate(tmp_path: Path) -> None:
    folder = written(ExportTarget.MILVUS, tmp_path / "made", *IN_MILVUS["bigrams rrf"])
    words = (("load",), ("load", "--recreate"), ("load",))
    done = run_scripts(*((folder, "", *of) for of in words))
    first, again, _ = done.stdout.split(END)
    assert first == again
    assert (done.returncode, "`python engine.py load --recreate`" in done.stderr) == (1, True)


PAIRS = WORDS | {"name": "Pairs", "pairs": True}
STEMS = WORDS | {"name": "Stems", "analyzer": "english"}
NO_STOP_WORDS = STEMS | {"name": "No stop words", "stop_words": True}


@pytest.mark.parametrize("specs", [(), (PAIRS,), (STEMS,), (NO_STOP_WORDS,)])
@pytest.mark.parametrize("engine", [ExportTarget.ELASTICSEARCH, ExportTarget.VESPA, ExportTarget.MILVUS])
def test_encodes_new_questions(engine: ExportTarget, specs: tuple[dict[str, object], ...], tmp_path: Path) -> None:
    folder = written(engine, tmp_path / "made", str((*specs, ODD)[0]["name"]), *specs)
    signal = read_json(folder / MANIFEST)["signals"][0]
    for spec in specs:
        defaults = {"analyzer": "word", "pairs": False, "stop_words": False}
        expected = {name: spec.get(name, value) for name, value in defaults.items()}
        assert {name: signal[name] for name in defaults} == expected
    exported_questions = lines(folder / "questions.jsonl")
    values = new_question_values(folder, [question["text"] for question in exported_questions])
    assert json.loads(json.dumps(values)) == [question["values"] for question in exported_questions]
    with pytest.raises(ExportError):
        new_question_values(tmp_path, ["?"])


@pytest.mark.slow
@pytest.mark.parametrize("dimensions", [0, 8])
@pytest.mark.parametrize("layers", ["balanced", "last", "upper-idf"])
@pytest.mark.parametrize("engine", [ExportTarget.VESPA, ExportTarget.OPENSEARCH], ids=str)
def test_late_questions_follow_export(engine: ExportTarget, layers: str, dimensions: int, tmp_path: Path) -> None:
    spec = {"kind": "late", "model": str(build_bi_encoder(tmp_path / "base")), "precision": "float32"}
    late = spec | {"name": "Late", "layers": layers, "dimensions": dimensions}
    others = [spec | {"name": other, "layers": other, "dimensions": dimensions} for other in ("upper", "last")]
    folder = written(engine, tmp_path / "made", "Late", late, *others)
    exported_questions = lines(folder / "questions.jsonl")
    values = json.loads(json.dumps(new_question_values(folder, [question["text"] for question in exported_questions])))
    assert len(values) == len(exported_questions) > 0
    # OpenSearch's dimension that fills up lengths is the root of a difference of squares, near 0 of the longest
    error = 0.06 if engine is ExportTarget.OPENSEARCH else 2e-3
    for new_values, question in zip(values, exported_questions, strict=True):
        assert numbers_in(new_values) == pytest.approx(numbers_in(question["values"]), abs=error)


def numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict):
        return numbers_in([*value.values()])
    return [number for part in value for number in numbers_in(part)] if isinstance(value, list) else [value]


def test_name_never_becomes_path_or_markup(tmp_path: Path) -> None:
    for engine in (*TRAITS, ExportTarget.LANGCHAIN):
        folder = written(engine, tmp_path / "place" / engine.value)
        text = (folder / "README.md").read_text(encoding="utf-8")
        assert "<b>" not in text
        (folder / "link").symlink_to("/etc/passwd")  # is not archived
        zip_folder(folder, tmp_path / "made.zip")
        with zipfile.ZipFile(tmp_path / "made.zip") as archive:
            names = archive.namelist()
        assert names == sorted(names)
        assert all(name.startswith("takeaway/") and ".." not in name for name in names)
        assert ("takeaway/README.md" in names, "takeaway/link" in names) == (True, False)
    assert {path.name for path in tmp_path.iterdir()} == {"place", "made.zip", "workspace"}


def test_rejects_folder_with_other_content(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(ExportError) as caught:
        written(ExportTarget.VESPA, folder)
    assert (caught.value.code, [path.name for path in folder.iterdir()]) == ("folder_in_use", ["thesis.txt"])


def test_keeps_user_files_when_exporting_again(tmp_path: Path) -> None:
    folder = written(ExportTarget.MILVUS, tmp_path / "made")
    (folder / "notes.txt").write_text("mine")
    (folder / "milvus.db").write_text("loaded")
    written(ExportTarget.VESPA, folder)
    assert ((folder / "notes.txt").read_text(), (folder / "milvus.db").read_text()) == ("mine", "loaded")
    assert (folder / "application").is_dir()
    assert not (folder / "terms.json").exists()
    assert read_json(folder / MANIFEST)["engine"] == ExportTarget.VESPA


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "name", "ask"),
    [
        ("langchain", "LangChainFolderRetriever", "[(hit.id, hit.metadata['score']) for hit in search.invoke(text)]"),
        ("llamaindex", "LlamaIndexFolderRetriever", "[(hit.node_id, hit.score) for hit in search.retrieve(text)]"),
    ],
)
def test_library_retriever_matches_workbench(library: str, name: str, ask: str, tmp_path: Path) -> None:
    comparison = comparison_of()
    folder = tmp_path / "made"
    export_retriever(comparison, small_set(), str(ODD["name"]), ExportTarget(library), folder)
    code = f"import json; from {library}_retriever import {name}; search = {name}(k=3); "
    code += f"print(json.dumps([{ask} for text in {texts_of(QUESTIONS)!r}]))"
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT}{os.pathsep}{folder}"}
    process = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    here = comparison.rankings[str(ODD["name"])]
    for row, passages in enumerate(json.loads(process.stdout)):
        expected = QueryHits.from_rankings(here.first(3), row)
        assert [item for item, _ in passages] == [PASSAGES[value].id for value in expected.rows]
        assert [score for _, score in passages] == pytest.approx(expected.scores, abs=1e-6)


@pytest.fixture
def key() -> str:
    stored = save_question_set(small_set())
    experiment = experiment_of(BIGRAMS, WORDS, ODD).model_copy(update={"data": stored.key})
    keep_comparison(compare(experiment, small_set()), workspace() / "comparisons" / ("ab" * 8))
    return list_comparisons()[0].key


def test_command_writes_folder_and_prints_metrics(key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", key, str(ODD["name"]), "--to", "opensearch", "--out", str(tmp_path / "made")]) == 0
    unit, head, *rows, written_to = capsys.readouterr().out.splitlines()
    assert (unit[:10], head.split()[0], written_to) == ("in percent", "nDCG@10", f"written to {tmp_path / 'made'}")
    targets = [target.value for target in ExportTarget if target is not ExportTarget.ONNX]
    assert [line.split()[0] for line in rows] == targets
    assert all(-100 <= float(cell) <= 100 for line in rows for cell in line.split()[1:])
    assert (tmp_path / "made" / "engine.json").is_file()
    assert main(["export", "0" * 16, "x", "--to", "vespa", "--out", str(tmp_path / "no")]) == 2
    capsys.readouterr()
    assert main(["export", key, "no such", "--to", "vespa", "--out", str(tmp_path / "no")]) == 2
    assert "called 'no such'; there are: bigrams, words, " in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_job_writes_archive_and_metrics_or_error(key: str) -> None:
    for name, state in ((str(ODD["name"]), State.DONE), ("no such", State.FAILED)):
        request = ExportRequest(key, name, ExportTarget.WEAVIATE)
        job = EXPORTS.job(request, "now")
        job.folder.mkdir(parents=True)
        job.write_spec(request)
        assert job.run() == (0 if state is State.DONE else 2)
        assert (job.status().state, archive_path(job).is_file()) == (state, state is State.DONE)
    taken = EXPORTS.job(ExportRequest(key, str(ODD["name"]), ExportTarget.WEAVIATE), "now").load()
    assert [item.engine for item in taken.metrics] == [item for item in ExportTarget if item is not ExportTarget.ONNX]
    assert job.status().code == "retriever_failed"
