"""The lab of BM25's options (titles, feedback, compounds, user dictionary), one change at a time; user dictionaries."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.text import dictionary as dictionaries
from mrc_workbench.data.text.analysis import WITH_KIWI
from mrc_workbench.data.text.analyzers import Analyzer, Compounds
from mrc_workbench.data.text.dictionary import MAX_BYTES, Dictionary, DictionaryError, StoredDictionary, Word
from mrc_workbench.retrieval.analysis import labs
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, TermSpec
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.retrieval.lexical import BM25Engine
from mrc_workbench.workbench.views.compare.bench import BM25_KINDS, Bench, LabResult, dictionary_names
from mrc_workbench.workbench.views.names import retriever_name
from mrc_workbench.workbench.views.navigation import translate_field
from mrc_workbench.workbench.views.resources import retrieval
from mrc_workbench.workbench.views.ui import tables, words
from mrc_workbench.workbench.views.ui.state import choose_named, choose_several, forget_scroll, remember, scroll_to_top
from mrc_workbench.workbench.views.ui.words import failure_text, plain, show_errors, word

_LONGEST_NAME = 60
# Session keys
_ROUND = "changes_round"  # how often the app, not a click, changed the selected changes
_NEW = "new_dictionary"  # reference of a dictionary stored last
_TRIED = "dictionary_tried"  # whether its lab has just started
_REQUESTED = "cut_words_requested"
_TYPED_ROUND = "dictionary_typed_round"
_UPLOAD_ROUND = "dictionary_upload_round"
_REFUSED = "dictionary_refused"


@dataclass(frozen=True)
class _PossibleChanges:
    """The changes that a BM25 retriever allows: kinds, and references of dictionaries ("" for none)."""

    present: TermSpec
    kinds: tuple[str, ...]
    dictionaries: tuple[str, ...]


def draw_changes(bench: Bench) -> None:
    if st.session_state.pop(_TRIED, False):  # the button is below the lab
        forget_scroll()
        scroll_to_top("lab")
    present = ""
    container = st.container()
    if bench.names(*BM25_KINDS):
        with st.container(border=True):
            present = bench.pick(BM25_KINDS, "tuned")
            experiment = _pick_changes(bench, _possible_changes(bench, present), present)
        with container:
            if experiment and (lab := bench.run(experiment)):
                _draw_changes_result(bench, lab, present)
    else:
        st.info(word("tune.needs_bm25"), icon=":material/info:")
    if stored := _draw_dictionaries(bench):
        st.session_state[_NEW] = stored.reference
        remember("dictionary", stored.reference)  # add the next words to it
        name = plain(dictionary_names()[stored.reference])
        st.toast(word("dictionary_page.stored", name=name), icon=":material/check:")
        st.rerun()
    _offer_new(bench, present)


def _possible_changes(bench: Bench, name: str) -> _PossibleChanges:
    present = bench.view.spec(name)
    if not isinstance(present, TermSpec):
        raise TypeError(f"{name!r} is no BM25")
    suited = retrieval.analyzers_of(bench.view.data.key)[0]
    analyzer = suited if present.analyzer is Analyzer.AUTO else present.analyzer
    uses_kiwi = analyzer in WITH_KIWI
    postings = not isinstance(present, BM25Spec) or present.engine is BM25Engine.POSTINGS
    fit = {
        "title": present.title and postings,
        "feedback": isinstance(present, BM25Spec) and postings,
        "compounds": uses_kiwi,
        "dictionary": analyzer not in (Analyzer.BIGRAM, Analyzer.JAPANESE),
    }
    references = [""] if present.dictionary else []
    for stored in dictionaries.stored():
        if stored.reference != present.dictionary and (uses_kiwi or (stored.synonyms and fit["dictionary"])):
            references.append(stored.reference)
    return _PossibleChanges(present, tuple(kind for kind, fits in fit.items() if fits), tuple(references))


def _pick_changes(bench: Bench, possible: _PossibleChanges, present: str) -> Experiment | None:
    default = [kind for kind in possible.kinds if kind != "dictionary" or possible.dictionaries]
    kinds = _choose_values("changes", possible.kinds, default, lambda kind: word(f"tune.change_{kind}"))
    present_values = dict(possible.present).items()
    selected = [_pick_values(kind, possible) for kind in kinds]
    tried = [[change for change in changes if not change.items() <= present_values] for changes in selected]
    if not tried or not all(tried):
        st.info(word("tune.pick_changes"), icon=":material/info:")
        return None
    try:
        return labs.lexical_lab(bench.experiment, present, tried)
    except ValueError:
        st.error(word("tune.too_many_changes", most=labs.MAX_CHANGES), icon=":material/error:")
        return None


def _pick_values(kind: str, possible: _PossibleChanges) -> list[labs.OptionChange]:
    """Draw the values that a kind of change tries; return the changes."""
    match kind:
        case "title":
            weights = [f"{weight:g}" for weight in labs.TITLE_WEIGHTS if weight != possible.present.title_weight]
            selected = _choose_values("titles", weights, ("2", "5"), lambda weight: f"× {weight}")
            return labs.option_changes(title_weight=[*map(float, selected)])
        case "feedback":
            left, right = st.columns(2)
            with left:
                passages = _choose_values("passages", [*map(str, labs.FB_DOCS)], ("10",), str)
            with right:
                options = [f"{fraction:g}" for fraction in labs.FB_WEIGHTS]
                fractions = _choose_values("shares", options, options, lambda fraction: f"{float(fraction) * 100:g}%")
            return labs.option_changes(fb_docs=[*map(int, passages)], fb_weight=[*map(float, fractions)])
        case "compounds":
            options = [compounds.value for compounds in Compounds if compounds is not possible.present.compounds]
            names = {value: word(f"tune.compounds_{value.replace('-', '_')}") for value in options}
            selected = _choose_values("compounds", options, options, names.__getitem__)
            return labs.option_changes(compounds=[*map(Compounds, selected)])
    if not possible.dictionaries:
        st.info(word("tune.no_dictionary"), icon=":material/info:")
        return []
    labels = {"": word("tune.without_dictionary")}
    labels |= {reference: plain(name) for reference, name in dictionary_names().items()}
    labels |= {reference: plain(reference) for reference in possible.dictionaries if reference not in labels}
    selected = _choose_values("dictionaries", possible.dictionaries, possible.dictionaries[:1], labels.__getitem__)
    return labs.option_changes(dictionary=selected)


def _choose_values(
    name: str, options: Sequence[str], default: Sequence[str], label_of: Callable[[str], str]
) -> list[str]:
    key = f"lab_{name}_{'-'.join(options)}_{st.session_state.get(_ROUND, 0)}"
    kwargs: dict[str, Any] = {"format_func": label_of, "help": word(f"tune.{name}_help"), "wrap": True}
    return choose_several(st.pills, name, word(f"tune.{name}"), options, default, key=key, **kwargs)


def _draw_changes_result(bench: Bench, lab: LabResult, present: str) -> None:
    names = dictionary_names()
    table = lab.table.assign(change=[_change_text(row, names) for _, row in lab.table.iterrows()])
    metrics = bench.metric_columns()
    differences = bench.difference_columns("tune.gained")
    columns = {"value": metrics["value"], "difference": differences["difference"]}  # first, for narrow screens
    columns |= {"change": tables.text("tune.change")} | differences | metrics
    bench.draw_settings(lab, table, columns, present, key="lexical_table", answer=st.container())


def _change_text(row: "pd.Series[Any]", names: Mapping[str, str]) -> str:
    """Return the changes of a row of the lab's table, as plain text; `names` of dictionaries by reference."""
    changed = set(row["changed"])
    texts = []
    if "title_weight" in changed:
        texts.append(word("tune.changed_title", weight=f"{row['title_weight']:g}"))
    if changed & {"fb_docs", "fb_terms", "fb_weight"}:
        percent = f"{row['fb_weight'] * 100:g}"
        texts.append(word("tune.changed_feedback", passages=f"{row['fb_docs']:g}", share=percent))
    if "compounds" in changed:
        texts.append(word(f"tune.changed_{str(row['compounds']).replace('-', '_')}"))
    if "dictionary" in changed:
        reference = str(row["dictionary"])
        name = names.get(reference, reference)
        texts.append(word("tune.changed_dictionary", name=name) if reference else word("tune.without_dictionary"))
    return " · ".join(texts) or word("tune.unchanged")


