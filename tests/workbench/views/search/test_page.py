"""The Search page: questions, examples, columns and errors."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.questions.judgements import RelevanceVerdict, judge_passage, load_judgements
from mrc_workbench.data.records import Passage, Question, QuestionSet, composed
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet, load, save_question_set, stored
from mrc_workbench.data.text.marking import MarkedText
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval.comparison.experiment import add_retriever
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec
from mrc_workbench.retrieval.rankings import QueryHits, Rankings
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.resources.retrieval import report_progress_to, retriever_context
from mrc_workbench.workbench.views.search.answer import QuestionSearch, SearchAnswer
from mrc_workbench.workbench.views.ui.passages import HitCard, hits_html
from mrc_workbench.workbench.views.ui.words import catalog, word
from tests.doubles import PASSAGES, QUESTIONS, small_set
from tests.retrieval.compared import rankings_of
from tests.workbench.views.compare.worlds import press, search_and_store, store_results
from tests.workbench.views.driving import opened, run
from tests.workbench.views.test_choices import finished

pytestmark = pytest.mark.usefixtures("data")
EN = catalog("en")
QUESTION = QUESTIONS[0].text
HOSTILE = "<img src=x onerror=alert(1)> **굵게** 한글 <script>alert(2)</script>"


def page() -> None:
    from mrc_workbench.workbench.views.search import page as search_page

    search_page.draw()


def ask(app: AppTest, question: str) -> AppTest:
    app.text_input(key="question_box").set_value(question)
    app.button[0].click()
    return run(app)


def html(app: AppTest) -> list[str]:
    return [str(element.value) for element in app.get("html")]


def examples(app: AppTest) -> list[str]:
    buttons = [button for button in app.button if str(button.key).startswith("question_box_example")]
    return [button.label.replace("\\", "") for button in buttons]


def columns(app: AppTest) -> list[str]:
    """Return the text of the hits of each retriever, starting with the first passage."""
    hit_texts: list[str] = []
    for text in html(app):
        if 'class="results" role' in text:
            if '<span class="rank">1</span>' in text:
                hit_texts.append("")
            hit_texts[-1] += text
    return hit_texts


def column_headers(app: AppTest) -> list[str]:
    return [text for text in html(app) if text.startswith('<div class="results-head"')]


def test_empty_page_explains_search_and_offers_first_questions() -> None:
    app = opened(page)
    hint = "Enter a question above and press Search, or pick one of the examples."
    assert [info.value for info in app.info] == [hint]
    assert examples(app) == [q.text for q in QUESTIONS[:3]]
    assert columns(app) == []
    assert app.text_input(key="question_box").placeholder == f"For example: {QUESTIONS[0].text}"
    alone = save_question_set(QuestionSet("alone", PASSAGES, ())).key
    assert opened(page, data=alone).text_input(key="question_box").placeholder == EN["search.placeholder_plain"]


def test_searches_with_bm25() -> None:
    app = ask(opened(page, columns="BM25"), QUESTION)
    assert app.query_params["q"] == QUESTION
    (column,) = columns(app)
    first = column.split('<div role="listitem"')[1]
    assert first.startswith(' class="gold"')
    assert '<span class="truth">✔ answer passage</span>' in first
    assert "<u>세종</u>은 <mark>한글</mark>을 <mark>만든</mark> <mark>왕</mark>이다" in first
    (head,) = column_headers(app)
    assert ">BM25<" in head
    assert "Answer passage at rank 1" in head
    assert any("**세종**" in text.value for text in app.markdown)
    right = small_set().row_of_passage[QUESTIONS[0].relevant[0]]
    assert f"judge_BM25 {right}" not in marks(app)  # the dataset has this judgement
    assert marks(app)


def test_searches_question_of_address_or_example(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr("mrc_workbench.retrieval.rankings.composed", lambda text: read.append(text) or composed(text))
    app = opened(page, columns="BM25", q=QUESTIONS[3].text)
    assert len(read) == 1 + len(QUESTIONS)  # the dataset is searched once for a question
    assert "설악산" in columns(app)[0]
    press(app, "question_box_example_1")
    assert app.text_input(key="question_box").value == QUESTIONS[1].text
    assert app.query_params["q"] == QUESTIONS[1].text
    assert "<u>서해</u>" in columns(app)[0]


def selected_columns(app: AppTest) -> list[str]:
    return next([*pills.value] for pills in app.get("button_group") if pills.label == EN["compare.retrievers"])


def test_selects_newest_training_as_column(data: StoredSet) -> None:
    assert selected_columns(opened(page)) == ["BM25", "Dense", "Hybrid", "Reranked"]
    finished(BI_ENCODER, "first", data)
    assert selected_columns(opened(page)) == ["BM25", "Dense", "Hybrid", "Dense · first"]
    finished(BI_ENCODER, "second", data)
    assert selected_columns(opened(page)) == ["BM25", "Dense", "Hybrid", "Dense · second"]


def test_adds_newly_trained_retriever_to_columns_once(data: StoredSet) -> None:
    app = opened(page)
    app.session_state["stored_columns"] = "BM25|Reranked"  # selected on this page before another was opened
    finished(BI_ENCODER, "first", data)
    assert selected_columns(run(app)) == ["BM25", "Reranked", "Dense · first"]
    app.get("button_group")[0].set_value(["BM25", "Reranked"])
    assert selected_columns(run(app)) == selected_columns(run(app)) == ["BM25", "Reranked"]


def test_offers_examples_in_page_language_first() -> None:
    passages = (Passage("p1", "Seoul is the capital of Korea.", ""), Passage("p2", "서울은 한국의 수도이다.", ""))
    pairs = [("한국의 수도는?", "p2"), ("Which city is the capital?", "p1"), ("수도는 어느 도시?", "p2")]
    questions = tuple(Question(f"q{n}", text, (), (right,)) for n, (text, right) in enumerate(pairs))
    both = save_question_set(QuestionSet("both", passages, questions)).key
    english = opened(page, data=both)
    assert examples(english) == ["Which city is the capital?", "한국의 수도는?", "수도는 어느 도시?"]
    assert english.text_input(key="question_box").placeholder == "For example: Which city is the capital?"
    korean = ["한국의 수도는?", "수도는 어느 도시?", "Which city is the capital?"]
    assert examples(opened(page, data=both, lang="ko")) == korean


def test_describes_column_and_switches_columns_on_narrow_screen() -> None:
    app = ask(opened(page, columns="BM25|BM25 words"), QUESTION)
    assert '<div class="does">finds passages with the same words' in column_headers(app)[0]
    (switch,) = [text for text in html(app) if text.startswith('<div class="results-switch"')]
    assert switch.count('type="radio"') == 2
    assert "BM25 <small>✔1</small></label>" in switch


def test_marks_passage_with_unchanged_rank() -> None:
    card = HitCard(1, "0.5", "p1", MarkedText("제목"), MarkedText("글"), relevant=False, before=1)
    assert f'<span class="moved">＝ {word("search.not_moved")}</span>' in hits_html([card])
    assert "▲2 <small>3→1</small>" in hits_html([replace(card, before=3)])


def test_displays_four_columns_side_by_side() -> None:
    app = ask(opened(page), QUESTION)
    assert not app.error
    assert len(columns(app)) == len(column_headers(app)) == 4
    hybrid, reranked = columns(app)[2:]
    assert '<span class="parts">BM25 #1 · Dense #1</span>' in hybrid
    assert 'class="moved"' in reranked
    scores = ["Score: BM25", "Score: cosine", EN["search.score_hybrid"], EN["search.score_rerank"]]
    assert [caption.value for caption in app.caption if caption.value.startswith("Score")] == scores
    table = app.dataframe[0].value
    names = ("BM25", "Dense", "Hybrid", "Reranked")
    assert list(table) == ["rank", *(f"{name} {cell}" for name in names for cell in ("passage", "score"))]
    assert table["BM25 passage"][0] == "✔ 세종 · p1"


def test_escapes_user_text(data: StoredSet) -> None:
    answer = '"><b>답</b>'
    passages = (Passage("<i>id</i>", f"{HOSTILE} {answer}", HOSTILE), *PASSAGES)
    questions = (Question("q", HOSTILE, (answer,), ("<i>id</i>",)),)
    hostile = save_question_set(QuestionSet("hostile", passages, questions))
    app = ask(opened(page, data=hostile.key, columns="BM25"), HOSTILE)
    text = "".join(columns(app) + column_headers(app))
    for never in ("<img", "<script", "<i>", "<b>"):
        assert never not in text
    assert "&lt;<mark>script</mark>&gt;" in text
    assert "<u>&quot;&gt;&lt;b&gt;답&lt;/b&gt;</u>" in text
    assert all("<b>" not in element.value.replace("\\<b\\>", "") for element in app.markdown)


def test_reports_mix_without_lexical_results(data: StoredSet) -> None:
    """Once for all mixes; a retriever without hits has a separate note."""
    specs = choices_for(data).specs
    findings = QueryHits((1,), (0.5,))
    nothing = QueryHits((), ())
    outcomes = {"BM25": nothing, "Dense": findings, "Hybrid": findings, "Reranked": nothing}
    answer = SearchAnswer(data, "qwxzv", outcomes, None, 5)
    assert answer.blind([*specs.values()]) == {"BM25": ["Hybrid"]}
    assert answer.blind([specs["Dense"]]) == {}
    assert replace(answer, outcomes=outcomes | {"Dense": nothing, "Hybrid": nothing}).blind([*specs.values()]) == {}
    assert replace(answer, outcomes=outcomes | {"BM25": ValueError("gone")}).blind([*specs.values()]) == {}


def test_reports_hybrid_without_lexical_matches(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = {"BM25": QueryHits((), ()), "Dense": QueryHits((1,), (0.5,)), "Hybrid": QueryHits((1,), (0.5,))}
    monkeypatch.setattr(QuestionSearch, "outcomes", lambda *_: iter(outcomes.items()))
    expected = catalog("ko")["search.blind_words"].format(part="BM25", names="하이브리드")
    for columns, is_reported in (("BM25|Hybrid", True), ("BM25|Dense", False)):
        app = opened(page, data=data.key, columns=columns, q="qwxzv", lang="ko")
        assert (expected in [info.value for info in app.info]) is is_reported


@pytest.mark.parametrize("language", ["en", "ko"])
def test_displays_default_retrievers_in_the_language_of_the_page(
    data: StoredSet, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    add_retriever(data.fingerprint, DenseSpec(name="Late"))
    add_retriever(data.fingerprint, HybridSpec(name="Best mix", retrievers=("BM25", "Late")))
    findings = QueryHits((1, 0), (0.5, 0.4))
    outcomes = {"BM25": findings, "Late": findings, "Best mix": findings}
    monkeypatch.setattr(QuestionSearch, "outcomes", lambda *_: iter(outcomes.items()))
    app = opened(page, data=data.key, columns="BM25|Late|Best mix", q=QUESTION, lang=language)
    late, mix = ("후기 상호작용", "최적 혼합") if language == "ko" else ("Late", "Best mix")
    part_rank = catalog(language)["search.part_rank"].format(name=late, rank=1)
    options = [option.replace("\\", "") for option in app.pills[0].options]
    assert {late, mix} <= set(options)
    page_html = "\n".join(html(app))
    assert f'<span class="name">{mix}</span>' in page_html  # the header of the column
    assert f"<b>{mix}</b>" in page_html  # the reason
    assert part_rank in page_html
    headers = [column.get("label") for column in json.loads(app.dataframe[0].proto.columns).values()]
    assert {late, mix} <= set(headers)
    if language == "ko":
        assert "Best mix" not in "\n".join([page_html, *options, *map(str, headers)])
    assert app.query_params["columns"] == "BM25|Late|Best mix"


def test_finds_nothing_for_unknown_words_and_reports_new_question() -> None:
    app = ask(opened(page, columns="BM25"), "qwxzv")
    assert [info.value for info in app.info] == [EN["search.nothing_at_all"]]
    app = ask(app, "서울")
    assert EN["search.truth_unknown"] in [c.value for c in app.caption]
    assert "gold" not in columns(app)[0]
    app = ask(app, "   ")
    assert "q" not in app.query_params
    assert app.info[0].value.startswith("Enter a question")


def test_reports_failed_retriever_and_displays_others(data: StoredSet) -> None:
    add_retriever(data.fingerprint, DenseSpec(name="Dense · mine", model="no/such/model"))
    app = opened(page, columns="BM25|Dense · mine", q=QUESTION)
    (error,) = app.error
    assert error.value.replace("\\", "") == "No folder, finished training or hub model is called “no/such/model”."
    assert len(columns(app)) == 1
    assert len(column_headers(app)) == 2
    app = opened(page, columns="BM25|Dense|Hybrid|Reranked|Dense · mine")  # at most four columns
    assert any(c.value.startswith("Up to 4 retrievers fit side by side") for c in app.caption)


class Placed:
    """Returns each question's passages in a given order."""

    name = "placed"

    def __init__(self, first_relevant: Sequence[int]) -> None:
        self.first_relevant = first_relevant

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        del questions
        rows = []
        for question, rank in zip(QUESTIONS, self.first_relevant, strict=True):
            order = [row for row, passage in enumerate(PASSAGES) if passage.id not in question.relevant]
            order.insert(rank - 1, small_set().row_of_passage[question.relevant[0]])
            rows.append(order)
        return rankings_of(rows, k)


