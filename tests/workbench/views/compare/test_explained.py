"""The Why tab explains the scores of the answer passage and of a wrong one for each kind of retriever."""

import re
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.text.dictionary import Dictionary, Word, remove
from mrc_workbench.data.text.dictionary import save as keep_dictionary
from mrc_workbench.models.encoders import BiEncoder, SparseTextEncoder
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison import first_stage
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, add_retriever
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.comparison.multistage import RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.retrieval.comparison.store import save_comparison as keep_comparison
from mrc_workbench.retrieval.explain import BM25Explainer
from mrc_workbench.retrieval.explain.standing import option_table
from mrc_workbench.retrieval.lexical.bm25 import BM25, WindowedBM25
from mrc_workbench.retrieval.milvus import MilvusSearchMode
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.resources.retrieval import dictionary_of
from mrc_workbench.workbench.views.ui.words import catalog
from tests.doubles import PASSAGES, QUESTIONS, small_set, texts_of
from tests.tiny_models import SENTENCES, build_bi_encoder, build_cross_encoder_base, build_sparse_encoder, with_head
from tests.workbench.views import driving
from tests.workbench.views.compare.test_why import DENSE, Fixed, compared, opened, run
from tests.workbench.views.compare.worlds import finished, html, page, search_and_store, tables

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
    data = save_question_set(question_set)
    spec = first_stage.MilvusSpec(name="Own", search=search) if search else first_stage.WindowedBM25Spec(name="Own")
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
    data = save_question_set(question_set)
    add_retriever(data.fingerprint, spec)
    search_and_store(data, question_set, {"Own": Fixed("Own", DENSE)})
    app = opened(retrievers="Own", question="q2", shows="scores")
    app.button(key="ask_why_model_Own").click().run()
    assert not app.exception
    return app


def test_contextual_model_scores_each_sentence(tmp_path: Path) -> None:
    folder = build_bi_encoder(tmp_path / "tiny")
    app = with_model(first_stage.DenseSpec(name="Own", model=str(folder)))
    assert not app.error
    sentence_table = tables(app, "sentence")
    expected = [["한강", "한강은 서울을 지나 서해로 흐른다"], [PASSAGES[4].text]]
    assert [list(table["sentence"]) for table in sentence_table] == expected
    encoder = BiEncoder(find_model(str(folder)), [])
    question = encoder.encode_questions([QUESTIONS[1].text])[0]
    for table in sentence_table:
        cosines = encoder.encode_passages(list(table["sentence"])) @ question
        np.testing.assert_allclose(table["cosine"], cosines, atol=1e-5)


@pytest.mark.parametrize("kind", ["dense", "rerank"])
def test_displays_best_part_of_long_passage(tmp_path: Path, kind: str) -> None:
    words = " ".join(SENTENCES).split()
    long = Passage("p2", " ".join(words[n * n % len(words)] for n in range(300)), "한강")
    question_set = replace(small_set(), passages=(PASSAGES[0], long, *PASSAGES[2:]))
    data = save_question_set(question_set)
    if kind == "dense":
        folder = build_bi_encoder(tmp_path / "tiny")
        specs: list[Spec] = [first_stage.DenseSpec(name="Own", model=str(folder), windows=True)]
    else:
        folder = with_head(build_cross_encoder_base(tmp_path / "tiny", segment_types=1))
        specs = [BM25Spec(name="BM25"), RerankSpec(name="Own", first_stage="BM25", model=str(folder), windows=True)]
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
    spec = first_stage.SparseSpec(
        name="Own", model=str(build_sparse_encoder(tmp_path / "tiny")), precision=Precision.FLOAT32
    )
    app = with_model(spec)
    assert not app.error
    right, wrong = sums(app)
    encoder = SparseTextEncoder(find_model(spec.model), [], precision=Precision.FLOAT32)
    held = encoder.encode_passages([f"{PASSAGES[1].title}\n{PASSAGES[1].text}", PASSAGES[4].text])
    scores = (encoder.encode_questions([QUESTIONS[1].text]) @ held.T).toarray()[0]
    assert [right, wrong] == pytest.approx(scores, abs=0.0006)
    table = tables(app, "right_weight")[0]
    terms = table.iloc[:-1]
    total = table.iloc[-1]
    assert total["right"] == pytest.approx(scores[0], abs=1e-4)
    assert (terms["question_weight"] * terms["right_weight"]).sum() == pytest.approx(scores[0], abs=1e-4)
    added = terms[terms["kind"] == EN["why.kind_expansion"]]
    assert not (added["in_right"] | added["in_wrong"]).any()
    assert EN["why.by_expansion"].partition("**")[0] in " ".join(text.value for text in app.markdown)


