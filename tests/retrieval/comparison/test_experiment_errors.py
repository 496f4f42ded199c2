"""Errors of experiment files name the nearest known field, and no error that follows from another."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from mrc_workbench.labs.reading.evaluate import ReadingExperiment
from mrc_workbench.retrieval.comparison.experiment import Experiment, ExperimentError, read_as
from mrc_workbench.training.sweeps.variants import AblationExperiment

DATA = 'data = "sample"\n'
BM25 = '[[retriever]]\nname = "a"\nkind = "bm25"\n'
READER = '[[reader]]\nname = "r"\nmodel = "m"\ndepht = 1\n'


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (
            Experiment,
            DATA + BM25 + 'analyser = "word"\n',
            "retriever.0.bm25.analyser: unknown field; did you mean 'analyzer'?",
        ),
        (Experiment, 'splitt = "all"\n' + DATA + BM25, "splitt: unknown field; did you mean 'split'?"),
        (
            ReadingExperiment,
            DATA + BM25 + '[[reader]]\nname = "r"\nmodel = "m"\ndepht = 1\n',
            "reader.0.depht: unknown field",
        ),
        (AblationExperiment, 'txt = "sample"\n', "txt: unknown field; did you mean 'text'?"),
    ],
)
def test_an_unknown_field_is_told_with_the_nearest(kind: type[BaseModel], text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ExperimentError) as caught:
        read_as(kind, path)
    assert told in str(caught.value)
    assert "Extra inputs" not in str(caught.value)


def test_a_name_given_twice_is_told_without_the_words_of_the_library(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(DATA + BM25 + BM25, encoding="utf-8")
    with pytest.raises(ExperimentError) as caught:
        read_as(Experiment, path)
    assert str(caught.value) == "e.toml: file: two retrievers are named 'a'"


@pytest.mark.parametrize(
    ("name", "reason"), [(".", "Is a directory"), ("missing.toml", "No such file or directory"), ("", "Is a directory")]
)
def test_a_file_that_cannot_be_opened_is_named(
    name: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExperimentError) as caught:
        read_as(Experiment, Path(name))
    assert str(caught.value) == f"the experiment file {Path(name)} cannot be read: {reason}"


def test_a_field_that_resembles_none_is_told_with_all(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(DATA + BM25 + "zzz = 1\n", encoding="utf-8")
    with pytest.raises(ExperimentError, match=r"unknown field; known fields: analyzer, b, chosen_on, .*title_weight$"):
        read_as(Experiment, path)


@pytest.mark.parametrize("own", ['kind = "bm26"\n', 'kind = "bm25"\nanalyser = "word"\n', 'kind = "bm25"\nk1 = "x"\n'])
def test_a_refused_retriever_leaves_no_error_about_the_list(own: str, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(DATA + '[[retriever]]\nname = "a"\n' + own, encoding="utf-8")
    with pytest.raises(ExperimentError) as caught:
        read_as(Experiment, path)
    assert "at least 1 item" not in str(caught.value)
    path.write_text(DATA + "retriever = []\n", encoding="utf-8")
    with pytest.raises(ExperimentError, match="retriever: Tuple should have at least 1 item"):
        read_as(Experiment, path)
