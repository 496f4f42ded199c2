"""What a first visit finds made: the sample's tokens come with it, and the packaged base is written."""

import numpy as np
import pytest

from data import cache
from data.store import CATALOG, read_entry
from data.workspace import workspace
from retrieval.comparison.compare import compare, ship, write_bases
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.first_stage import BM25Spec, DenseSpec
from text import analysis as analysis_module
from text.analyzers import Analyzer
from text.tokens import tokens_of

SAMPLE = read_entry(CATALOG["sample"]).question_set
TEXTS = SAMPLE.passages.indexed_texts(title=True)
QUESTIONS = [question.text for question in SAMPLE.questions]


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """No text is read by Kiwi."""

    def read(texts: list[str], *_: object) -> list[object]:
        raise AssertionError(f"{len(texts)} texts are analyzed")

    monkeypatch.setattr(analysis_module, "morphemes", read)


def test_the_first_comparison_of_the_sample_analyzes_nothing(unread: None) -> None:
    experiment = Experiment(data="sample", retriever=(BM25Spec(name="BM25"),))
    found = compare(experiment, SAMPLE)
    assert [result.error for result in found.results] == [None]
    assert tokens_of(Analyzer.KIWI, TEXTS).texts()[0]


@pytest.mark.slow
def test_what_comes_with_the_sample_is_what_its_analyzer_says_today(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {path.name for path in cache.shipped("tokens", "").parent.glob("*.npz")}
    shipped = [tokens_of(Analyzer.KIWI_BIGRAM, texts) for texts in (QUESTIONS, TEXTS)]
    monkeypatch.setattr(cache, "_SHIPPED", tmp_path_factory.mktemp("sample"))
    monkeypatch.setenv("MRC_WORKSPACE", str(tmp_path_factory.mktemp("workspace")))
    for texts, before in zip((QUESTIONS, TEXTS), shipped, strict=True):
        today = tokens_of(Analyzer.KIWI_BIGRAM, texts)
        assert today.vocabulary == before.vocabulary
        np.testing.assert_array_equal(today.ids, before.ids)
        np.testing.assert_array_equal(today.offsets, before.offsets)
    ship()
    assert {path.name for path in cache.shipped("tokens", "").parent.glob("*.npz")} == names


@pytest.mark.slow
@pytest.mark.packaged
def test_the_bases_of_an_experiment_are_written_where_they_are_missing() -> None:
    dense = DenseSpec(name="Dense", model="packaged:multilingual-e5-small")
    unknown = DenseSpec(name="unknown", model="packaged:nothing")
    experiment = Experiment(data="sample", retriever=(BM25Spec(name="BM25"), unknown, dense))
    write_bases(experiment)
    (folder,) = (workspace() / "cache" / "packaged").glob("multilingual-e5-small-*/")
    written = (folder / "model.safetensors").stat().st_mtime_ns
    write_bases(experiment)
    assert (folder / "model.safetensors").stat().st_mtime_ns == written
