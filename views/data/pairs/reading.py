"""What was understood of files of sentence pairs, what is wrong with them, and the button that keeps them."""

from collections.abc import Iterator
from dataclasses import asdict, replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.formats.columns import SENTENCES
from data.pairs.assembly import Scale
from data.pairs.reading import PairFileReading, PairOptions
from data.pairs.records import PARTS, PairKind
from data.problems import DataError
from data.split import Part
from views.data import rows, sets
from views.data.pairs import preview
from views.data.pairs.preview import Preview, Read
from views.data.rows import draw_status
from views.names import pairs_name
from views.ui.problems import errors_told, failure_text, problem_text
from views.ui.words import plain, word

_A_ROW = 3  # fields
_SHOWN_PROBLEMS = 100
_QUESTION_SET = ("data", "paragraphs", "qas")  # what stands for the columns of SQuAD's layout
_VALUES = {PairKind.SCORED: ("score",), PairKind.LABELLED: ("label",)}


def draw(shown: Preview) -> None:
    """Draw the files under preview, and below files that cannot be used those that were shown before."""
    with st.container(border=True):
        st.subheader(word("data_page.preview", name=plain(pairs_name(shown.name))), anchor=False)
        top = st.container()
        if shown.available == _QUESTION_SET:
            st.info(word("pairs_page.question_set"), icon=":material/info:")
        elif shown.available:
            _draw_choices(shown)  # before the buttons: whoever changes something and at once keeps has it read anew
        with top:
            if shown.error is not None:
                _draw_error(shown.error)
            if shown.read is not None:
                _draw_read(shown, shown.read)
            elif st.button(word("data_page.discard"), icon=":material/close:", key="close_failed"):
                preview.drop()
                st.rerun()
    if shown.before is not None:
        draw(shown.before)


def _draw_error(error: DataError) -> None:
    st.error(plain(failure_text(error)), icon=":material/error:")
    st.caption(word("pairs_page.nothing_lost"))
    if left_out := [problem for problem in error.others if problem.leaves_out_row]:
        with st.expander(word("data_page.see_left_out")):
            for problem in left_out[:_SHOWN_PROBLEMS]:
                st.text(problem_text(problem))


def _understood(found: Read) -> str:
    """What was read, as Markdown."""
    told = {"kind": word(f"pair_kind.{found.pairs.kind}"), "rows": f"{len(found.pairs):,}"}
    if not found.files:
        return word("pairs_page.counts", **told)
    given = f"{sum(file.row_count for file in found.files):,}"
    return f"**{word('data_page.understood')}** {word('pairs_page.given', given=given, **told)}"


def _file_words(file: PairFileReading) -> str:
    told = [word(f"format.{file.format}"), file.encoding, word("pairs_page.rows", rows=f"{file.row_count:,}")]
    return " · ".join([plain(file.name), *filter(None, told)])


def _draw_choices(shown: Preview) -> None:
    """Let a person say what was not understood: the files are then read again."""
    st.caption(word("pairs_page.choices"))
    places = _places()
    kind = _pick_kind(next(places), shown)
    given = asdict(shown.columns)
    columns = {role: _column(next(places), role, shown) for role in _roles(shown.kind)}
    scale = _pick_scale(places, shown)
    columns["part"] = _column(next(places), "part", shown)
    parts = _pick_parts(places, shown)
    options = shown.options if kind == shown.kind else replace(shown.options, kind=kind)
    if changed := {role: name for role, name in columns.items() if name != given[role]}:
        options = replace(options, columns={**options.columns, **changed})
    if scale:
        options = replace(options, scale=scale)
    if parts:
        options = replace(options, parts=parts)
    rows.draw_first(shown.first_rows, shown.available, columns)
    if options != shown.options:
        _read_again(shown, options)


def _read_again(shown: Preview, options: PairOptions) -> None:
    with errors_told():
        with st.spinner(word("data_page.reading"), show_time=True):
            preview.show(preview.preview_of(shown, options))
        st.rerun()


def _places() -> Iterator[DeltaGenerator]:
    """Yield places for fields, a few in a row."""
    while True:
        yield from st.columns(_A_ROW)


