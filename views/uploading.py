"""The field for files in the person's language: Streamlit's own has its words in English alone."""

import json
from pathlib import Path

import streamlit as st

from views.ui.words import word

_LOOK = Path(__file__).parent / "uploading.css"


def translate_field(key: str, *, megabytes: int = 0, is_large: bool = False) -> None:
    """Give the field of this `key`, which begins with "upload", its words; a large one is a place to drop files on.

    `megabytes` is its `max_upload_size`; 0: that of the server.
    """
    words = {
        "press": word("upload.press"),
        "drop": word("upload.drop"),
        "limit": word("upload.limit", megabytes=f"{megabytes or st.get_option('server.maxUploadSize'):,}"),
    }
    said = "".join(f"--{name}: {json.dumps(text, ensure_ascii=False)}; " for name, text in words.items())
    room = "--room: 10rem; --flow: column; --place: center" if is_large else ""
    st.html(_LOOK)
    st.html(f"<style>.st-key-{key} {{ {said}{room} }}</style>")