@pytest.mark.parametrize("dimensions", [0, 6])
def test_explains_late_score_by_token_matches(tmp_path: Path, dimensions: int) -> None:
    folder = build_bi_encoder(tmp_path / "tiny")
    spec = first_stage.LateSpec(
        name="Own", model=str(folder), precision=Precision.FLOAT32, dimensions=dimensions, windows=True
    )
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
    app = with_model(first_stage.DenseSpec(name="Own", model="no/such/model"))
    message = EN["model.model_not_found"].format(model="no/such/model")
    assert [error.value.replace("\\", "") for error in app.error] == [message]


ROCKETS = (
    Passage("p1", "누리호 발사체 누리호 로켓 발사 고흥", "누리호"),
    Passage("p2", "나로호 발사체 로켓 시험", "나로호"),
    Passage("p3", "승용차 공장 시험", "자동차"),
    Passage("p4", "바다 고래 발사", "고래"),
)
ROCKET_QUESTIONS = (
    Question("q1", "누리호 시험", ("발사",), ("p1",)),
    Question("q2", "차량 공장", ("공장",), ("p3",)),
    Question("q3", "누리호 발사체 로켓", (), ("p2",)),
)
ROCKET_SET = QuestionSet("로켓", ROCKETS, ROCKET_QUESTIONS)
SYNONYMS = Dictionary((Word("누리호"),), (("자동차", "차량", "승용차"),))


def term_rows(
    spec: first_stage.TermSpec, question: str, right: int, wrong: int, dictionary: Dictionary | None = None
) -> pd.DataFrame:
    explainer = BM25Explainer(ROCKETS, spec.options(dictionary))
    both = (explainer.explain(question, row) for row in (right, wrong))
    feedback = isinstance(spec, BM25Spec) and spec.fb_docs > 0
    options = {"fields": bool(spec.title_weight), "feedback": feedback}
    return option_table(*both, dictionary, lambda row: ROCKETS[row].id, **options).set_index("term")


def test_counts_fields_separately_and_sums_to_score() -> None:
    spec = BM25Spec(name="F", analyzer=Analyzer.WORD, title_weight=3)
    table = term_rows(spec, "누리호 시험", 0, 1)
    assert table.loc["누리호", ["title_right", "text_right", "title_wrong", "text_wrong"]].tolist() == [1, 2, 0, 0]
    assert table.loc["시험", ["title_right", "text_right", "title_wrong", "text_wrong"]].tolist() == [0, 0, 0, 1]
    assert "in_right" not in table
    ranking = BM25("F", ROCKETS, spec.options()).search(["누리호 시험"], 4)
    scores = dict(zip(ranking.indices[0].tolist(), ranking.scores[0].tolist(), strict=True))
    assert (table["right"].sum(), table["wrong"].sum()) == pytest.approx((scores[0], scores[1]), rel=1e-5)


def test_marks_feedback_terms_with_their_sources() -> None:
    spec = BM25Spec(name="F", analyzer=Analyzer.WORD, title=False, fb_docs=1, fb_weight=0.4)
    table = term_rows(spec, "누리호", 0, 1)
    assert table.loc["누리호", ["kind", "in_question", "sources"]].tolist() == ["word", 1, ""]
    assert table.loc["고흥", ["kind", "in_question", "sources"]].tolist() == ["added", 0, "p1"]
    # of the terms that only p1 has, two of three are 누리호: RM3 by hand
    assert table["weight"].to_dict() == pytest.approx({"누리호": 0.6 + 0.4 * 2 / 3, "고흥": 0.4 / 3}, rel=1e-6)


def test_marks_synonyms_and_dictionary_words() -> None:
    spec = BM25Spec(name="D", analyzer=Analyzer.WORD, dictionary="dictionary:of-the-test")
    table = term_rows(spec, "차량 공장", 2, 1, SYNONYMS)
    assert table.loc["자동차", ["own", "surfaces"]].tolist() == [True, "차량, 승용차"]
    assert table.loc["공장", ["own", "surfaces"]].tolist() == [False, ""]
    of_kiwi = term_rows(spec.model_copy(update={"analyzer": Analyzer.KIWI_BIGRAM}), "누리호 시험", 0, 1, SYNONYMS)
    rows = of_kiwi.reset_index().set_index(["term", "kind"])
    assert rows.loc[("누리호", "morpheme"), "own"]
    assert not rows.loc[("누리", "letters"), "own"]


