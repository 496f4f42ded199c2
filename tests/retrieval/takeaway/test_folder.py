"""A folder taken away is loaded, asked and checked as its README says, by the script that lies in it."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.store import keep as keep_set
from mrc_workbench.data.workspace import PROJECT, read_json, workspace
from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.store import keep as keep_comparison
from mrc_workbench.retrieval.comparison.store import kept_comparisons
from mrc_workbench.retrieval.rankings import Findings
from mrc_workbench.retrieval.takeaway.asking import TOLD, values_of
from mrc_workbench.retrieval.takeaway.folder import EXPORTS, Wanted, archive_of, take_away, zip_folder
from mrc_workbench.retrieval.takeaway.fusion import TRAITS, Engine
from mrc_workbench.retrieval.takeaway.signals import TakeAwayError
from mrc_workbench.workbench.cli import main
from tests.doubles import PASSAGES, QUESTIONS, small_set
from tests.retrieval.compared import BIGRAMS, WORDS, experiment_of
from tests.retrieval.takeaway.test_fusion import HYBRID
from tests.tiny_models import build_bi_encoder

ODD = HYBRID | {"name": "../../<b>odd</b>|name"}


def comparison_of(*specs: dict[str, object]) -> Comparison:
    return compare(experiment_of(*(specs or (BIGRAMS, WORDS, ODD))), small_set())


def written(engine: Engine, folder: Path, name: str = str(ODD["name"]), *specs: dict[str, object]) -> Path:
    take_away(comparison_of(*specs), small_set(), name, engine, folder)
    return folder


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


END = "\x1e\n"  # of what a script writes
SCRIPTS = """
import json, os, runpy, sys

