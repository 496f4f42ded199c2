"""Generating questions on the Data page: previews, stored sets, language models, and notes on other pages."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.data.store import load, save_question_set, stored
from mrc_workbench.data.workspace import workspace
from tests.chat_server import AT_ONCE, KEY, MODEL, ChatServer, Reply, chat_server
from tests.workbench.views.driving import data_page, opened, press, run, texts

CITIES = ("서울", "부산", "대구", "인천", "광주", "대전")
CITY_TEXT = "{0} is a large city of many people. {0} has an old market and wide parks."
CORPUS = QuestionSet("도시", [Passage(f"p{n}", CITY_TEXT.format(city), city) for n, city in enumerate(CITIES)], ())


def other_page() -> None:
    from importlib import import_module

    import streamlit as st

    import_module(f"mrc_workbench.workbench.views.{st.query_params['at']}.page").draw()


def choose(app: AppTest, by: str) -> AppTest:
    app.segmented_control(key="made_by_en").set_value(by)
    return run(app)


@pytest.fixture
def app() -> AppTest:
    return opened(data_page, data=save_question_set(CORPUS).key)


def with_model(app: AppTest, server: ChatServer, key: str = KEY) -> AppTest:
    choose(app, "model")
    app.text_input(key="made_address").set_value(server.address)
    app.text_input(key="made_model").set_value(MODEL)
    app.text_input(key="made_secret").set_value(key)
    return run(app)


def test_opens_generator_for_passages_without_questions(app: AppTest) -> None:
    assert app.tabs[0].label == "Generate training questions"
    assert app.button(key="made_make")
    summary = opened(data_page, data=stored()[0].key, look="summary")
    assert [metric.value for metric in summary.metric[:3]] == ["6", "0", "6"]
    listed = opened(data_page, data=stored()[0].key, look="passages")
    assert "No questions about this passage" in "".join(html.proto.body for html in listed.get("html"))


def test_previews_and_generates_questions_and_links_to_training(app: AppTest) -> None:
    press(app, "made_preview")
    assert texts(app).count("→") == 5, "as training reads them"
    assert len(stored()) == 1, "a preview stores nothing"
    press(app, "made_make")
    generated, _ = stored()
    assert (generated.name, generated.source) == ("도시 · generated (Sentence)", "도시")
    assert (generated.questions, generated.generated) == (6, 6)
    assert generated.key in app.query_params["data"]
    assert "6 of 6 questions were generated from passages" in texts(app)
    assert "6 generated questions" in texts(app)  # in the sidebar
    assert app.button(key="made_train").label == "Train with these"
    train = opened(other_page, at="train", data=generated.key)
    assert "6 of these questions were generated from passages" in texts(train)


def test_generates_questions_from_titles(app: AppTest) -> None:
    choose(app, "title")
    press(app, "made_make")
    assert {question.text for question in load(stored()[0].key).questions} == set(CITIES)


def test_reports_generation_failure() -> None:
    untitled = QuestionSet("set", [Passage("a", "Short."), Passage("b", "Shorter.")], ())
    app = opened(data_page, data=save_question_set(untitled).key)
    press(app, "made_make")
    assert "No passage has a sentence to use" in texts(app)
    choose(app, "title")
    press(app, "made_make")
    assert "No passage has a title" in texts(app)
    choose(app, "model")
    press(app, "made_make")
    assert "Enter the name of the language model" in texts(app)
    app.text_input(key="made_model").set_value("m")
    app.text_input(key="made_address").set_value("nowhere")
    press(app, "made_preview")
    assert "The address must begin with http" in texts(app)


def test_generates_with_language_model_and_keeps_key_in_session(app: AppTest) -> None:
    def reply(text: str) -> str:
        city = next(city for city in CITIES if city in text)
        return "모르겠습니다." if city == "대구" else json.dumps([f"{city}은 어떤 곳인가?"])

    with chat_server(reply) as server:
        with_model(app, server)
        assert "The passages are sent to the address below" in texts(app)
        press(app, "made_preview")
        assert 5 <= len(server.requests) <= 6
        assert "은 어떤 곳인가?" in texts(app)
        press(app, "made_make")
        assert len([item for item in server.requests if "대구" not in item["messages"][1]["content"]]) == 5
    assert not app.exception
    generated = stored()[0]
    assert (generated.questions, set(load(generated.key).generated_counts)) == (5, {f"model: {MODEL}"})
    assert any("No questions for 1 passages" in item.label for item in app.expander)
    written = b"".join(path.read_bytes() for path in workspace().rglob("*") if path.is_file())
    assert KEY.encode() not in written
    assert server.address.encode() not in written
    assert KEY not in str(dict(app.query_params))


def test_keeps_answers_after_limit_and_creates_set_from_them(app: AppTest) -> None:
    answers = iter(CITIES[:2])

    def reply(text: str) -> str | Reply:
        city = next(answers, None)
        return json.dumps([f"{text[8:10]}은 어디인가?"]) if city else Reply(429, {}, AT_ONCE)

    with chat_server(reply) as server:
        with_model(app, server)
        press(app, "made_make")
        assert "accepts no more requests" in texts(app)
        assert "The questions so far are saved" in texts(app)
        press(app, "made_make_kept")
    assert stored()[0].questions == 2
    assert "4 passages have no questions yet" in texts(app)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("compare", "Comparing needs questions with known answer passages, and this dataset has none."),
        ("train", "Training needs questions, and this dataset has none."),
        ("search", "Enter a question above and press Search."),
    ],
)
def test_reports_missing_questions_on_other_pages(name: str, expected: str) -> None:
    assert expected in texts(opened(other_page, at=name, data=save_question_set(CORPUS).key))


def test_searches_passages_without_questions() -> None:
    data = save_question_set(CORPUS)
    app = opened(other_page, at="search", data=data.key, q="the old market of 부산", columns="BM25")
    assert "This dataset has no questions, so the answer passage is unknown." in texts(app)
    assert "부산" in "".join(html.proto.body for html in app.get("html"))