def _offer_new(bench: Bench, present: str) -> None:
    reference = st.session_state.get(_NEW, "")
    name = dictionary_names().get(reference)
    if not name:
        return
    with st.container(border=True):
        st.markdown(word("dictionary_page.stored", name=plain(name)))
        if not present or reference not in _possible_changes(bench, present).dictionaries:
            return
        label = word("dictionary_page.try", name=plain(retriever_name(present)))
        if st.button(label, icon=":material/science:", key="try_dictionary"):
            with show_errors():
                experiment = labs.lexical_lab(bench.experiment, present, [labs.option_changes(dictionary=(reference,))])
                job = ComparisonJob.of(experiment, bench.view.data.fingerprint)
                if not job.done and not job.running:
                    job.start(experiment)
                # The next run of the page tries only this dictionary
                st.query_params.update({"changes": "dictionary", "dictionaries": reference})
                st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
                st.session_state.pop(_NEW)
                st.session_state[_TRIED] = True
                st.rerun()


def _draw_dictionaries(bench: Bench) -> StoredDictionary | None:
    """Draw the stored dictionaries, the upload and the form of a new one; return one that was just stored."""
    st.subheader(word("dictionary_page.title"), anchor=False)
    st.markdown(word("dictionary_page.about"))
    is_korean = retrieval.analyzers_of(bench.view.data.key)[0] in WITH_KIWI
    if not is_korean:
        st.info(word("dictionary_page.not_korean"), icon=":material/info:")
    names = dictionary_names()
    label = word("dictionary_page.stored_list", count=len(names))
    with st.expander(label, icon=":material/menu_book:", expanded=not is_korean):
        uploaded = _draw_stored(names)
    saved = None
    with st.container(border=True):
        tables.draw_heading(word("dictionary_page.make"))
        labels = {"": word("dictionary_page.new"), **names}
        base = choose_named("dictionary", names=labels, default="", **words.label_and_help("dictionary_page.base"))
        try:
            saved = _draw_saving(_draw_cut_words(bench, base) if is_korean else [], base, names)
        except DictionaryError as error:  # of the base
            st.error(plain(failure_text(error)), icon=":material/error:")
    return uploaded or saved


