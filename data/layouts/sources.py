"""What one file of a collection holds: passages, questions, judgements, or rows that hold several of them.

It is told by the names of columns and by the look of some rows. Where an id and a text are all there is, the file may
be of passages or of questions; which one, its fellows tell (`data.layouts.reading`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import islice

from data.apart import File
from data.formats.columns import Columns, is_known, plain_name, require_columns
from data.formats.opening import Format, RecognisedFile, looked_at, recognise, table_opener
from data.formats.tables import Table, as_text, is_blank, shown
from data.formats.text import EncodedText
from data.layouts.columns.passage_columns import with_passage_columns
from data.layouts.columns.references import Reference
from data.layouts.columns.roles import assign_columns, holds_texts, unique_column
from data.layouts.nested.dictionaries import (
    JUDGEMENT_NAMES,
    PASSAGE_NAMES,
    QUESTION_NAMES,
    Dictionaries,
    dictionaries_in,
)
from data.layouts.nested.objects import object_openers
from data.layouts.nested.trees import NESTED_COLUMNS, NestedTable, nested_opener, nested_rows_opener
from data.layouts.programs.engines import (
    ASKED_NAMES,
    RATING_NAMES,
    Ratings,
    documents_opener,
    holds_rated_lines,
    rated_lines,
    ratings_in,
)
from data.layouts.programs.exports import export_opener, refuse_predictions
from data.layouts.programs.lines import (
    DOCUMENT_NAMES,
    TOPIC_NAMES,
    Lines,
    document_table,
    has_numbers,
    holds_documents,
    holds_topics,
    line_rows,
    lines_of_a_kind,
    topic_table,
)
from data.layouts.programs.smart import ID, TEXT, TITLE, holds_smart_entries, smart_table
from data.problems import DataError, ProblemCode


class Role(StrEnum):
    """What the rows of a file are."""

    PASSAGES = "passages"
    QUESTIONS = "questions"
    JUDGEMENTS = "judgements"
    TEXTS = "texts"  # ids and texts: passages or questions
    ROWS = "rows"  # a question with its passage each, as the files have that are read one by one


class Shape(StrEnum):
    """How a file holds it, where that tells whose layout it is."""

    TABLE = "table"
    NESTED = "nested"
    PARTS = "parts"  # of one file
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


@dataclass(frozen=True)
class Fields:
    """The name of the column for each role, None where there is none."""

    id: str | None = None
    text: str | None = None
    title: str | None = None
    answers: str | None = None
    kind: str | None = None
    metadata: str | None = None
    question: str | None = None  # its text, in rows that have no id of it
    question_id: str | None = None
    passage_id: str | None = None
    grade: str | None = None
    groups: str | None = None  # of ids: AND between them, OR within
    positive: str | None = None  # texts, or objects with an id and a text
    negative: str | None = None
    part: str | None = None  # the published one of a question
    judged: str | None = None  # ids of passages, beside the question
    context: None = None  # answers are in no passage of their row


@dataclass(frozen=True)
class Source:
    """The rows of a file, to be read anew at each call of `table`."""

    name: str
    role: Role
    shape: Shape
    fields: Fields | Columns
    names: tuple[str, ...]
    table: Callable[[], Table] = field(repr=False)
    recognised: RecognisedFile = field(repr=False)
    first_rows: tuple[dict[str, str], ...] = field(repr=False, default=())
    sample: Sequence[Mapping[str, object]] = field(repr=False, default=())
    part: str = ""  # the published one that the name of the file tells: "train", "validation" or "test"
    references: tuple[Reference, ...] = ()  # columns of questions that name their passages

    def first(self, role: str, count: int) -> list[str]:
        """Return the texts of a role's column in so many rows at the beginning."""
        name = getattr(self.fields, role)
        return [as_text(row.cells.get(name)) for row in islice(self.table().rows, count) if name and not row.problem]


Told = tuple[Role | None, Shape, Fields]  # what rows are by the names of their columns

