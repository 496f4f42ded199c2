"""Sign-in, the workspace of callbacks, which run without `app.py`, and uploads to the real server without a browser."""

import asyncio
import os
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psutil
import pytest
import streamlit as st
from starlette.types import Message, Receive, Scope, Send
from streamlit.file_util import get_static_dir
from streamlit.testing.v1 import AppTest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from mrc_workbench.data import workspace as workspace_module
from mrc_workbench.data.workspace import NotSignedInError, set_user_provider, shared_workspace, user_of, workspace
from mrc_workbench.workbench.views import access
from mrc_workbench.workbench.views.access import AccessMiddleware
from mrc_workbench.workbench.views.ui.words import catalog
from tests.browser.conftest import running_app
from tests.programs import free_port
from tests.raw_visitor import signed_in, visiting
from tests.workbench.views.driving import run

ISSUER = "https://id.example.org"
ALICE = {"is_logged_in": True, "iss": ISSUER, "sub": "alice", "name": "Alice <b>", "email": "alice@example.org"}
WORDS = catalog("en")
_CLIMBING = ("/{0}", "/static/{0}", "/static/../../{0}", "/media/..%2f..%2f{0}", "/component/a/../../{0}", "//{0}")
FROM_THE_APP: Message = {"type": "http.response.start", "status": 200, "headers": []}


def page() -> None:
    import streamlit as st

    from mrc_workbench.data.workspace import workspace
    from mrc_workbench.workbench.views import access

    def press() -> None:
        st.session_state["pressed"] = str(workspace())

    if access.is_granted():
        st.text(str(workspace()))
        st.button("press", on_click=press, key="press")
        if access.is_sign_in_enabled():
            access.draw_user(is_running=False)


@pytest.fixture(autouse=True)
def _provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_module, "_user_providers", [])
    set_user_provider(access._current_user)


@pytest.fixture
def sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "is_sign_in_enabled", lambda: True)
    monkeypatch.setattr(st, "secrets", {"auth": {"client_id": "x"}})


def opened_by(person: dict[str, Any], **context: str) -> AppTest:
    app = AppTest.from_function(page, default_timeout=60)
    app.query_params["lang"] = "en"
    app.user = person
    app.context = context
    return run(app)


@pytest.mark.usefixtures("sign_in")
def test_callbacks_use_workspace_of_signed_in_user() -> None:
    for name in ("alice", "bob"):
        app = opened_by({**ALICE, "sub": name})
        own = str(shared_workspace() / "users" / user_of(ISSUER, name))
        assert app.text[0].value == own
        app.button(key="press").click()
        run(app)
        assert app.session_state["pressed"] == own


@pytest.mark.usefixtures("sign_in")
@pytest.mark.parametrize(
    "changed",  # a header from a proxy is a text
    [{"is_logged_in": False}, {"is_logged_in": "True"}, {"sub": ""}, {"sub": None}, {"iss": ""}],
)
def test_shows_only_sign_in_page_if_not_signed_in(changed: dict[str, Any]) -> None:
    app = opened_by({**ALICE, **changed})
    assert [button.label for button in app.button][-1:] != ["press"]
    assert not app.text
    assert not app.sidebar.children
    assert WORDS["access.about"] in [element.value for element in app.markdown]


@pytest.mark.usefixtures("sign_in")
def test_admits_only_verified_addresses_of_the_allow_list(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotSignedInError):  # in a thread without a session
        workspace()
    monkeypatch.setenv("MRC_USER_EMAILS", "@example.org")
    assert opened_by({**ALICE, "email_verified": True}).text
    for person in ({**ALICE, "email_verified": False}, ALICE, {**ALICE, "email": "a@b.org", "email_verified": True}):
        app = opened_by(person)
        assert not app.text
        assert [button.key for button in app.button] == ["sign_out"]
        assert "Alice \\<b\\>" in app.error[0].value


