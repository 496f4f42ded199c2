"""The choice of a text for training: upload, select, remove; invalid files are reported and change nothing."""

from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data import workspace as data_workspace
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.text import corpora as texts
from mrc_workbench.data.workspace import workspace
from mrc_workbench.workbench.views.ui.words import LANGUAGES, catalog, plain
from tests.doubles import small_set
from tests.workbench.views.driving import opened, run

EN = catalog("en")
HOSTILE = "<b>**글** [x](y)"


def page() -> None:
    import streamlit as st

    from mrc_workbench.workbench.views import study
    from mrc_workbench.workbench.views.resources.sets import selected_set

    text = study.pick_text(selected_set())
    counts = f"{study.documents_in(text)}|{study.characters_in(text)}"
    st.text(f"{study.reference_of(text)}|{study.text_source_name(text)}|{counts}")


def store_text(content: str = "배가 고프다\n배를 탔다\n", name: str = "낱말") -> texts.StoredText:
    return texts.save_text(BytesIO(content.encode()), name)


def selected_label(app: AppTest) -> str:
    return str(app.text[0].value)


def page_text(app: AppTest) -> str:
    return "\n".join(element.value for kind in (app.markdown, app.caption, app.error) for element in kind)


def upload(app: AppTest, name: str, content: bytes) -> AppTest:
    app.file_uploader[0].set_value((name, content, "text/plain"))
    return run(app)


def signed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as this user, in any thread."""
    monkeypatch.setattr(data_workspace, "_user_providers", [lambda: "a" * 32])


def box(app: AppTest) -> Any:
    return next(element for element in app.selectbox if str(element.key).startswith("corpus_"))


def test_trains_on_passages_unless_a_text_is_selected(data: StoredSet) -> None:
    text = store_text()
    app = opened(page, data=data.key)
    passages = small_set().passages
    characters = sum(len(passage.text) for passage in passages)
    assert selected_label(app) == f"{data.key}|{data.name}|{len(passages)}|{characters}"
    assert [*box(app).options] == [f"Passages of “{data.name}”", "낱말"]
    assert "corpus" not in app.query_params
    assert not app.button, "there is nothing to remove"
    box(app).set_value(text.reference)
    run(app)
    assert selected_label(app) == f"{text.reference}|낱말|2|13"
    assert app.query_params["corpus"] == text.reference
    assert "2 documents · 13 characters" in page_text(app)
    assert selected_label(opened(page, data=data.key, corpus=text.reference)) == selected_label(app)
    assert selected_label(opened(page, data=data.key, corpus="text:" + "0" * 16)).startswith(data.key)  # a removed text


def test_keeps_selected_text_and_replaces_passages_with_another_dataset(data: StoredSet) -> None:
    text = store_text()
    other = save_question_set(replace(small_set(), passages=small_set().passages[:3], questions=()))
    app = opened(page, data=data.key)
    for selected, expected in ((data.key, other.key), (text.reference, text.reference)):
        app.query_params["data"] = data.key
        box(run(app)).set_value(selected)
        app.query_params["data"] = other.key
        assert selected_label(run(app)).startswith(expected)


def test_stores_and_selects_upload_under_its_name(data: StoredSet) -> None:
    app = upload(opened(page, data=data.key), "내 글.txt", "\ufeff가나\n\n다라\n".encode())
    (text,) = texts.stored()
    assert selected_label(app) == f"{text.reference}|내 글|2|7"
    assert (text.name, text.source) == ("내 글", "내 글.txt")
    assert app.query_params["corpus"] == text.reference
    assert app.file_uploader[0].value is None, "the field is empty again"
    run(app)
    assert len(texts.stored()) == 1


def test_treats_file_name_as_neither_path_nor_markdown(data: StoredSet) -> None:
    app = upload(opened(page, data=data.key), f"../../{HOSTILE}.txt", "가나\n".encode())
    (text,) = texts.stored()
    assert text.name == HOSTILE
    assert (workspace() / "texts" / text.key / "text.txt").is_file()
    sure = next(element.value for element in app.markdown if element.value.startswith("Remove"))
    assert sure.startswith("Remove **" + plain(HOSTILE) + "**?")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("content", "code"), [("가나".encode("cp949"), "bad_text"), (b" \n\n", "no_text"), (b"", "no_text")]
)
def test_reports_invalid_text_and_keeps_choice(language: str, content: bytes, code: str, data: StoredSet) -> None:
    text = store_text()
    app = opened(page, data=data.key, corpus=text.reference, lang=language)
    upload(app, "bad.txt", content)
    words = catalog(language)[f"language.{code}"]
    (error_element,) = app.error
    assert error_element.value.replace("\\", "") == words.format(file="bad", line=1, byte="0xB0")
    assert selected_label(app).startswith(text.reference)
    assert [text_entry.key for text_entry in texts.stored()] == [text.key]
    assert run(app).error[0].value == error_element.value, "the error stays as long as the file"


def test_reads_rejected_file_only_once(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def refuse(_: Any, name: str, **__: Any) -> None:
        read.append(name)
        raise Failure("", "no more of it")

    monkeypatch.setattr("mrc_workbench.workbench.views.study.save_text", refuse)
    app = opened(page, data=data.key)
    app.file_uploader[0].set_value(("a.txt", b"a", "text/plain"))
    app.run()
    app.run()
    assert read == ["a"]


def test_reports_exceeded_storage_limit(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_MEGABYTES", "1")
    signed_in(monkeypatch)
    app = upload(opened(page), "big.txt", "가나다라마바사 ".encode() * 60_000)
    (error_element,) = app.error
    assert error_element.value.startswith("Not enough space")
    assert texts.stored() == []


def test_removes_text_with_unreadable_metadata(data: StoredSet) -> None:
    text = store_text()
    (workspace() / "texts" / text.key / "set.json").write_text("{", encoding="utf-8")
    app = opened(page, data=data.key)
    app.button(key=f"damaged_yes_{text.key}").click()
    run(app)
    assert texts.damaged() == []
    text = store_text()
    app = opened(page, data=data.key, corpus=text.reference)
    app.button(key=f"remove_yes_{text.key}").click()
    run(app)
    assert texts.stored() == []
    assert selected_label(app).startswith(data.key)


def test_shared_text_can_be_selected_but_not_removed(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    text = store_text()
    signed_in(monkeypatch)
    app = opened(page, corpus=text.reference)
    assert selected_label(app).startswith(f"{text.reference}|{EN['sidebar.shared'].format(name='낱말')}|")
    assert not app.button
