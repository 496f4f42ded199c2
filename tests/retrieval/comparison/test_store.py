"""Comparisons on disk, and what they say of where they come from."""

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
from mrc_workbench.retrieval.comparison.compare import LIBRARIES, Comparison, Result, compare, provenance
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import (
    ComparisonJob,
    delete,
    keep,
    kept_comparison,
    kept_comparisons,
    load,
    rename,
)
from mrc_workbench.retrieval.report.exports import save
from mrc_workbench.retrieval.significance import PERMUTATIONS, RESAMPLES
from tests.data.split.worlds import chain
from tests.doubles import QUESTIONS, small_set
from tests.hub import COMMIT, hub_server
from tests.retrieval.compared import BIGRAMS, LOST_MODEL, experiment_of

WORDS = {"name": "../words", "kind": "bm25", "analyzer": "word"}
BOTH = {"name": "both", "kind": "hybrid", "of": ["bigrams", "../words"]}


def compared(**more: object) -> Comparison:
    return compare(experiment_of(BIGRAMS, LOST_MODEL, WORDS, BOTH, **more), small_set())


def kept(**more: object) -> tuple[Comparison, Path]:
    comparison = compared(**more)
    folder = ComparisonJob.of(comparison.experiment, small_set().fingerprint).folder
    keep(comparison, folder)
    return comparison, folder


def assert_same(found: Result, expected: Result) -> None:
    for field in fields(Result):
        ours, theirs = getattr(found, field.name), getattr(expected, field.name)
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
def test_it_opens_as_it_was_when_all_else_is_gone(part: str) -> None:
    comparison, folder = kept(split=part, test_share=0.5)
    shutil.rmtree(workspace() / "cache")
    found = load(folder, small_set())
    assert (found.experiment, found.question_set) == (comparison.experiment, comparison.question_set)
    for ours, theirs in zip(found.results, comparison.results, strict=True):
        assert_same(ours, theirs)
    assert not (workspace() / "cache").exists()  # nothing was searched or built


def test_keeps_which_times_were_measured_elsewhere(tmp_path: Path) -> None:
    comparison = compared()
    first, *others = comparison.results
    keep(replace(comparison, results=(replace(first, elsewhere_seconds=0.25), *others)), tmp_path / "kept")
    found = load(tmp_path / "kept", small_set())
    assert [one.elsewhere_seconds for one in found.results] == [0.25, 0.0, 0.0, 0.0]


def test_late_interaction_that_says_nothing_of_its_layers_was_read_by_the_last() -> None:
    late = {"name": "late", "kind": "late", "model": "no/such/model"}
    comparison = compare(experiment_of(WORDS, late), small_set())
    folder = ComparisonJob.of(comparison.experiment, small_set().fingerprint).folder
    keep(comparison, folder)
    assert load(folder, small_set()).experiment == comparison.experiment
    path = folder / "provenance.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    layers = told["experiment"]["retriever"][1].pop("layers")  # as before there was a choice
    path.write_text(json.dumps(told), encoding="utf-8")
    opened = load(folder, small_set()).experiment.specs["late"]
    assert (layers, dict(opened)["layers"]) == ("balanced", "last")


def test_the_grade_that_is_relevant_is_kept_with_it() -> None:
    graded = (replace(question, grades=((question.relevant[0], 2),)) for question in QUESTIONS[:3])
    asked = replace(small_set(), questions=(*graded, *QUESTIONS[3:]))
    comparison = compare(experiment_of(WORDS, relevant_from=2), asked)
    assert [one.id for one in comparison.question_set.questions] == ["q1", "q2", "q3"]
    folder = ComparisonJob.of(comparison.experiment, asked.fingerprint).folder
    keep(comparison, folder)
    assert load(folder, asked).question_set == comparison.question_set
    (kept_one,) = kept_comparisons()
    assert (kept_one.relevant_from, kept_one.questions) == (2, 3)