def _roles(kind: PairKind | None) -> tuple[str, ...]:
    """What columns rows of a kind are read from."""
    if kind is None:
        return (*SENTENCES, "score", "label")
    return (*SENTENCES[: kind.width], *_VALUES.get(kind, ()))


def _pick_kind(place: DeltaGenerator, shown: Preview) -> PairKind | None:
    kinds = {kind: word(f"pair_kind.{kind}") for kind in PairKind}
    chosen = place.selectbox(
        word("pairs_page.kind"),
        [*kinds],
        index=None if shown.kind is None else [*kinds].index(shown.kind),
        format_func=kinds.__getitem__,
        placeholder=word("pairs_page.kind_unknown"),
        help=word("pairs_page.kind_help"),
        key=f"pairs_kind_{shown.number}",
    )
    return chosen or shown.kind


def _column(place: DeltaGenerator, role: str, shown: Preview) -> str | None:
    return rows.pick_column(place, role, getattr(shown.columns, role), shown.available, f"pairs_{role}_{shown.number}")


def _pick_scale(places: Iterator[DeltaGenerator], shown: Preview) -> Scale | None:
    """Return the ends of the scale where a person changed them."""
    given = shown.read.pairs.scale if shown.read else shown.options.scale
    if shown.kind is not PairKind.SCORED or given is None:
        return None
    low, high = (
        next(places).number_input(
            word(f"pairs_page.scale_{end}"),
            value=value,
            format="%g",
            help=word("pairs_page.scale_help"),
            key=f"pairs_{end}_{shown.number}",
        )
        for end, value in zip(("low", "high"), given, strict=True)
    )
    if not low < high:
        st.warning(word("pairs_page.scale_order"), icon=":material/warning:")
        return None
    return None if (low, high) == given else (low, high)


def _pick_parts(places: Iterator[DeltaGenerator], shown: Preview) -> tuple[Part | None, ...]:
    """Return what each file was published for where a person changed it; a column that tells it goes before."""
    files = () if shown.read is None or shown.columns.part else shown.read.files
    parts = tuple(_pick_part(next(places), place, file, shown) for place, file in enumerate(files))
    return () if parts == tuple(file.part for file in files) else parts


def _pick_part(place: DeltaGenerator, number: int, file: PairFileReading, shown: Preview) -> Part | None:
    names: dict[Part | None, str] = {None: word("pairs_page.no_part"), **{part: word(f"part.{part}") for part in PARTS}}
    return place.selectbox(
        word("pairs_page.part_of", file=plain(file.name)),
        [*names],
        index=[*names].index(file.part),
        format_func=names.__getitem__,
        help=word("pairs_page.part_of_help"),
        key=f"pairs_part_{number}_{shown.number}",
    )


def _draw_read(shown: Preview, found: Read) -> None:
    is_clean = not any(file.problems for file in found.files)
    draw_status(_understood(found), rows.left_out_words(found.files), _notes(found), is_clean=is_clean)
    if found.files:
        st.caption("  \n".join(map(_file_words, found.files)))
    with st.container(horizontal=True, vertical_alignment="center"):
        kept = st.button(
            word("pairs_page.keep"),
            type="primary",
            icon=":material/check:",
            help=word("pairs_page.keep_help"),
            key="keep_pairs",
        )
        if st.button(word("data_page.discard"), icon=":material/close:", key="discard_pairs"):
            preview.forget()
            st.rerun()
    if kept:
        with errors_told():
            with st.spinner(word("data_page.keeping")):
                sets.choose_pairs(preview.keep_read(shown, found).key)
            st.rerun()
    rows.draw_problems(found.files, shown.name)


def _notes(found: Read) -> list[str]:
    """What is to be known before the set is kept, as Markdown; the audit below tells it in full."""
    figures = found.audit
    counts = {
        "repeated": len(figures.repeated),
        "disputed": figures.disputed_count,
        "equal": figures.equal_count,
        "leaked": len(figures.leaks[Part.TRAIN, Part.TEST].rows),
    }
    told = [f"{word(f'pairs_page.{name}')} {count:,}" for name, count in counts.items() if count]
    return [f"{word('pairs_page.look_below')} {' · '.join(told)}"] if told else []
