"""Comparisons of the API: retrievers, tables, significance tests and storage."""

from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pytest

import mrc_workbench as mrc
from mrc_workbench.api.values import ApiError
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import save_question_set
from mrc_workbench.retrieval.analysis.evidence import evidence
from mrc_workbench.retrieval.analysis.open_comparison import OpenComparison
from mrc_workbench.retrieval.comparison.experiment import Experiment, added_retrievers, parse_spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob, get_comparison
from mrc_workbench.retrieval.searcher import open_searcher
from mrc_workbench.workbench.views.choices import choices_for

pytestmark = pytest.mark.usefixtures("stored_work")
QUERY = "자격루는 누가 만들었는가?"


@pytest.fixture
def result() -> mrc.ComparisonResult:
    return mrc.compare("sample", ["bm25", "bm25-words"], progress=False)


def test_stores_result_as_the_page_does(result: mrc.ComparisonResult, sample: QuestionSet) -> None:
    stored = save_question_set(sample)
    experiment = choices_for(stored).experiment(stored, ["BM25", "BM25 words"], result.comparison.experiment.split)
    assert ComparisonJob.of(experiment, sample.fingerprint).id == result.key
    stored_comparison = get_comparison(result.key)
    assert stored_comparison is not None
    assert result.key in mrc.comparisons().index
    opened = OpenComparison(stored_comparison.folder, sample)
    assert opened.comparison.scores.keys() == {"BM25", "BM25 words"}


def test_opened_comparison_has_equal_tables(result: mrc.ComparisonResult) -> None:
    opened = mrc.open_comparison(result.key)
    pd.testing.assert_frame_equal(opened.to_pandas(), result.to_pandas())
    pd.testing.assert_frame_equal(opened.differences("bm25"), result.differences("bm25"))


def test_tables_match_the_page(result: mrc.ComparisonResult) -> None:
    page_evidence = evidence(result.comparison, "BM25")
    table = result.to_pandas(["nDCG@10", "R@5"]).set_index(["retriever", "metric"])
    for name, scores in result.comparison.scores.items():
        for label, measure in (("nDCG@10", "ndcg@10"), ("R@5", "recall@5")):
            expected = (scores.means()[measure], *page_evidence.intervals[name][measure])
            assert table.loc[(name, label)].tolist() == pytest.approx(expected)
    (row,) = result.differences("bm25").itertuples()
    test = page_evidence.test("BM25 words", "ndcg@10")
    assert test is not None
    expected_row = (test.difference, test.low, test.high, test.p_family, test.wins)
    assert (row.difference, row.low, row.high, row.p_corrected, row.wins) == pytest.approx(expected_row)
    assert row.significant == test.is_significant


def test_accepts_any_ir_measures_metric(result: mrc.ComparisonResult) -> None:
    table = result.table(["AP", "P@5", "RBP(rel=1)", "R@10"])
    assert table.columns.tolist() == ["AP", "P@5", "RBP(rel=1)", "R@10"]
    assert result.per_question("AP")["BM25"].mean() == pytest.approx(table.loc["BM25", "AP"])
    with pytest.raises(ValueError, match="did you mean nDCG@10"):
        result.table("nDCX@10")


def test_charts_match_tables(result: mrc.ComparisonResult) -> None:
    (rows,) = result.plot("nDCG@10").to_dict()["datasets"].values()
    expected = result.table("nDCG@10")["nDCG@10"].to_dict()
    assert {row["retriever"]: row["mean"] for row in rows} == pytest.approx(expected)
    (curves,) = result.plot().to_dict()["datasets"].values()
    assert {row["k"] for row in curves} == {1, 5, 10, 20, 50, 100}


def test_search_matches_command_line(result: mrc.ComparisonResult) -> None:
    hits = result["bm25"].search(QUERY, k=3, progress=False)
    expected = open_searcher(result.key, "BM25").search([QUERY], 3)[0]
    assert hits["passage_id"].tolist() == [hit.id for hit in expected]
    assert hits["rank"].tolist() == [1, 2, 3]
    assert hits["score"].tolist() == [hit.score for hit in expected]
    alone = mrc.search("sample", QUERY, "bm25", k=3, progress=False)
    pd.testing.assert_frame_equal(alone, hits)
    with pytest.raises(ApiError, match="search needs a retriever of this project"):
        mrc.search("sample", "a", lambda query, k: [query][:k], progress=False)


