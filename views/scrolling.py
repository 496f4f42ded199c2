"""Bringing what a person asked for into sight: Streamlit leaves the page where it was scrolled to."""

import streamlit as st

_DONE, _COUNT = "scrolled_to", "scrolled"
_SCRIPT = "<script>/* {count} */ document.querySelector('[data-testid=stMain]')?.scrollTo({{ top: 0 }})</script>"


def show_top(of: str) -> None:
    """Scroll the page to its top where what stands there, called `of`, is not what was shown last."""
    if st.session_state.get(_DONE) == of:
        return
    st.session_state[_DONE] = of
    # another number makes it another script, which the browser runs again
    st.session_state[_COUNT] = count = int(st.session_state.get(_COUNT, 0)) + 1
    st.html(_SCRIPT.format(count=count), unsafe_allow_javascript=True)


def leave() -> None:
    """Note that what was brought into sight is no longer shown: opened again, it is brought there again."""
    st.session_state.pop(_DONE, None)
