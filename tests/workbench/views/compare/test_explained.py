"""The Why tab explains the scores of the answer passage and of a wrong one for each kind of retriever."""

import re
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import Passage
from mrc_workbench.data.store import StoredSet, keep
from mrc_workbench.models.encoders import BiEncoder, SparseTextEncoder
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, add_retriever
from mrc_workbench.retrieval.comparison.first_stage import (
    BM25Spec,
    DenseSpec,
    LateSpec,
    MilvusSpec,
    SparseSpec,
    WindowedBM25Spec,
)
from mrc_workbench.retrieval.comparison.multistage import RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.retrieval.comparison.store import save_comparison as keep_comparison
from mrc_workbench.retrieval.lexical.bm25 import BM25, WindowedBM25
from mrc_workbench.retrieval.milvus import MilvusSearchMode
from mrc_workbench.workbench.views.ui.words import catalog
from tests.doubles import PASSAGES, QUESTIONS, small_set, texts_of
from tests.tiny_models import SENTENCES, build_bi_encoder, build_cross_encoder_base, build_sparse_encoder, with_head
from tests.workbench.views.compare.test_why import DENSE, Fixed, compared, opened, run
from tests.workbench.views.compare.worlds import html, search_and_store, tables

EN = catalog("en")


@pytest.fixture
def data() -> StoredSet:
    return compared(small_set())


def sums(app: AppTest) -> tuple[float, float]:
    """Return both displayed scores."""
    (sums_text,) = [text.value for text in app.markdown if text.value.startswith("Answer passage (rank")]
    right, wrong, _ = (float(value) for value in re.findall(r"\*\*([-+\d.]+)\*\*", sums_text))
    return right, wrong


@pytest.mark.usefixtures("data")
def test_term_contributions_sum_to_score() -> None:
    app = opened(question="q2", shows="scores", explained="BM25")
    right, wrong = sums(app)
    table = tables(app, "idf")[0]
    terms = table.iloc[:-1]
    total = table.iloc[-1]
    assert total["term"] == EN["why.sum"]
    assert sum(terms["right"]) == pytest.approx(total["right"])
    assert right == pytest.approx(float(total["right"]), abs=0.005)
    assert wrong == pytest.approx(float(total["wrong"]), abs=0.005)
    assert html(app).count("results weighed") == 2
    assert 'class="plus"' in html(app)


@pytest.mark.parametrize("search", [None, *MilvusSearchMode])
def test_explains_best_window_and_milvus_as_local_retriever(search: MilvusSearchMode | None) -> None:
    question_set = small_set()
    data = keep(question_set)
    spec = MilvusSpec(name="Own", search=search) if search else WindowedBM25Spec(name="Own")
    add_retriever(data.fingerprint, spec)
    kind = BM25 if search else WindowedBM25  # Milvus has the scores of BM25
    retriever = kind("Own", question_set.passages)
    (result,) = search_and_store(data, question_set, {"Own": retriever})
    assert result.rankings is not None
    app = opened(retrievers="Own", question="q2", shows="scores")
    term_table = tables(app, "idf")
    if search in (None, MilvusSearchMode.BM25):
        assert float(term_table[0].iloc[-1]["right"]) == pytest.approx(float(result.rankings.scores[1, 0]), rel=1e-5)
    else:
        assert term_table == []
    assert (EN["why.whole_milvus"] in [info.value for info in app.info]) == (search is MilvusSearchMode.HYBRID)
    assert (EN["why.best_windows"].format(sentences=1) in html(app)) == (search is None)


@pytest.mark.usefixtures("data")
def test_component_contributions_sum_to_fused_score() -> None:
    app = opened(question="q2", shows="scores", explained="Hybrid")
    right, wrong = sums(app)
    table = tables(app, "normalised")[0]
    of = table.groupby("side")["value"].sum()
    expected = 0.0
    for part in (BM25("BM25", PASSAGES), Fixed("Dense", DENSE)):
        rankings = part.search(texts_of(QUESTIONS), 100)
        scores = dict(zip(rankings.indices[1].tolist(), rankings.scores[1].tolist(), strict=True))
        held = [score for row, score in scores.items() if row >= 0]
        expected += (scores[1] - statistics.fmean(held)) / statistics.pstdev(held)  # p2, the answer passage
    assert right == pytest.approx(expected, abs=0.00006)
    assert of[EN["why.right"]] == pytest.approx(expected)
    assert of[EN["why.wrong"]] == pytest.approx(wrong, abs=0.00006)


@pytest.mark.usefixtures("data")
def test_compares_with_another_wrong_passage() -> None:
    app = opened(question="q2", shows="scores", explained="Dense")
    assert EN["why.sentences_ask"] in [button.label for button in app.button]  # the page loads the model on request
    assert app.selectbox(key="why_against").value == "p5"
    app.selectbox(key="why_against").set_value("p1")
    run(app)
    assert app.query_params["against"] == "p1"
    app.selectbox(key="why_explained").set_value("BM25")
    run(app)
    assert "against" not in app.query_params


def with_model(spec: Spec) -> AppTest:
    """Return the scores of q2 by the retriever "Own" with a model; the test gives its rankings."""
    question_set = small_set()
    data = keep(question_set)
    add_retriever(data.fingerprint, spec)
    search_and_store(data, question_set, {"Own": Fixed("Own", DENSE)})
    app = opened(retrievers="Own", question="q2", shows="scores")
    app.button(key="ask_why_model_Own").click().run()
    assert not app.exception
    return app


