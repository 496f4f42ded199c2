"""Where a model reads only the beginning of passages, a comparison says of how many, and who stands on that."""

from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.files import ModelError
from mrc_workbench.retrieval.comparison.compare import build_context, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec, SparseSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, LearnedSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob, load, save_comparison
from mrc_workbench.retrieval.rankings import search_question
from mrc_workbench.retrieval.report.report import report
from tests.tiny_models import SENTENCES, build_cross_encoder_base, build_sparse_encoder, with_head

pytestmark = pytest.mark.slow
WORDS = " ".join(SENTENCES).split()
LONG = 3  # of the passages
TEXTS = [" ".join(np.random.default_rng(n).choice(WORDS, 200 if n < LONG else 20)) for n in range(8)]
PASSAGES = tuple(Passage(f"p{n}", text) for n, text in enumerate(TEXTS))
QUESTIONS = tuple(Question(f"q{n}", " ".join(text.split()[-4:]), (), (f"p{n}",)) for n, text in enumerate(TEXTS))
SET = QuestionSet("long", PASSAGES, QUESTIONS)
BM25 = BM25Spec(name="BM25", analyzer=Analyzer.WORD)


def experiment_of(*specs: Spec) -> Experiment:
    return Experiment(data="long", retriever=specs)


def test_reports_truncating_retrievers_and_their_wrappers(tiny_model: str, tmp_path: Path) -> None:
    reranker = str(with_head(build_cross_encoder_base(tmp_path / "reranker")))
    specs = (
        BM25,
        DenseSpec(name="Dense", model=tiny_model),
        DenseSpec(name="Whole", model=tiny_model, windows=True),
        LateSpec(name="Late", model=tiny_model),
        LateSpec(name="Whole late", model=tiny_model, windows=True),
        HybridSpec(name="Hybrid", retrievers=("BM25", "Dense")),
        HybridSpec(name="Whole hybrid", retrievers=("BM25", "Whole")),
        LearnedSpec(name="Mix", retrievers=("Hybrid", "Late"), lexical=False),
        RerankSpec(name="Reranked", first_stage="BM25", model=reranker, rerank_top_k=8),
        RerankSpec(name="Whole reranked", first_stage="BM25", model=reranker, rerank_top_k=8, windows=True),
    )
    experiment = experiment_of(*specs)
    comparison = compare(experiment, SET)
    assert not [result.error for result in comparison.results if result.error]
    expected = [("Dense", LONG, ["Hybrid", "Mix"]), ("Late", LONG, ["Mix"]), ("Reranked", LONG, [])]
    assert comparison.cut_off == expected
    assert compare(experiment, SET).cut_off == expected  # as stored
    job_folder = ComparisonJob.of(experiment, SET.fingerprint).folder
    save_comparison(comparison, job_folder)
    assert load(job_folder, SET).cut_off == expected
    messages = {"en": "Dense reads only the beginning of 3 of 8 passages", "ko": "지문 8개 가운데 3개"}
    for language, message in messages.items():
        notices = report(comparison, language)
        assert message in notices
        assert ("Hybrid, Mix" if language == "en" else "하이브리드, Mix") in notices
        assert notices.count("windows = true") == len(expected)


def test_omits_window_advice_for_models_without_windows(tmp_path: Path) -> None:
    spec = SparseSpec(name="Sparse", model=str(build_sparse_encoder(tmp_path / "sparse")))
    comparison = compare(experiment_of(spec), SET)
    assert comparison.cut_off == [("Sparse", LONG, [])]
    notices = report(comparison, "en")
    assert "Sparse reads only the beginning of 3 of 8 passages" in notices
    assert "windows = true" not in notices


def test_reports_nothing_if_passages_fit(tiny_model: str) -> None:
    short = QuestionSet("short", PASSAGES[LONG:], QUESTIONS[LONG:])
    specs = DenseSpec(name="Dense", model=tiny_model), LateSpec(name="Late", model=tiny_model)
    comparison = compare(experiment_of(*specs), short)
    assert comparison.cut_off == []
    assert not comparison.results[0].notes


def test_does_not_count_truncation_for_single_query(tiny_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BiEncoder, "count_truncated", lambda *_: pytest.fail("counted"))
    retriever = build_context(experiment_of(DenseSpec(name="Dense", model=tiny_model)), SET).retrievers["Dense"]
    assert not isinstance(retriever, Exception)
    assert search_question(retriever, "한강").rows


def test_keeps_scores_if_truncation_is_unknown(tiny_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> int:
        raise ModelError("model_not_found", "gone", model="gone")

    monkeypatch.setattr(BiEncoder, "count_truncated", gone)
    comparison = compare(experiment_of(DenseSpec(name="Dense", model=tiny_model)), SET)
    assert comparison.results[0].scores
    assert comparison.cut_off == []
