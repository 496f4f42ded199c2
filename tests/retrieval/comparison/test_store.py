"""Stored comparisons and their provenance."""

import json
import os
import shutil
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from mrc_workbench.data.split import Part, split
from mrc_workbench.data.text.analyzers import VERSION
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import content_fingerprint, find_model
from mrc_workbench.retrieval.comparison import store
from mrc_workbench.retrieval.comparison.compare import LIBRARIES, Comparison, Result, compare, provenance
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.report.exports import save
from mrc_workbench.retrieval.significance import PERMUTATIONS, RESAMPLES
from tests.data.split.worlds import chain
from tests.doubles import QUESTIONS, small_set
from tests.hub import COMMIT, hub_server
from tests.retrieval.compared import BIGRAMS, LOST_MODEL, experiment_of

NAMES_IN_FILE = [f"{kind}_{row}" for kind in ("indices", "scores") for row in range(4)]
PICKLED = dict.fromkeys(NAMES_IN_FILE, np.array([{}], dtype=object))
WORDS = {"name": "../words", "kind": "bm25", "analyzer": "word"}
BOTH = {"name": "both", "kind": "hybrid", "retrievers": ["bigrams", "../words"]}


def compared(**more: object) -> Comparison:
    comparison = compare(experiment_of(BIGRAMS, LOST_MODEL, WORDS, BOTH, **more), small_set())
    first, *others = comparison.results
    return replace(comparison, results=(replace(first, elsewhere_seconds=0.25), *others))


def stored_folder(**more: object) -> tuple[Comparison, Path]:
    comparison = compared(**more)
    folder = store.ComparisonJob.of(comparison.experiment, small_set().fingerprint).folder
    store.save_comparison(comparison, folder)
    return comparison, folder


def assert_same(actual: Result, expected: Result) -> None:
    for field in fields(Result):
        ours = getattr(actual, field.name)
        theirs = getattr(expected, field.name)
        if field.name == "rankings" and theirs:
            assert (ours.indices.dtype, ours.scores.dtype) == (theirs.indices.dtype, theirs.scores.dtype)
            np.testing.assert_array_equal(ours.indices, theirs.indices)
            np.testing.assert_array_equal(ours.scores, theirs.scores)
        elif field.name == "scores" and theirs:
            assert ours.ks == theirs.ks
            assert list(ours.per_question) == list(theirs.per_question)
            for measure, values in theirs.per_question.items():
                np.testing.assert_array_equal(ours.per_question[measure], values)
        elif field.name == "error" and theirs:
            assert isinstance(theirs, ModelError)
            assert (str(ours), ours.code, ours.details) == (str(theirs), theirs.code, theirs.details)
        else:
            assert ours == theirs, field.name


@pytest.mark.parametrize("part", ["all", "test"])
def test_loads_comparison_without_cache_or_models(part: str) -> None:
    comparison, folder = stored_folder(split=part, test_fraction=0.5)
    shutil.rmtree(workspace() / "cache")
    loaded = store.load(folder, small_set())
    assert (loaded.experiment, loaded.question_set) == (comparison.experiment, comparison.question_set)
    for ours, theirs in zip(loaded.results, comparison.results, strict=True):
        assert_same(ours, theirs)
    assert not (workspace() / "cache").exists()


def test_reads_missing_layers_as_last() -> None:
    late = {"name": "late", "kind": "late", "model": "no/such/model"}
    comparison = compare(experiment_of(WORDS, late), small_set())
    folder = store.ComparisonJob.of(comparison.experiment, small_set().fingerprint).folder
    store.save_comparison(comparison, folder)
    assert store.load(folder, small_set()).experiment == comparison.experiment
    path = folder / "provenance.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    layers = content["experiment"]["retriever"][1].pop("layers")  # as before there was a choice
    path.write_text(json.dumps(content), encoding="utf-8")
    opened = store.load(folder, small_set()).experiment.specs["late"]
    assert (layers, dict(opened)["layers"]) == ("balanced", "last")


