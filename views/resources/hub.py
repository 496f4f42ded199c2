"""What the hub says of a model, asked in the background."""

from concurrent.futures import Future, ThreadPoolExecutor

import streamlit as st

from models.hub import HubRevision, hub_revision


@st.cache_resource(show_spinner=False)
def _askers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="hub")


@st.cache_resource(show_spinner=False, ttl=300, max_entries=64)
def hub_answer(hub_id: str) -> Future[HubRevision]:
    """Ask the hub about a model in the background: a page looks at the answer and never waits for it."""
    return _askers().submit(hub_revision, hub_id)
