"""Questions that name their documents: which columns hold ids, file names or titles of passages, by what they match."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import NamedTuple

from data.formats.columns import plain_name
from data.formats.tables import as_text, is_blank, is_collection
from data.layouts.columns.cells import NOT_RELEVANT, list_items
from data.layouts.columns.ids import NumberIds
from data.layouts.nested.passage_lists import ID_NAMES
from data.records import RELEVANT_GRADE

_HINT = re.compile(
    "doc|passage|context|corpus|article|gold|relevant|positive|evidence|source|file|reference|chunk|page"
    "|url|link|문서|지문|본문|정답|근거|출처|파일|관련|참조|자료|주소|링크"
)
_NEGATIVE = re.compile("neg|irrelevant|nonrelevant|부정|오답|무관")
_NEVER = re.compile("retriev|predict|candidate|result|ranking|top[k0-9]|bm25|검색|예측|후보")
_SEPARATOR = re.compile(r"[,;|\n]")
_EXTENSION = re.compile(r"\.(txt|md|markdown|html?|pdf|docx?|pptx?|hwpx?|json|xml|csv|rst)$")
_MOST_LEVELS = 4  # of lists in a cell
_MOST_VALUES = 50  # of a sampled cell
_LEAST_SHARE = 0.5  # of the sampled values that passages must have: a corpus may lack some


class NameKind(StrEnum):
    """How a column names passages."""

    ID = "id"
    FILE = "file"
    TITLE = "title"


class Reference(NamedTuple):
    """A column that names passages, and the grade of these."""

    column: str
    kind: NameKind
    grade: int = RELEVANT_GRADE


class PassageNames:
    """Finds passages by id, by the name of their file, or by title.

    `position_of` has the position of each id; `titles` returns the titles by position, "" for unknown ones.
    """

    def __init__(self, position_of: Mapping[str, int], titles: Callable[[], Iterable[str]]) -> None:
        self._position_of = position_of
        self._titles = titles
        self._number_ids = NumberIds(lambda: position_of)
        self._positions: dict[NameKind, dict[str, list[int]]] = {}
        self._locations: list[tuple[str, int]] = []

    def add_location(self, location: str, position: int) -> None:
        """Note the file or address that a passage comes from."""
        self._locations.append((location, position))

    def id_of(self, name: str) -> str | None:
        """Return the id that a name stands for, also one with the same number; None if there is none."""
        return name if name in self._position_of else self._number_ids.find(name)

    def find(self, kind: NameKind, name: str) -> Sequence[int]:
        """Return the positions of the passages with a name, none if it is unknown."""
        if kind is NameKind.ID:
            id_ = self.id_of(name)
            return () if id_ is None else (self._position_of[id_],)
        if kind not in self._positions:
            self._positions[kind] = self._index(kind)
        key = file_key(name) if kind is NameKind.FILE else name
        return self._positions[kind].get(key, ())

    def _index(self, kind: NameKind) -> dict[str, list[int]]:
        positions: defaultdict[str, dict[int, None]] = defaultdict(dict)
        for position, title in enumerate(self._titles()):
            if title:
                positions[file_key(title) if kind is NameKind.FILE else title][position] = None
        if kind is NameKind.FILE:
            for name, position in (*self._position_of.items(), *self._locations):
                positions[file_key(name)][position] = None
        return {key: [*found] for key, found in positions.items() if key}


def file_key(name: str) -> str:
    """Return a file name as such names are compared: without folders and ending, in lower case; addresses are whole."""
    if "://" in name:
        return name.strip().lower().rstrip("/")
    path = PurePosixPath(name.replace("\\", "/").partition("#")[0])
    return _EXTENSION.sub("", path.name.strip().lower())


def is_file_name(name: str) -> bool:
    """Return whether a name ends as those of documents do."""
    return _EXTENSION.search(name.strip().lower()) is not None


def reference_columns(
    names: Iterable[str], sample: Sequence[Mapping[str, object]], passages: PassageNames
) -> tuple[Reference, ...]:
    """Return the columns whose values name passages: those of the kind that most values of the sample match.

    Small numbers match ids of any corpus, and a title may cover many passages: such a column counts only if its name
    hints at documents.
    """
    found: list[Reference] = []
    for name in names:
        if _NEVER.search(plain_name(name)):
            continue
        values = list(dict.fromkeys(value for row in sample for value in _sampled(row.get(name))))
        kind = _kind_of(values, passages)
        if kind is not None and (_HINT.search(plain_name(name)) or _is_distinctive(values, kind, passages)):
            grade = NOT_RELEVANT if _NEGATIVE.search(plain_name(name)) else RELEVANT_GRADE
            found.append(Reference(name, kind, grade))
    best = [kind for kind in NameKind if any(one.kind is kind and one.grade for one in found)]
    return tuple(one for one in found if best and one.kind is best[0])


def _sampled(cell: object) -> list[str]:
    return [value for value, _ in zip(_values(cell), range(_MOST_VALUES), strict=False)]


def _kind_of(values: Collection[str], passages: PassageNames) -> NameKind | None:
    shares = {kind: _share(values, kind, passages) for kind in NameKind}
    best = max(shares, key=shares.__getitem__)  # of equal shares the first kind
    return best if shares[best] >= _LEAST_SHARE else None


def _share(values: Collection[str], kind: NameKind, passages: PassageNames) -> float:
    hits = sum(any(positions for _, positions in named_passages(value, kind, passages)) for value in values)
    return hits / len(values) if values else 0.0


def _is_distinctive(values: Collection[str], kind: NameKind, passages: PassageNames) -> bool:
    if kind is NameKind.ID:
        return not all(re.fullmatch(r"[\d.]{1,6}", value) for value in values)
    return all(len(positions) < 2 for value in values for _, positions in named_passages(value, kind, passages))


def named_passages(cell: object, kind: NameKind, passages: PassageNames) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield each name in a cell with the positions of its passages, none for an unknown name."""
    for value in _values(cell):
        whole = passages.find(kind, value)
        parts = [part.strip() for part in _SEPARATOR.split(value)]
        if whole or not any(passages.find(kind, part) for part in parts):
            yield value, whole
        else:
            yield from ((part, passages.find(kind, part)) for part in parts if part)


def _values(cell: object, depth: int = _MOST_LEVELS) -> Iterator[str]:
    for item in list_items(cell) if depth else ():
        value = _id_in(item) if isinstance(item, dict) else item
        if is_collection(value):
            yield from _values(value, depth - 1)
        elif not is_blank(value):
            yield as_text(value)


def _id_in(item: Mapping[str, object]) -> object:
    return next((value for name, value in item.items() if plain_name(name) in ID_NAMES), None)