def test_offers_questions_disputed_by_a_comparison(data: StoredSet) -> None:
    right_at = {"BM25": (1, 1, 1, 1, 1, 2), "Dense": (1, 4, 1, 1, 2, 1), "Hybrid": (1,) * 6, "Reranked": (1,) * 6}
    results = search_and_store(data, small_set(), {name: Placed(ranks) for name, ranks in right_at.items()})
    folder = store_results(data, right_at, small_set(), results)
    disputed = [QUESTIONS[row].text for row in (1, 4, 5)]
    assert examples(opened(page)) == disputed
    shutil.rmtree(workspace() / "cache", ignore_errors=True)  # the folder is enough
    st.cache_resource.clear()
    assert examples(opened(page)) == disputed
    (folder / "rankings.npz").write_bytes(b"torn")
    st.cache_resource.clear()
    assert examples(opened(page)) == [q.text for q in QUESTIONS[:3]]


def test_stopped_search_keeps_question_in_its_box(data: StoredSet) -> None:
    app = ask(opened(page, data=data.key), QUESTION)
    assert columns(app)
    app.session_state["search_stopped"] = True  # like the button beside a long build
    app.query_params.clear()
    app.session_state["stored_q"] = ""
    run(app)
    assert not columns(app)
    assert "continues from there" in app.info[0].value
    assert app.text_input(key="question_box").value == QUESTION