def test_a_measure_without_a_figure_stays_without_one_and_one_that_was_not_known_yet_has_one() -> None:
    comparison, folder = kept()
    scores = json.loads((folder / "scores.json").read_text())
    told = scores["retrievers"]["both"]
    scores["retrievers"]["both"] = {name: value for name, value in told.items() if not name.startswith("mrr@")}
    del scores["retrievers"]["both"]["recall@3"]
    (folder / "scores.json").write_text(json.dumps(scores))
    found = load(folder, small_set()).results[3].scores
    assert found is not None
    assert "recall@3" not in found.per_question
    assert "mrr@10" in found.per_question
    assert found.per_question["hit@3"].tolist() == comparison.results[3].scores.per_question["hit@3"].tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "scores.json").unlink(),
        lambda folder: (folder / "scores.json").write_text('{"data": '),
        lambda folder: (folder / "provenance.json").unlink(),
        lambda folder: (folder / "rankings.npz").unlink(),
        lambda folder: (folder / "rankings.npz").write_bytes((folder / "rankings.npz").read_bytes()[:-300]),
        lambda folder: np.savez(folder / "rankings.npz", other=np.zeros(3)),
        lambda folder: np.savez(folder / "rankings.npz", **pickled()),  # type: ignore[arg-type]
    ],
)
def test_a_harmed_folder_is_told_and_not_half_read(harm: Any) -> None:
    _, folder = kept()
    harm(folder)
    with pytest.raises(ValueError, match=folder.name):
        load(folder, small_set())


def pickled() -> dict[str, np.ndarray]:
    return {f"{kind}_{row}": np.array([{}], dtype=object) for kind in ("indices", "scores") for row in range(4)}


def test_other_data_is_told() -> None:
    _, folder = kept()
    with pytest.raises(ValueError, match="other passages or questions"):
        load(folder, small_set().with_questions([0, 1, 2]))


