"""The ways to sentence pairs: files of one's own, the samples, the public sets, and the question set in use."""

from collections.abc import Iterator
from dataclasses import replace

import streamlit as st

from data.pairs.reading import PairOptions
from data.passages import Passages
from data.problems import DataError
from data.store import PAIR_CATALOG, PairEntry, StoredSet, obtain_files
from text.marking import marked_sentences
from views.data.get import following
from views.data.pairs import preview
from views.data.pairs.preview import Preview
from views.names import pairs_name, set_name
from views.resources.sets import question_set
from views.ui.problems import errors_told
from views.ui.words import plain, word
from views.uploads import translate_field

_MEGABYTE = 10**6
_SAMPLES = [entry for entry in PAIR_CATALOG.values() if not entry.size]
_PUBLIC = [entry for entry in PAIR_CATALOG.values() if entry.size]


def draw(used: StoredSet) -> None:
    """Draw the ways; each ends in a preview. `used` is the question set in use."""
    _draw_upload()
    looked_at = preview.current() is not None  # another key makes it another one, which is closed
    with st.expander(word("pairs_page.others"), icon=":material/library_add:", key=f"pairs_others_{looked_at}"):
        sample, public = st.columns(2, border=True)
        with sample:
            _draw_sample()
        with public:
            _draw_public()
        _draw_sentences(used)


def _draw_sample() -> None:
    st.markdown(f"**{word('pairs_page.sample')}**")
    licence = word("data_page.licence", licence=_SAMPLES[0].licence)
    st.caption(f"{word('pairs_page.sample_about')}  \n{licence}")
    for entry in _SAMPLES:
        if st.button(pairs_name(entry.title), key=f"look_{entry.id}", icon=":material/visibility:", width="stretch"):
            _look(entry)


def _draw_public() -> None:
    st.markdown(f"**{word('pairs_page.public')}**")
    names = {entry.id: pairs_name(entry.title) for entry in _PUBLIC}
    chosen = st.selectbox(
        word("pairs_page.public"),
        [*names],
        format_func=names.__getitem__,
        key="public_pairs",
        label_visibility="collapsed",
    )
    entry = PAIR_CATALOG[chosen or _PUBLIC[0].id]
    size = word("pairs_page.download_size", size=f"{entry.size / _MEGABYTE:.1f}")
    licence = word("data_page.licence", licence=entry.licence)
    st.caption(f"{word(f'pair_set_about.{entry.id}')}  \n{size}  \n{licence}")
    if st.button(word("data_page.look"), key="look_public", icon=":material/visibility:"):
        _look(entry)


def _draw_upload() -> None:
    key = f"upload_pairs_{preview.upload_round()}"
    translate_field(key, is_large=preview.current() is None)
    files = st.file_uploader(
        word("data_page.upload"), accept_multiple_files=True, key=key, help=word("pairs_page.upload_help")
    )
    st.caption(word("pairs_page.upload_about"))
    if files:
        contents = tuple((file.getvalue(), file.name) for file in files)
        preview.empty_field()
        _open(Preview(", ".join(file.name for file in files), files=contents), PairOptions())


def _draw_sentences(used: StoredSet) -> None:
    """Offer the sentences of the passages in use, and not its questions: they are there to be measured with."""
    with st.container(border=True):
        about, press = st.columns([3, 1], vertical_alignment="center")
        about.caption(word("pairs_page.sentences_about", name=plain(set_name(used.name))))
        if not press.button(
            word("pairs_page.sentences"), key="take_sentences", icon=":material/notes:", width="stretch"
        ):
            return
    with errors_told():
        with st.spinner(word("pairs_page.taking_sentences"), show_time=True):
            title = word("pairs_page.sentences_of", name=set_name(used.name))
            found = preview.preview_of_sentences(
                _sentences(question_set(used.key).passages), source=used.key, title=title
            )
        preview.show(found)
        st.rerun()


def _sentences(passages: Passages) -> Iterator[str]:
    for text in passages.texts:
        yield from (text[start:end] for start, end in marked_sentences(text))


def _look(entry: PairEntry) -> None:
    found, bar = Preview(entry.id, entry.title), st.empty()
    with errors_told():
        try:
            found = replace(found, files=tuple(obtain_files(entry, following(bar.progress))))
        except DataError as error:
            preview.show(replace(found, error=error))
            st.rerun()
        bar.empty()
        _open(found, entry.options)


def _open(found: Preview, options: PairOptions) -> None:
    with errors_told():
        with st.spinner(word("data_page.reading"), show_time=True):
            preview.show(preview.preview_of(found, options))
        st.rerun()
