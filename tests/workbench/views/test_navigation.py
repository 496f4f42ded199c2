"""Every page with the sample, links between pages, the sidebar, the HTML document, and limits of uploaded files."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from streamlit import runtime
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.store import StoredSet, last_used, remove, save_question_set
from mrc_workbench.data.workspace import PROJECT, LimitError
from mrc_workbench.labs import TAKEN_NAMES
from mrc_workbench.training.runs import Run
from mrc_workbench.workbench.views import navigation
from mrc_workbench.workbench.views.navigation import PAGES, Page, Uploads
from mrc_workbench.workbench.views.train import runs
from mrc_workbench.workbench.views.ui.words import LANGUAGES, catalog
from tests.test_rooms import module_of
from tests.workbench.views.driving import opened, run

HEAVY = {"torch", "transformers", "sentence_transformers", "datasets", "kiwipiepy", "faiss", "pymilvus", "openai"}
TOY = "import streamlit as st\n\n\ndef draw() -> None:\n    st.title('A toy')\n"
FIVE = ["compare", "data", "train", "search", "answers"]
EN = catalog("en")
CITIES = ("서울", "부산", "대구", "인천", "광주")


def single_page() -> None:
    import streamlit as st

    from mrc_workbench.workbench.views import sidebar
    from mrc_workbench.workbench.views.navigation import draw_page_links, find_page

    sidebar.draw()
    draw_page_links(st.query_params["at"])
    find_page(st.query_params["at"]).draw()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", [page.name for page in PAGES])
def test_draws_every_page_on_first_visit(name: str, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.data.jobs.folder.Job.launch", lambda *_, **__: None)
    app = opened(single_page, at=name, lang=language)
    assert app.title
    assert not app.main.error
    assert f"page.{name}" in catalog(language)


def test_pages_import_no_model_library(tmp_path: Path) -> None:
    folders = [PROJECT / "workbench" / "views", *(PROJECT / "labs").glob("*/pages")]
    views = [module_of(path) for folder in folders for path in folder.rglob("*.py")]
    assert {page.module for page in PAGES} <= {*views}
    script = (
        f"import json, sys, {', '.join(views)}\nfrom streamlit.testing.v1 import AppTest\n"
        "from tests.workbench.views.train.worlds import page as train_page\n"
        "app = AppTest.from_function(train_page, default_timeout=60).run()\nassert not app.exception and app.title\n"
        "print(json.dumps([*sys.modules]))"
    )
    environment = {**os.environ, "MRC_WORKSPACE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    read = set(json.loads(done.stdout))
    assert "altair" in read
    assert not read & HEAVY


def test_adds_page_by_module_and_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy_page.py").write_text(TOY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(navigation, "PAGES", (*PAGES, Page("toy", "toys", "toy_page", is_in_menu=True)))
    app: AppTest = opened(single_page, at="toy")
    assert [title.value for title in app.title] == ["A toy"]
    assert [link.proto.label for link in app.get("page_link")][-1] == "Toy"
    assert [menu.proto.popover.label for menu in app.main.get("popover")] == ["Toy"]


def menus() -> None:
    import streamlit as st

    from mrc_workbench.workbench.views.navigation import draw_page_links, pages

    page_menus = pages()
    st.json({menu: [page.url_path for page in named] for menu, named in page_menus.items()})
    draw_page_links(st.query_params.get("at", ""))


def opened_at(page: str) -> AppTest:
    return opened(menus, data="sample", q="왜?", at=page)


def test_shows_five_pages_and_a_menu_with_stable_addresses() -> None:
    app = opened_at("")
    links = app.get("page_link")
    assert [link.proto.label for link in links] == [EN[f"page.{name}"] for name in [*FIVE, "embeddings", "language"]]
    assert {link.proto.query_string for link in links} == {"data=sample&lang=en"}
    menu_json = json.loads(app.json[0].value)
    first, *others = FIVE
    assert menu_json[""] == ["", *others, first]  # the first page has no path, but also opens at its name
    assert menu_json[EN["page.more"]] == ["embeddings", "language"]


@pytest.mark.parametrize(("page", "menu"), [("embeddings", "embeddings"), ("language", "language"), ("search", "more")])
def test_names_menu_after_its_open_page(page: str, menu: str) -> None:
    (label,) = [block.proto.popover.label for block in opened_at(page).get("popover")]
    assert label == EN[f"page.{menu}"]


def page() -> None:
    from mrc_workbench.workbench.views import sidebar

    sidebar.draw()


def cities_set(name: str, title: str = "") -> QuestionSet:
    cities = list(enumerate(CITIES))
    passages = [Passage(f"p{number}", f"{name}의 {city}", title and f"{title} {number}") for number, city in cities]
    questions = [Question(f"q{number}", f"{city}은?", (city,), (f"p{number}",)) for number, city in cities]
    return QuestionSet(name, passages, tuple(questions))


def dataset_in_address(app: AppTest) -> str:
    (key,) = [app.query_params["data"]] if isinstance(app.query_params["data"], str) else app.query_params["data"]
    return key


@pytest.fixture
def sets() -> tuple[StoredSet, StoredSet]:
    """An older and a newer set."""
    return save_question_set(cities_set("older")), save_question_set(cities_set("newer"))


def test_session_without_address_opens_last_used_dataset(sets: tuple[StoredSet, StoredSet]) -> None:
    older, newer = sets
    assert dataset_in_address(opened(page)) == newer.key
    app = opened(page)
    app.selectbox[0].set_value(older.key)
    assert dataset_in_address(run(app)) == older.key
    assert dataset_in_address(opened(page)) == older.key
    assert dataset_in_address(opened(page, data=newer.key)) == newer.key
    assert dataset_in_address(opened(page)) == newer.key, "a set that is opened by its address is used"


def test_sessions_keep_their_own_dataset(sets: tuple[StoredSet, StoredSet]) -> None:
    older, newer = sets
    app = opened(page, data=older.key)
    opened(page, data=newer.key)
    del app.query_params["data"]  # as a link to another page
    assert dataset_in_address(run(app)) == older.key
    assert last_used() == newer.key
    # another run keeps the position, another dataset starts at its first passages
    app = opened(page, data=newer.key, at="3")
    assert run(app).query_params["at"] in ("3", ["3"])
    app.selectbox[0].set_value(older.key)
    assert run(app).query_params["at"] in ("1", ["1"])


def test_uses_newest_dataset_if_last_used_is_missing(sets: tuple[StoredSet, StoredSet], tmp_path: Path) -> None:
    older, newer = sets
    opened(page, data=older.key)
    (tmp_path / "workspace" / "last_used.json").write_text("{", encoding="utf-8")
    assert dataset_in_address(opened(page)) == newer.key
    opened(page, data=older.key)
    remove(older.key)
    assert dataset_in_address(opened(page)) == newer.key
    app = opened(page, data=older.key)  # an address with it opens no other dataset
    assert dataset_in_address(app) == older.key
    assert app.selectbox[0].value is None
    assert dataset_in_address(opened(page)) == newer.key


def test_counts_split_questions_and_names_split_unit() -> None:
    for title, unit in (("도시", "document"), ("", "passage")):
        app = opened(page, data=save_question_set(cities_set("도시", title)).key)
        (split,) = [caption for caption in app.caption if caption.value.startswith("Questions:")]
        assert split.value == "Questions: 4 training · 0 validation · 1 test"
        assert f"split by {unit}" in split.proto.help


def test_reports_address_without_page(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = SimpleNamespace(intended_page_script_hash="", intended_page_name="nopage")
    monkeypatch.setattr(navigation, "get_script_run_ctx", lambda: SimpleNamespace(pages_manager=manager))
    menu_json = json.loads(opened_at("").json[0].value)
    assert menu_json[""] == ["", *FIVE[1:], FIVE[0], "nopage"]
    for known in ("", "search", "compare", "first"):
        manager.intended_page_name = known
        assert "nopage" not in json.loads(opened_at("").json[0].value)[""]


@pytest.mark.parametrize(
    ("language", "path", "title"),
    [
        ("ko", "", "비교 · 한국어 샘플 – MRC 워크벤치"),
        ("ko", "search", "검색 · 한국어 샘플 – MRC 워크벤치"),
        ("en", "search", "Search · Korean sample – MRC Workbench"),
        ("en", "embeddings", "Embeddings – MRC Workbench"),
        ("ko", "nopage", "없는 페이지 – MRC 워크벤치"),
    ],
)
def test_tab_title_names_page_and_dataset_unless_missing(language: str, path: str, title: str) -> None:
    def page_title() -> None:
        import streamlit as st

        from mrc_workbench.workbench.views.sidebar import title_of

        st.text(title_of(st.query_params.get("path", "")))

    assert opened(page_title, lang=language, path=path).text[0].value == title
    assert opened(page_title, lang="ko", data="missing").text[0].value == "비교 – MRC 워크벤치"


def keep_same_named(*texts: str) -> list[str]:
    """Store a dataset with one question for each text, all with the same name; return their keys."""
    sets = [
        QuestionSet("질문", (Passage("p1", text),), (Question(f"q-{text}", f"{text}?", relevant=("p1",)),))
        for text in texts
    ]
    return [save_question_set(question_set).key for question_set in sets]


def sidebar() -> None:
    import streamlit as st

    from mrc_workbench.workbench.views.resources.sets import selected_set
    from mrc_workbench.workbench.views.sidebar import draw

    draw()
    st.button("again")
    st.text(selected_set().key)


def test_selects_each_dataset_of_equal_name() -> None:
    keys = keep_same_named("서울", "부산", "대구")
    for key in keys:
        app = opened(sidebar, data=key)
        box = app.sidebar.selectbox[0]
        assert len({*box.options}) == len(box.options)
        run(app)
        app.button[0].click()
        assert run(app).text[0].value == key
    for key in keys:
        app.sidebar.selectbox[0].set_value(key)
        assert run(app).text[0].value == key


@pytest.mark.parametrize(("base", "page"), [("", "/"), ("", "/data"), ("mrc", "/mrc"), ("mrc", "/mrc/data")])
def test_history_script_runs_before_the_app(base: str, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(navigation.st, "get_option", {"server.baseUrlPath": base}.__getitem__)
    browser = TestClient(Starlette(routes=navigation.document_routes(["data"])))
    answer = browser.get(page)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert 0 < answer.text.index("window.mrcDocument = true") < answer.text.index('<script type="module"')
    assert browser.get(f"{page}x").status_code == 404  # no page: handled by Streamlit


class Server:
    """Connected sessions, and the files that Streamlit holds."""

    def __init__(self) -> None:
        self.connected: set[str] = set()
        self.uploaded_file_mgr = MemoryUploadedFileManager("/upload")

    def is_active_session(self, session: str) -> bool:
        return session in self.connected

    def hold(self, session: str, name: str, size: int) -> None:
        self.uploaded_file_mgr.add_file(session, UploadedFileRec(name, name, "text/plain", b"x" * size))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(runtime, "get_instance", lambda: server)
    return server


def draw_as_session(monkeypatch: pytest.MonkeyPatch, server: Server, session: str) -> None:
    """Draw the page of this session."""
    context = SimpleNamespace(session_id=session, uploaded_file_mgr=server.uploaded_file_mgr)
    monkeypatch.setattr(navigation, "get_script_run_ctx", lambda: context)


def register_sessions(monkeypatch: pytest.MonkeyPatch, server: Server, user: str, *sessions: str) -> Uploads:
    registry = Uploads()
    for session in sessions:
        draw_as_session(monkeypatch, server, session)
        registry.register_session(user)
        server.connected.add(session)
    return registry


def test_releases_files_30_seconds_after_disconnect(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(navigation, "time", SimpleNamespace(monotonic=lambda: clock.now))
    registry = register_sessions(monkeypatch, server, "", "stays", "stumbles", "ends")
    for session in ("stays", "stumbles", "ends"):
        server.hold(session, "a", 10)
    server.connected -= {"stumbles", "ends"}
    for seconds, back, held in ((0, (), 3), (20, ("stumbles",), 3), (9, (), 3), (1, (), 2), (60, (), 2)):
        clock.now += seconds
        server.connected.update(back)
        registry.release_disconnected()
        assert len(server.uploaded_file_mgr.file_storage) == held
    assert registry.owner("ends") is None
    assert registry.owner("stumbles") == "stumbles"


def test_releases_files_on_page_change_and_unregisters_session(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = register_sessions(monkeypatch, server, "alice", "one", "other")
    server.hold("one", "a", 10)
    server.hold("other", "a", 10)
    draw_as_session(monkeypatch, server, "one")
    registry.leave_page()
    assert list(server.uploaded_file_mgr.file_storage) == ["other"]
    assert registry.owner("one") == "alice"
    registry.unregister_session()
    assert registry.owner("one") is None


def test_counts_held_and_arriving_bytes_of_a_user(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_UPLOADS", "1")
    monkeypatch.setenv("MRC_USER_ALL_UPLOADS", "2")
    registry = register_sessions(monkeypatch, server, "alice", "one", "other")
    server.hold("one", "a", 300_000)
    with registry.track_upload("one") as first, registry.track_upload("other") as second:
        registry.add(first, 300_000)
        registry.add(second, 300_000)
        with pytest.raises(LimitError) as refused:
            registry.add(first, 100_000)
        assert refused.value.code == "uploads"
        registry.end(first)
        registry.add(second, 300_000)
    draw_as_session(monkeypatch, server, "of bob")
    registry.register_session("bob")
    with registry.track_upload("of bob") as his:
        registry.add(his, 900_000)
        server.hold("of nobody any more", "a", 700_000)
        with pytest.raises(LimitError) as refused:
            registry.add(his, 99_000)
        assert refused.value.code == "all_uploads"


def test_limits_number_and_overhead_of_empty_files(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_UPLOADS", "1")
    registry = register_sessions(monkeypatch, server, "", "one")
    arriving = [registry.track_upload("one") for _ in range(65)]
    for upload in arriving[:-1]:
        upload.__enter__()
    with pytest.raises(LimitError, match="64 files"):
        arriving[-1].__enter__()
    for upload in arriving[:-1]:
        upload.__exit__(None, None, None)
    for number in range(1000):
        server.hold("one", f"{number}", 0)
    with registry.track_upload("one") as more, pytest.raises(LimitError):
        registry.require_room(more, 0)


def test_no_lab_has_the_name_of_a_page() -> None:
    assert {page.name for page in PAGES if not page.lab} <= {*TAKEN_NAMES.split()}


def test_actions_for_the_page_of_a_removed_lab_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert navigation.has_page("language")
    monkeypatch.setattr(navigation, "PAGES", tuple(page for page in PAGES if page.name != "language"))
    assert not navigation.has_page("language")
    assert not runs._draw_page_button("use_language", Run(Path("run")), "language", "help")


def test_every_upload_field_is_translated() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in (PROJECT / "workbench" / "views").rglob("*.py")}
    with_a_field = {path: source for path, source in sources.items() if "st.file_uploader(" in source}
    assert len(with_a_field) > 4
    for path, source in with_a_field.items():
        assert source.count("translate_field(") == source.count("st.file_uploader("), path
        assert re.search(r'f?"upload_', source), path  # the style applies to keys with this prefix