def test_contextual_model_scores_each_sentence(tmp_path: Path) -> None:
    folder = build_bi_encoder(tmp_path / "tiny")
    app = with_model(DenseSpec(name="Own", model=str(folder)))
    assert not app.error
    sentence_table = tables(app, "sentence")
    assert [list(table["sentence"]) for table in sentence_table] == [
        ["한강", "한강은 서울을 지나 서해로 흐른다"],
        [PASSAGES[4].text],
    ]
    encoder = BiEncoder(find_model(str(folder)), [])
    question = encoder.encode_questions([QUESTIONS[1].text])[0]
    for table in sentence_table:
        np.testing.assert_allclose(
            table["cosine"], encoder.encode_passages(list(table["sentence"])) @ question, atol=1e-5
        )


@pytest.mark.parametrize("kind", ["dense", "rerank"])
def test_displays_best_part_of_long_passage(tmp_path: Path, kind: str) -> None:
    words = " ".join(SENTENCES).split()
    long = Passage("p2", " ".join(words[n * n % len(words)] for n in range(300)), "한강")
    question_set = replace(small_set(), passages=(PASSAGES[0], long, *PASSAGES[2:]))
    data = keep(question_set)
    if kind == "dense":
        folder = build_bi_encoder(tmp_path / "tiny")
        specs: list[Spec] = [DenseSpec(name="Own", model=str(folder), windows=True)]
    else:
        folder = with_head(build_cross_encoder_base(tmp_path / "tiny", segment_types=1))
        specs = [BM25Spec(name="BM25"), RerankSpec(name="Own", first="BM25", model=str(folder), windows=True)]
    experiment = Experiment(data=data.key, retriever=tuple(specs))
    comparison = compare(experiment, question_set)
    keep_comparison(comparison, ComparisonJob.of(experiment, data.fingerprint).folder)
    add_retriever(data.fingerprint, specs[-1])
    app = opened(retrievers="|".join(spec.name for spec in specs), question="q2", shows="scores", explained="Own")
    app.button(key="ask_why_model_Own").click().run()
    assert not app.exception
    assert not app.error
    (table,) = tables(app, "window")
    best = int(np.argmax(table["score"]))
    windows_caption = EN["why.windows_best"].format(position=best + 1, count=len(table))
    assert windows_caption in [caption.value for caption in app.caption]
    assert len(table) > 2
    assert table["window"][best] in long.text
    if kind == "dense":
        row = list(comparison.results[0].rankings.indices[1]).index(1)  # type: ignore[union-attr]
        score = comparison.results[0].rankings.scores[1, row]  # type: ignore[union-attr]
        assert table["score"][best] == pytest.approx(score, abs=2e-2)  # bfloat16, in another batch
    else:
        assert EN["why.windows_whole"] in [caption.value for caption in app.caption]


def test_explains_sparse_score_by_terms(tmp_path: Path) -> None:
    spec = SparseSpec(name="Own", model=str(build_sparse_encoder(tmp_path / "tiny")), precision=Precision.FLOAT32)
    app = with_model(spec)
    assert not app.error
    right, wrong = sums(app)
    encoder = SparseTextEncoder(find_model(spec.model), [], precision=Precision.FLOAT32)
    held = encoder.encode_passages([f"{PASSAGES[1].title}\n{PASSAGES[1].text}", PASSAGES[4].text])
    scores = (encoder.encode_questions([QUESTIONS[1].text]) @ held.T).toarray()[0]
    assert [right, wrong] == pytest.approx(scores, abs=0.0006)
    table = tables(app, "held_right")[0]
    terms = table.iloc[:-1]
    total = table.iloc[-1]
    assert total["right"] == pytest.approx(scores[0], abs=1e-4)
    assert (terms["asked"] * terms["held_right"]).sum() == pytest.approx(scores[0], abs=1e-4)
    added = terms[terms["kind"] == EN["why.kind_expansion"]]
    assert not (added["in_right"] | added["in_wrong"]).any()
    assert EN["why.by_expansion"].partition("**")[0] in " ".join(text.value for text in app.markdown)


@pytest.mark.parametrize("dimensions", [0, 6])
def test_explains_late_score_by_token_matches(tmp_path: Path, dimensions: int) -> None:
    folder = build_bi_encoder(tmp_path / "tiny")
    spec = LateSpec(name="Own", model=str(folder), precision=Precision.FLOAT32, dimensions=dimensions, windows=True)
    app = with_model(spec)
    assert not app.error
    rankings = compare(Experiment(data="small", retriever=(spec,)), small_set()).rankings["Own"]
    scores = dict(zip(rankings.indices[1].tolist(), rankings.scores[1].tolist(), strict=True))
    assert sums(app) == pytest.approx((scores[1], scores[4]), abs=0.002)
    (table,) = tables(app, "right_cosine")
    assert "".join(table["question"]) == QUESTIONS[1].text.replace(" ", "")
    held = [f"{passage.title}\n{passage.text}" for passage in (PASSAGES[1], PASSAGES[4])]
    for side, text in zip(("right", "wrong"), held, strict=True):
        assert all(piece in text for piece in table[side])
        assert table[f"{side}_cosine"].between(-1, 1.001).all()


def test_reports_missing_model() -> None:
    app = with_model(DenseSpec(name="Own", model="no/such/model"))
    assert [error.value.replace("\\", "") for error in app.error] == [
        EN["model.model_not_found"].format(model="no/such/model")
    ]
