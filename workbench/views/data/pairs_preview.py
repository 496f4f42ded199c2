"""The preview of files with sentence pairs: read again with every choice, drawn with what was understood and what is
wrong, and stored on request."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
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

_QUESTION_SET = ("data", "paragraphs", "qas")  # what stands for the columns of SQuAD's layout
_VALUES = {PairKind.SCORED: ("score",), PairKind.LABELLED: ("label",)}
_MAX_UNUSED_CHARACTERS = 300  # characters of the names of unused columns
_COUNT = "pairs_looked_at"  # of the session


@dataclass(frozen=True)
class AuditedPairs:
    """What became of files that could be read; of sentences that were taken from elsewhere there are none."""

    pairs: PairSet
    files: tuple[PairFileReading, ...]
    rows: dict[Part, np.ndarray]
    audit: PairAudit

    @classmethod
    def of(cls, pairs: PairSet, files: Sequence[PairFileReading] = ()) -> "AuditedPairs":
        """Split and audit a set."""
        rows = split_pairs(pairs)
        return cls(pairs, tuple(files), rows, audit_pairs(pairs, rows))


@dataclass(frozen=True)
class PairsPreview:
    """Files under preview, in columns of the first. `read` is None if `error` says why; `before` was shown before."""

    source: str
    title: str = ""  # what the set is called; empty: as its files
    files: tuple[tuple[bytes, str], ...] = field(default=(), repr=False)
    options: PairReadOptions = field(default_factory=PairReadOptions)
    columns: PairColumns = field(default_factory=PairColumns)
    available: tuple[str, ...] = ()
    first_rows: tuple[dict[str, str], ...] = field(default=(), repr=False)
    read: AuditedPairs | None = None
    error: DataError | None = None
    before: "PairsPreview | None" = None
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
    """Read files with these options, show what came of them, and draw the page anew."""
    with show_errors():
        with st.spinner(word("data_page.reading"), show_time=True):
            show(preview_of(files, options))
        st.rerun()


_STATE = PreviewState(PairsPreview, "pairs_")
current = _STATE.current
stored_last = _STATE.stored_last
forget = _STATE.forget
empty_field = _STATE.empty_field
upload_round = _STATE.upload_round


def show(preview: PairsPreview) -> None:
    """Make a preview the one this session shows; what was shown before stays below one that cannot be used."""
    st.session_state[_COUNT] = number = int(st.session_state.get(_COUNT, 0)) + 1
    previous = current()
    before = None
    if preview.error is not None and previous is not None:
        before = previous if previous.read else previous.before
    if before is not None and preview.files and before.files == preview.files:
        before = None  # the same files, read otherwise
    _STATE.show(replace(preview, number=number, before=before))


def drop() -> None:
    """Forget the preview, and show what was shown before one that cannot be used."""
    preview = current()
    forget()
    if preview is not None and preview.before is not None:
        show(preview.before)


def draw(preview: PairsPreview) -> None:
    """Draw the files under preview, and below files that cannot be used those that were shown before."""
    with st.container(border=True):
        st.subheader(word("data_page.preview", name=plain(pairs_name(preview.name))), anchor=False)
        top = st.container()
        if preview.available == _QUESTION_SET:
            st.info(word("pairs_page.question_set"), icon=":material/info:")
        elif preview.available:
            _draw_choices(preview)  # before the buttons: whoever changes something and at once keeps has it read anew
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
                widgets.draw_discard_button("close_failed", drop)
    if preview.before is not None:
        draw(preview.before)


def _pick_encoding(preview: PairsPreview, used: str, *, is_folded: bool = False) -> None:
    """Draw the encodings to choose from; the files are read again in the one that the user chooses."""
    key = f"pairs_encoding_{preview.number}"
    encoding = widgets.pick_encoding(preview.encodings, used, key, is_folded=is_folded)
    if encoding is not None:
        read_and_show(replace(preview, encoding=encoding), preview.options)


def _draw_choices(preview: PairsPreview) -> None:
    st.caption(word("pairs_page.choices"))
    containers = chain.from_iterable(st.columns(3) for _ in count())
    kinds = {kind: word(f"pair_kind.{kind}") for kind in PairKind}
    kwargs: dict[str, Any] = {
        "options": [*kinds],
        "format_func": kinds.__getitem__,
        "key": f"pairs_kind_{preview.number}",
    }
    kwargs |= {"index": None if preview.kind is None else [*kinds].index(preview.kind)}
    kwargs |= {"placeholder": word("pairs_page.kind_unknown")}
    kind = next(containers).selectbox(**label_and_help("pairs_page.kind"), **kwargs) or preview.kind
    current_columns = asdict(preview.columns)
    roles = (*SENTENCES, "score", "label")
    if preview.kind is not None:
        roles = (*SENTENCES[: preview.kind.width], *_VALUES.get(preview.kind, ()))
    columns = {role: _column(next(containers), role, preview) for role in roles}
    scale = _pick_scale(containers, preview)
    columns["part"] = _column(next(containers), "part", preview)
    parts = _pick_parts(containers, preview)
    options = preview.options if kind == preview.kind else replace(preview.options, kind=kind)
    if changed := {role: name for role, name in columns.items() if name != current_columns[role]}:
        options = replace(options, columns={**options.columns, **changed})
    if scale:
        options = replace(options, scale=scale)
    if parts:
        options = replace(options, parts=parts)
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
    help_text = word("pairs_page.scale_help")
    low, high = (
        next(containers).number_input(
            word(f"pairs_page.scale_{end}"),
            value=value,
            format="%g",
            help=help_text,
            key=f"pairs_{end}_{preview.number}",
        )
        for end, value in zip(("low", "high"), current_scale, strict=True)
    )
    if not low < high:
        st.warning(word("pairs_page.scale_order"), icon=":material/warning:")
        return None
    return None if (low, high) == current_scale else (low, high)


def _pick_parts(containers: Iterator[DeltaGenerator], preview: PairsPreview) -> tuple[Part | None, ...]:
    """Return the published part of each file if the user changed it; a column of parts takes precedence."""
    files = () if preview.read is None or preview.columns.part else preview.read.files
    names: dict[Part | None, str] = {None: word("pairs_page.no_part"), **{part: word(f"part.{part}") for part in PARTS}}
    kwargs: dict[str, Any] = {"options": [*names], "format_func": names.__getitem__}
    parts = tuple(
        next(containers).selectbox(
            **label_and_help("pairs_page.part_of", file=plain(file.name)),
            index=[*names].index(file.part),
            key=f"pairs_part_{number}_{preview.number}",
            **kwargs,
        )
        for number, file in enumerate(files)
    )
    return () if parts == tuple(file.part for file in files) else parts


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
        widgets.draw_discard_button("discard_pairs", forget)
    if name is not None:
        with show_errors():
            with st.spinner(word("data_page.keeping")):
                stored = save_pairs(replace(result.pairs, name=name), source=preview.source)
                _STATE.note_stored(stored.key)
                remember(widgets.PAIRS_IN_ADDRESS, stored.key)
            st.rerun()
    widgets.draw_problems(result.files, preview.name)


def _notes(result: AuditedPairs) -> list[str]:
    """Return notes on the set as Markdown; the audit below has the details."""
    audit = result.audit
    counts = {
        "repeated": len(audit.repeated),
        "disputed": audit.disputed_count,
        "equal": audit.equal_count,
        "leaked": len(audit.leaks[Part.TRAIN, Part.TEST].rows),
    }
    notes = [f"{word(f'pairs_page.{name}')} {count:,}" for name, count in counts.items() if count]
    return [f"{word('pairs_page.look_below')} {' · '.join(notes)}"] if notes else []
