"""A comparison says what it was made of."""

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from data.split import Part, split
from models.sources import content_fingerprint, find_model
from retrieval.comparison.compare import compare
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.store import LIBRARIES, provenance
from retrieval.evaluation.families import PERMUTATIONS
from retrieval.evaluation.significance import RESAMPLES
from tests.doubles import small_set
from tests.hub import COMMIT, hub_server
from text.analyzers import VERSION

SPECS: list[dict[str, Any]] = [
    {"name": "auto", "kind": "bm25", "k1": 1.2, "chosen_on": "validation"},
    {"name": "starter", "kind": "dense"},
    {"name": "both", "kind": "hybrid", "of": ["auto", "starter"]},
    {"name": "reranked", "kind": "rerank", "first": "auto"},
    {"name": "lost", "kind": "dense", "model": "no such model!"},
]


def made_of(*specs: dict[str, Any], base: Path | None = None, **more: object) -> dict[str, Any]:
    experiment = Experiment.model_validate({"data": "small", "ks": (1,), "retriever": specs} | more)
    words = Experiment.model_validate(
        {"data": "small", "ks": (1,), "retriever": [{"name": "w", "kind": "bm25", "analyzer": "word"}]} | more
    )
    compared = compare(words, small_set())  # what is noted needs no search
    compared = type(compared)(experiment, compared.question_set, ())
    return provenance(compared, small_set(), base)


def test_it_survives_json_and_holds_the_experiment() -> None:
    made = made_of(*SPECS)
    assert json.loads(json.dumps(made)) == made
    read = Experiment.model_validate(made["experiment"])
    assert [spec.name for spec in read.retriever] == [spec["name"] for spec in SPECS]
    assert made["made"].endswith("+00:00")


def test_data_and_split() -> None:
    made = made_of(*SPECS, split="test", test_share=0.5, seed=3)
    question_set = small_set()
    rows = split(question_set, Experiment.model_validate(made["experiment"]).split_options).rows
    assert made["data"] == {
        "name": "small",
        "fingerprint": question_set.fingerprint,
        "corpus_fingerprint": question_set.corpus_fingerprint,
        "questions": 6,
        "passages": 5,
    }
    assert made["split"] == {
        "part": "test",
        "validation": 0.1,
        "test": 0.5,
        "seed": 3,
        "questions": {part.value: len(rows[part]) for part in Part},
    }


def test_open_values_are_what_they_came_to() -> None:
    made = made_of(*SPECS)["retrievers"]
    assert (made["auto"]["analyzer"], made["auto"]["k1"], made["auto"]["chosen_on"]) == (
        "kiwi+bigram",
        1.2,
        "validation",
    )
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


def test_versions_machine_and_tests() -> None:
    made = made_of(*SPECS)
    assert made["analyzer_version"] == VERSION
    versions = dict(made["versions"])
    del versions["python"]
    assert versions == {library: version(library) for library in LIBRARIES}
    assert (made["hardware"]["logical_cores"], made["hardware"]["memory"]) == (
        os.cpu_count(),
        psutil.virtual_memory().total,
    )
    told = {"level": 0.95, "resamples": RESAMPLES, "permutations": PERMUTATIONS, "seed": 0, "correction": "holm"}
    assert made["statistics"] == told


def test_the_commit_is_never_required(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("jobs.machine.PROJECT", tmp_path)
    assert made_of(*SPECS)["commit"] == ""
    (tmp_path / ".git").mkdir()
    assert made_of(*SPECS)["commit"] == ""