def test_stores_relevance_grade() -> None:
    graded = (replace(question, grades=((question.relevant[0], 2),)) for question in QUESTIONS[:3])
    question_set = replace(small_set(), questions=(*graded, *QUESTIONS[3:]))
    comparison = compare(experiment_of(WORDS, relevance_level=2), question_set)
    assert [compared_question.id for compared_question in comparison.question_set.questions] == ["q1", "q2", "q3"]
    folder = store.ComparisonJob.of(comparison.experiment, question_set.fingerprint).folder
    store.save_comparison(comparison, folder)
    assert store.load(folder, question_set).question_set == comparison.question_set
    (stored,) = store.list_comparisons()
    assert (stored.relevance_level, stored.questions) == (2, 3)


def test_adds_new_measures_but_keeps_missing_values() -> None:
    comparison, folder = stored_folder()
    scores = json.loads((folder / "scores.json").read_text())
    entry = scores["retrievers"]["both"]
    scores["retrievers"]["both"] = {name: value for name, value in entry.items() if not name.startswith("mrr@")}
    del scores["retrievers"]["both"]["recall@3"]
    (folder / "scores.json").write_text(json.dumps(scores))
    loaded_scores = store.load(folder, small_set()).results[3].scores
    assert loaded_scores is not None
    assert "recall@3" not in loaded_scores.per_question
    assert "mrr@10" in loaded_scores.per_question
    assert loaded_scores.per_question["hit@3"].tolist() == comparison.results[3].scores.per_question["hit@3"].tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "scores.json").unlink(),
        lambda folder: (folder / "scores.json").write_text('{"data": '),
        lambda folder: (folder / "provenance.json").unlink(),
        lambda folder: (folder / "rankings.npz").unlink(),
        lambda folder: (folder / "rankings.npz").write_bytes((folder / "rankings.npz").read_bytes()[:-300]),
        lambda folder: np.savez(folder / "rankings.npz", other=np.zeros(3)),
        lambda folder: np.savez(folder / "rankings.npz", **PICKLED),  # type: ignore[arg-type]
    ],
)
def test_rejects_damaged_folder(harm: Any) -> None:
    _, folder = stored_folder()
    harm(folder)
    with pytest.raises(ValueError, match=folder.name):
        store.load(folder, small_set())


def test_rejects_other_dataset() -> None:
    _, folder = stored_folder()
    with pytest.raises(ValueError, match="other passages or questions"):
        store.load(folder, small_set().with_questions([0, 1, 2]))


