"""Selects the files that form a dataset: their sources in reading order, the layout, and the name."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import Any, Self

from mrc_workbench.data.formats.columns import QuestionColumns, plain_name, require_columns
from mrc_workbench.data.formats.opening import Format, derive_name, name_file_in_errors
from mrc_workbench.data.formats.tables import answers_in, as_text, display_text, is_collection
from mrc_workbench.data.formats.text_tables import json_table
from mrc_workbench.data.layouts import objects, references, roles, sighting
from mrc_workbench.data.layouts.cells import list_items
from mrc_workbench.data.layouts.exports import is_named_prediction
from mrc_workbench.data.layouts.members import dataset_name, require_single_collection, select_data_files, with_parts
from mrc_workbench.data.layouts.references import PassageNames, Role
from mrc_workbench.data.layouts.roles import Selection, assign_columns
from mrc_workbench.data.layouts.sighting import DetectedFile
from mrc_workbench.data.layouts.sources import (
    DataSource,
    SourceShape,
    as_questions,
    assign_roles,
    holds_passages,
    is_standalone,
    naming_columns,
    with_locations,
)
from mrc_workbench.data.passages import id_problems
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.subprocess_reader import File


class Layout(StrEnum):
    """The published layout of a collection; `label` is the default name of a set."""

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
    ROWS = "rows", "questions"  # several files with questions and passages in rows
    DOCUMENTS = "documents", "documents"
    FILES = "files", "collection"  # separate files of passages, questions and judgements, in no known layout


_ANSWER_WORDS = {"answer", "answers", "정답", "답변"}
_MAX_ROWS = 20_000  # sampled rows of nested data
# characters
_MAX_ANSWER_LENGTH = 200
_MAX_NAME_LENGTH = 200
_MISSING_CONTENT_CODES = (ProblemCode.NO_PASSAGES, ProblemCode.ONLY_JUDGEMENTS)
_LAYOUT_OF_SHAPE = (  # the most specific first
    (SourceShape.LLAMA_INDEX, Layout.LLAMA_INDEX),
    (SourceShape.AUTORAG, Layout.AUTORAG),
    (SourceShape.RAGAS, Layout.RAGAS),
    (SourceShape.TYDI, Layout.MR_TYDI),
    (SourceShape.RATINGS, Layout.QUEPID),
    (SourceShape.TRIPLES, Layout.MS_MARCO),
    (SourceShape.ENGINE, Layout.ENGINE),
    (SourceShape.SMART, Layout.SMART),
    (SourceShape.MARKUP, Layout.TREC),
    (SourceShape.DOCUMENT, Layout.DOCUMENTS),
)


@dataclass(frozen=True)
class SelectedSources:
    """The sources of a dataset in reading order, and the problems of skipped files; a single table has no `layout`."""

    sources: tuple[DataSource, ...]
    name: str
    layout: Layout | None = None
    skipped: tuple[Problem, ...] = ()


def select_sources(files: Sequence[File], name: str, selection: Selection) -> SelectedSources:
    """Select the sources of a dataset; `selection` names columns by role. Raises `DataError`, which names a `file`."""
    files, notices = select_data_files(files)
    selected = _select_from_files(files, name, selection)
    return replace(selected, skipped=(*selected.skipped, *notices))


def select_rows(
    detected: DetectedFile, name: str, selection: Selection, skipped: Sequence[Problem] = ()
) -> SelectedSources:
    """Select a single file with questions and passages in its rows."""
    source = sighting.row_source(detected, selection)
    return SelectedSources((source,), derive_name(name or detected.file.name, "questions"), skipped=tuple(skipped))


def _select_from_files(files: Sequence[File], name: str, selection: Selection) -> SelectedSources:
    detected_files: list[DetectedFile] = []
    refused: list[DataError] = []
    for file in files:
        try:
            with name_file_in_errors(file.name, files):
                detected = sighting.detect_sources(file, selection, is_single=len(files) == 1)
                detected_files += sighting.split_sheets(detected, selection)
        except DataError as error:
            refused.append(error)
    if not detected_files:
        raise _combine_errors(refused)
    require_columns(selection, [column for detected in detected_files for column in detected.names])
    problems = [error.problem for error in refused]
    try:
        return _select_together(sighting.assign_document_ids(detected_files), problems, name, selection)
    except DataError as error:
        if refused and error.problem.code in _MISSING_CONTENT_CODES:
            raise _combine_errors(refused) from error  # the refused files may hold the missing content
        raise


def _combine_errors(errors: Sequence[DataError]) -> DataError:
    files = [error.problem for error in errors] if len(errors) > 1 else []
    return DataError(errors[0].problem, [*errors[0].others, *files])


def _select_together(
    files: Sequence[DetectedFile], refused: Sequence[Problem], name: str, selection: Selection
) -> SelectedSources:
    """Select from files with known content; `refused` are the problems of the other files."""
    file_names = [detected.file.name for detected in files]
    if any(problem.code is ProblemCode.BROKEN_ARCHIVE for problem in refused):
        has_dataset = any(file.table is not None and sighting.holds_dataset(file.table, file.sample) for file in files)
        if not has_dataset and not any(holds_passages(source) for detected in files for source in detected.sources):
            raise _no_passages_error([], file_names)  # the broken files may hold passages
    if len(files) == 1 and not (files[0].sources and is_standalone(files[0].sources[0])):
        return select_rows(files[0], name, selection, refused)
    files, unread = _resolve_objects_by_id(files)
    sources, skipped = _collect_sources(files, selection)
    sources, describing = _exclude_describing_documents(sources)
    skipped = [*refused, *unread, *skipped, *describing]
    rows = [source for source in sources if source.role is Role.ROWS]
    if len(sources) == len(rows) == 1:
        file = next(detected for detected in files if detected.file.name == rows[0].name)
        return select_rows(file, name, selection, skipped)
    sources = with_locations(with_parts(assign_roles(sources)))
    require_single_collection(sources)
    if not any(map(holds_passages, sources)):
        _require_passage_column(files, sources, selection)
        raise _no_passages_error(sources, file_names)
    order = (Role.PASSAGES, Role.ROWS, Role.QUESTIONS, Role.ANSWERS, Role.JUDGEMENTS)
    sources.sort(key=lambda source: (order.index(source.role), source.columns.question is not None))
    layout = _detect_layout(sources)
    names = {source.name for source in sources}
    read = [file.file for file in files if names & {file.file.name, *(source.name for source in file.sources)}]
    return SelectedSources(tuple(sources), dataset_name(read, name, layout.label), layout, tuple(skipped))


def _collect_sources(files: Sequence[DetectedFile], selection: Selection) -> tuple[list[DataSource], list[Problem]]:
    sources: list[DataSource] = []
    problems: list[Problem] = []
    texts: list[str] = []
    for detected in files:
        if detected.sources and detected.sources[0].role is not Role.ROWS:
            sources += detected.sources
        elif detected.recognised is None or detected.recognised.format is Format.TEXT:
            texts.append(detected.file.name)
        else:
            try:
                with name_file_in_errors(detected.file.name, files):
                    sources.append(_source_beside_others(detected, selection))
            except DataError as error:
                problems.append(error.problem)
    return sources, [*problems, *id_problems(ProblemCode.LEFT_ASIDE, texts)]


def _source_beside_others(detected: DetectedFile, selection: Selection) -> DataSource:
    """Return the source of a table among other files; rows without a passage are questions. Raises `DataError`."""
    source = sighting.row_source(detected, {role: name for role, name in selection.items() if name in detected.names})
    columns = source.columns
    if columns.has_passages:
        return source
    questions = [as_text(row.get(columns.question or "")) for row in source.sample]
    are_ids = all(text.isascii() and len(text.split()) <= 1 for text in questions)  # single words
    if columns.question is None or are_ids:
        cells = (as_text(cell) for row in source.sample for cell in row.values() if not is_collection(cell))
        code = ProblemCode.NO_KNOWN_COLUMN if any(" " in cell for cell in cells) else ProblemCode.ONLY_IDS
        raise DataError.from_code(code, available=display_text(", ".join(source.names), 300))
    return as_questions(source)


def _exclude_describing_documents(sources: Sequence[DataSource]) -> tuple[list[DataSource], tuple[Problem, ...]]:
    """Return the sources without documents that describe the passages of other files, and the problems of these."""
    names = [source.name for source in sources if source.shape is SourceShape.DOCUMENT]
    documents = PassageNames({name: position for position, name in enumerate(names)}, lambda: ())
    if names:
        sources = [as_questions(source) if naming_columns(source, documents) else source for source in sources]
    others = [source for source in sources if source.shape is not SourceShape.DOCUMENT]
    known = assign_roles(others)  # texts with ids may still be questions about the documents
    is_collection = any(source.role is Role.QUESTIONS for source in known) and any(map(holds_passages, known))
    if not is_collection and not any(map(holds_passages, others)):
        return list(sources), ()
    return others, id_problems(ProblemCode.DESCRIBING_DOCUMENTS, names)


def _require_passage_column(files: Sequence[DetectedFile], sources: Sequence[DataSource], selection: Selection) -> None:
    """Raise `DataError` if all files are tables of questions with a column that may hold passages, such as FAQs."""
    names = {source.name for source in sources}
    tables = [detected for detected in files if detected.file.name in names and not detected.sources]
    for detected in tables if len(tables) >= len(sources) else ():
        source = sighting.row_source(detected, selection)
        columns = source.columns
        proposed = roles.candidate_columns(columns, source.names, source.sample)
        candidates = [candidate.context or "" for candidate in proposed]
        if any(name == columns.answers or roles.holds_texts(name, source.sample) for name in candidates):
            with name_file_in_errors(detected.file.name, files):
                raise roles.missing_passages_error(columns, source.names, source.sample)


def _no_passages_error(sources: Sequence[DataSource], names: Sequence[str]) -> DataError:
    shapes = (SourceShape.RATINGS, SourceShape.ENGINE)
    only_judgements = all(source.role is Role.JUDGEMENTS or source.shape in shapes for source in sources)
    code = ProblemCode.ONLY_JUDGEMENTS if sources and only_judgements else ProblemCode.NO_PASSAGES
    file_names = dict.fromkeys(source.name.partition(": ")[0] for source in sources) or names
    return DataError.from_code(code, available=display_text(", ".join(file_names), 200))


def _detect_layout(sources: Sequence[DataSource]) -> Layout:
    shapes = {source.shape for source in sources}
    by_role = {source.role: source for source in reversed(sources)}
    by_shape = next((layout for shape, layout in _LAYOUT_OF_SHAPE if shape in shapes), None)
    if by_shape is not None:
        return by_shape
    passages = by_role.get(Role.PASSAGES)
    if passages is None or Role.ROWS in by_role:
        return Layout.ROWS if passages is None else Layout.FILES
    return _detect_layout_of_parts(passages, by_role, has_lines=SourceShape.LINES in shapes)


def _detect_layout_of_parts(passages: DataSource, by_role: Mapping[Role, DataSource], *, has_lines: bool) -> Layout:
    id_ = plain_name(passages.columns.id or "")
    is_miracl = id_ == "docid" and passages.columns.title is not None
    if passages.shape is SourceShape.LINES:
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


@dataclass
class _KnownIds:
    """The ids in a file: its questions with and without answers, its passages, and the names in its other columns."""

    has_answer: dict[str, bool] = field(default_factory=dict)
    names: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    passage_ids: set[str] = field(default_factory=set)
    has_passages: bool = False


def _resolve_objects_by_id(files: Sequence[DetectedFile]) -> tuple[list[DetectedFile], tuple[Problem, ...]]:
    """Return the files, with roles for objects by the ids of other files, and the problems of unread objects."""
    if len(files) == 1 or not any(map(_object_value, files)):
        return list(files), ()
    known = [_known_ids(detected) for detected in files]
    resolved: list[DetectedFile] = []
    problems: list[Problem] = []
    for number, detected in enumerate(files):
        others = [*known[:number], *known[number + 1 :]]
        try:
            with name_file_in_errors(detected.file.name, files):
                is_object = bool(_object_value(detected)) and not known[number].has_answer
                resolved.append(_resolve_object(detected, others) if is_object else detected)
        except DataError as error:
            problems.append(error.problem)
    return resolved, tuple(problems)


def _object_value(detected: DetectedFile) -> dict[str, Any]:
    value = detected.recognised.value if detected.recognised is not None else None
    is_nested = any(source.shape is SourceShape.NESTED for source in detected.sources)
    return value if isinstance(value, dict) and not is_nested else {}


def _known_ids(detected: DetectedFile) -> _KnownIds:
    known = _KnownIds()
    for columns, role, rows in _sampled_sources(detected):
        known.has_passages |= role is Role.PASSAGES or (role is Role.ROWS and columns.has_passages)
        asks = role is Role.QUESTIONS or (role is Role.ROWS and columns.question is not None)
        for row in rows:
            id_ = as_text(row.get(columns.id or ""))
            if asks and id_:
                answers = answers_in(row.get(columns.answers or ""))
                known.has_answer[id_] = known.has_answer.get(id_, False) or bool(answers)
            elif role is Role.PASSAGES:
                known.passage_ids.add(id_)
            for column, cell in row.items():
                if column != columns.id:
                    texts = ("" if is_collection(item) else as_text(item) for item in list_items(cell))
                    names = (text for text in texts if 0 < len(text) <= _MAX_NAME_LENGTH)
                    known.names[column].update(map(references.file_key, names))
    return known


def _sampled_sources(detected: DetectedFile) -> Iterator[tuple[QuestionColumns, Role, Iterable[Mapping[str, object]]]]:
    for source in detected.sources:
        if source.shape is SourceShape.NESTED:
            yield source.columns, source.role, (row.cells for row in islice(source.table().rows, _MAX_ROWS))
        elif source.role is not Role.ROWS:
            by_name = references.role_from_names([PurePosixPath(detected.file.name).name]) or Role.PASSAGES
            yield source.columns, by_name if source.role is Role.TEXTS else source.role, source.sample
    if detected.table is not None and all(source.role is Role.ROWS for source in detected.sources):
        yield assign_columns(detected.names, detected.sample), Role.ROWS, detected.sample


def _resolve_object(detected: DetectedFile, others: Sequence[_KnownIds]) -> DetectedFile:
    """Return an object by id in its role. Raises `DataError` for predictions and for ids that no other file uses."""
    value = _object_value(detected)
    recognised = detected.recognised
    role = detected.sources[0].role if detected.sources else None
    file_name = PurePosixPath(detected.file.name).name
    words = {*references.tokenize_name(file_name)}
    role_in_name = references.role_from_names([file_name])
    has_answer = dict(chain.from_iterable(other.has_answer.items() for other in others))
    is_by_question = 2 * len(has_answer.keys() & value.keys()) > len(has_answer)
    if role is Role.JUDGEMENTS:
        passage_ids = {id_ for other in others for id_ in other.passage_ids}
        named = (id_ for ids in value.values() for id_ in ids)
        if words & references.JUDGEMENT_WORDS or (is_by_question and any(id_ in passage_ids for id_ in named)):
            return detected
    # passages have long texts, and their ids may be the same numbers
    lengths = [len(item) for item in value.values() if isinstance(item, str)]
    are_short = not all(map(str.isdigit, value)) or sum(lengths) <= _MAX_ANSWER_LENGTH * len(lengths)
    is_answered = is_by_question and role_in_name is None and objects.may_hold_answers(value)
    if is_answered and any(other.has_passages for other in others) and (words & _ANSWER_WORDS or are_short):
        are_predicted = objects.holds_predictions(value) or is_named_prediction(detected.file.name)
        if recognised is None or are_predicted or any(has_answer.values()):
            raise DataError.from_code(ProblemCode.PREDICTIONS, name=file_name)
        name = detected.file.name
        columns = QuestionColumns(id="id", answers="answers")
        opener = objects.answers_opener(value)
        names = objects.ANSWER_NAMES
        source = DataSource(name, Role.ANSWERS, SourceShape.BY_ID, columns, names, opener, recognised)
        return DetectedFile(detected.file, [source], recognised)
    keys = {references.file_key(id_) for id_ in value}
    cells = [names for other in others for names in other.names.values()]
    is_named = any(2 * len(names & keys) > min(len(names), len(keys)) for names in cells)
    if role is Role.TEXTS and is_named:
        return replace(detected, sources=[replace(detected.sources[0], role=Role.PASSAGES)])
    is_by_id = any(source.shape is SourceShape.BY_ID for source in detected.sources)
    if is_by_id and (role is not Role.TEXTS or role_in_name is None):
        json_table(value)  # raises an error: the meaning of the keys is unknown
    return detected
