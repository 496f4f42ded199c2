"""What of the workspace cannot be read any more: it stands in its list, and is removed where a person wants that."""

from collections.abc import Callable, Sequence

import streamlit as st

from views.ui.words import plain, word


def draw_damaged(names: Sequence[str], remove: Callable[[str], None]) -> None:
    """Draw a row for each of the folders of these names; `remove` is told the name of one that is to go."""
    for name in names:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            st.markdown(word("damaged.about", name=plain(name)), width="stretch")
            with st.popover(word("damaged.remove"), icon=":material/delete:", key=f"damaged_{name}"):
                st.markdown(word("damaged.sure"))
                if st.button(word("damaged.remove"), type="primary", key=f"damaged_yes_{name}"):
                    remove(name)
                    st.rerun()
