"""Sets of sentence pairs: read from files, obtained from the catalog, and stored in the workspace by name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from mrc_workbench.data.formats import opening
from mrc_workbench.data.formats.columns import (
    PAIR_NAMES,
    SENTENCES,
    PairColumns,
    example_names,
    is_pair_column,
    name_after_dot,
    require_columns,
    roles_by_name,
)
from mrc_workbench.data.formats.opening import Format, Proposal, RecognisedFile
from mrc_workbench.data.formats.rows import FileReading, reading_fields
from mrc_workbench.data.formats.tables import RawTable, as_text, display_text, is_blank, is_collection
from mrc_workbench.data.formats.text import Content, line_table
from mrc_workbench.data.jobs.processes import without_garbage_collection
from mrc_workbench.data.layouts.cells import Opener, Sample
from mrc_workbench.data.layouts.members import data_files, list_files_of_paths, propose_or_encodings, select_data_files
from mrc_workbench.data.layouts.references import parse_part
from mrc_workbench.data.layouts.roles import Selection, filled_columns, holds_texts
from mrc_workbench.data.layouts.sighting import rows_opener
from mrc_workbench.data.layouts.tables import mapped_cells_opener
from mrc_workbench.data.pairs import Label, PairKind, PairSet, open_pairs, write_pairs
from mrc_workbench.data.pairs.builder import (
    MAX_SCORE,
    ColumnValues,
    PairBuilder,
    Scale,
    guess_kind,
    part_from_name,
    strip_part,
)
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import (
    CATALOG_DATA,
    CatalogEntry,
    Progress,
    StoredCollection,
    StoredItem,
    catalog_entry,
    existing_file,
    fetch,
)
from mrc_workbench.data.subprocess_reader import File, ReadingTask, run_in_subprocess
from mrc_workbench.data.workspace import require_set_size

MIN_ROWS = 10
_SQUAD = ("data", "paragraphs", "qas")  # reported as the columns of a SQuAD file


@dataclass(frozen=True)
class PairReadOptions:
    """Options that replace guesses; a part of None is no published part, without `parts` the names of files decide."""

    columns: Selection = field(default_factory=dict)
    kind: PairKind | None = None
    scale: Scale | None = None
    parts: tuple[Part | None, ...] = ()

    def __post_init__(self) -> None:
        if unknown := self.columns.keys() - {role.name for role in fields(PairColumns)}:
            raise ValueError(f"no roles of columns: {', '.join(sorted(unknown))}")
        if self.scale is not None and not -MAX_SCORE <= self.scale[0] < self.scale[1] <= MAX_SCORE:
            raise ValueError(f"the scale must be two numbers up to {MAX_SCORE:g}, the lower one first")
        if Part.ALL in self.parts:
            raise ValueError("a file is published for training, validation or test, or for none of them")


@dataclass(frozen=True, kw_only=True)
class PairFileReading(FileReading):
    """A file of a set with its columns. `part` is None if it is no published part."""

    name: str
    part: Part | None
    columns: PairColumns


@dataclass(frozen=True)
class PairReading:
    """A set of pairs and its files."""

    pairs: PairSet
    files: tuple[PairFileReading, ...]

    @property
    def left_out(self) -> int:
        return sum(file.left_out for file in self.files)


def read_pairs(files: Sequence[tuple[bytes | Content, str]], options: PairReadOptions | None = None) -> PairReading:
    """Read files, given as content and name, into one set; archives are unpacked.

    Missing `options` are guessed: columns by their names, the kind by the other columns of the sentences, the scale by
    the scores, the part by a column or the file's name. Unusable rows are listed. Raises `DataError` for a file that
    cannot be read or has no sentences, too few rows, or equal values; `ValueError` if `options` have another number of
    parts than there are files or archives.
    """
    options = options or PairReadOptions()
    given = data_files([File(Content.from_bytes(content), name) for content, name in files])
    inputs, notices = select_data_files(given)
    parts = [*options.parts] or [part_from_name(opening.derive_name(file.name, "")) for file in inputs]
    parts *= len(inputs) if len(files) == len(parts) == 1 else 1
    with without_garbage_collection():
        opened_files: list[_OpenedFile] = []
        for file in inputs:
            with opening.name_file_in_errors(file.name, inputs):
                opened_files.append(_open_file(file, options.columns))
        builder = PairBuilder(*_infer_kind_and_scale(opened_files, options))
        read: list[PairFileReading] = []
        for source, part in zip(opened_files, parts, strict=True):
            with opening.name_file_in_errors(source.name, opened_files):
                known = (*source.recognised.problems, *(() if read else notices))
                read.append(_read(source, builder, part, known))
    problems = [problem for reading in read for problem in reading.problems]
    if not builder.has_good_rows() and any(reading.left_out for reading in read):
        rows = sum(reading.row_count for reading in read)
        first = next(problem.message for problem in problems if problem.leaves_out_row)
        raise DataError(Problem.from_code(ProblemCode.NO_GOOD_ROW, rows=rows, first=first), problems)
    names = [opening.derive_name(name, "pairs") for _, name in files]
    if len(names) > 1:
        names = list(dict.fromkeys(strip_part(name) or "pairs" for name in names))
    pairs = builder.build(display_text(", ".join(names), 200))
    if rejection := _unusable_problem(pairs):
        raise DataError(rejection, problems)
    return PairReading(pairs, tuple(read))


def propose_pair_columns(content: bytes | Content, name: str = "") -> Proposal[PairColumns]:
    """Return the selectable columns of a file, also if `read_pairs` misses a column. Raises `DataError`."""
    given, _ = select_data_files(data_files([File(Content.from_bytes(content), name)]))
    file = _open_file(given[0], {})
    return Proposal(file.columns, file.names, file.first_rows)


def read_pair_files_in_subprocess(
    paths: Sequence[Path], options: PairReadOptions | None = None, encoding: str = ""
) -> PairReading:
    """Read files and folders, see `read_pairs_in_subprocess`; an empty `encoding` is detected."""
    return read_pairs_in_subprocess([file.with_encoding(encoding) for file in list_files_of_paths(paths)], options)


def read_pairs_in_subprocess(
    files: Sequence[tuple[bytes | Content, str]], options: PairReadOptions | None = None
) -> PairReading:
    """Run `read_pairs` in a subprocess. Raises `UnusableFileError`, also for exceeded limits, and `OSError`."""
    given = [File(Content.from_bytes(content), name) for content, name in files]
    return run_in_subprocess(WORK, given, _OPTIONS.dump_python(options or PairReadOptions(), mode="json"))


def assign_pair_columns(names: Sequence[str], sample: Sample = (), selection: Selection | None = None) -> PairColumns:
    """Assign roles to columns: by known names, whole or after the last dot ("labels.label"), then to texts in order."""
    filled = filled_columns(names, sample)
    given = {role: name for role, name in (selection or {}).items() if name is not None}

    def fits(role: str, name: str, _: object) -> bool:
        return role != "part" or not sample or any(parse_part(row.get(name)) for row in sample)

    roles = roles_by_name(PAIR_NAMES, ((name_after_dot, filled), (name_after_dot, names)), given, fits)
    missing = [role for role in SENTENCES if role not in roles]
    if SENTENCES[0] in missing or SENTENCES[0] in given:
        free = [name for name in filled if name not in roles.values() and holds_texts(name, sample)]
        left = [name for name in free if 2 * sum(not is_blank(row.get(name)) for row in sample) > len(sample)]
        roles |= dict(zip(missing, left, strict=False)) if len(left) <= len(missing) else {}
    return replace(PairColumns(**roles), **{role: None for role in selection or {} if role not in given})


@dataclass(frozen=True)
class _OpenedFile:
    """An opened file. An object in a cell becomes separate columns, such as `labels.label` of KLUE-STS."""

    name: str
    recognised: RecognisedFile = field(repr=False)
    table: Opener = field(repr=False)
    columns: PairColumns
    names: tuple[str, ...]
    first_rows: tuple[dict[str, str], ...] = field(repr=False)

    def columns_for(self, kind: PairKind) -> PairColumns:
        """Return the columns of a kind of rows; scores and labels replace each other. Raises `DataError`."""
        score = self.columns.score or self.columns.label if kind is PairKind.SCORED else None
        label = self.columns.label or self.columns.score if kind is PairKind.LABELLED else None
        columns = replace(self.columns, score=score, label=label, **dict.fromkeys(SENTENCES[kind.width :]))
        value = {PairKind.SCORED: ("score",), PairKind.LABELLED: ("label",)}.get(kind, ())
        for role in (*SENTENCES[: kind.width], *value):
            if getattr(columns, role) is None:
                available = display_text(", ".join(self.names), 300)
                details = {"available": available, "known_names": example_names(PAIR_NAMES[role])}
                if role == SENTENCES[0]:
                    raise DataError.from_code(ProblemCode.NO_SENTENCE, **details)
                details |= {"role": role, "flags": f"--columns {role}=NAME"}
                raise DataError.from_code(ProblemCode.MISSING_COLUMN, **details)
        return columns


def _open_file(file: File, selection: Selection) -> _OpenedFile:
    recognised = opening.recognise(file.content, is_pair_column, file.name)
    if recognised.format is Format.SQUAD:
        return _OpenedFile(file.name, recognised, lambda: RawTable((), ()), PairColumns(), _SQUAD, ())
    lines = recognised.text if recognised.format is Format.TEXT else None
    opener = rows_opener(file.content, recognised) if lines is None else partial(line_table, lines)
    table, sample = opening.preview_table(opener())
    filled = {name: [row[name] for row in sample if not is_blank(row.get(name))] for name in table.names}
    # most cells must be objects
    objects = [name for name, cells in filled.items() if 2 * sum(isinstance(c, dict) for c in cells) > len(cells)]
    if objects:
        flatten = partial(_flatten, objects)
        names = dict.fromkeys(name for cells in (table.names, *map(flatten, sample)) for name in cells)
        opener = mapped_cells_opener(opener, [name for name in names if name not in objects], flatten)
        table, sample = opening.preview_table(opener())
    columns = assign_pair_columns(table.names, sample, selection)
    require_columns(selection, table.names)
    return _OpenedFile(file.name, recognised, opener, columns, table.names, table.first)


def _flatten(objects: Sequence[str], cells: Mapping[str, object]) -> dict[str, object]:
    flattened: dict[str, object] = {}
    for name, value in cells.items():
        inner = value if name in objects and isinstance(value, dict) else None
        flattened |= {name: value} if inner is None else {f"{name}.{key}": cell for key, cell in inner.items()}
    return flattened


def _infer_kind_and_scale(files: Sequence[_OpenedFile], options: PairReadOptions) -> tuple[PairKind, Scale]:
    kind = options.kind
    scale = options.scale
    if kind is None or (kind is PairKind.SCORED and scale is None):
        score = _values(files, "score")
        label = _values(files, "label")
        kind = kind or guess_kind(min(len(file.columns.sentences) for file in files), score, label)
        scale = scale or (score or label or ColumnValues()).guess_scale()
    low, high = scale if scale is not None and kind is PairKind.SCORED else (0.0, 0.0)
    return kind, (float(low), float(high))


def _values(files: Sequence[_OpenedFile], role: str) -> ColumnValues | None:
    columns = [(file, column) for file in files if (column := getattr(file.columns, role)) is not None]
    values = ColumnValues()
    for file, column in columns:
        with opening.name_file_in_errors(file.name, files):
            for row in file.table().rows:
                value = None if row.problem else row.cells.get(column)
                values.add("" if is_collection(value) else as_text(value))
    return values if columns else None


def _read(file: _OpenedFile, builder: PairBuilder, part: Part | None, problems: Iterable[Problem]) -> PairFileReading:
    columns = file.columns_for(builder.kind)
    table = file.table()
    builder.add(table.rows, columns, part, problems)
    used = {*asdict(columns).values()}
    return PairFileReading(
        name=file.name,
        part=part,
        columns=columns,
        used_columns=tuple(name for name in file.names if name in used),
        unused_columns=(*(name for name in file.names if name not in used), *table.skipped),
        **reading_fields(file.recognised, builder.rejection, file.names, file.first_rows, builder.row_count),
    )


def _unusable_problem(pairs: PairSet) -> Problem | None:
    """Return a problem if a set is too small, or if all its values are equal."""
    if len(pairs) < MIN_ROWS:
        return Problem.from_code(ProblemCode.TOO_FEW_ROWS, rows=len(pairs), least=MIN_ROWS)
    if len(np.unique(pairs.values)) != 1:
        return None
    value = pairs.values[0]
    name = Label(value).name.lower() if pairs.kind is PairKind.LABELLED else f"{value:g}"
    return Problem.from_code(ProblemCode.SINGLE_VALUE, rows=len(pairs), value=name)


def _save_result(folder: Path, reading: PairReading) -> dict[str, Any]:
    write_pairs(folder, reading.pairs)
    return {"name": reading.pairs.name, "files": _FILES.dump_python(reading.files, mode="json")}


_OPTIONS = TypeAdapter(PairReadOptions)
_FILES = TypeAdapter(tuple[PairFileReading, ...])
WORK = ReadingTask(
    "pairs",
    PairColumns,
    read=lambda files, options: read_pairs(files, _OPTIONS.validate_python(options)),
    propose=partial(propose_or_encodings, lambda files: propose_pair_columns(*files[0]), PairColumns()),
    write=_save_result,
    open=lambda folder, left: PairReading(open_pairs(folder, left["name"]), _FILES.validate_python(left["files"])),
)


@dataclass(frozen=True)
class PairEntry:
    """A public set: its files and options. Files without an address are part of the program."""

    id: str
    title: str
    licence: str
    files: tuple[CatalogEntry, ...]
    options: PairReadOptions

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def _pair_entry(given: dict[str, Any]) -> PairEntry:
    scale = tuple(given["scale"]) if "scale" in given else None
    options = PairReadOptions(kind=PairKind(given["kind"]), scale=scale, parts=tuple(map(Part, given.get("parts", ()))))
    return PairEntry(given["id"], given["title"], given["licence"], tuple(map(catalog_entry, given["files"])), options)


PAIR_CATALOG = {entry.id: entry for entry in map(_pair_entry, CATALOG_DATA["pairs"])}


def read_pair_entry(entry: PairEntry, on_progress: Progress = lambda _, __: None) -> PairReading:
    """Read a set of the catalog, named by its title; its files are downloaded if needed. Raises `DataError`."""
    reading = read_pairs(obtain_files(entry, on_progress), entry.options)
    return replace(reading, pairs=replace(reading.pairs, name=entry.title))


def obtain_files(entry: PairEntry, on_progress: Progress = lambda _, __: None) -> list[tuple[bytes, str]]:
    """Return content and name of the files of a catalog entry; `on_progress` gets bytes. Raises `DataError`."""
    files = []
    downloaded = 0

    def report_file_progress(done: int, _: int) -> None:
        on_progress(downloaded + done, entry.size)

    for file in entry.files:
        files.append((fetch(file, report_file_progress), file.path.name))
        downloaded += file.size
    return files


@dataclass(frozen=True, kw_only=True)
class StoredPairs(StoredItem):
    """A stored set of pairs, with the lowest and highest possible score (0 and 0 without scores)."""

    kind: PairKind
    rows: int
    scale: tuple[float, float] = (0.0, 0.0)


_PAIRS = StoredCollection("pairs", StoredPairs, partial(DataError.from_code, ProblemCode.UNKNOWN_PAIRS), PAIR_CATALOG)
stored = _PAIRS.stored
damaged = _PAIRS.damaged
remove = _PAIRS.remove
rename = _PAIRS.rename


def save_pairs(pairs: PairSet, *, source: str = "") -> StoredPairs:
    """Store a set in the workspace; see `StoredCollection.save`. Raises `LimitError` also for too many pairs."""
    require_set_size("pairs", len(pairs))
    metadata = {"kind": pairs.kind, "rows": len(pairs), "scale": pairs.scale}
    return _PAIRS.save(partial(write_pairs, pairs=pairs), pairs.name, pairs.fingerprint, source, **metadata)


def load(key: str) -> PairSet:
    """Load a stored set, mapped into memory. Raises `DataError` if it is missing or its content has changed."""
    return _PAIRS.load(key, lambda folder, entry: open_pairs(folder, entry.name), ProblemCode.BROKEN_PAIRS)


def find(reference: str, base: Path | None = None) -> PairSet:
    """Return a set by file (from `base`), catalog id, name, key or fingerprint. Raises `DataError` with all names."""
    if path := existing_file(reference, base):
        return read_pair_files_in_subprocess([path]).pairs
    if reference in PAIR_CATALOG:
        return read_pair_entry(PAIR_CATALOG[reference]).pairs
    return load(_PAIRS.find_note(reference).key)
