"""The preview of files with sentence pairs, which every choice reads again: a summary, errors and a store button."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.formats.columns import SENTENCES, PairColumns
from mrc_workbench.data.formats.encodings import EncodingCandidate
from mrc_workbench.data.formats.tables import display_text as shortened
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.pairs import PairAudit, PairKind, PairSet, audit_pairs, split_pairs
from mrc_workbench.data.pairs.builder import Scale
from mrc_workbench.data.pairs.store import PairFileReading, PairReadOptions, read_pairs_in_subprocess, save_pairs
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.split import PARTS, Part
from mrc_workbench.data.subprocess_reader import UnusableFileError
from mrc_workbench.workbench.views.data import widgets
from mrc_workbench.workbench.views.data.preview import PreviewState, encodings_if_guessed
from mrc_workbench.workbench.views.names import pairs_name
from mrc_workbench.workbench.views.ui.state import remember
from mrc_workbench.workbench.views.ui.words import failure_text, label_and_help, plain, problem_text, show_errors, word

_QUESTION_SET = ("data", "paragraphs", "qas")  # the "columns" of a SQuAD file
_VALUES = {PairKind.SCORED: ("score",), PairKind.LABELLED: ("label",)}
_MAX_UNUSED_CHARACTERS = 300  # characters of the names of unused columns
_COUNT = "pairs_looked_at"  # session key


@dataclass(frozen=True)
class AuditedPairs:
    """A pair set with its parts and audit; sentences of passages have no `files`."""

    pairs: PairSet
    files: tuple[PairFileReading, ...]
    rows: dict[Part, np.ndarray]
    audit: PairAudit

    @classmethod
    def of(cls, pairs: PairSet, files: Sequence[PairFileReading] = ()) -> "AuditedPairs":
        rows = split_pairs(pairs)
        return cls(pairs, tuple(files), rows, audit_pairs(pairs, rows))


@dataclass(frozen=True)
class PairsPreview:
    """A preview of files, with the columns of the first; `before` is the last usable preview before an error."""

    source: str
    title: str = ""  # the name of the set; empty: those of its files
    files: tuple[tuple[bytes, str], ...] = field(default=(), repr=False)
    options: PairReadOptions = field(default_factory=PairReadOptions)
    columns: PairColumns = field(default_factory=PairColumns)
    available: tuple[str, ...] = ()
    first_rows: tuple[dict[str, str], ...] = field(default=(), repr=False)
    read: AuditedPairs | None = None
    error: DataError | None = None
    before: "PairsPreview | None" = None
    encodings: tuple[EncodingCandidate, ...] = ()
    encoding: str = ""  # the selected encoding
    number: int = 0  # of previews in this session; each resets the widgets

    @property
    def name(self) -> str:
        return self.title or (self.read.pairs.name if self.read else ", ".join(name for _, name in self.files))

    @property
    def kind(self) -> PairKind | None:
        return self.read.pairs.kind if self.read else self.options.kind


def preview_of(preview: PairsPreview, options: PairReadOptions) -> PairsPreview:
    try:
        files = [(Content(content, preview.encoding), name) for content, name in preview.files]
        result = read_pairs_in_subprocess(files, options)
    except UnusableFileError as error:
        guess, available, first_rows = error.proposal[:3]
        preview = replace(preview, encodings=error.proposal.encodings)
        columns = replace(guess, **options.columns) if available else guess
        updated = replace(preview, columns=columns, available=available, first_rows=first_rows)
        return replace(updated, options=options, read=None, error=error)
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
        read=AuditedPairs.of(pairs, result.files),
        error=None,
    )


def read_and_show(files: PairsPreview, options: PairReadOptions) -> None:
    with show_errors():
        with st.spinner(word("data_page.reading"), show_time=True):
            show(preview_of(files, options))
        st.rerun()


STATE = PreviewState(PairsPreview, "pairs_")


def show(preview: PairsPreview) -> None:
    """Set the preview of the session; the last usable one stays below a preview with an error."""
    st.session_state[_COUNT] = number = int(st.session_state.get(_COUNT, 0)) + 1
    previous = STATE.current()
    before = None
    if preview.error is not None and previous is not None:
        before = previous if previous.read else previous.before
    if before is not None and preview.files and before.files == preview.files:
        before = None  # the same files with other options
    STATE.show(replace(preview, number=number, before=before))


def drop() -> None:
    """Forget a preview, and show the last usable one again."""
    preview = STATE.current()
    STATE.forget()
    if preview is not None and preview.before is not None:
        show(preview.before)


def draw(preview: PairsPreview) -> None:
    """Draw a preview, and the last usable one below a preview with an error."""
    with st.container(border=True):
        st.subheader(word("data_page.preview", name=plain(pairs_name(preview.name))), anchor=False)
        top = st.container()
        if preview.available == _QUESTION_SET:
            st.info(word("pairs_page.question_set"), icon=":material/info:")
        elif preview.available:
            _draw_choices(preview)  # before the buttons: a changed choice applies before the set is stored
        with top:
            if preview.error is not None:
                st.error(plain(failure_text(preview.error)), icon=":material/error:")
                st.caption(word("pairs_page.nothing_lost"))
                _pick_encoding(preview, preview.encoding)
                if left_out := [problem for problem in preview.error.others if problem.leaves_out_row]:
                    with st.expander(word("data_page.see_left_out")):
                        for problem in left_out[:100]:
                            st.text(problem_text(problem))
            if preview.read is not None:
                used = preview.encoding or (preview.read.files[0].encoding if preview.read.files else "")
                _pick_encoding(preview, used, is_folded=True)
                _draw_read(preview, preview.read)
            else:
                widgets.forget_store_click()
                widgets.draw_discard_button("close_failed", drop)
    if preview.before is not None:
        draw(preview.before)


def _pick_encoding(preview: PairsPreview, used: str, *, is_folded: bool = False) -> None:
    encoding = widgets.pick_encoding(preview.encodings, used, f"pairs_encoding_{preview.number}", is_folded=is_folded)
    if encoding is not None:
        read_and_show(replace(preview, encoding=encoding), preview.options)


def _draw_choices(preview: PairsPreview) -> None:
    st.caption(word("pairs_page.choices"))
    containers = chain.from_iterable(st.columns(3) for _ in count())
    kinds = {kind: word(f"pair_kind.{kind}") for kind in PairKind}
    kwargs: dict[str, Any] = {"options": [*kinds], "format_func": kinds.__getitem__}
    kwargs["index"] = None if preview.kind is None else [*kinds].index(preview.kind)
    kwargs |= {"placeholder": word("pairs_page.kind_unknown"), "key": f"pairs_kind_{preview.number}"}
    kind = next(containers).selectbox(**label_and_help("pairs_page.kind"), **kwargs) or preview.kind
    roles = (*SENTENCES, "score", "label")
    if preview.kind is not None:
        roles = (*SENTENCES[: preview.kind.width], *_VALUES.get(preview.kind, ()))
    columns = {role: _column(next(containers), role, preview) for role in roles}
    scale = _pick_scale(containers, preview)
    columns["part"] = _column(next(containers), "part", preview)
    parts = _pick_parts(containers, preview)
    changes: dict[str, Any] = {"scale": scale, "parts": parts, "kind": kind if kind != preview.kind else None}
    if changed := {role: name for role, name in columns.items() if name != getattr(preview.columns, role)}:
        changes["columns"] = {**preview.options.columns, **changed}
    options = replace(preview.options, **{name: value for name, value in changes.items() if value})
    widgets.draw_first_rows(preview.first_rows, preview.available, columns)
    if options != preview.options:
        read_and_show(preview, options)


def _column(container: DeltaGenerator, role: str, preview: PairsPreview) -> str | None:
    key = f"pairs_{role}_{preview.number}"
    return widgets.pick_column(container, role, getattr(preview.columns, role), preview.available, key)


def _pick_scale(containers: Iterator[DeltaGenerator], preview: PairsPreview) -> Scale | None:
    """Return the ends of the scale if the user changed them."""
    current_scale = preview.read.pairs.scale if preview.read else preview.options.scale
    if preview.kind is not PairKind.SCORED or current_scale is None:
        return None
    ends: list[float] = []
    for end, value in zip(("low", "high"), current_scale, strict=True):
        kwargs: dict[str, Any] = {"help": word("pairs_page.scale_help"), "key": f"pairs_{end}_{preview.number}"}
        ends.append(next(containers).number_input(word(f"pairs_page.scale_{end}"), value=value, format="%g", **kwargs))
    low, high = ends
    if not low < high:
        st.warning(word("pairs_page.scale_order"), icon=":material/warning:")
        return None
    return None if (low, high) == current_scale else (low, high)


def _pick_parts(containers: Iterator[DeltaGenerator], preview: PairsPreview) -> tuple[Part | None, ...]:
    """Return the published part of each file if the user changed it; a column of parts takes precedence."""
    files = () if preview.read is None or preview.columns.part else preview.read.files
    names: dict[Part | None, str] = {None: word("pairs_page.no_part"), **{part: word(f"part.{part}") for part in PARTS}}
    kwargs: dict[str, Any] = {"options": [*names], "format_func": names.__getitem__}
    parts: list[Part | None] = []
    for number, file in enumerate(files):
        words = label_and_help("pairs_page.part_of", file=plain(file.name))
        kwargs |= {"index": [*names].index(file.part), "key": f"pairs_part_{number}_{preview.number}"}
        parts.append(next(containers).selectbox(**words, **kwargs))
    return () if parts == [file.part for file in files] else tuple(parts)


def _draw_read(preview: PairsPreview, result: AuditedPairs) -> None:
    counts = {"kind": word(f"pair_kind.{result.pairs.kind}"), "rows": f"{len(result.pairs):,}"}
    understood = word("pairs_page.counts", **counts)
    if result.files:
        given = f"{sum(file.row_count for file in result.files):,}"
        understood = f"**{word('data_page.understood')}** {word('pairs_page.given', given=given, **counts)}"
    is_clean = not any(file.problems for file in result.files)
    widgets.draw_status(understood, widgets.left_out_words(result.files), _notes(result), is_clean=is_clean)
    lines = []
    for file in result.files:
        form = [word(f"format.{file.format}"), file.encoding, word("pairs_page.rows", rows=f"{file.row_count:,}")]
        unused = shortened(", ".join(file.unused_columns), _MAX_UNUSED_CHARACTERS)
        form += [f"{word('data_page.columns_unused')}: {plain(unused)}"] if unused else []
        lines.append(" · ".join([plain(file.name), *filter(None, form)]))
    if lines:
        st.caption("  \n".join(lines))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        button = label_and_help("pairs_page.keep") | {"key": "keep_pairs"}
        key = f"pairs_{preview.number}"
        name = widgets.draw_store_button(result.pairs.name, pairs_name(preview.name), key, **button)
        widgets.draw_discard_button("discard_pairs", STATE.forget)
    if name is not None:
        with show_errors():
            with st.spinner(word("data_page.keeping")):
                stored = save_pairs(replace(result.pairs, name=name), source=preview.source)
                STATE.note_stored(stored.key)
                remember(widgets.PAIRS_IN_ADDRESS, stored.key)
            st.rerun()
    widgets.draw_problems(result.files, preview.name)


def _notes(result: AuditedPairs) -> list[str]:
    audit = result.audit
    counts = {
        "repeated": len(audit.repeated),
        "disputed": audit.disputed_count,
        "equal": audit.equal_count,
        "leaked": len(audit.leaks[Part.TRAIN, Part.TEST].rows),
    }
    notes = [f"{word(f'pairs_page.{name}')} {count:,}" for name, count in counts.items() if count]
    return [f"{word('pairs_page.look_below')} {' · '.join(notes)}"] if notes else []
