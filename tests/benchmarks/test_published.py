"""Published scores have a source; the page shows them beside the measured ones, and no other numbers."""

import re
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, nDCG

from benchmarks.quality.published import OwnMetric, average_precision, per_question, read_published, table
from mrc_workbench.data.workspace import PROJECT
from tests.doubles import small_set
from tests.retrieval.compared import rankings_of

PAGE = PROJECT / "docs" / "quality.md"
OWN = re.compile(r"\d+\.\d\d \(\d+\.\d\d to \d+\.\d\d\)|dataset not available")


def section() -> str:
    """Return the section of published results of the page on quality."""
    text = PAGE.read_text(encoding="utf-8")
    return text.partition("\n## Published results\n")[2].partition("\n## ")[0]


def generated_lines() -> list[str]:
    """Return the lines that the benchmark wrote."""
    return section().partition("<!-- bench: published -->\n")[2].partition("<!-- /bench -->")[0].splitlines()


def test_every_metric_has_a_source_and_every_source_a_metric() -> None:
    known = read_published()
    ids = [source.id for source in known.source]
    assert len(set(ids)) == len(ids)
    assert {metric.source for published_set in known.set for metric in published_set.metric} == set(ids)


@pytest.mark.parametrize(
    "change", [("https://", "http://"), ("value = 37.143", "value = 371.43"), ("read = ", "seen = ")]
)
def test_rejects_metrics_without_a_valid_source(tmp_path: Path, change: tuple[str, str]) -> None:
    path = tmp_path / "published.toml"
    text = (PROJECT / "benchmarks" / "published.toml").read_text(encoding="utf-8")
    path.write_text(text.replace(*change), encoding="utf-8")
    with pytest.raises(ValueError, match="validation error"):
        read_published(path)


def test_page_shows_the_published_metrics() -> None:
    known = read_published()
    lines = generated_lines()
    rows = [line for line in lines if line.startswith("| ")]
    measured = [OWN.search(row) for row in rows]
    anonymous = [OWN.sub("HERE", row) for row in rows]
    expected = [OWN.sub("HERE", row) for row in table(known, {}) if row.startswith("| ")]
    assert anonymous == expected
    file_by_name = {published_set.name: bool(published_set.file) for published_set in known.set}
    has_file = False
    for row, match in zip(rows[1:], measured[1:], strict=True):
        if row.startswith("| **"):
            has_file = file_by_name[row.split("**")[1]]
        else:
            assert match is not None
            assert (match[0] == "dataset not available") is not has_file
    assert [line for line in lines if re.match(r"\d+\. \[", line)] == table(known, {})[-len(known.source) :]


def test_section_has_no_numbers_outside_generated_tables() -> None:
    text = section()
    assert text
    written = re.sub(r"<!-- bench: \w+ -->.*?<!-- /bench -->", "", text, flags=re.DOTALL)
    assert re.findall(r"\d*\.\d+", written) == []


def test_table_shows_own_metric_beside_published() -> None:
    known = read_published()
    published_set = next(candidate for candidate in known.set if candidate.file)
    measure = published_set.metric[0].measure
    rows = table(known, {(published_set.name, measure): OwnMetric(12.3, 10, 15)})
    matches = [row for row in rows if "| 12.30 (10.00 to 15.00) |" in row]
    assert [row.split(" | ")[0] for row in matches] == [
        f"| {metric.system}" for metric in published_set.metric if metric.measure == measure
    ]


def test_average_precision_equals_trec_eval() -> None:
    question_set = small_set()
    n_questions = len(question_set.questions)
    n_passages = len(question_set.passages)
    random = np.random.default_rng(0)
    rankings = rankings_of([random.permutation(n_passages)[:4].tolist() for _ in range(n_questions)], depth=n_passages)
    qrels = {question.id: dict.fromkeys(question.relevant, 1) for question in question_set.questions}
    run = {
        question.id: {
            question_set.passages[row].id: float(score)
            for row, score in zip(rankings.indices[number].tolist(), rankings.scores[number].tolist(), strict=True)
            if row >= 0
        }
        for number, question in enumerate(question_set.questions)
    }
    theirs = ir_measures.calc_aggregate([AP, nDCG], qrels, run)
    assert average_precision(rankings, question_set).mean() == pytest.approx(theirs[AP])
    assert per_question(rankings, question_set, "map").mean() == pytest.approx(theirs[AP])
    assert per_question(rankings, question_set, "ndcg").mean() == pytest.approx(theirs[nDCG])
    both = [nDCG @ 5, nDCG @ 10]
    theirs = ir_measures.calc_aggregate(both, qrels, run)
    mean = np.mean([theirs[metric] for metric in both])
    assert per_question(rankings, question_set, "ndcg@5, ndcg@10").mean() == pytest.approx(mean)
