"""Tells which files make a dataset together: their sources in the order they are read, the layout, and the name.

Files that only describe others, such as the JSON of `Dataset.save_to_disk`, are not read.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, Self

from mrc_workbench.data.apart import File
from mrc_workbench.data.formats.columns import QuestionColumns, plain_name, require_columns
from mrc_workbench.data.formats.opening import Format, derive_name, name_file_in_errors
from mrc_workbench.data.formats.tables import answers_in, as_text, display_text, is_collection
from mrc_workbench.data.formats.text_tables import json_table
from mrc_workbench.data.layouts import objects
from mrc_workbench.data.layouts.cells import list_items
from mrc_workbench.data.layouts.exports import is_named_prediction
from mrc_workbench.data.layouts.members import dataset_name, require_single_collection, select_data_files, with_parts
from mrc_workbench.data.layouts.references import (
    JUDGEMENT_WORDS,
    PassageNames,
    Role,
    file_key,
    role_from_names,
    tokenize_name,
)
from mrc_workbench.data.layouts.roles import (
    SelectedColumns,
    assign_columns,
    candidate_columns,
    holds_texts,
    missing_passages_error,
)
from mrc_workbench.data.layouts.sighting import (
    DetectedFile,
    assign_document_ids,
    detect_sources,
    holds_dataset,
    row_source,
    split_sheets,
)
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


_ANSWER_WORDS = {"answer", "answers", "정답", "답변"}
_MAX_ROWS = 20_000  # of nested data that are looked at
# characters
_MAX_ANSWER_LENGTH = 200
_MAX_NAME_LENGTH = 200
_MISSING_CONTENT_CODES = (ProblemCode.NO_PASSAGES, ProblemCode.ONLY_JUDGEMENTS)
_LAYOUT_OF_SHAPE = (  # the most telling one first
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
    """The sources of a dataset in the order they are read, and why others are `aside`; one table has no `layout`."""

    sources: tuple[DataSource, ...]
    name: str
    layout: Layout | None = None
    skipped: tuple[Problem, ...] = ()


def select_sources(files: Sequence[File], name: str, selected_columns: SelectedColumns) -> SelectedSources:
    """Select the sources of a dataset; `name` is its name if no file has one, and `chosen` names columns by role.

    Raises `DataError`, whose detail `file` names one of several files, if files cannot be read or are no dataset.
    """
    files, notices = select_data_files(files)
    selected = _select_from_files(files, name, selected_columns)
    return replace(selected, skipped=(*selected.skipped, *notices))


def select_rows(
    detected: DetectedFile, name: str, selected_columns: SelectedColumns, skipped: Sequence[Problem] = ()
) -> SelectedSources:
    """Return the one file whose rows hold questions and passages."""
    source = row_source(detected, selected_columns)
    return SelectedSources((source,), derive_name(name or detected.file.name, "questions"), skipped=tuple(skipped))


def _select_from_files(files: Sequence[File], name: str, selected_columns: SelectedColumns) -> SelectedSources:
    detected_files: list[DetectedFile] = []
    refused: list[DataError] = []
    for file in files:
        try:
            with name_file_in_errors(file.name, files):
                detected_files += split_sheets(
                    detect_sources(file, selected_columns, is_alone=len(files) == 1), selected_columns
                )
        except DataError as error:
            refused.append(error)
    if not detected_files:
        raise _combine_errors(refused)
    require_columns(selected_columns, [column for detected in detected_files for column in detected.names])
    try:
        return _select_together(
            assign_document_ids(detected_files), [error.problem for error in refused], name, selected_columns
        )
    except DataError as error:
        if refused and error.problem.code in _MISSING_CONTENT_CODES:
            raise _combine_errors(refused) from error  # what is lacking may be in there
        raise


def _combine_errors(errors: Sequence[DataError]) -> DataError:
    """Return the error of the first file, and with it the problems of all files if there are several."""
    files = [error.problem for error in errors] if len(errors) > 1 else []
    return DataError(errors[0].problem, [*errors[0].others, *files])


def _select_together(
    files: Sequence[DetectedFile], refused: Sequence[Problem], name: str, selected_columns: SelectedColumns
) -> SelectedSources:
    """Select from files whose content is known; `refused` says why the files beside them are not read."""
    file_names = [detected.file.name for detected in files]
    if any(problem.code is ProblemCode.BROKEN_ARCHIVE for problem in refused):
        has_dataset = any(
            detected.table is not None and holds_dataset(detected.table, detected.sample) for detected in files
        )
        if not has_dataset and not any(holds_passages(source) for detected in files for source in detected.sources):
            raise _no_passages_error([], file_names)  # the broken files may hold them
    if len(files) == 1 and not (files[0].sources and is_standalone(files[0].sources[0])):
        return select_rows(files[0], name, selected_columns, refused)
    files, unread = resolve_objects_by_id(files)
    sources, skipped = _collect_sources(files, selected_columns)
    sources, describing = exclude_describing_documents(sources)
    skipped = [*refused, *unread, *skipped, *describing]
    rows = [source for source in sources if source.role is Role.ROWS]
    if len(sources) == len(rows) == 1:
        return select_rows(
            next(detected for detected in files if detected.file.name == rows[0].name), name, selected_columns, skipped
        )
    sources = with_locations(with_parts(assign_roles(sources)))
    require_single_collection(sources)
    if not any(map(holds_passages, sources)):
        _require_passage_column(files, sources, selected_columns)
        raise _no_passages_error(sources, file_names)
    order = (Role.PASSAGES, Role.ROWS, Role.QUESTIONS, Role.ANSWERS, Role.JUDGEMENTS)
    sources.sort(key=lambda source: (order.index(source.role), source.columns.question is not None))
    layout = _detect_layout(sources)
    names = {source.name for source in sources}
    read = [
        detected.file
        for detected in files
        if names & {detected.file.name, *(source.name for source in detected.sources)}
    ]
    return SelectedSources(tuple(sources), dataset_name(read, name, layout.label), layout, tuple(skipped))


def _collect_sources(
    files: Sequence[DetectedFile], selected_columns: SelectedColumns
) -> tuple[list[DataSource], list[Problem]]:
    """Return the sources of all files, and why some files have none."""
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
                    sources.append(source_beside_others(detected, selected_columns))
            except DataError as error:
                problems.append(error.problem)
    return sources, [*problems, *id_problems(ProblemCode.LEFT_ASIDE, texts)]


def source_beside_others(detected: DetectedFile, selected_columns: SelectedColumns) -> DataSource:
    """Return the source of a file that its columns make no collection, read beside others.

    Rows without a passage are questions; other files may hold what they name. Raises `DataError` if it has neither.
    """
    source = row_source(detected, {role: name for role, name in selected_columns.items() if name in detected.names})
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


def exclude_describing_documents(sources: Sequence[DataSource]) -> tuple[list[DataSource], tuple[Problem, ...]]:
    """Return the sources without the documents beside passages of another file, which they describe; report them."""
    names = [source.name for source in sources if source.shape is SourceShape.DOCUMENT]
    documents = PassageNames({name: position for position, name in enumerate(names)}, lambda: ())
    if names:
        sources = [as_questions(source) if naming_columns(source, documents) else source for source in sources]
    others = [source for source in sources if source.shape is not SourceShape.DOCUMENT]
    known = assign_roles(others)  # texts with ids alone, such as questions about the documents, are not yet passages
    is_collection = any(source.role is Role.QUESTIONS for source in known) and any(map(holds_passages, known))
    if not is_collection and not any(map(holds_passages, others)):
        return list(sources), ()
    return others, id_problems(ProblemCode.DESCRIBING_DOCUMENTS, names)


def _require_passage_column(
    files: Sequence[DetectedFile], sources: Sequence[DataSource], selected_columns: SelectedColumns
) -> None:
    """Raise `DataError` if all files are tables of questions with a column that may hold the passages, as a FAQ has."""
    names = {source.name for source in sources}
    tables = [detected for detected in files if detected.file.name in names and not detected.sources]
    for detected in tables if len(tables) >= len(sources) else ():
        source = row_source(detected, selected_columns)
        table = source.columns, source.names, source.sample
        candidates = [columns.context or "" for columns in candidate_columns(*table)]
        if any(name == source.columns.answers or holds_texts(name, source.sample) for name in candidates):
            with name_file_in_errors(detected.file.name, files):
                raise missing_passages_error(*table)


def _no_passages_error(sources: Sequence[DataSource], names: Sequence[str]) -> DataError:
    judging = [
        source.role is Role.JUDGEMENTS or source.shape in (SourceShape.RATINGS, SourceShape.ENGINE)
        for source in sources
    ]
    code = ProblemCode.ONLY_JUDGEMENTS if judging and all(judging) else ProblemCode.NO_PASSAGES
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
    """The layout of passages, questions and judgements in tables of their own."""
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
    """What a file says of ids: which questions have an answer, and what else its columns name."""

    has_answer: dict[str, bool] = field(default_factory=dict)
    names: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    passage_ids: set[str] = field(default_factory=set)
    has_passages: bool = False


def resolve_objects_by_id(files: Sequence[DetectedFile]) -> tuple[list[DetectedFile], tuple[Problem, ...]]:
    """Return the files, objects by ids of other files in their roles, and why some of these are not read."""
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
    """Return the object of a file that may be one by id, {} for any other file."""
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
                    known.names[column].update(file_key(text) for text in texts if 0 < len(text) <= _MAX_NAME_LENGTH)
    return known


def _sampled_sources(detected: DetectedFile) -> Iterator[tuple[QuestionColumns, Role, Iterable[Mapping[str, object]]]]:
    """Yield the columns, the role and some rows of each source of a file."""
    for source in detected.sources:
        if source.shape is SourceShape.NESTED:
            yield source.columns, source.role, (row.cells for row in islice(source.table().rows, _MAX_ROWS))
        elif source.role is not Role.ROWS:
            by_name = role_from_names([PurePosixPath(detected.file.name).name]) or Role.PASSAGES
            yield source.columns, by_name if source.role is Role.TEXTS else source.role, source.sample
    if detected.table is not None and all(source.role is Role.ROWS for source in detected.sources):
        yield assign_columns(detected.names, detected.sample), Role.ROWS, detected.sample


def _resolve_object(detected: DetectedFile, others: Sequence[_KnownIds]) -> DetectedFile:
    """Return an object by id in its role. Raises `DataError` for predictions, and for ids that no other file knows."""
    value = _object_value(detected)
    recognised = detected.recognised
    role = detected.sources[0].role if detected.sources else None
    file_name = PurePosixPath(detected.file.name).name
    words = {*tokenize_name(file_name)}
    role_in_name = role_from_names([file_name])
    has_answer = {
        id_: is_answered_elsewhere for other in others for id_, is_answered_elsewhere in other.has_answer.items()
    }
    is_by_question = 2 * len(has_answer.keys() & value.keys()) > len(has_answer)
    if role is Role.JUDGEMENTS:
        passage_ids = {id_ for other in others for id_ in other.passage_ids}
        named = (id_ for ids in value.values() for id_ in ids)
        if words & JUDGEMENT_WORDS or (is_by_question and any(id_ in passage_ids for id_ in named)):
            return detected
    # passages, whose texts are long, may have the same numbers as ids
    lengths = [len(item) for item in value.values() if isinstance(item, str)]
    are_short = not all(map(str.isdigit, value)) or sum(lengths) <= _MAX_ANSWER_LENGTH * len(lengths)
    is_answered = is_by_question and role_in_name is None and objects.may_hold_answers(value)
    if is_answered and any(other.has_passages for other in others) and (words & _ANSWER_WORDS or are_short):
        are_predicted = objects.holds_predictions(value) or is_named_prediction(detected.file.name)
        if recognised is None or are_predicted or any(has_answer.values()):
            raise DataError.from_code(ProblemCode.PREDICTIONS, name=file_name)
        columns = QuestionColumns(id="id", answers="answers")
        rows = objects.ANSWER_NAMES, objects.answers_opener(value), recognised
        return DetectedFile(
            detected.file, [DataSource(detected.file.name, Role.ANSWERS, SourceShape.BY_ID, columns, *rows)], recognised
        )
    keys = {file_key(id_) for id_ in value}
    cells = [names for other in others for names in other.names.values()]
    is_named = any(2 * len(names & keys) > min(len(names), len(keys)) for names in cells)
    if role is Role.TEXTS and is_named:
        return replace(detected, sources=[replace(detected.sources[0], role=Role.PASSAGES)])
    is_by_id = any(source.shape is SourceShape.BY_ID for source in detected.sources)
    if is_by_id and (role is not Role.TEXTS or role_in_name is None):
        json_table(value)  # refuses it: nothing says what the keys are
    return detected