@pytest.mark.slow
def test_adds_components_of_named_retrievers() -> None:
    result = mrc.compare("sample", "mix", progress=False)
    assert result.names == ["BM25", "Dense", "Best mix"]
    assert result.find("mix") == "Best mix"


def test_accepts_dictionaries_specs_and_mappings() -> None:
    strong: dict[str, Any] = {"kind": "bm25", "k1": 1.6, "name": "Strong"}
    pair = {"kind": "hybrid", "name": "Pair", "retrievers": ["bm25", "Strong"]}
    windows = parse_spec({"kind": "bm25-windows", "name": "Windows"})
    result = mrc.compare("sample", [strong, windows, pair], progress=False)
    assert result.names == ["Strong", "Windows", "BM25", "Pair"]
    named = mrc.compare("sample", {"mine": {"kind": "bm25", "b": 0.7}, "theirs": "bm25"}, progress=False)
    assert named.names == ["mine", "theirs"]


def test_reads_data_and_retrievers_of_experiment_file(tmp_path: Path) -> None:
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


def test_compares_runs_of_dictionary_table_and_file(result: mrc.ComparisonResult, tmp_path: Path) -> None:
    run = result["bm25"].run()
    rows = [(query, passage, score) for query, scores in run.items() for passage, score in scores.items()]
    table = pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])
    file = tmp_path / "mine.trec"
    file.write_text("".join(f"{query} Q0 {passage} 1 {score!r} x\n" for query, passage, score in rows))
    runs = mrc.compare("sample", {"a": run, "b": table, "c": str(file), "d": "bm25"}, progress=False)
    assert runs.names == ["a", "b", "c", "d"]
    for name in "abc":
        assert runs.table().loc[name].tolist() == pytest.approx(runs.table().loc["d"].tolist())
    assert runs.costs().loc["a"].isna().all()
    listed = {spec.name for spec in added_retrievers(runs.dataset.question_set.fingerprint)}  # on the Compare page
    assert {"a", "b"} <= listed
    with pytest.raises(ValueError, match="a is a run"):
        runs["a"].search(QUERY, progress=False)


def test_returns_unstored_result_with_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "/workspace")

    monkeypatch.setattr("mrc_workbench.api.comparison.store_comparison", full)
    with pytest.warns(UserWarning, match="the disk is full"):
        result = mrc.compare("sample", "bm25", progress=False)
    assert result.key == ""
    assert mrc.compare("sample", "bm25", store=False, progress=False).key == ""


def test_names_failed_retriever_and_escapes_names() -> None:
    gone = {"kind": "dense", "model": "no/such folder"}
    result = mrc.compare("sample", {"<b>x</b>": "bm25", "Gone": gone}, progress=False)
    assert result.names == ["<b>x</b>"]
    assert "no/such folder" in result.failures["Gone"]
    assert "Gone failed" in result._repr_html_()
    assert "<b>x" not in result._repr_html_()
    assert "&lt;b&gt;x" in result._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ks": [0]}, r"ks must be a list of whole numbers from 1 to .*, not \[0\]"),
        ({"ks": []}, "ks must be"),
        ({"ks": "x"}, "ks must be"),
        ({"ks": 5}, "ks must be"),
        ({"ks": [1.5]}, "ks must be"),
        ({"relevance_level": 0}, "relevance_level must be a whole number of 1 or more, not 0"),
        ({"relevance_level": "x"}, "relevance_level must be"),
        ({"relevance_level": 2}, "no question of the dataset has a relevant passage of grade 2 or higher"),
        ({"split": "test"}, "split must be a SplitOptions"),
        ({"part": 5}, "part must be one of"),
        ({"part": "dev"}, "part must be one of all, train"),
    ],
)
def test_compare_rejects_invalid_values(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ApiError, match=message):
        mrc.compare("sample", "bm25", progress=False, **arguments)


def test_compare_accepts_earlier_argument_name(caplog: pytest.LogCaptureFixture) -> None:
    earlier: dict[str, Any] = {"relevant_from": 0}
    with pytest.raises(ApiError, match="relevance_level must be a whole number"):
        mrc.compare("sample", "bm25", progress=False, **earlier)
    assert "'relevant_from' is now 'relevance_level'" in caplog.text


@pytest.mark.parametrize(
    ("query", "k", "message"),
    [
        (None, 3, "the query must be text, not None"),
        (["a"], 3, "the query must be text"),
        ("a", 0, "k must be a whole number of 1 or more, not 0"),
        ("a", "x", "k must be a whole number"),
        ("a", 2.5, "k must be a whole number"),
    ],
)
def test_search_rejects_invalid_values(query: Any, k: Any, message: str) -> None:
    with pytest.raises(ApiError, match=message):
        mrc.search("sample", query, k=k, progress=False)
    result = mrc.compare("sample", "bm25", progress=False)
    with pytest.raises(ApiError, match=message):
        result["bm25"].search(query, k=k, progress=False)


