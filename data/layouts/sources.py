"""A file of a collection: its rows, the roles of its columns, and its role among other files."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple

from mrc_workbench.data.formats.columns import QuestionColumns, is_known, plain_name
from mrc_workbench.data.formats.opening import RecognisedFile, preview_table
from mrc_workbench.data.formats.tables import RawTable, as_text, is_blank
from mrc_workbench.data.layouts import WORDS
from mrc_workbench.data.layouts.cells import Opener, Sample, list_items
from mrc_workbench.data.layouts.lines import has_numbered_ids
from mrc_workbench.data.layouts.references import (
    NameKind,
    PassageNames,
    Reference,
    Role,
    canonical_id,
    file_key,
    reference_columns,
    role_from_names,
)
from mrc_workbench.data.layouts.roles import (
    Selection,
    assign_columns,
    columns_in_use,
    holds_locations,
    holds_texts,
    unique_column,
)
from mrc_workbench.data.layouts.trees import NestedTable

_QUESTION_IDS = WORDS["question_id_columns"]
_PASSAGE_IDS = WORDS["passage_id_columns"]
_IDS = ("id", "num", "number")
_GRADES = WORDS["grade_columns"]
_QUESTIONS = WORDS["question_columns"]
_PASSAGES = WORDS["passage_columns"]
_TEXTS = ("text", "텍스트")
_TITLES = ("title", "headline", "제목")
_KNOWN = {*_QUESTION_IDS, *_PASSAGE_IDS, *_IDS, *_GRADES, *_QUESTIONS, *_PASSAGES, *_TEXTS, *_TITLES}
_MAX_NAME_LENGTH = 200  # characters of a title
_SAMPLE_ROWS = 500
_MAX_JUDGED_ROWS = 20_000
_ROLES_WITH_IDS = (Role.TEXTS, Role.PASSAGES, Role.QUESTIONS)  # roles that judged ids may correct
FindKnownColumn = Callable[..., str | None]  # takes plain names


class SourceShape(StrEnum):
    """The form of a file, from which its layout is detected."""

    TABLE = "table"
    NESTED = "nested"
    PARTS = "parts"  # of a file
    LINES = "lines"
    MARKUP = "markup"
    SMART = "smart"
    AUTORAG = "autorag"
    LLAMA_INDEX = "llama_index"
    RAGAS = "ragas"
    TYDI = "tydi"
    RATINGS = "ratings"
    ENGINE = "engine"
    TRIPLES = "triples"
    DOCUMENT = "document"
    BY_ID = "by_id"  # a JSON object with ids as keys, if other files have these ids


@dataclass(frozen=True)
class DataSource:
    """The rows of a file; each call of `table` opens them again.

    The columns in use depend on the role: passages have `id` and `context`; questions `id`, `question`, and
    `passage_id`; judgements `id` or `question`, `passage_id`, and the grade as `label`; other texts have `context`.
    """

    name: str
    role: Role
    shape: SourceShape
    columns: QuestionColumns
    names: tuple[str, ...]
    table: Opener = field(repr=False)
    recognised: RecognisedFile = field(repr=False)
    first_rows: tuple[dict[str, str], ...] = field(repr=False, default=())
    sample: Sample = field(repr=False, default=())
    part: str = ""  # published part in the name of the file: "train", "validation" or "test"
    references: tuple[Reference, ...] = ()  # columns of questions that name their passages
    metadata: str | None = None  # column with the metadata of an export of this project
    location: str | None = None  # column of passages with the file or address by which questions name them
    ambiguous_label: str = ""  # column of labels that may also be answers

    def first_texts(self, role: str, count: int) -> list[str]:
        """Return the texts of a role's column in the first `count` rows."""
        name = getattr(self.columns, role)
        return [as_text(row.cells.get(name)) for row in islice(self.table().rows, count) if name and not row.problem]


