"""The Answers page: questions, judgements, answers of a language model, the page without a reader, and readers."""

import json
from dataclasses import asdict, replace

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data import workspace as workspace_module
from mrc_workbench.data.questions import judgements
from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.workspace import acting_as, user_of, workspace, write_json
from mrc_workbench.labs.reading.pages.page import AvailableReaders, marked_example
from mrc_workbench.models.files import ModelError
from mrc_workbench.training.jobs import QUEUE, DryRunJob, DryRunTask, Estimate
from mrc_workbench.training.recipes import default_base
from mrc_workbench.training.runs import new_plan
from mrc_workbench.training.text_options import READER, ReaderOptions
from mrc_workbench.workbench.views import access
from mrc_workbench.workbench.views.ui.words import catalog
from tests.chat_server import KEY, MODEL, ChatServer, chat_server
from tests.doubles import small_set
from tests.labs.reading.doubles import PASSAGES, QUESTIONS, SET, NextWord
from tests.labs.reading.pages.worlds import create_finished_run, page, replace_readers
from tests.workbench.views.driving import opened, page_html, press, run, texts

EN = catalog("en")
HOSTILE = "<img src=x onerror=alert(1)> **굵게** 수도 <script>alert(2)</script>"


@pytest.fixture
def data() -> StoredSet:
    return save_question_set(SET)


@pytest.fixture(autouse=True)
def readers_loaded(monkeypatch: pytest.MonkeyPatch) -> list[NextWord]:
    return replace_readers(monkeypatch)


def open_with_question(question: str, retrievers: str = "BM25", **address: str) -> AppTest:
    return opened(page, q=question, retrievers=retrievers, **address)


@pytest.mark.parametrize("address", [{}, {"q": QUESTIONS[0].text}, {"answers": "evaluate"}, {"reader": "../<b>"}])
def test_offers_training_without_reader_or_model(data: StoredSet, address: dict[str, str]) -> None:
    app = opened(page, retrievers="BM25", **address)
    hub = ["answers_hub_model_name", "use_hub_model"]
    model = ["answers_address", "answers_model", "answers_secret"]
    kinds = (app.button, app.text_input, app.selectbox, app.radio, app.checkbox)
    keys = [str(widget.key) for kind in kinds for widget in kind if widget.key]
    assert sorted(keys) == sorted(["train_reader", "use_model", *hub, *model])
    assert app.button(key="train_reader").label == "Train a reading model"
    assert (texts(app).count(EN["answers.needs_reader"]), len(app.info), len(app.warning)) == (1, 0, 0)
    assert 'class="results-head"' not in page_html(app)


def test_shows_marked_example_without_reader(data: StoredSet) -> None:
    app = opened(page)
    question, hit = marked_example(SET) or pytest.fail("no example")
    (start, end), *_ = hit.text.matches
    answers = {candidate.text: candidate.answers for candidate in SET.questions}
    assert hit.text.text[start:end] in answers[question]
    assert question in texts(app)
    assert f"<mark>{hit.text.text[start:end]}</mark>" in page_html(app)
    questions = tuple(replace(question, answers=("nowhere in a passage",)) for question in QUESTIONS)
    assert marked_example(replace(SET, questions=questions)) is None


def test_example_escapes_the_text_of_users() -> None:
    passage = Passage("p1", HOSTILE)
    question = replace(QUESTIONS[0], text=HOSTILE, answers=("수도",), relevant=("p1",))
    app = opened(page, data=save_question_set(QuestionSet("hostile", [passage], (question,))).key)
    assert "<img" not in page_html(app)
    assert "<mark>수도</mark>" in page_html(app)


def test_shows_estimated_minutes_of_this_set(data: StoredSet) -> None:
    assert opened(page).button(key="train_reader").label == EN["answers.train_one"]
    options = ReaderOptions.defaults_for(default_base(READER))
    other = save_question_set(replace(SET, name="other", questions=QUESTIONS[:3]))
    for seconds, stored_set in ((3000.0, other), (130.0, data)):
        named = (stored_set.key, stored_set.name, stored_set.fingerprint)
        plan = new_plan(READER, "any", named, SplitOptions(), options)
        estimate = Estimate(10, 1.0, 1.0, seconds, 1, 2, "cpu", fits=True, suggested_options={})
        write_json(DryRunJob.for_plan(plan, DryRunTask.ESTIMATE).folder / "estimate.json", asdict(estimate))
    assert opened(page, data=data.key).button(key="train_reader").label.endswith("(about 3 min)")


