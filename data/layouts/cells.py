"""Reads cells that hold more than text: lists of passages, grades, groups of ids, and this project's metadata."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from mrc_workbench.data.files import accept_earlier_names
from mrc_workbench.data.formats.columns import plain_name
from mrc_workbench.data.formats.rows import RowReader
from mrc_workbench.data.formats.tables import (
    MAX_ANSWERS,
    MAX_CHARACTERS,
    CellError,
    RawTable,
    as_text,
    describe_kind,
    display_text,
    is_blank,
    is_collection,
    is_missing,
    is_valid_xml,
    metadata_in,
    parsed,
)
from mrc_workbench.data.layouts import WORDS
from mrc_workbench.data.layouts.lines import WHOLE_NUMBER
from mrc_workbench.data.problems import ProblemCode

Opener = Callable[[], RawTable]
Sample = Sequence[Mapping[str, object]]  # some rows of a table
# plain names (see `plain_name`), the best name first
ID_NAMES = WORDS["passage_id"]
TITLE_NAMES = WORDS["passage_title"]
TEXT_NAMES = WORDS["passage_text"]
_MARKS = {**dict.fromkeys(WORDS["marks_true"], True), **dict.fromkeys(WORDS["marks_false"], False)}
_NEGATION = re.compile(r"not?[\s_-]+|non[\s_-]*")  # before a mark: "not relevant", "not_entailment", "non-relevant"
_MAX_DEPTH = 4
_MAX_TITLE_LENGTH = 200  # characters; a longer first text of a pair is no title
MAX_GRADE = 1000  # gains are powers of two, and those of larger grades overflow
NOT_RELEVANT = 0


class ListedPassage(NamedTuple):
    """One passage of a list. `is_relevant` comes from a mark in its entry and is None without a mark."""

    id: str
    title: str
    text: str
    is_relevant: bool | None = None


def passages_in(cell: object) -> list[ListedPassage]:
    """Return the passages of a cell, in order; an empty list if the cell holds no text.

    Takes a text, a list of texts, objects with a text (and id, title, mark), [title, sentences] pairs, a dict of
    equally long lists, an object of passages by id, and the JSON or Python text of any of these.
    """
    entries = list(_entries(_parsed_value(cell), _MAX_DEPTH))
    numbers = [entry.id for entry, id_name in entries if id_name == "id"]  # may number the entries of one list
    count = len(entries)
    is_numbered = count > 1 and numbers in ([*map(str, range(count))], [*map(str, range(1, count + 1))])
    return [entry._replace(id="") if is_numbered else entry for entry, _ in entries]


def joined_text(value: object, depth: int = _MAX_DEPTH) -> str:
    """Return the text of a passage that may be a list of sentences or paragraphs."""
    value = plain_value(value)
    if isinstance(value, (list, tuple)):
        parts = [joined_text(part, depth - 1) for part in value] if depth else []
        return " ".join(filter(None, parts))
    return "" if isinstance(value, (dict, set, CellError, bool)) else as_text(value)


def first_value(cells: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Return the first filled cell whose name is one of the plain `names`, in their order."""
    name = find_name(cells, names)
    return None if name is None else cells[name]


