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
from mrc_workbench.data.layouts.references import (
    JUDGEMENT_WORDS,
    PassageNames,
    Role,
    file_key,
    reference_columns,
    role_by_name,
    words_of,
)
from mrc_workbench.data.layouts.roles import Chosen, assign_columns, candidate_columns, holds_texts, missing_passages
from mrc_workbench.data.layouts.sighting import (
    SeenFiles,
    Sighted,
    holds_dataset,
    row_source,
    sighted_file,
    with_document_ids,
    with_sheets,
)
from mrc_workbench.data.layouts.sources import (
    Shape,
    Source,
    as_questions,
    holds_passages,
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
    return SelectedSources(tuple(sources), dataset_name(read, name, layout.label), layout, tuple(aside))


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


def source_beside_others(file: File, seen: Sighted, chosen: Chosen) -> Source:
    """Return the source of a file that its columns make no collection, read beside others.

    Rows without a passage are questions; other files may hold what they name. Raises `DataError` if it has neither.
    """
    given = {role: name for role, name in chosen.items() if name in seen.names}
    source = row_source(file, seen, given)
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
class _Known:
    """What a file says of ids: which questions have an answer, and what else its columns name."""

    has_answer: dict[str, bool] = field(default_factory=dict)
    names: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    passage_ids: set[str] = field(default_factory=set)
    has_passages: bool = False


def with_objects_by_id(
    seen: SeenFiles,
) -> tuple[list[tuple[File, Sighted]], tuple[Problem, ...]]:
    """Return the files, objects by id in their roles, and why some of these objects are not read.

    Keys may be ids of questions or passages in other files. By questions an object holds judgements or answers.
    """
    if len(seen) == 1 or not any(_object(one) for _, one in seen):
        return list(seen), ()
    known = [_known(file.name, one) for file, one in seen]
    settled: list[tuple[File, Sighted]] = []
    aside: list[Problem] = []
    for number, (file, one) in enumerate(seen):
        others = [*known[:number], *known[number + 1 :]]
        try:
            with told_of(file.name, seen):
                is_object = bool(_object(one)) and not known[number].has_answer
                settled.append((file, _settled(file.name, one, others) if is_object else one))
        except DataError as error:
            aside.append(error.problem)
    return settled, tuple(aside)


def _object(one: Sighted) -> dict[str, Any]:
    """Return the object of a file that may be one by id, {} for any other file."""
    value = one.recognised.value if one.recognised is not None else None
    is_nested = any(source.shape is Shape.NESTED for source in one.sources)
    return value if isinstance(value, dict) and not is_nested else {}


def _known(name: str, one: Sighted) -> _Known:
    known = _Known()
    for columns, role, rows in _readings(name, one):
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


def _readings(name: str, one: Sighted) -> Iterator[tuple[Columns, Role, Iterable[Mapping[str, object]]]]:
    """Yield the columns, the role and some rows of each source of a file."""
    for source in one.sources:
        if source.shape is Shape.NESTED:
            yield source.columns, source.role, (row.cells for row in islice(source.table().rows, _MOST_ROWS))
        elif source.role is not Role.ROWS:
            by_name = role_by_name([PurePosixPath(name).name]) or Role.PASSAGES
            yield source.columns, by_name if source.role is Role.TEXTS else source.role, source.sample
    if one.table is not None and all(source.role is Role.ROWS for source in one.sources):
        yield assign_columns(one.names, one.sample), Role.ROWS, one.sample


def _settled(name: str, one: Sighted, others: Sequence[_Known]) -> Sighted:
    """Return an object by id in its role. Raises `DataError` for predictions, and for ids that no other file knows."""
    value, recognised = _object(one), one.recognised
    role = one.sources[0].role if one.sources else None
    is_by_id = any(source.shape is Shape.BY_ID for source in one.sources)
    file_name = PurePosixPath(name).name
    words = {*words_of(file_name)}
    role_in_name = role_by_name([file_name])
    has_answer = {id_: has for other in others for id_, has in other.has_answer.items()}
    is_by_question = 2 * len(has_answer.keys() & value.keys()) > len(has_answer)
    if role is Role.JUDGEMENTS and (words & JUDGEMENT_WORDS or (is_by_question and _names_any(value, others))):
        return one
    is_answered = is_by_question and role_in_name is None and objects.may_hold_answers(value)
    if is_answered and any(other.has_passages for other in others) and (words & _ANSWER_WORDS or _are_answers(value)):
        are_predicted = objects.holds_predictions(value) or is_named_prediction(name)
        if recognised is None or are_predicted or any(has_answer.values()):
            raise DataError.of(ProblemCode.PREDICTIONS, name=file_name)
        columns = Columns(id="id", answers="answers")
        given = objects.ANSWER_NAMES, objects.answers_opener(value), recognised
        return Sighted([Source(name, Role.ANSWERS, Shape.BY_ID, columns, *given)], recognised)
    keys = {file_key(id_) for id_ in value}
    cells = [names for other in others for names in other.names.values()]
    is_named = any(2 * len(names & keys) > min(len(names), len(keys)) for names in cells)
    if role is Role.TEXTS and is_named:
        return replace(one, sources=[replace(one.sources[0], role=Role.PASSAGES)])
    if is_by_id and (role is not Role.TEXTS or role_in_name is None):
        json_table(value)  # refuses it: nothing says what the keys are
    return one


def _names_any(value: Mapping[str, Any], others: Sequence[_Known]) -> bool:
    """Whether lists of ids, or grades by id, name any passage of the other files."""
    return any(id_ in other.passage_ids for ids in value.values() for id_ in ids for other in others)


def _are_answers(value: Mapping[str, Any]) -> bool:
    """Whether the values by question are answers; passages, whose texts are long, may have the same numbers as ids."""
    lengths = [len(item) for item in value.values() if isinstance(item, str)]
    return not all(map(str.isdigit, value)) or sum(lengths) <= _LONGEST_ANSWER * len(lengths)


def without_describing_documents(sources: Sequence[Source]) -> tuple[list[Source], tuple[Problem, ...]]:
    """Return the sources without the documents beside passages of another file, which they describe; report them."""
    names = [source.name for source in sources if source.shape is Shape.DOCUMENT]
    sources = [_as_naming(source, names) for source in sources] if names else sources
    others = [source for source in sources if source.shape is not Shape.DOCUMENT]
    known = with_roles(others)  # texts with ids alone, such as questions about the documents, are not yet passages
    is_collection = any(source.role is Role.QUESTIONS for source in known) and any(map(holds_passages, known))
    if not is_collection and not any(map(holds_passages, others)):
        return list(sources), ()
    return others, id_problems(ProblemCode.DESCRIBING_DOCUMENTS, names)


def _as_naming(source: Source, names: Sequence[str]) -> Source:
    """Return rows as questions if what seemed to be their passages are names of documents."""
    columns = source.columns
    context = columns.context or columns.positives
    if source.role is not Role.ROWS or columns.question is None or context is None:
        return source
    documents = PassageNames({name: position for position, name in enumerate(names)}, lambda: ())
    return as_questions(source) if reference_columns([context], source.sample, documents) else source
