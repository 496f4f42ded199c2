"""Comparisons of the API: their retrievers, tables and tests, and where they are stored."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mrc_workbench as mrc
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import keep
from mrc_workbench.retrieval.analysis.evidence import evidence
from mrc_workbench.retrieval.analysis.open_comparison import OpenComparison
from mrc_workbench.retrieval.comparison.experiment import Experiment, added, of_kind
from mrc_workbench.retrieval.comparison.multistage import UnknownRetrieverError
from mrc_workbench.retrieval.comparison.store import ComparisonJob, kept_comparison
from mrc_workbench.retrieval.searcher import open_searcher
from mrc_workbench.workbench.views.choices import choices_for

pytestmark = pytest.mark.usefixtures("kept_work")
QUERY = "자격루는 누가 만들었는가?"


@pytest.fixture
def result() -> mrc.ComparisonResult:
    return mrc.compare("sample", ["bm25", "bm25-words"], progress=False)


def test_result_is_stored_as_the_page_stores_it(result: mrc.ComparisonResult, sample: QuestionSet) -> None:
    stored = keep(sample)
    experiment = choices_for(stored).experiment(stored, ["BM25", "BM25 words"], result.comparison.experiment.split)
    assert ComparisonJob.of(experiment, sample.fingerprint).id == result.key
    kept = kept_comparison(result.key)
    assert kept is not None
    assert result.key in mrc.comparisons().index
    opened = OpenComparison(kept.folder, sample)
    assert opened.comparison.scores.keys() == {"BM25", "BM25 words"}


def test_opened_comparison_has_the_same_tables(result: mrc.ComparisonResult) -> None:
    opened = mrc.open_comparison(result.key)
    pd.testing.assert_frame_equal(opened.to_pandas(), result.to_pandas())
    pd.testing.assert_frame_equal(opened.differences("bm25"), result.differences("bm25"))


def test_tables_have_the_numbers_of_the_page(result: mrc.ComparisonResult) -> None:
    found = evidence(result.comparison, "BM25")
    table = result.to_pandas(["nDCG@10", "R@5"]).set_index(["retriever", "metric"])
    for name, scores in result.comparison.scores.items():
        for label, measure in (("nDCG@10", "ndcg@10"), ("R@5", "recall@5")):
            expected = (scores.means()[measure], *found.intervals[name][measure])
            assert table.loc[(name, label)].tolist() == pytest.approx(expected)
    (row,) = result.differences("bm25").itertuples()
    test = found.test("BM25 words", "ndcg@10")
    assert test is not None
    assert (row.difference, row.low, row.high, row.p_corrected, row.wins) == pytest.approx(
        (test.difference, test.low, test.high, test.p_family, test.wins)
    )
    assert row.significant == test.sure


def test_table_takes_any_metric_of_ir_measures(result: mrc.ComparisonResult) -> None:
    table = result.table(["AP", "P@5", "RBP(rel=1)", "R@10"])
    assert table.columns.tolist() == ["AP", "P@5", "RBP(rel=1)", "R@10"]
    assert result.per_question("AP")["BM25"].mean() == pytest.approx(table.loc["BM25", "AP"])
    with pytest.raises(ValueError, match="did you mean nDCG@10"):
        result.table("nDCX@10")


def test_metric_deeper_than_the_search_has_no_value() -> None:
    result = mrc.compare("sample", "bm25", ks=[1, 5], progress=False)
    assert np.isnan(result.table("R@50").loc["BM25", "R@50"])
    assert result.table("R@7").notna().all().all()


def test_charts_have_the_numbers_of_the_tables(result: mrc.ComparisonResult) -> None:
    (rows,) = result.plot("nDCG@10").to_dict()["datasets"].values()
    expected = result.table("nDCG@10")["nDCG@10"].to_dict()
    assert {row["retriever"]: row["mean"] for row in rows} == pytest.approx(expected)
    (curves,) = result.plot().to_dict()["datasets"].values()
    assert {row["k"] for row in curves} == {1, 5, 10, 20, 50, 100}


def test_retriever_searches_as_the_command_line_does(result: mrc.ComparisonResult) -> None:
    hits = result["bm25"].search(QUERY, k=3, progress=False)
    expected = open_searcher(result.key, "BM25").search([QUERY], 3)[0]
    assert hits["passage_id"].tolist() == [hit.id for hit in expected]
    assert hits["rank"].tolist() == [1, 2, 3]
    assert hits["score"].tolist() == [hit.score for hit in expected]
    alone = mrc.search("sample", QUERY, "bm25", k=3, progress=False)
    pd.testing.assert_frame_equal(alone, hits)


@pytest.mark.slow
def test_names_bring_the_retrievers_that_they_combine() -> None:
    result = mrc.compare("sample", "mix", progress=False)
    assert result.names == ["BM25", "Dense", "Best mix"]
    assert result.find("mix") == "Best mix"


def test_dictionaries_specs_and_mappings_are_retrievers() -> None:
    strong: dict[str, Any] = {"kind": "bm25", "k1": 1.6, "name": "Strong"}
    pair = {"kind": "hybrid", "name": "Pair", "of": ["bm25", "Strong"]}
    result = mrc.compare("sample", [strong, of_kind({"kind": "bm25-windows", "name": "Windows"}), pair], progress=False)
    assert result.names == ["Strong", "Windows", "BM25", "Pair"]
    named = mrc.compare("sample", {"mine": {"kind": "bm25", "b": 0.7}, "theirs": "bm25"}, progress=False)
    assert named.names == ["mine", "theirs"]


def test_experiment_file_names_its_data_and_retrievers(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text('data = "sample"\nsplit = "test"\nks = [1, 3]\n[[retriever]]\nname = "B"\nkind = "bm25"\n')
    result = mrc.compare(str(path), progress=False)
    assert result.names == ["B"]
    assert result.comparison.experiment.split == "test"
    assert result.comparison.experiment.ks == (1, 3)
    specs = [{"kind": "bm25", "name": "B"}]
    experiment = Experiment.model_validate({"data": "sample", "split": "test", "retriever": specs})
    assert mrc.compare(experiment, progress=False).table("R@1").equals(result.table("R@1"))


def test_part_selects_questions() -> None:
    whole, test = (mrc.compare("sample", "bm25", part=part, progress=False) for part in (None, "test"))
    assert 0 < len(test.question_set.questions) < len(whole.question_set.questions)
    with pytest.raises(ValueError, match="part must be one of all, train"):
        mrc.compare("sample", "bm25", part="dev", progress=False)


def test_runs_are_compared_as_dictionary_table_and_file(result: mrc.ComparisonResult, tmp_path: Path) -> None:
    run = result["bm25"].run()
    rows = [(query, passage, score) for query, found in run.items() for passage, score in found.items()]
    table = pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])
    file = tmp_path / "mine.trec"
    file.write_text("".join(f"{query} Q0 {passage} 1 {score!r} x\n" for query, passage, score in rows))
    runs = mrc.compare("sample", {"a": run, "b": table, "c": str(file), "d": "bm25"}, progress=False)
    assert runs.names == ["a", "b", "c", "d"]
    for name in "abc":
        assert runs.table().loc[name].tolist() == pytest.approx(runs.table().loc["d"].tolist())
    assert runs.costs().loc["a"].isna().all()
    assert {spec.name for spec in added(runs.dataset.question_set.fingerprint)} >= {"a", "b"}  # the page offers them
    with pytest.raises(ValueError, match="a is a run"):
        runs["a"].search(QUERY, progress=False)


def test_failed_retriever_is_named_and_left_out_of_tables() -> None:
    gone = {"kind": "dense", "name": "Gone", "model": "no/such folder"}
    result = mrc.compare("sample", ["bm25", gone], progress=False)
    assert result.names == ["BM25"]
    assert "no/such folder" in result.failures["Gone"]
    assert "Gone failed" in result._repr_html_()


def test_result_that_cannot_be_stored_is_returned_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "/workspace")

    monkeypatch.setattr("mrc_workbench.api.comparison.store_comparison", full)
    with pytest.warns(UserWarning, match="the disk is full"):
        result = mrc.compare("sample", "bm25", progress=False)
    assert result.key == ""
    assert mrc.compare("sample", "bm25", store=False, progress=False).key == ""


def test_refuses_unknown_retrievers() -> None:
    with pytest.raises(UnknownRetrieverError, match="did you mean 'bm25'"):
        mrc.compare("sample", "bm52", progress=False)
    with pytest.raises(UnknownRetrieverError, match="needs a pretrained model"):
        mrc.compare("sample", "late", progress=False)
    with pytest.raises(ValueError, match="k3: unknown field"):
        mrc.compare("sample", {"kind": "bm25", "k3": 1}, progress=False)
    with pytest.raises(ValueError, match="needs its kind"):
        mrc.compare("sample", [{"kond": "bm25"}], progress=False)
    with pytest.raises(ValueError, match="two retrievers are named"):
        mrc.compare("sample", ["bm25", {"kind": "bm25", "name": "BM25", "b": 0.9}], progress=False)
    with pytest.raises(ValueError, match="at least one retriever"):
        mrc.compare("sample", [], progress=False)


def test_notebook_shows_names_escaped() -> None:
    result = mrc.compare("sample", {"<b>x</b>": "bm25"}, progress=False)
    assert "<b>x" not in result._repr_html_()
    assert "&lt;b&gt;x" in result._repr_html_()


def test_retriever_from_outside_is_compared() -> None:
    ids = mrc.load("sample").passages.index.tolist()

    class First:
        name = "First"

        def search(self, query: str, k: int) -> list[str]:
            return ids[:k] if query else []

    result = mrc.compare("sample", [First(), "bm25"], progress=False)
    assert result.names == ["First", "BM25"]
    assert result.table("R@1").loc["First", "R@1"] < result.table("R@1").loc["BM25", "R@1"]


def test_registered_retriever_is_compared_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_RETRIEVERS", "letters=tests.search_server:ByLetters")
    result = mrc.compare("sample", ["letters", "bm25"], progress=False)
    assert result.failures == {}
    assert result["letters"].search("자격루", k=2)["rank"].tolist() == [1, 2]
