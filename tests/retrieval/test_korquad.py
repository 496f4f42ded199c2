"""The real KorQuAD 1.0 dev set: 961 passages, 5,774 questions."""

import os
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.split.partition import FOLDS, TrainingQueries
from mrc_workbench.data.text.analysis import tokens_of
from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.lexical.bm25 import BM25
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.retrieval.mix import FittedMix, fit_mix, rank_by_mix
from mrc_workbench.retrieval.rankings import top_k
from mrc_workbench.retrieval.trec import write_qrels, write_run
from tests.depth import sampled
from tests.retrieval.compared import assert_equal_rankings, ir_measures_by_name

FILE = Path(os.environ.get("MRC_DATA", "")) / "KorQuAD_v1.0_dev.json"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FILE.is_file(), reason=f"needs {FILE.name} in the folder that MRC_DATA names"),
]
Means = dict[str, dict[str, float]]
THEIRS = ir_measures_by_name((1, 10))
RETRIEVERS = (
    {"name": "bm25", "kind": "bm25"},
    {"name": "dense", "kind": "dense"},
    {"name": "hybrid", "kind": "hybrid", "retrievers": ["bm25", "dense"]},
)
WINDOWS = {"name": "sentences", "kind": "bm25-windows"}
WITHOUT_MODEL = (*RETRIEVERS[:2], WINDOWS, {"name": "morphemes", "kind": "bm25", "analyzer": "kiwi"})
DRAWS = sampled(20, 8)
SAMPLE_SIZE = 60
AT_MOST_WORSE = 0.002  # of nDCG@10


@pytest.fixture(scope="module")
def workspace_of_the_comparison() -> str:
    return os.environ["MRC_WORKSPACE"]


@pytest.fixture(scope="module")
def comparison(workspace_of_the_comparison: str) -> Comparison:
    experiment = Experiment.model_validate({"data": FILE.name, "ks": [1, 10, 100], "retriever": RETRIEVERS})
    return compare(experiment, read_file(FILE).question_set)


@pytest.fixture(scope="module")
def means(comparison: Comparison) -> Means:
    assert [result.error for result in comparison.results] == [None, None, None]
    return {result.name: result.scores.means() for result in comparison.results}


def test_each_retriever_reaches_expected_recall(means: Means) -> None:
    assert means["bm25"]["recall@1"] >= 0.925
    assert means["bm25"]["ndcg@10"] >= 0.965
    assert means["dense"]["recall@10"] >= 0.97  # the starter
    assert means["dense"]["ndcg@10"] >= 0.93
    assert means["hybrid"]["recall@10"] >= means["bm25"]["recall@10"] - 0.003


def test_search_ranks_scores_of_documented_formula(
    comparison: Comparison, monkeypatch: pytest.MonkeyPatch, workspace_of_the_comparison: str
) -> None:
    """All 5,774 questions; the formula by a matrix of counts, without the index."""
    monkeypatch.setenv("MRC_WORKSPACE", workspace_of_the_comparison)  # where all texts are analyzed
    questions = comparison.question_set
    texts = [question.text for question in questions.questions]
    bm25 = BM25("bm25", questions.passages)
    scores = np.concatenate(list(bm25.score_blocks(texts)))
    for k in (1, 10, 100, len(questions.passages)):
        assert_equal_rankings(bm25.search(texts[::8], k), top_k(scores[::8], k))
    counter = CountVectorizer(analyzer=lambda tokens: tokens)
    documents = (questions.passages.indexed_texts(title=True), texts)
    analyzed = [tokens_of(bm25.analysis, part).texts() for part in documents]
    counts = counter.fit_transform(analyzed[0]).tocsr()
    n = np.bincount(counts.indices, minlength=counts.shape[1])
    lengths = counts.sum(axis=1).A1
    held_back = 0.9 * (1 - 0.4 + 0.4 * lengths / lengths.mean())
    idf = np.log(1 + (len(lengths) - n + 0.5) / (n + 0.5))
    counts.data = idf[counts.indices] * counts.data / (counts.data + np.repeat(held_back, np.diff(counts.indptr)))
    by_formula = (counter.transform(analyzed[1]) @ counts.T).toarray()
    np.testing.assert_allclose(np.where(np.isfinite(scores), scores, 0), by_formula, rtol=2e-6)


@pytest.mark.parametrize("name", ["bm25", "dense", "hybrid"])
def test_metrics_equal_ir_measures(name: str, comparison: Comparison, means: Means, tmp_path: Path) -> None:
    (rankings,) = [result.rankings for result in comparison.results if result.name == name]
    write_qrels(tmp_path / "qrels", comparison.question_set)
    write_run(tmp_path / "run", rankings.first(20), comparison.question_set, name)
    qrels = ir_measures.read_trec_qrels(str(tmp_path / "qrels"))
    run = ir_measures.read_trec_run(str(tmp_path / "run"))
    theirs = ir_measures.calc_aggregate(list(THEIRS.values()), qrels, run)
    assert len(comparison.question_set.questions) == 5774
    assert {m: means[name][m] for m in THEIRS} == pytest.approx({m: theirs[THEIRS[m]] for m in THEIRS}, abs=1e-6)


@pytest.fixture(scope="module")
def signals(comparison: Comparison) -> Comparison:
    """What BM25, the starter and windows find for all questions; the first two were searched already."""
    content = comparison.experiment.model_dump(mode="json") | {"retriever": WITHOUT_MODEL}
    return compare(Experiment.model_validate(content), comparison.question_set)


def test_mix_of_sixty_training_queries_is_not_worse_than_untrained_mix(signals: Comparison) -> None:
    """Of each draw the questions drawn, each by weights that did not see it, and others, by what all of them taught."""
    question_set = signals.question_set
    signal_rankings = [*signals.rankings.values()]
    components = ("words", "meaning", None, None)
    n_passages = len(question_set.passages)
    order = np.random.default_rng(0).permutation(len(question_set.questions))

    def ndcg(learned: FittedMix, rows: np.ndarray, folds: np.ndarray) -> float:
        ranked = rank_by_mix([ranking.select(rows) for ranking in signal_rankings], learned, folds, n_passages, 10)
        return evaluate(ranked, question_set.with_questions(rows), (10,)).means()["ndcg@10"]

    gains = []
    for draw in range(DRAWS):
        sample = np.sort(order[draw * SAMPLE_SIZE :][:SAMPLE_SIZE])
        others = np.setdiff1d(order[draw::4], sample)
        few = question_set.with_questions(sample)
        rankings = [ranking.select(sample) for ranking in signal_rankings]
        labelled = TrainingQueries.from_question_set(few, few.answerable)
        nothing = TrainingQueries.from_question_set(few, few.answerable[:0])
        fitted, unfitted = (fit_mix(rankings, item, components, n_passages) for item in (labelled, nothing))
        parts = ((sample, labelled.folds), (others, np.full(len(others), FOLDS)))
        gains.append([ndcg(fitted, *part) - ndcg(unfitted, *part) for part in parts])
    (own, new) = np.mean(gains, axis=0)
    worst = np.min(gains, axis=0)[1]
    message = f"nDCG@10, {DRAWS} draws: own {own:+.4f} on the mean, others {new:+.4f}, at the worst {worst:+.4f}"
    assert own >= -AT_MOST_WORSE, message
    assert worst >= -AT_MOST_WORSE, message