def test_shows_running_training(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    run_of = create_finished_run(data)
    (run_of.folder / "status.json").write_text(json.dumps({"state": "running"}), encoding="utf-8")
    monkeypatch.setattr(type(QUEUE), "running_job", lambda _: run_of)
    app = opened(page)
    assert EN["answers.is_trained"] in texts(app)
    assert app.button(key="train_reader").label == EN["answers.see_training"]


def test_accepts_hub_model(data: StoredSet) -> None:
    app = opened(page, retrievers="BM25", q="흐르는 강")
    app.text_input(key="answers_hub_model_name").set_value("<script>")
    press(app, "use_hub_model")
    assert app.error[0].value == EN["answers.no_hub_model"]
    app.text_input(key="answers_hub_model_name").set_value("somebody/reader")
    press(app, "use_hub_model")
    assert app.query_params["reader"] in ("somebody/reader", ["somebody/reader"])
    assert "### 한강" in texts(app)


def test_language_model_answers_without_reader_or_leaked_key(data: StoredSet) -> None:
    with chat_server(lambda _: "한강 [1]") as server:
        app = add_language_model(open_with_question("흐르는 강"), server)
        assert "[1]</a> ✔ contains the answer" in page_html(app)
        assert EN["answers.needs_reader"] not in texts(app)
        assert len(app.info) == 0
        run(app)
        assert len(server.requests) == 1
        app.query_params["answers"] = "evaluate"
        run(app)
        assert texts(app).count(EN["answers.needs_reader"]) == 1
    contents = [path.read_bytes() for path in workspace().rglob("*") if path.is_file()]
    assert contents
    for secret in (KEY, server.address):
        assert not any(secret.encode() in content for content in contents)
    assert KEY not in str(dict(app.query_params))


@pytest.mark.parametrize("address", [{}, {"reader": "somebody/reader"}])
def test_shows_single_notice(data: StoredSet, address: dict[str, str]) -> None:
    create_finished_run(data)
    app = opened(page, **address)
    notices = len(app.info) + sum(":material/info:" in element.value for element in app.markdown)
    assert notices == 1


def test_offers_first_questions_as_examples(data: StoredSet) -> None:
    create_finished_run(data)
    app = opened(page, retrievers="BM25")
    examples = [button for button in app.button if (button.key or "").startswith("answers_box_example")]
    assert [button.label.replace("\\", "") for button in examples] == [question.text for question in QUESTIONS[:3]]
    assert app.text_input(key="answers_box").placeholder == f"For example: {QUESTIONS[0].text}"
    press(app, "answers_box_example_1")
    assert app.query_params["q"] == QUESTIONS[1].text
    assert "### 한강" in texts(app)


def test_shows_and_judges_answer_with_probability_and_passage(data: StoredSet, readers_loaded: list[NextWord]) -> None:
    create_finished_run(data)
    app = open_with_question(QUESTIONS[1].text)
    assert "Answer in the dataset: 한강" in "\n".join(caption.value for caption in app.caption)
    assert "### 한강" in texts(app)
    assert "P 0.14 · passage 1" in texts(app)  # exp of minus two letters
    assert "<mark>한강</mark>" in page_html(app)
    assert "1443" not in page_html(app)
    app.selectbox(key="read_en").set_value("3")
    run(app)
    assert len(readers_loaded) == 1, "it stays loaded"
    press(app, "judge_answer_right_answers-0")
    corpus = SET.corpus_fingerprint
    assert judgements.load_judgements(corpus) == (judgements.JudgedQuestion("흐르는 강", ("p1",), ("한강",)),)
    press(app, "judge_answer_wrong_answers-0")
    assert judgements.find_answer_judgement(judgements.load_judged_answers(corpus), "흐르는 강", "한강") is False
    press(app, "judge_answer_wrong_answers-0")
    assert judgements.load_judged_answers(corpus) == ()


@pytest.mark.parametrize("threshold", [None, -6.9, -7.1])
def test_no_answer_above_threshold(data: StoredSet, monkeypatch: pytest.MonkeyPatch, threshold: float | None) -> None:
    monkeypatch.setattr("mrc_workbench.labs.reading.pages.passages.SpanReader", lambda _: NextWord(threshold))
    create_finished_run(data)
    app = open_with_question("흐르는 강", read="1")  # "no answer" is exp(-9), the span exp(-2): a margin of -7
    assert (EN["answers.says_nothing"] in texts(app)) is (threshold == -7.1)
    assert "### 한강" in texts(app)


def test_explains_wrong_passage(data: StoredSet) -> None:
    wordy = Passage("p0", "나라의 수도 런던 나라의 수도", "")
    save_question_set(QuestionSet("wordy", (wordy, *PASSAGES), QUESTIONS))
    create_finished_run(data)
    app = open_with_question("나라의 수도")
    (why,) = [caption.value.replace("\\", "") for caption in app.caption if "was selected" in caption.value]
    assert "“런던” in passage 1 has a reading score of −2.00" in why
    assert "“서울” in the answer passage" in why


def test_reads_shared_passage_once(data: StoredSet, readers_loaded: list[NextWord]) -> None:
    create_finished_run(data)
    app = open_with_question("흐르는 강", "BM25 words|BM25")
    assert page_html(app).count("results-head") >= 2
    assert texts(app).count("### 한강") == 2
    assert len(readers_loaded[0].read_pairs) == len({passage for _, passage in readers_loaded[0].read_pairs})


def test_escapes_question_and_passages(data: StoredSet) -> None:
    save_question_set(QuestionSet("hostile", (Passage("p<1>", f"{HOSTILE} 서울", "<b>t</b>"), *PASSAGES), ()))
    create_finished_run(data)
    app = open_with_question(f"{HOSTILE} 수도")
    assert "<script" not in page_html(app)
    assert "<img" not in page_html(app)
    assert "&lt;b&gt;t&lt;/b&gt;" in page_html(app)


def test_reports_unloadable_reader(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> NextWord:
        raise ModelError("hub_unreachable", "no hub", model="a/reader")

    monkeypatch.setattr("mrc_workbench.labs.reading.pages.passages.SpanReader", refuse)
    app = open_with_question("흐르는 강", reader="a/reader")
    assert not app.error, "an address must not load a model"
    press(app, "load_reader")
    assert "a/reader" in app.error[0].value.replace("\\", "")
    assert "한강" in page_html(app)


def add_language_model(app: AppTest, server: ChatServer, key: str = KEY) -> AppTest:
    app.text_input(key="answers_address").set_value(server.address)
    app.text_input(key="answers_model").set_value(MODEL)
    app.text_input(key="answers_secret").set_value(key)
    app.button(key="use_model").click()
    return run(app)


def test_checks_citations_of_language_model(data: StoredSet) -> None:
    with chat_server(lambda _: "한강 <b>[1][2]</b> [9]") as server:
        app = add_language_model(open_with_question("흐르는 강", "BM25", read="3"), server)
    content = page_html(app)
    assert '<a href="#answers-0-1" target="_self">[1]</a>' in content
    assert "&lt;b&gt;" in content
    assert "[1]</a> ✘" in content, "it holds no <b>"
    assert "[9] ?" in content
    assert "input tokens" in texts(app)


def test_stopped_answer_restarts_by_button(data: StoredSet) -> None:
    with chat_server(lambda _: "한강 [1]") as server:
        app = open_with_question("흐르는 강")
        app.session_state["answers_stopped"] = {(MODEL, "흐르는 강")}
        add_language_model(app, server)
        assert EN["answers.was_stopped"] in texts(app)
        assert server.requests == []
        press(app, "again_answers-0")
        assert len(server.requests) == 1


def test_reports_endpoint_error_without_key(data: StoredSet) -> None:
    with chat_server(lambda _: "x") as server:
        app = add_language_model(open_with_question("흐르는 강"), server, "sk-wrongwrongwrong")
    assert app.error
    assert "sk-wrong" not in texts(app)


def test_language_model_answers_signed_in_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "is_sign_in_enabled", lambda: True)
    monkeypatch.setattr(workspace_module, "_user_providers", [access._current_user])
    name = user_of("https://id.example.org", "alice")
    with acting_as(name):
        create_finished_run(save_question_set(SET))
    with chat_server(lambda _: "한강 [1]") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.address)
        monkeypatch.setenv("OPENAI_MODEL", MODEL)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        app = AppTest.from_function(page, default_timeout=60)
        app.user = {"is_logged_in": True, "iss": "https://id.example.org", "sub": "alice"}
        app.query_params.update({"lang": "en", "q": "흐르는 강", "retrievers": "BM25"})
        run(app)
    assert not app.error
    assert "[1]</a> ✔ contains the answer" in page_html(app)
    assert (workspace_module.shared_workspace() / "users" / name / "generated").exists()
    assert not (workspace_module.shared_workspace() / "generated").exists()


def test_offers_trained_and_valid_hub_readers(data: StoredSet) -> None:
    create_finished_run(data, "Old")
    create_finished_run(data, "New")
    app = opened(page, retrievers="BM25", reader="<script>")
    assert sorted(app.selectbox(key="reader_en").options) == ["New", "Old"]
    app = opened(page, retrievers="BM25", reader="somebody/reader")
    assert app.selectbox(key="reader_en").options[-1] == "somebody/reader"
    assert app.query_params["reader"] == "somebody/reader"


def test_has_seen_training_questions(data: StoredSet) -> None:
    run = create_finished_run(data)
    readers = AvailableReaders({run.id: "Mine", "hub/reader": "hub/reader"}, {run.id: run})
    assert readers.has_seen(run.id, data, Part.ALL)
    assert readers.has_seen(run.id, data, Part.TRAIN)
    assert not readers.has_seen(run.id, data, Part.TEST)
    assert not readers.has_seen(run.id, save_question_set(small_set()), Part.ALL)
    assert not readers.has_seen("hub/reader", data, Part.ALL)
