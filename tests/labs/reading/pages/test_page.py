"""The Answers page as a person uses it: asked, judged, answered by a language model, and without any reader. Which
readers can be picked, and which have seen what they are judged on."""

import json
from dataclasses import asdict, replace

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data import workspace as workspace_module
from mrc_workbench.data.questions.judgements import Judged, judged_answer, judged_answers, judgements_of
from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import StoredSet, keep
from mrc_workbench.data.workspace import acting_as, user_of, workspace, write_json
from mrc_workbench.labs.reading.pages.page import Readers, marked_example
from mrc_workbench.models.files import ModelError
from mrc_workbench.training.jobs import QUEUE, Estimate, Rehearsal, RehearsalTask
from mrc_workbench.training.recipes import usual_base
from mrc_workbench.training.runs import new_plan
from mrc_workbench.training.text_options import READER, ReaderOptions
from mrc_workbench.workbench.views import access
from mrc_workbench.workbench.views.ui.words import catalog
from tests.chat_server import KEY, MODEL, ChatServer, chat_server
from tests.doubles import small_set
from tests.labs.reading.doubles import PASSAGES, QUESTIONS, SET, NextWord
from tests.labs.reading.pages.worlds import page, read_by_next_word, trained
from tests.workbench.views.driving import opened, press, run, texts

EN = catalog("en")
HOSTILE = "<img src=x onerror=alert(1)> **굵게** 수도 <script>alert(2)</script>"


@pytest.fixture
def data() -> StoredSet:
    return keep(SET)


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[NextWord]:
    return read_by_next_word(monkeypatch)


def html(app: AppTest) -> str:
    return "\n".join(str(one.value) for one in app.get("html"))


def asked(question: str, retrievers: str = "BM25", **address: str) -> AppTest:
    return opened(page, q=question, retrievers=retrievers, **address)


def drawn(app: AppTest) -> list[str]:
    """The keys of all that can be pressed, typed into or chosen from."""
    kinds = (app.button, app.text_input, app.selectbox, app.radio, app.checkbox)
    return sorted(str(one.key) for kind in kinds for one in kind if one.key)


@pytest.mark.parametrize("address", [{}, {"q": QUESTIONS[0].text}, {"answers": "evaluate"}, {"reader": "../<b>"}])
def test_where_nothing_can_answer_there_is_one_thing_to_do(data: StoredSet, address: dict[str, str]) -> None:
    app = opened(page, retrievers="BM25", **address)
    hub, model = ["answers_hub_model_name", "use_hub_model"], ["answers_address", "answers_model", "answers_secret"]
    assert drawn(app) == sorted(["train_reader", "use_model", *hub, *model])
    assert app.button(key="train_reader").label == "Train a reading model"
    assert (texts(app).count(EN["answers.needs_reader"]), len(app.info), len(app.warning)) == (1, 0, 0)
    assert 'class="found-head"' not in html(app)


def test_without_a_reader_an_example_marks_the_answer_of_the_dataset(data: StoredSet) -> None:
    app = opened(page)
    question, hit = marked_example(SET) or pytest.fail("no example")
    (start, end), *_ = hit.text.matches
    assert hit.text.text[start:end] in next(one.answers for one in SET.questions if one.text == question)
    assert question in texts(app)
    assert f"<mark>{hit.text.text[start:end]}</mark>" in html(app)


def test_there_is_no_example_if_no_passage_contains_an_answer() -> None:
    questions = tuple(replace(question, answers=("nowhere in a passage",)) for question in QUESTIONS)
    assert marked_example(replace(SET, questions=questions)) is None


def test_example_escapes_the_text_of_users() -> None:
    passage = Passage("p1", HOSTILE)
    question = replace(QUESTIONS[0], text=HOSTILE, answers=("수도",), relevant=("p1",))
    app = opened(page, data=keep(QuestionSet("hostile", [passage], (question,))).key)
    assert "<img" not in html(app)
    assert "<mark>수도</mark>" in html(app)


def test_the_minutes_are_those_that_were_measured_for_this_set(data: StoredSet) -> None:
    assert opened(page).button(key="train_reader").label == EN["answers.train_one"]
    options = ReaderOptions.suited_to(usual_base(READER))
    for seconds, measured in ((3000.0, keep(replace(SET, name="other", questions=QUESTIONS[:3]))), (130.0, data)):
        plan = new_plan(READER, "any", (measured.key, measured.name, measured.fingerprint), SplitOptions(), options)
        found = Estimate(10, 1.0, 1.0, seconds, 1, 2, "cpu", fits=True, instead={})
        write_json(Rehearsal.of(plan, RehearsalTask.ESTIMATE).folder / "estimate.json", asdict(found))
    assert opened(page, data=data.key).button(key="train_reader").label.endswith("(about 3 min)")


