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
from mrc_workbench.data.formats.columns import Columns, plain_name, require_columns
from mrc_workbench.data.formats.opening import Format, set_name, told_of
from mrc_workbench.data.formats.tables import answers_in, as_text, is_collection, shown
from mrc_workbench.data.formats.text_tables import json_table
from mrc_workbench.data.layouts import objects
from mrc_workbench.data.layouts.cells import list_items
from mrc_workbench.data.layouts.exports import is_named_prediction
from mrc_workbench.data.layouts.members import dataset_name, require_one_collection, set_aside, with_parts
from mrc_workbench.data.layouts.references import JUDGEMENT_WORDS, PassageNames, Role, file_key, role_by_name, words_of
from mrc_workbench.data.layouts.roles import Chosen, assign_columns, candidate_columns, holds_texts, missing_passages
from mrc_workbench.data.layouts.sighting import Sighted, holds_dataset, row_source, sight, with_file_ids, with_sheets
from mrc_workbench.data.layouts.sources import (
    Shape,
    Source,
    as_questions,
    holds_passages,
    naming_columns,
    stands_alone,
    with_locations,
    with_roles,
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
_MOST_ROWS = 20_000  # of nested data that are looked at
_LONGEST_ANSWER, _LONGEST_NAME = 200, 200  # characters
_LACKING = (ProblemCode.NO_PASSAGES, ProblemCode.ONLY_JUDGEMENTS)
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


@dataclass(frozen=True)
class SelectedSources:
    """The sources of a dataset in the order they are read, and why others are `aside`; one table has no `layout`."""

    sources: tuple[Source, ...]
    name: str
    layout: Layout | None = None
    aside: tuple[Problem, ...] = ()


def select_sources(files: Sequence[File], name: str, chosen: Chosen) -> SelectedSources:
    """Select the sources of a dataset; `name` is its name if no file has one, and `chosen` names columns by role.

    Raises `DataError`, whose detail `file` names one of several files, if files cannot be read or are no dataset.
    """
    files, notices = set_aside(files)
    found = _selected(files, name, chosen)
    return replace(found, aside=(*found.aside, *notices))


def select_rows(seen: Sighted, name: str, chosen: Chosen, aside: Sequence[Problem] = ()) -> SelectedSources:
    """Return the one file whose rows hold questions and passages."""
    source = row_source(seen, chosen)
    return SelectedSources((source,), set_name(name or seen.file.name, "questions"), aside=tuple(aside))


def _selected(files: Sequence[File], name: str, chosen: Chosen) -> SelectedSources:
    seen: list[Sighted] = []
    refused: list[DataError] = []
    for file in files:
        try:
            with told_of(file.name, files):
                seen += with_sheets(sight(file, chosen, is_alone=len(files) == 1), chosen)
        except DataError as error:
            refused.append(error)
    if not seen:
        raise _all_refused(refused)
    require_columns(chosen, [column for known in seen for column in known.names])
    try:
        return _together(with_file_ids(seen), [error.problem for error in refused], name, chosen)
    except DataError as error:
        if refused and error.problem.code in _LACKING:
            raise _all_refused(refused) from error  # what is lacking may be in there
        raise


def _all_refused(errors: Sequence[DataError]) -> DataError:
    """Return the error of the first file, and with it the problems of all files if there are several."""
    files = [error.problem for error in errors] if len(errors) > 1 else []
    return DataError(errors[0].problem, [*errors[0].others, *files])


def _together(files: Sequence[Sighted], refused: Sequence[Problem], name: str, chosen: Chosen) -> SelectedSources:
    """Select from files whose content is known; `refused` says why the files beside them are not read."""
    file_names = [seen.file.name for seen in files]
    if any(problem.code is ProblemCode.BROKEN_ARCHIVE for problem in refused):
        has_dataset = any(seen.table is not None and holds_dataset(seen.table, seen.sample) for seen in files)
        if not has_dataset and not any(holds_passages(source) for seen in files for source in seen.sources):
            raise _no_passages([], file_names)  # the broken files may hold them
    if len(files) == 1 and not (files[0].sources and stands_alone(files[0].sources[0])):
        return select_rows(files[0], name, chosen, refused)
    files, unread = with_objects_by_id(files)
    sources, aside = _sources(files, chosen)
    sources, describing = without_describing_documents(sources)
    aside = [*refused, *unread, *aside, *describing]
    rows = [source for source in sources if source.role is Role.ROWS]
    if len(sources) == len(rows) == 1:
        return select_rows(next(seen for seen in files if seen.file.name == rows[0].name), name, chosen, aside)
    sources = with_locations(with_parts(with_roles(sources)))
    require_one_collection(sources)
    if not any(map(holds_passages, sources)):
        _require_passage_column(files, sources, chosen)
        raise _no_passages(sources, file_names)
    order = (Role.PASSAGES, Role.ROWS, Role.QUESTIONS, Role.ANSWERS, Role.JUDGEMENTS)
    sources.sort(key=lambda source: (order.index(source.role), source.columns.question is not None))
    layout = _layout(sources)
    names = {source.name for source in sources}
    read = [seen.file for seen in files if names & {seen.file.name, *(source.name for source in seen.sources)}]
    return SelectedSources(tuple(sources), dataset_name(read, name, layout.label), layout, tuple(aside))


def _sources(files: Sequence[Sighted], chosen: Chosen) -> tuple[list[Source], list[Problem]]:
    """Return the sources of all files, and why some files have none."""
    sources: list[Source] = []
    problems: list[Problem] = []
    texts: list[str] = []
    for seen in files:
        if seen.sources and seen.sources[0].role is not Role.ROWS:
            sources += seen.sources
        elif seen.recognised is None or seen.recognised.format is Format.TEXT:
            texts.append(seen.file.name)
        else:
            try:
                with told_of(seen.file.name, files):
                    sources.append(source_beside_others(seen, chosen))
            except DataError as error:
                problems.append(error.problem)
    return sources, [*problems, *id_problems(ProblemCode.LEFT_ASIDE, texts)]


def source_beside_others(seen: Sighted, chosen: Chosen) -> Source:
    """Return the source of a file that its columns make no collection, read beside others.

    Rows without a passage are questions; other files may hold what they name. Raises `DataError` if it has neither.
    """
    source = row_source(seen, {role: name for role, name in chosen.items() if name in seen.names})
    columns = source.columns
    if columns.has_passages:
        return source
    asked = [as_text(row.get(columns.question or "")) for row in source.sample]
    are_ids = all(text.isascii() and len(text.split()) <= 1 for text in asked)  # single words
    if columns.question is None or are_ids:
        cells = (as_text(cell) for row in source.sample for cell in row.values() if not is_collection(cell))
        code = ProblemCode.NO_KNOWN_COLUMN if any(" " in cell for cell in cells) else ProblemCode.ONLY_IDS
        raise DataError.of(code, found=shown(", ".join(source.names), 300))
    return as_questions(source)


def without_describing_documents(sources: Sequence[Source]) -> tuple[list[Source], tuple[Problem, ...]]:
    """Return the sources without the documents beside passages of another file, which they describe; report them."""
    names = [source.name for source in sources if source.shape is Shape.DOCUMENT]
    documents = PassageNames({name: position for position, name in enumerate(names)}, lambda: ())
    if names:
        sources = [as_questions(source) if naming_columns(source, documents) else source for source in sources]
    others = [source for source in sources if source.shape is not Shape.DOCUMENT]
    known = with_roles(others)  # texts with ids alone, such as questions about the documents, are not yet passages
    is_collection = any(source.role is Role.QUESTIONS for source in known) and any(map(holds_passages, known))
    if not is_collection and not any(map(holds_passages, others)):
        return list(sources), ()
    return others, id_problems(ProblemCode.DESCRIBING_DOCUMENTS, names)


def _require_passage_column(files: Sequence[Sighted], sources: Sequence[Source], chosen: Chosen) -> None:
    """Raise `DataError` if all files are tables of questions with a column that may hold the passages, as a FAQ has."""
    names = {source.name for source in sources}
    tables = [seen for seen in files if seen.file.name in names and not seen.sources]
    for seen in tables if len(tables) >= len(sources) else ():
        source = row_source(seen, chosen)
        table = source.columns, source.names, source.sample
        candidates = [columns.context or "" for columns in candidate_columns(*table)]
        if any(name == source.columns.answers or holds_texts(name, source.sample) for name in candidates):
            with told_of(seen.file.name, files):
                raise missing_passages(*table)


def _no_passages(sources: Sequence[Source], names: Sequence[str]) -> DataError:
    judging = [source.role is Role.JUDGEMENTS or source.shape in (Shape.RATINGS, Shape.ENGINE) for source in sources]
    code = ProblemCode.ONLY_JUDGEMENTS if judging and all(judging) else ProblemCode.NO_PASSAGES
    found = dict.fromkeys(source.name.partition(": ")[0] for source in sources) or names
    return DataError.of(code, found=shown(", ".join(found), 200))


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


@dataclass
class _KnownIds:
    """What a file says of ids: which questions have an answer, and what else its columns name."""

    has_answer: dict[str, bool] = field(default_factory=dict)
    names: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    passage_ids: set[str] = field(default_factory=set)
    has_passages: bool = False


def with_objects_by_id(files: Sequence[Sighted]) -> tuple[list[Sighted], tuple[Problem, ...]]:
    """Return the files, objects by ids of other files in their roles, and why some of these are not read."""
    if len(files) == 1 or not any(map(_object, files)):
        return list(files), ()
    known = [_known_ids(seen) for seen in files]
    settled: list[Sighted] = []
    aside: list[Problem] = []
    for number, seen in enumerate(files):
        others = [*known[:number], *known[number + 1 :]]
        try:
            with told_of(seen.file.name, files):
                is_object = bool(_object(seen)) and not known[number].has_answer
                settled.append(_settled(seen, others) if is_object else seen)
        except DataError as error:
            aside.append(error.problem)
    return settled, tuple(aside)


def _object(seen: Sighted) -> dict[str, Any]:
    """Return the object of a file that may be one by id, {} for any other file."""
    value = seen.recognised.value if seen.recognised is not None else None
    is_nested = any(source.shape is Shape.NESTED for source in seen.sources)
    return value if isinstance(value, dict) and not is_nested else {}


def _known_ids(seen: Sighted) -> _KnownIds:
    known = _KnownIds()
    for columns, role, rows in _sampled_sources(seen):
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
                    known.names[column].update(file_key(text) for text in texts if 0 < len(text) <= _LONGEST_NAME)
    return known


def _sampled_sources(seen: Sighted) -> Iterator[tuple[Columns, Role, Iterable[Mapping[str, object]]]]:
    """Yield the columns, the role and some rows of each source of a file."""
    for source in seen.sources:
        if source.shape is Shape.NESTED:
            yield source.columns, source.role, (row.cells for row in islice(source.table().rows, _MOST_ROWS))
        elif source.role is not Role.ROWS:
            by_name = role_by_name([PurePosixPath(seen.file.name).name]) or Role.PASSAGES
            yield source.columns, by_name if source.role is Role.TEXTS else source.role, source.sample
    if seen.table is not None and all(source.role is Role.ROWS for source in seen.sources):
        yield assign_columns(seen.names, seen.sample), Role.ROWS, seen.sample


def _settled(seen: Sighted, others: Sequence[_KnownIds]) -> Sighted:
    """Return an object by id in its role. Raises `DataError` for predictions, and for ids that no other file knows."""
    value, recognised = _object(seen), seen.recognised
    role = seen.sources[0].role if seen.sources else None
    file_name = PurePosixPath(seen.file.name).name
    words = {*words_of(file_name)}
    role_in_name = role_by_name([file_name])
    has_answer = {id_: has for other in others for id_, has in other.has_answer.items()}
    is_by_question = 2 * len(has_answer.keys() & value.keys()) > len(has_answer)
    if role is Role.JUDGEMENTS:
        passage_ids = {id_ for other in others for id_ in other.passage_ids}
        named = (id_ for ids in value.values() for id_ in ids)
        if words & JUDGEMENT_WORDS or (is_by_question and any(id_ in passage_ids for id_ in named)):
            return seen
    # passages, whose texts are long, may have the same numbers as ids
    lengths = [len(item) for item in value.values() if isinstance(item, str)]
    are_short = not all(map(str.isdigit, value)) or sum(lengths) <= _LONGEST_ANSWER * len(lengths)
    is_answered = is_by_question and role_in_name is None and objects.may_hold_answers(value)
    if is_answered and any(other.has_passages for other in others) and (words & _ANSWER_WORDS or are_short):
        are_predicted = objects.holds_predictions(value) or is_named_prediction(seen.file.name)
        if recognised is None or are_predicted or any(has_answer.values()):
            raise DataError.of(ProblemCode.PREDICTIONS, name=file_name)
        columns = Columns(id="id", answers="answers")
        rows = objects.ANSWER_NAMES, objects.answers_opener(value), recognised
        return Sighted(seen.file, [Source(seen.file.name, Role.ANSWERS, Shape.BY_ID, columns, *rows)], recognised)
    keys = {file_key(id_) for id_ in value}
    cells = [names for other in others for names in other.names.values()]
    is_named = any(2 * len(names & keys) > min(len(names), len(keys)) for names in cells)
    if role is Role.TEXTS and is_named:
        return replace(seen, sources=[replace(seen.sources[0], role=Role.PASSAGES)])
    is_by_id = any(source.shape is Shape.BY_ID for source in seen.sources)
    if is_by_id and (role is not Role.TEXTS or role_in_name is None):
        json_table(value)  # refuses it: nothing says what the keys are
    return seen