def _draw_stored(names: dict[str, str]) -> StoredDictionary | None:
    for stored in dictionaries.stored():
        with st.container(border=True):
            name = plain(names[stored.reference])
            about, buttons = st.columns([3, 2], vertical_alignment="center")
            counts = word("dictionary_page.counts", words=f"{stored.words:,}", synonyms=f"{stored.synonyms:,}")
            about.markdown(f"**{name}**  \n{counts} · {words.moment(stored.created)}")
            with buttons.container(horizontal=True, horizontal_alignment="right"):
                with show_errors():
                    key = f"download_dictionary_{stored.key}"
                    file_name = f"dictionary-{stored.key}.txt"
                    lines = retrieval.lines_of(stored)
                    tables.draw_file("dictionary_page.download", lines, file_name, "text/plain", key)
                if not stored.shared:
                    confirmation = word("dictionary_page.remove_sure", name=name)
                    message = word("dictionary_page.removed", name=name)
                    words.draw_remove(stored.key, dictionaries.remove, confirmation=confirmation, message=message)
    words.draw_damaged(dictionaries.damaged(), dictionaries.remove)
    key = f"upload_dictionary_{st.session_state.setdefault(_UPLOAD_ROUND, 0)}"  # the next field is empty
    translate_field(key, megabytes=MAX_BYTES // 10**6)
    types = ("txt", "dic", "dict", "tsv", "csv")
    file = st.file_uploader(word("dictionary_page.file"), types, max_upload_size=MAX_BYTES // 10**6, key=key)
    st.caption(word("dictionary_page.lines"))
    if isinstance(file, UploadedFile):
        with show_errors():
            return _store_file(file)
    return None


def _store_file(file: UploadedFile) -> StoredDictionary | None:
    """Store an uploaded file. The page displays an error while its file stays in the field."""
    read, refusal = st.session_state.get(_REFUSED, ("", None))
    if read != file.file_id:
        try:
            name = PurePath(file.name).stem or word("dictionary_page.default_name")
            content = dictionaries.read_dictionary(file.read(MAX_BYTES + 1))
            stored = _store_version(content, name, source=file.name)
        except Failure as error:
            st.session_state[_REFUSED] = file.file_id, error
            refusal = error
        else:
            st.session_state[_UPLOAD_ROUND] += 1
            return stored
    if isinstance(refusal, DictionaryError):
        _draw_problems(refusal)
    elif refusal:
        raise refusal
    return None


def _store_version(dictionary: Dictionary, name: str, source: str = "") -> StoredDictionary:
    """Store a dictionary under this name, with a number if a different one has it. Raises `LimitError`."""
    others = [other.name for other in dictionaries.stored() if other.fingerprint != dictionary.fingerprint]
    name = words.free_name(name.strip()[:_LONGEST_NAME], others, "{} {}")
    return dictionaries.save(dictionary, name, source=source)


def _draw_problems(error: DictionaryError) -> None:
    first = [error, *error.others][:20]
    more = len(error.others) - 19
    lines = [f"- {plain(failure_text(problem))}" for problem in first]
    if more > 0:
        lines.append(f"- {word('dictionary_page.more_problems', count=more)}")
    st.error("\n".join([word("dictionary_page.not_stored"), "", *lines]), icon=":material/error:")


def _draw_saving(selected: Sequence[str], base: str, names: dict[str, str]) -> StoredDictionary | None:
    number = st.session_state.setdefault(_TYPED_ROUND, 0)  # another number gives an empty field
    kwargs: dict[str, Any] = {"placeholder": word("dictionary_page.by_hand_example"), "max_chars": 5000, "height": 100}
    kwargs |= {"help": word("dictionary_page.lines"), "key": f"typed_words_{number}"}
    typed = st.text_area(word("dictionary_page.by_hand"), **kwargs)
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    default = names.get(base) or word("dictionary_page.default_name")
    kwargs = {"max_chars": _LONGEST_NAME, "key": f"dictionary_name_{base}"}
    name = left.text_input(word("dictionary_page.name"), default, **kwargs)
    label = word("dictionary_page.save", count=len(selected)) if selected else word("dictionary_page.save_typed")
    if not right.button(label, type="primary", icon=":material/save:", key="save_dictionary", width="stretch"):
        return None
    if not selected and not typed.strip():
        st.info(word("dictionary_page.nothing_selected"), icon=":material/touch_app:")
        return None
    stored = None
    with show_errors():
        try:
            stored = _store_version(_build_dictionary(base, selected, typed), name or default)
            st.session_state[_TYPED_ROUND] = number + 1
        except DictionaryError as error:
            _draw_problems(error)
    return stored


def _build_dictionary(base: str, selected: Sequence[str], typed: str) -> Dictionary:
    dictionary = retrieval.dictionary_of(base) or Dictionary()
    if typed.strip():
        dictionaries.read_dictionary(typed.encode(errors="replace"))  # raises problems with their rows
    if selected:
        dictionary = dictionaries.with_words(dictionary, [Word(text) for text in selected])
    return dictionaries.with_lines(dictionary, typed) if typed.strip() else dictionary


def _draw_cut_words(bench: Bench, reference: str) -> list[str]:
    data = bench.view.data
    split_options = bench.experiment.split_options
    requested = st.session_state.setdefault(_REQUESTED, set())
    request = (data.key, reference)
    if not retrieval.has_cut_words(data, split_options, reference) and request not in requested:
        st.caption(word("dictionary_page.cut_about"))
        label = word("dictionary_page.cut_find")
        icon = ":material/content_cut:"
        st.button(label, icon=icon, key="find_cut_words", on_click=requested.add, args=(request,))
        return []
    with _progress() as report:
        cut_words = retrieval.words_cut_wrongly(data, split_options, reference, report)
    questions = f"{len(cut_words.questions):,}"
    if not cut_words.words:
        st.info(word("dictionary_page.cut_none", questions=questions), icon=":material/check:")
        return []
    st.caption(word("dictionary_page.cut_summary", count=f"{len(cut_words.words):,}", questions=questions))
    rows = []
    for item in cut_words.words:
        analyses = (" / ".join(item.in_questions), " / ".join(item.in_passages) or "–")
        evidence = word(f"dictionary_page.evidence_{item.evidence.value}")
        rows.append((item.word, *analyses, len(item.questions), evidence, cut_words.questions[item.questions[0]]))
    columns = {
        "word": tables.text("dictionary_page.word", pinned=True),
        "in_question": tables.text("dictionary_page.in_question"),
        "in_passage": tables.text("dictionary_page.in_passage"),
        "count": tables.number("dictionary_page.questions"),
        "evidence": tables.text("dictionary_page.evidence"),
        "question": tables.text("dictionary_page.example", width="large"),
    }
    height = min(38 + 35 * len(rows), 360)
    table = pd.DataFrame(rows, columns=[*columns])
    selected = tables.draw_choice(table, columns, f"cut_words_{data.key}_{reference}", multiple=True, height=height)
    return [cut_words.words[row].word for row in selected]


@contextmanager
def _progress() -> Iterator[Callable[[float], None]]:
    """Yield a function that draws a bar with the time left for a completed fraction, 0 to 1."""
    container = st.empty()
    started = time.monotonic()
    activity = word("dictionary_page.cut_reading")

    def report(fraction: float) -> None:
        text = activity
        if 0.02 < fraction < 1:  # below, an estimate of the time left is unreliable
            left = (time.monotonic() - started) * (1 - fraction) / fraction
            text = word("job.left", at_work=activity, left=words.duration(left))
        container.progress(min(1.0, fraction), text=text)

    try:
        yield report
    finally:
        container.empty()
