"""The questions of every source while rows are read: their judgements, and labels that may be relevance or answers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from mrc_workbench.data.formats.columns import NAMES, QuestionColumns, plain_name
from mrc_workbench.data.formats.opening import Format
from mrc_workbench.data.formats.rows import RowReader
from mrc_workbench.data.formats.tables import UNKNOWN_START, as_text, display_text
from mrc_workbench.data.formats.workbooks import Workbook
from mrc_workbench.data.layouts.cells import NOT_RELEVANT, QuestionMetadata, holds_lists, separates_answers
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
from mrc_workbench.data.layouts.roles import Sample, column_flag, sibling_columns
from mrc_workbench.data.layouts.sources import DataSource
from mrc_workbench.data.passages import Tally
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.records import RELEVANT_GRADE, Question, is_generator_label

_FORMATS_WITHOUT_NULL = (Format.CSV, Format.TSV, Format.EXCEL)  # their programs write NaN for a missing value
ListColumns = tuple[str, tuple[str, ...], int | None]  # role, names, and the grade of their passages


@dataclass(frozen=True)
class RowPlan:
    """How rows are read: `lists` are columns of passages, `has_context` is whether the passage is a text."""

    source: DataSource
    lists: tuple[ListColumns, ...] = ()
    has_context: bool = False
    merges_questions: bool = False
    separates_answers: bool = False
    has_marks: bool = False  # whether NaN and N/A stand for missing values

    @classmethod
    def from_source(cls, source: DataSource) -> Self:
        """Make the plan for the rows of a source from its columns and some of its rows."""
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
        workbook = source.recognised.value  # a question may be written once, in cells merged over its passages
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
    """The labels of the rows read so far. Several passages of a question, or grades, say that they are relevance."""

    ambiguous_column: str = ""  # that of labels which may be answers
    _is_relevance: bool = False
    _not_relevant: Tally = field(default_factory=Tally)  # by column

    def add_label(self, column: str, grade: int, judged_count: int) -> None:
        """Note the label of a row: its grade, and how many passages of its question are judged."""
        self._is_relevance |= judged_count > 1 or grade > RELEVANT_GRADE
        if grade == NOT_RELEVANT:
            self._not_relevant.add(column)

    def require_relevance(self) -> None:
        """Raise `DataError` if some labels may be answers, and no row says that they are relevance."""
        if self.ambiguous_column and self._not_relevant.rows and not self._is_relevance:
            flags = " / ".join(column_flag(self.ambiguous_column, role) for role in ("label", "answers"))
            raise DataError.from_code(
                ProblemCode.UNSURE_LABEL, column=display_text(self.ambiguous_column, 80), flags=flags
            )

    def problems(self) -> list[Problem]:
        return self._not_relevant.problems(ProblemCode.LABELS_AS_RELEVANCE)


def unread_label_problems(columns: QuestionColumns, names: Sequence[str], sample: Sample) -> list[Problem]:
    """Return the notice of a column that is named as relevance but has no grades, if rows share their questions."""
    if columns.question is None or columns.context is None or columns.label is not None:
        return []
    name = next((name for name in names if plain_name(name) in NAMES["label"]), None)
    questions = [as_text(row.get(columns.question)) for row in sample]
    if name is None or len({*questions}) == len(questions):
        return []
    return [
        Problem.from_code(
            ProblemCode.UNREAD_LABEL, column=display_text(name, 80), value=display_text(sample[0].get(name), 80)
        )
    ]


@dataclass(slots=True)
class PendingQuestion:
    """A question while rows are read."""

    row: int
    source: int
    id: str
    text: str
    kind: str = ""
    part: str = ""
    answers: dict[str, int] = field(default_factory=dict)  # and where each begins in the first relevant passage
    grades: dict[_PassageKey, int] = field(default_factory=dict)
    rejected: tuple[int, ...] = ()  # positions of passages without an answer
    groups: tuple[Sequence[_PassageKey], ...] = ()
    metadata: QuestionMetadata | None = None
    needs_judgement: bool = False

    def add_answers(self, answers: dict[str, int], position: int | None = None) -> None:
        """Add the answers of a row; starts count only in the first relevant passage, whose position may be left out."""
        first = next((judged for judged, grade in self.grades.items() if grade >= RELEVANT_GRADE), position)
        for text, start in answers.items():
            self.answers.setdefault(text, start if position in (first, None) else UNKNOWN_START)


class QuestionBuilder:
    """All questions, in order, and their judgements, counted in `judgement_count` if the corpus has the passage.

    `positions` are those of passages by id. Once all questions are finished, `unmet` has the ids of those with a group
    that the corpus has no passage of, and `unjudged` those that need a judgement.
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
        self._by_text: dict[str, PendingQuestion] | None = None  # until a question is looked up by its text alone
        self._by_passage: dict[tuple[str, int], PendingQuestion] = {}
        self.by_position: dict[str, PendingQuestion] = {}  # if judgements name questions so

    def __len__(self) -> int:
        return len(self._questions)

    def __iter__(self) -> Iterator[PendingQuestion]:
        return iter(self._questions)

    def add(self, question: PendingQuestion, position: int | None = None) -> None:
        """Add a question; without an id it is known by its text, beside a passage if this has a position."""
        self._questions.append(question)
        if question.id:
            self._by_id[question.id] = question
        elif position is not None and position >= 0:
            self._by_passage[question.text, position] = question
        if self._by_text is not None:
            self._by_text.setdefault(question.text, question)

    def find(self, id_: str, text: str, position: int | None = None) -> PendingQuestion | None:
        """Return the question with an id; without one that with a text, beside the passage of a position if given."""
        if id_:
            return self._by_id.get(id_)
        if position is not None:
            return self._by_passage.get((text, position))
        if self._by_text is None:
            self._by_text = {question.text: question for question in reversed(self._questions)}
        return self._by_text.get(text)

    def use_positions(self, judged_ids: Iterable[str]) -> None:
        """Let judgements name questions by position, from 1, if their numbers can be nothing else, as in Cranfield.

        They name most questions, none is above the number of questions, some are no id, and some ids are larger.
        """
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
        """Note the grade of a passage of a list; a passage that is relevant once stays relevant."""
        if grade is not None:
            self.judgement_count += position not in question.grades
            question.grades[position] = max(question.grades.get(position, NOT_RELEVANT), grade)

    def add_groups(self, question: PendingQuestion, groups: Iterable[Iterable[str]]) -> None:
        """Note groups of ids of passages, all relevant: of each group one is enough."""
        for group in groups:
            known: list[_PassageKey] = [
                passage_id for name in group if (passage_id := self._known_id(name)) is not None
            ]
            question.grades |= dict.fromkeys(known, RELEVANT_GRADE)
            question.groups += (known,)
            self.judgement_count += len(known)

    def judge_references(
        self, question: PendingQuestion, reader: RowReader, references: Iterable[Reference], grade_in_row: int
    ) -> None:
        """Judge the passages that a row names; a name of several passages is a group: one of them is enough."""
        groups = list[list[_PassageKey]]()
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
        """Note a judgement of a passage by its name; returns the grade that it has already, None if it has none."""
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
        """Yield the questions as a set holds them, each released then; `ids` are those of the passages by position."""
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
        groups = [
            [self._passage_id(passage_key_in_group, ids) for passage_key_in_group in group] for group in question.groups
        ]
        groups += [self._known_ids(group, ids) for group in metadata.groups]
        if not any(groups):
            groups = []  # no passage answers the question, which is reported as such
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
        """The id of a passage, which a judgement may write as another number; counts names of no passage."""
        id_ = self._names.resolve_id(name)
        if id_ is None:
            self.unknown_passages.add(name)
        return id_

    def _passage_id(self, passage_key: _PassageKey, ids: Sequence[str]) -> str:
        return ids[passage_key if isinstance(passage_key, int) else self._position_of[passage_key]]

    def _known_ids(self, names: Iterable[str], ids: Sequence[str]) -> list[str]:
        known = (id_ for name in names if (id_ := self._known_id(name)) is not None)
        return [ids[self._position_of[id_]] for id_ in known]
