"""What the cells of one row hold beyond text: grades, groups of ids, lists of passages, and this project's metadata."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from mrc_workbench.data.formats.rows import RowReader
from mrc_workbench.data.formats.tables import (
    MOST_ANSWERS,
    MOST_CHARACTERS,
    as_text,
    is_blank,
    is_collection,
    is_fit,
    is_missing,
    kind_of,
    metadata_in,
    parsed,
    shown,
)
from mrc_workbench.data.layouts.nested.passage_lists import ListedPassage, is_marked, passages_in
from mrc_workbench.data.layouts.programs.lines import WHOLE
from mrc_workbench.data.problems import ProblemCode

MOST_GRADE = 1000  # gains are powers of two: those of larger grades are no numbers any more
NOT_RELEVANT = 0


@dataclass(frozen=True)
class QuestionMetadata:
    """What an export of this project says of a question in its metadata."""

    answers: tuple[str, ...] = ()
    kind: str = ""
    made: str = ""
    hidden: bool = False
    starts: tuple[Annotated[int, Field(ge=-1, lt=2**31)], ...] = ()
    rejected: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    part: Literal["", "train", "validation", "test"] = ""


_METADATA = TypeAdapter(QuestionMetadata)


def question_metadata_in(cell: object) -> QuestionMetadata | None:
    """Return the metadata of a cell, None if another program wrote it."""
    value = metadata_in(cell)
    if value is None or not any(name in value for name in QuestionMetadata.__dataclass_fields__):
        return None
    try:
        found = _METADATA.validate_python({name: item for name, item in value.items() if item is not None})
    except ValidationError:
        return None  # another program means other things by these names
    texts = (*found.answers, found.kind, found.made)
    is_usable = len(found.answers) <= MOST_ANSWERS and all(len(text) <= MOST_CHARACTERS for text in texts)
    return found if is_usable and all(map(is_fit, texts)) else None


def grade_in(reader: RowReader, role: str) -> int:
    """Return the grade of a row: a whole number, or 1 or 0 for a yes or no; negative grades (spam) are 0."""
    cell = reader.cell(role)
    text = "" if is_collection(cell) else as_text(cell)
    if WHOLE.fullmatch(text) and (grade := int(float(text))) <= MOST_GRADE:
        return max(grade, NOT_RELEVANT)
    mark = is_marked(text)
    if mark is None or any(letter.isdigit() for letter in text):
        refuse_once(reader, ProblemCode.WRONG_GRADE, role, most=MOST_GRADE, value=shown(cell, 80))
    return int(mark or False)


def groups_in(reader: RowReader) -> list[list[str]]:
    """Return the groups of ids of a row: each inner list is one; a flat list is a single group."""
    given = list_items(reader.cell("passage_id"))
    if not any(is_collection(item) for item in given):
        given = [given]
    groups = [[reader.fit(as_text(id_)) for id_ in list_items(group)] for group in given]
    if any(isinstance(id_, dict) or is_collection(id_) for group in given for id_ in list_items(group)):
        refuse_once(reader, ProblemCode.NO_LIST, "passage_id", found=kind_of(reader.cell("passage_id")))
    return [group for group in ([id_ for id_ in group if id_] for group in groups) if group]


def ids_in(reader: RowReader, role: str) -> list[str]:
    """Return the ids of a cell that holds one or a list of them."""
    cell = reader.cell(role)
    if not is_collection(cell):
        return [reader.text(role, ProblemCode.EMPTY_ID)]
    return list(dict.fromkeys(reader.fit(as_text(item)) for item in list_items(cell) if not is_blank(item)))


def listed_passages(reader: RowReader, names: Iterable[str], role: str) -> list[ListedPassage]:
    """Return the passages in the columns `names` of a row; refuses the row if one is too long or holds no text."""
    found: list[ListedPassage] = []
    for name in names:
        cell = reader.row.cells.get(name)
        if is_missing(cell):
            continue
        passages = passages_in(cell)
        for passage in passages:
            id_, title, text = (reader.fit(part) for part in passage[:3])
            longest = max(len(id_), len(title), len(text))
            if longest > MOST_CHARACTERS:
                refuse_once(reader, ProblemCode.TOO_LONG, role, size=longest, limit=MOST_CHARACTERS)
            elif not is_missing(text):
                found.append(ListedPassage(id_, title, text, passage.is_relevant))
        if not passages and list_items(cell):
            refuse_once(reader, ProblemCode.NO_LIST, role, found=kind_of(cell))
    return found


def list_items(cell: Any) -> list[Any]:
    """Return the items of a cell: those of a list, or of the text of one; none of a blank."""
    if isinstance(cell, str) and len(cell) <= MOST_CHARACTERS and cell.lstrip().startswith(("[", "{")):
        cell = parsed(cell.strip())
    cell = cell.tolist() if isinstance(cell, np.ndarray) else cell
    if isinstance(cell, (list, tuple, set)):
        return list(cell)
    return [] if is_blank(cell) else [cell]


def refuse_once(reader: RowReader, code: ProblemCode, role: str, **details: str | int) -> None:
    """Note why the row cannot be used, unless a reason is known already."""
    if reader.problem is None:
        reader.refuse(code, role, **details)


def holds_lists(name: str, sample: Sequence[Mapping[str, object]]) -> bool:
    """Whether most filled cells of a column are lists or objects, or the text of a list or object."""
    cells = [cell for row in sample if not is_blank(cell := row.get(name))]
    return 2 * sum(map(_is_list, cells)) > len(cells)


def _is_list(cell: object) -> bool:
    if isinstance(cell, str):
        return cell.lstrip()[:1] in ("[", "{") and is_collection(parsed(cell.strip()))
    return is_collection(cell)


def separates_answers(answers: str, context: str | None, sample: Sequence[Mapping[str, object]]) -> bool:
    """Whether answer cells hold several answers between `|`.

    The passages decide: no whole cell stands in its passage, and a part of it does. Without passages several cells
    must have the mark.
    """
    cells = [(text, row) for row in sample if isinstance(text := row.get(answers), str) and "|" in text]
    if not cells or not all(all(map(str.strip, text.split("|"))) for text, _ in cells):
        return False
    if context is None:
        return len(cells) > 1
    in_passage = [(text, str(row.get(context))) for text, row in cells]
    return all(
        text not in passage and any(part.strip() in passage for part in text.split("|")) for text, passage in in_passage
    )
