"""Tabs that hold one view each, or a few that are picked between: few enough to be taken in at a glance."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from views.state import choose, choose_tab


def choose_view(name: str, tabs: Mapping[str, Sequence[str]], called: Callable[[str], str]) -> tuple[str, Any]:
    """Draw tabs with their views, both `called` by words; returns the view that is open, and where it is drawn.

    The tab lies in the address by `name`, and the view of a tab that holds several by both names. An address may also
    tell a view alone, as long as no tab of several is called so.
    """
    given = st.query_params.get(name, "")
    for tab, views in tabs.items():
        if given in views and len(views) > 1:
            st.query_params[name], st.query_params[f"{name}_{tab}"] = tab, given
    tab, place = choose_tab(name, {one: called(one) for one in tabs})
    views = tabs[tab]
    if len(views) == 1:
        return views[0], place
    with place:
        look: dict[str, Any] = {"format_func": called, "label_visibility": "collapsed"}
        return choose(st.segmented_control, f"{name}_{tab}", called(tab), views, views[0], **look), place