_QUESTION_IDS = ("queryid", "qid", "questionid", "topicid", "topic")
_PASSAGE_IDS = ("corpusid", "docid", "docno", "pid", "passageid", "documentid", "did")
_IDS = ("id", "num", "number")
_GRADES = (
    "score", "relevance", "relevancelabel", "relevancegrade", "rel", "grade", "label", "rating", "judgment",
    "judgement", "관련도", "점수", "평점",
)  # fmt: skip
_QUESTIONS = ("query", "question", "querytext", "questiontext", "질문", "질의", "검색어")
_PASSAGES = ("contents", "content", "passage", "passagetext", "body", "segment", "context", "document", "지문", "본문")
_TEXTS = ("text", "텍스트")
_TITLES = ("title", "headline", "제목")
_KNOWN = {*_QUESTION_IDS, *_PASSAGE_IDS, *_IDS, *_GRADES, *_QUESTIONS, *_PASSAGES, *_TEXTS, *_TITLES}
_LLAMA_INDEX = ("queries", "corpus", "relevant_docs")
_PASSAGE_ROLES = ("context", "positives", "candidates")
_ROLE_OF_LIST = {
    **dict.fromkeys(("questions", "queries", "topics"), Role.QUESTIONS),
    **dict.fromkeys(("corpus", "documents", "docs", "passages", "collection", "contexts"), Role.PASSAGES),
}


def knows(name: str) -> bool:
    """Whether a column of this name is known to hold something."""
    return plain_name(name) in _KNOWN or is_known(name)


