"""How a text is cut: the analyzers to try, and user dictionaries, stored or made of words that are cut wrongly."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.text.analysis import WITH_KIWI
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.text.dictionary import (
    MOST_BYTES,
    Dictionary,
    DictionaryError,
    StoredDictionary,
    Word,
    damaged,
    keep,
    read_dictionary,
    remove,
    stored,
    with_lines,
    with_words,
)
from mrc_workbench.retrieval.lexical.terms import OF_ANY_LANGUAGE, OF_ONE_LANGUAGE, readings
from mrc_workbench.workbench.views.compare.bench import Bench, names_by_reference
from mrc_workbench.workbench.views.names import analyzer_words
from mrc_workbench.workbench.views.navigation import translate_field
from mrc_workbench.workbench.views.resources.retrieval import (
    analyzers_of,
    dictionary_of,
    is_read,
    lines_of,
    words_cut_wrongly,
)
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.state import choose_named, choose_several
from mrc_workbench.workbench.views.ui.tables import draw_heading
from mrc_workbench.workbench.views.ui.words import (
    draw_damaged,
    draw_remove,
    duration,
    errors_told,
    failure_text,
    free_name,
    moment,
    plain,
    word,
)


def choose_analyzers(key: str) -> list[Analyzer]:
    """Draw the choice of analyzers for a stored dataset; returns them in the order of `Analyzer`."""
    suited = [analyzer.value for analyzer in analyzers_of(key)]
    languages = sorted(OF_ONE_LANGUAGE, key=analyzer_words)
    every = list(dict.fromkeys([*suited, *(one.value for one in (*OF_ANY_LANGUAGE, *languages))]))

    def draw_list(label: str, options: Sequence[str], *, selection_mode: str, **look: Any) -> list[str]:
        del selection_mode  # of pills: there are too many for these
        return st.multiselect(label, options, **look)

    look = {"format_func": lambda value: analyzer_words(Analyzer(value)), "help": word("tune.analyzers_help")}
    label = word("tune.analyzers")
    chosen = choose_several(draw_list, "analyzers", label, every, suited, key="lab_analyzers", **look)
    return [analyzer for analyzer in Analyzer if analyzer.value in chosen]


def draw_readings(bench: Bench) -> None:
    with st.expander(word("tune.readings"), icon=":material/segment:"):
        usual = question_set(bench.view.data.key).questions[0].text[:2000]
        look: dict[str, Any] = {"max_chars": 2000, "height": 80, "help": word("tune.text_help"), "key": "lab_text"}
        text = st.text_area(word("tune.text"), usual, **look)
        with st.spinner(word("tune.reading")):
            found = readings(text, analyzers_of(bench.view.data.key)[0])
        rows = [(analyzer_words(analyzer), len(tokens), tokens) for analyzer, tokens in found.items()]
        columns = {
            "analyzer": tables.text("tune.analyzer", width="medium", pinned=True),
            "count": tables.number("tune.token_count", width="small"),
            "tokens": st.column_config.ListColumn(word("tune.tokens"), width="large"),
        }
        tables.draw(pd.DataFrame(rows, columns=[*columns]), columns, row_height=44)


_ASKED = "cut_words_asked"  # of the session
_ROUND = "dictionary_typed_round"
_UPLOAD_ROUND, _REFUSED = "dictionary_upload_round", "dictionary_refused"
_LONGEST_NAME = 60


def draw(bench: Bench) -> StoredDictionary | None:
    """Draw all of it; returns a dictionary that was just stored."""
    st.subheader(word("dictionary_page.title"), anchor=False)
    st.markdown(word("dictionary_page.about"))
    korean = analyzers_of(bench.view.data.key)[0] in WITH_KIWI
    if not korean:
        st.info(word("dictionary_page.not_korean"), icon=":material/info:")
    names = names_by_reference()
    label = word("dictionary_page.kept_ones", count=len(names))
    with st.expander(label, icon=":material/menu_book:", expanded=not korean):
        added = _draw_kept(names)
    made = None
    with st.container(border=True):
        draw_heading(word("dictionary_page.make"))
        called = {"": word("dictionary_page.new"), **names}
        label, about = word("dictionary_page.base"), word("dictionary_page.base_help")
        base = choose_named("dictionary", label, called, "", help=about)
        try:
            made = _draw_saving(_draw_cut_words(bench, base) if korean else [], base, names)
        except DictionaryError as error:  # of the base
            st.error(plain(failure_text(error)), icon=":material/error:")
    return added or made


def _draw_saving(picked: Sequence[str], base: str, names: dict[str, str]) -> StoredDictionary | None:
    number = st.session_state.setdefault(_ROUND, 0)  # with another one the field begins anew, empty
    look: dict[str, Any] = {"placeholder": word("dictionary_page.by_hand_example"), "max_chars": 5000, "height": 100}
    key, about = f"typed_words_{number}", word("dictionary_page.lines")
    typed = st.text_area(word("dictionary_page.by_hand"), help=about, key=key, **look)
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    usual = names.get(base) or word("dictionary_page.usual_name")
    name = left.text_input(word("dictionary_page.name"), usual, max_chars=_LONGEST_NAME, key=f"dictionary_name_{base}")
    label = word("dictionary_page.save", count=len(picked)) if picked else word("dictionary_page.save_typed")
    if not right.button(label, type="primary", icon=":material/save:", key="save_dictionary", width="stretch"):
        return None
    if not picked and not typed.strip():
        st.info(word("dictionary_page.nothing_picked"), icon=":material/touch_app:")
        return None
    made = None
    with errors_told():
        try:
            made = _keep_version(_with(base, picked, typed), name or usual)
            st.session_state[_ROUND] = number + 1
        except DictionaryError as error:
            _draw_problems(error)
    return made


def _with(base: str, picked: Sequence[str], typed: str) -> Dictionary:
    known = dictionary_of(base) or Dictionary()
    if typed.strip():
        read_dictionary(typed.encode(errors="replace"))  # what is wrong in them is told with their own rows
    more = with_words(known, [Word(one) for one in picked]) if picked else known
    return with_lines(more, typed) if typed.strip() else more


def _draw_cut_words(bench: Bench, reference: str) -> list[str]:
    data, shares = bench.view.data, bench.view.comparison.experiment.split_options
    known = st.session_state.setdefault(_ASKED, set())
    what = (data.key, reference)
    if not is_read(data, shares, reference) and what not in known:
        st.caption(word("dictionary_page.cut_about"))
        label, icon = word("dictionary_page.cut_find"), ":material/content_cut:"
        st.button(label, icon=icon, key="find_cut_words", on_click=known.add, args=(what,))
        return []
    with _progress() as tell:
        found = words_cut_wrongly(data, shares, reference, tell)
    if not found.words:
        st.info(word("dictionary_page.cut_none", questions=f"{len(found.questions):,}"), icon=":material/check:")
        return []
    st.caption(word("dictionary_page.cut_found", count=f"{len(found.words):,}", questions=f"{len(found.questions):,}"))
    key, height = f"cut_words_{data.key}_{reference}", min(38 + 35 * len(found.words), 360)
    table = pd.DataFrame(
        {
            "word": [one.word for one in found.words],
            "in_question": [" / ".join(one.in_questions) for one in found.words],
            "in_passage": [" / ".join(one.in_passages) or "–" for one in found.words],
            "count": [len(one.questions) for one in found.words],
            "evidence": [word(f"dictionary_page.evidence_{one.evidence.value}") for one in found.words],
            "question": [found.questions[one.questions[0]] for one in found.words],
        }
    )
    columns = {
        "word": tables.text("dictionary_page.word", pinned=True),
        "in_question": tables.text("dictionary_page.in_question"),
        "in_passage": tables.text("dictionary_page.in_passage"),
        "count": tables.number("dictionary_page.questions"),
        "evidence": tables.text("dictionary_page.evidence"),
        "question": tables.text("dictionary_page.example", width="large"),
    }
    rows = tables.draw_choice(table, columns, key, mode="multi-row", height=height)
    return [found.words[row].word for row in rows]


@contextmanager
def _progress() -> Iterator[Callable[[float], None]]:
    """Yield a function that draws a bar with the time left for a fraction done, 0 to 1; the bar goes at the end."""
    place, began = st.empty(), time.monotonic()
    at_work = word("dictionary_page.cut_reading")

    def tell(share: float) -> None:
        left = (time.monotonic() - began) * (1 - share) / share if share > 0.02 else 0.0  # of less, nobody can tell
        text = word("job.left", at_work=at_work, left=duration(left)) if left else at_work
        place.progress(min(1.0, share), text=text)

    try:
        yield tell
    finally:
        place.empty()


def _draw_kept(names: dict[str, str]) -> StoredDictionary | None:
    for kept in stored():
        with st.container(border=True):
            name = plain(names[kept.reference])
            about, buttons = st.columns([3, 2], vertical_alignment="center")
            counts = word("dictionary_page.counts", words=f"{kept.words:,}", synonyms=f"{kept.synonyms:,}")
            about.markdown(f"**{name}**  \n{counts} · {moment(kept.created)}")
            with buttons.container(horizontal=True, horizontal_alignment="right"):
                with errors_told():
                    key, file_name = f"download_dictionary_{kept.key}", f"dictionary-{kept.key}.txt"
                    tables.draw_file("dictionary_page.download", lines_of(kept), file_name, "text/plain", key)
                if not kept.shared:
                    sure, removed = (word(f"dictionary_page.{told}", name=name) for told in ("remove_sure", "removed"))
                    draw_remove(kept.key, remove, sure=sure, removed=removed)
    draw_damaged(damaged(), remove)
    key = f"upload_dictionary_{st.session_state.setdefault(_UPLOAD_ROUND, 0)}"  # another one begins anew, empty
    translate_field(key, megabytes=MOST_BYTES // 10**6)
    types = ("txt", "dic", "dict", "tsv", "csv")
    file = st.file_uploader(word("dictionary_page.file"), types, max_upload_size=MOST_BYTES // 10**6, key=key)
    st.caption(word("dictionary_page.lines"))
    taken = None
    with errors_told():
        taken = _taken(file) if isinstance(file, UploadedFile) else None
    return taken


def _keep_version(dictionary: Dictionary, name: str, source: str = "") -> StoredDictionary:
    """Store a dictionary under this name, numbered if another content has it. Raises `LimitError`."""
    others = [kept.name for kept in stored() if kept.fingerprint != dictionary.fingerprint]
    return keep(dictionary, free_name(name.strip()[:_LONGEST_NAME], others, "{} {}"), source=source)


def _taken(file: UploadedFile) -> StoredDictionary | None:
    """Store an uploaded file. A refusal is shown as long as its file stays in the field."""
    read, refusal = st.session_state.get(_REFUSED, ("", None))
    if read != file.file_id:
        try:
            name = PurePath(file.name).stem or word("dictionary_page.usual_name")
            kept = _keep_version(read_dictionary(file.read(MOST_BYTES + 1)), name, source=file.name)
        except Failure as error:
            st.session_state[_REFUSED] = file.file_id, error
            refusal = error
        else:
            st.session_state[_UPLOAD_ROUND] += 1
            return kept
    if isinstance(refusal, DictionaryError):
        _draw_problems(refusal)
    elif refusal:
        raise refusal
    return None


def _draw_problems(error: DictionaryError) -> None:
    first, more = [error, *error.others][:20], len(error.others) - 19
    lines = [f"- {plain(failure_text(one))}" for one in first]
    if more > 0:
        lines.append(f"- {word('dictionary_page.more_problems', count=more)}")
    st.error("\n".join([word("dictionary_page.not_kept"), "", *lines]), icon=":material/error:")
