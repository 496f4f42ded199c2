"""How long files are held, and how many may arrive: what needs no server. The fields for files: each has its words in
the person's language."""

import re
from types import SimpleNamespace

import pytest
from streamlit import runtime
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from mrc_workbench.data.workspace import PROJECT, LimitError
from mrc_workbench.workbench.views import navigation as uploads
from mrc_workbench.workbench.views.navigation import Uploads


class Server:
    """Sessions with a connection, and the files that Streamlit holds."""

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


def drawing(monkeypatch: pytest.MonkeyPatch, server: Server, session: str) -> None:
    """Let a session's page be the one that is being drawn."""
    context = SimpleNamespace(session_id=session, uploaded_file_mgr=server.uploaded_file_mgr)
    monkeypatch.setattr(uploads, "get_script_run_ctx", lambda: context)


def let_in(monkeypatch: pytest.MonkeyPatch, server: Server, user: str, *sessions: str) -> Uploads:
    found = Uploads()
    for session in sessions:
        drawing(monkeypatch, server, session)
        found.let_in(user)
        server.connected.add(session)
    return found


def test_files_are_let_go_half_a_minute_after_the_connection(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(uploads, "time", SimpleNamespace(monotonic=lambda: clock.now))
    found = let_in(monkeypatch, server, "", "stays", "stumbles", "ends")
    for session in ("stays", "stumbles", "ends"):
        server.hold(session, "a", 10)
    server.connected -= {"stumbles", "ends"}
    for seconds, back, held in ((0, (), 3), (20, ("stumbles",), 3), (9, (), 3), (1, (), 2), (60, (), 2)):
        clock.now += seconds
        server.connected.update(back)
        found.let_go()
        assert len(server.uploaded_file_mgr.file_storage) == held
    assert found.whose("ends") is None
    assert found.whose("stumbles") == "stumbles"


def test_who_leaves_a_page_leaves_its_files_and_who_is_kept_out_hands_in_nothing_more(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = let_in(monkeypatch, server, "alice", "one", "other")
    server.hold("one", "a", 10)
    server.hold("other", "a", 10)
    drawing(monkeypatch, server, "one")
    found.leave_page()
    assert list(server.uploaded_file_mgr.file_storage) == ["other"]
    assert found.whose("one") == "alice"
    found.keep_out()
    assert found.whose("one") is None


def test_all_that_a_user_holds_or_is_sending_counts(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_UPLOADS", "1")
    monkeypatch.setenv("MRC_USER_ALL_UPLOADS", "2")
    found = let_in(monkeypatch, server, "alice", "one", "other")
    server.hold("one", "a", 300_000)
    with found.arriving("one") as first, found.arriving("other") as second:
        found.add(first, 300_000)
        found.add(second, 300_000)
        with pytest.raises(LimitError) as refused:
            found.add(first, 100_000)
        assert refused.value.code == "uploads"
        found.end(first)
        found.add(second, 300_000)
    drawing(monkeypatch, server, "of bob")
    found.let_in("bob")
    with found.arriving("of bob") as his:
        found.add(his, 900_000)
        server.hold("of nobody any more", "a", 700_000)
        with pytest.raises(LimitError) as refused:
            found.add(his, 99_000)
        assert refused.value.code == "all_uploads"


def test_empty_files_are_not_free_and_not_without_number(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_UPLOADS", "1")
    found = let_in(monkeypatch, server, "", "one")
    arriving = [found.arriving("one") for _ in range(65)]
    for one in arriving[:-1]:
        one.__enter__()
    with pytest.raises(LimitError, match="64 files"):
        arriving[-1].__enter__()
    for one in arriving[:-1]:
        one.__exit__(None, None, None)
    for number in range(1000):
        server.hold("one", f"{number}", 0)
    with found.arriving("one") as more, pytest.raises(LimitError):
        found.require_room(more, 0)


def test_no_field_has_the_words_of_streamlit_alone() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in (PROJECT / "workbench" / "views").rglob("*.py")}
    with_a_field = {path: source for path, source in sources.items() if "st.file_uploader(" in source}
    assert len(with_a_field) > 4
    for path, source in with_a_field.items():
        assert source.count("translate_field(") == source.count("st.file_uploader("), path
        assert re.search(r'f?"upload_', source), path  # the look is that of keys which begin so