@dataclass(frozen=True)
class Sighted:
    """What was seen of a file: its sources, none where it is of no collection; and its table, open at the first row."""

    sources: Sequence[Source]
    recognised: RecognisedFile | None = None
    table: Table | None = None
    sample: Sequence[Mapping[str, object]] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the file."""
        return self.table.names if self.table else tuple(name for source in self.sources for name in source.names)


def sighted(file: File, chosen: Mapping[str, str | None] | None = None) -> Sighted:
    """Tell what a file holds; `chosen` names columns by role. Raises `DataError` where it is broken."""
    is_text = not file.content.start.startswith((b"PAR1", b"PK", bytes.fromhex("D0CF11E0")))
    try:
        text = EncodedText(file.content, file.content.encoding) if is_text else None
    except DataError:
        text = None  # its reader tells of the encoding
    if text is not None and (found := _text_sources(file.name, text)):
        return Sighted(found)
    recognised = recognise(file.content, knows, file.name)
    if (ratings := ratings_in(recognised.value)) is not None:
        return Sighted(_rated(file.name, ratings, recognised))
    opener = documents_opener(recognised) or export_opener(recognised)
    if opener is None:
        if (seen := _tables_of(file.name, recognised)) is not None:
            return seen
        value, openers = recognised.value, object_openers(recognised)
        if not openers and isinstance(value, dict) and told_by_names(tuple(value), [value])[0] not in (None, Role.ROWS):
            recognised = replace(recognised, format=Format.JSONL, value=None)  # a line is all there is
        opener = openers.get("") or table_opener(file.content, recognised)
    table, sample = looked_at(opener())
    if (nested := nested_rows_opener(opener, sample)) is not None:
        return Sighted([_nested(file.name, recognised, nested)], recognised)
    refuse_predictions(table.names, file.name)
    given = {role: name for role, name in (chosen or {}).items() if name in table.names}
    by_user = told_by_columns(given, table.names, sample)
    role, shape, fields = by_user or told_by_names(table.names, sample)
    if table.roles and by_user is None and role not in (None, Role.ROWS):
        role = Role.ROWS
    source = Source(file.name, role or Role.ROWS, shape, fields, table.names, opener, recognised, table.first, sample)
    return Sighted([source] if role else [], recognised, table, sample)


def _tables_of(name: str, recognised: RecognisedFile) -> Sighted | None:
    """What is seen of a file that holds other tables than one of rows; None for one table."""
    if recognised.format is Format.TEXT:
        return Sighted([], recognised)
    if (nested := nested_opener(recognised)) is not None:
        return Sighted([_nested(name, recognised, nested)], recognised)
    if (dictionaries := dictionaries_in(recognised)) is not None:
        return Sighted(_dictionaries(name, recognised, dictionaries))
    openers = object_openers(recognised)
    return _parts(name, recognised, openers) if len(openers) > 1 else None


def row_source(file: File, seen: Sighted, chosen: Mapping[str, str | None]) -> Source:
    """Return the source of a file whose rows hold questions and passages; `chosen` names columns by role.

    Raises `DataError` if no column is known to hold the passages.
    """
    recognised = seen.recognised or recognise(file.content, name=file.name)
    if nested := [source for source in seen.sources if source.shape is Shape.NESTED]:
        return nested[0]
    if seen.table is None:
        exported = documents_opener(recognised) or export_opener(recognised)
        if exported is None and (rows := nested_opener(recognised)) is not None:
            return _nested(file.name, recognised, rows)
        opener = exported or object_openers(recognised).get("") or table_opener(file.content, recognised)
        table, sample = with_passage_columns(*looked_at(opener()))
    else:
        table, sample = with_passage_columns(seen.table, seen.sample)
    require_columns(chosen, table.names)
    is_whole = chosen.keys() == Columns.__dataclass_fields__.keys()
    columns = Columns(**chosen) if is_whole else assign_columns(table.names, sample, _with_roles(table, chosen))
    names, first = table.names, table.first
    return Source(file.name, Role.ROWS, Shape.TABLE, columns, names, lambda: table, recognised, first, sample)


def as_questions(source: Source, columns: Columns) -> Source:
    """Return rows as questions without passages of their own."""
    fields = Fields(id=columns.id, text=columns.question, answers=columns.answers, kind=columns.kind, part=columns.part)
    return replace(source, role=Role.QUESTIONS, fields=fields)


def _with_roles(table: Table, chosen: Mapping[str, str | None]) -> dict[str, str | None]:
    """The columns chosen by role, and those that the file tells for roles that are free."""
    free = {role: name for role, name in table.roles.items() if name is None or name not in chosen.values()}
    if any(chosen.get(role) for role in _PASSAGE_ROLES):
        free = {role: name for role, name in free.items() if role not in _PASSAGE_ROLES}
    return {**free, **chosen}


def _nested(name: str, recognised: RecognisedFile, opener: Callable[[], NestedTable]) -> Source:
    return Source(name, Role.ROWS, Shape.NESTED, NESTED_COLUMNS, (), opener, recognised)


def _parts(name: str, recognised: RecognisedFile, openers: Mapping[str, Callable[[], Table]]) -> Sighted:
    """The tables of one file: the parts of a collection, or the only one that holds questions with passages.

    Raises `DataError` if several may hold the data.
    """
    sources: list[Source] = []
    seen: dict[str, tuple[Table, Sequence[Mapping[str, object]]]] = {}
    for part, opener in openers.items():
        table, first_rows = looked_at(opener())
        sample: Sequence[Mapping[str, object]] = first_rows
        role, shape, fields = told_by_names(table.names, sample)
        if role is Role.TEXTS:
            role = _ROLE_OF_LIST.get(plain_name(part), role)
        seen[part] = table, sample
        if role is not None:
            shape = Shape.PARTS if shape is Shape.TABLE else shape
            names, first = table.names, table.first
            sources.append(Source(f"{name}: {part}", role, shape, fields, names, opener, recognised, first, sample))
    roles = [source.role for source in sources]
    if Role.PASSAGES in roles and len(set(roles)) == len(roles) > 1 and Role.ROWS not in roles:
        return Sighted(sources, recognised)
    whole = [part for part, (table, sample) in seen.items() if _holds_dataset(table, sample)]
    if len(whole) != 1:
        found = f"an object with several lists of objects ({shown(', '.join(openers), 100)})"
        raise DataError.of(ProblemCode.WRONG_SHAPE, found=found)
    table, sample = seen[whole[0]]
    table = replace(table, skipped=(*table.skipped, *(part for part in openers if part != whole[0])))
    return Sighted([], recognised, table, sample)


def _holds_dataset(table: Table, sample: Sequence[Mapping[str, object]]) -> bool:
    columns = assign_columns(table.names, sample)
    return columns.question is not None and (columns.context is not None or columns.positives is not None)


def _text_sources(name: str, text: EncodedText) -> list[Source]:
    """The sources of a text without a header: markup, lines of a kind, a list of judgements."""
    if found := _markup(name, text):
        return found
    if holds_rated_lines(text.head):
        recognised = RecognisedFile(Format.TEXT, text.encoding.name, text, problems=text.encoding.problems)
        return _rated(name, rated_lines(text), recognised)
    kind = lines_of_a_kind(text, knows)
    return [] if kind is None else [_lines(name, text, kind)]


def told_by_columns(
    chosen: Mapping[str, str | None], names: Sequence[str], sample: Sequence[Mapping[str, object]]
) -> tuple[Role, Shape, Fields | Columns] | None:
    """Tell what rows are by the columns that the user named; None if the user named none of this file's columns."""
    if not chosen:
        return None
    columns = assign_columns(names, sample, chosen)
    if columns.question is None and columns.context is not None and columns.id is not None:
        return Role.PASSAGES, Shape.TABLE, Fields(id=columns.id, text=columns.context, title=columns.title)
    if columns.question is None or columns.context is not None or columns.positives is not None:
        return Role.ROWS, Shape.TABLE, columns
    fields = Fields(id=columns.id, text=columns.question, answers=columns.answers, kind=columns.kind)
    return Role.QUESTIONS, Shape.TABLE, fields