@pytest.mark.usefixtures("sign_in")
def test_clearing_cache_removes_only_recomputable_files() -> None:
    own = shared_workspace() / "users" / user_of(ISSUER, "alice")
    for path in (own / "cache" / "vectors", own / "datasets", shared_workspace() / "cache" / "hub"):
        path.mkdir(parents=True)
        (path / "file").write_bytes(b"x" * 1_500_000)
    app = opened_by(ALICE)
    assert WORDS["access.held"].format(held="3", limit="2,000") in str(app.get("progress")[0].proto)
    app.button(key="clear_cache").click()
    run(app)
    assert not (own / "cache").exists()
    assert (own / "datasets" / "file").is_file()
    assert (shared_workspace() / "cache" / "hub" / "file").is_file()


def test_warns_other_hosts_if_sign_in_is_not_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    at_home = opened_by({}, url="http://localhost:8501/")
    assert at_home.text[0].value == str(shared_workspace())
    assert not at_home.warning
    assert not at_home.sidebar.children
    elsewhere = opened_by({}, url="https://mrc.example.org/")
    assert elsewhere.text[0].value == str(shared_workspace())
    assert [element.value for element in elsewhere.warning] == [WORDS["access.everybody"]]
    option = st.get_option
    address = ""
    monkeypatch.setattr(st, "get_option", lambda name: address if name == "server.address" else option(name))
    for address in ("0.0.0.0", "192.168.0.7", ""):  # noqa: S104 - that others reach
        assert opened_by({}, url="http://localhost:8501/").warning, address


@pytest.fixture
def _secrets_files() -> Iterator[None]:
    from streamlit import config

    before = st.get_option("secrets.files")
    yield
    config.set_option("secrets.files", before)


@pytest.mark.usefixtures("_secrets_files")
def test_enables_sign_in_only_if_secrets_configure_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamlit import config
    from streamlit.runtime.secrets import Secrets

    files = {"none": None, "other": "[other]\nkey = 1\n", "auth": '[auth]\nclient_id = "x"\n', "broken": "[auth\n"}
    states: dict[str, object] = {}
    for name, content in files.items():
        path = tmp_path / f"{name}.toml"
        if content is not None:
            path.write_text(content, encoding="utf-8")
        config.set_option("secrets.files", [str(path)])
        monkeypatch.setattr(st, "secrets", Secrets())
        try:
            states[name] = access.is_sign_in_enabled()
        except FileNotFoundError:
            states[name] = "nobody gets in"
    assert states == {"none": False, "other": False, "auth": True, "broken": "nobody gets in"}


class Server(NamedTuple):
    address: str
    pid: int
    secret: str = ""

    def megabytes(self) -> float:
        return float(psutil.Process(self.pid).memory_info().rss) / 10**6

    def cookie(self, name: str) -> dict[str, str]:
        return signed_in(self.secret, self.address, ISSUER, name)


def started(workspace: Path, secrets: Path, *options: object) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_USER_UPLOADS", "100")
        patch.setenv("MRC_USER_ALL_UPLOADS", "150")
        patch.setenv("MRC_FORK_SERVER", os.devnull)  # no job starts here
        port = free_port()
        before = set(psutil.Process().children())
        if secrets.exists():
            secrets.write_text(secrets.read_text().replace("PORT", str(port)))
        with running_app(workspace, port, *options) as address:
            (process,) = set(psutil.Process().children()) - before
            auth = tomllib.loads(secrets.read_text())["auth"] if secrets.exists() else {"cookie_secret": ""}
            yield Server(address, process.pid, auth["cookie_secret"])


@pytest.fixture(scope="module")
def sign_in_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with sign-in."""
    secrets = tmp_path_factory.mktemp("secrets") / "secrets.toml"
    values = {"redirect_uri": "http://localhost:PORT/oauth2callback", "cookie_secret": "s" * 40, "client_id": "x"}
    values |= {"client_secret": "x", "server_metadata_url": "http://127.0.0.1:9"}
    secrets.write_text("\n".join(["[auth]", *(f'{name} = "{value}"' for name, value in values.items())]))
    yield from started(tmp_path_factory.mktemp("workspace"), secrets, "--secrets.files", secrets)


@pytest.fixture(scope="module")
def public_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without sign-in."""
    yield from started(tmp_path_factory.mktemp("workspace"), Path("no secrets"))


