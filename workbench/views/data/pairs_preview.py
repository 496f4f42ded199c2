"""The preview of files with sentence pairs: read again with every choice, drawn with what was understood and what is
wrong, and stored on request."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, count
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.apart import UnusableFileError
from mrc_workbench.data.formats.columns import SENTENCES, PairColumns
from mrc_workbench.data.formats.encodings import EncodingCandidate
from mrc_workbench.data.formats.tables import shown as shown_text
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.pairs import PairAudit, PairKind, PairSet, audit_pairs, split_pairs
from mrc_workbench.data.pairs.builder import Scale
from mrc_workbench.data.pairs.store import PairFileReading, PairOptions, keep, read_pairs_apart
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.split import PARTS, Part
from mrc_workbench.workbench.views.data import widgets
from mrc_workbench.workbench.views.data.preview import PreviewState, encodings_if_guessed
from mrc_workbench.workbench.views.names import pairs_name
from mrc_workbench.workbench.views.ui.state import remember
from mrc_workbench.workbench.views.ui.words import errors_told, failure_text, label_and_help, plain, problem_text, word

_QUESTION_SET = ("data", "paragraphs", "qas")  # what stands for the columns of SQuAD's layout
_VALUES = {PairKind.SCORED: ("score",), PairKind.LABELLED: ("label",)}
_UNUSED = 300  # characters of the names of unused columns
_COUNT = "pairs_looked_at"  # of the session


@dataclass(frozen=True)
class Read:
    """What became of files that could be read; of sentences that were taken from elsewhere there are none."""

    pairs: PairSet
    files: tuple[PairFileReading, ...]
    rows: dict[Part, np.ndarray]
    audit: PairAudit

    @classmethod
    def of(cls, pairs: PairSet, files: Sequence[PairFileReading] = ()) -> "Read":
        """Split and audit a set."""
        rows = split_pairs(pairs)
        return cls(pairs, tuple(files), rows, audit_pairs(pairs, rows))


@dataclass(frozen=True)
class Preview:
    """Files under preview, in columns of the first. `read` is None if `error` says why; `before` was shown before."""

    source: str
    title: str = ""  # what the set is called; empty: as its files
    files: tuple[tuple[bytes, str], ...] = field(default=(), repr=False)
    options: PairOptions = field(default_factory=PairOptions)
    columns: PairColumns = field(default_factory=PairColumns)
    available: tuple[str, ...] = ()
    first_rows: tuple[dict[str, str], ...] = field(default=(), repr=False)
    read: Read | None = None
    error: DataError | None = None
    before: "Preview | None" = None
    encodings: tuple[EncodingCandidate, ...] = ()  # the encodings to choose from
    encoding: str = ""  # the one that the user chose
    number: int = 0  # of what was shown in this session: with each, widgets begin anew

    @property
    def name(self) -> str:
        return self.title or (self.read.pairs.name if self.read else ", ".join(name for _, name in self.files))

    @property
    def kind(self) -> PairKind | None:
        """What the rows are read as; None if unknown."""
        return self.read.pairs.kind if self.read else self.options.kind


def preview_of(preview: Preview, options: PairOptions) -> Preview:
    try:
        files = [(Content(content, preview.encoding), name) for content, name in preview.files]
        result = read_pairs_apart(files, options)
    except UnusableFileError as error:
        guess, available, first_rows = error.proposal[:3]
        preview = replace(preview, encodings=error.proposal.encodings)
        columns = replace(guess, **options.columns) if available else guess
        found = replace(preview, columns=columns, available=available, first_rows=first_rows)
        return replace(found, options=options, read=None, error=error)
    pairs = replace(result.pairs, name=preview.title) if preview.title else result.pairs
    first = result.files[0]
    problems = [problem for file in result.files for problem in file.problems]
    return replace(
        preview,
        encodings=preview.encodings if preview.encoding else encodings_if_guessed(preview.files, problems),
        options=options,
        columns=first.columns,
        available=first.available_columns,
        first_rows=first.first_rows,
        read=Read.of(pairs, result.files),
        error=None,
    )


def look_at(files: Preview, options: PairOptions) -> None:
    """Read files with these options, show what came of them, and draw the page anew."""
    with errors_told():
        with st.spinner(word("data_page.reading"), show_time=True):
            show(preview_of(files, options))
        st.rerun()


_STATE = PreviewState(Preview, "pairs_")
current, stored_last, forget = _STATE.current, _STATE.stored_last, _STATE.forget
empty_field, upload_round = _STATE.empty_field, _STATE.upload_round


def show(preview: Preview) -> None:
    """Make a preview the one this session shows; what was shown before stays below one that cannot be used."""
    st.session_state[_COUNT] = number = int(st.session_state.get(_COUNT, 0)) + 1
    shown, before = current(), None
    if preview.error is not None and shown is not None:
        before = shown if shown.read else shown.before
    if before is not None and preview.files and before.files == preview.files:
        before = None  # the same files, read otherwise
    _STATE.show(replace(preview, number=number, before=before))


def drop() -> None:
    """Forget the preview, and show what was shown before one that cannot be used."""
    shown = current()
    forget()
    if shown is not None and shown.before is not None:
        show(shown.before)


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
                st.error(plain(failure_text(shown.error)), icon=":material/error:")
                st.caption(word("pairs_page.nothing_lost"))
                _pick_encoding(shown, shown.encoding)
                if left_out := [problem for problem in shown.error.others if problem.leaves_out_row]:
                    with st.expander(word("data_page.see_left_out")):
                        for problem in left_out[:100]:
                            st.text(problem_text(problem))
            if shown.read is not None:
                used = shown.encoding or (shown.read.files[0].encoding if shown.read.files else "")
                _pick_encoding(shown, used, is_folded=True)
                _draw_read(shown, shown.read)
            else:
                widgets.draw_discard_button("close_failed", drop)
    if shown.before is not None:
        draw(shown.before)


def _pick_encoding(shown: Preview, used: str, *, is_folded: bool = False) -> None:
    """Draw the encodings to choose from; the files are read again in the one that the user chooses."""
    key = f"pairs_encoding_{shown.number}"
    encoding = widgets.pick_encoding(shown.encodings, used, key, is_folded=is_folded)
    if encoding is not None:
        look_at(replace(shown, encoding=encoding), shown.options)


def _draw_choices(shown: Preview) -> None:
    st.caption(word("pairs_page.choices"))
    places = chain.from_iterable(st.columns(3) for _ in count())
    kinds = {kind: word(f"pair_kind.{kind}") for kind in PairKind}
    look: dict[str, Any] = {"options": [*kinds], "format_func": kinds.__getitem__, "key": f"pairs_kind_{shown.number}"}
    look |= {"index": None if shown.kind is None else [*kinds].index(shown.kind)}
    look |= {"placeholder": word("pairs_page.kind_unknown")}
    kind = next(places).selectbox(**label_and_help("pairs_page.kind"), **look) or shown.kind
    given = asdict(shown.columns)
    roles = (*SENTENCES, "score", "label")
    if shown.kind is not None:
        roles = (*SENTENCES[: shown.kind.width], *_VALUES.get(shown.kind, ()))
    columns = {role: _column(next(places), role, shown) for role in roles}
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
    widgets.draw_first(shown.first_rows, shown.available, columns)
    if options != shown.options:
        look_at(shown, options)


def _column(place: DeltaGenerator, role: str, shown: Preview) -> str | None:
    key = f"pairs_{role}_{shown.number}"
    return widgets.pick_column(place, role, getattr(shown.columns, role), shown.available, key)


def _pick_scale(places: Iterator[DeltaGenerator], shown: Preview) -> Scale | None:
    """Return the ends of the scale if the user changed them."""
    given = shown.read.pairs.scale if shown.read else shown.options.scale
    if shown.kind is not PairKind.SCORED or given is None:
        return None
    help_text = word("pairs_page.scale_help")
    low, high = (
        next(places).number_input(
            word(f"pairs_page.scale_{end}"), value=value, format="%g", help=help_text, key=f"pairs_{end}_{shown.number}"
        )
        for end, value in zip(("low", "high"), given, strict=True)
    )
    if not low < high:
        st.warning(word("pairs_page.scale_order"), icon=":material/warning:")
        return None
    return None if (low, high) == given else (low, high)


def _pick_parts(places: Iterator[DeltaGenerator], shown: Preview) -> tuple[Part | None, ...]:
    """Return the published part of each file if the user changed it; a column of parts takes precedence."""
    files = () if shown.read is None or shown.columns.part else shown.read.files
    names: dict[Part | None, str] = {None: word("pairs_page.no_part"), **{part: word(f"part.{part}") for part in PARTS}}
    look: dict[str, Any] = {"options": [*names], "format_func": names.__getitem__}
    parts = tuple(
        next(places).selectbox(
            **label_and_help("pairs_page.part_of", file=plain(file.name)),
            index=[*names].index(file.part),
            key=f"pairs_part_{number}_{shown.number}",
            **look,
        )
        for number, file in enumerate(files)
    )
    return () if parts == tuple(file.part for file in files) else parts


def _draw_read(shown: Preview, found: Read) -> None:
    counts = {"kind": word(f"pair_kind.{found.pairs.kind}"), "rows": f"{len(found.pairs):,}"}
    understood = word("pairs_page.counts", **counts)
    if found.files:
        given = f"{sum(file.row_count for file in found.files):,}"
        understood = f"**{word('data_page.understood')}** {word('pairs_page.given', given=given, **counts)}"
    is_clean = not any(file.problems for file in found.files)
    widgets.draw_status(understood, widgets.left_out_words(found.files), _notes(found), is_clean=is_clean)
    lines = []
    for file in found.files:
        form = [word(f"format.{file.format}"), file.encoding, word("pairs_page.rows", rows=f"{file.row_count:,}")]
        unused = shown_text(", ".join(file.unused_columns), _UNUSED)
        form += [f"{word('data_page.columns_unused')}: {plain(unused)}"] if unused else []
        lines.append(" · ".join([plain(file.name), *filter(None, form)]))
    if lines:
        st.caption("  \n".join(lines))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        button = label_and_help("pairs_page.keep") | {"key": "keep_pairs"}
        key = f"pairs_{shown.number}"
        name = widgets.draw_store_button(found.pairs.name, pairs_name(shown.name), key, **button)
        widgets.draw_discard_button("discard_pairs", forget)
    if name is not None:
        with errors_told():
            with st.spinner(word("data_page.keeping")):
                stored = keep(replace(found.pairs, name=name), source=shown.source)
                _STATE.note_stored(stored.key)
                remember(widgets.PAIRS_IN_ADDRESS, stored.key)
            st.rerun()
    widgets.draw_problems(found.files, shown.name)


def _notes(found: Read) -> list[str]:
    """Return notes on the set as Markdown; the audit below has the details."""
    figures = found.audit
    counts = {
        "repeated": len(figures.repeated),
        "disputed": figures.disputed_count,
        "equal": figures.equal_count,
        "leaked": len(figures.leaks[Part.TRAIN, Part.TEST].rows),
    }
    notes = [f"{word(f'pairs_page.{name}')} {count:,}" for name, count in counts.items() if count]
    return [f"{word('pairs_page.look_below')} {' · '.join(notes)}"] if notes else []