def told_by_names(names: Sequence[str], sample: Sequence[Mapping[str, object]]) -> Told:
    """Tell what rows are by the names of their columns; no role where these are of no collection."""
    by_plain = {plain_name(name): name for name in reversed(names)}

    def first(*known: str) -> str | None:
        return next((by_plain[name] for name in known if name in by_plain), None)

    found = _whole_rows(first)
    columns = assign_columns(names, sample)
    if found is None and columns.question and _has_own_passages(columns, sample):
        return Role.ROWS, Shape.TABLE, Fields()
    return found or _judgements(first) or _texts(first, sample)


def _has_own_passages(columns: Columns, sample: Sequence[Mapping[str, object]]) -> bool:
    """Whether rows hold the texts of passages, and not the names of passages in another file."""
    name = columns.context or columns.positives
    return name is not None and holds_texts(name, sample)


def _whole_rows(first: Callable[..., str | None]) -> Told | None:
    """Rows that hold a question and what answers it."""
    asked = first(*_QUESTIONS)
    found = Fields(id=first(*_QUESTION_IDS, *_IDS), text=asked)
    if asked and (groups := first("retrievalgt")):
        return Role.QUESTIONS, Shape.AUTORAG, replace(found, groups=groups, answers=first("generationgt"))
    if asked and (positive := first("positivepassages")):
        held = replace(found, positive=positive, negative=first("negativepassages"), answers=first("answers"))
        return Role.QUESTIONS, Shape.TYDI, held
    if (given := first("userinput")) and (contexts := first("referencecontexts")):
        held = replace(found, text=given, positive=contexts, answers=first("reference"), kind=first("synthesizername"))
        return Role.QUESTIONS, Shape.RAGAS, held
    return None


def _judgements(first: Callable[..., str | None]) -> Told | None:
    question_id, passage_id, grade = first(*_QUESTION_IDS), first(*_PASSAGE_IDS), first(*_GRADES)
    asked = first(*_QUESTIONS)
    if passage_id is None or first(*_PASSAGES, *_TEXTS) is not None:
        return None
    if question_id and asked:
        answers = first("answers")
        return (
            Role.QUESTIONS,
            Shape.TABLE,
            Fields(id=question_id, text=asked, answers=answers, judged=passage_id, grade=grade),
        )
    if question_id:
        return Role.JUDGEMENTS, Shape.TABLE, Fields(question_id=question_id, passage_id=passage_id, grade=grade)
    if asked and grade:
        return Role.JUDGEMENTS, Shape.RATINGS, Fields(question=asked, passage_id=passage_id, grade=grade)
    return None


def _texts(first: Callable[..., str | None], sample: Sequence[Mapping[str, object]]) -> Told:
    """Rows with an id and a text. Of several ids the one that differs in every row is the passage's own."""
    question_id, plain_id = first(*_QUESTION_IDS), first(*_IDS)
    passage_ids = [name for known in _PASSAGE_IDS if (name := first(known)) is not None]
    passage_id = unique_column(passage_ids, sample)  # documents and their passages may both have ids
    asked, text, metadata = first(*_QUESTIONS), first(*_PASSAGES, *_TEXTS), first("metadata")
    if asked and text is None and (question_id or plain_id):
        told = Fields(id=question_id or plain_id, text=asked, answers=first("answers"), metadata=metadata)
        return Role.QUESTIONS, Shape.TABLE, told
    if question_id and text and not (asked or passage_id):
        return Role.QUESTIONS, Shape.TABLE, Fields(id=question_id, text=text, metadata=metadata)
    ids = [name for known in (*_PASSAGE_IDS, *_IDS) if (name := first(known)) is not None]
    id_ = unique_column(ids, sample)
    if text is None or asked or id_ is None:
        return (Role.ROWS if text else None), Shape.TABLE, Fields()
    title = first(*_TITLES)
    is_titled = title is not None and not all(is_blank(row.get(title)) for row in sample)
    is_sure = is_titled or passage_id is not None or first(*_PASSAGES) is not None
    told = Fields(id=id_, text=text, title=title, metadata=metadata)
    return (Role.PASSAGES if is_sure else Role.TEXTS), Shape.TABLE, told


