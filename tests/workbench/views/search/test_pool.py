"""A judging pool, from a comparison to the new dataset: judged by a user and a model, and continued later."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.generate.judge import load_model_verdicts
from mrc_workbench.data.questions.judgements import JudgedQuestion, RelevanceVerdict, judge_passage, load_judgements
from mrc_workbench.data.store import StoredSet, load, save_question_set, stored
from mrc_workbench.models.llm import ADDRESS, KEY, MODEL
from mrc_workbench.retrieval.analysis.evidence import pool
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.search import judging
from mrc_workbench.workbench.views.ui.words import catalog
from tests import chat_server
from tests.doubles import small_set
from tests.retrieval.compared import comparison_of
from tests.workbench.views.compare.worlds import press, store_rows
from tests.workbench.views.driving import opened, run, texts
from tests.workbench.views.search.test_page import page

EN = catalog("en")
CORPUS = small_set().corpus_fingerprint
JUDGED_ROWS = [[0, 4], [1, 3], [2], [3], [4], [1, 2]]
OTHERS = [[3, 0], [1, 4], [2], [3], [4], [1, 2]]


@pytest.fixture
def comparison(data: StoredSet) -> Path:
    first, second, *_ = choices_for(data).specs
    return store_rows(data, {first: JUDGED_ROWS, second: OTHERS})


def open_pool(data: StoredSet, comparison: Path, **address: str) -> AppTest:
    return opened(page, data=data.key, pool=comparison.name, pool_n="10", pool_k="10", **address)


def test_stores_each_judgement_at_once_and_exports_negative_ones(data: StoredSet, comparison: Path) -> None:
    opened_comparison = open_comparison(data.key, comparison)
    assert opened_comparison is not None
    small = small_set()
    pooled = pool(opened_comparison.comparison, 10, 10)
    pairs = [(small.questions[question].text, small.passages[passage].id) for question, passage in pooled]
    assert len(pairs) == 4
    app = open_pool(data, comparison)
    verdicts = [RelevanceVerdict.WRONG, RelevanceVerdict.RIGHT, RelevanceVerdict.WRONG, RelevanceVerdict.WRONG]
    for at, (verdict, (question, passage)) in enumerate(zip(verdicts, pairs, strict=True)):
        assert f"{at} of 4" in app.get("progress")[0].proto.text
        assert question in "".join(item.value for item in app.markdown).replace("\\", "")
        press(app, f"pool_{verdict}_{at}")
        stored_verdicts = {item.question: item.verdicts for item in load_judgements(CORPUS)}
        assert stored_verdicts[question][passage] is verdict
        app = open_pool(data, comparison)  # another browser continues at the same position
    assert EN["pool.all_done"] in texts(app)
    press(app, EN["judging.make"])
    (new_set,) = (load(item.key) for item in stored() if item.key != data.key)
    grades = {item.text: item.grade_of for item in new_set.questions}
    for (question, passage), verdict in zip(pairs, verdicts, strict=True):
        assert grades[question][passage] == (verdict is RelevanceVerdict.RIGHT)
    again = comparison_of({"a": [JUDGED_ROWS[0], JUDGED_ROWS[1]], "b": [OTHERS[0], OTHERS[1]]}, new_set)
    assert {of.means()["judged@10"] for of in again.scores.values()} == {1.0}


def test_navigation_judges_nothing_and_new_verdict_replaces_old(data: StoredSet, comparison: Path) -> None:
    app = press(press(open_pool(data, comparison), "pool_next_0"), "pool_back_1")
    assert app.query_params["pool_at"] == "1"
    assert load_judgements(CORPUS) == ()
    press(press(press(app, "pool_right_0"), "pool_back_1"), "pool_unsure_0")
    (judgement,) = load_judgements(CORPUS)
    assert [*judgement.verdicts.values()] == [RelevanceVerdict.UNSURE]


def test_reports_missing_judging_list(data: StoredSet, comparison: Path) -> None:
    other = save_question_set(small_set().with_questions([0]))
    for key, of in (("0" * 16, data), ("../..", data), (comparison.name, other)):
        app = opened(page, data=of.key, pool=key, pool_n="-3", pool_k="x")
        assert EN["pool.gone"] in texts(app)
    assert "pool" not in press(app, "pool_close").query_params


def test_starts_judging_list_on_search_page(data: StoredSet, comparison: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    went: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(judging, "open_page", lambda name, **address: went.append((name, address)))
    app = opened(page, data=data.key)
    app.number_input[0].set_value(3)
    press(app, "pool_begin")
    assert went == [("search", {"data": data.key, "pool": comparison.name, "pool_n": "3", "pool_k": "10"})]


def test_model_judges_the_same_list(data: StoredSet, comparison: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["WRONG", "RIGHT", "perhaps", "RIGHT", "WRONG"])
    with chat_server.chat_server(lambda _: next(answers)) as server:
        for name, value in ((ADDRESS, server.address), (MODEL, chat_server.MODEL), (KEY, "wrong key")):
            monkeypatch.setenv(name, value)
        app = open_pool(data, comparison)
        for at, verdict in enumerate((RelevanceVerdict.WRONG, RelevanceVerdict.RIGHT)):
            press(app, f"pool_{verdict}_{at}")
        person = load_judgements(CORPUS)
        assert EN["chat.key"] in press(app, "pool_model").error[0].value.replace("\\", "")
        monkeypatch.setenv(KEY, chat_server.KEY)
        assert "perhaps" in texts(press(app, "pool_model"))
        assert "judged 3 of 4" in texts(press(app, "pool_next_2")).replace("\\", "")
        press(app, "pool_model")
        assert server.keys.count(f"Bearer {chat_server.KEY}") == 4 + 1, "stored verdicts need no request"
    assert "judged 4 of 4" in texts(app).replace("\\", "")
    assert load_judgements(CORPUS) == person
    (by_model,) = load_model_verdicts(CORPUS).values()
    table = next(item.value for item in app.dataframe if "kappa" in item.value)
    assert table["model"].tolist() == [chat_server.MODEL]
    assert table["judged_count"].tolist() == [2]
    assert table["verdicts"].tolist() == [len(by_model)]
    box = next(item for item in app.selectbox if item.label == EN["judging.with_model"])
    box.set_value(chat_server.MODEL)
    press(app, EN["judging.make"])
    new_set = next(item for item in stored() if item.key != data.key)
    assert new_set.name.endswith(f" · {chat_server.MODEL}"), "the set says who judged"
    judged = {(q.text, id_) for q in load(new_set.key).questions for id_ in q.grade_of}
    assert set(by_model) <= judged


def test_omits_questions_without_relevant_passages_from_dataset(data: StoredSet) -> None:
    judge_passage(CORPUS, "새 질문", "p1", RelevanceVerdict.WRONG)
    assert load_judgements(CORPUS) == (JudgedQuestion("새 질문", (), wrong=("p1",)),)
    app = opened(page, data=data.key)
    next(element for element in app.button if element.label == EN["judging.make"]).click()
    assert EN["judging.nothing_right"] in run(app).error[0].value
    assert len(stored()) == 1