def test_interrupted_write_leaves_no_foreign_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison, folder = stored_folder()
    monkeypatch.setattr("mrc_workbench.data.cache.write_json", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.save_comparison(comparison, folder)
    assert not (folder / "scores.json").exists()
    assert store.list_comparisons() == []
    assert [path for path in folder.iterdir() if path.name.startswith(".")] == []


def test_lists_comparisons_newest_first() -> None:
    comparison, _ = stored_folder()
    _, second = stored_folder(split="test", test_fraction=0.5)
    newest, oldest = store.list_comparisons()
    assert (newest.folder, newest.part.value, newest.key) == (second, "test", second.name)
    assert newest.created_at >= oldest.created_at
    assert (oldest.data, oldest.reference, oldest.name, oldest.lab) == ("small", "small", "", None)
    assert (oldest.questions, oldest.passages, oldest.ks) == (6, 5, (1, 3))
    assert oldest.retrievers == ("bigrams", "lost", "../words", "both")
    assert oldest.fingerprint == oldest.data_fingerprint == small_set().fingerprint
    rows = [QUESTIONS.index(question) for question in store.load(second, small_set()).question_set.questions]
    assert newest.fingerprint == comparison.question_set.with_questions(rows).fingerprint
    means = {result.name: result.scores.means() for result in comparison.results if result.scores}
    assert oldest.metrics == means
    assert "lost" not in oldest.metrics


def test_list_skips_unreadable_comparisons() -> None:
    _, folder = stored_folder()
    for number, content in enumerate(["", "[]", '{"data": 3}', '{"retrievers": []}']):
        broken = folder.with_name(f"{number:016x}")
        broken.mkdir()
        (broken / "scores.json").write_text(content)
        (broken / "provenance.json").write_text(content)
    folder.with_name("not a key").mkdir()
    assert [comparison.folder for comparison in store.list_comparisons()] == [folder]


@pytest.mark.parametrize("name", ["한글 이름", "../../etc/passwd", "<b>&amp;</b>", "a" * 5000, "  spaces\n and lines "])
def test_name_never_becomes_a_path(name: str) -> None:
    _, folder = stored_folder()
    before = sorted(path.name for path in folder.parent.iterdir())
    store.rename(folder.name, name)
    assert sorted(path.name for path in folder.parent.iterdir()) == before
    assert [comparison.name for comparison in store.list_comparisons()] == [" ".join(name.split())]
    assert store.load(folder, small_set()).experiment.data == "small"
    store.rename(folder.name, "")
    assert store.list_comparisons()[0].name == ""


@pytest.mark.parametrize("damaged", ["{", "[]", '"name"'])
def test_backs_up_damaged_name_before_replacing_it(damaged: str) -> None:
    _, folder = stored_folder()
    (folder / "name.json").write_text(damaged, encoding="utf-8")
    store.rename(folder.name, "mine")
    assert (folder / "name.json.damaged").read_text(encoding="utf-8") == damaged
    assert store.list_comparisons()[0].name == "mine"
    store.rename(folder.name, "yours")
    assert sorted(path.name for path in folder.glob("name.json*")) == ["name.json", "name.json.damaged"]


def test_name_survives_rerun_and_delete_removes_only_its_comparison() -> None:
    comparison, first = stored_folder()
    store.rename(first.name, "mine")
    store.save_comparison(comparison, first)
    assert store.list_comparisons()[0].name == "mine"
    _, second = stored_folder(split="test", test_fraction=0.5)
    store.delete(first.name)
    assert [path.name for path in first.parent.iterdir()] == [second.name]


@pytest.mark.parametrize("key", ["", "..", "../..", "0" * 16, "/", "not a key"])
def test_rejects_invalid_keys(key: str) -> None:
    _, folder = stored_folder()
    with pytest.raises(KeyError):
        store.delete(key)
    with pytest.raises(KeyError):
        store.rename(key, "name")
    assert store.get_comparison(key) is None
    assert [store.get_comparison(folder.name)] == store.list_comparisons()
    assert store.load(folder, small_set()).question_set == small_set()


@pytest.mark.slow
def test_export_includes_stored_comparison(tmp_path: Path) -> None:
    comparison = compared()
    store.save_comparison(comparison, tmp_path / "kept")
    save(comparison, tmp_path / "saved")
    ours, theirs = ({path.name for path in (tmp_path / name).iterdir()} for name in ("kept", "saved"))
    assert ours == {"rankings.npz", "provenance.json", "scores.json"}
    assert ours < theirs
    for result, other in zip(store.load(tmp_path / "saved", small_set()).results, comparison.results, strict=True):
        assert_same(result, other)


SPECS: list[dict[str, Any]] = [
    {"name": "auto", "kind": "bm25", "k1": 1.2, "selected_on": "validation"},
    {"name": "starter", "kind": "dense"},
    {"name": "both", "kind": "hybrid", "retrievers": ["auto", "starter"]},
    {"name": "reranked", "kind": "rerank", "first_stage": "auto"},
    LOST_MODEL,
]


def provenance_of(*specs: dict[str, Any], base: Path | None = None, **more: object) -> dict[str, Any]:
    evaluated = compare(experiment_of(WORDS, **more), small_set()).question_set  # provenance needs no search
    return provenance(Comparison(experiment_of(*specs, **more), evaluated, ()), small_set(), base)


def test_provenance_holds_experiment_machine_and_tests() -> None:
    origin = provenance_of(*SPECS)
    assert json.loads(json.dumps(origin)) == origin
    read = Experiment.model_validate(origin["experiment"])
    assert [spec.name for spec in read.retriever] == [spec["name"] for spec in SPECS]
    assert origin["created_at"].endswith("+00:00")
    assert origin["analyzer_version"] == VERSION
    versions = {name: number for name, number in origin["versions"].items() if name != "python"}
    assert versions == {library: version(library) for library in LIBRARIES}
    machine = origin["hardware"]
    assert (machine["logical_cores"], machine["memory"]) == (os.cpu_count(), psutil.virtual_memory().total)
    statistics = {"level": 0.95, "resamples": RESAMPLES, "permutations": PERMUTATIONS, "seed": 0, "correction": "max-t"}
    assert origin["statistics"] == statistics


def test_provenance_holds_data_and_split() -> None:
    origin = provenance_of(*SPECS, split="test", test_fraction=0.5, seed=3)
    question_set = small_set()
    rows = split(question_set, Experiment.model_validate(origin["experiment"]).split_options).rows
    fingerprints = {"fingerprint": question_set.fingerprint, "corpus_fingerprint": question_set.corpus_fingerprint}
    assert origin["data"] == {"name": "small", **fingerprints, "questions": 6, "passages": 5}
    expected_split = {"part": "test", "validation": 0.1, "test": 0.5, "seed": 3}
    counts = {"questions": {part.value: len(rows[part]) for part in Part}, "shared_test_questions": 0}
    how = {"method": "grouped", "published": False, "description": "drawn by article, seed 3"}
    assert origin["split"] == expected_split | counts | how


def test_provenance_resolves_open_values() -> None:
    retrievers = provenance_of(*SPECS)["retrievers"]
    auto = retrievers["auto"]
    assert (auto["analyzer"], auto["k1"], auto["selected_on"]) == ("kiwi+bigram", 1.2, "validation")
    assert retrievers["both"]["retrievers"] == ["auto", "starter"]
    assert retrievers["reranked"]["weight"] == 0.5  # what an untrained starter decides
    assert retrievers["starter"]["model"]["reference"] == "starter"
    assert len(retrievers["starter"]["model"]["fingerprint"]) == 64
    assert retrievers["lost"]["model"] == {"reference": "no such model!", "error": "model_not_found"}


def test_provenance_identifies_models_and_runs_by_content(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "theirs.trec").write_text("abc")
    origin = provenance_of(
        {"name": "folder", "kind": "dense", "model": "model"},
        {"name": "run", "kind": "run", "path": "theirs.trec"},
        {"name": "gone", "kind": "run", "path": "gone.trec"},
        base=tmp_path,
    )["retrievers"]
    source = find_model("model", tmp_path)
    assert source.folder is not None
    assert origin["folder"]["model"]["fingerprint"] == content_fingerprint(source.folder)
    # the well-known sha256 of "abc"
    assert origin["run"]["fingerprint"] == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert origin["gone"] == {"kind": "run", "path": "gone.trec"}


def test_provenance_identifies_hub_model_by_commit(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "hub" / "somebody" / "base").mkdir(parents=True)
    with hub_server(tmp_path / "hub") as url:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
        origin = provenance_of({"name": "hub", "kind": "dense", "model": "somebody/base"})
    assert origin["retrievers"]["hub"]["model"] == {"reference": "somebody/base", "revision": COMMIT}


def test_provenance_works_without_commit(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("mrc_workbench.data.jobs.processes.PROJECT", tmp_path)
    assert provenance_of(*SPECS)["commit"] == ""
    (tmp_path / ".git").mkdir()
    assert provenance_of(*SPECS)["commit"] == ""


def test_keeps_strict_split_of_earlier_version() -> None:
    """Its part had nearly all questions of a set that is now divided otherwise, and is shown as it was."""
    whole = chain(60)
    strict = experiment_of(BIGRAMS, split="train", strict_split=True)
    rows = split(whole, strict.split_options).rows
    part = next(part for part in (Part.TRAIN, Part.VALIDATION, Part.TEST) if len(rows[part]))
    compared_then = compare(strict.model_copy(update={"split": part}), whole)
    folder = workspace() / "comparisons" / "0123456789abcdef"
    store.save_comparison(compared_then, folder, provenance(compared_then, whole))
    origin = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    del origin["experiment"]["strict_split"]  # unknown then
    (folder / "provenance.json").write_text(json.dumps(origin), encoding="utf-8")
    opened = store.load(folder, whole)
    assert len(opened.question_set.questions) == 60
    assert opened.experiment.strict_split
    assert opened.split is not None
    assert opened.split.options.strict
    assert len(experiment_of(BIGRAMS, split=part).evaluation_set(whole).questions) < 60
