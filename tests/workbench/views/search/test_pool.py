"""A list to judge, from a comparison to the set made of it: judged by a person and a model, and gone on with later."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.generate.judge import verdicts_of_models
from mrc_workbench.data.questions.judgements import Judged, Verdict, judge, judgements_of
from mrc_workbench.data.store import StoredSet, keep, load, stored
from mrc_workbench.models.llm import ADDRESS, KEY, MODEL
from mrc_workbench.retrieval.analysis.evidence import pool
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.resources.retrieval import open_comparison
from mrc_workbench.workbench.views.ui.words import LANGUAGES, catalog
from tests import chat_server
from tests.doubles import small_set
from tests.retrieval.compared import comparison_of
from tests.workbench.views.compare.worlds import kept, press
from tests.workbench.views.driving import opened, run
from tests.workbench.views.search.test_page import page

EN, CORPUS = catalog("en"), small_set().corpus_fingerprint
FOUND = [[0, 4], [1, 3], [2], [3], [4], [1, 2]]
OTHERS = [[3, 0], [1, 4], [2], [3], [4], [1, 2]]


@pytest.fixture
def comparison(data: StoredSet) -> Path:
    first, second, *_ = choices_for(data).specs
    return kept(data, [first, second], small_set(), comparison_of({first: FOUND, second: OTHERS}).results)


def begun(data: StoredSet, comparison: Path, **address: str) -> AppTest:
    return opened(page, data=data.key, pool=comparison.name, pool_n="10", pool_k="10", **address)


def texts(app: AppTest) -> str:
    return "\n".join(str(one.value) for kind in (app.caption, app.success, app.info, app.warning) for one in kind)


def test_each_judgement_is_kept_at_once_and_the_set_made_of_all_knows_what_is_not_right(
    data: StoredSet, comparison: Path
) -> None:
    opened_one = open_comparison(data.key, comparison)
    assert opened_one is not None
    small, pooled = small_set(), pool(opened_one.comparison, 10, 10)
    pairs = [(small.questions[question].text, small.passages[passage].id) for question, passage in pooled]
    assert len(pairs) == 4
    app = begun(data, comparison)
    said = [Verdict.WRONG, Verdict.RIGHT, Verdict.WRONG, Verdict.WRONG]
    for at, (verdict, (question, passage)) in enumerate(zip(said, pairs, strict=True)):
        assert f"{at} of 4" in app.get("progress")[0].proto.text
        assert question in "".join(one.value for one in app.markdown).replace("\\", "")
        press(app, f"pool_{verdict}_{at}")
        told = {one.question: one.verdicts for one in judgements_of(CORPUS)}
        assert told[question][passage] is verdict
        app = begun(data, comparison)  # another browser goes on where this one was
    assert EN["pool.all_done"] in texts(app)
    press(app, EN["judging.make"])
    (made,) = (load(one.key) for one in stored() if one.key != data.key)
    grades = {one.text: one.grade_of for one in made.questions}
    for (question, passage), verdict in zip(pairs, said, strict=True):
        assert grades[question][passage] == (verdict is Verdict.RIGHT)
    again = comparison_of({"a": [FOUND[0], FOUND[1]], "b": [OTHERS[0], OTHERS[1]]}, made)
    assert {of.means()["judged@10"] for of in again.scores.values()} == {1.0}


def test_back_and_next_judge_nothing_and_another_word_takes_the_place_of_the_first(
    data: StoredSet, comparison: Path
) -> None:
    app = press(press(begun(data, comparison), "pool_next_0"), "pool_back_1")
    assert app.query_params["pool_at"] == "1"
    assert judgements_of(CORPUS) == ()
    press(press(press(app, "pool_right_0"), "pool_back_1"), "pool_unsure_0")
    (one,) = judgements_of(CORPUS)
    assert [*one.verdicts.values()] == [Verdict.UNSURE]


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_no_list_any_more_is_told(language: str, data: StoredSet, comparison: Path) -> None:
    other = keep(small_set().with_questions([0]))
    for key, of in (("0" * 16, data), ("../..", data), (comparison.name, other)):
        app = opened(page, data=of.key, pool=key, pool_n="-3", pool_k="x", lang=language)
        assert catalog(language)["pool.gone"] in texts(app)
    assert "pool" not in press(app, "pool_close").query_params


def test_the_list_begins_on_the_search_page(data: StoredSet, comparison: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    went: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(
        "mrc_workbench.workbench.views.search.judging.open_page", lambda name, **address: went.append((name, address))
    )
    app = opened(page, data=data.key)
    app.number_input[0].set_value(3)
    press(app, "pool_begin")
    assert went == [("search", {"data": data.key, "pool": comparison.name, "pool_n": "3", "pool_k": "10"})]


def test_a_model_judges_the_same_list_beside_the_person(
    data: StoredSet, comparison: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["WRONG", "RIGHT", "perhaps", "RIGHT", "WRONG"])
    with chat_server.chat_server(lambda _: next(answers)) as server:
        for name, value in ((ADDRESS, server.address), (MODEL, chat_server.MODEL), (KEY, "wrong key")):
            monkeypatch.setenv(name, value)
        app = begun(data, comparison)
        for at, verdict in enumerate((Verdict.WRONG, Verdict.RIGHT)):
            press(app, f"pool_{verdict}_{at}")
        person = judgements_of(CORPUS)
        assert EN["chat.key"] in press(app, "pool_model").error[0].value.replace("\\", "")
        monkeypatch.setenv(KEY, chat_server.KEY)
        assert "perhaps" in texts(press(app, "pool_model"))
        assert "judged 3 of 4" in texts(press(app, "pool_next_2")).replace("\\", "")
        press(app, "pool_model")
        assert server.keys.count(f"Bearer {chat_server.KEY}") == 4 + 1, "what was judged is not asked again"
    assert "judged 4 of 4" in texts(app).replace("\\", "")
    assert judgements_of(CORPUS) == person
    (by_model,) = verdicts_of_models(CORPUS).values()
    table = next(one.value for one in app.dataframe if "kappa" in one.value)
    assert table["model"].tolist() == [chat_server.MODEL]
    assert table["judged"].tolist() == [2]
    assert table["verdicts"].tolist() == [len(by_model)]
    box = next(one for one in app.selectbox if one.label == EN["judging.with_model"])
    box.set_value(chat_server.MODEL)
    press(app, EN["judging.make"])
    made = next(one for one in stored() if one.key != data.key)
    assert made.name.endswith(f" · {chat_server.MODEL}"), "the set says who judged"
    judged = {(q.text, id_) for q in load(made.key).questions for id_ in q.grade_of}
    assert set(by_model) <= judged


def test_a_question_whose_passages_are_all_wrong_makes_no_set_of_its_own(data: StoredSet) -> None:
    judge(CORPUS, "새 질문", "p1", Verdict.WRONG)
    assert judgements_of(CORPUS) == (Judged("새 질문", (), wrong=("p1",)),)
    app = opened(page, data=data.key)
    next(one for one in app.button if one.label == EN["judging.make"]).click()
    assert EN["judging.nothing_right"] in run(app).error[0].value
    assert len(stored()) == 1
