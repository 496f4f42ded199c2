"""Objects of JSON by id among several files: passages, judgements or answers, as the ids of the other files tell."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from mrc_workbench.data.apart import File
from mrc_workbench.data.formats.columns import Columns
from mrc_workbench.data.formats.opening import told_of
from mrc_workbench.data.formats.tables import answers_in, as_text, is_collection
from mrc_workbench.data.formats.text_tables import json_table
from mrc_workbench.data.layouts.columns.cells import list_items
from mrc_workbench.data.layouts.columns.references import file_key
from mrc_workbench.data.layouts.columns.roles import assign_columns
from mrc_workbench.data.layouts.files import role_by_name, words_of
from mrc_workbench.data.layouts.nested.dictionaries import (
    ANSWER_NAMES,
    answers_opener,
    holds_predictions,
    may_hold_answers,
)
from mrc_workbench.data.layouts.programs.exports import is_named_prediction
from mrc_workbench.data.layouts.sighting import Sighted
from mrc_workbench.data.layouts.sources import Role, Shape, Source
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

_ANSWER_WORDS = {"answer", "answers", "정답", "답변"}
_JUDGEMENT_WORDS = {"qrels", "qrel", "judgements", "judgments", "relevance", "relevant", "판정"}
_MOST_ROWS = 20_000  # of nested data that are looked at
_LONGEST_ANSWER, _LONGEST_NAME = 200, 200  # characters


@dataclass
class _Known:
    """What a file says of ids: which questions have an answer, and what else its columns name."""

    has_answer: dict[str, bool] = field(default_factory=dict)
    names: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    passage_ids: set[str] = field(default_factory=set)
    has_passages: bool = False


def with_objects_by_id(
    seen: Sequence[tuple[File, Sighted]],
) -> tuple[list[tuple[File, Sighted]], tuple[Problem, ...]]:
    """Return the files, objects by id in their roles, and why some of these objects are not read.

    The keys of an object may be ids of questions or of passages in other files. By questions it holds judgements or
    answers, and never passages.
    """
    if len(seen) == 1 or not any(_object(one) for _, one in seen):
        return list(seen), ()
    known = [_known(file.name, one) for file, one in seen]
    settled: list[tuple[File, Sighted]] = []
    aside: list[Problem] = []
    for number, (file, one) in enumerate(seen):
        others = [*known[:number], *known[number + 1 :]]
        try:
            with told_of(file.name, seen):
                is_object = bool(_object(one)) and not known[number].has_answer
                settled.append((file, _settled(file.name, one, others) if is_object else one))
        except DataError as error:
            aside.append(error.problem)
    return settled, tuple(aside)


def _object(one: Sighted) -> dict[str, Any]:
    """Return the object of a file that may be one by id, {} for any other file."""
    value = one.recognised.value if one.recognised is not None else None
    is_nested = any(source.shape is Shape.NESTED for source in one.sources)
    return value if isinstance(value, dict) and not is_nested else {}


def _known(name: str, one: Sighted) -> _Known:
    known = _Known()
    for columns, role, rows in _readings(name, one):
        known.has_passages |= role is Role.PASSAGES or (role is Role.ROWS and columns.has_passages)
        asks = role is Role.QUESTIONS or (role is Role.ROWS and columns.question is not None)
        for row in rows:
            id_ = as_text(row.get(columns.id or ""))
            if asks and id_:
                answers = answers_in(row.get(columns.answers or ""))
                known.has_answer[id_] = known.has_answer.get(id_, False) or bool(answers)
            elif role is Role.PASSAGES:
                known.passage_ids.add(id_)
            for column, cell in row.items():
                if column != columns.id:
                    known.names[column].update(_names_in(cell))
    return known


def _readings(name: str, one: Sighted) -> Iterator[tuple[Columns, Role, Iterable[Mapping[str, object]]]]:
    """Yield the columns, the role and some rows of each source of a file."""
    for source in one.sources:
        if source.shape is Shape.NESTED:
            yield source.columns, source.role, (row.cells for row in islice(source.table().rows, _MOST_ROWS))
        elif source.role is not Role.ROWS:
            by_name = role_by_name([PurePosixPath(name).name]) or Role.PASSAGES
            yield source.columns, by_name if source.role is Role.TEXTS else source.role, source.sample
    if one.table is not None and all(source.role is Role.ROWS for source in one.sources):
        yield assign_columns(one.names, one.sample), Role.ROWS, one.sample


def _names_in(cell: object) -> Iterator[str]:
    """Yield what may name passages, as file names are compared."""
    for item in list_items(cell):
        text = "" if is_collection(item) else as_text(item)
        if 0 < len(text) <= _LONGEST_NAME:
            yield file_key(text)


def _settled(name: str, one: Sighted, others: Sequence[_Known]) -> Sighted:
    """Return an object by id in its role. Raises `DataError` for predictions, and for ids that no other file knows."""
    value, recognised = _object(one), one.recognised
    role = one.sources[0].role if one.sources else None
    is_by_id = any(source.shape is Shape.BY_ID for source in one.sources)
    file_name = PurePosixPath(name).name
    words, told = {*words_of(file_name)}, role_by_name([file_name])
    has_answer = {id_: has for other in others for id_, has in other.has_answer.items()}
    is_by_question = 2 * len(has_answer.keys() & value.keys()) > len(has_answer)
    if role is Role.JUDGEMENTS and (words & _JUDGEMENT_WORDS or (is_by_question and _names_any(value, others))):
        return one
    is_answered = is_by_question and told is None and may_hold_answers(value)
    if is_answered and any(other.has_passages for other in others) and (words & _ANSWER_WORDS or _are_answers(value)):
        if recognised is None or holds_predictions(value) or is_named_prediction(name) or any(has_answer.values()):
            raise DataError.of(ProblemCode.PREDICTIONS, name=file_name)
        columns, opener = Columns(id="id", answers="answers"), answers_opener(value)
        return Sighted([Source(name, Role.ANSWERS, Shape.BY_ID, columns, ANSWER_NAMES, opener, recognised)], recognised)
    keys = {file_key(id_) for id_ in value}
    cells = [names for other in others for names in other.names.values()]
    is_named = any(2 * len(names & keys) > min(len(names), len(keys)) for names in cells)
    if role is Role.TEXTS and is_named:
        return replace(one, sources=[replace(one.sources[0], role=Role.PASSAGES)])
    if is_by_id and (role is not Role.TEXTS or told is None):
        json_table(value)  # refuses it: nothing says what the keys are
    return one


def _names_any(value: Mapping[str, Any], others: Sequence[_Known]) -> bool:
    """Whether lists of ids, or grades by id, name any passage of the other files."""
    return any(id_ in other.passage_ids for ids in value.values() for id_ in ids for other in others)


def _are_answers(value: Mapping[str, Any]) -> bool:
    """Whether the values by question are answers; passages, whose texts are long, may have the same numbers as ids."""
    lengths = [len(item) for item in value.values() if isinstance(item, str)]
    return not all(map(str.isdigit, value)) or sum(lengths) <= _LONGEST_ANSWER * len(lengths)
