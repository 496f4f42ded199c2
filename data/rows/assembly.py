"""Raw rows become a question set; what does not fit is left out with its reason."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from data.files.cells import as_text, shown
from data.files.columns import Columns
from data.files.squad import IMPOSSIBLE, PARAGRAPH_ID
from data.files.tables import RawRow
from data.problems import DataError, Problem, ProblemCode, Problems
from data.records import Question, QuestionSet
from data.rows.gathering import GatheredPassages
from data.rows.reader import RowReader
from data.rows.rejection import Rejection

_BOTH = (True, False)


@dataclass(slots=True)
class _Question:
    row: int
    id: str
    text: str
    kind: str
    answers: dict[str, int]  # and where each begins in the first of the passages, -1 where nobody says
    contexts: dict[int, bool]  # place of the passage -> whether it answers

    def made(self, id_: str, ids: Sequence[str]) -> Question:
        starts = tuple(self.answers.values())
        answering, others = (
            [ids[place] for place, does in self.contexts.items() if does is wanted] for wanted in _BOTH
        )
        return Question(
            *(id_, self.text, tuple(self.answers), tuple(answering), self.kind),
            starts=starts if any(start >= 0 for start in starts) else (),
            rejected=tuple(others),
        )


@dataclass
class Assembly:
    """What rows have become so far. `add` takes them one by one, `question_set` ends the work.

    Without a column of questions every row is a passage, and the column of ids holds the passages' own.
    """

    columns: Columns
    rejection: Rejection = field(default_factory=Rejection)
    row_count: int = 0
    paragraph_count: int = 0
    _asked: bool = False  # whether any row was to hold a question
    _passages: GatheredPassages = field(default_factory=GatheredPassages)
    _questions: list[_Question] = field(default_factory=list)
    _by_key: dict[str | tuple[str, int], _Question] = field(default_factory=dict)

    @property
    def problems(self) -> Problems:
        """What was wrong so far."""
        return self.rejection.problems

    def add_all(self, rows: Iterable[RawRow]) -> "Assembly":
        """Take every row."""
        for row in rows:
            self.add(row)
        return self

    def add(self, row: RawRow) -> None:
        """Take one row: a paragraph, a question, or both."""
        self.row_count += row.asks
        if row.problem is not None:
            self._reject(row, row.problem)
            return
        reader = RowReader(row, self.columns)
        context = reader.text("context", ProblemCode.EMPTY_CONTEXT)
        self.paragraph_count += row.is_paragraph and bool(context)
        asks = row.asks and self.columns.question is not None
        self._asked |= asks
        question = reader.text("question", ProblemCode.EMPTY_QUESTION) if asks and context else ""
        if context and (question or not asks):
            problem = self._take(row, reader, context, question)
        else:
            problem = reader.problem if row.asks else None
        if problem is not None:
            self._reject(row, problem)
            return
        if reader.dropped is not None:
            self.problems.add(reader.dropped)
        if reader.mended:
            self.problems.add(Problem.of(ProblemCode.MENDED_TEXT, row.number or None))

    def question_set(self, name: str) -> QuestionSet:
        """Build the set; ids that are missing are made. Raises `DataError` where nothing is left of what was asked."""
        if not self._questions and (self._asked or not len(self._passages)):
            raise self._no_question()
        passages = self._passages.passages(_filled_ids("p", self._passages.ids))
        question_ids = _filled_ids("q", [question.id for question in self._questions])
        asked = zip(question_ids, self._questions, strict=True)
        return QuestionSet(name, passages, tuple(question.made(id_, passages.ids) for id_, question in asked))

    def _no_question(self) -> DataError:
        if not self.rejection.rows:
            return DataError(Problem.of(ProblemCode.NO_QUESTION), self.problems.kept)
        return self.rejection.no_good(ProblemCode.NO_GOOD_ROW, self.row_count)

    def _reject(self, row: RawRow, problem: Problem) -> None:
        self.rejection.add(row, problem, any_good=len(self._passages) > 0)

    def _take(self, row: RawRow, reader: RowReader, context: str, question: str) -> Problem | None:
        """Keep the passage and the question of a good row; return why the question is not kept, if so."""
        if not question:
            self._place(context, reader)
            return None
        id_ = reader.text("id")
        place = self._passages.find(context)
        key = id_ or (question, place)
        first = self._by_key.get(key)
        if first is not None and first.text != question:
            return Problem.of(ProblemCode.DUPLICATE_ID, row.number, id=shown(id_, 80), first=first.row)
        answers = reader.answers()
        repeated = first is not None and place in first.contexts
        if first is None:
            first = _Question(row.number, id_, question, reader.text("kind"), {}, {})
            self._by_key[key] = first
            self._questions.append(first)
        answers_here = not _says_yes(row.cells.get(IMPOSSIBLE))
        answering = next((known for known, answers in first.contexts.items() if answers), place)
        for text, start in answers.items():
            first.answers.setdefault(text, start if place == answering else -1)
        if repeated:
            return Problem.of(ProblemCode.REPEATED_ROW, row.number, first=first.row)
        first.contexts[self._place(context, reader)] = answers_here
        return None

    def _place(self, context: str, reader: RowReader) -> int:
        """Return the place of the passage, which is new, or known with or without a title."""
        is_new = self._passages.find(context) == len(self._passages)
        id_ = self._passage_id(reader) if is_new else ""
        return self._passages.add(context, reader.text("title"), id_)

    def _passage_id(self, reader: RowReader) -> str:
        if self.columns.question is None:
            return reader.text("id")
        return reader.fit(as_text(reader.row.cells.get(PARAGRAPH_ID)))


def _says_yes(value: object) -> bool:
    return value is True or as_text(value).lower() in ("true", "1", "yes", "y")


def _filled_ids(letter: str, given: list[str]) -> Iterator[str]:
    """Yield the ids given, the first of equal ones only, and "p1", "p2"... where there is none to keep."""
    taken, kept = set(given), set[str]()
    fresh = (id_ for id_ in (f"{letter}{number}" for number in count(1)) if id_ not in taken)
    for id_ in given:
        yield next(fresh) if not id_ or id_ in kept else id_
        kept.add(id_)
