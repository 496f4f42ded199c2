"""Every page, drawn where there is nothing but the sample; one is added by its module and a line of `PAGES`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from data.workspace import PROJECT
from tests.test_rooms import module_of
from tests.views.driving import opened
from views import navigation
from views.navigation import PAGES, Page
from views.ui.words import LANGUAGES, catalog

HEAVY = {"torch", "transformers", "sentence_transformers", "datasets", "kiwipiepy", "faiss", "pymilvus", "openai"}
TOY = "import streamlit as st\n\n\ndef draw() -> None:\n    st.title('A toy')\n"


def one_page() -> None:
    import streamlit as st

    from views import sidebar
    from views.navigation import draw_ways, page_called

    sidebar.draw()
    draw_ways(st.query_params["at"])
    page_called(st.query_params["at"]).draw()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", [page.name for page in PAGES])
def test_every_page_is_drawn_on_a_first_visit(name: str, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.folder.Job.launch", lambda *_, **__: None)
    app = opened(one_page, at=name, lang=language)
    assert app.title
    assert not app.main.error
    assert f"page.{name}" in catalog(language)


@pytest.mark.slow
def test_reading_what_draws_the_pages_and_drawing_the_train_page_reads_no_model_library(tmp_path: Path) -> None:
    views = [module_of(path) for path in (PROJECT / "views").rglob("*.py")]
    assert {page.module for page in PAGES} <= {*views}
    script = (
        f"import json, sys, {', '.join(views)}\nfrom streamlit.testing.v1 import AppTest\n"
        "from tests.views.train.worlds import page as train_page\n"
        "app = AppTest.from_function(train_page, default_timeout=60).run()\nassert not app.exception and app.title\n"
        "print(json.dumps([*sys.modules]))"
    )
    environment = {**os.environ, "MRC_WORKSPACE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    read = set(json.loads(done.stdout))
    assert "altair" in read
    assert not read & HEAVY


def test_a_page_is_added_by_its_module_and_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy_page.py").write_text(TOY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(navigation, "PAGES", (*PAGES, Page("toy", "toys", "toy_page", inside=True)))
    app: AppTest = opened(one_page, at="toy")
    assert [title.value for title in app.title] == ["A toy"]
    assert [link.proto.label for link in app.get("page_link")][-1] == "Toy"
    assert [menu.proto.popover.label for menu in app.main.get("popover")] == ["Toy"]
