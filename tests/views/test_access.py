"""Who comes in, and that callbacks, which run without `app.py`, are at work in the workspace of who is signed in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from data import workspace as workspace_module
from data.workspace import NobodySignedInError, shared_workspace, user_of, users_told_by, workspace
from tests.views.driving import run
from views import access
from views.ui.words import catalog

ISSUER = "https://id.example.org"
ALICE = {"is_logged_in": True, "iss": ISSUER, "sub": "alice", "name": "Alice <b>", "email": "alice@example.org"}
WORDS = catalog("en")


def page() -> None:
    import streamlit as st

    from data.workspace import workspace
    from views import access

    def press() -> None:
        st.session_state["pressed"] = str(workspace())

    if access.granted():
        st.text(str(workspace()))
        st.button("press", on_click=press, key="press")
        if access.is_on():
            access.draw_user(busy=False)


@pytest.fixture(autouse=True)
def _asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_module, "_told_by", [])
    users_told_by(access._who)


@pytest.fixture
def sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "is_on", lambda: True)
    monkeypatch.setattr(access, "_providers", lambda: [""])


def opened_by(person: dict[str, Any], **context: str) -> AppTest:
    app = AppTest.from_function(page, default_timeout=60)
    app.query_params["lang"] = "en"
    app.user = person
    app.context = context
    return run(app)


@pytest.mark.usefixtures("sign_in")
def test_each_is_at_work_in_their_own_workspace_in_callbacks_too() -> None:
    for name in ("alice", "bob"):
        app = opened_by({**ALICE, "sub": name})
        own = str(shared_workspace() / "users" / user_of(ISSUER, name))
        assert app.text[0].value == own
        app.button(key="press").click()
        run(app)
        assert app.session_state["pressed"] == own


@pytest.mark.usefixtures("sign_in")
@pytest.mark.parametrize(
    "changed",
    [
        {"is_logged_in": False},
        {"is_logged_in": "True"},  # a header that a proxy passes on is a text
        {"sub": ""},
        {"sub": None},
        {"iss": ""},
    ],
)
def test_who_is_not_signed_in_sees_a_door_and_nothing_else(changed: dict[str, Any]) -> None:
    app = opened_by({**ALICE, **changed})
    assert [button.label for button in app.button][-1:] != ["press"]
    assert not app.text
    assert not app.sidebar.children
    assert WORDS["access.about"] in [one.value for one in app.markdown]


@pytest.mark.usefixtures("sign_in")
def test_only_verified_addresses_that_the_operator_names_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_EMAILS", "@example.org")
    assert opened_by({**ALICE, "email_verified": True}).text
    for person in ({**ALICE, "email_verified": False}, ALICE, {**ALICE, "email": "a@b.org", "email_verified": True}):
        app = opened_by(person)
        assert not app.text
        assert [button.key for button in app.button] == ["sign_out"]
        assert "Alice \\<b\\>" in app.error[0].value


@pytest.mark.usefixtures("sign_in")
def test_a_thread_that_nobody_is_signed_in_to_has_no_workspace() -> None:
    with pytest.raises(NobodySignedInError):
        workspace()


@pytest.mark.usefixtures("sign_in")
def test_making_room_removes_what_can_be_made_anew_and_no_more() -> None:
    own = shared_workspace() / "users" / user_of(ISSUER, "alice")
    for place in (own / "cache" / "vectors", own / "datasets", shared_workspace() / "cache" / "hub"):
        place.mkdir(parents=True)
        (place / "file").write_bytes(b"x" * 1_500_000)
    app = opened_by(ALICE)
    assert WORDS["access.held"].format(held="3", limit="2,000") in str(app.get("progress")[0].proto)
    app.button(key="clear_cache").click()
    run(app)
    assert not (own / "cache").exists()
    assert (own / "datasets" / "file").is_file()
    assert (shared_workspace() / "cache" / "hub" / "file").is_file()


def test_without_configuration_nobody_signs_in_and_others_are_warned_of() -> None:
    at_home = opened_by({}, url="http://localhost:8501/")
    assert at_home.text[0].value == str(shared_workspace())
    assert not at_home.warning
    assert not at_home.sidebar.children
    elsewhere = opened_by({}, url="https://mrc.example.org/")
    assert elsewhere.text[0].value == str(shared_workspace())
    assert [one.value for one in elsewhere.warning] == [WORDS["access.everybody"]]


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.0.7", ""])  # noqa: S104 - what is warned of
def test_an_address_that_others_reach_is_warned_of(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    option = st.get_option
    monkeypatch.setattr(st, "get_option", lambda name: address if name == "server.address" else option(name))
    assert opened_by({}, url="http://localhost:8501/").warning


@pytest.fixture
def _secrets_files() -> Iterator[None]:
    from streamlit import config

    before = st.get_option("secrets.files")
    yield
    config.set_option("secrets.files", before)


@pytest.mark.usefixtures("_secrets_files")
def test_it_is_on_exactly_where_the_secrets_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamlit import config
    from streamlit.runtime.secrets import Secrets

    files = {"none": None, "other": "[other]\nkey = 1\n", "auth": '[auth]\nclient_id = "x"\n', "broken": "[auth\n"}
    found: dict[str, object] = {}
    for name, content in files.items():
        path = tmp_path / f"{name}.toml"
        if content is not None:
            path.write_text(content, encoding="utf-8")
        config.set_option("secrets.files", [str(path)])
        monkeypatch.setattr(st, "secrets", Secrets())
        try:
            found[name] = access.is_on()
        except FileNotFoundError:
            found[name] = "nobody gets in"
    assert found == {"none": False, "other": False, "auth": True, "broken": "nobody gets in"}