def test_a_run_cut_off_while_it_writes_leaves_no_scores_that_are_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison, folder = kept()
    monkeypatch.setattr("mrc_workbench.data.cache.write_json", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        keep(comparison, folder)
    assert not (folder / "scores.json").exists()
    assert kept_comparisons() == []
    assert [path for path in folder.iterdir() if path.name.startswith(".")] == []


def test_the_list_shows_what_was_compared_newest_first() -> None:
    comparison, _ = kept()
    _, second = kept(split="test", test_share=0.5)
    newest, oldest = kept_comparisons()
    assert (newest.folder, newest.part.value, newest.key) == (second, "test", second.name)
    assert newest.made >= oldest.made
    assert (oldest.data, oldest.reference, oldest.name, oldest.lab) == ("small", "small", "", None)
    assert (oldest.questions, oldest.passages, oldest.ks) == (6, 5, (1, 3))
    assert oldest.retrievers == ("bigrams", "lost", "../words", "both")
    assert oldest.fingerprint == oldest.data_fingerprint == small_set().fingerprint
    rows = [QUESTIONS.index(question) for question in load(second, small_set()).question_set.questions]
    assert newest.fingerprint == comparison.question_set.with_questions(rows).fingerprint
    means = {result.name: result.scores.means() for result in comparison.results if result.scores}
    assert oldest.figures == means
    assert "lost" not in oldest.figures


def test_what_cannot_be_read_is_passed_over() -> None:
    _, folder = kept()
    for number, content in enumerate(["", "[]", '{"data": 3}', '{"retrievers": []}']):
        broken = folder.with_name(f"{number:016x}")
        broken.mkdir()
        (broken / "scores.json").write_text(content)
        (broken / "provenance.json").write_text(content)
    folder.with_name("not a key").mkdir()
    assert [found.folder for found in kept_comparisons()] == [folder]


@pytest.mark.parametrize("name", ["한글 이름", "../../etc/passwd", "<b>&amp;</b>", "a" * 5000, "  spaces\n and lines "])
def test_a_name_is_text_and_never_a_path(name: str) -> None:
    _, folder = kept()
    before = sorted(path.name for path in folder.parent.iterdir())
    rename(folder.name, name)
    assert sorted(path.name for path in folder.parent.iterdir()) == before
    assert [found.name for found in kept_comparisons()] == [" ".join(name.split())]
    assert load(folder, small_set()).experiment.data == "small"
    rename(folder.name, "")
    assert kept_comparisons()[0].name == ""


@pytest.mark.parametrize("damaged", ["{", "[]", '"name"'])
def test_a_damaged_name_is_set_aside_before_it_is_replaced(damaged: str) -> None:
    _, folder = kept()
    (folder / "name.json").write_text(damaged, encoding="utf-8")
    rename(folder.name, "mine")
    assert (folder / "name.json.damaged").read_text(encoding="utf-8") == damaged
    assert kept_comparisons()[0].name == "mine"
    rename(folder.name, "yours")
    assert sorted(path.name for path in folder.glob("name.json*")) == ["name.json", "name.json.damaged"]


def test_a_name_outlives_another_run_and_delete_removes_one_and_no_other() -> None:
    comparison, first = kept()
    rename(first.name, "mine")
    keep(comparison, first)
    assert kept_comparisons()[0].name == "mine"
    _, second = kept(split="test", test_share=0.5)
    delete(first.name)
    assert [path.name for path in first.parent.iterdir()] == [second.name]


@pytest.mark.parametrize("key", ["", "..", "../..", "0" * 16, "/", "not a key"])
def test_a_key_that_is_none_never_reaches_the_file_system(key: str) -> None:
    _, folder = kept()
    with pytest.raises(KeyError):
        delete(key)
    with pytest.raises(KeyError):
        rename(key, "name")
    assert kept_comparison(key) is None
    assert [kept_comparison(folder.name)] == kept_comparisons()
    assert load(folder, small_set()).question_set == small_set()


@pytest.mark.slow
def test_save_writes_what_keep_does_and_more(tmp_path: Path) -> None:
    comparison = compared()
    keep(comparison, tmp_path / "kept")
    save(comparison, tmp_path / "saved")
    ours, theirs = ({path.name for path in (tmp_path / name).iterdir()} for name in ("kept", "saved"))
    assert ours == {"rankings.npz", "provenance.json", "scores.json"}
    assert ours < theirs
    for one, other in zip(load(tmp_path / "saved", small_set()).results, comparison.results, strict=True):
        assert_same(one, other)


SPECS: list[dict[str, Any]] = [
    {"name": "auto", "kind": "bm25", "k1": 1.2, "chosen_on": "validation"},
    {"name": "starter", "kind": "dense"},
    {"name": "both", "kind": "hybrid", "of": ["auto", "starter"]},
    {"name": "reranked", "kind": "rerank", "first": "auto"},
    LOST_MODEL,
]


def made_of(*specs: dict[str, Any], base: Path | None = None, **more: object) -> dict[str, Any]:
    asked = compare(experiment_of(WORDS, **more), small_set()).question_set  # what is noted needs no search
    return provenance(Comparison(experiment_of(*specs, **more), asked, ()), small_set(), base)


def test_it_survives_json_and_holds_the_experiment_machine_and_tests() -> None:
    made = made_of(*SPECS)
    assert json.loads(json.dumps(made)) == made
    read = Experiment.model_validate(made["experiment"])
    assert [spec.name for spec in read.retriever] == [spec["name"] for spec in SPECS]
    assert made["made"].endswith("+00:00")
    assert made["analyzer_version"] == VERSION
    assert made["versions"] == {library: version(library) for library in LIBRARIES} | {
        "python": made["versions"]["python"]
    }
    machine = made["hardware"]
    assert (machine["logical_cores"], machine["memory"]) == (os.cpu_count(), psutil.virtual_memory().total)
    told = {"level": 0.95, "resamples": RESAMPLES, "permutations": PERMUTATIONS, "seed": 0, "correction": "max-t"}
    assert made["statistics"] == told


def test_data_and_split() -> None:
    made = made_of(*SPECS, split="test", test_share=0.5, seed=3)
    question_set = small_set()
    rows = split(question_set, Experiment.model_validate(made["experiment"]).split_options).rows
    fingerprints = {"fingerprint": question_set.fingerprint, "corpus_fingerprint": question_set.corpus_fingerprint}
    assert made["data"] == {"name": "small", **fingerprints, "questions": 6, "passages": 5}
    asked = {"part": "test", "validation": 0.1, "test": 0.5, "seed": 3}
    counts = {"questions": {part.value: len(rows[part]) for part in Part}, "shared_test_questions": 0}
    how = {"method": "grouped", "published": False, "description": "drawn by article, seed 3"}
    assert made["split"] == asked | counts | how


def test_open_values_are_what_they_came_to() -> None:
    made = made_of(*SPECS)["retrievers"]
    auto = made["auto"]
    assert (auto["analyzer"], auto["k1"], auto["chosen_on"]) == ("kiwi+bigram", 1.2, "validation")
    assert made["both"]["of"] == ["auto", "starter"]
    assert made["reranked"]["weight"] == 0.5  # what an untrained starter decides
    assert made["starter"]["model"]["reference"] == "starter"
    assert len(made["starter"]["model"]["fingerprint"]) == 64
    assert made["lost"]["model"] == {"reference": "no such model!", "error": "model_not_found"}


def test_models_and_runs_are_known_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "theirs.trec").write_text("abc")
    made = made_of(
        {"name": "folder", "kind": "dense", "model": "model"},
        {"name": "run", "kind": "run", "path": "theirs.trec"},
        {"name": "gone", "kind": "run", "path": "gone.trec"},
        base=tmp_path,
    )["retrievers"]
    source = find_model("model", tmp_path)
    assert source.folder is not None
    assert made["folder"]["model"]["fingerprint"] == content_fingerprint(source.folder)
    # the well-known sha256 of "abc"
    assert made["run"]["fingerprint"] == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert made["gone"] == {"kind": "run", "path": "gone.trec"}


