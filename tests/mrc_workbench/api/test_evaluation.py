"""Evaluation of runs, compared with ir_measures."""

from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pytest

import mrc_workbench as mrc
from mrc_workbench.data.problems import Failure
from tests.mrc_workbench.api.test_comparison import of_ir_measures

METRICS = ["nDCG@10", "AP", "P@5", "RBP(rel=1)", "ERR@10", "RR@10", "R@3", "Success@1"]


def random_run(seed: int, n_queries: int = 12, n_passages: int = 30) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    qrels = {f"{q}": {f"d{p}": int(rng.integers(0, 3)) for p in rng.choice(n_passages, 6)} for q in range(n_queries)}
    for grades in qrels.values():
        grades["d0"] = 1  # each question has a relevant passage
    run = {f"{q}": {f"d{p}": float(rng.random()) for p in rng.choice(n_passages, 9)} for q in range(n_queries - 1)}
    return qrels, run


@pytest.mark.parametrize("seed", range(3))
def test_every_metric_equals_ir_measures(seed: int) -> None:
    qrels, run = random_run(seed)
    values = mrc.evaluate(qrels, run, METRICS).table().loc["run"].tolist()
    assert values == of_ir_measures(METRICS, qrels, run, error=1e-5)


def test_reads_judgements_and_runs_from_tables_and_files(tmp_path: Path) -> None:
    qrels, run = random_run(0)
    grades = [(q, 0, p, grade) for q, of in qrels.items() for p, grade in of.items()]
    run_rows = [(q, "Q0", p, 1, score, "x") for q, of in run.items() for p, score in of.items()]
    for name, rows in (("my.qrels", grades), ("run.trec", run_rows)):
        (tmp_path / name).write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    judged = pd.DataFrame(grades, columns=["query_id", "iteration", "doc_id", "relevance"])
    scored = pd.DataFrame(run_rows, columns=["qid", "Q0", "docno", "rank", "score", "name"])
    expected = mrc.evaluate(qrels, run, METRICS).table()
    pd.testing.assert_frame_equal(mrc.evaluate(judged, scored, METRICS).table(), expected)
    of_files = mrc.evaluate(str(tmp_path / "my.qrels"), str(tmp_path / "run.trec"), METRICS).table()
    pd.testing.assert_frame_equal(of_files, expected)


def precision(judgements: Any, run: Any) -> float:
    return float(mrc.evaluate(judgements, {"run": run}, "P@1").table().loc["run", "P@1"])


@pytest.mark.parametrize("columns", [("qid", "docno", "label"), ("query-id", "corpus-id", "score")])
def test_recognises_judgements_of_other_libraries(columns: tuple[str, ...], tmp_path: Path) -> None:
    table = pd.DataFrame([("01", "d1", 1), ("q2", "d2", 1)], columns=list(columns))
    table.to_csv(tmp_path / "qrels.tsv", sep="\t", index=False)  # like BEIR, with a header
    for judgements in (table, tmp_path / "qrels.tsv"):
        assert precision(judgements, {"01": {"d1": 1.0}, "q2": {"d1": 1.0}}) == 0.5


def test_loads_texts_with_labels_as_dataset() -> None:
    rows = [("q1", "d1", "Who built it?", "Jang built it.", 1), ("q2", "d2", "What is it?", "A clock.", 1)]
    table = pd.DataFrame(rows, columns=["qid", "docno", "question", "context", "label"])
    run = {"Who built it?": {"Jang built it.": 1.0}, "What is it?": {"A clock.": 1.0}}
    assert precision(table, run) == 1.0