METRICS = ["R@5", "nDCG@10", "RR@10", "AP", "P@5"]


def of_ir_measures(metrics: list[str], qrels: Any, run: Any, error: float = 1e-6) -> Any:
    measures = [ir_measures.parse_measure(metric) for metric in metrics]
    expected = ir_measures.calc_aggregate(measures, qrels, run)
    return pytest.approx([expected[measure] for measure in measures], abs=error)


def tied_run(seed: int) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Return judgements and a run in which most scores tie."""
    rng = np.random.default_rng(seed)
    ids = [f"d{number}" for number in range(40)]
    qrels = {f"q{q}": {str(id_): int(rng.integers(1, 3)) for id_ in rng.choice(ids, 5)} for q in range(10)}
    run = {f"q{q}": {str(id_): float(rng.integers(0, 2)) for id_ in rng.choice(ids, 30)} for q in range(10)}
    return qrels, run


@pytest.mark.parametrize("name", ["BM25", "BM25 words"])
def test_exported_run_has_equal_metrics_in_other_tools(result: mrc.ComparisonResult, name: str) -> None:
    qrels = {question.id: dict(question.grade_of) for question in result.question_set.questions}
    assert result.table(METRICS).loc[name].tolist() == of_ir_measures(METRICS, qrels, result.run(name))


def test_run_has_strictly_descending_scores(result: mrc.ComparisonResult) -> None:
    for scores in result["bm25-words"].run().values():
        assert (np.diff(np.array(list(scores.values()), np.float32)) < 0).all()
    again = mrc.compare("sample", {"again": result.run("bm25-words")}, progress=False)
    assert again.table(METRICS).loc["again"].tolist() == pytest.approx(result.table(METRICS).loc["BM25 words"].tolist())


@pytest.mark.parametrize("seed", range(3))
def test_evaluation_run_keeps_tie_order(seed: int) -> None:
    qrels, run = tied_run(seed)
    of_trec_eval = ["R@5", "nDCG@10", "RR", "AP", "P@5"]  # RR@10 of ir_measures orders ties differently
    result = mrc.evaluate(qrels, run, of_trec_eval)
    for metrics, of in ((of_trec_eval, run), (METRICS, result.run("run"))):
        assert result.table(metrics).loc["run"].tolist() == of_ir_measures(metrics, qrels, of)


def test_metric_deeper_than_search_is_missing_but_tested() -> None:
    result = mrc.compare("sample", ["bm25", "bm25-words"], ks=np.array([1, 5]), progress=False)
    assert result.comparison.experiment.ks == (1, 5)
    assert result.table(["R@20", "P@20", "AP@20", "R@50"]).isna().all().all()
    assert result.table(["R@7", "P@7", "AP", "R@10", "P@10"]).notna().all().all()
    rows = result.differences("bm25", ["nDCG@10", "P@20"]).set_index("metric")
    assert rows["retriever"].tolist() == ["BM25 words", "BM25 words"]
    assert rows.loc["P@20", ["difference", "p", "wins"]].isna().all()
    assert not rows.loc["P@20", "significant"]
    assert rows.loc["nDCG@10", ["wins", "ties", "losses"]].sum() == len(result.question_set.questions)


def test_result_is_a_collection_of_names(result: mrc.ComparisonResult) -> None:
    assert (list(result), len(result)) == (["BM25", "BM25 words"], 2)
    assert [name in result for name in ("BM25", "bm25-words", "dense", 0)] == [True, True, False, False]
    with pytest.raises(ValueError, match="by its name, one of"):
        result[0]  # type: ignore[index]


def test_accepts_ir_measures_measures(result: mrc.ComparisonResult) -> None:
    table = result.table([ir_measures.AP, ir_measures.nDCG @ 10, "P@5"])
    pd.testing.assert_frame_equal(table, result.table(["AP", "nDCG@10", "P@5"]))
    qrels, run = tied_run(0)
    assert mrc.evaluate(qrels, run, ir_measures.AP(rel=2)).table().columns.tolist() == ["AP(rel=2)"]
    chart = result.plot(ir_measures.AP).to_dict()
    assert chart == result.plot("AP").to_dict()
