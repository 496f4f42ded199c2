"""Builds one question set from the rows of every source: passages, questions, judgements, and rows of several kinds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from data.formats.columns import Columns
from data.formats.rows import MOST_BAD_ROWS, NOWHERE, Rejection, RowReader, other_ids_in
from data.formats.tables import MOST_CHARACTERS, RawRow, as_text, is_blank, shown
from data.layouts.cells import (
    NOT_RELEVANT,
    QuestionMetadata,
    grade_in,
    groups_in,
    ids_in,
    is_mark,
    is_missing,
    listed_passages,
    question_metadata_in,
)
from data.layouts.ids import NumberIds
from data.layouts.parts import part_named
from data.layouts.plans import RowPlan
from data.layouts.references import NameKind, PassageNames, is_file_name, named_passages
from data.layouts.sources import Fields, Role, Source
from data.passages import GatheredPassages, filled_ids
from data.problems import DataError, Problem, ProblemCode
from data.records import RELEVANT_GRADE, Question, QuestionSet, is_made

_EXAMPLES = 3
_YES = ("true", "1", "yes", "y")

JudgedPassage = tuple[str, str, str, int | None]  # id, title, text and grade; a candidate has no grade
_Judged = str | int  # a passage by its id, or by its position if it has none


@dataclass(slots=True)
class _Question:
    """A question while rows are read."""

    row: int
    source: int
    id: str
    text: str
    kind: str = ""
    part: str = ""
    answers: dict[str, int] = field(default_factory=dict)  # and where each begins in the first relevant passage
    grades: dict[_Judged, int] = field(default_factory=dict)
    rejected: list[int] = field(default_factory=list)  # positions of passages without an answer
    groups: list[list[_Judged]] = field(default_factory=list)
    metadata: QuestionMetadata | None = None
    needs_judgement: bool = False

    def add_answers(self, answers: dict[str, int], position: int) -> None:
        """Add the answers of a row; starts count only in the first relevant passage."""
        first = next((judged for judged, grade in self.grades.items() if grade >= RELEVANT_GRADE), position)
        for text, start in answers.items():
            self.answers.setdefault(text, start if position == first else NOWHERE)


@dataclass
class Tally:
    """How many rows have something in common, how many distinct ids they name, and the first of these."""

    rows: int = 0
    ids: dict[str, None] = field(default_factory=dict)

    def add(self, id_: str) -> None:
        self.rows += 1
        self.ids.setdefault(id_)

    def problems(self, code: ProblemCode) -> list[Problem]:
        """Return the problem that sums the rows up, none if there are no rows."""
        return [Problem.of(code, rows=self.rows, ids=len(self.ids), examples=examples(self.ids))] if self.rows else []


def examples(ids: Iterable[str]) -> str:
    """Return the first of some ids, between commas."""
    return ", ".join(shown(id_, 40) for id_ in islice(ids, _EXAMPLES))


class DatasetBuilder:
    """Builds a question set. `add` reads one source after the other: passages first, then questions and judgements.

    `row_count` counts rows, `passage_rows` those that hold a passage (before equal passages are merged), and
    `judgement_count` the judgements that name a passage of the corpus.
    """

    def __init__(self, *, names_files: bool) -> None:
        self.rejection = Rejection()
        self.row_count = 0
        self.passage_rows = 0
        self.judgement_count = 0
        self.passages = GatheredPassages()
        self._names_files = names_files
        self._source = 0
        self._first_position = 0  # of the passages of the source that is read
        self._plan = RowPlan(Columns())
        self._asks = False  # whether any row was to hold a question
        self._position_of: dict[str, int] = {}  # of each passage id, also of merged copies
        self._questions: list[_Question] = []
        self._by_id: dict[str, _Question] = {}
        self._number_ids = NumberIds(lambda: self._by_id)
        self._by_text: dict[str, _Question] = {}
        self._by_passage: dict[tuple[str, int], _Question] = {}
        self.names = PassageNames(self._position_of, self.passages.titles)
        self._unknown_passages = Tally()
        self._unknown_questions = Tally()
        self._changed_question_ids = Tally()
        self._labels = Tally()  # columns whose 0 says that a passage is not relevant
        self._unmet: list[str] = []  # ids of questions with a group of which the corpus has no passage
        self._blank_questions: list[Problem] = []
        self._blank_question_count = 0

    def add(self, source: Source) -> tuple[int, int]:
        """Read the rows of a source; returns how many there are, and how many of them were left out."""
        read: dict[Role, Callable[[RowReader, Source], Problem | None]] = {
            Role.PASSAGES: self._add_passage,
            Role.QUESTIONS: self._add_question,
            Role.JUDGEMENTS: self._add_judgement,
            Role.ROWS: self._add_row,
        }
        add_row = read[source.role]
        rows_before = self.row_count
        left_out_before = self.rejection.problems.left_out
        self._source += 1
        self._first_position = len(self.passages)
        self._plan = RowPlan.of(source)
        self.rejection.begin(source.recognised, source.name if self._names_files else None)
        for row in source.table().rows:
            self.row_count += row.asks
            reader = RowReader(row, source.fields)
            problem = row.problem or add_row(reader, source)
            if problem is None:
                self.rejection.note(reader)
                continue
            any_good = bool(len(self.passages)) and (source.role in (Role.PASSAGES, Role.ROWS) or bool(self._questions))
            self.rejection.add(row, problem, any_good=any_good)
        return self.row_count - rows_before, self.rejection.problems.left_out - left_out_before

    def question_set(self, name: str) -> QuestionSet:
        """Build the set; missing ids are generated. Raises `DataError` if no passage or no question is left."""
        if not len(self.passages) or (self._asks and not self._questions):
            raise self._nothing_left()
        passages = self.passages.passages()
        ids = list(passages.ids)
        given_ids = [question.id for question in self._questions]
        question_ids = list(filled_ids("q", given_ids))
        if any(given_ids):
            made = [id_ for id_, given in zip(question_ids, given_ids, strict=True) if not given]
            self.rejection.report(id_problems(ProblemCode.MADE_QUESTION_IDS, made[self._changed_question_ids.rows :]))
        questions = tuple(
            self._finished(id_, question, ids) for id_, question in zip(question_ids, self._questions, strict=True)
        )
        self.rejection.report(self._notices())
        return QuestionSet(name, passages, questions, self.passages.aliases())

    def gaps(self) -> tuple[Problem, ...]:
        """Return what concerns the dataset as a whole; complete once `question_set` has been called."""
        unjudged = [one.id or one.text for one in self._questions if one.needs_judgement and not one.grades]
        return (
            *self._unknown_passages.problems(ProblemCode.UNKNOWN_PASSAGES),
            *self._unknown_questions.problems(ProblemCode.UNKNOWN_QUESTIONS),
            *id_problems(ProblemCode.UNMET_GROUPS, self._unmet),
            *id_problems(ProblemCode.UNJUDGED_QUESTIONS, unjudged),
        )

    def _notices(self) -> list[Problem]:
        """Return what was done with ids, copies and rows without a question."""
        found = self.passages.notices()
        found += self._labels.problems(ProblemCode.LABELS_AS_RELEVANCE)
        found += self._changed_question_ids.problems(ProblemCode.CHANGED_QUESTION_IDS)
        if self._blank_question_count:
            first = self._blank_questions[0].row or 0
            found.append(Problem.of(ProblemCode.NO_QUESTION_IN_ROW, rows=self._blank_question_count, first=first))
        return found

    def _nothing_left(self) -> DataError:
        for problem in self._blank_questions:
            self.rejection.add(RawRow(problem.row or 0, {}), problem, any_good=True)
        self.rejection.problems.kept.sort(key=lambda problem: problem.row or 0)
        return self.rejection.nothing_left(self.row_count)

    def _add_passage(self, reader: RowReader, _: Source) -> Problem | None:
        id_ = reader.text("id", ProblemCode.EMPTY_ID)
        title = reader.text("title")
        has_only_title = bool(title) and is_blank(reader.cell("text"))
        text = reader.text("text", None if has_only_title else ProblemCode.EMPTY_CONTEXT)
        if not id_ or reader.is_refused():
            return reader.problem
        if self._position_of.get(id_, -1) >= self._first_position:  # another file may number its passages alike
            return Problem.of(ProblemCode.DUPLICATE_PASSAGE, reader.row.number, id=shown(id_, 80))
        self.passage_rows += 1
        if not text:
            text, title = title, ""
            reader.dropped = Problem.of(ProblemCode.TITLE_AS_TEXT, reader.row.number, id=shown(id_, 80))
        self._add_aliases(reader, self._store(id_, text, title, is_copy=id_ in self._position_of))
        return None

    def _add_aliases(self, reader: RowReader, position: int) -> None:
        """Add the ids of merged copies that an export of this project lists in its metadata."""
        for alias in other_ids_in(reader.row.cells.get("metadata")):
            self.passages.add_alias(alias, position)
            self._position_of.setdefault(alias, position)

    def _store(self, id_: str, text: str, title: str, *, is_copy: bool = False) -> int:
        """Store a passage and return its position; a known text is merged, and its id becomes an alias."""
        position = self.passages.add(text, title, id_, is_copy=is_copy)
        if id_:
            self._position_of.setdefault(id_, position)
        return position

    def _add_row(self, reader: RowReader, source: Source) -> Problem | None:
        """Read a row that holds a question, its passages, or both."""
        row, plan = reader.row, self._plan
        asks = row.asks and plan.columns.question is not None
        self._asks |= asks
        context = self._context(reader)
        judged = self._listed(reader) if plan.has_lists else []
        if reader.is_refused():
            return reader.problem if row.asks else None
        if not asks or (row.is_paragraph and self._is_missing(reader.cell("question"))):
            return self._add_passages_of(reader, context, judged, asks=asks)
        text = reader.text("question", ProblemCode.EMPTY_QUESTION)
        id_ = reader.text("id")
        if reader.is_refused():
            return reader.problem
        if is_mark(id_):
            id_ = ""
        position = self.passages.find(context) if context else -1
        question = self._known_question(id_, text, position)
        if question is not None and question.text != text:
            if question.source == self._source:
                return Problem.of(ProblemCode.DUPLICATE_ID, row.number, id=shown(id_, 80), first=question.row)
            self._changed_question_ids.add(id_)  # another file numbers its questions in the same way
            id_, question = "", self._known_question("", text, position)
        answers = self._answers(reader)
        grade = grade_in(reader, "label") if plan.columns.label and context else RELEVANT_GRADE
        if reader.is_refused():
            return reader.problem
        if question is None:
            question = _Question(row.number, self._source, id_, text, reader.text("kind"))
            self._questions.append(question)
            self._remember(question, position)
        self._note_part(question, reader, source)
        for listed_id, title, passage, listed_grade in judged:
            # lists may number their own entries: the text is what was judged
            self._judge(question, self._store(listed_id, passage, title), listed_grade)
        problem = self._judge_context(question, context, grade, reader) if context else None
        if answers:
            question.add_answers(answers, position)
        return problem

    def _is_missing(self, value: object) -> bool:
        return is_missing(value) if self._plan.has_marks else is_blank(value)

    def _note_part(self, question: _Question, reader: RowReader, source: Source) -> None:
        """Note the published part; a question of several parts is in the strictest, so that no test is trained on."""
        part = part_named(reader.cell("part")) if source.fields.part else ""
        if part := part or source.part:
            question.part = _stricter_part(question.part, part)

    def _answers(self, reader: RowReader) -> dict[str, int]:
        cell = None if self._plan.columns.answers is None else reader.cell("answers")
        if is_blank(cell):
            return {}
        if self._plan.separates_answers and isinstance(cell, str) and len(cell) <= MOST_CHARACTERS:
            return {reader.fit(part.strip()): NOWHERE for part in cell.split("|") if part.strip()}
        return reader.answers()

    def _context(self, reader: RowReader) -> str:
        """Return the passage of a row as text; a missing one is a problem unless the row may hold lists."""
        if not self._plan.has_context or (self._plan.has_lists and self._is_missing(reader.cell("context"))):
            return ""
        text = reader.text("context", ProblemCode.EMPTY_CONTEXT)
        if self._plan.has_marks and is_mark(text):
            reader.refuse(ProblemCode.EMPTY_CONTEXT, "context")
            return ""
        self.passage_rows += reader.row.is_paragraph and bool(text)
        return text

    def _listed(self, reader: RowReader) -> list[JudgedPassage]:
        """Return id, title, text and grade of the passages in lists; the grade of a candidate is None."""
        found: list[JudgedPassage] = []
        for role, names, grade in self._plan.lists:
            for id_, title, text, is_relevant in listed_passages(reader, names, role):
                own_grade = grade if is_relevant is None or grade == NOT_RELEVANT else int(is_relevant)
                found.append((id_, title, text, own_grade))
        return found

    def _add_passages_of(
        self, reader: RowReader, context: str, judged: Sequence[JudgedPassage], *, asks: bool
    ) -> Problem | None:
        """Store the passages of a row without a question."""
        number = reader.row.number
        if not context and not judged:
            role, code = ("question", ProblemCode.EMPTY_QUESTION) if asks else ("context", ProblemCode.EMPTY_CONTEXT)
            return Problem.of(code, number, column=reader.column(role)) if reader.row.asks else None
        if asks:
            self._blank_question_count += 1
            if len(self._blank_questions) < _EXAMPLES or not self._questions:
                details = {"column": reader.column("question")}
                self._blank_questions.append(Problem.of(ProblemCode.EMPTY_QUESTION, number, **details))
            self._refuse_hopeless_start()
        if context:
            self._store_context(context, reader, is_copy=True)
        for id_, title, text, _ in judged:
            self._store(id_, text, title)
        return None

    def _refuse_hopeless_start(self) -> None:
        """Raise `DataError` if very many rows hold no question and only copies of a few passages."""
        is_hopeless = self._blank_question_count == MOST_BAD_ROWS and len(self.passages) < MOST_BAD_ROWS // 100
        if is_hopeless and not self._questions:
            self.rejection.add(RawRow(self._blank_questions[0].row or 0, {}), self._blank_questions[0], any_good=True)
            raise self.rejection.no_good(ProblemCode.NO_GOOD_START, self._blank_question_count)

    def _store_context(self, context: str, reader: RowReader, *, is_copy: bool = False) -> int:
        columns = self._plan.columns
        name = columns.passage_id or (None if columns.question else columns.id)
        cell = None if name is None else reader.row.cells.get(name)
        id_ = "" if cell is None or self._is_missing(cell) else reader.fit(as_text(cell))
        title = reader.text("title")
        if self._plan.has_marks and is_mark(title):
            title = ""
        position = self._store(id_, context, title, is_copy=is_copy)
        if columns.question is None:
            self._add_aliases(reader, position)
        return position

    def _known_question(self, id_: str, text: str, position: int) -> _Question | None:
        if id_:
            return self._by_id.get(id_)
        return self._by_text.get(text) if self._plan.merges_questions else self._by_passage.get((text, position))

    def _remember(self, question: _Question, position: int = -1) -> None:
        if question.id:
            self._by_id[question.id] = question
        elif position >= 0 and not self._plan.merges_questions:
            self._by_passage[question.text, position] = question
        self._by_text.setdefault(question.text, question)

    def _judge_context(self, question: _Question, context: str, grade: int, reader: RowReader) -> Problem | None:
        """Store the passage of a row with its grade; returns the problem if the row repeats another."""
        number = reader.row.number
        position = self._store_context(context, reader)
        if position in question.grades or position in question.rejected:
            known = question.grades.get(position, NOT_RELEVANT)
            if self._plan.columns.label is None or known == grade:
                return None if self._plan.has_lists else _repeated(number, question)
            details = {"question": shown(question.text, 80), "passage": shown(context, 80)}
            return Problem.of(ProblemCode.JUDGED_TWICE, number, **details, grade=known)
        if self._plan.columns.impossible and as_text(reader.cell("impossible")).lower() in _YES:
            question.rejected.append(position)
        else:
            question.grades[position] = grade
            self.judgement_count += 1
            if grade == NOT_RELEVANT:
                self._labels.add(reader.column("label"))
        return None

    def _position_of_judged(self, judged: JudgedPassage, reader: RowReader) -> int:
        """Store a passage of a list in a collection, whose ids name the passages of its corpus; return its position."""
        id_, title, text, _ = judged
        if id_ not in self._position_of or self.passages.find(text) == self._position_of[id_]:
            return self._store(id_, text, title)
        details = {"id": shown(id_, 80)}
        reader.dropped = reader.dropped or Problem.of(ProblemCode.OTHER_TEXT, reader.row.number, **details)
        return self._position_of[id_]

    def _judge(self, question: _Question, position: int, grade: int | None) -> None:
        """Note the grade of a passage of a list; a passage that is relevant once stays relevant."""
        if grade is not None:
            self.judgement_count += position not in question.grades
            question.grades[position] = max(question.grades.get(position, NOT_RELEVANT), grade)

    def _add_question(self, reader: RowReader, source: Source) -> Problem | None:
        fields, number = source.fields, reader.row.number
        if not isinstance(fields, Fields):
            raise TypeError("a source of questions has `Fields`")
        self._asks = True
        id_ = reader.text("id", ProblemCode.EMPTY_ID) if fields.id else ""
        text = reader.text("text", ProblemCode.EMPTY_QUESTION)
        if reader.is_refused() or not text:
            return reader.problem
        question = self._by_id.get(id_) if id_ else self._by_text.get(text)
        if question is not None and question.text != text:
            return Problem.of(ProblemCode.DUPLICATE_ID, number, id=shown(id_, 80), first=question.row)
        if question is not None and not fields.positive and not source.references:
            return _repeated(number, question)
        groups = groups_in(reader) if fields.groups else []
        judged = self._listed(reader)
        if reader.is_refused():
            return reader.problem
        if question is None:
            kind = reader.text("kind")
            question = _Question(number, self._source, id_, text, kind, needs_judgement=True)
            self._questions.append(question)
            self._remember(question)
        self._note_part(question, reader, source)
        if fields.answers:
            for answer in reader.answers():
                question.answers.setdefault(answer, NOWHERE)
        if fields.metadata:
            question.metadata = question_metadata_in(reader.cell("metadata")) or question.metadata
        for group in groups:
            known: list[_Judged] = [named for name in group if (named := self._known_id(name)) is not None]
            question.grades |= dict.fromkeys(known, RELEVANT_GRADE)
            question.groups.append(known)
            self.judgement_count += len(known)
        for listed in judged:
            self._judge(question, self._position_of_judged(listed, reader), listed[3])
        return self._judge_named(question, reader, source)

    def _judge_named(self, question: _Question, reader: RowReader, source: Source) -> Problem | None:
        """Judge the passages that the row names; a name of several passages is a group: one of them is enough."""
        grade_in_row = RELEVANT_GRADE
        if source.references and not isinstance(source.fields, Columns) and source.fields.grade:
            grade_in_row = grade_in(reader, "grade")
        if reader.is_refused():
            return reader.problem
        groups = list[list[_Judged]]()
        count = len(question.grades)
        for column, kind, grade in source.references:
            for name, positions in named_passages(reader.row.cells.get(column), kind, self.names):
                if not positions:
                    self._unknown_passages.add(reader.fit(name))
                for position in positions:
                    known = question.grades.get(position, NOT_RELEVANT)
                    question.grades[position] = max(known, grade * grade_in_row)
                if grade:
                    groups.append(list(positions))
        self.judgement_count += len(question.grades) - count
        if any(len(group) > 1 for group in groups):
            question.groups += groups
        return None

    def _document_positions(self, name: str) -> Sequence[int]:
        """The positions of the passages of a document that a judgement names by its file name instead of an id."""
        if not is_file_name(name) or self.names.id_of(name) is not None:
            return ()
        return self.names.find(NameKind.FILE, name)

    def _known_id(self, name: str) -> str | None:
        """The id of a passage, which a judgement may write as another number; counts names of no passage."""
        id_ = self.names.id_of(name)
        if id_ is None:
            self._unknown_passages.add(name)
        return id_

    def _add_judgement(self, reader: RowReader, source: Source) -> Problem | None:
        fields = source.fields
        if not isinstance(fields, Fields):
            raise TypeError("a source of judgements has `Fields`")
        if fields.question_id:
            id_ = reader.text("question_id", ProblemCode.EMPTY_ID)
            question = self._by_id.get(id_) or self._by_id.get(self._number_ids.find(id_) or "")
        else:
            id_ = reader.text("question", ProblemCode.EMPTY_QUESTION)
            question = self._by_text.get(id_)
        passages = ids_in(reader, "passage_id")
        grade = grade_in(reader, "grade") if fields.grade else RELEVANT_GRADE
        if reader.is_refused():
            return reader.problem
        if question is None and fields.question and not fields.question_id:
            question = _Question(reader.row.number, self._source, "", id_, needs_judgement=True)
            self._questions.append(question)  # ratings bring their questions
            self._remember(question)
        if question is None:
            for _ in passages:
                self._unknown_questions.add(id_)
            return None
        self._note_part(question, reader, source)
        twice: Problem | None = None
        for passage in passages:
            if positions := self._document_positions(passage):
                self.judgement_count += len([one for one in positions if one not in question.grades])
                question.grades |= dict.fromkeys(positions, grade)
                if len(positions) > 1 and grade:
                    question.groups.append(list(positions))
                continue
            named = self.names.id_of(passage) or passage
            if named in question.grades:
                details = {"question": shown(id_, 80), "passage": shown(passage, 80)}
                known = question.grades[named]
                twice = Problem.of(ProblemCode.JUDGED_TWICE, reader.row.number, **details, grade=known)
            elif self._known_id(passage) is not None:
                question.grades[named] = grade
                self.judgement_count += 1
        return twice

    def _finished(self, id_: str, question: _Question, ids: Sequence[str]) -> Question:
        grades: dict[str, int] = {}
        for judged, grade in question.grades.items():
            passage = self._passage_id(judged, ids)
            grades[passage] = max(grades.get(passage, NOT_RELEVANT), grade)
        starts = tuple(question.answers.values())
        found = Question.judged(
            id_,
            question.text,
            grades,
            answers=tuple(question.answers),
            kind=question.kind,
            starts=starts if any(start >= 0 for start in starts) else (),
            rejected=tuple([ids[position] for position in question.rejected]),
            part=question.part,
        )
        if question.groups or question.metadata is not None:
            found = self._with_metadata(found, question, ids)
        return found

    def _with_metadata(self, found: Question, question: _Question, ids: Sequence[str]) -> Question:
        """Add the groups of a question and what an export of this project says of it."""
        metadata = question.metadata or QuestionMetadata()
        groups = [[self._passage_id(named, ids) for named in group] for group in question.groups]
        groups += [self._known_ids(group, ids) for group in metadata.groups]
        if not any(groups):
            groups = []  # no passage answers the question, which is reported as such
        elif not all(groups):
            self._unmet.append(found.id)
        answers = tuple(dict.fromkeys((*found.answers, *metadata.answers)))
        starts = found.starts or metadata.starts
        return replace(
            found,
            answers=answers,
            kind=found.kind or metadata.kind,
            made=metadata.made if is_made(metadata.made) else "",
            hidden=metadata.hidden,
            part=found.part or metadata.part,
            starts=starts if len(starts) == len(answers) else (),
            rejected=(*found.rejected, *self._known_ids(metadata.rejected, ids)),
            groups=tuple(tuple(dict.fromkeys(group)) for group in groups),
        )

    def _passage_id(self, judged: _Judged, ids: Sequence[str]) -> str:
        return ids[judged if isinstance(judged, int) else self._position_of[judged]]

    def _known_ids(self, names: Iterable[str], ids: Sequence[str]) -> list[str]:
        known = (id_ for name in names if (id_ := self._known_id(name)) is not None)
        return [ids[self._position_of[id_]] for id_ in known]


_PARTS = ("", "train", "validation", "test")


def _stricter_part(known: str, part: str) -> str:
    return max(known, part, key=_PARTS.index)


def _repeated(row: int, question: _Question) -> Problem:
    return Problem.of(ProblemCode.REPEATED_ROW, row, first=question.row)


def id_problems(code: ProblemCode, ids: Sequence[str]) -> tuple[Problem, ...]:
    """Return the problem that counts some ids, none if there are no ids."""
    return (Problem.of(code, ids=len(ids), examples=examples(ids)),) if ids else ()
