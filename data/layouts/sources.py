"""What one file of a collection holds: passages, questions, judgements, or rows that hold several of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice

from mrc_workbench.data.formats.columns import Columns
from mrc_workbench.data.formats.opening import RecognisedFile
from mrc_workbench.data.formats.tables import Table, as_text
from mrc_workbench.data.layouts.columns.references import Reference


class Role(StrEnum):
    """What the rows of a file are."""

    PASSAGES = "passages"
    QUESTIONS = "questions"
    JUDGEMENTS = "judgements"
    TEXTS = "texts"  # ids and texts: passages or questions
    ANSWERS = "answers"  # by the ids of questions in another file
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
    BY_ID = "by_id"  # an object of JSON whose keys are ids, if other files know these


@dataclass(frozen=True)
class Source:
    """The rows of a file, to be read anew at each call of `table`.

    What an id or a text is of in `columns`, the role tells: a passage has `id` and `context`, a question `id` and
    `question`, with `passage_id` for passages that it names; a judgement has the `id` or text of its question, the
    `passage_id` and the grade as `label`. Texts that may be either stand under `context`.
    """

    name: str
    role: Role
    shape: Shape
    columns: Columns
    names: tuple[str, ...]
    table: Callable[[], Table] = field(repr=False)
    recognised: RecognisedFile = field(repr=False)
    first_rows: tuple[dict[str, str], ...] = field(repr=False, default=())
    sample: Sequence[Mapping[str, object]] = field(repr=False, default=())
    part: str = ""  # the published one that the name of the file tells: "train", "validation" or "test"
    references: tuple[Reference, ...] = ()  # columns of questions that name their passages
    metadata: str | None = None  # the column in which an export of this project keeps the rest of a row
    location: str | None = None  # column of passages with the file or address by which questions name them
    unsure_label: str = ""  # its column of labels if these may also be answers

    def first(self, role: str, count: int) -> list[str]:
        """Return the texts of a role's column in so many rows at the beginning."""
        name = getattr(self.columns, role)
        return [as_text(row.cells.get(name)) for row in islice(self.table().rows, count) if name and not row.problem]


def as_questions(source: Source) -> Source:
    """Return rows as questions without passages of their own."""
    own = source.columns
    columns = Columns(id=own.id, question=own.question, answers=own.answers, kind=own.kind, part=own.part)
    return replace(source, role=Role.QUESTIONS, columns=columns)
