"""What the hub says of a model, asked in the background."""

from concurrent.futures import Future, ThreadPoolExecutor

import streamlit as st

from data.workspace import for_this_user
from models.hub import HubRevision, hub_revision


@st.cache_resource(show_spinner=False)
def _askers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="hub")


@st.cache_resource(show_spinner=False, ttl=300, max_entries=64)
def hub_answer(hub_id: str) -> Future[HubRevision]:
    """Ask the hub about a model in the background: a page looks at the answer and never waits for it.

    All users share it: the hub is asked in nobody's name where people sign in.
    """
    return _askers().submit(for_this_user(hub_revision), hub_id)
