"""Builds one question set from the rows of every source: passages, questions, judgements, and rows of several kinds."""

from collections.abc import Sequence

from mrc_workbench.data.formats import tables
from mrc_workbench.data.formats.rows import MAX_BAD_ROWS, DatasetBuilder, RowReader
from mrc_workbench.data.formats.tables import UNKNOWN_START, RawRow, as_text, display_text
from mrc_workbench.data.layouts import cells
from mrc_workbench.data.layouts.questions import (
    LabelTracker,
    PendingQuestion,
    QuestionBuilder,
    RowPlan,
    unread_label_problems,
)
from mrc_workbench.data.layouts.references import PassageNames, Role, parse_part
from mrc_workbench.data.layouts.sources import DataSource, SourceShape
from mrc_workbench.data.passages import PassageBuilder, Tally, fill_ids, id_problems
from mrc_workbench.data.problems import Problem, ProblemCode
from mrc_workbench.data.records import RELEVANT_GRADE, QuestionSet

_MAX_EXAMPLES = 3
_MAX_JUDGED_ROWS = 100_000  # rows of judgements that show how they name questions
_PARTS_BY_STRICTNESS = ("", "train", "validation", "test")  # from the least strict on
_YES = ("true", "1", "yes", "y")

JudgedPassage = tuple[str, str, str, int | None]  # id, title, text and grade; a candidate has no grade