def as_questions(source: DataSource) -> DataSource:
    """Return rows as questions without passages."""
    own = source.columns
    columns = QuestionColumns(id=own.id, question=own.question, answers=own.answers, kind=own.kind, part=own.part)
    return replace(source, role=Role.QUESTIONS, columns=columns)


def holds_passages(source: DataSource) -> bool:
    """Whether the rows of a source hold passages: a corpus, or questions with their passages."""
    return source.role is Role.PASSAGES or (source.role in (Role.QUESTIONS, Role.ROWS) and source.columns.has_passages)


class SourceKind(NamedTuple):
    """The kind of rows in a file."""

    role: Role
    shape: SourceShape = SourceShape.TABLE
    columns: QuestionColumns = QuestionColumns()
    metadata: str | None = None

    def source(self, name: str, opener: Opener, file: RecognisedFile, table: RawTable, sample: Sample) -> DataSource:
        """Return the source of an opened table."""
        source = DataSource(name, self.role, self.shape, self.columns, table.names, opener, file)
        return replace(source, first_rows=table.first, sample=sample, metadata=self.metadata)

    def open_source(self, name: str, opener: Opener, file: RecognisedFile, names: tuple[str, ...] = ()) -> DataSource:
        """Return a source with its first rows; its columns have the given names, or those of its table."""
        table, sample = preview_table(opener())
        source = self.source(name, opener, file, table, sample)
        return replace(source, names=names) if names else source


def is_known_column(name: str) -> bool:
    """Whether a column has a known name."""
    return plain_name(name) in _KNOWN or is_known(name)


def kind_from_selected_columns(selection: Selection, names: Sequence[str], sample: Sample) -> SourceKind | None:
    """Return the kind of rows by the columns that the user named; None if these are not in the file."""
    if not selection:
        return None
    given = assign_columns(names, sample, selection)
    if given.question is None and given.context is not None and given.id is not None:
        columns = QuestionColumns(id=given.id, context=given.context, title=given.title)
        return SourceKind(Role.PASSAGES, columns=columns)
    if given.question is None or given.context is not None or given.positives is not None:
        return SourceKind(Role.ROWS, columns=given)
    columns = QuestionColumns(given.question, id=given.id, answers=given.answers, kind=given.kind)
    return SourceKind(Role.QUESTIONS, columns=columns)


def kind_from_names(names: Sequence[str], sample: Sample) -> SourceKind | None:
    """Return the kind of rows by the names of their columns; None if they are no part of a collection."""
    by_plain = {plain_name(name): name for name in reversed(names)}

    def find_column(*known: str) -> str | None:
        return next((by_plain[name] for name in known if name in by_plain), None)

    kind = _question_kind(find_column)
    columns = assign_columns(names, sample)
    passages = columns.context or columns.positives
    if kind is None and columns.question and passages is not None and holds_texts(passages, sample):
        return SourceKind(Role.ROWS)  # texts of passages, unlike the names of passages in another file
    return kind or _judgement_kind(find_column) or _text_kind(find_column, sample)


def _question_kind(find_column: FindKnownColumn) -> SourceKind | None:
    question = find_column(*_QUESTIONS)
    columns = QuestionColumns(question, id=find_column(*_QUESTION_IDS, *_IDS))
    if question and (groups := find_column("retrievalgt")):
        columns = replace(columns, passage_id=groups, answers=find_column("generationgt"))
        return SourceKind(Role.QUESTIONS, SourceShape.AUTORAG, columns)
    if question and (positives := find_column("positivepassages")):
        columns = replace(columns, positives=positives, negatives=find_column("negativepassages"))
        return SourceKind(Role.QUESTIONS, SourceShape.TYDI, replace(columns, answers=find_column("answers")))
    if (user_input := find_column("userinput")) and (contexts := find_column("referencecontexts")):
        columns = replace(columns, question=user_input, positives=contexts, answers=find_column("reference"))
        return SourceKind(Role.QUESTIONS, SourceShape.RAGAS, replace(columns, kind=find_column("synthesizername")))
    return None


