"""The Why tab explains BM25's options: fields, feedback, compounds, and a user dictionary that may be missing."""

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet, keep
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.text.dictionary import Dictionary, Word, remove
from mrc_workbench.data.text.dictionary import save as keep_dictionary
from mrc_workbench.retrieval.comparison.experiment import add_retriever
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, TermSpec, WindowedBM25Spec
from mrc_workbench.retrieval.explain import BM25Explainer
from mrc_workbench.retrieval.explain.standing import option_table
from mrc_workbench.retrieval.lexical.bm25 import BM25
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.resources.retrieval import dictionary_of
from tests.workbench.views import driving
from tests.workbench.views.compare.worlds import finished, html, page, texts

PASSAGES = (
    Passage("p1", "누리호 발사체 누리호 로켓 발사 고흥", "누리호"),
    Passage("p2", "나로호 발사체 로켓 시험", "나로호"),
    Passage("p3", "승용차 공장 시험", "자동차"),
    Passage("p4", "바다 고래 발사", "고래"),
)
QUESTIONS = (
    Question("q1", "누리호 시험", ("발사",), ("p1",)),
    Question("q2", "차량 공장", ("공장",), ("p3",)),
    Question("q3", "누리호 발사체 로켓", (), ("p2",)),
)
SET = QuestionSet("로켓", PASSAGES, QUESTIONS)
SYNONYMS = Dictionary((Word("누리호"),), (("자동차", "차량", "승용차"),))


def term_rows(
    spec: TermSpec, question: str, right: int, wrong: int, dictionary: Dictionary | None = None
) -> pd.DataFrame:
    explainer = BM25Explainer(PASSAGES, spec.options(dictionary))
    both = (explainer.explain(question, row) for row in (right, wrong))
    feedback = isinstance(spec, BM25Spec) and spec.feedback_passages > 0
    options = {"fields": bool(spec.title_weight), "feedback": feedback}
    return option_table(*both, dictionary, lambda row: PASSAGES[row].id, **options).set_index("term")


def test_counts_fields_separately_and_sums_to_score() -> None:
    spec = BM25Spec(name="F", analyzer=Analyzer.WORD, title_weight=3)
    table = term_rows(spec, "누리호 시험", 0, 1)
    assert table.loc["누리호", ["title_right", "text_right", "title_wrong", "text_wrong"]].tolist() == [1, 2, 0, 0]
    assert table.loc["시험", ["title_right", "text_right", "title_wrong", "text_wrong"]].tolist() == [0, 0, 0, 1]
    assert "in_right" not in table
    ranking = BM25("F", PASSAGES, spec.options()).search(["누리호 시험"], 4)
    scores = dict(zip(ranking.indices[0].tolist(), ranking.scores[0].tolist(), strict=True))
    assert (table["right"].sum(), table["wrong"].sum()) == pytest.approx((scores[0], scores[1]), rel=1e-5)


def test_marks_feedback_terms_with_their_sources() -> None:
    spec = BM25Spec(name="F", analyzer=Analyzer.WORD, title=False, feedback_passages=1, feedback_share=0.4)
    table = term_rows(spec, "누리호", 0, 1)
    assert table.loc["누리호", ["kind", "in_question", "sources"]].tolist() == ["word", 1, ""]
    assert table.loc["고흥", ["kind", "in_question", "sources"]].tolist() == ["added", 0, "p1"]
    # of the terms that only p1 has, two of three are 누리호: RM3 by hand
    assert table["weight"].to_dict() == pytest.approx({"누리호": 0.6 + 0.4 * 2 / 3, "고흥": 0.4 / 3}, rel=1e-6)


def test_marks_synonyms_and_dictionary_words() -> None:
    spec = BM25Spec(name="D", analyzer=Analyzer.WORD, dictionary="dictionary:of-the-test")
    table = term_rows(spec, "차량 공장", 2, 1, SYNONYMS)
    assert table.loc["자동차", ["own", "stands_as"]].tolist() == [True, "차량, 승용차"]
    assert table.loc["공장", ["own", "stands_as"]].tolist() == [False, ""]
    of_kiwi = term_rows(spec.model_copy(update={"analyzer": Analyzer.KIWI_BIGRAM}), "누리호 시험", 0, 1, SYNONYMS)
    rows = of_kiwi.reset_index().set_index(["term", "kind"])
    assert rows.loc[("누리호", "morpheme"), "own"]
    assert not rows.loc[("누리", "letters"), "own"]


