"""The text that a tokenizer or a language model learns from: the passages in use, or a text file that was kept."""

from typing import Any

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from mrc_workbench.data.formats.opening import set_name as named_by_file
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.text.corpora import StoredText, damaged, keep, remove, stored
from mrc_workbench.workbench.views.names import as_shared, set_name
from mrc_workbench.workbench.views.resources.sets import characters_of
from mrc_workbench.workbench.views.ui.state import choose_named, remember
from mrc_workbench.workbench.views.ui.words import draw_damaged, draw_remove, errors_told, plain, word
from mrc_workbench.workbench.views.uploads import translate_field

Learned = StoredSet | StoredText
_IN_ADDRESS = "corpus"
_ROUND, _REFUSED = "text_upload_round", "text_refused"  # of the session


def pick_text(data: StoredSet) -> Learned:
    """Draw the choice among the passages of the dataset and the stored texts, with the ways to add and remove one."""
    kept = {one.reference: one for one in stored()}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        names = {data.key: word("texts.passages_of", name=set_name(data.name))}
        names |= {reference: learned_name(one) for reference, one in kept.items()}
        look: dict[str, Any] = {"help": word("texts.learned_help"), "width": 320}
        chosen = choose_named(_IN_ADDRESS, word("texts.learned"), names, data.key, **look)
        _draw_upload()
        text = kept.get(chosen)
        if text and not text.shared:
            name = plain(text.name)
            sure, removed = word("texts.remove_sure", name=name), word("texts.removed", name=name)
            draw_remove(text.key, remove, sure=sure, removed=removed)
        learned = text or data
        counts = {"documents": f"{documents_in(learned):,}", "characters": f"{characters_in(learned):,}"}
        st.caption(word("texts.about_text" if text else "texts.about_passages", **counts), width="content")
    draw_damaged(damaged(), remove)
    return learned


def learned_name(learned: Learned) -> str:
    if isinstance(learned, StoredSet):
        return set_name(learned.name)
    return as_shared(learned.name, shared=learned.shared)


def reference_of(learned: Learned) -> str:
    return learned.key if isinstance(learned, StoredSet) else learned.reference


def characters_in(learned: Learned) -> int:
    return characters_of(learned) if isinstance(learned, StoredSet) else learned.characters


def documents_in(learned: Learned) -> int:
    return learned.passages if isinstance(learned, StoredSet) else learned.documents


def _draw_upload() -> None:
    number = st.session_state.setdefault(_ROUND, 0)  # with another one field and popover begin anew, empty and closed
    with st.popover(word("texts.add"), icon=":material/upload_file:", key=f"add_text_{number}"):
        translate_field(f"upload_text_{number}")
        file = st.file_uploader(word("texts.file"), type="txt", key=f"upload_text_{number}")
        st.caption(word("texts.upload_about"))
        if isinstance(file, UploadedFile):
            with errors_told():
                _take(file)


def _take(file: UploadedFile) -> None:
    """Store an uploaded text and select it. A refusal is shown as long as its file stays in the field."""
    read, refusal = st.session_state.get(_REFUSED, ("", None))
    if read == file.file_id:
        raise refusal
    name = named_by_file(file.name, "text")
    bar, checking = st.empty(), word("texts.checking")
    bar.progress(0.0, text=checking)
    st.button(word("job.stop"), icon=":material/stop:", on_click=_empty_field, key="stop_text")
    try:
        kept = keep(file, name, source=file.name, on_progress=lambda share: bar.progress(share, text=checking))
    except (Failure, OSError) as error:
        st.session_state[_REFUSED] = file.file_id, error
        st.rerun()
    _empty_field()
    remember(_IN_ADDRESS, kept.reference)
    st.toast(word("texts.kept", name=plain(name)), icon=":material/check:")
    st.rerun()


def _empty_field() -> None:
    st.session_state[_ROUND] += 1
