"""The Search page as a person uses it: a question asked, examples tried, columns picked, what fails told."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.questions.judgements import Verdict, judge, judgements_of
from mrc_workbench.data.records import Passage, Question, QuestionSet, composed
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet, keep, load, stored
from mrc_workbench.data.text.marking import MarkedText
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval.comparison.experiment import add
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec
from mrc_workbench.retrieval.rankings import Findings, Rankings
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.resources.retrieval import listening, materials
from mrc_workbench.workbench.views.search.answer import Search, SearchAnswer
from mrc_workbench.workbench.views.ui.passages import Hit, hits_html
from mrc_workbench.workbench.views.ui.words import catalog, word
from tests.doubles import PASSAGES, QUESTIONS, small_set
from tests.workbench.views.compare.worlds import kept, press, searched
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
    """What was found, a text a retriever: each begins with its first passage."""
    found: list[str] = []
    for text in html(app):
        if 'class="found" role' in text:
            if '<span class="rank">1</span>' in text:
                found.append("")
            found[-1] += text
    return found


def heads(app: AppTest) -> list[str]:
    return [text for text in html(app) if text.startswith('<div class="found-head"')]


def test_an_empty_page_says_what_to_do_and_gives_the_first_questions() -> None:
    app = opened(page)
    told = "Enter a question above and press Search, or pick one of the examples."
    assert [info.value for info in app.info] == [told]
    assert examples(app) == [q.text for q in QUESTIONS[:3]]
    assert columns(app) == []
    assert app.text_input(key="question_box").placeholder == f"For example: {QUESTIONS[0].text}"
    alone = keep(QuestionSet("alone", PASSAGES, ())).key
    assert opened(page, data=alone).text_input(key="question_box").placeholder == EN["search.placeholder_alone"]


def test_a_question_asked_of_bm25() -> None:
    app = ask(opened(page, columns="BM25"), QUESTION)
    assert app.query_params["q"] == QUESTION
    (column,) = columns(app)
    first = column.split('<div role="listitem"')[1]
    assert first.startswith(' class="gold"')
    assert '<span class="truth">✔ answer passage</span>' in first
    assert "<u>세종</u>은 <mark>한글</mark>을 <mark>만든</mark> <mark>왕</mark>이다" in first
    (head,) = heads(app)
    assert ">BM25<" in head
    assert "Answer passage at rank 1" in head
    assert any("**세종**" in text.value for text in app.markdown)
    right = small_set().row_of_passage[QUESTIONS[0].relevant[0]]
    assert f"judge_BM25 {right}" not in marks(app)  # the set knows that it is right
    assert marks(app)


def test_the_address_and_an_example_search_too(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr("mrc_workbench.retrieval.rankings.composed", lambda text: read.append(text) or composed(text))
    app = opened(page, columns="BM25", q=QUESTIONS[3].text)
    assert len(read) == 1 + len(QUESTIONS)  # the set is looked through once for what it knows of a question
    assert "설악산" in columns(app)[0]
    press(app, "question_box_example_1")
    assert app.text_input(key="question_box").value == QUESTIONS[1].text
    assert app.query_params["q"] == QUESTIONS[1].text
    assert "<u>서해</u>" in columns(app)[0]


def picked(app: AppTest) -> list[str]:
    return next([*pills.value] for pills in app.get("button_group") if pills.label == EN["compare.retrievers"])


def test_the_newest_training_is_among_the_columns(data: StoredSet) -> None:
    assert picked(opened(page)) == ["BM25", "Dense", "Hybrid", "Reranked"]
    finished(BI_ENCODER, "first", data)
    assert picked(opened(page)) == ["BM25", "Dense", "Hybrid", "Dense · first"]
    finished(BI_ENCODER, "second", data)
    assert picked(opened(page)) == ["BM25", "Dense", "Hybrid", "Dense · second"]


def test_what_was_trained_since_columns_were_chosen_is_added_to_them_once(data: StoredSet) -> None:
    app = opened(page)
    app.session_state["kept_columns"] = "BM25|Reranked"  # chosen on this page, before another was opened
    finished(BI_ENCODER, "first", data)
    assert picked(run(app)) == ["BM25", "Reranked", "Dense · first"]
    app.get("button_group")[0].set_value(["BM25", "Reranked"])
    assert picked(run(app)) == picked(run(app)) == ["BM25", "Reranked"]


def test_questions_of_the_pages_language_come_first_and_stand_in_the_box() -> None:
    passages = (Passage("p1", "Seoul is the capital of Korea.", ""), Passage("p2", "서울은 한국의 수도이다.", ""))
    asked = [("한국의 수도는?", "p2"), ("Which city is the capital?", "p1"), ("수도는 어느 도시?", "p2")]
    questions = tuple(Question(f"q{n}", text, (), (right,)) for n, (text, right) in enumerate(asked))
    both = keep(QuestionSet("both", passages, questions)).key
    english = opened(page, data=both)
    assert examples(english) == ["Which city is the capital?", "한국의 수도는?", "수도는 어느 도시?"]
    assert english.text_input(key="question_box").placeholder == "For example: Which city is the capital?"
    korean = ["한국의 수도는?", "수도는 어느 도시?", "Which city is the capital?"]
    assert examples(opened(page, data=both, lang="ko")) == korean


def test_a_column_says_what_it_does_and_can_be_picked_by_its_name_on_a_narrow_screen() -> None:
    app = ask(opened(page, columns="BM25|BM25 words"), QUESTION)
    assert '<div class="does">finds passages with the same words' in heads(app)[0]
    (switch,) = [text for text in html(app) if text.startswith('<div class="found-switch"')]
    assert switch.count('type="radio"') == 2
    assert "BM25 <small>✔1</small></label>" in switch


def test_what_reranking_leaves_in_its_place_is_told_in_words() -> None:
    one = Hit(1, "0.5", "p1", MarkedText("제목"), MarkedText("글"), relevant=False, before=1)
    assert f'<span class="moved">＝ {word("search.not_moved")}</span>' in hits_html([one])
    assert "▲2 <small>3→1</small>" in hits_html([replace(one, before=3)])


def test_all_four_side_by_side() -> None:
    app = ask(opened(page), QUESTION)
    assert not app.error
    assert len(columns(app)) == len(heads(app)) == 4
    hybrid, reranked = columns(app)[2:]
    assert '<span class="parts">BM25 #1 · Dense #1</span>' in hybrid
    assert 'class="moved"' in reranked
    scores = ["Score: BM25", "Score: cosine", EN["search.score_hybrid"], EN["search.score_rerank"]]
    assert [caption.value for caption in app.caption if caption.value.startswith("Score")] == scores
    table = app.dataframe[0].value
    names = ("BM25", "Dense", "Hybrid", "Reranked")
    assert list(table) == ["rank", *(f"{name} {cell}" for name in names for cell in ("passage", "score"))]
    assert table["BM25 passage"][0] == "✔ 세종 · p1"


def test_text_of_users_is_never_html(data: StoredSet) -> None:
    answer = '"><b>답</b>'
    passages = (Passage("<i>id</i>", f"{HOSTILE} {answer}", HOSTILE), *PASSAGES)
    questions = (Question("q", HOSTILE, (answer,), ("<i>id</i>",)),)
    app = ask(opened(page, data=keep(QuestionSet("hostile", passages, questions)).key, columns="BM25"), HOSTILE)
    text = "".join(columns(app) + heads(app))
    for never in ("<img", "<script", "<i>", "<b>"):
        assert never not in text
    assert "&lt;<mark>script</mark>&gt;" in text
    assert "<u>&quot;&gt;&lt;b&gt;답&lt;/b&gt;</u>" in text
    assert all("<b>" not in element.value.replace("\\<b\\>", "") for element in app.markdown)


def test_a_mix_whose_lexical_half_finds_nothing_is_said_to_stand_on_the_others(data: StoredSet) -> None:
    """Once for all mixes; what finds nothing itself says that already."""
    specs = choices_for(data).specs
    found, nothing = Findings((1,), (0.5,)), Findings((), ())
    outcomes = {"BM25": nothing, "Dense": found, "Hybrid": found, "Reranked": nothing}
    answer = SearchAnswer(data, "qwxzv", outcomes, None, 5)
    assert answer.blind([*specs.values()]) == {"BM25": ["Hybrid"]}
    assert answer.blind([specs["Dense"]]) == {}
    assert replace(answer, outcomes=outcomes | {"Dense": nothing, "Hybrid": nothing}).blind([*specs.values()]) == {}
    assert replace(answer, outcomes=outcomes | {"BM25": ValueError("gone")}).blind([*specs.values()]) == {}


@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_question_that_shares_no_word_says_that_the_hybrid_is_blind_on_one_side(
    data: StoredSet, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    outcomes = {"BM25": Findings((), ()), "Dense": Findings((1,), (0.5,)), "Hybrid": Findings((1,), (0.5,))}
    monkeypatch.setattr(Search, "outcomes", lambda *_: iter(outcomes.items()))
    app = opened(page, data=data.key, columns="BM25|Hybrid", q="qwxzv", lang=language)
    names = "하이브리드" if language == "ko" else "Hybrid"
    said = catalog(language)["search.blind_words"].format(part="BM25", names=names)
    assert said in [info.value for info in app.info]
    told = opened(page, data=data.key, columns="BM25|Dense", q="qwxzv", lang=language).info
    assert said not in [info.value for info in told]


@pytest.mark.parametrize("language", ["en", "ko"])
def test_displays_default_retrievers_in_the_language_of_the_page(
    data: StoredSet, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    add(data.fingerprint, DenseSpec(name="Late"))
    add(data.fingerprint, HybridSpec(name="Best mix", of=("BM25", "Late")))
    found = Findings((1, 0), (0.5, 0.4))
    outcomes = {"BM25": found, "Late": found, "Best mix": found}
    monkeypatch.setattr(Search, "outcomes", lambda *_: iter(outcomes.items()))
    app = opened(page, data=data.key, columns="BM25|Late|Best mix", q=QUESTION, lang=language)
    late, mix = ("후기 상호작용", "최적 혼합") if language == "ko" else ("Late", "Best mix")
    part_rank = catalog(language)["search.part_rank"].format(name=late, rank=1)
    options = [option.replace("\\", "") for option in app.pills[0].options]
    assert {late, mix} <= set(options)
    drawn = "\n".join(html(app))
    assert f'<span class="name">{mix}</span>' in drawn  # the head of the column
    assert f"<b>{mix}</b>" in drawn  # the reason
    assert part_rank in drawn
    headers = [column.get("label") for column in json.loads(app.dataframe[0].proto.columns).values()]
    assert {late, mix} <= set(headers)
    if language == "ko":
        assert "Best mix" not in "\n".join([drawn, *options, *map(str, headers)])
    assert app.query_params["columns"] == "BM25|Late|Best mix"


def test_unknown_words_find_nothing_and_a_new_question_has_no_answer_passage() -> None:
    app = ask(opened(page, columns="BM25"), "qwxzv")
    assert [info.value for info in app.info] == [EN["search.nothing_at_all"]]
    app = ask(app, "서울")
    assert EN["search.truth_unknown"] in [c.value for c in app.caption]
    assert "gold" not in columns(app)[0]
    app = ask(app, "   ")
    assert "q" not in app.query_params
    assert app.info[0].value.startswith("Enter a question")


def test_a_retriever_that_fails_tells_why_and_the_others_go_on(data: StoredSet) -> None:
    add(data.fingerprint, DenseSpec(name="Dense · mine", model="no/such/model"))
    app = opened(page, columns="BM25|Dense · mine", q=QUESTION)
    (error,) = app.error
    assert error.value.replace("\\", "") == "No folder, finished training or hub model is called “no/such/model”."
    assert len(columns(app)) == 1
    assert len(heads(app)) == 2
    app = opened(page, columns="BM25|Dense|Hybrid|Reranked|Dense · mine")  # more than four are not squeezed in
    assert any(c.value.startswith("Up to 4 retrievers fit side by side") for c in app.caption)


class Placed:
    """Finds each question's passages in a given order."""

    name = "placed"

    def __init__(self, first_relevant: Sequence[int]) -> None:
        self.first_relevant = first_relevant

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        indices = np.full((len(questions), k), -1, dtype=np.int32)
        for row, rank in enumerate(self.first_relevant):
            right = PASSAGES.index(next(p for p in PASSAGES if p.id == QUESTIONS[row].relevant[0]))
            order = [other for other in range(len(PASSAGES)) if PASSAGES[other].id not in QUESTIONS[row].relevant]
            order.insert(rank - 1, right)
            indices[row, : len(order)] = order
        return Rankings(indices, np.where(indices < 0, -np.inf, 1).astype(np.float32))