@pytest.fixture
def rockets() -> StoredSet:
    return save_question_set(ROCKET_SET)


def open_options(data: StoredSet, *specs: first_stage.TermSpec, question: str = "q1", explained: str = "") -> AppTest:
    for spec in specs:
        add_retriever(data.fingerprint, spec)
    names = [spec.name for spec in specs]
    finished(data, choices_for(data).experiment(data, names, Part.ALL))
    return open_scores(data, names, question, explained or names[0])


def open_scores(data: StoredSet, names: list[str], question: str, explained: str) -> AppTest:
    look = {"view": "why", "part": "all", "shows": "scores", "data": data.key, "retrievers": "|".join(names)}
    return driving.opened(page, **look, question=question, explained=explained)


def test_explains_every_option(rockets: StoredSet) -> None:
    dictionary = keep_dictionary(SYNONYMS, "탈것")
    every = BM25Spec(name="All", title_weight=2, fb_docs=2, compounds="both", dictionary=dictionary.reference)
    app = open_options(rockets, every, first_stage.WindowedBM25Spec(name="Windows", title_weight=2, compounds="split"))
    assert "a title match counts 2 times" in driving.texts(app)
    assert "up to 10 terms from the top 2 passages (RM3), which make up 50% of it" in driving.texts(app)
    assert "Compound nouns are read joined and split" in driving.texts(app)
    assert "Read with a user dictionary" in driving.texts(app)
    (table,) = [item.value for item in app.dataframe if "own" in item.value]
    assert set(table["kind"]) >= {"morpheme", "character bigram", "expansion term"}
    assert table[table["term"] == "누리호"]["own"].any()
    sources = table[table["kind"] == "from passages found first"]["sources"]
    names = {f"{passage.title} · {passage.id}" for passage in ROCKETS}
    assert all(set(item.split(", ")) <= names for item in sources)
    assert "Expansion terms (" in html(app)
    other = open_scores(rockets, ["All", "Windows"], "q1", "Windows")
    assert "Compound nouns are split; each part" in driving.texts(other)


def test_explains_word_pairs_as_terms(rockets: StoredSet) -> None:
    app = open_options(rockets, BM25Spec(name="Pairs", pairs=True), BM25Spec(name="Plain"), question="q3")
    assert "Terms are word bigrams" in driving.texts(app)
    (table,) = [element.value for element in app.dataframe if "kind" in element.value]
    assert set(table["kind"].dropna()) == {"word"}
    assert all(" " in term for term in table["term"][table["kind"].notna()])


def test_reports_missing_dictionary_and_displays_rest(rockets: StoredSet) -> None:
    dictionary = keep_dictionary(SYNONYMS, "탈것")
    assert dictionary_of(dictionary.reference) == SYNONYMS
    assert dictionary_of("") is None
    spec = BM25Spec(name="Mine", dictionary=dictionary.reference)
    plain = BM25Spec(name="Plain")
    open_options(rockets, spec, plain)
    remove(dictionary.key)
    app = open_scores(rockets, ["Mine", "Plain"], "q1", "Mine")
    assert [item.value.replace("\\", "") for item in app.warning] == [
        "Too few questions are compared: 3. With fewer than 20, most differences are chance.",
        f"There is no dictionary “{dictionary.reference}”. Saved dictionaries: none.",
    ]
    assert f"There is no dictionary “{dictionary.reference}”." in html(app)
    assert "The answer passage contains" in html(app)  # the text of the other
    assert [item.value for item in open_scores(rockets, ["Mine", "Plain"], "q1", "Plain").dataframe]


def test_opens_dictionary_lab_from_split_word(rockets: StoredSet) -> None:
    app = open_options(rockets, BM25Spec(name="Plain"))
    app.button(key="why_dictionary").click()
    app.run()
    assert (app.query_params["view"], app.query_params["lab"]) == ("tune", "lexical")
    assert "question" not in app.query_params
    of_words = open_options(rockets, BM25Spec(name="Words", analyzer=Analyzer.WORD))
    assert not [button for button in of_words.button if button.key == "why_dictionary"]