def test_a_hub_model_is_known_by_its_commit(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "hub" / "somebody" / "base").mkdir(parents=True)
    with hub_server(tmp_path / "hub") as url:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
        made = made_of({"name": "hub", "kind": "dense", "model": "somebody/base"})
    assert made["retrievers"]["hub"]["model"] == {"reference": "somebody/base", "revision": COMMIT}


def test_the_commit_is_never_required(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("mrc_workbench.data.jobs.processes.PROJECT", tmp_path)
    assert made_of(*SPECS)["commit"] == ""
    (tmp_path / ".git").mkdir()
    assert made_of(*SPECS)["commit"] == ""


def test_comparison_of_an_earlier_version_keeps_its_strict_split() -> None:
    """Its part had nearly all questions of a set that is now divided otherwise, and is shown as it was."""
    whole = chain(60)
    strict = experiment_of(BIGRAMS, split="train", strict_split=True)
    rows = split(whole, strict.split_options).rows
    part = next(part for part in (Part.TRAIN, Part.VALIDATION, Part.TEST) if len(rows[part]))
    compared_then = compare(strict.model_copy(update={"split": part}), whole)
    folder = workspace() / "comparisons" / "0123456789abcdef"
    keep(compared_then, folder, provenance(compared_then, whole))
    origin = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    del origin["experiment"]["strict_split"]  # unknown then
    (folder / "provenance.json").write_text(json.dumps(origin), encoding="utf-8")
    opened = load(folder, whole)
    assert len(opened.question_set.questions) == 60
    assert opened.experiment.strict_split
    assert opened.parts is not None
    assert opened.parts.options.strict
    assert len(experiment_of(BIGRAMS, split=part).asked(whole).questions) < 60
