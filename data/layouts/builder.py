"""Builds one question set from the rows of every source: passages, questions, judgements, and rows of several kinds."""

from collections.abc import Sequence

from mrc_workbench.data.formats.rows import MOST_BAD_ROWS, DatasetBuilder, RowReader
from mrc_workbench.data.formats.tables import (
    MOST_CHARACTERS,
    NOWHERE,
    RawRow,
    as_text,
    is_blank,
    is_mark,
    is_missing,
    other_ids_in,
    shown,
)
from mrc_workbench.data.layouts.cells import NOT_RELEVANT, grade_in, groups_in, ids_in, listed_passages, own_metadata_in
from mrc_workbench.data.layouts.questions import GatheredQuestion, GatheredQuestions, Labels, RowPlan, unread_labels
from mrc_workbench.data.layouts.references import PassageNames, Role, part_named
from mrc_workbench.data.layouts.sources import Shape, Source
from mrc_workbench.data.passages import GatheredPassages, Tally, filled_ids, id_problems
from mrc_workbench.data.problems import Problem, ProblemCode
from mrc_workbench.data.records import RELEVANT_GRADE, QuestionSet

_EXAMPLES = 3
_MOST_JUDGED = 100_000  # rows of judgements that tell how they name questions
_PARTS = ("", "train", "validation", "test")  # from the least strict on
_YES = ("true", "1", "yes", "y")

JudgedPassage = tuple[str, str, str, int | None]  # id, title, text and grade; a candidate has no grade


