"""The public way in: the bytes of a file become a question set, and a list of what was wrong with them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pydantic import InstanceOf, TypeAdapter

from data.apart import File, Work, carried_out
from data.formats.columns import NAMES, Columns, guess_columns, require_columns, wanted_names
from data.formats.json_rows import IMPOSSIBLE, PARAGRAPH_ID, SQUAD_COLUMNS, squad_articles, squad_lines, squad_rows
from data.formats.opening import (
    Format,
    Proposal,
    RecognisedFile,
    collector_paused,
    looked_at,
    recognise,
    set_name,
    table_opener,
)
from data.formats.rows import FileReading, Rejection, RowReader, understood
from data.formats.tables import RawRow, Table, as_text, shown
from data.formats.text import Content
from data.layouts.members import files_of, files_of_paths, unpacked, with_distinct_names
from data.layouts.reading import Alone, Collected, CollectionFile, Layout, collected
from data.layouts.sources import Sighted
from data.passages import GatheredPassages, filled_ids
from data.problems import DataError, Problem, ProblemCode
from data.records import Question, QuestionSet, open_question_set, write_question_set


@dataclass(frozen=True, kw_only=True)
class Reading(FileReading):
    """A question set and what was understood on the way.

    `row_count` counts rows (questions in SQuAD files) with those left out, `paragraph_count` the contexts before equal
    ones were made one. `columns` is None for SQuAD files, whose layout fixes the names; they have no `first_rows`.

    Of a collection, several files as a rule, `layout` tells whose it is; `columns` is None, and `gaps` say what the
    files lack of each other: passages that are judged and not there, questions that nobody judged.

    Every input column or key is in exactly one of `used_columns`, `metadata_columns` (stored with the passage or
    question but not searched) and `unused_columns`. `published_split` is true where the files name the part of each
    question.
    """

    question_set: InstanceOf[QuestionSet]
    columns: Columns | None
    paragraph_count: int
    layout: Layout | None = None
    files: tuple[CollectionFile, ...] = ()
    judgement_count: int = 0
    gaps: tuple[Problem, ...] = ()
    used_columns: tuple[str, ...] = ()
    metadata_columns: tuple[str, ...] = ()
    unused_columns: tuple[str, ...] = ()
    published_split: bool = False


def read_file(path: Path, columns: Columns | None = None) -> Reading:
    """Read a file from disk, or the files of a folder; see `read_files`. Raises `DataError`, as where none is there."""
    return read_files(files_of(path), columns)


def read(content: bytes | Content, name: str, columns: Columns | None = None) -> Reading:
    """Read the content of a file, whose format is told by content; `name` only names the set. See `read_files`."""
    return read_files([File(Content.of(content), name)], columns)


def read_files(files: Sequence[File], columns: Columns | None = None) -> Reading:
    """Read a file of questions and passages, or several that are a collection together; archives are unpacked.

    Columns of a single file are guessed unless given. Rows that cannot be used are left out and listed in `problems`.
    A file without a question, or a table without a column of them, is read as passages only. Raises `DataError` where a
    file cannot be read, the column of the passages is missing, or nothing is left.
    """
    found = _found(files, columns is not None)
    if isinstance(found, Collected):
        return Reading(
            question_set=found.question_set,
            columns=None,
            paragraph_count=found.passage_rows,
            layout=found.layout,
            files=found.files,
            judgement_count=found.judgement_count,
            gaps=found.gaps,
            **understood(found.recognised, found.rejection, (), (), found.row_count),
        )
    reading = _read_alone(found, columns)
    return replace(reading, gaps=found.aside) if found.aside else reading


def read_file_apart(path: Path, chosen: Mapping[str, str | None] | None = None) -> Reading:
    """Read a file from disk, or a folder, in a process of its own; see `read_files_apart`."""
    return read_paths_apart([path], chosen)


def read_paths_apart(paths: Sequence[Path], chosen: Mapping[str, str | None] | None = None) -> Reading:
    """Read files and folders from disk together, in a process of its own; see `read_files_apart`."""
    return read_files_apart(files_of_paths(paths), chosen)


def read_files_apart(files: Sequence[File], chosen: Mapping[str, str | None] | None = None) -> Reading:
    """Read files as `read_files` does, in a process of its own.

    `chosen` names columns of a single one by role; those of the other roles are guessed. Raises `UnusableFileError`,
    also where reading takes more than its `Limits` or the process ends, and `OSError` where the disk is full.
    """
    return carried_out(WORK, files, chosen or {})


def _found(files: Sequence[File], is_alone: bool) -> Collected | Alone:
    """The collection that files make, or the one file that is read by itself, as it is where its columns are given."""
    inner = with_distinct_names(unpacked(files))
    if not inner:
        raise DataError.of(ProblemCode.NOT_A_WORKBOOK)
    if is_alone and len(inner) == 1:
        return Alone(inner[0], Sighted([]))
    is_archive = len(files) == 1 and (len(inner) > 1 or inner[0].content is not files[0].content)
    found = collected(inner, files[0].name if is_archive else "")
    if is_archive and isinstance(found, Alone):
        return replace(found, file=found.file._replace(name=files[0].name))
    return found


def _read_alone(alone: Alone, columns: Columns | None) -> Reading:
    content = alone.file.content
    recognised = alone.seen.recognised or recognise(content, name=alone.file.name)
    is_squad = recognised.format is Format.SQUAD
    table, guess = _table_and_guess(content, recognised, alone.seen)
    used = guess if is_squad else columns or guess
    if not is_squad:
        require_columns(asdict(used), table.names)
    if used.context is None:
        found, wanted = shown(", ".join(table.names), 300), wanted_names(NAMES["context"])
        raise DataError.of(ProblemCode.MISSING_COLUMN, role="context", found=found, wanted=wanted)
    with collector_paused():
        assembly = _Assembly(used)
        assembly.rejection.begin(recognised)
        for row in table.rows:
            assembly.add(row)
        question_set = assembly.question_set(set_name(alone.file.name, "questions"))
    return Reading(
        question_set=question_set,
        columns=None if is_squad else used,
        paragraph_count=assembly.paragraph_count,
        **understood(recognised, assembly.rejection, table.names, table.first, assembly.row_count),
    )


def propose_columns(content: bytes | Content) -> Proposal[Columns]:
    """Return what can be chosen, also where `read` misses a column; no columns for SQuAD files.

    Raises `DataError` where the file cannot be read.
    """
    content = Content.of(content)
    table, guess = _table_and_guess(content, recognise(content), Sighted([]))
    return Proposal(guess, table.names, table.first)


def _proposed(files: Sequence[File]) -> Proposal[Columns]:
    """What can be chosen of a file that is read by itself; nothing of a collection."""
    found = _found(files, is_alone=True)
    return propose_columns(found.file.content) if isinstance(found, Alone) else Proposal(Columns())


def _table_and_guess(content: Content, recognised: RecognisedFile, seen: Sighted) -> tuple[Table, Columns]:
    if recognised.format is Format.SQUAD:
        lines = recognised.text if recognised.value is None else None
        articles = squad_articles(recognised.value) if lines is None else squad_lines(lines)
        return Table((), squad_rows(articles or [])), SQUAD_COLUMNS
    table, sample = (seen.table, seen.sample) if seen.table else looked_at(table_opener(content, recognised)())
    return table, guess_columns(table.names, sample)


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
        return Question(
            id=id_,
            text=self.text,
            answers=tuple(self.answers),
            relevant=tuple(ids[place] for place, answers in self.contexts.items() if answers),
            kind=self.kind,
            starts=starts if any(start >= 0 for start in starts) else (),
            rejected=tuple(ids[place] for place, answers in self.contexts.items() if not answers),
        )


@dataclass
class _Assembly:
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

    def add(self, row: RawRow) -> None:
        """Take one row: a paragraph, a question, or both."""
        self.row_count += row.asks
        if problem := row.problem or self._take(row):
            self.rejection.add(row, problem, any_good=len(self._passages) > 0)

    def question_set(self, name: str) -> QuestionSet:
        """Build the set; ids that are missing are made. Raises `DataError` where nothing is left of what was asked."""
        if not self._questions and (self._asked or not len(self._passages)):
            raise self.rejection.nothing_left(self.row_count)
        passages = self._passages.passages()
        asked = zip(filled_ids("q", [question.id for question in self._questions]), self._questions, strict=True)
        return QuestionSet(name, passages, tuple(question.made(id_, passages.ids) for id_, question in asked))

    def _take(self, row: RawRow) -> Problem | None:
        """Keep what a row holds; return why it is not kept, if so."""
        reader = RowReader(row, self.columns)
        context = reader.text("context", ProblemCode.EMPTY_CONTEXT)
        self.paragraph_count += row.is_paragraph and bool(context)
        asks = row.asks and self.columns.question is not None
        self._asked |= asks
        question = reader.text("question", ProblemCode.EMPTY_QUESTION) if asks and context else ""
        problem = reader.problem if row.asks else None
        if context and question:
            problem = self._take_question(reader, context, question)
        elif context and not asks:
            self._place(context, reader)
            problem = None
        if problem is None:
            self.rejection.note(reader)
        return problem

    def _take_question(self, reader: RowReader, context: str, question: str) -> Problem | None:
        """Keep a question and its passage; return why the question is not kept, if so."""
        row = reader.row
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
        answers_here = as_text(row.cells.get(IMPOSSIBLE)).lower() not in ("true", "1", "yes", "y")
        answering = next((known for known, answers in first.contexts.items() if answers), place)
        for text, start in answers.items():
            first.answers.setdefault(text, start if place == answering else -1)
        if repeated:
            return Problem.of(ProblemCode.REPEATED_ROW, row.number, first=first.row)
        first.contexts[self._place(context, reader)] = answers_here
        return None

    def _place(self, context: str, reader: RowReader) -> int:
        """Return the place of the passage, which is new, or known with or without a title."""
        id_ = ""
        if self._passages.find(context) == len(self._passages):
            asks = self.columns.question is not None  # then the column of ids is the questions'
            id_ = reader.fit(as_text(reader.row.cells.get(PARAGRAPH_ID))) if asks else reader.text("id")
        return self._passages.add(context, reader.text("title"), id_)


def _read(files: Sequence[File], chosen: Mapping[str, str | None]) -> Reading:
    if not chosen:
        return read_files(files)
    is_whole = chosen.keys() == {field.name for field in fields(Columns)}
    return read_files(files, replace(Columns() if is_whole else _proposed(files).columns, **chosen))


def _leave(folder: Path, reading: Reading) -> dict[str, Any]:
    write_question_set(folder, reading.question_set)
    told = _READING.dump_python(reading, exclude={"question_set"}, mode="json")
    return {"name": reading.question_set.name, "reading": told}


def _open_left(folder: Path, found: dict[str, Any]) -> Reading:
    question_set = open_question_set(folder, found["name"])
    return _READING.validate_python(found["reading"] | {"question_set": question_set})


_READING = TypeAdapter(Reading)
WORK = Work("questions", Columns, _read, _proposed, _leave, _open_left)
