"""Who may come in, and whose workspace they get: sign-in by Streamlit with an OpenID provider.

It is on exactly where `.streamlit/secrets.toml` has a section `[auth]`. Streamlit runs callbacks and fragments in
threads of their own, without `app.py`: whose work is at hand is therefore asked of Streamlit every time.
"""

from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st

from data.limits import MEGABYTE, limits, used_bytes
from data.workspace import (
    NobodySignedInError,
    remove_folder,
    shared_workspace,
    user,
    user_of,
    users_told_by,
    workspace,
)
from models.hub import forget_tokens
from views.words import plain, word

_LOCAL = {"localhost", "127.0.0.1", "::1"}


def begin() -> None:
    """Have every workspace be the one of who is signed in. Raises `ValueError` where limits are set to nonsense."""
    users_told_by(_who)
    limits()
    if is_on():
        forget_tokens()


def is_on() -> bool:
    """Whether people sign in here. Raises Streamlit's error where its secrets cannot be read: nobody gets in then."""
    return any(Path(place).exists() for place in st.get_option("secrets.files")) and "auth" in st.secrets


def granted() -> bool:
    """Whether the pages may be drawn; where not, draw what there is to do about it."""
    if not is_on():
        _warn_of_everybody()
        return True
    try:
        return bool(user())
    except NobodySignedInError:
        _draw_door()
        return False


def draw_user(*, busy: bool) -> None:
    """Draw who is signed in, what their workspace holds, and the way out.

    While they are `busy`, a job needs what could be made anew.
    """
    st.divider()
    st.markdown(f":material/person: {plain(_name())}")
    held, limit = used_bytes() / MEGABYTE, limits().megabytes
    st.progress(min(1.0, held / limit), word("access.held", held=f"{held:,.0f}", limit=f"{limit:,}"))
    with st.container(horizontal=True):
        st.button(word("access.sign_out"), icon=":material/logout:", on_click=st.logout, key="sign_out")
        with st.popover(word("access.clear"), icon=":material/mop:"):
            st.markdown(word("access.clear_about"))
            st.button(word("access.clear_yes"), on_click=_clear, disabled=busy, key="clear_cache")


def _who() -> str | None:
    """The folder's name of who is signed in; None where nobody signs in. Raises `NobodySignedInError`."""
    if not is_on():
        return None
    issuer, subject = st.user.get("iss"), st.user.get("sub")
    if st.user.get("is_logged_in") is not True or not issuer or not subject or not _is_let_in():
        raise NobodySignedInError("nobody is signed in")
    return user_of(str(issuer), str(subject))


def _is_let_in() -> bool:
    # an address that nobody has verified may be anybody's
    verified = st.user.get("email_verified") in (True, "true")
    return limits().lets_in(str(st.user.get("email") or "") if verified else "")


def _name() -> str:
    return str(st.user.get("name") or st.user.get("email") or st.user.get("sub"))


def _draw_door() -> None:
    _, middle, _ = st.columns([1, 2, 1])
    with middle:
        st.title(word("app.title"), anchor=False)
        st.markdown(word("access.about"))
        if st.user.get("is_logged_in") is True:
            st.error(word("access.not_let_in", name=plain(_name())), icon=":material/block:")
            st.button(word("access.sign_out"), icon=":material/logout:", on_click=st.logout, key="sign_out")
        else:
            for name in _providers():
                label = word("access.sign_in_by", provider=plain(name)) if name else word("access.sign_in")
                st.button(
                    label,
                    type="primary",
                    icon=":material/login:",
                    on_click=st.login,
                    args=(name or None,),
                    key=f"sign_in_{name}",
                )


def _providers() -> list[str]:
    """Names of the providers that the secrets name, an empty one for that of `[auth]` itself."""
    section = st.secrets["auth"]
    named = [name for name in section if hasattr(section[name], "keys") and "client_id" in section[name]]
    return ([""] if "client_id" in section else []) + named


def _warn_of_everybody() -> None:
    """Say that nobody signs in, where others than those at this machine reach the app."""
    reached_at = urlsplit(st.context.url or "").hostname or "localhost"
    if st.get_option("server.address") not in _LOCAL or reached_at not in _LOCAL:
        st.warning(word("access.everybody"), icon=":material/lock_open:")


def _clear() -> None:
    """Remove what can be made anew: caches, and with them what was worked out before trainings."""
    folder = workspace() / "cache"
    if folder.is_dir() and workspace() != shared_workspace():
        remove_folder(folder)