class QuestionSetBuilder(DatasetBuilder):
    """Builds a question set from sources: passages first, then questions and judgements."""

    def __init__(self, *, names_files: bool) -> None:
        super().__init__()
        self.passage_rows = 0  # before equal passages are merged
        self.passages = PassageBuilder()
        self._names_files = names_files
        self._source = 0
        self._row_plan: RowPlan  # of the source that is read
        self._first_position = 0  # of its passages
        self._expects_questions = False  # any row should hold a question
        self._position_of: dict[str, int] = {}  # of each passage id, also of merged copies
        self.names = PassageNames(self._position_of, self.passages.titles)
        self.questions = QuestionBuilder(self._position_of, self.names)
        self._unknown_questions = Tally()
        self._changed_question_ids = Tally()
        self._answered = Tally()  # questions with answers in another file
        self._labels = LabelTracker()
        self._blank_questions: list[Problem] = []
        self._blank_question_count = 0

    def add(self, source: DataSource) -> tuple[int, int]:
        """Read the rows of a source; returns the number of rows and the number of skipped rows."""
        add_row = {
            Role.PASSAGES: self._add_passage,
            Role.QUESTIONS: self._add_question,
            Role.ANSWERS: self._add_answers,
            Role.JUDGEMENTS: self._add_judgement,
            Role.ROWS: self._add_row,
        }[source.role]
        rows_before = self.row_count
        left_out_before = self.rejection.problems.left_out
        self._source += 1
        self._first_position = len(self.passages)
        self._row_plan = RowPlan.from_source(source)
        self.rejection.report(unread_label_problems(source.columns, source.names, source.sample))
        if source.role is Role.JUDGEMENTS and source.columns.id:
            self.questions.use_positions(source.first_texts("id", _MAX_JUDGED_ROWS))
        self._labels.ambiguous_column = source.ambiguous_label or self._labels.ambiguous_column
        self.rejection.begin(source.recognised, source.name if self._names_files else None)
        self.read_rows(source.table().rows, source.columns, add_row, has_marks=self._row_plan.has_marks)
        return self.row_count - rows_before, self.rejection.problems.left_out - left_out_before

    def has_good_rows(self) -> bool:
        """Whether the current source has a good row: a passage and, unless it holds only passages, a question."""
        holds_passages = self._row_plan.source.role in (Role.PASSAGES, Role.ROWS)
        return bool(len(self.passages)) and (holds_passages or bool(self.questions))

    def build(self, name: str) -> QuestionSet:
        """Build the set and generate missing ids. Raises `DataError` if no passage or no question is left."""
        if not len(self.passages) or (self._expects_questions and not self.questions):
            for problem in self._blank_questions:
                self.rejection.add(RawRow(problem.row or 0, {}), problem, has_good_rows=True)
            self.rejection.problems.recorded.sort(key=lambda problem: problem.row or 0)
            raise self.rejection.no_rows_left_error(self.row_count)
        self._labels.require_relevance()
        passages = self.passages.passages()
        ids = self.passages.final_ids
        given_ids = [question.id for question in self.questions]
        question_ids = list(fill_ids("q", given_ids))
        if any(given_ids):
            generated = [id_ for id_, given in zip(question_ids, given_ids, strict=True) if not given]
            new = generated[self._changed_question_ids.rows :]
            self.rejection.report(id_problems(ProblemCode.GENERATED_QUESTION_IDS, new))
        questions = tuple(self.questions.build_questions(question_ids, ids))
        notices = [*self.passages.notices(), *self._labels.problems()]
        notices += id_problems(ProblemCode.QUESTIONS_BY_POSITION, [*self.questions.by_position])
        notices += self._changed_question_ids.problems(ProblemCode.CHANGED_QUESTION_IDS)
        notices += self._answered.problems(ProblemCode.ANSWERS_READ)
        if self._blank_questions:
            details = {"rows": self._blank_question_count, "first": self._blank_questions[0].row or 0}
            notices.append(Problem.from_code(ProblemCode.NO_QUESTION_IN_ROW, None, **details))
        self.rejection.report(notices)
        return QuestionSet(name, passages, questions, self.passages.aliases())

    def gaps(self) -> tuple[Problem, ...]:
        """Return the problems of the dataset as a whole; complete after `build`."""
        return (
            *self.questions.unknown_passages.problems(ProblemCode.UNKNOWN_PASSAGES),
            *self._unknown_questions.problems(ProblemCode.UNKNOWN_QUESTIONS),
            *id_problems(ProblemCode.UNMET_GROUPS, self.questions.ids_with_unmet_groups),
            *id_problems(ProblemCode.UNJUDGED_QUESTIONS, self.questions.unjudged_ids),
        )

    def _add_passage(self, reader: RowReader) -> Problem | None:
        id_ = reader.text("id", ProblemCode.EMPTY_ID)
        title = reader.text("title")
        has_only_title = bool(title) and tables.is_blank(reader.cell("context"))
        text = reader.text("context", None if has_only_title else ProblemCode.EMPTY_CONTEXT)
        if not id_ or reader.is_refused():
            return reader.problem
        if self._position_of.get(id_, -1) >= self._first_position:  # other files may use the same numbers
            return Problem.from_code(ProblemCode.DUPLICATE_PASSAGE, reader.row.number, id=display_text(id_, 80))
        self.passage_rows += 1
        if not text:
            text = title
            title = ""
            reader.dropped = Problem.from_code(ProblemCode.TITLE_AS_TEXT, reader.row.number, id=display_text(id_, 80))
        self._add_aliases(reader, self._store(id_, text, title, is_copy=id_ in self._position_of))
        return None

    def _add_aliases(self, reader: RowReader, position: int) -> None:
        """Add the ids of merged copies that an export of this project lists in its metadata."""
        location = self._row_plan.source.location
        if location is not None:
            self.names.locations.append((as_text(reader.row.cells.get(location)), position))
        for alias in tables.other_ids_in(reader.row.cells.get("metadata")):
            self.passages.add_alias(alias, position)
            self._position_of.setdefault(alias, position)

    def _store(self, id_: str, text: str, title: str, *, is_copy: bool = False) -> int:
        """Store a passage and return its position; a known text is merged, and its id becomes an alias."""
        position = self.passages.add(text, title, id_, is_copy=is_copy)
        if id_:
            self._position_of.setdefault(id_, position)
        return position

    def _add_row(self, reader: RowReader) -> Problem | None:
        row = reader.row
        plan = self._row_plan
        asks = row.is_question and plan.source.columns.question is not None
        self._expects_questions |= asks
        context = self._context(reader)
        judged = self._listed_passages(reader) if plan.lists else []
        if reader.is_refused():
            return reader.problem if row.is_question else None
        if not asks or (row.is_paragraph and self._is_missing(reader.cell("question"))):
            return self._add_passages_of(reader, context, judged, asks=asks)
        text = reader.text("question", ProblemCode.EMPTY_QUESTION)
        id_ = reader.text("id")
        if reader.is_refused():
            return reader.problem
        if tables.is_missing_mark(id_):
            id_ = ""
        position = self.passages.find(context) if context else -1
        passage_position = None if plan.merges_questions else position
        question = self.questions.find(id_, text, passage_position)
        if question is not None and question.text != text:
            if question.source == self._source:
                return _duplicate_id_problem(row.number, id_, question)
            self._changed_question_ids.add(id_)  # another file uses the same number
            id_ = ""
            question = self.questions.find("", text, passage_position)
        answers = self._answers(reader)
        grade = cells.parse_grade(reader, "label") if plan.source.columns.label and context else RELEVANT_GRADE
        if reader.is_refused():
            return reader.problem
        if question is None:
            question = PendingQuestion(row.number, self._source, id_, text, reader.text("kind"))
            self.questions.add(question, passage_position)
        self._note_part(question, reader)
        question.needs_judgement |= bool(plan.lists)
        for listed_id, title, passage, listed_grade in judged:
            # ids may be numbers within the list: the judgement refers to the text
            self.questions.judge(question, self._store(listed_id, passage, title), listed_grade)
        problem = self._judge_context(question, context, grade, reader) if context else None
        if answers:
            question.add_answers(answers, position)
        return problem

    def _is_missing(self, value: object) -> bool:
        return tables.is_missing(value) if self._row_plan.has_marks else tables.is_blank(value)

    def _note_part(self, question: PendingQuestion, reader: RowReader) -> None:
        cell = reader.cell("part")
        if part := ("" if cell is None else parse_part(cell)) or self._row_plan.source.part:
            # a question of several parts goes to the strictest: training must not see test questions
            question.part = max(question.part, part, key=_PARTS_BY_STRICTNESS.index)

    def _answers(self, reader: RowReader) -> dict[str, int]:
        cell = None if self._row_plan.source.columns.answers is None else reader.cell("answers")
        if tables.is_blank(cell):
            return {}
        if self._row_plan.separates_answers and isinstance(cell, str) and len(cell) <= tables.MAX_CHARACTERS:
            return {reader.mend_text(part.strip()): UNKNOWN_START for part in cell.split("|") if part.strip()}
        return reader.answers()

    def _context(self, reader: RowReader) -> str:
        """Return the passage of a row as text; a missing passage is a problem unless the row may hold lists."""
        if not self._row_plan.has_context or (self._row_plan.lists and self._is_missing(reader.cell("context"))):
            return ""
        text = reader.text("context", ProblemCode.EMPTY_CONTEXT)
        if self._row_plan.has_marks and tables.is_missing_mark(text):
            reader.refuse(ProblemCode.EMPTY_CONTEXT, "context")
            return ""
        self.passage_rows += reader.row.is_paragraph and bool(text)
        return text

    def _listed_passages(self, reader: RowReader) -> list[JudgedPassage]:
        passages: list[JudgedPassage] = []
        for role, names, grade in self._row_plan.lists:
            for id_, title, text, is_relevant in cells.listed_passages(reader, names, role):
                own_grade = grade if is_relevant is None or grade == cells.NOT_RELEVANT else int(is_relevant)
                passages.append((id_, title, text, own_grade))
        return passages

    def _add_passages_of(
        self, reader: RowReader, context: str, judged: Sequence[JudgedPassage], *, asks: bool
    ) -> Problem | None:
        number = reader.row.number
        if not context and not judged:
            role, code = ("question", ProblemCode.EMPTY_QUESTION) if asks else ("context", ProblemCode.EMPTY_CONTEXT)
            return Problem.from_code(code, number, column=reader.column(role)) if reader.row.is_question else None
        if asks:
            self._blank_question_count += 1
            if len(self._blank_questions) < _MAX_EXAMPLES or not self.questions:
                details = {"column": reader.column("question")}
                self._blank_questions.append(Problem.from_code(ProblemCode.EMPTY_QUESTION, number, **details))
            is_hopeless = self._blank_question_count == MAX_BAD_ROWS and len(self.passages) < MAX_BAD_ROWS // 100
            if is_hopeless and not self.questions:  # too many rows without a question that repeat few passages
                first = self._blank_questions[0]
                self.rejection.add(RawRow(first.row or 0, {}), first, has_good_rows=True)
                raise self.rejection.no_good_rows_error(ProblemCode.NO_GOOD_START, self._blank_question_count)
        if context:
            self._store_context(context, reader, is_copy=True)
        for id_, title, text, _ in judged:
            self._store(id_, text, title)
        return None

    def _store_context(self, context: str, reader: RowReader, *, is_copy: bool = False) -> int:
        columns = self._row_plan.source.columns
        name = columns.passage_id or (None if columns.question else columns.id)
        cell = None if name is None else reader.row.cells.get(name)
        id_ = "" if cell is None or self._is_missing(cell) else reader.mend_text(as_text(cell))
        title = reader.text("title")
        if self._row_plan.has_marks and tables.is_missing_mark(title):
            title = ""
        position = self._store(id_, context, title, is_copy=is_copy)
        if columns.question is None:
            self._add_aliases(reader, position)
        return position

    def _judge_context(self, question: PendingQuestion, context: str, grade: int, reader: RowReader) -> Problem | None:
        """Store the passage of a row with its grade; returns a problem if the row repeats another row."""
        number = reader.row.number
        position = self._store_context(context, reader)
        if position in question.grades or position in question.rejected:
            known = question.grades.get(position, cells.NOT_RELEVANT)
            if self._row_plan.source.columns.label is None or known == grade:
                return None if self._row_plan.lists else _repeated_row_problem(number, question)
            details = {"question": display_text(question.text, 80), "passage": display_text(context, 80)}
            return Problem.from_code(ProblemCode.JUDGED_TWICE, number, **details, grade=known)
        impossible = reader.cell("impossible")
        if impossible is not None and as_text(impossible).lower() in _YES:
            question.rejected += (position,)
        else:
            question.grades[position] = grade
            self.questions.judgement_count += 1
            self._labels.add_label(reader.column("label"), grade, len(question.grades))
        return None

    def _add_question(self, reader: RowReader) -> Problem | None:
        source = self._row_plan.source
        columns = source.columns
        number = reader.row.number
        self._expects_questions = True
        id_ = reader.text("id", ProblemCode.EMPTY_ID) if columns.id else ""
        text = reader.text("question", ProblemCode.EMPTY_QUESTION)
        if reader.is_refused() or not text:
            return reader.problem
        question = self.questions.find(id_, text)
        if question is not None and question.text != text:
            return _duplicate_id_problem(number, id_, question)
        if question is not None and not columns.positives and not source.references:
            return _repeated_row_problem(number, question)
        groups = cells.parse_groups(reader) if source.shape is SourceShape.AUTORAG else []
        judged = self._listed_passages(reader)
        if reader.is_refused():
            return reader.problem
        if question is None:
            kind = reader.text("kind")
            question = PendingQuestion(number, self._source, id_, text, kind, needs_judgement=True)
            self.questions.add(question)
        self._note_part(question, reader)
        if columns.answers:
            for answer in reader.answers():
                question.answers.setdefault(answer, UNKNOWN_START)
        if source.metadata:
            question.metadata = cells.parse_own_metadata(reader.row.cells.get(source.metadata)) or question.metadata
        self.questions.add_groups(question, groups)
        for listed_id, title, passage, listed_grade in judged:
            # here, unlike in rows, ids name the passages of the corpus
            position = self._position_of.get(listed_id)
            if position is None or self.passages.find(passage) == position:
                position = self._store(listed_id, passage, title)
            elif reader.dropped is None:
                reader.dropped = Problem.from_code(ProblemCode.OTHER_TEXT, number, id=display_text(listed_id, 80))
            self.questions.judge(question, position, listed_grade)
        grade = cells.parse_grade(reader, "label") if source.references and columns.label else RELEVANT_GRADE
        if not reader.is_refused():
            self.questions.judge_references(question, reader, source.references, grade)
        return reader.problem

    def _add_answers(self, reader: RowReader) -> Problem | None:
        id_ = reader.text("id", ProblemCode.EMPTY_ID)
        question = self.questions.find_by_reference(id_)
        if question is None:
            self._unknown_questions.add(id_)
            return reader.problem
        question.add_answers(reader.answers())
        self._answered.add(id_)
        return None

    def _add_judgement(self, reader: RowReader) -> Problem | None:
        columns = self._row_plan.source.columns
        if columns.id:
            id_ = reader.text("id", ProblemCode.EMPTY_ID)
            question = self.questions.find_by_reference(id_)
        else:
            id_ = reader.text("question", ProblemCode.EMPTY_QUESTION)
            question = self.questions.find("", id_)
        passages = cells.parse_ids(reader, "passage_id")
        grade = cells.parse_grade(reader, "label") if columns.label else RELEVANT_GRADE
        if reader.is_refused():
            return reader.problem
        if question is None and columns.question and not columns.id:
            question = PendingQuestion(reader.row.number, self._source, "", id_, needs_judgement=True)
            self.questions.add(question)  # ratings contain their questions
        if question is None:
            for _ in passages:
                self._unknown_questions.add(id_)
            return None
        self._note_part(question, reader)
        conflict: Problem | None = None
        for passage in passages:
            known = self.questions.judge_named(question, passage, grade)
            if known is not None:
                details = {"question": display_text(id_, 80), "passage": display_text(passage, 80)}
                conflict = Problem.from_code(ProblemCode.JUDGED_TWICE, reader.row.number, **details, grade=known)
        return conflict


def _duplicate_id_problem(row: int, id_: str, question: PendingQuestion) -> Problem:
    return Problem.from_code(ProblemCode.DUPLICATE_ID, row, id=display_text(id_, 80), first=question.row)


def _repeated_row_problem(row: int, question: PendingQuestion) -> Problem:
    return Problem.from_code(ProblemCode.REPEATED_ROW, row, first=question.row)