def stands_alone(source: Source) -> bool:
    """Whether one file is read as one of a collection, though it has no fellows.

    What the readers of single files make sense of is left to them.
    """
    if source.shape is Shape.LINES and source.role is Role.TEXTS:
        return has_numbers(source.table())
    if source.shape is Shape.NESTED:
        return False
    if source.shape is not Shape.TABLE or source.role is Role.JUDGEMENTS:
        return True
    return source.role is Role.PASSAGES and plain_name(source.fields.id or "") in _PASSAGE_IDS


def _markup(name: str, text: EncodedText) -> list[Source]:
    told = RecognisedFile(Format.SGML, text.encoding.name, text, problems=text.encoding.problems)
    if holds_documents(text.head):
        id_, title, body = DOCUMENT_NAMES
        fields, opener = Fields(id=id_, title=title, text=body), partial(document_table, text)
        source = Source(name, Role.PASSAGES, Shape.MARKUP, fields, DOCUMENT_NAMES, opener, told)
    elif holds_topics(text.head):
        id_, asked = TOPIC_NAMES
        opener = partial(topic_table, text)
        source = Source(name, Role.QUESTIONS, Shape.MARKUP, Fields(id=id_, text=asked), TOPIC_NAMES, opener, told)
    elif holds_smart_entries(text.head):
        fields, opener = Fields(id=ID, title=TITLE, text=TEXT), partial(smart_table, text)
        source = Source(name, Role.TEXTS, Shape.SMART, fields, opener().names, opener, told)
    else:
        return []
    return [_with_sample(source)]


def _lines(name: str, text: EncodedText, kind: Lines) -> Source:
    told = RecognisedFile(Format.TSV, text.encoding.name, text, "\t", problems=text.encoding.problems)
    grade = None if kind is Lines.SMART_JUDGEMENTS else "score"
    judged = Fields(question_id="query-id", passage_id="corpus-id", grade=grade)
    triples = Fields(text="query", positive="positive", negative="negative")
    role, shape, fields = {
        Lines.TEXTS: (Role.TEXTS, Shape.LINES, Fields(id="id", text="text")),
        Lines.TRIPLES: (Role.QUESTIONS, Shape.TRIPLES, triples),
    }.get(kind, (Role.JUDGEMENTS, Shape.LINES, judged))
    return _with_sample(Source(name, role, shape, fields, kind.value, partial(line_rows, text, kind), told))


def _with_sample(source: Source) -> Source:
    table, sample = looked_at(source.table())
    return replace(source, first_rows=table.first, sample=sample)


def _rated(name: str, ratings: Ratings, recognised: RecognisedFile) -> list[Source]:
    """The judgements of a search tool and, if the file has ids of its questions, their texts."""
    id_, text = ASKED_NAMES
    question_id, question, passage_id, grade = RATING_NAMES
    judged = Fields(passage_id=passage_id, grade=grade)
    judged = replace(judged, question_id=question_id) if ratings.has_ids else replace(judged, question=question)
    sources = []
    if ratings.questions is not None:
        asked = Fields(id=id_, text=text)
        opener = ratings.questions
        questions = f"{name}: queries"
        sources.append(Source(questions, Role.QUESTIONS, Shape.ENGINE, asked, ASKED_NAMES, opener, recognised))
    sources.append(Source(name, Role.JUDGEMENTS, Shape.ENGINE, judged, RATING_NAMES, ratings.judgements, recognised))
    return [*map(_with_sample, sources)]


def _dictionaries(name: str, recognised: RecognisedFile, found: Dictionaries) -> list[Source]:
    is_llama_index = all(isinstance(recognised.value.get(part), dict) for part in _LLAMA_INDEX)
    shape = Shape.LLAMA_INDEX if is_llama_index else Shape.PARTS

    def source(part: tuple[str, Callable[[], Table]], role: Role, names: tuple[str, ...], fields: Fields) -> Source:
        key, opener = part
        return _with_sample(Source(f"{name}: {key}", role, shape, fields, names, opener, recognised))

    judged = Fields(question_id="query-id", passage_id="corpus-id", grade="score" if found.is_graded else None)
    return [
        source(found.questions, Role.QUESTIONS, QUESTION_NAMES, Fields(id="id", text="text", answers="response")),
        source(found.passages, Role.PASSAGES, PASSAGE_NAMES, Fields(id="id", text="text", title="title")),
        source(found.judgements, Role.JUDGEMENTS, JUDGEMENT_NAMES, judged),
    ]