class QuestionSetBuilder(DatasetBuilder):
    """Builds a question set from sources: passages first, then questions and judgements."""

    def __init__(self, *, names_files: bool) -> None:
        super().__init__()
        self.passage_rows = 0  # before equal passages are merged
        self.passages = GatheredPassages()
        self._names_files = names_files
        self._source = 0
        self._plan: RowPlan  # of the source that is read
        self._first_position = 0  # of its passages
        self._asks = False  # whether any row was to hold a question
        self._position_of: dict[str, int] = {}  # of each passage id, also of merged copies
        self.names = PassageNames(self._position_of, self.passages.titles)
        self.questions = GatheredQuestions(self._position_of, self.names)
        self._unknown_questions = Tally()
        self._changed_question_ids = Tally()
        self._answered = Tally()  # questions whose answers a file of their own holds
        self._labels = Labels()
        self._blank_questions: list[Problem] = []
        self._blank_question_count = 0

    def add(self, source: Source) -> tuple[int, int]:
        """Read the rows of a source; returns how many there are, and how many of them were left out."""
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
        self._plan = RowPlan.of(source)
        self.rejection.report(unread_labels(source.columns, source.names, source.sample))
        if source.role is Role.JUDGEMENTS and source.columns.id:
            self.questions.use_positions(source.first("id", _MOST_JUDGED))
        self._labels.unsure_column = source.unsure_label or self._labels.unsure_column
        self.rejection.begin(source.recognised, source.name if self._names_files else None)
        self.read_rows(source.table().rows, source.columns, add_row, has_marks=self._plan.has_marks)
        return self.row_count - rows_before, self.rejection.problems.left_out - left_out_before

    def has_good_rows(self) -> bool:
        """Whether the source that is read has a good row: a passage and, unless it holds passages, a question."""
        holds_passages = self._plan.source.role in (Role.PASSAGES, Role.ROWS)
        return bool(len(self.passages)) and (holds_passages or bool(self.questions))

    def question_set(self, name: str) -> QuestionSet:
        """Build the set; missing ids are generated. Raises `DataError` if no passage or no question is left."""
        if not len(self.passages) or (self._asks and not self.questions):
            for problem in self._blank_questions:
                self.rejection.add(RawRow(problem.row or 0, {}), problem, any_good=True)
            self.rejection.problems.kept.sort(key=lambda problem: problem.row or 0)
            raise self.rejection.nothing_left(self.row_count)
        self._labels.require_relevance()
        passages = self.passages.passages()
        ids = self.passages.final_ids
        given_ids = [question.id for question in self.questions]
        question_ids = list(filled_ids("q", given_ids))
        if any(given_ids):
            made = [id_ for id_, given in zip(question_ids, given_ids, strict=True) if not given]
            self.rejection.report(id_problems(ProblemCode.MADE_QUESTION_IDS, made[self._changed_question_ids.rows :]))
        questions = tuple(self.questions.finish(question_ids, ids))
        notices = [*self.passages.notices(), *self._labels.problems()]
        notices += id_problems(ProblemCode.QUESTIONS_BY_POSITION, [*self.questions.by_position])
        notices += self._changed_question_ids.problems(ProblemCode.CHANGED_QUESTION_IDS)
        notices += self._answered.problems(ProblemCode.ANSWERS_READ)
        if self._blank_question_count:
            first = self._blank_questions[0].row or 0
            notices.append(Problem.of(ProblemCode.NO_QUESTION_IN_ROW, rows=self._blank_question_count, first=first))
        self.rejection.report(notices)
        return QuestionSet(name, passages, questions, self.passages.aliases())

    def gaps(self) -> tuple[Problem, ...]:
        """Return what concerns the dataset as a whole; complete once `question_set` has been called."""
        return (
            *self.questions.unknown_passages.problems(ProblemCode.UNKNOWN_PASSAGES),
            *self._unknown_questions.problems(ProblemCode.UNKNOWN_QUESTIONS),
            *id_problems(ProblemCode.UNMET_GROUPS, self.questions.unmet),
            *id_problems(ProblemCode.UNJUDGED_QUESTIONS, self.questions.unjudged),
        )

    def _add_passage(self, reader: RowReader) -> Problem | None:
        id_ = reader.text("id", ProblemCode.EMPTY_ID)
        title = reader.text("title")
        has_only_title = bool(title) and is_blank(reader.cell("context"))
        text = reader.text("context", None if has_only_title else ProblemCode.EMPTY_CONTEXT)
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
        location = self._plan.source.location
        if location is not None:
            self.names.locations.append((as_text(reader.row.cells.get(location)), position))
        for alias in other_ids_in(reader.row.cells.get("metadata")):
            self.passages.add_alias(alias, position)
            self._position_of.setdefault(alias, position)

    def _store(self, id_: str, text: str, title: str, *, is_copy: bool = False) -> int:
        """Store a passage and return its position; a known text is merged, and its id becomes an alias."""
        position = self.passages.add(text, title, id_, is_copy=is_copy)
        if id_:
            self._position_of.setdefault(id_, position)
        return position

    def _add_row(self, reader: RowReader) -> Problem | None:
        row, plan = reader.row, self._plan
        asks = row.asks and plan.source.columns.question is not None
        self._asks |= asks
        context = self._context(reader)
        judged = self._listed(reader) if plan.lists else []
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
        beside = None if plan.merges_questions else position
        question = self.questions.find(id_, text, beside)
        if question is not None and question.text != text:
            if question.source == self._source:
                return Problem.of(ProblemCode.DUPLICATE_ID, row.number, id=shown(id_, 80), first=question.row)
            self._changed_question_ids.add(id_)  # another file numbers its questions in the same way
            id_, question = "", self.questions.find("", text, beside)
        answers = self._answers(reader)
        grade = grade_in(reader, "label") if plan.source.columns.label and context else RELEVANT_GRADE
        if reader.is_refused():
            return reader.problem
        if question is None:
            question = GatheredQuestion(row.number, self._source, id_, text, reader.text("kind"))
            self.questions.add(question, beside)
        self._note_part(question, reader)
        question.needs_judgement |= bool(plan.lists)
        for listed_id, title, passage, listed_grade in judged:
            # lists may number their own entries: the text is what was judged
            self.questions.judge(question, self._store(listed_id, passage, title), listed_grade)
        problem = self._judge_context(question, context, grade, reader) if context else None
        if answers:
            question.add_answers(answers, position)
        return problem

    def _is_missing(self, value: object) -> bool:
        return is_missing(value) if self._plan.has_marks else is_blank(value)

    def _note_part(self, question: GatheredQuestion, reader: RowReader) -> None:
        named = reader.cell("part")
        if part := ("" if named is None else part_named(named)) or self._plan.source.part:
            # a question of several parts is in the strictest, so that no test is trained on
            question.part = max(question.part, part, key=_PARTS.index)

    def _answers(self, reader: RowReader) -> dict[str, int]:
        cell = None if self._plan.source.columns.answers is None else reader.cell("answers")
        if is_blank(cell):
            return {}
        if self._plan.separates_answers and isinstance(cell, str) and len(cell) <= MOST_CHARACTERS:
            return {reader.fit(part.strip()): NOWHERE for part in cell.split("|") if part.strip()}
        return reader.answers()

    def _context(self, reader: RowReader) -> str:
        """Return the passage of a row as text; a missing one is a problem unless the row may hold lists."""
        if not self._plan.has_context or (self._plan.lists and self._is_missing(reader.cell("context"))):
            return ""
        text = reader.text("context", ProblemCode.EMPTY_CONTEXT)
        if self._plan.has_marks and is_mark(text):
            reader.refuse(ProblemCode.EMPTY_CONTEXT, "context")
            return ""
        self.passage_rows += reader.row.is_paragraph and bool(text)
        return text

    def _listed(self, reader: RowReader) -> list[JudgedPassage]:
        found: list[JudgedPassage] = []
        for role, names, grade in self._plan.lists:
            for id_, title, text, is_relevant in listed_passages(reader, names, role):
                own_grade = grade if is_relevant is None or grade == NOT_RELEVANT else int(is_relevant)
                found.append((id_, title, text, own_grade))
        return found

    def _add_passages_of(
        self, reader: RowReader, context: str, judged: Sequence[JudgedPassage], *, asks: bool
    ) -> Problem | None:
        number = reader.row.number
        if not context and not judged:
            role, code = ("question", ProblemCode.EMPTY_QUESTION) if asks else ("context", ProblemCode.EMPTY_CONTEXT)
            return Problem.of(code, number, column=reader.column(role)) if reader.row.asks else None
        if asks:
            self._blank_question_count += 1
            if len(self._blank_questions) < _EXAMPLES or not self.questions:
                details = {"column": reader.column("question")}
                self._blank_questions.append(Problem.of(ProblemCode.EMPTY_QUESTION, number, **details))
            is_hopeless = self._blank_question_count == MOST_BAD_ROWS and len(self.passages) < MOST_BAD_ROWS // 100
            if is_hopeless and not self.questions:  # very many rows without a question, with copies of few passages
                first = self._blank_questions[0]
                self.rejection.add(RawRow(first.row or 0, {}), first, any_good=True)
                raise self.rejection.no_good(ProblemCode.NO_GOOD_START, self._blank_question_count)
        if context:
            self._store_context(context, reader, is_copy=True)
        for id_, title, text, _ in judged:
            self._store(id_, text, title)
        return None

    def _store_context(self, context: str, reader: RowReader, *, is_copy: bool = False) -> int:
        columns = self._plan.source.columns
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

    def _judge_context(self, question: GatheredQuestion, context: str, grade: int, reader: RowReader) -> Problem | None:
        """Store the passage of a row with its grade; returns the problem if the row repeats another."""
        number = reader.row.number
        position = self._store_context(context, reader)
        if position in question.grades or position in question.rejected:
            known = question.grades.get(position, NOT_RELEVANT)
            if self._plan.source.columns.label is None or known == grade:
                return None if self._plan.lists else _repeated(number, question)
            details = {"question": shown(question.text, 80), "passage": shown(context, 80)}
            return Problem.of(ProblemCode.JUDGED_TWICE, number, **details, grade=known)
        impossible = reader.cell("impossible")
        if impossible is not None and as_text(impossible).lower() in _YES:
            question.rejected += (position,)
        else:
            question.grades[position] = grade
            self.questions.judgement_count += 1
            self._labels.note(reader.column("label"), grade, len(question.grades))
        return None

    def _add_question(self, reader: RowReader) -> Problem | None:
        source = self._plan.source
        columns, number = source.columns, reader.row.number
        self._asks = True
        id_ = reader.text("id", ProblemCode.EMPTY_ID) if columns.id else ""
        text = reader.text("question", ProblemCode.EMPTY_QUESTION)
        if reader.is_refused() or not text:
            return reader.problem
        question = self.questions.find(id_, text)
        if question is not None and question.text != text:
            return Problem.of(ProblemCode.DUPLICATE_ID, number, id=shown(id_, 80), first=question.row)
        if question is not None and not columns.positives and not source.references:
            return _repeated(number, question)
        groups = groups_in(reader) if source.shape is Shape.AUTORAG else []
        judged = self._listed(reader)
        if reader.is_refused():
            return reader.problem
        if question is None:
            kind = reader.text("kind")
            question = GatheredQuestion(number, self._source, id_, text, kind, needs_judgement=True)
            self.questions.add(question)
        self._note_part(question, reader)
        if columns.answers:
            for answer in reader.answers():
                question.answers.setdefault(answer, NOWHERE)
        if source.metadata:
            question.metadata = own_metadata_in(reader.row.cells.get(source.metadata)) or question.metadata
        self.questions.add_groups(question, groups)
        for listed_id, title, passage, listed_grade in judged:
            # ids name the passages of the corpus, unlike those of lists in rows
            position = self._position_of.get(listed_id)
            if position is None or self.passages.find(passage) == position:
                position = self._store(listed_id, passage, title)
            elif reader.dropped is None:
                reader.dropped = Problem.of(ProblemCode.OTHER_TEXT, number, id=shown(listed_id, 80))
            self.questions.judge(question, position, listed_grade)
        grade = grade_in(reader, "label") if source.references and columns.label else RELEVANT_GRADE
        if not reader.is_refused():
            self.questions.judge_references(question, reader, source.references, grade)
        return reader.problem

    def _add_answers(self, reader: RowReader) -> Problem | None:
        id_ = reader.text("id", ProblemCode.EMPTY_ID)
        question = self.questions.named(id_)
        if question is None:
            self._unknown_questions.add(id_)
            return reader.problem
        question.add_answers(reader.answers())
        self._answered.add(id_)
        return None

    def _add_judgement(self, reader: RowReader) -> Problem | None:
        columns = self._plan.source.columns
        if columns.id:
            id_ = reader.text("id", ProblemCode.EMPTY_ID)
            question = self.questions.named(id_)
        else:
            id_ = reader.text("question", ProblemCode.EMPTY_QUESTION)
            question = self.questions.find("", id_)
        passages = ids_in(reader, "passage_id")
        grade = grade_in(reader, "label") if columns.label else RELEVANT_GRADE
        if reader.is_refused():
            return reader.problem
        if question is None and columns.question and not columns.id:
            question = GatheredQuestion(reader.row.number, self._source, "", id_, needs_judgement=True)
            self.questions.add(question)  # ratings bring their questions
        if question is None:
            for _ in passages:
                self._unknown_questions.add(id_)
            return None
        self._note_part(question, reader)
        twice: Problem | None = None
        for passage in passages:
            known = self.questions.judge_named(question, passage, grade)
            if known is not None:
                details = {"question": shown(id_, 80), "passage": shown(passage, 80)}
                twice = Problem.of(ProblemCode.JUDGED_TWICE, reader.row.number, **details, grade=known)
        return twice


def _repeated(row: int, question: GatheredQuestion) -> Problem:
    return Problem.of(ProblemCode.REPEATED_ROW, row, first=question.row)