def test_rejects_uploads_of_anonymous_users_before_reading(sign_in_server: Server) -> None:
    with visiting(sign_in_server.address) as nobody:
        assert WORDS["access.about"][:40] in nobody.draw()
        before = sign_in_server.megabytes()
        assert [nobody.upload(50) for _ in range(5)] == [403] * 5
        assert nobody.upload(50, in_chunks=True) == 403
        assert sign_in_server.megabytes() - before < 40
        assert nobody.delete_upload() == 403
        assert nobody.get_status("/_stcore/metrics") == 403
        assert nobody.get_status("/_stcore/health") == 200


def accepts_websocket(app: str, origin: str | None) -> bool:
    """Return whether the server accepts a websocket of a page with this origin."""
    try:
        with connect(f"{app.replace('http', 'ws')}/_stcore/stream", origin=origin, subprotocols=["streamlit"]):
            return True
    except InvalidStatus as error:
        status = error.response.status_code
    assert status == 403
    return False


def test_accepts_websockets_only_from_app_pages(sign_in_server: Server) -> None:
    assert accepts_websocket(sign_in_server.address, sign_in_server.address)
    assert accepts_websocket(sign_in_server.address, None)  # a program: every browser sends an origin
    port = urlsplit(sign_in_server.address).port
    others = (
        *(f"https://localhost:{port}", f"http://127.0.0.1:{port}", "http://localhost", f"http://localhost:{port + 1}"),
        *(f"http://localhost:{port}.evil.com", f"http://evil.com:{port}", f"http://0.0.0.0:{port}", "null", "file://"),
        *(f"http://localhost:{port}/", f"http://user@localhost:{port}", "http://[::1]", ""),
    )
    assert [origin for origin in others if accepts_websocket(sign_in_server.address, origin)] == []


def test_serves_no_server_file_at_any_address(sign_in_server: Server) -> None:
    with visiting(sign_in_server.address) as nobody:
        nobody.draw()
        page, no_page = (nobody.get_content(address)[1] for address in ("/", "/nopage"))
        assert no_page == Path(get_static_dir(), "index.html").read_bytes()
        for climbing in _CLIMBING:
            for file in ("app.py", ".streamlit/config.toml", "etc/passwd", "%2e%2e/app.py"):
                status, content = nobody.get_content(climbing.format(file))
                assert status in (400, 403, 404) or content in (page, no_page), climbing
        own = nobody.session
        for session in (own, f"{own}%2F..", f"./{own}", f"{own}/", f"%20{own}", f"{own}%0A", f"{own}?", f"x/../{own}"):
            assert nobody.upload(1, session=session) in (400, 403, 404, 405), session


def test_users_upload_only_to_their_own_pages(sign_in_server: Server) -> None:
    address = sign_in_server.address
    with visiting(address, sign_in_server.cookie("alice")) as alice, visiting(address) as nobody:
        alice.draw()
        assert alice.upload(1) == 204
        assert alice.delete_upload() == 204
        assert alice.get_status("/_stcore/metrics") == 200
        assert nobody.upload(1, session=alice.session) == 403
        with visiting(address, sign_in_server.cookie("bob")) as bob:
            bob.draw()
            assert bob.upload(1, session=alice.session) == 403
            assert bob.upload(1) == 204


def test_limits_uploads_of_all_open_pages_of_a_user(sign_in_server: Server) -> None:
    cookie = sign_in_server.cookie("carol")
    with visiting(sign_in_server.address, cookie) as carol, visiting(sign_in_server.address, cookie) as other:
        carol.draw()
        other.draw()
        assert [carol.upload(45), other.upload(45), carol.upload(45)] == [204, 204, 413]
        assert carol.wait_for_text(WORDS["limit.uploads"].format(limit="100"))
        assert carol.upload(45, in_chunks=True) == 413