def _judgement_kind(find_column: FindKnownColumn) -> SourceKind | None:
    question_id = find_column(*_QUESTION_IDS)
    passage_id = find_column(*_PASSAGE_IDS)
    grade = find_column(*_GRADES)
    question = find_column(*_QUESTIONS)
    if passage_id is None or find_column(*_PASSAGES, *_TEXTS) is not None:
        return None
    columns = QuestionColumns(question, id=question_id, passage_id=passage_id, label=grade)
    if question_id and question:
        return SourceKind(Role.QUESTIONS, columns=replace(columns, answers=find_column("answers")))
    if not question_id and not (question and grade):
        return None
    return SourceKind(Role.JUDGEMENTS, SourceShape.TABLE if question_id else SourceShape.RATINGS, columns)


def _text_kind(find_column: FindKnownColumn, sample: Sample) -> SourceKind | None:
    """Return the kind of rows with an id and a text. The id of a passage differs in every row."""
    question_id = find_column(*_QUESTION_IDS)
    plain_id = find_column(*_IDS)
    passage_ids = [name for known in _PASSAGE_IDS if (name := find_column(known)) is not None]
    passage_id = unique_column(passage_ids, sample)  # documents and their passages may both have ids
    question = find_column(*_QUESTIONS)
    text = find_column(*_PASSAGES, *_TEXTS)
    metadata = find_column("metadata")
    if question and text is None and (question_id or plain_id):
        columns = QuestionColumns(question, id=question_id or plain_id, answers=find_column("answers"))
        return SourceKind(Role.QUESTIONS, columns=columns, metadata=metadata)
    if question_id and text and not (question or passage_id):
        return SourceKind(Role.QUESTIONS, columns=QuestionColumns(text, id=question_id), metadata=metadata)
    ids = [name for known in (*_PASSAGE_IDS, *_IDS) if (name := find_column(known)) is not None]
    id_ = unique_column(ids, sample)
    if text is None or question or id_ is None:
        return SourceKind(Role.ROWS) if text else None
    title = find_column(*_TITLES)
    is_titled = title is not None and not all(is_blank(row.get(title)) for row in sample)
    is_certain = is_titled or passage_id is not None or find_column(*_PASSAGES) is not None
    columns = QuestionColumns(id=id_, context=text, title=title)
    return SourceKind(Role.PASSAGES if is_certain else Role.TEXTS, columns=columns, metadata=metadata)


def assign_roles(sources: Sequence[DataSource]) -> list[DataSource]:
    """Return the sources with their roles: by judged ids, which overrule tags and names, by names, by text lengths."""
    judgements = [source for source in sources if source.role is Role.JUDGEMENTS and source.columns.id]
    judged = {
        role: {canonical_id(id_) for source in judgements for id_ in source.first_texts(name, _MAX_JUDGED_ROWS) if id_}
        for role, name in ((Role.QUESTIONS, "id"), (Role.PASSAGES, "passage_id"))
    }
    sources = [_with_judged_id_column(source, judged[Role.PASSAGES]) for source in sources]
    by_ids = [_role_by_ids(source, judged) for source in sources]
    roles_by_ids = {role for source, role in zip(sources, by_ids, strict=True) if source.role in _ROLES_WITH_IDS}
    is_certain = Role.QUESTIONS in by_ids and bool(roles_by_ids - {Role.QUESTIONS})
    roles = [_resolve_role(source, role, is_certain=is_certain) for source, role in zip(sources, by_ids, strict=True)]
    unresolved = [row for row, role in enumerate(roles) if role is Role.TEXTS]
    texts = [sources[row].first_texts("context", _SAMPLE_ROWS) for row in unresolved]
    lengths = [sum(map(len, values)) / max(1, len(values)) for values in texts]
    has_passages = Role.PASSAGES in roles
    for row, length in zip(unresolved, lengths, strict=True):
        is_question = has_passages or (len(lengths) > 1 and length < max(lengths))
        roles[row] = Role.QUESTIONS if is_question else Role.PASSAGES
    return [_with_role(source, role) for source, role in zip(sources, roles, strict=True)]


