"""Tells which files make a dataset together: their sources in the order they are read, the layout, and the name.

Files that only describe others, such as the JSON of `Dataset.save_to_disk`, are not read.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Self

from mrc_workbench.data.apart import File
from mrc_workbench.data.formats.columns import plain_name, require_columns
from mrc_workbench.data.formats.opening import Format, set_name, told_of
from mrc_workbench.data.formats.tables import shown
from mrc_workbench.data.formats.text import EncodedText
from mrc_workbench.data.formats.text_tables import parse_json
from mrc_workbench.data.layouts.cells import objects_in_list
from mrc_workbench.data.layouts.files import (
    PLAIN_WORDS,
    holds_passages,
    require_one_collection,
    source_beside_others,
    with_objects_by_id,
    with_parts,
    with_roles,
)
from mrc_workbench.data.layouts.members import (
    describes_data,
    sighted_file,
    with_document_ids,
    without_describing_documents,
)
from mrc_workbench.data.layouts.roles import Chosen, candidate_columns, holds_texts, missing_passages
from mrc_workbench.data.layouts.sighting import SeenFiles, Sighted, holds_dataset, row_source, with_sheets
from mrc_workbench.data.layouts.sources import Role, Shape, Source, stands_alone, with_locations
from mrc_workbench.data.passages import id_problems
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

_LACKING = (ProblemCode.NO_PASSAGES, ProblemCode.ONLY_JUDGEMENTS)
_WORDS = re.compile(r"[^\W\d_]+")
_STATE = "state.json"
_NOTES = (_STATE, "dataset_info.json", "dataset_dict.json")
_LARGEST_NOTE = 2**24  # bytes
_MOST_SHARDS = 1_000
_SHARD = re.compile(r"(.*-)(\d{5})-of-(\d{5})(\.\w+)")


class Layout(StrEnum):
    """Whose layout a collection is in; `label` is what a set without a name is called."""

    label: str

    def __new__(cls, value: str, label: str = "") -> Self:
        layout = str.__new__(cls, value)
        layout._value_ = value
        layout.label = label
        return layout

    BEIR = "beir", "BEIR"
    MTEB = "mteb", "MTEB"
    TREC = "trec", "TREC"
    MS_MARCO = "ms_marco", "MS MARCO"
    MIRACL = "miracl", "MIRACL"
    MR_TYDI = "mr_tydi", "Mr. TyDi"
    AUTORAG = "autorag", "AutoRAG"
    LLAMA_INDEX = "llama_index", "LlamaIndex"
    RAGAS = "ragas", "ragas"
    QUEPID = "quepid", "Quepid"
    SMART = "smart", "SMART"
    ENGINE = "engine", "search engine"  # judgements of a search engine's tools
    ROWS = "rows", "questions"  # several files whose rows hold questions and passages
    DOCUMENTS = "documents", "documents"
    FILES = "files", "collection"  # nobody's: passages, questions and judgements in files of their own


@dataclass(frozen=True)
class SelectedSources:
    """The sources of a dataset in the order they are read, and why others are `aside`; one table has no `layout`."""

    sources: tuple[Source, ...]
    name: str
    layout: Layout | None = None
    aside: tuple[Problem, ...] = ()


def select_sources(files: Sequence[File], name: str, chosen: Chosen) -> SelectedSources:
    """Tell what files hold; `name` is of the set if no file has one, and `chosen` names columns by role.

    Raises `DataError` for a file that cannot be read (of several, the detail `file` names it), and if they are no
    dataset.
    """
    files, notices = set_aside(files)
    found = _selected(files, name, chosen)
    return replace(found, aside=(*found.aside, *notices))


def select_rows(file: File, seen: Sighted, name: str, chosen: Chosen, aside: Sequence[Problem] = ()) -> SelectedSources:
    """Return the one file whose rows hold questions and passages."""
    source = row_source(file, seen, chosen)
    return SelectedSources((source,), set_name(name or file.name, "questions"), aside=tuple(aside))


def _selected(files: Sequence[File], name: str, chosen: Chosen) -> SelectedSources:
    seen: list[tuple[File, Sighted]] = []
    refused: list[DataError] = []
    for file in files:
        try:
            with told_of(file.name, files):
                seen += with_sheets(file, sighted_file(file, chosen, is_alone=len(files) == 1), chosen)
        except DataError as error:
            refused.append(error)
    if not seen:
        raise _all_refused(refused)
    require_columns(chosen, [column for _, one in seen for column in one.names])
    try:
        return _together(with_document_ids(seen), [error.problem for error in refused], name, chosen)
    except DataError as error:
        if refused and error.problem.code in _LACKING:
            raise _all_refused(refused) from error  # what is lacking may be in there
        raise


def _all_refused(errors: Sequence[DataError]) -> DataError:
    """Return the error of the first file, and with it the problems of all files if there are several."""
    files = [error.problem for error in errors] if len(errors) > 1 else []
    return DataError(errors[0].problem, [*errors[0].others, *files])


def _together(seen: SeenFiles, refused: Sequence[Problem], name: str, chosen: Chosen) -> SelectedSources:
    """Select from files whose content is known; `refused` says why the files beside them are not read."""
    if any(problem.code is ProblemCode.BROKEN_ARCHIVE for problem in refused):
        tables = (one.table is not None and holds_dataset(one.table, one.sample) for _, one in seen)
        if not any(tables) and not any(map(holds_passages, (source for _, one in seen for source in one.sources))):
            raise _no_passages([], [file.name for file, _ in seen])  # the broken files may hold them
    if len(seen) == 1 and not (seen[0][1].sources and stands_alone(seen[0][1].sources[0])):
        return select_rows(*seen[0], name, chosen, refused)
    seen, unread = with_objects_by_id(seen)
    sources, aside = _sources(seen, chosen)
    sources, describing = without_describing_documents(sources)
    aside = [*refused, *unread, *aside, *describing]
    rows = [source for source in sources if source.role is Role.ROWS]
    if len(sources) == len(rows) == 1:
        return select_rows(*next(pair for pair in seen if pair[0].name == rows[0].name), name, chosen, aside)
    sources = with_locations(with_parts(with_roles(sources)))
    require_one_collection(sources)
    if not any(map(holds_passages, sources)):
        _require_passage_column(seen, sources, chosen)
        raise _no_passages(sources, [file.name for file, _ in seen])
    order = (Role.PASSAGES, Role.ROWS, Role.QUESTIONS, Role.ANSWERS, Role.JUDGEMENTS)
    sources.sort(key=lambda source: (order.index(source.role), source.columns.question is not None))
    layout = _layout(sources)
    names = {source.name for source in sources}
    read = [file for file, one in seen if names & {file.name, *(source.name for source in one.sources)}]
    return SelectedSources(tuple(sources), _named(read, layout, name), layout, tuple(aside))


def _sources(seen: SeenFiles, chosen: Chosen) -> tuple[list[Source], list[Problem]]:
    """Return the sources of all files, and why some files have none."""
    sources: list[Source] = []
    problems: list[Problem] = []
    texts: list[str] = []
    for file, one in seen:
        if one.sources and one.sources[0].role is not Role.ROWS:
            sources += one.sources
        elif one.recognised is None or one.recognised.format is Format.TEXT:
            texts.append(file.name)
        else:
            try:
                with told_of(file.name, seen):
                    sources.append(source_beside_others(file, one, chosen))
            except DataError as error:
                problems.append(error.problem)
    return sources, [*problems, *id_problems(ProblemCode.LEFT_ASIDE, texts)]


def _require_passage_column(seen: SeenFiles, sources: Sequence[Source], chosen: Chosen) -> None:
    """Raise `DataError` if all files are tables of questions with a column that may hold the passages, as a FAQ has."""
    names = {source.name for source in sources}
    tables = [(file, one) for file, one in seen if file.name in names and not one.sources]
    if len(tables) < len(sources):
        return
    for file, one in tables:
        source = row_source(file, one, chosen)
        table = source.columns, source.names, source.sample
        candidates = [columns.context or "" for columns in candidate_columns(*table)]
        if any(name == source.columns.answers or holds_texts(name, source.sample) for name in candidates):
            with told_of(file.name, seen):
                raise missing_passages(*table)


def _no_passages(sources: Sequence[Source], names: Sequence[str]) -> DataError:
    judging = [source.role is Role.JUDGEMENTS or source.shape in (Shape.RATINGS, Shape.ENGINE) for source in sources]
    code = ProblemCode.ONLY_JUDGEMENTS if judging and all(judging) else ProblemCode.NO_PASSAGES
    found = dict.fromkeys(source.name.partition(": ")[0] for source in sources) or names
    return DataError.of(code, found=shown(", ".join(found), 200))


_LAYOUT_OF_SHAPE = (  # the most telling one first
    (Shape.LLAMA_INDEX, Layout.LLAMA_INDEX),
    (Shape.AUTORAG, Layout.AUTORAG),
    (Shape.RAGAS, Layout.RAGAS),
    (Shape.TYDI, Layout.MR_TYDI),
    (Shape.RATINGS, Layout.QUEPID),
    (Shape.TRIPLES, Layout.MS_MARCO),
    (Shape.ENGINE, Layout.ENGINE),
    (Shape.SMART, Layout.SMART),
    (Shape.MARKUP, Layout.TREC),
    (Shape.DOCUMENT, Layout.DOCUMENTS),
)


def _layout(sources: Sequence[Source]) -> Layout:
    shapes = {source.shape for source in sources}
    by_role = {source.role: source for source in reversed(sources)}
    by_shape = next((layout for shape, layout in _LAYOUT_OF_SHAPE if shape in shapes), None)
    if by_shape is not None:
        return by_shape
    passages = by_role.get(Role.PASSAGES)
    if passages is None or Role.ROWS in by_role:
        return Layout.ROWS if passages is None else Layout.FILES
    return _layout_of_parts(passages, by_role, has_lines=Shape.LINES in shapes)


def _layout_of_parts(passages: Source, by_role: Mapping[Role, Source], *, has_lines: bool) -> Layout:
    """The layout of passages, questions and judgements in tables of their own."""
    id_ = plain_name(passages.columns.id or "")
    is_miracl = id_ == "docid" and passages.columns.title is not None
    if passages.shape is Shape.LINES:
        return Layout.MS_MARCO
    if has_lines:
        return Layout.MIRACL if is_miracl else Layout.TREC
    if len(by_role) == 1 or id_ != "id":
        return Layout.MIRACL if is_miracl else Layout.FILES
    judged = by_role.get(Role.JUDGEMENTS)
    is_beir = passages.recognised.format is Format.JSONL and (judged is None or judged.recognised.format is Format.TSV)
    if is_beir and passages.columns.id == "_id":
        return Layout.BEIR
    return Layout.MTEB if passages.recognised.format in (Format.PARQUET, Format.JSONL) else Layout.FILES


def _named(files: Sequence[File], layout: Layout, name: str) -> str:
    """The name of the set: the one given, the folder's, what a file's name tells beside its role, or the layout."""
    if name:
        return set_name(name, layout.label)
    folders = {PurePosixPath(file.name).parts[0] for file in files if "/" in file.name}
    if len(folders) == 1 and all("/" in file.name for file in files):
        return shown(set_name(folders.pop(), ""), 100)
    stems = [set_name(file.name, "") for file in files]
    telling = (stem for stem in stems if len(stems) == 1 or {*_WORDS.findall(stem.lower())} - PLAIN_WORDS)
    return next(telling, "") or layout.label


def set_aside(files: Sequence[File]) -> tuple[list[File], tuple[Problem, ...]]:
    """Return the files to read (all if each only describes others), and notices of the others and of missing files."""
    arrow = [PurePosixPath(file.name).parent for file in files if file.name.lower().endswith(".arrow")]
    folders = {*arrow, *(folder.parent for folder in arrow)}  # of `save_to_disk`, with its JSON beside Arrow files
    paths = [(file, PurePosixPath(file.name)) for file in files]
    stored = [file for file, path in paths if path.name not in _NOTES or path.parent not in folders]
    data = [file for file in stored if not describes_data(file.name)] or stored
    names = {file.name for file in data}
    describing = [file.name for file in stored if file.name not in names]
    notices = id_problems(ProblemCode.DESCRIBING_FILES, describing)
    return data, notices + id_problems(ProblemCode.MISSING_SHARDS, missing_shards(files))


def missing_shards(files: Sequence[File]) -> list[str]:
    """Return the names of missing files: those that `state.json` lists, and the others of "00001-of-00003"."""
    names = {file.name for file in files}
    expected = dict.fromkeys(name for file in files for name in _listed(file))
    expected |= dict.fromkeys(name for known in names for name in _fellows(known))
    return sorted(name for name in expected if name not in names)


def _listed(file: File) -> Iterable[str]:
    """The files that a `state.json` lists; none if it is no such file."""
    path = PurePosixPath(file.name)
    if path.name != _STATE or not 0 < file.content.size <= _LARGEST_NOTE:
        return []
    try:
        state = parse_json(EncodedText(file.content, file.content.encoding).whole)
    except DataError:
        return []
    entries = objects_in_list(state.get("_data_files")) if isinstance(state, dict) else []
    names = [entry.get("filename") for entry in entries]
    return [str(path.parent / PurePosixPath(name).name) for name in names if isinstance(name, str) and name]


def _fellows(name: str) -> Iterable[str]:
    """The names of all files of a dataset that one file is a part of, by its own name."""
    found = _SHARD.fullmatch(name)
    if found is None:
        return []
    begin, _, count, end = found.groups()
    return [f"{begin}{number:05}-of-{count}{end}" for number in range(min(int(count), _MOST_SHARDS))]
