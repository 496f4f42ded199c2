"""Passages, questions and judgements become a set; ids that nobody has are counted, nothing is passed over unsaid."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from data.formats.rows import MOST_ANSWERS, Rejection, RowReader, parsed
from data.formats.tables import MOST_CHARACTERS, as_text, is_blank, is_collection, is_fit, kind_of, shown
from data.layouts.lines import WHOLE
from data.layouts.sources import Role, Source
from data.passages import GatheredPassages, filled_ids
from data.problems import Problem, ProblemCode
from data.records import RELEVANT_GRADE, Question, QuestionSet, is_made

MOST_GRADE = 1000  # gains are powers of two: those of larger grades are no numbers any more
_NEGATIVE = 0
_EXAMPLES = 3
_IDS_OF_A_PASSAGE = ("docid", "doc_id", "_id", "id", "pid", "passage_id")
_TEXTS_OF_A_PASSAGE = ("text", "contents", "content", "passage", "body")

_Judged = str | int  # a passage by its id; by its place where it has none


@dataclass(frozen=True)
class _Told:
    """What else the file says of a question, in its metadata: as this project writes it."""

    answers: tuple[str, ...] = ()
    kind: str = ""
    made: str = ""
    hidden: bool = False
    starts: tuple[Annotated[int, Field(ge=-1, lt=2**31)], ...] = ()
    rejected: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()


_TOLD = TypeAdapter(_Told)


@dataclass(slots=True)
class _Asked:
    row: int
    id: str
    text: str
    kind: str = ""
    answers: dict[str, None] = field(default_factory=dict)
    grades: dict[_Judged, int] = field(default_factory=dict)
    groups: list[list[_Judged]] = field(default_factory=list)
    told: _Told = field(default_factory=_Told)


@dataclass
class Missing:
    """Ids that are named and that nobody has: in how many rows, how many, and the first of them."""

    rows: int = 0
    ids: dict[str, None] = field(default_factory=dict)

    def problem(self, code: ProblemCode) -> list[Problem]:
        """Return what is told of them, nothing where there are none."""
        return [Problem.of(code, rows=self.rows, ids=len(self.ids), examples=examples(self.ids))] if self.rows else []


def examples(ids: Iterable[str]) -> str:
    """Return the first of some ids, between commas."""
    return ", ".join(shown(id_, 40) for id_ in islice(ids, _EXAMPLES))


class Gathering:
    """What the rows of all files have become so far. `take` reads one file after the other, passages first."""

    def __init__(self, *, names_files: bool) -> None:
        self.rejection, self.row_count, self.judgements = Rejection(), 0, 0
        self.unknown_passages, self.unknown_questions = Missing(), Missing()
        self.unmet: list[str] = []  # ids of questions with a group of which the corpus has no passage
        self.passages = GatheredPassages()
        self._names_files = names_files
        self._place_of = dict[str, int]()
        self._asked: list[_Asked] = []
        self._by_id: dict[str, _Asked] = {}
        self._by_text: dict[str, _Asked] = {}

    def take(self, source: Source) -> tuple[int, int]:
        """Read the rows of a file; returns how many there are, and how many of them were left out."""
        take: dict[Role, Callable[[RowReader, Source], Problem | None]]
        take = {Role.PASSAGES: self._passage, Role.QUESTIONS: self._question, Role.JUDGEMENTS: self._judgement}
        rows, left_out = 0, self.rejection.problems.left_out
        self.rejection.begin(source.recognised, source.name if self._names_files else None)
        for row in source.table().rows:
            rows += 1
            reader = RowReader(row, source.fields)
            problem: Problem | None = row.problem or take[source.role](reader, source) or reader.problem
            if problem is not None:
                any_good = bool(len(self.passages)) and (source.role is Role.PASSAGES or bool(self._asked))
                self.rejection.add(row, problem, any_good=any_good)
            else:
                self.rejection.note(reader)
        self.row_count += rows
        return rows, self.rejection.problems.left_out - left_out

    def question_set(self, name: str) -> QuestionSet:
        """Build the set; ids that are missing are made."""
        passages = self.passages.passages()
        ids = list(passages.ids)
        asked = zip(filled_ids("q", [asked.id for asked in self._asked]), self._asked, strict=True)
        return QuestionSet(name, passages, tuple(self._made(id_, one, ids) for id_, one in asked))

    def unjudged(self) -> list[str]:
        """Return the ids of questions that no judgement names; of one without an id its text."""
        return [asked.id or asked.text for asked in self._asked if not asked.grades]

    def _passage(self, reader: RowReader, _: Source) -> Problem | None:
        id_ = reader.text("id", ProblemCode.EMPTY_ID)
        title = reader.text("title")
        text = reader.text("text", None if title and is_blank(reader.cell("text")) else ProblemCode.EMPTY_CONTEXT)
        if not id_ or reader.problem is not None:
            return reader.problem
        if id_ in self._place_of:
            return Problem.of(ProblemCode.DUPLICATE_PASSAGE, reader.row.number, id=shown(id_, 80))
        if not text:  # the title is all there is to find
            text, title = title, ""
            reader.dropped = Problem.of(ProblemCode.TITLE_AS_TEXT, reader.row.number, id=shown(id_, 80))
        self._place(id_, text, title, reader)
        return None

    def _place(self, id_: str, text: str, title: str, reader: RowReader) -> int:
        """Keep a passage; of a text that is known under another id that one stays, which is told."""
        place = self.passages.find(text)
        if place < len(self.passages) and id_:
            if first := self.passages.ids[place]:
                told = {"id": shown(id_, 80), "first": shown(first, 80)}
                reader.dropped = reader.dropped or Problem.of(ProblemCode.SAME_PASSAGE, reader.row.number, **told)
            else:
                self.passages.ids[place] = id_
        self.passages.add(text, title, id_)
        if id_:
            self._place_of[id_] = place
        return place

    def _question(self, reader: RowReader, source: Source) -> Problem | None:
        fields, number = source.fields, reader.row.number
        id_ = reader.text("id", ProblemCode.EMPTY_ID) if fields.id else ""
        text = reader.text("text", ProblemCode.EMPTY_QUESTION)
        if reader.problem is not None or not text:
            return reader.problem
        asked = self._by_id.get(id_) if id_ else self._by_text.get(text)
        if asked is not None and asked.text != text:
            return Problem.of(ProblemCode.DUPLICATE_ID, number, id=shown(id_, 80), first=asked.row)
        if asked is not None and not fields.positive:
            return Problem.of(ProblemCode.REPEATED_ROW, number, first=asked.row)
        groups = _groups_in(reader) if fields.groups else []
        grade_of = {"positive": RELEVANT_GRADE, "negative": _NEGATIVE}
        held = {grade: _passages_in(reader, role) for role, grade in grade_of.items() if getattr(fields, role)}
        if _is_refused(reader):
            return reader.problem
        if asked is None:
            asked = _Asked(number, id_, text, reader.text("kind"))
            self._asked.append(asked)
            self._by_text.setdefault(text, asked)
            if id_:
                self._by_id[id_] = asked
        if fields.answers:
            asked.answers |= dict.fromkeys(reader.answers())
        if fields.metadata:
            self._tell(asked, reader)
        for group in groups:
            known: list[_Judged] = [passage for passage in group if self._is_known(passage)]
            asked.grades |= dict.fromkeys(known, RELEVANT_GRADE)
            asked.groups.append(known)
            self.judgements += len(known)
        for grade, passages in held.items():
            for passage in passages:
                self._add_held(asked, passage, grade, reader)
        return None

    def _add_held(self, asked: _Asked, passage: tuple[str, str, str], grade: int, reader: RowReader) -> None:
        """Take a passage that stands in the row of its question; a positive one anywhere is one."""
        id_, text, title = passage
        held: _Judged = id_
        if not text and (not id_ or not self._is_known(id_)):
            return
        if text and id_ in self._place_of:
            if self.passages.find(text) != self._place_of[id_]:
                told = Problem.of(ProblemCode.OTHER_TEXT, reader.row.number, id=shown(id_, 80))
                reader.dropped = reader.dropped or told
        elif text:
            place = self._place(id_, text, title, reader)
            held = id_ or place
        self.judgements += held not in asked.grades
        asked.grades[held] = max(asked.grades.get(held, _NEGATIVE), grade)

    def _is_known(self, id_: str) -> bool:
        if id_ not in self._place_of:
            self.unknown_passages.rows += 1
            self.unknown_passages.ids.setdefault(id_)
            return False
        return True

    def _tell(self, asked: _Asked, reader: RowReader) -> None:
        """Take what the metadata of a question say, where they are such as are written here."""
        value = reader.cell("metadata")
        value = parsed(value) if isinstance(value, str) and value.lstrip().startswith("{") else value
        if not isinstance(value, dict) or not any(name in value for name in _Told.__dataclass_fields__):
            return
        try:
            told = _TOLD.validate_python({name: one for name, one in value.items() if one is not None})
        except ValidationError:
            return  # of somebody else, who means other things by these names
        texts = (*told.answers, told.kind, told.made)
        if len(told.answers) <= MOST_ANSWERS and all(len(text) <= MOST_CHARACTERS and is_fit(text) for text in texts):
            asked.told = told

    def _judgement(self, reader: RowReader, source: Source) -> Problem | None:
        if source.fields.question_id:
            id_ = reader.text("question_id", ProblemCode.EMPTY_ID)
            asked = self._by_id.get(id_)
        else:
            id_ = reader.text("question", ProblemCode.EMPTY_QUESTION)
            asked = self._by_text.get(id_)
        cell = reader.cell("passage_id")
        if is_collection(cell):
            named = list(dict.fromkeys(reader.fit(as_text(one)) for one in _listed(cell) if not is_blank(one)))
        else:
            named = [reader.text("passage_id", ProblemCode.EMPTY_ID)]
        grade = _grade_in(reader) if source.fields.grade else RELEVANT_GRADE
        if reader.problem is not None:
            return reader.problem
        if asked is None and source.fields.question and not source.fields.question_id:
            asked = _Asked(reader.row.number, "", id_)  # ratings bring their questions
            self._asked.append(asked)
            self._by_text[id_] = asked
        twice: Problem | None = None
        for passage in named:
            if asked is None:
                self.unknown_questions.rows += 1
                self.unknown_questions.ids.setdefault(id_)
            elif passage in asked.grades:
                told = {"question": shown(id_, 80), "passage": shown(passage, 80)}
                grade_before = asked.grades[passage]
                twice = Problem.of(ProblemCode.JUDGED_TWICE, reader.row.number, **told, grade=grade_before)
            elif self._is_known(passage):
                asked.grades[passage] = grade
                self.judgements += 1
        return twice

    def _made(self, id_: str, asked: _Asked, ids: Sequence[str]) -> Question:
        def final(judged: _Judged) -> str:
            return ids[judged if isinstance(judged, int) else self._place_of[judged]]

        grades: dict[str, int] = {}
        for judged, grade in asked.grades.items():
            grades[final(judged)] = max(grades.get(final(judged), _NEGATIVE), grade)
        told = asked.told
        groups = [[final(one) for one in group] for group in asked.groups]
        groups += [[final(one) for one in group if self._is_known(one)] for group in told.groups]
        if not any(groups):
            groups = []  # no passage answers the question, which is told as such
        elif not all(groups):
            self.unmet.append(id_)
        answers = tuple(dict.fromkeys((*asked.answers, *told.answers)))
        return Question.judged(
            id_,
            asked.text,
            grades,
            answers=answers,
            kind=asked.kind or told.kind,
            made=told.made if is_made(told.made) else "",
            hidden=told.hidden,
            starts=told.starts if len(told.starts) == len(answers) else (),
            rejected=tuple(final(one) for one in told.rejected if self._is_known(one)),
            groups=tuple(tuple(dict.fromkeys(group)) for group in groups),
        )


def _grade_in(reader: RowReader) -> int:
    """The whole number of a row; below 0, as the web tracks have it for spam, it is 0."""
    text = as_text(reader.cell("grade"))
    if WHOLE.fullmatch(text) and (grade := int(float(text))) <= MOST_GRADE:
        return max(grade, _NEGATIVE)
    _refuse(reader, ProblemCode.WRONG_GRADE, "grade", most=MOST_GRADE, value=shown(text, 80))
    return _NEGATIVE


def _groups_in(reader: RowReader) -> list[list[str]]:
    """The groups of ids of a row: of lists in a list each is one; a flat list is one of them all."""
    given = _listed(reader.cell("groups"))
    if not any(is_collection(one) for one in given):
        given = [given]
    groups = [[reader.fit(as_text(id_)) for id_ in _listed(group)] for group in given]
    if any(isinstance(id_, dict) or is_collection(id_) for group in given for id_ in _listed(group)):
        _refuse(reader, ProblemCode.NO_LIST, "groups", found=kind_of(reader.cell("groups")))
    return [group for group in ([id_ for id_ in group if id_] for group in groups) if group]


def _passages_in(reader: RowReader, role: str) -> list[tuple[str, str, str]]:
    """The passages of a row: id, text and title each."""
    found = []
    for given in _listed(reader.cell(role)):
        cells = given if isinstance(given, dict) else {"text": given}
        id_, text = (
            next((cells[name] for name in names if not is_blank(cells.get(name))), "")
            for names in (_IDS_OF_A_PASSAGE, _TEXTS_OF_A_PASSAGE)
        )
        title = cells.get("title") or ""
        if any(is_collection(one) for one in (id_, text, title)):
            _refuse(reader, ProblemCode.NO_LIST, role, found=kind_of(reader.cell(role)))
            continue
        plain = (reader.fit(as_text(id_)), reader.fit(as_text(text)), reader.fit(as_text(title)))
        longest = max(map(len, plain))
        if longest > MOST_CHARACTERS:
            _refuse(reader, ProblemCode.TOO_LONG, role, size=longest, limit=MOST_CHARACTERS)
        elif longest:
            found.append(plain)
    return found


def _listed(cell: Any) -> list[Any]:
    """The parts of a cell: those of a list, also of one as text; nothing of a blank."""
    if isinstance(cell, str) and len(cell) <= MOST_CHARACTERS and cell.lstrip().startswith(("[", "{")):
        cell = parsed(cell.strip())
    cell = cell.tolist() if isinstance(cell, np.ndarray) else cell
    if isinstance(cell, (list, tuple, set)):
        return list(cell)
    return [] if is_blank(cell) else [cell]


def _refuse(reader: RowReader, code: ProblemCode, role: str, **details: str | int) -> None:
    """Note why the row cannot be used; what was noted before is told."""
    if not _is_refused(reader):
        reader.refuse(code, role, **details)


def _is_refused(reader: RowReader) -> bool:
    return reader.problem is not None
