"""The ways between pages: five names to begin with, and a menu that holds the others and tells when one is open."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from tests.views.driving import run
from views.ui.words import catalog

FIVE = ["compare", "data", "train", "search", "answers"]
EN = catalog("en")


def menus() -> None:
    import streamlit as st

    from views.navigation import draw_ways, pages

    found = pages()
    st.json({menu: [page.url_path for page in named] for menu, named in found.items()})
    draw_ways(st.query_params.get("at", ""))


def opened_at(page: str) -> AppTest:
    app = AppTest.from_function(menus, default_timeout=60)
    app.query_params.update({"lang": "en", "data": "sample", "q": "왜?", "at": page})
    return run(app)


def test_a_newcomer_sees_five_pages_and_one_menu() -> None:
    links = opened_at("").get("page_link")
    assert [link.proto.label for link in links] == [EN[f"page.{name}"] for name in [*FIVE, "embeddings", "language"]]
    assert {link.proto.query_string for link in links} == {"data=sample&lang=en"}


def test_every_page_keeps_its_address() -> None:
    found = json.loads(opened_at("").json[0].value)
    first, *others = FIVE
    assert found[""] == ["", *others, first]  # the first has no path, and is found at its name, too
    assert found[EN["page.more"]] == ["embeddings", "language"]


@pytest.mark.parametrize(("page", "told"), [("embeddings", "embeddings"), ("language", "language"), ("search", "more")])
def test_the_menu_is_called_as_the_page_of_it_that_is_open(page: str, told: str) -> None:
    (menu,) = [block.proto.popover.label for block in opened_at(page).get("popover")]
    assert menu == EN[f"page.{told}"]