@pytest.mark.parametrize("name", ["judged.txt", "judged"])
def test_recognises_trec_judgements_by_content(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text("q1 0 d1 1\nq2 0 d2 -1\nq2 0 d1 2\n")
    assert precision(file, {"q1": {"d1": 1.0}, "q2": {"d2": 1.0}}) == 0.5


def test_reads_ir_measures_records() -> None:
    qrels, run = random_run(0)
    judged = [ir_measures.Qrel(q, p, grade) for q, of in qrels.items() for p, grade in of.items()]
    scored_docs = [ir_measures.ScoredDoc(q, p, score) for q, of in run.items() for p, score in of.items()]
    expected = mrc.evaluate(qrels, run, METRICS).table()
    pd.testing.assert_frame_equal(mrc.evaluate(judged, scored_docs, METRICS).table(), expected)
    pd.testing.assert_frame_equal(mrc.evaluate(judged, {"run": scored_docs}, METRICS).table(), expected)


@pytest.mark.parametrize("grade", [0.7, 1.5, "0.5", float("nan"), float("inf"), None, 10**30, "high"])
def test_rejects_fractional_grades(grade: Any) -> None:
    table = pd.DataFrame({"query_id": ["q1"], "doc_id": ["d1"], "relevance": [grade]})
    for judgements in ({"q1": {"d1": grade}}, table):
        with pytest.raises(ValueError, match=r"must be a whole number, not .* \(a run's scores are no grades\)"):
            mrc.evaluate(judgements, {"q1": {"d1": 1}})


def test_accepts_whole_grades_as_floats_or_text() -> None:
    for grade in (1.0, "1", "1.0", np.float32(1), True):
        assert precision({"q1": {"d1": grade}}, {"q1": {"d1": 1.0}}) == 1.0


@pytest.mark.parametrize(
    ("qrels", "run", "message"),
    [
        ({"q1": {"d1": 1}}, [["d1"]], "run must be scores by passage id by question id"),
        ({"q1": {"d1": 1}}, {"a": 3}, "run must be scores by passage id by question id"),
        ({"q1": {"d1": 1}}, {"a": {"q0": {"d1": 1.0}, "q1": ["d1"]}}, "run of question 'q1' must be scores by passage"),
        ({"q1": {"d1": 1}}, None, "run must be scores by passage id by question id"),
        ({"q1": ["d1"]}, {"q1": {"d1": 1.0}}, "judgements of question 'q1' must be grades by passage id"),
        ({}, {"q1": {"d1": 1.0}}, "no question has a relevant passage"),
        ({"q1": {"d1": 0}}, {"q1": {"d1": 1.0}}, "no question has a relevant passage"),
        (None, {"q1": {"d1": 1.0}}, "cannot be loaded from None"),
        (3, {"q1": {"d1": 1.0}}, "cannot be loaded from int"),
        ({"q1": {"d1": 1}}, {}, "at least one"),
        ({"q1": {"d1": 1}}, {"zz": {"d1": 1.0}}, "names no question"),
        ({"q1": {"d1": 1}}, {"q1": {"d1": float("nan")}}, "finite numbers"),
        ({"q1": {"d1": 1}}, {"q1": {"d1": "high"}}, "numbers as scores"),
        ({"q1": {"d1": 1}}, pd.DataFrame({"qid": ["q1"], "score": [1.0]}), "needs a column 'doc_id'"),
    ],
)
def test_rejects_invalid_judgements_and_runs(qrels: Any, run: Any, message: str) -> None:
    with pytest.raises(Failure, match=message):
        mrc.evaluate(qrels, run)


def test_evaluates_run_on_dataset_by_ids_or_texts() -> None:
    pairs = {"Who built it?": "Jang built it.", "What is it?": "A clock."}
    rows = [{"question": question, "context": context} for question, context in pairs.items()]
    data = mrc.load(rows)
    first, second = data.passages.index
    run = {query: {first: 2.0, second: 1.0} for query in data.questions.index}
    assert mrc.evaluate(data, run, "RR@10").table().loc["run", "RR@10"] == 0.75
    texts = {"Who built it?": {"Jang built it.": 1.0}, "What is it?": {"A clock.": 1.0}}
    assert precision(data, texts) == 1.0


def test_significance_tests_every_pair_or_against_a_baseline() -> None:
    qrels, a = random_run(1)
    runs = {"a": a, "b": random_run(2)[1], "c": random_run(3)[1]}
    result = mrc.evaluate(qrels, runs)
    assert len(mrc.significance(result, "AP")) == 3
    against = mrc.significance(runs, "AP", baseline="b", data=qrels)
    assert against["retriever"].tolist() == ["a", "c"]
    assert (against["p_corrected"] >= against["p"] - 1e-12).all()
    means = result.table("AP")["AP"]
    assert against["difference"].tolist() == pytest.approx([means["a"] - means["b"], means["c"] - means["b"]])
    with pytest.raises(ValueError, match="give their judgements"):
        mrc.significance(runs)


def test_keeps_scale_of_counts_above_one() -> None:
    qrels, run = random_run(1)
    half = {query: dict(list(scores.items())[:3]) for query, scores in run.items()}
    result = mrc.evaluate(qrels, {"whole": run, "half": half}, "NumRet")
    (row,) = result.differences("half", "NumRet").itertuples()
    means = result.to_pandas("NumRet").set_index("retriever")
    assert row.difference == pytest.approx(means.loc["whole", "mean"] - means.loc["half", "mean"])
    assert row.difference > 1
    assert row.low <= row.difference <= row.high
    assert means.loc["whole", "low"] > 1


def test_counts_questions_without_relevant_passage_as_skipped() -> None:
    result = mrc.evaluate({"q1": {"d1": 1}, "q2": {"d1": 0}}, {"q1": {"d1": 1.0}, "q2": {"d1": 1.0}}, "AP")
    assert result.skipped == 1
    assert "1 without a relevant passage skipped" in repr(result)
