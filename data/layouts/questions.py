"""Collects the questions of all sources while rows are read, with their judgements and labels."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from mrc_workbench.data.formats.columns import NAMES, QuestionColumns, plain_name
from mrc_workbench.data.formats.opening import Format
from mrc_workbench.data.formats.rows import RowReader
from mrc_workbench.data.formats.tables import UNKNOWN_START, as_text, display_text
from mrc_workbench.data.formats.workbooks import Workbook
from mrc_workbench.data.layouts.cells import NOT_RELEVANT, QuestionMetadata, Sample, holds_lists, separates_answers
from mrc_workbench.data.layouts.references import (
    NameKind,
    NumberIds,
    PassageNames,
    Reference,
    Role,
    canonical_id,
    is_file_name,
    named_passages,
)
from mrc_workbench.data.layouts.roles import column_flag, sibling_columns
from mrc_workbench.data.layouts.sources import DataSource
from mrc_workbench.data.passages import Tally
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.records import RELEVANT_GRADE, Question, is_generator_label

_FORMATS_WITHOUT_NULL = (Format.CSV, Format.TSV, Format.EXCEL)  # their programs write NaN for a missing value
ListColumns = tuple[str, tuple[str, ...], int | None]  # role, names, grade of the passages


@dataclass(frozen=True)
class RowPlan:
    """How to read rows: `lists` are the columns with lists of passages, `has_context`: a column holds passages."""

    source: DataSource
    lists: tuple[ListColumns, ...] = ()
    has_context: bool = False
    merges_questions: bool = False
    separates_answers: bool = False
    has_marks: bool = False  # NaN and N/A are missing values

    @classmethod
    def from_source(cls, source: DataSource) -> Self:
        """Derive the plan for the rows of a source from its columns and its sample."""
        columns = source.columns
        names = source.names
        sample = source.sample
        asks_in_rows = source.role is Role.ROWS and columns.question is not None
        is_list = columns.context is not None and holds_lists(columns.context, sample)
        list_columns: list[ListColumns] = []
        if is_list and columns.context is not None:
            list_columns.append(("context", (columns.context,), RELEVANT_GRADE))
        grades = {"positives": RELEVANT_GRADE, "negatives": NOT_RELEVANT, "candidates": None}
        for role, grade in grades.items():
            if name := getattr(columns, role):
                list_columns.append((role, sibling_columns(role, name, names), grade))
        text = None if is_list else columns.context
        workbook = source.recognised.value  # merged cells may hold the question of several rows
        has_merged_questions = isinstance(workbook, Workbook) and columns.question in workbook.merged
        return cls(
            source,
            tuple(list_columns),
            has_context=text is not None,
            merges_questions=bool(list_columns) or columns.label is not None or has_merged_questions,
            separates_answers=columns.answers is not None and separates_answers(columns.answers, text, sample),
            has_marks=source.recognised.format in _FORMATS_WITHOUT_NULL or asks_in_rows,
        )


_PassageKey = str | int  # a passage by its id, or by its position if it has none


@dataclass
class LabelTracker:
    """The labels of the rows read so far. Several passages per question, or grades, show that they are relevance."""

    ambiguous_column: str = ""  # labels that may be answers
    _is_relevance: bool = False
    _not_relevant: Tally = field(default_factory=Tally)  # by column

    def add_label(self, column: str, grade: int, judged_count: int) -> None:
        """Record the label of a row: its grade, and the number of judged passages of its question."""
        self._is_relevance |= judged_count > 1 or grade > RELEVANT_GRADE
        if grade == NOT_RELEVANT:
            self._not_relevant.add(column)

    def require_relevance(self) -> None:
        """Raise `DataError` if labels may be answers, and no row shows that they are relevance."""
        column = self.ambiguous_column
        if column and self._not_relevant.rows and not self._is_relevance:
            flags = " / ".join(column_flag(column, role) for role in ("label", "answers"))
            raise DataError.from_code(ProblemCode.UNSURE_LABEL, column=display_text(column, 80), flags=flags)

    def problems(self) -> list[Problem]:
        return self._not_relevant.problems(ProblemCode.LABELS_AS_RELEVANCE)


def unread_label_problems(columns: QuestionColumns, names: Sequence[str], sample: Sample) -> list[Problem]:
    """Return a notice if a column has a name of relevance but no grades, and rows share their questions."""
    if columns.question is None or columns.context is None or columns.label is not None:
        return []
    name = next((name for name in names if plain_name(name) in NAMES["label"]), None)
    questions = [as_text(row.get(columns.question)) for row in sample]
    if name is None or len({*questions}) == len(questions):
        return []
    details = {"column": display_text(name, 80), "value": display_text(sample[0].get(name), 80)}
    return [Problem.from_code(ProblemCode.UNREAD_LABEL, None, **details)]


@dataclass(slots=True)
class PendingQuestion:
    """A question while rows are read."""

    row: int
    source: int
    id: str
    text: str
    kind: str = ""
    part: str = ""
    answers: dict[str, int] = field(default_factory=dict)  # with their start in the first relevant passage
    grades: dict[_PassageKey, int] = field(default_factory=dict)
    rejected: tuple[int, ...] = ()  # positions of passages without an answer
    groups: tuple[Sequence[_PassageKey], ...] = ()
    metadata: QuestionMetadata | None = None
    needs_judgement: bool = False

    def add_answers(self, answers: dict[str, int], position: int | None = None) -> None:
        """Add the answers of a row. Starts apply only to the first relevant passage, at `position` if it is new."""
        first = next((judged for judged, grade in self.grades.items() if grade >= RELEVANT_GRADE), position)
        for text, start in answers.items():
            self.answers.setdefault(text, start if position in (first, None) else UNKNOWN_START)


class QuestionBuilder:
    """All questions, in order, and their judgements; `judgement_count` counts those of passages in the corpus.

    `positions` maps passage ids to positions. After `build_questions`, `ids_with_unmet_groups` lists the questions with
    a group of passages that are not in the corpus, and `unjudged_ids` those that need a judgement.
    """

    def __init__(self, positions: Mapping[str, int], names: PassageNames) -> None:
        self.judgement_count = 0
        self.unknown_passages = Tally()
        self.ids_with_unmet_groups: list[str] = []
        self.unjudged_ids: list[str] = []
        self._position_of = positions
        self._names = names
        self._questions: list[PendingQuestion] = []
        self._by_id: dict[str, PendingQuestion] = {}
        self._number_ids = NumberIds(lambda: self._by_id)
        self._by_text: dict[str, PendingQuestion] | None = None  # filled by the first search without an id
        self._by_passage: dict[tuple[str, int], PendingQuestion] = {}
        self.by_position: dict[str, PendingQuestion] = {}  # filled if judgements name questions by position

    def __len__(self) -> int:
        return len(self._questions)

    def __iter__(self) -> Iterator[PendingQuestion]:
        return iter(self._questions)

    def add(self, question: PendingQuestion, position: int | None = None) -> None:
        """Add a question; its key is its id, else its text and the position of its passage."""
        self._questions.append(question)
        if question.id:
            self._by_id[question.id] = question
        elif position is not None and position >= 0:
            self._by_passage[question.text, position] = question
        if self._by_text is not None:
            self._by_text.setdefault(question.text, question)

    def find(self, id_: str, text: str, position: int | None = None) -> PendingQuestion | None:
        """Return the question with an id; without an id the question with a text and, if given, a passage."""
        if id_:
            return self._by_id.get(id_)
        if position is not None:
            return self._by_passage.get((text, position))
        if self._by_text is None:
            self._by_text = {question.text: question for question in reversed(self._questions)}
        return self._by_text.get(text)

    def use_positions(self, judged_ids: Iterable[str]) -> None:
        """Let judgements name questions by position, from 1, if their numbers must be positions, as in Cranfield."""
        numbers = {*map(canonical_id, judged_ids)}
        ids = {*map(canonical_id, self._by_id)}
        if len({question.source for question in self._questions}) != 1 or not all(map(str.isdecimal, numbers | ids)):
            return
        count = len(self._questions)
        are_positions = {*map(int, numbers)} <= {*range(1, count + 1)} and 2 * len(numbers) > count
        if are_positions and numbers - ids and max(map(int, ids), default=0) > count:
            self.by_position = {str(number): question for number, question in enumerate(self._questions, start=1)}

    def find_by_reference(self, id_: str) -> PendingQuestion | None:
        """Return the question that a judgement names by its id, perhaps written as another number, or by position."""
        if self.by_position:
            return self.by_position.get(canonical_id(id_))
        return self._by_id.get(id_) or self._by_id.get(self._number_ids.find(id_) or "")

    def judge(self, question: PendingQuestion, position: int, grade: int | None) -> None:
        """Record the grade of a listed passage; the highest grade applies."""
        if grade is not None:
            self.judgement_count += position not in question.grades
            question.grades[position] = max(question.grades.get(position, NOT_RELEVANT), grade)

    def add_groups(self, question: PendingQuestion, groups: Iterable[Iterable[str]]) -> None:
        """Add groups of relevant passages: one passage of each group is sufficient."""
        for group in groups:
            known: list[_PassageKey] = [id_ for name in group if (id_ := self._known_id(name)) is not None]
            question.grades |= dict.fromkeys(known, RELEVANT_GRADE)
            question.groups += (known,)
            self.judgement_count += len(known)

    def judge_references(
        self, question: PendingQuestion, reader: RowReader, references: Iterable[Reference], grade_in_row: int
    ) -> None:
        """Judge the passages that a row names; several passages with the same name become a group."""
        groups: list[list[_PassageKey]] = []
        for column, kind, grade in references:
            for name, positions in named_passages(reader.row.cells.get(column), kind, self._names):
                if not positions:
                    self.unknown_passages.add(reader.mend_text(name))
                for position in positions:
                    self.judge(question, position, grade * grade_in_row)
                if grade:
                    groups.append(list(positions))
        if any(len(group) > 1 for group in groups):
            question.groups += tuple(groups)

    def judge_named(self, question: PendingQuestion, passage: str, grade: int) -> int | None:
        """Record a judgement of a passage by its name; returns the grade of an earlier judgement, which applies."""
        is_document = is_file_name(passage) and self._names.resolve_id(passage) is None
        if positions := self._names.find(NameKind.FILE, passage) if is_document else ():
            self.judgement_count += len([position for position in positions if position not in question.grades])
            question.grades |= dict.fromkeys(positions, grade)
            if len(positions) > 1 and grade:
                question.groups += (positions,)
            return None
        passage_key = self._names.resolve_id(passage) or passage
        if passage_key in question.grades:
            return question.grades[passage_key]
        if self._known_id(passage) is not None:
            question.grades[passage_key] = grade
            self.judgement_count += 1
        return None

    def build_questions(self, question_ids: Iterable[str], ids: Sequence[str]) -> Iterator[Question]:
        """Yield the questions of the set and release them one by one; `ids` are the passage ids by position."""
        self._by_id = {}
        self._by_text = {}
        self._by_passage = {}
        self._questions.reverse()
        for id_ in question_ids:
            question = self._questions.pop()
            if question.needs_judgement and not question.grades:
                self.unjudged_ids.append(question.id or question.text)
            yield self._build_question(id_, question, ids)

    def _build_question(self, id_: str, question: PendingQuestion, ids: Sequence[str]) -> Question:
        grades: dict[str, int] = {}
        for passage_key, grade in question.grades.items():
            passage = self._passage_id(passage_key, ids)
            grades[passage] = max(grades.get(passage, NOT_RELEVANT), grade)
        metadata = question.metadata or QuestionMetadata()  # of an export of this project
        groups = [[self._passage_id(member, ids) for member in group] for group in question.groups]
        groups += [self._known_ids(group, ids) for group in metadata.groups]
        if not any(groups):
            groups = []  # reported as a question without relevant passages
        elif not all(groups):
            self.ids_with_unmet_groups.append(id_)
        answers = tuple(dict.fromkeys((*question.answers, *metadata.answers)))
        own_starts = tuple(question.answers.values())
        starts = own_starts if max(own_starts, default=UNKNOWN_START) >= 0 else metadata.starts
        return Question.from_grades(
            id_,
            question.text,
            grades,
            answers=answers,
            kind=question.kind or metadata.kind,
            generator=metadata.generator if is_generator_label(metadata.generator) else "",
            hidden=metadata.hidden,
            part=question.part or metadata.part,
            starts=starts if len(starts) == len(answers) else (),
            rejected=(*(ids[position] for position in question.rejected), *self._known_ids(metadata.rejected, ids)),
            groups=tuple(tuple(dict.fromkeys(group)) for group in groups),
        )

    def _known_id(self, name: str) -> str | None:
        id_ = self._names.resolve_id(name)
        if id_ is None:
            self.unknown_passages.add(name)
        return id_

    def _passage_id(self, passage_key: _PassageKey, ids: Sequence[str]) -> str:
        return ids[passage_key if isinstance(passage_key, int) else self._position_of[passage_key]]

    def _known_ids(self, names: Iterable[str], ids: Sequence[str]) -> list[str]:
        known = (id_ for name in names if (id_ := self._known_id(name)) is not None)
        return [ids[self._position_of[id_]] for id_ in known]