def test_counts_uploads_without_length_as_they_arrive(public_server: Server) -> None:
    with visiting(public_server.address) as visitor:
        assert visitor.upload(1, session="of-no-page") == 403
        visitor.draw()
        before = public_server.megabytes()
        assert visitor.upload(400, in_chunks=True) == 413
        assert public_server.megabytes() - before < 60
        assert visitor.wait_for_text(WORDS["limit.uploads"].format(limit="100"))


def test_limits_uploads_of_all_users_together(public_server: Server) -> None:
    with visiting(public_server.address) as first, visiting(public_server.address) as other:
        first.draw()
        other.draw()
        assert [first.upload(90), other.upload(40), other.upload(40)] == [204, 204, 413]
        assert other.wait_for_text(WORDS["limit.all_uploads"].format(limit="150"))


def respond(scope: dict[str, Any], answer: Message) -> list[Message]:
    """Return the middleware's response to a request, before an app that always answers `answer`."""
    answers: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(answer)

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        answers.append(message)

    with ThreadPoolExecutor(1) as other:  # browser tests may have left a running loop in this thread
        other.submit(asyncio.run, AccessMiddleware(app)({"type": "http"} | scope, receive, send)).result()
    return answers


@pytest.mark.parametrize(
    ("path", "query", "base", "way"),
    [
        ("/a/b", "", "", "../page-not-found?address=%2Fa%2Fb"),
        ("/data/x/y/", "lang=ko", "", "../../../page-not-found?lang=ko&address=%2Fdata%2Fx%2Fy%2F"),
        ("/mrc/a/b", "", "mrc", "../page-not-found?address=%2Fa%2Fb"),
        ("/nopage", "", "", ""),
        ("/nopage/", "", "", ""),
        ("/mrc/nopage", "", "mrc", ""),
        ("//evil.example/a", "", "", ""),
        ("/static/js/index.js", "", "", ""),
        ("/media/report.html", "", "", ""),
    ],
)
def test_redirects_nested_paths(path: str, query: str, base: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "sign_in_redirect_uri", lambda: "")
    monkeypatch.setattr(access, "is_sign_in_enabled", lambda: False)
    monkeypatch.setattr(access.st, "get_option", {"server.baseUrlPath": base}.__getitem__)
    scope = {"method": "GET", "path": path, "query_string": query.encode(), "scheme": "http"}
    by_browser = respond(scope | {"headers": [(b"accept", b"text/html,*/*;q=0.8")]}, FROM_THE_APP)[0]
    assert dict(by_browser["headers"]).get(b"location", b"").decode() == way
    assert respond(scope | {"headers": [(b"accept", b"*/*")]}, FROM_THE_APP) == [FROM_THE_APP]  # a script, an image


@pytest.mark.parametrize(
    ("scheme", "address", "secure"),
    [
        ("http", "", False),
        ("https", "", True),
        ("http", "https://mrc.example.org/oauth2callback", True),
        ("http", "http://localhost:8501/oauth2callback", False),
    ],
)
def test_secures_cookies_over_tls(scheme: str, address: str, secure: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "sign_in_redirect_uri", lambda: address)
    monkeypatch.setattr(access, "is_sign_in_enabled", lambda: False)
    given = [(b"set-cookie", b"a=secure; Path=/"), (b"Set-Cookie", b"b=1; Secure"), (b"x-other", b"c=1")]
    scope = {"method": "GET", "path": "/", "scheme": scheme, "headers": []}
    (answer,) = respond(scope, {"type": "http.response.start", "status": 200, "headers": given})
    mark = b"; Secure" if secure else b""
    assert answer["headers"] == [(b"set-cookie", b"a=secure; Path=/" + mark), *given[1:]]