def test_a_reader_that_is_being_trained_is_waited_for(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    run_of = trained(data)
    (run_of.folder / "status.json").write_text(json.dumps({"state": "running"}), encoding="utf-8")
    monkeypatch.setattr(type(QUEUE), "at_work", lambda _: run_of)
    app = opened(page)
    assert EN["answers.is_trained"] in texts(app)
    assert app.button(key="train_reader").label == EN["answers.see_training"]


def test_a_model_of_the_hub_is_named_instead(data: StoredSet) -> None:
    app = opened(page, retrievers="BM25", q="흐르는 강")
    app.text_input(key="answers_hub_model_name").set_value("<script>")
    press(app, "use_hub_model")
    assert app.error[0].value == EN["answers.no_hub_model"]
    app.text_input(key="answers_hub_model_name").set_value("somebody/reader")
    press(app, "use_hub_model")
    assert app.query_params["reader"] in ("somebody/reader", ["somebody/reader"])
    assert "### 한강" in texts(app)


def test_a_language_model_alone_answers_once_without_its_key_and_is_not_evaluated(data: StoredSet) -> None:
    with chat_server(lambda _: "한강 [1]") as server:
        app = with_model(asked("흐르는 강"), server)
        assert "[1]</a> ✔ contains the answer" in html(app)
        assert EN["answers.needs_reader"] not in texts(app)
        assert len(app.info) == 0
        run(app)
        assert len(server.asked) == 1
        app.query_params["answers"] = "evaluate"
        run(app)
        assert texts(app).count(EN["answers.needs_reader"]) == 1
    files = [path for path in workspace().rglob("*") if path.is_file()]
    assert files
    assert not [
        path for path in files if KEY.encode() in path.read_bytes() or server.address.encode() in path.read_bytes()
    ]
    assert KEY not in str(dict(app.query_params))


@pytest.mark.parametrize("address", [{}, {"reader": "somebody/reader"}])
def test_there_is_one_notice_at_most(data: StoredSet, address: dict[str, str]) -> None:
    trained(data)
    app = opened(page, **address)
    notices = len(app.info) + sum(":material/info:" in one.value for one in app.markdown)
    assert notices == 1


def test_an_empty_page_gives_the_first_questions_to_try(data: StoredSet) -> None:
    trained(data)
    app = opened(page, retrievers="BM25")
    labels = [one.label.replace("\\", "") for one in app.button if (one.key or "").startswith("answers_box_example")]
    assert labels == [question.text for question in QUESTIONS[:3]]
    assert app.text_input(key="answers_box").placeholder == f"For example: {QUESTIONS[0].text}"
    press(app, "answers_box_example_1")
    assert app.query_params["q"] == QUESTIONS[1].text
    assert "### 한강" in texts(app)


def test_the_answer_its_probability_and_its_passage_and_that_of_the_set(data: StoredSet, made: list[NextWord]) -> None:
    trained(data)
    app = asked(QUESTIONS[1].text)
    assert "Answer in the dataset: 한강" in "\n".join(one.value for one in app.caption)
    assert "### 한강" in texts(app)
    assert "P 0.14 · passage 1" in texts(app)  # exp of minus two letters
    assert "<mark>한강</mark>" in html(app)
    assert "1443" not in html(app)
    app.selectbox(key="read_en").set_value("3")
    run(app)
    assert len(made) == 1, "it stays loaded"


@pytest.mark.parametrize(("threshold", "silent"), [(None, False), (-6.9, False), (-7.1, True)])
def test_a_reader_that_learned_to_says_that_no_passage_answers(
    data: StoredSet, monkeypatch: pytest.MonkeyPatch, threshold: float | None, *, silent: bool
) -> None:
    monkeypatch.setattr("mrc_workbench.labs.reading.pages.passages.SpanReader", lambda _: NextWord(threshold))
    trained(data)
    app = asked("흐르는 강", read="1")  # "no answer" is exp(-9), the span exp(-2): a margin of -7
    assert (EN["answers.says_nothing"] in texts(app)) is silent
    assert "### 한강" in texts(app)


def test_why_a_wrong_passage_was_taken_is_told_in_numbers(data: StoredSet) -> None:
    wordy = Passage("p0", "나라의 수도 런던 나라의 수도", "")
    keep(QuestionSet("wordy", (wordy, *PASSAGES), QUESTIONS))
    trained(data)
    app = asked("나라의 수도")
    (why,) = [one.value.replace("\\", "") for one in app.caption if "was selected" in one.value]
    assert "“런던” in passage 1 has a reading score of −2.00" in why
    assert "“서울” in the answer passage" in why


def test_a_passage_that_several_retrievers_find_is_read_once(data: StoredSet, made: list[NextWord]) -> None:
    trained(data)
    app = asked("흐르는 강", "BM25 words|BM25")
    assert html(app).count("found-head") >= 2
    assert texts(app).count("### 한강") == 2
    assert len(made[0].read_pairs) == len({passage for _, passage in made[0].read_pairs})


def test_a_question_and_passages_are_never_html(data: StoredSet) -> None:
    keep(QuestionSet("hostile", (Passage("p<1>", f"{HOSTILE} 서울", "<b>t</b>"), *PASSAGES), ()))
    trained(data)
    app = asked(f"{HOSTILE} 수도")
    assert "<script" not in html(app)
    assert "<img" not in html(app)
    assert "&lt;b&gt;t&lt;/b&gt;" in html(app)


def test_a_reader_that_cannot_be_loaded_is_told(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> NextWord:
        raise ModelError("hub_unreachable", "no hub", model="a/reader")

    monkeypatch.setattr("mrc_workbench.labs.reading.pages.passages.SpanReader", refuse)
    app = asked("흐르는 강", reader="a/reader")
    assert not app.error, "an address alone loads nothing"
    press(app, "load_reader")
    assert "a/reader" in app.error[0].value.replace("\\", "")
    assert "한강" in html(app)


def test_an_answer_is_judged_with_its_passage_and_taken_back(data: StoredSet) -> None:
    trained(data)
    app = asked("흐르는 강")
    press(app, "judge_answer_right_answers-0")
    corpus = data and SET.corpus_fingerprint
    assert judgements_of(corpus) == (Judged("흐르는 강", ("p1",), ("한강",)),)
    press(app, "judge_answer_wrong_answers-0")
    assert judged_answer(judged_answers(corpus), "흐르는 강", "한강") is False
    press(app, "judge_answer_wrong_answers-0")
    assert judged_answers(corpus) == ()


def with_model(app: AppTest, server: ChatServer, key: str = KEY) -> AppTest:
    app.text_input(key="answers_address").set_value(server.address)
    app.text_input(key="answers_model").set_value(MODEL)
    app.text_input(key="answers_secret").set_value(key)
    app.button(key="use_model").click()
    return run(app)


def test_a_language_model_answers_with_citations_that_are_checked(data: StoredSet) -> None:
    with chat_server(lambda _: "한강 <b>[1][2]</b> [9]") as server:
        app = with_model(asked("흐르는 강", "BM25", read="3"), server)
    found = html(app)
    assert '<a href="#answers-0-1" target="_self">[1]</a>' in found
    assert "&lt;b&gt;" in found
    assert "[1]</a> ✘" in found, "it holds no <b>"
    assert "[9] ?" in found
    assert "input tokens" in texts(app)


def test_a_stopped_answer_is_asked_again_by_a_button_alone(data: StoredSet) -> None:
    with chat_server(lambda _: "한강 [1]") as server:
        app = asked("흐르는 강")
        app.session_state["answers_stopped"] = {(MODEL, "흐르는 강")}
        with_model(app, server)
        assert EN["answers.was_stopped"] in texts(app)
        assert server.asked == []
        press(app, "again_answers-0")
        assert len(server.asked) == 1


def test_an_endpoint_that_refuses_is_told_without_the_key(data: StoredSet) -> None:
    with chat_server(lambda _: "x") as server:
        app = with_model(asked("흐르는 강"), server, "sk-wrongwrongwrong")
    assert app.error
    assert "sk-wrong" not in texts(app)


def test_who_is_signed_in_is_answered_by_a_language_model_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "is_on", lambda: True)
    monkeypatch.setattr(workspace_module, "_told_by", [access._who])
    name = user_of("https://id.example.org", "alice")
    with acting_as(name):
        trained(keep(SET))
    with chat_server(lambda _: "한강 [1]") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.address)
        monkeypatch.setenv("OPENAI_MODEL", MODEL)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        app = AppTest.from_function(page, default_timeout=60)
        app.user = {"is_logged_in": True, "iss": "https://id.example.org", "sub": "alice"}
        app.query_params.update({"lang": "en", "q": "흐르는 강", "retrievers": "BM25"})
        run(app)
    assert not app.error
    assert "[1]</a> ✔ contains the answer" in html(app)
    assert (workspace_module.shared_workspace() / "users" / name / "generated").exists()
    assert not (workspace_module.shared_workspace() / "generated").exists()


def test_every_training_is_offered_and_any_of_the_hub_can_be_named_by_what_is_a_name(data: StoredSet) -> None:
    trained(data, "Old")
    trained(data, "New")
    app = opened(page, retrievers="BM25", reader="<script>")
    assert sorted(app.selectbox(key="reader_en").options) == ["New", "Old"]
    app = opened(page, retrievers="BM25", reader="somebody/reader")
    assert app.selectbox(key="reader_en").options[-1] == "somebody/reader"
    assert app.query_params["reader"] == "somebody/reader"


def test_a_training_has_seen_what_it_learned_from(data: StoredSet) -> None:
    run = trained(data)
    readers = Readers({run.id: "Mine", "hub/reader": "hub/reader"}, {run.id: run})
    assert readers.has_seen(run.id, data, Part.ALL)
    assert readers.has_seen(run.id, data, Part.TRAIN)
    assert not readers.has_seen(run.id, data, Part.TEST)
    assert not readers.has_seen(run.id, keep(small_set()), Part.ALL)
    assert not readers.has_seen("hub/reader", data, Part.ALL)