def test_examples_are_what_a_finished_comparison_disputes(data: StoredSet) -> None:
    right_at = {"BM25": (1, 1, 1, 1, 1, 2), "Dense": (1, 4, 1, 1, 2, 1), "Hybrid": (1,) * 6, "Reranked": (1,) * 6}
    results = searched(data, small_set(), {name: Placed(ranks) for name, ranks in right_at.items()})
    folder = kept(data, right_at, small_set(), results)
    disputed = [QUESTIONS[row].text for row in (1, 4, 5)]
    assert examples(opened(page)) == disputed
    shutil.rmtree(workspace() / "cache", ignore_errors=True)  # the folder alone is enough
    st.cache_resource.clear()
    assert examples(opened(page)) == disputed
    (folder / "rankings.npz").write_bytes(b"torn")
    st.cache_resource.clear()
    assert examples(opened(page)) == [q.text for q in QUESTIONS[:3]]


def test_what_is_stopped_is_asked_no_more_and_stays_in_its_box(data: StoredSet) -> None:
    app = ask(opened(page, data=data.key), QUESTION)
    assert columns(app)
    app.session_state["search_stopped"] = True  # as the button does that stands beside a long build
    app.query_params.clear()
    app.session_state["kept_q"] = ""
    run(app)
    assert not columns(app)
    assert "continues from there" in app.info[0].value
    assert app.text_input(key="question_box").value == QUESTION