def _with_judged_id_column(source: DataSource, judged: set[str]) -> DataSource:
    """Return a corpus with the column of ids that judgements name, if the sample shows such a column."""
    columns = source.columns
    if source.role is not Role.PASSAGES or not judged:
        return source
    taken = {columns.context, columns.title, source.metadata}
    free = [name for name in source.names if name not in taken]
    hits = {name: len(judged & {canonical_id(as_text(row.get(name))) for row in source.sample}) for name in free}
    best = max(hits, key=lambda name: (hits[name], name == columns.id), default=None)
    return replace(source, columns=replace(columns, id=best)) if best is not None and hits[best] else source


def _resolve_role(source: DataSource, by_ids: Role | None, *, is_certain: bool) -> Role:
    if is_certain and by_ids is not None:
        return by_ids
    if source.role is not Role.TEXTS:
        return source.role
    *folders, name = PurePosixPath(source.name).parts or ("",)
    return role_from_names([name]) or by_ids or role_from_names(folders) or Role.TEXTS


def _role_by_ids(source: DataSource, judged: Mapping[Role, Collection[str]]) -> Role | None:
    """Return the role with the judged ids of the source; if both roles match, the one with all ids in the source."""
    id_column = source.columns.id
    if source.role not in _ROLES_WITH_IDS or id_column is None or not all(judged.values()):
        return None
    sampled_ids = [canonical_id(as_text(row.get(id_column))) for row in source.sample]
    hits = {role: sum(id_ in ids for id_ in sampled_ids) for role, ids in judged.items()}
    roles = [role for role, count in hits.items() if count]
    if len(roles) == 1:
        return roles[0] if 2 * hits[roles[0]] >= len(sampled_ids) else None
    if not roles or source.role is not Role.TEXTS or role_from_names([PurePosixPath(source.name).name]):
        return None
    all_ids = {canonical_id(id_) for id_ in source.first_texts("id", _MAX_JUDGED_ROWS)}
    complete = [role for role, ids in judged.items() if all_ids.issuperset(ids)]
    return complete[0] if len(complete) == 1 else None


def _with_role(source: DataSource, role: Role) -> DataSource:
    """Return the source in a role; a question without a text is in the title of its entry."""
    columns = source.columns
    if role is source.role:
        return source
    if role is Role.PASSAGES:
        return replace(source, role=role, columns=replace(columns, context=columns.context or columns.question))
    is_blank_text = all(is_blank(row.get(columns.context or "")) for row in source.sample)
    if source.role is Role.PASSAGES and columns.context and columns.title and is_blank_text:
        columns = replace(columns, context=columns.title, title=None)
    return replace(source, role=role, columns=replace(columns, question=columns.context, context=None))


def is_standalone(source: DataSource) -> bool:
    """Whether a single file is read as a collection, and not as rows of questions and passages."""
    if source.shape is SourceShape.LINES and source.role is Role.TEXTS:
        return has_numbered_ids(source.table())
    if source.shape in (SourceShape.NESTED, SourceShape.BY_ID):
        return False
    if source.shape is not SourceShape.TABLE or source.role is Role.JUDGEMENTS:
        return True
    return source.role is Role.PASSAGES and plain_name(source.columns.id or "") in _PASSAGE_IDS


