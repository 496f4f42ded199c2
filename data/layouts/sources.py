"""What one file of a collection holds: passages, questions, judgements, or rows that hold several of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice

from data.formats.columns import Columns
from data.formats.opening import RecognisedFile
from data.formats.tables import Table, as_text
from data.layouts.columns.references import Reference


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


def as_questions(source: Source, columns: Columns) -> Source:
    """Return rows as questions without passages of their own."""
    fields = Fields(id=columns.id, text=columns.question, answers=columns.answers, kind=columns.kind, part=columns.part)
    return replace(source, role=Role.QUESTIONS, fields=fields)