for folder, url, *words in json.loads(sys.argv[1]):
    os.environ["ENGINE_URL"], sys.argv = url, ["engine.py", *words]
    try:
        runpy.run_path(folder + "/engine.py", run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise
    print("\x1e", flush=True)
"""


def run_scripts(*asked: tuple[object, ...], path: str = "", packages: bool = True) -> subprocess.CompletedProcess[str]:
    """Run scripts of folders, each with the engine's address and its words, one after the other in one process.

    Without `packages` it has the standard library alone.
    """
    options = ["-P"] if packages else ["-P", "-S"]
    command = [sys.executable, *options, "-c", SCRIPTS, json.dumps([[*map(str, one)] for one in asked])]
    given = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=300)


MIX = {"name": "mix", "kind": "hybrid", "of": ["bigrams", "words"]}
IN_MILVUS = {
    f"{name} {fusion}": (name, BIGRAMS, WORDS, MIX | {"fusion": fusion})
    for name, fusion in (("bigrams", "rrf"), ("mix", "rrf"), ("mix", "z-score"))
}


@pytest.fixture(scope="module")
def told_in_milvus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each folder's script writes: loaded and checked by Python alone, asked with the workbench beside it."""
    place = tmp_path_factory.mktemp("milvus")
    folders = [written(Engine.MILVUS, place / case, *of) for case, of in IN_MILVUS.items()]
    done = run_scripts(*((folder, "", word) for folder in folders for word in ("load", "check")))
    asked = run_scripts(*((folder, "", "ask", QUESTIONS[0].text) for folder in folders), path=str(PROJECT))
    assert (done.returncode, asked.returncode) == (0, 0), done.stderr + asked.stderr
    loaded, answers = done.stdout.split(END)[:-1], asked.stdout.split(END)[:-1]
    return dict(zip(IN_MILVUS, map(list, zip(loaded[::2], loaded[1::2], answers, strict=True)), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("case", IN_MILVUS)
def test_milvus_finds_what_was_computed_that_it_finds(case: str, told_in_milvus: dict[str, list[str]]) -> None:
    loaded, checked, asked = told_in_milvus[case]
    assert loaded == f"{len(PASSAGES)} passages are in milvus\n"
    assert checked.split()[1] == checked.split()[3]  # measured there, expected there
    hit = json.loads(asked.splitlines()[0])
    assert (hit["passage"], hit["score"] > 0) == ("p1", True)


@pytest.mark.slow
def test_a_second_load_into_milvus_is_asked_for(tmp_path: Path) -> None:
    folder = written(Engine.MILVUS, tmp_path / "made", *IN_MILVUS["bigrams rrf"])
    words = (("load",), ("load", "--recreate"), ("load",))
    done = run_scripts(*((folder, "", *of) for of in words))
    first, again, _ = done.stdout.split(END)
    assert first == again
    assert (done.returncode, "`python engine.py load --recreate`" in done.stderr) == (1, True)


PAIRS = WORDS | {"name": "Pairs", "pairs": True}
STEMS = WORDS | {"name": "Stems", "analyzer": "english"}
NO_STOP_WORDS = STEMS | {"name": "No stop words", "stop_words": True}


@pytest.mark.parametrize(
    "specs", [(), (PAIRS,), (STEMS,), (NO_STOP_WORDS,)], ids=["usual", "pairs", "stems", "stop-words"]
)
@pytest.mark.parametrize("engine", [Engine.ELASTICSEARCH, Engine.VESPA, Engine.MILVUS])
def test_a_new_question_is_read_as_those_of_the_comparison(
    engine: Engine, specs: tuple[dict[str, object], ...], tmp_path: Path
) -> None:
    folder = written(engine, tmp_path / "made", str((*specs, ODD)[0]["name"]), *specs)
    told = read_json(folder / TOLD)["signals"][0]
    for spec in specs:
        usual = {"analyzer": "word", "pairs": False, "stop_words": False}
        assert {name: told[name] for name in usual} == {name: spec.get(name, value) for name, value in usual.items()}
    asked = lines(folder / "questions.jsonl")
    values = values_of(folder, [one["text"] for one in asked])
    assert json.loads(json.dumps(values)) == [one["values"] for one in asked]
    with pytest.raises(TakeAwayError):
        values_of(tmp_path, ["?"])


@pytest.mark.slow
@pytest.mark.parametrize("dimensions", [0, 8])
@pytest.mark.parametrize("layers", ["balanced", "last", "upper-idf"])
@pytest.mark.parametrize("engine", [Engine.VESPA, Engine.OPENSEARCH], ids=str)
def test_new_questions_of_late_interaction_have_the_layers_and_weights_of_the_export(
    engine: Engine, layers: str, dimensions: int, tmp_path: Path
) -> None:
    spec = {"kind": "late", "model": str(build_bi_encoder(tmp_path / "base")), "precision": "float32"}
    late = spec | {"name": "Late", "layers": layers, "dimensions": dimensions}
    others = [spec | {"name": other, "layers": other, "dimensions": dimensions} for other in ("upper", "last")]
    folder = written(engine, tmp_path / "made", "Late", late, *others)
    asked = lines(folder / "questions.jsonl")
    values = json.loads(json.dumps(values_of(folder, [one["text"] for one in asked])))
    assert len(values) == len(asked) > 0
    # OpenSearch's dimension that fills up lengths is the root of a difference of squares, near 0 of the longest
    error = 0.06 if engine is Engine.OPENSEARCH else 2e-3
    for found, one in zip(values, asked, strict=True):
        assert numbers_in(found) == pytest.approx(numbers_in(one["values"]), abs=error)


def numbers_in(value: Any) -> list[float]:
    """Return all numbers of a nested value."""
    if isinstance(value, dict):
        return numbers_in([*value.values()])
    return [number for part in value for number in numbers_in(part)] if isinstance(value, list) else [value]


def test_a_name_is_never_a_path_nor_markup(tmp_path: Path) -> None:
    for engine in (*TRAITS, Engine.LANGCHAIN):
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


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(TakeAwayError) as caught:
        written(Engine.VESPA, folder)
    assert (caught.value.code, [one.name for one in folder.iterdir()]) == ("folder_in_use", ["thesis.txt"])


def test_files_of_a_user_stay_beside_a_folder_made_anew(tmp_path: Path) -> None:
    folder = written(Engine.MILVUS, tmp_path / "made")
    (folder / "notes.txt").write_text("mine")
    (folder / "milvus.db").write_text("loaded")
    written(Engine.VESPA, folder)
    assert ((folder / "notes.txt").read_text(), (folder / "milvus.db").read_text()) == ("mine", "loaded")
    assert (folder / "application").is_dir()
    assert not (folder / "terms.json").exists()
    assert read_json(folder / TOLD)["engine"] == Engine.VESPA


@pytest.mark.slow
@pytest.mark.parametrize("library", [Engine.LANGCHAIN, Engine.LLAMAINDEX])
def test_a_librarys_retriever_finds_what_was_found_here(library: Engine, tmp_path: Path) -> None:
    comparison = comparison_of()
    folder = tmp_path / "made"
    take_away(comparison, small_set(), str(ODD["name"]), library, folder)
    ask = {
        Engine.LANGCHAIN: "[(d.id, d.metadata['score']) for d in FolderRetriever(k=3).invoke(question)]",
        Engine.LLAMAINDEX: "[(n.node.node_id, n.score) for n in FolderRetriever(k=3).retrieve(question)]",
    }[library]
    code = f"import json; from {library}_retriever import FolderRetriever; "
    code += f"print(json.dumps([{ask} for question in {[one.text for one in QUESTIONS]!r}]))"
    place = {**os.environ, "PYTHONPATH": f"{PROJECT}{os.pathsep}{folder}"}
    found = subprocess.run([sys.executable, "-c", code], env=place, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    here = comparison.rankings[str(ODD["name"])]
    for row, passages in enumerate(json.loads(found.stdout)):
        expected = Findings.of(type(here)(here.indices[[row], :3], here.scores[[row], :3]))
        assert [one for one, _ in passages] == [PASSAGES[place].id for place in expected.rows]
        assert [score for _, score in passages] == pytest.approx(expected.scores, abs=1e-6)


@pytest.fixture
def key() -> str:
    stored = keep_set(small_set())
    experiment = experiment_of(BIGRAMS, WORDS, ODD).model_copy(update={"data": stored.key})
    keep_comparison(compare(experiment, small_set()), workspace() / "comparisons" / ("ab" * 8))
    return kept_comparisons()[0].key


def test_the_command_writes_the_folder_and_tells_the_figures(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", key, str(ODD["name"]), "--to", "opensearch", "--out", str(tmp_path / "made")]) == 0
    unit, head, *rows, written_to = capsys.readouterr().out.splitlines()
    assert (unit[:10], head.split()[0], written_to) == ("in percent", "nDCG@10", f"written to {tmp_path / 'made'}")
    assert [line.split()[0] for line in rows] == [one.value for one in Engine if one is not Engine.ONNX]
    assert all(-100 <= float(cell) <= 100 for line in rows for cell in line.split()[1:])
    assert (tmp_path / "made" / "engine.json").is_file()
    assert main(["export", "0" * 16, "x", "--to", "vespa", "--out", str(tmp_path / "no")]) == 2
    capsys.readouterr()
    assert main(["export", key, "no such", "--to", "vespa", "--out", str(tmp_path / "no")]) == 2
    assert "called 'no such'; there are: bigrams, words, " in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_the_job_leaves_an_archive_and_figures_or_why_not(key: str) -> None:
    for name, state in ((str(ODD["name"]), State.DONE), ("no such", State.FAILED)):
        wanted = Wanted(key, name, Engine.WEAVIATE)
        job = EXPORTS.job(wanted, "now")
        job.folder.mkdir(parents=True)
        job.write_spec(wanted)
        assert job.run() == (0 if state is State.DONE else 2)
        assert (job.status().state, archive_of(job).is_file()) == (state, state is State.DONE)
    taken = EXPORTS.job(Wanted(key, str(ODD["name"]), Engine.WEAVIATE), "now").load()
    assert [one.engine for one in taken.figures] == [one for one in Engine if one is not Engine.ONNX]
    assert job.status().code == "retriever_failed"