def with_references(source: DataSource, passages: PassageNames, selection: Selection) -> DataSource:
    """Return a source of questions with its columns that name passages by id, file or title; others unchanged."""
    columns = source.columns
    if source.role is Role.ROWS:
        context = columns.context or columns.positives or ""
        names = (as_text(item) for row in source.sample for item in list_items(row.get(context)))
        is_named = "context" in selection or "positives" in selection
        is_certain = is_named or any(len(name) > _MAX_NAME_LENGTH for name in names)
        references = () if is_certain else naming_columns(source, passages)
        return replace(as_questions(source), references=references) if references else source
    if source.role is not Role.QUESTIONS or columns.positives or source.shape is SourceShape.AUTORAG:
        return source
    used = _used_columns(source)
    free = [columns.passage_id] if columns.passage_id else [name for name in source.names if name not in used]
    references = reference_columns(free, source.sample, passages) if free else ()
    if columns.passage_id and not references:
        references = (Reference(columns.passage_id, NameKind.ID),)  # unknown ids are reported
    return replace(source, references=references)


def with_locations(sources: Sequence[DataSource]) -> list[DataSource]:
    """Return the sources; passages get their column of file names or addresses, if questions name any."""
    asking = [source for source in sources if source.role is Role.QUESTIONS or source.columns.question is not None]
    named = {value for source in asking for name in source.names for value in _locations(name, source)}
    located = []
    for source in sources:
        used = {*source.names} if source in asking or not named else _used_columns(source)
        columns = {name: values for name in source.names if name not in used and (values := _locations(name, source))}
        best = max(columns, key=lambda name: len(named.intersection(columns[name])), default=source.location)
        located.append(replace(source, location=best))
    return located


def _locations(name: str, source: DataSource) -> list[str]:
    if not holds_locations(name, source.sample):
        return []
    return [file_key(as_text(item)) for row in source.sample for item in list_items(row.get(name))]


def naming_columns(source: DataSource, passages: PassageNames) -> tuple[Reference, ...]:
    """Return the columns of rows that name passages of another file; empty if the rows hold their passages."""
    columns = source.columns
    context = columns.context or columns.positives
    is_table = source.role is Role.ROWS and source.shape is not SourceShape.NESTED
    if not is_table or columns.question is None or context is None:
        return ()
    names = [context] if columns.negatives is None else [context, columns.negatives]
    references = reference_columns(names, source.sample, passages)
    return references if any(reference.column == context for reference in references) else ()


class ColumnReport(NamedTuple):
    """The columns and keys of the input by use."""

    used_columns: tuple[str, ...]
    metadata_columns: tuple[str, ...]
    unused_columns: tuple[str, ...]


def column_report(source: DataSource) -> ColumnReport:
    """Return the columns and keys of a source by use. The keys of nested data are complete after the last row."""
    table = source.table() if source.role is Role.ROWS else None
    if isinstance(table, NestedTable):
        return ColumnReport(**table.keys.columns())
    used = _used_columns(source)
    metadata = {name for name in (source.columns.kind, source.metadata) if name is not None}
    return ColumnReport(
        (*(name for name in source.names if name in used - metadata), *(table.joined if table else ())),
        tuple(name for name in source.names if name in metadata),
        (*(name for name in source.names if name not in used), *(table.skipped if table else ())),
    )


def join_reports(reports: Mapping[str, ColumnReport]) -> ColumnReport:
    """Join the reports of files. A column with different uses in several files is reported with its file."""
    used = dict.fromkeys(name for report in reports.values() for name in report.used_columns)
    named_metadata = ((file, name) for file, report in reports.items() for name in report.metadata_columns)
    metadata = _qualify_names(named_metadata, {*used})
    unused = ((file, name) for file, report in reports.items() for name in report.unused_columns)
    return ColumnReport(tuple(used), metadata, _qualify_names(unused, {*used, *metadata}))


def _qualify_names(columns: Iterable[tuple[str, str]], taken: set[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{file}: {name}" if name in taken else name for file, name in columns))


def _used_columns(source: DataSource) -> set[str]:
    columns = [*(reference.column for reference in source.references), source.metadata, source.location]
    return columns_in_use(source.columns, source.names) | {name for name in columns if name}
