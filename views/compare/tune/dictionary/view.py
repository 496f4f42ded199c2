"""The user dictionary: what it does, those that are kept, and a new one made of words that are cut wrongly."""

from collections.abc import Sequence

import streamlit as st

from text.analysis import WITH_KIWI
from text.dictionary import Dictionary, Word
from text.dictionary_file import read_dictionary, with_lines, with_words
from text.kept_dictionaries import StoredDictionary
from text.problems import DictionaryError
from views.compare.tune.bench import Bench
from views.compare.tune.dictionary import cut
from views.compare.tune.dictionary import kept as dictionary_kept
from views.compare.tune.dictionary.names import names_by_reference
from views.resources.explanations import dictionary_of
from views.resources.retrieval import analyzers_of
from views.ui.problems import errors_told, failure_text
from views.ui.state import choose
from views.ui.words import plain, word

_MOST_TYPED = 5000  # characters
_ROUND = "dictionary_typed_round"  # of the session


def draw(bench: Bench) -> StoredDictionary | None:
    """Draw all of it; returns a dictionary that was kept just now."""
    st.subheader(word("dictionary_page.title"), anchor=False)
    st.markdown(word("dictionary_page.about"))
    korean = analyzers_of(bench.view.data.key)[0] in WITH_KIWI
    if not korean:
        st.info(word("dictionary_page.not_korean"), icon=":material/info:")
    names = names_by_reference()
    label = word("dictionary_page.kept_ones", count=len(names))
    with st.expander(label, icon=":material/menu_book:", expanded=not korean):
        added = dictionary_kept.draw()
    made = _draw_making(bench, names, korean=korean)
    return added or made


def _draw_making(bench: Bench, names: dict[str, str], *, korean: bool) -> StoredDictionary | None:
    with st.container(border=True):
        st.markdown(f"**{word('dictionary_page.make')}**")
        base = choose(
            st.selectbox,
            "dictionary",
            word("dictionary_page.base"),
            ["", *names],
            "",
            follows=True,
            format_func=lambda reference: names.get(reference) or word("dictionary_page.new"),
            help=word("dictionary_page.base_help"),
        )
        try:
            picked = cut.draw(bench, base) if korean else []
            return _draw_saving(picked, base, names)
        except DictionaryError as error:  # of the base
            st.error(plain(failure_text(error)), icon=":material/error:")
    return None


def _draw_saving(picked: Sequence[str], base: str, names: dict[str, str]) -> StoredDictionary | None:
    number = st.session_state.setdefault(_ROUND, 0)  # with another one the field begins anew, empty
    typed = st.text_area(
        word("dictionary_page.by_hand"),
        placeholder=word("dictionary_page.by_hand_example"),
        max_chars=_MOST_TYPED,
        height=100,
        help=word("dictionary_page.lines"),
        key=f"typed_words_{number}",
    )
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    usual = names.get(base) or word("dictionary_page.usual_name")
    name = left.text_input(
        word("dictionary_page.name"), usual, max_chars=dictionary_kept.LONGEST_NAME, key=f"dictionary_name_{base}"
    )
    label = word("dictionary_page.save", count=len(picked)) if picked else word("dictionary_page.save_typed")
    if not right.button(label, type="primary", icon=":material/save:", key="save_dictionary", width="stretch"):
        return None
    if not picked and not typed.strip():
        st.info(word("dictionary_page.nothing_picked"), icon=":material/touch_app:")
        return None
    made = None
    with errors_told():
        try:
            made = dictionary_kept.keep_version(_with(base, picked, typed), name or usual)
            st.session_state[_ROUND] = number + 1
        except DictionaryError as error:
            dictionary_kept.draw_problems(error)
    return made


def _with(base: str, picked: Sequence[str], typed: str) -> Dictionary:
    """Return a dictionary with the words picked and the lines typed. Raises `DictionaryError`."""
    known = dictionary_of(base) or Dictionary()
    if typed.strip():
        read_dictionary(typed.encode(errors="replace"))  # what is wrong in them is told with their own rows
    more = with_words(known, [Word(one) for one in picked]) if picked else known
    return with_lines(more, typed) if typed.strip() else more