def test_reports_build_progress_to_its_session(data: StoredSet) -> None:
    progress: list[float] = []
    specs = choices_for(data).experiment(data, ["BM25"], Part.ALL).model_dump_json()
    with report_progress_to(progress.append):
        retriever = retriever_context(data.key, specs).get_retriever("BM25")
        retriever.prepare()
    assert progress == [0.9]
    retriever.release()
    retriever.prepare()
    assert progress == [0.9]


def marks(app: AppTest) -> list[str]:
    return [button.key for button in app.button if (button.key or "").startswith("judge_")]


def test_explains_ranks_of_a_passage_judged_relevant(data: StoredSet) -> None:
    app = ask(opened(page, columns="BM25"), "한글을 누가 만들었지?")
    assert EN["search.truth_unknown"] in [caption.value for caption in app.caption]
    first = marks(app)[0]
    press(app, first)
    assert app.button(key=first).label == EN["judging.marked"]
    (judged,) = load_judgements(small_set().corpus_fingerprint)
    assert judged.question == "한글을 누가 만들었지?"
    assert judged.passages == (small_set().passages.ids[int(first.split()[-1])],)
    assert EN["why.rank_first"] in "".join(html(app))
    press(app, first)
    assert load_judgements(small_set().corpus_fingerprint) == ()
    assert data.questions


def test_creates_dataset_from_judged_questions(data: StoredSet) -> None:
    judge_passage(small_set().corpus_fingerprint, "새 질문", "p1", RelevanceVerdict.RIGHT)
    judge_passage(small_set().corpus_fingerprint, "또 새 질문", "p2", RelevanceVerdict.RIGHT)
    app = opened(page)
    next(box for box in app.text_input if box.label == EN["judging.name"]).set_value("mine")
    press(app, EN["judging.make"])
    new_set = next(dataset for dataset in stored() if dataset.name == "mine")
    assert (new_set.questions, new_set.passages) == (2, data.passages)
    assert [question.text for question in load(new_set.key).questions] == ["새 질문", "또 새 질문"]
    assert f"data={new_set.key}" in app.get("page_link")[0].proto.query_string
    app = opened(page, data=data.key)
    app.checkbox[0].check()  # with the questions of the dataset
    press(app, EN["judging.make"])
    assert max(dataset.questions for dataset in stored()) == data.questions + 2
