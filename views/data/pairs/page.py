"""Sentence pairs: get a set, see what was understood of it and what it is like, and keep it."""

from collections.abc import Iterator
from dataclasses import replace

import streamlit as st

from data.pairs.reading import PairOptions
from data.pairs.store import PAIR_CATALOG, PairEntry, StoredPairs, obtain_files
from data.passages import Passages
from data.problems import DataError
from data.store import StoredSet
from text.marking import marked_sentences
from training.options.sentences import SENTENCES
from views.data import sets
from views.data.pairs import audit, preview
from views.data.pairs.preview import Preview
from views.data.preview import following
from views.names import pairs_name, set_name
from views.navigation import way_to
from views.resources.sets import pair_audit, pair_set, parts_of, question_set
from views.ui.problems import errors_told
from views.ui.state import show_top
from views.ui.words import plain, word
from views.uploads import translate_field

_MEGABYTE = 10**6
_SAMPLES = [entry for entry in PAIR_CATALOG.values() if not entry.size]
_PUBLIC = [entry for entry in PAIR_CATALOG.values() if entry.size]


def draw(used: StoredSet) -> None:
    """Draw the part of the page; `used` is the question set in use."""
    shown = preview.current()
    chosen = sets.chosen_pairs()
    if chosen is not None and shown is None and preview.kept_now() == chosen.key:
        show_top(f"kept {chosen.key}")
        st.success(word("pairs_page.kept_now", name=plain(pairs_name(chosen.name))), icon=":material/check_circle:")
        _draw_next(chosen)
    _draw_ways(used)
    if shown is None:
        sets.draw_pairs(chosen.key if chosen is not None else "")
        if chosen is not None:
            _draw_stored(chosen)
    else:
        preview.draw(shown)
        if (found := shown.read or (shown.before.read if shown.before else None)) is not None:
            audit.draw(found.pairs, found.rows, found.audit)


def _draw_next(kept: StoredPairs) -> None:
    """Draw what can be done with a set."""
    with st.container(horizontal=True):
        way_to("embeddings", word("pairs_page.to_embeddings"), pairs=kept.key)
        way_to("train", word("pairs_page.to_train"), train=SENTENCES, pairs=kept.key)


def _draw_stored(kept: StoredPairs) -> None:
    st.header(word("pairs_page.shown", name=plain(pairs_name(kept.name))), anchor=False)
    if preview.kept_now() != kept.key:
        _draw_next(kept)
    with errors_told():
        with st.spinner(word("data_page.auditing"), show_time=True):
            pairs, rows, figures = pair_set(kept.key), parts_of(kept.key), pair_audit(kept.key)
        audit.draw(pairs, rows, figures)


def _draw_ways(used: StoredSet) -> None:
    """Draw the ways; each ends in a preview. `used` is the question set in use."""
    _draw_upload()
    looked_at = preview.current() is not None  # another key makes it another one, which is closed
    with st.expander(word("pairs_page.others"), icon=":material/library_add:", key=f"pairs_others_{looked_at}"):
        sample, public = st.columns(2, border=True)
        with sample:
            st.markdown(f"**{word('pairs_page.sample')}**")
            licence = word("data_page.licence", licence=_SAMPLES[0].licence)
            st.caption(f"{word('pairs_page.sample_about')}  \n{licence}")
            for entry in _SAMPLES:
                title = pairs_name(entry.title)
                if st.button(title, key=f"look_{entry.id}", icon=":material/visibility:", width="stretch"):
                    _look(entry)
        with public:
            _draw_public()
        _draw_sentences(used)


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
        preview.look_at(Preview(", ".join(file.name for file in files), files=contents), PairOptions())


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
        preview.look_at(found, entry.options)
