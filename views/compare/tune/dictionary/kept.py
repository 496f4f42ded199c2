"""The dictionaries that are kept: uploaded, downloaded, removed."""

from pathlib import PurePath

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from data.failure import Failure
from text.dictionary import Dictionary
from text.dictionary_file import MOST_BYTES, read_dictionary
from text.kept_dictionaries import StoredDictionary, damaged, keep, remove, stored
from text.problems import DictionaryError
from views.compare.tune.dictionary.names import free_name, names_by_reference
from views.resources.explanations import lines_of
from views.ui.problems import draw_damaged, errors_told, failure_text
from views.ui.words import moment, plain, word
from views.uploads import translate_field

LONGEST_NAME = 60
_KINDS = ("txt", "dic", "dict", "tsv", "csv")
_MOST_TOLD = 20  # lines that are wrong
_ROUND, _REFUSED = "dictionary_upload_round", "dictionary_refused"  # of the session


def draw() -> StoredDictionary | None:
    """Draw the kept dictionaries and the way to add a file; returns one that was added just now."""
    names = names_by_reference()
    for kept in stored():
        with st.container(border=True):
            _draw_row(kept, names[kept.reference])
    draw_damaged(damaged(), remove)
    number = st.session_state.setdefault(_ROUND, 0)  # with another one the field begins anew, empty
    translate_field(f"upload_dictionary_{number}", megabytes=MOST_BYTES // 10**6)
    file = st.file_uploader(
        word("dictionary_page.file"),
        type=_KINDS,
        max_upload_size=MOST_BYTES // 10**6,
        key=f"upload_dictionary_{number}",
    )
    st.caption(word("dictionary_page.lines"))
    taken = None
    with errors_told():
        taken = _taken(file) if isinstance(file, UploadedFile) else None
    return taken


def keep_version(dictionary: Dictionary, name: str, source: str = "") -> StoredDictionary:
    """Keep a dictionary under this name, numbered where another content has it. Raises `LimitError`."""
    others = [kept.name for kept in stored() if kept.fingerprint != dictionary.fingerprint]
    return keep(dictionary, free_name(name.strip()[:LONGEST_NAME], others), source=source)


def _draw_row(kept: StoredDictionary, name: str) -> None:
    about, buttons = st.columns([3, 2], vertical_alignment="center")
    counts = word("dictionary_page.counts", words=f"{kept.words:,}", synonyms=f"{kept.synonyms:,}")
    about.markdown(f"**{plain(name)}**  \n{counts} · {moment(kept.created)}")
    with buttons.container(horizontal=True, horizontal_alignment="right"):
        with errors_told():
            st.download_button(
                word("dictionary_page.download"),
                lines_of(kept),
                f"dictionary-{kept.key}.txt",
                "text/plain",
                icon=":material/download:",
                key=f"download_dictionary_{kept.key}",
                on_click="ignore",
            )
        if not kept.shared:
            _draw_remove(kept, name)


def _draw_remove(kept: StoredDictionary, name: str) -> None:
    with st.popover(word("data_page.remove"), icon=":material/delete:", key=f"remove_dictionary_{kept.key}"):
        st.markdown(word("dictionary_page.remove_sure", name=plain(name)))
        yes = st.button(word("data_page.remove_yes"), icon=":material/delete:", key=f"remove_dictionary_yes_{kept.key}")
        if yes:
            with errors_told():
                remove(kept.key)
                st.toast(word("dictionary_page.removed", name=plain(name)), icon=":material/delete:")
                st.rerun()


def _taken(file: UploadedFile) -> StoredDictionary | None:
    """Keep what was uploaded. What was refused is told as long as its file stays in the field."""
    read, refusal = st.session_state.get(_REFUSED, ("", None))
    if read != file.file_id:
        try:
            name = PurePath(file.name).stem or word("dictionary_page.usual_name")
            kept = keep_version(read_dictionary(file.read(MOST_BYTES + 1)), name, source=file.name)
        except Failure as error:
            st.session_state[_REFUSED] = file.file_id, error
            refusal = error
        else:
            st.session_state[_ROUND] += 1
            return kept
    if isinstance(refusal, DictionaryError):
        draw_problems(refusal)
    elif refusal:
        raise refusal
    return None


def draw_problems(error: DictionaryError) -> None:
    """Say what is wrong with the lines of a dictionary, each with its row."""
    every = [error, *error.others]
    lines = [f"- {plain(failure_text(one))}" for one in every[:_MOST_TOLD]]
    if len(every) > _MOST_TOLD:
        lines.append(f"- {word('dictionary_page.more_problems', count=len(every) - _MOST_TOLD)}")
    st.error("\n".join([word("dictionary_page.not_kept"), "", *lines]), icon=":material/error:")
