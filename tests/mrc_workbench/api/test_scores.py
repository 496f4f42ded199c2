"""Tables, tests and runs of scored rankings; ir_measures is the independent source."""

from collections.abc import Iterator

import ir_measures
import numpy as np
import pandas as pd
import pytest

import mrc_workbench as mrc

pytestmark = pytest.mark.usefixtures("kept_work")
METRICS = ["R@5", "nDCG@10", "RR@10", "AP", "P@5"]


@pytest.fixture
def result() -> mrc.ComparisonResult:
    return mrc.compare("sample", ["bm25", "bm25-words"], progress=False)


def tied_run(seed: int) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Return judgements and a run in which most scores tie."""
    rng = np.random.default_rng(seed)
    ids = [f"d{number}" for number in range(40)]
    qrels = {f"q{q}": {str(id_): int(rng.integers(1, 3)) for id_ in rng.choice(ids, 5)} for q in range(10)}
    run = {f"q{q}": {str(id_): float(rng.integers(0, 2)) for id_ in rng.choice(ids, 30)} for q in range(10)}
    return qrels, run


@pytest.mark.parametrize("name", ["BM25", "BM25 words"])
def test_run_gives_other_tools_the_numbers_of_the_table(result: mrc.ComparisonResult, name: str) -> None:
    qrels = {question.id: dict(question.grade_of) for question in result.question_set.questions}
    measures = [ir_measures.parse_measure(metric) for metric in METRICS]
    expected = ir_measures.calc_aggregate(measures, qrels, result.run(name))
    table = result.table(METRICS)
    for metric, measure in zip(METRICS, measures, strict=True):
        assert table.loc[name, metric] == pytest.approx(expected[measure], abs=1e-6), metric


def test_run_has_strictly_descending_scores(result: mrc.ComparisonResult) -> None:
    for scores in result["bm25-words"].run().values():
        assert (np.diff(np.array(list(scores.values()), np.float32)) < 0).all()


def test_run_compared_again_has_the_same_values(result: mrc.ComparisonResult) -> None:
    again = mrc.compare("sample", {"again": result.run("bm25-words")}, progress=False)
    assert again.table(METRICS).loc["again"].tolist() == pytest.approx(result.table(METRICS).loc["BM25 words"].tolist())


@pytest.mark.parametrize("seed", range(3))
def test_run_of_an_evaluation_keeps_the_order_of_ties(seed: int) -> None:
    qrels, run = tied_run(seed)
    of_trec_eval = ["R@5", "nDCG@10", "RR", "AP", "P@5"]  # RR@10 of ir_measures orders ties in another way
    result = mrc.evaluate(qrels, run, of_trec_eval)
    for metrics, of in ((of_trec_eval, run), (METRICS, result.run("run"))):
        measures = [ir_measures.parse_measure(metric) for metric in metrics]
        expected = ir_measures.calc_aggregate(measures, qrels, of)
        values = [expected[measure] for measure in measures]
        assert result.table(metrics).loc["run"].tolist() == pytest.approx(values, abs=1e-6)


def test_metric_deeper_than_the_search_has_no_value_whoever_computes_it() -> None:
    result = mrc.compare("sample", ["bm25", "bm25-words"], ks=[1, 5], progress=False)
    assert result.table(["R@20", "P@20", "AP@20"]).isna().all().all()
    assert result.table(["R@7", "P@7", "AP", "R@10", "P@10"]).notna().all().all()


def test_retrievers_without_a_value_stay_in_the_tests() -> None:
    result = mrc.compare("sample", ["bm25", "bm25-words"], ks=[1, 5], progress=False)
    rows = result.differences("bm25", ["nDCG@10", "P@20"]).set_index("metric")
    assert rows["retriever"].tolist() == ["BM25 words", "BM25 words"]
    assert rows.loc["P@20", ["difference", "p", "wins"]].isna().all()
    assert not rows.loc["P@20", "significant"]
    assert rows.loc["nDCG@10", "wins"] + rows.loc["nDCG@10", "ties"] + rows.loc["nDCG@10", "losses"] == len(
        result.question_set.questions
    )


def test_result_is_a_collection_of_names(result: mrc.ComparisonResult) -> None:
    names: Iterator[str] = iter(result)
    assert list(names) == ["BM25", "BM25 words"]
    assert len(result) == 2
    assert "BM25" in result
    assert "bm25-words" in result
    assert "dense" not in result
    assert 0 not in result
    with pytest.raises(ValueError, match="by its name, one of"):
        result[0]  # type: ignore[index]


def test_measures_of_ir_measures_are_metrics(result: mrc.ComparisonResult) -> None:
    table = result.table([ir_measures.AP, ir_measures.nDCG @ 10, "P@5"])
    pd.testing.assert_frame_equal(table, result.table(["AP", "nDCG@10", "P@5"]))
    qrels, run = tied_run(0)
    assert mrc.evaluate(qrels, run, ir_measures.AP(rel=2)).table().columns.tolist() == ["AP(rel=2)"]
    chart = result.plot(ir_measures.AP).to_dict()
    assert chart == result.plot("AP").to_dict()
