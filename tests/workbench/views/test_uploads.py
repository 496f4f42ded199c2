"""Limits of uploaded files, how long they are held, and the texts of upload fields, without a server."""

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
    monkeypatch.setattr(uploads, "get_script_run_ctx", lambda: context)


def register_sessions(monkeypatch: pytest.MonkeyPatch, server: Server, user: str, *sessions: str) -> Uploads:
    registry = Uploads()
    for session in sessions:
        draw_as_session(monkeypatch, server, session)
        registry.register_session(user)
        server.connected.add(session)
    return registry


def test_releases_files_30_seconds_after_disconnect(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(uploads, "time", SimpleNamespace(monotonic=lambda: clock.now))
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


def test_releases_files_on_page_change_and_rejects_unregistered_sessions(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_every_upload_field_is_translated() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in (PROJECT / "workbench" / "views").rglob("*.py")}
    with_a_field = {path: source for path, source in sources.items() if "st.file_uploader(" in source}
    assert len(with_a_field) > 4
    for path, source in with_a_field.items():
        assert source.count("translate_field(") == source.count("st.file_uploader("), path
        assert re.search(r'f?"upload_', source), path  # the style applies to keys with this prefix
