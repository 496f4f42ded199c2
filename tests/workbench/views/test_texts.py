"""The choice of a text to learn from: uploaded, chosen, removed; what cannot be used is told and changes nothing."""

from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data import workspace as data_workspace
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.store import keep as keep_set
from mrc_workbench.data.text import corpora as texts
from mrc_workbench.data.workspace import workspace
from mrc_workbench.workbench.views.ui.words import LANGUAGES, catalog, plain
from tests.doubles import small_set
from tests.workbench.views.driving import opened, run

EN = catalog("en")
HOSTILE = "<b>**글** [x](y)"


def page() -> None:
    import streamlit as st

    from mrc_workbench.workbench.views.resources.sets import chosen_set
    from mrc_workbench.workbench.views.study import characters_in, documents_in, learned_name, pick_text, reference_of

    picked = pick_text(chosen_set())
    st.text(f"{reference_of(picked)}|{learned_name(picked)}|{documents_in(picked)}|{characters_in(picked)}")


@pytest.fixture
def data() -> StoredSet:
    return keep_set(small_set())


def kept(content: str = "배가 고프다\n배를 탔다\n", name: str = "낱말") -> texts.StoredText:
    return texts.keep(BytesIO(content.encode()), name)


def picked(app: AppTest) -> str:
    return str(app.text[0].value)


def shown(app: AppTest) -> str:
    return "\n".join(one.value for kind in (app.markdown, app.caption, app.error) for one in kind)


def upload(app: AppTest, name: str, content: bytes) -> AppTest:
    app.file_uploader[0].set_value((name, content, "text/plain"))
    return run(app)


def signed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let somebody be at work, in whatever thread."""
    monkeypatch.setattr(data_workspace, "_told_by", [lambda: "a" * 32])


def box(app: AppTest) -> Any:
    return next(one for one in app.selectbox if str(one.key).startswith("corpus_"))


def test_the_passages_in_use_are_learned_from_unless_a_text_is_chosen(data: StoredSet) -> None:
    text = kept()
    app = opened(page, data=data.key)
    passages = small_set().passages
    characters = sum(len(passage.text) for passage in passages)
    assert picked(app) == f"{data.key}|{data.name}|{len(passages)}|{characters}"
    assert [*box(app).options] == [f"Passages of “{data.name}”", "낱말"]
    assert "corpus" not in app.query_params
    assert not app.button, "there is nothing to remove"
    box(app).set_value(text.reference)
    run(app)
    assert picked(app) == f"{text.reference}|낱말|2|13"
    assert app.query_params["corpus"] == text.reference
    assert "2 documents · 13 characters" in shown(app)
    assert picked(opened(page, data=data.key, corpus=text.reference)) == picked(app)
    assert picked(opened(page, data=data.key, corpus="text:" + "0" * 16)).startswith(data.key)  # one that is gone


def test_another_set_in_use_leaves_a_text_chosen_and_takes_the_place_of_the_one_before(data: StoredSet) -> None:
    text, other = kept(), keep_set(replace(small_set(), passages=small_set().passages[:3], questions=()))
    app = opened(page, data=data.key)
    for chosen, found in ((data.key, other.key), (text.reference, text.reference)):
        app.query_params["data"] = data.key
        box(run(app)).set_value(chosen)
        app.query_params["data"] = other.key
        assert picked(run(app)).startswith(found)


def test_an_upload_is_kept_under_its_name_and_chosen(data: StoredSet) -> None:
    app = upload(opened(page, data=data.key), "내 글.txt", "\ufeff가나\n\n다라\n".encode())
    (text,) = texts.stored()
    assert picked(app) == f"{text.reference}|내 글|2|7"
    assert (text.name, text.source) == ("내 글", "내 글.txt")
    assert app.query_params["corpus"] == text.reference
    assert app.file_uploader[0].value is None, "the field is empty again"
    run(app)
    assert len(texts.stored()) == 1


def test_the_name_of_a_file_is_no_path_and_no_markdown(data: StoredSet) -> None:
    app = upload(opened(page, data=data.key), f"../../{HOSTILE}.txt", "가나\n".encode())
    (text,) = texts.stored()
    assert text.name == HOSTILE
    assert (workspace() / "texts" / text.key / "text.txt").is_file()
    sure = next(one.value for one in app.markdown if one.value.startswith("Remove"))
    assert sure.startswith("Remove **" + plain(HOSTILE) + "**?")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("content", "code"), [("가나".encode("cp949"), "bad_text"), (b" \n\n", "no_text"), (b"", "no_text")]
)
def test_what_is_no_text_is_told_in_the_persons_language_and_the_choice_stays(
    language: str, content: bytes, code: str, data: StoredSet
) -> None:
    text = kept()
    app = opened(page, data=data.key, corpus=text.reference, lang=language)
    upload(app, "bad.txt", content)
    words = catalog(language)[f"language.{code}"]
    (told,) = app.error
    assert told.value.replace("\\", "") == words.format(file="bad", line=1, byte="0xB0")
    assert picked(app).startswith(text.reference)
    assert [one.key for one in texts.stored()] == [text.key]
    assert run(app).error[0].value == told.value, "it is told as long as the file stays"


def test_a_file_that_was_refused_is_not_read_again(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def refuse(_: Any, name: str, **__: Any) -> None:
        read.append(name)
        raise Failure("", "no more of it")

    monkeypatch.setattr("mrc_workbench.workbench.views.study.keep", refuse)
    app = AppTest.from_function(page, default_timeout=60)
    app.query_params.update({"lang": "en", "data": data.key})
    run(app).file_uploader[0].set_value(("a.txt", b"a", "text/plain"))
    app.run()
    app.run()
    assert read == ["a"]


def test_what_is_more_than_a_user_may_keep_is_told(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_MEGABYTES", "1")
    signed_in(monkeypatch)
    app = upload(opened(page), "big.txt", "가나다라마바사 ".encode() * 60_000)
    (told,) = app.error
    assert told.value.startswith("Not enough space")
    assert texts.stored() == []


def test_a_text_is_removed_also_if_its_note_cannot_be_read(data: StoredSet) -> None:
    text = kept()
    (workspace() / "texts" / text.key / "set.json").write_text("{", encoding="utf-8")
    app = opened(page, data=data.key)
    app.button(key=f"damaged_yes_{text.key}").click()
    run(app)
    assert texts.damaged() == []
    text = kept()
    app = opened(page, data=data.key, corpus=text.reference)
    app.button(key=f"remove_yes_{text.key}").click()
    run(app)
    assert texts.stored() == []
    assert picked(app).startswith(data.key)


def test_one_of_the_shelf_is_chosen_and_not_removed(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    text = kept()
    signed_in(monkeypatch)
    app = opened(page, corpus=text.reference)
    assert picked(app).startswith(f"{text.reference}|{EN['sidebar.shared'].format(name='낱말')}|")
    assert not app.button