def find_name(cells: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return the name of the first filled cell whose plain name is one of `names`, in their order."""
    values = {name: plain_value(cell) for name, cell in reversed([*cells.items()])}
    filled = [name for name, value in values.items() if (value if is_collection(value) else not is_blank(value))]
    by_plain = {plain_name(name): name for name in filled}
    return next((by_plain[name] for name in names if name in by_plain), None)


def _entries(value: Any, depth: int) -> Iterator[tuple[ListedPassage, str]]:
    """Yield passages, each with the plain name of the key that its id comes from."""
    if depth == 0 or is_blank(value) or isinstance(value, (bool, CellError)):
        return
    if isinstance(value, dict):
        yield from _object_entries(value, depth)
    elif not isinstance(value, (list, tuple, set)):
        yield ListedPassage("", "", as_text(value)), ""
    elif (pair := _pair(value)) is not None:
        if pair.text:
            yield pair, ""
    else:
        for item in value:
            yield from _entries(_parsed_value(item, only_objects=True), depth - 1)


def _object_entries(value: dict[str, Any], depth: int) -> Iterator[tuple[ListedPassage, str]]:
    columns = {name: plain_value(cell) for name, cell in value.items()}
    text_name = find_name(columns, TEXT_NAMES)
    if text_name is None:
        yield from _by_id(columns, depth)
    elif (rows := _transposed(columns, text_name)) is not None:
        for row in rows:
            yield from _object_entries(row, depth - 1) if depth > 1 else ()
    elif text := joined_text(columns[text_name]):
        id_name = find_name(columns, ID_NAMES)
        id_ = "" if id_name is None else joined_text(columns[id_name])
        metadata = columns.get("metadata")
        titles = (first_value(cells, TITLE_NAMES) for cells in (columns, metadata) if isinstance(cells, dict))
        title = next(filter(None, map(joined_text, titles)), "")
        marks = (parse_mark(first_value(columns, (name,))) for name in WORDS["passage_mark"])
        mark = next((mark for mark in marks if mark is not None), None)
        yield ListedPassage(id_, title, text, mark), plain_name(id_name or "")


def _by_id(columns: dict[str, Any], depth: int) -> Iterator[tuple[ListedPassage, str]]:
    """Read an object of passages by id, where every value is an object with a text."""
    values = columns.values()
    if not all(isinstance(value, dict) and find_name(value, TEXT_NAMES) for value in values):
        return
    for id_, value in columns.items():
        for entry, _ in _object_entries(value, depth - 1) if depth > 1 else ():
            yield entry._replace(id=entry.id or as_text(id_)), "key"


def _transposed(columns: dict[str, Any], text_name: str) -> list[dict[str, Any]] | None:
    """Return the objects of a dict of equally long lists, None for any other dict."""
    lists = {name: value for name, value in columns.items() if value is not None}
    if not all(isinstance(value, list) for value in lists.values()):
        return None
    count = len(columns[text_name])
    if any(len(value) != count for value in lists.values()):
        return None
    is_list_name = len(lists) == 1 and plain_name(text_name) in ("sentences", "paragraphs")
    return None if is_list_name else [{name: value[row] for name, value in lists.items()} for row in range(count)]


def _pair(value: Iterable[Any]) -> ListedPassage | None:
    """Return the passage of [title, list of sentences], None for any other list."""
    match [plain_value(item) for item in value]:
        case [str(title), list(parts)] if len(title) <= _MAX_TITLE_LENGTH and all(isinstance(p, str) for p in parts):
            return ListedPassage("", title.strip(), joined_text(parts))
    return None


def parse_mark(value: object) -> bool | None:
    """Return whether a mark says relevant: a flag, a yes or no, or a number of at least 1; None for any other cell."""
    if is_collection(value) or is_blank(value):
        return None
    text = as_text(value)
    if text in _MARKS:
        return _MARKS[text]
    text = text.lower()
    if negation := _NEGATION.match(text):
        mark = _MARKS.get(text[negation.end() :])
        return None if mark is None else not mark
    if (plain := "".join(text.split())) in _MARKS:
        return _MARKS[plain]
    try:
        return float(text) >= 1
    except ValueError:
        return None


def is_unclear(name: str, lists: Sequence[Sequence[ListedPassage]]) -> bool:
    """Whether the lists of a column (one per row) may hold passages without any mark that they answer the question."""
    passages = [passage for row in lists for passage in row]
    has_marks = any(passage.is_relevant is not None for passage in passages)
    if plain_name(name) not in WORDS["unclear_passages"] or has_marks:
        return False
    is_plural = any(len(row) > 1 for row in lists)
    return is_plural and (plain_name(name) != "context" or any(passage.title for passage in passages))


def is_unclear_list(name: str, sample: Sample) -> bool:
    """Whether a column of these rows holds lists that `is_unclear` reports."""
    cells = [row.get(name) for row in sample[:50]]
    return is_unclear(name, [passages_in(cell) for cell in cells if is_collection(cell) or isinstance(cell, str)])


def _parsed_value(cell: object, *, only_objects: bool = False) -> Any:
    brackets = ("{",) if only_objects else ("[", "{")
    if isinstance(cell, bytes):
        cell = as_text(cell)
    if isinstance(cell, str) and cell.lstrip()[:1] in brackets:
        value = parsed(cell.strip())
        is_citation = isinstance(value, list) and value and all(isinstance(n, str) and n.isdigit() for n in value)
        is_text = only_objects and not isinstance(value, dict)
        return cell if is_text or is_citation else value
    return plain_value(cell)


def objects_in_list(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; an empty list for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def plain_value(value: Any) -> Any:
    """Return an array as a list, any other value unchanged."""
    return value.tolist() if isinstance(value, np.ndarray) else value


_EARLIER_METADATA = {"made": "generator"}


@dataclass(frozen=True)
class QuestionMetadata:
    """The metadata of a question in an export of this project."""

    answers: tuple[str, ...] = ()
    kind: str = ""
    generator: str = ""
    hidden: bool = False
    starts: tuple[Annotated[int, Field(ge=-1, lt=2**31)], ...] = ()
    rejected: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    part: Literal["", "train", "validation", "test"] = ""
    _earlier = accept_earlier_names(_EARLIER_METADATA)


_METADATA = TypeAdapter(QuestionMetadata)


def parse_own_metadata(cell: object) -> QuestionMetadata | None:
    """Return the metadata of a cell, None if another program wrote it."""
    value = metadata_in(cell)
    if value is None or not value.keys() & {*QuestionMetadata.__dataclass_fields__, *_EARLIER_METADATA}:
        return None
    try:
        metadata = _METADATA.validate_python({name: item for name, item in value.items() if item is not None})
    except ValidationError:
        return None  # another program means other things by these names
    texts = (*metadata.answers, metadata.kind, metadata.generator)
    is_usable = len(metadata.answers) <= MAX_ANSWERS and all(len(text) <= MAX_CHARACTERS for text in texts)
    return metadata if is_usable and all(map(is_valid_xml, texts)) else None


def parse_grade(reader: RowReader, role: str) -> int:
    """Return the grade of a row: a whole number, or 1 or 0 for a yes or no; negative grades (spam) are 0."""
    cell = reader.cell(role)
    text = "" if is_collection(cell) else as_text(cell)
    if WHOLE_NUMBER.fullmatch(text) and (grade := int(float(text))) <= MAX_GRADE:
        return max(grade, NOT_RELEVANT)
    mark = parse_mark(text)
    if mark is None or any(letter.isdigit() for letter in text):
        _reject_once(reader, ProblemCode.WRONG_GRADE, role, most=MAX_GRADE, value=display_text(cell, 80))
    return int(mark or False)


def parse_groups(reader: RowReader) -> list[list[str]]:
    """Return the groups of ids of a row: each inner list is a group; a flat list is a single group."""
    items = list_items(reader.cell("passage_id"))
    if not any(map(is_collection, items)):
        items = [items]
    cells = [list_items(item) for item in items]
    if any(isinstance(id_, dict) or is_collection(id_) for group in cells for id_ in group):
        _reject_once(reader, ProblemCode.NO_LIST, "passage_id", found=describe_kind(reader.cell("passage_id")))
    groups = [[reader.mend_text(as_text(id_)) for id_ in group] for group in cells]
    return [ids for ids in (list(filter(None, group)) for group in groups) if ids]


def parse_ids(reader: RowReader, role: str) -> list[str]:
    """Return the ids of a cell that holds an id or a list of ids."""
    cell = reader.cell(role)
    if not is_collection(cell):
        return [reader.text(role, ProblemCode.EMPTY_ID)]
    return list(dict.fromkeys(reader.mend_text(as_text(item)) for item in list_items(cell) if not is_blank(item)))


def listed_passages(reader: RowReader, names: Iterable[str], role: str) -> list[ListedPassage]:
    """Return the passages in the columns `names` of a row; refuses the row if one is too long or holds no text."""
    listed: list[ListedPassage] = []
    for name in names:
        cell = reader.row.cells.get(name)
        if is_missing(cell):
            continue
        passages = passages_in(cell)
        for passage in passages:
            id_, title, text = (reader.mend_text(part) for part in passage[:3])
            longest = max(len(id_), len(title), len(text))
            if longest > MAX_CHARACTERS:
                _reject_once(reader, ProblemCode.TOO_LONG, role, size=longest, limit=MAX_CHARACTERS)
            elif not is_missing(text):
                listed.append(ListedPassage(id_, title, text, passage.is_relevant))
        if not passages and list_items(cell):
            _reject_once(reader, ProblemCode.NO_LIST, role, found=describe_kind(cell))
    return listed


def list_items(cell: Any) -> list[Any]:
    """Return the items of a list or of its text; an empty list for a blank cell, the cell itself for other cells."""
    if is_list_text(cell) and len(cell) <= MAX_CHARACTERS:
        cell = parsed(cell.strip())
    cell = plain_value(cell)
    if isinstance(cell, (list, tuple, set)):
        return list(cell)
    return [] if is_blank(cell) else [cell]


def _reject_once(reader: RowReader, code: ProblemCode, role: str, **details: str | int) -> None:
    if reader.problem is None:
        reader.refuse(code, role, **details)


def holds_lists(name: str, sample: Sample) -> bool:
    """Whether most filled cells of a column are lists or objects, or the text of a list or object."""
    cells = [cell for row in sample if not is_blank(cell := row.get(name))]
    values = [parsed(str(cell).strip()) if is_list_text(cell) else cell for cell in cells]
    return 2 * sum(map(is_collection, values)) > len(cells)


def is_list_text(cell: object) -> bool:
    """Whether a text seems to be a list or an object."""
    return isinstance(cell, str) and cell.lstrip()[:1] in ("[", "{")


def separates_answers(answers: str, context: str | None, sample: Sample) -> bool:
    """Whether `|` separates answers: parts of cells occur in their passages, or several cells contain `|`."""
    cells = [(text, row) for row in sample if isinstance(text := row.get(answers), str) and "|" in text]
    if not cells or not all(all(map(str.strip, text.split("|"))) for text, _ in cells):
        return False
    if context is None:
        return len(cells) > 1
    pairs = [(text, str(row.get(context))) for text, row in cells]
    return all(text not in passage and any(p.strip() in passage for p in text.split("|")) for text, passage in pairs)