def test_a_retriever_tells_the_session_that_builds_it(data: StoredSet) -> None:
    told: list[float] = []
    specs = choices_for(data).experiment(data, ["BM25"], Part.ALL).model_dump_json()
    with listening(told.append):
        retriever = materials(data.key, specs).part("BM25")
        retriever.prepare()
    assert told == [0.9]
    retriever.release()
    retriever.prepare()
    assert told == [0.9]


def marks(app: AppTest) -> list[str]:
    return [button.key for button in app.button if (button.key or "").startswith("judge_")]


def test_a_passage_is_judged_right_and_the_reasons_are_told(data: StoredSet) -> None:
    app = ask(opened(page, columns="BM25"), "한글을 누가 만들었지?")
    assert EN["search.truth_unknown"] in [caption.value for caption in app.caption]
    first = marks(app)[0]
    press(app, first)
    assert app.button(key=first).label == EN["judging.marked"]
    (judged,) = judgements_of(small_set().corpus_fingerprint)
    assert judged.question == "한글을 누가 만들었지?"
    assert judged.passages == (small_set().passages.ids[int(first.split()[-1])],)
    assert EN["why.place_first"] in "".join(html(app))
    press(app, first)
    assert judgements_of(small_set().corpus_fingerprint) == ()
    assert data.questions


def test_judged_questions_become_a_set_to_compare(data: StoredSet) -> None:
    judge(small_set().corpus_fingerprint, "새 질문", "p1", Verdict.RIGHT)
    judge(small_set().corpus_fingerprint, "또 새 질문", "p2", Verdict.RIGHT)
    app = opened(page)
    next(box for box in app.text_input if box.label == EN["judging.name"]).set_value("mine")
    press(app, EN["judging.make"])
    made = next(kept for kept in stored() if kept.name == "mine")
    assert (made.questions, made.passages) == (2, data.passages)
    assert [question.text for question in load(made.key).questions] == ["새 질문", "또 새 질문"]
    assert f"data={made.key}" in app.get("page_link")[0].proto.query_string
    app = opened(page, data=data.key)
    app.checkbox[0].check()  # with the questions of the set
    press(app, EN["judging.make"])
    assert max(kept.questions for kept in stored()) == data.questions + 2