@pytest.fixture
def data() -> StoredSet:
    return keep(SET)


def opened(data: StoredSet, *specs: TermSpec, question: str = "q1", explained: str = "") -> AppTest:
    for spec in specs:
        add_retriever(data.fingerprint, spec)
    names = [spec.name for spec in specs]
    finished(data, choices_for(data).experiment(data, names, Part.ALL))
    return open_scores(data, names, question, explained or names[0])


def open_scores(data: StoredSet, names: list[str], question: str, explained: str) -> AppTest:
    look = {"view": "why", "part": "all", "shows": "scores", "data": data.key, "retrievers": "|".join(names)}
    return driving.opened(page, **look, question=question, explained=explained)


def test_explains_every_option(data: StoredSet) -> None:
    dictionary = keep_dictionary(SYNONYMS, "탈것")
    every = BM25Spec(name="All", title_weight=2, feedback_passages=2, compounds="both", dictionary=dictionary.reference)
    app = opened(data, every, WindowedBM25Spec(name="Windows", title_weight=2, compounds="split"))
    assert "a title match counts 2 times" in texts(app)
    assert "up to 10 terms from the top 2 passages (RM3), which make up 50% of it" in texts(app)
    assert "Compound nouns are read joined and split" in texts(app)
    assert "Read with a user dictionary" in texts(app)
    (table,) = [item.value for item in app.dataframe if "own" in item.value]
    assert set(table["kind"]) >= {"morpheme", "character bigram", "expansion term"}
    assert table[table["term"] == "누리호"]["own"].any()
    sources = table[table["kind"] == "from passages found first"]["sources"]
    names = {f"{passage.title} · {passage.id}" for passage in PASSAGES}
    assert all(set(item.split(", ")) <= names for item in sources)
    assert "Expansion terms (" in html(app)
    other = open_scores(data, ["All", "Windows"], "q1", "Windows")
    assert "Compound nouns are split; each part" in texts(other)


def test_explains_word_pairs_as_terms(data: StoredSet) -> None:
    app = opened(data, BM25Spec(name="Pairs", pairs=True), BM25Spec(name="Plain"), question="q3")
    assert "Terms are word bigrams" in texts(app)
    (table,) = [element.value for element in app.dataframe if "kind" in element.value]
    assert set(table["kind"].dropna()) == {"word"}
    assert all(" " in term for term in table["term"][table["kind"].notna()])


def test_reports_missing_dictionary_and_displays_rest(data: StoredSet) -> None:
    dictionary = keep_dictionary(SYNONYMS, "탈것")
    assert dictionary_of(dictionary.reference) == SYNONYMS
    assert dictionary_of("") is None
    spec = BM25Spec(name="Mine", dictionary=dictionary.reference)
    plain = BM25Spec(name="Plain")
    opened(data, spec, plain)
    remove(dictionary.key)
    app = open_scores(data, ["Mine", "Plain"], "q1", "Mine")
    assert [item.value.replace("\\", "") for item in app.warning] == [
        "Too few questions are compared: 3. With fewer than 20, most differences are chance.",
        f"There is no dictionary “{dictionary.reference}”. Saved dictionaries: none.",
    ]
    assert f"There is no dictionary “{dictionary.reference}”." in html(app)
    assert "The answer passage contains" in html(app)  # the text of the other
    assert [item.value for item in open_scores(data, ["Mine", "Plain"], "q1", "Plain").dataframe]


def test_opens_dictionary_lab_from_split_word(data: StoredSet) -> None:
    app = opened(data, BM25Spec(name="Plain"))
    app.button(key="why_dictionary").click()
    app.run()
    assert (app.query_params["view"], app.query_params["lab"]) == ("tune", "lexical")
    assert "question" not in app.query_params
    of_words = opened(data, BM25Spec(name="Words", analyzer=Analyzer.WORD))
    assert not [button for button in of_words.button if button.key == "why_dictionary"]
