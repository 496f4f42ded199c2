"""Interprets names: ids written as numbers, published parts, and the passages that questions refer to."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple

from mrc_workbench.data.formats.columns import plain_name
from mrc_workbench.data.formats.tables import as_text, is_blank, is_collection
from mrc_workbench.data.layouts import PART_WORDS, WORDS
from mrc_workbench.data.layouts.cells import ID_NAMES, NOT_RELEVANT, Sample, list_items
from mrc_workbench.data.records import RELEVANT_GRADE

_NUMBER = re.compile(r"0*(\d{1,18})(?:\.0{1,9})?", re.ASCII)
_SCIENTIFIC = re.compile(r"\d(?:\.\d{1,17})?[eE]\+?0?[1-9]\d?", re.ASCII)
_PART_BY_WORD = {word: part for part, words in PART_WORDS.items() for word in words}
_WORD = re.compile(r"[a-z]+|[가-힣]+|[\u3040-\u30ff\u4e00-\u9fff]+")
_CAMEL_CASE = re.compile("(?<=[a-z])(?=[A-Z])")
# a longer cell is a text
_MAX_CELL_LENGTH = 40
_MAX_WORDS = 3
_ENDINGS = ("용데이터", "데이터셋", "데이터", "세트", "셋", "용", "用データ", "データ", "用", "集", "")
_REFERENCE_HINT = re.compile(
    "doc|passage|context|corpus|article|gold|relevant|positive|evidence|source|file|reference|chunk|page"
    "|url|link|문서|지문|본문|정답|근거|출처|파일|관련|참조|자료|주소|링크"
)
_NEGATIVE = re.compile("neg|irrelevant|nonrelevant|부정|오답|무관")
_NOT_REFERENCE = re.compile("retriev|predict|candidate|result|ranking|top[k0-9]|bm25|검색|예측|후보")
_SEPARATOR = re.compile(r"[,;|\n、，；]")
_AMBIGUOUS_SEPARATORS = (re.compile(r"[/·•&+]"), re.compile(r"\s+"))  # may be part of a name
_BRACKETS = " \t\"'[](){}<>"
_EXTENSION = re.compile(r"\.(txt|md|markdown|html?|pdf|docx?|pptx?|hwpx?|json|xml|csv|rst)$")
_FILE_WITH_PAGE = re.compile(  # a file name, followed by a page
    r"(.+\.(?:txt|md|html?|pdf|docx?|pptx?|hwpx?))[\s,(\[:]+(?:pp?\.?|page|제)?\s*\d[\d\s~-]*(?:쪽|페이지|면|頁|ページ|页)?[)\]]?",
    re.IGNORECASE,
)
_MAX_DEPTH = 4  # of lists in a cell
_MAX_VALUES = 50  # of a sampled cell
_MIN_MATCHING_FRACTION = 0.5  # of the sampled values: a corpus may lack some passages
_QUESTION_WORDS = WORDS["question_files"]
_PASSAGE_WORDS = WORDS["passage_files"]
JUDGEMENT_WORDS = {*WORDS["judgement_files"]}
ROLE_WORDS = {*_QUESTION_WORDS, *_PASSAGE_WORDS, *JUDGEMENT_WORDS, "rel", "default"}
# words that do not distinguish collections
GENERIC_WORDS = ROLE_WORDS | {"train", "dev", "test", "validation", "small", "of", "qa", "answers"}
_NAME_WORD = re.compile(r"[a-z0-9]+|[가-힣]+")


class Role(StrEnum):
    """The kind of rows in a file."""

    PASSAGES = "passages"
    QUESTIONS = "questions"
    JUDGEMENTS = "judgements"
    TEXTS = "texts"  # ids and texts: passages or questions
    ANSWERS = "answers"  # by the ids of questions in another file
    ROWS = "rows"  # a question with its passage each


class NumberIds:
    """Finds an id by its number: "1.0" and "01" name the id "1". No two of the ids may have the same number."""

    def __init__(self, ids: Callable[[], Collection[str]]) -> None:
        self._ids = ids
        self._count = -1
        self._id_by_number: dict[str, str] = {}

    def find(self, name: str) -> str | None:
        """Return the id with the number of `name`; None if `name` is not a number, or two ids have the same number."""
        number = _normalized_number(name)
        if number is None:
            return None
        ids = self._ids()
        if len(ids) != self._count:
            self._count = len(ids)
            self._id_by_number = {}
            for id_ in ids:
                own = _normalized_number(id_)
                if own is not None and self._id_by_number.setdefault(own, id_) != id_:
                    self._id_by_number = {}
                    break
        return self._id_by_number.get(number)


def _normalized_number(id_: str) -> str | None:
    if match := _NUMBER.fullmatch(id_):
        return match[1]
    number = Decimal(id_) if _SCIENTIFIC.fullmatch(id_) else None
    return str(int(number)) if number is not None and number == int(number) else None


def canonical_id(id_: str) -> str:
    """Return an id in its canonical form for comparison: "1" for "1.0" and "01"."""
    return _normalized_number(id_) or id_


def parse_part(value: object) -> str:
    """Return the part that a cell of a split column names, "" if it names none: "train", "dev", "학습용"."""
    words = [] if is_collection(value) else name_words(as_text(value)[:_MAX_CELL_LENGTH])
    return _part_from_words(words) if len(words) <= _MAX_WORDS else ""


def part_from_path(path: str) -> str:
    """Return the part that the name of a file or its nearest folder contains, "" if none does."""
    parts = (_part_from_words(name_words(name)) for name in reversed(PurePosixPath(path).parts))
    return next(filter(None, parts), "")


def part_from_word(word: str) -> str:
    """Return the part that a word in lower case names, "" if it names none; East Asian words may have an ending."""
    if word.isascii():
        return _PART_BY_WORD.get(word, "")
    endings = (ending for ending in _ENDINGS if word.endswith(ending))
    return next((part for ending in endings if (part := _PART_BY_WORD.get(word.removesuffix(ending)))), "")


def published_parts(paths: Iterable[str]) -> dict[str, str]:
    """Return the part of each path that names one; {} unless there are several different parts."""
    part_by_path = {path: part for path in paths if (part := part_from_path(path))}
    return part_by_path if len({*part_by_path.values()}) > 1 else {}


def name_words(text: str) -> list[str]:
    """Return the English and Korean words of a name, in lower case; parts of camelCase are words."""
    return _WORD.findall(_CAMEL_CASE.sub(" ", unicodedata.normalize("NFC", text)).lower())


def _part_from_words(words: Iterable[str]) -> str:
    """Return the only part among words; "" for two different parts, as in train_test.json."""
    parts = {part for word in words if (part := part_from_word(word))}
    return parts.pop() if len(parts) == 1 else ""


def tokenize_name(name: str) -> list[str]:
    """Return the English and Korean words of a name, in lower case."""
    return _NAME_WORD.findall(unicodedata.normalize("NFC", name).lower())


def role_from_names(names: Sequence[str]) -> Role | None:
    """Return the role in the last name that contains one: questions or passages; None if no name does."""
    for name in reversed(names):
        words = tokenize_name(name)
        for role, known in ((Role.QUESTIONS, _QUESTION_WORDS), (Role.PASSAGES, _PASSAGE_WORDS)):
            korean = tuple(word for word in known if not word.isascii())
            if any(word in known or word.startswith(korean) for word in words):
                return role
    return None


class NameKind(StrEnum):
    """The way in which a column names passages."""

    ID = "id"
    FILE = "file"
    TITLE = "title"


class Reference(NamedTuple):
    """A column that names passages, and the grade of these passages."""

    column: str
    kind: NameKind
    grade: int = RELEVANT_GRADE


class PassageNames:
    """Finds passages by id, file name or title. `titles` yields the title of each position, "" if unknown."""

    def __init__(self, position_of: Mapping[str, int], titles: Callable[[], Iterable[str]]) -> None:
        self._position_of = position_of
        self._titles = titles
        self._number_ids = NumberIds(lambda: position_of)
        self._positions: dict[NameKind, dict[str, list[int]]] = {}
        self._path_of: dict[int, str] = {}
        self._number_keys = NumberIds(lambda: self._positions[NameKind.FILE])
        self.locations: list[tuple[str, int]] = []  # further names of passages, with their positions

    def resolve_id(self, name: str) -> str | None:
        """Return the passage id that equals a name, or has the same number; None if there is no such id."""
        spellings = (name, unicodedata.normalize("NFC", name))
        return next((id_ for id_ in spellings if id_ in self._position_of), None) or self._number_ids.find(name)

    def find(self, kind: NameKind, name: str) -> Sequence[int]:
        """Return the positions of the passages with a name; empty for an unknown name."""
        if kind is NameKind.ID:
            id_ = self.resolve_id(name)
            return () if id_ is None else (self._position_of[id_],)
        if kind not in self._positions:
            self._positions[kind] = self._index(kind)
        known = self._positions[kind]
        if kind is NameKind.TITLE:
            return known.get(unicodedata.normalize("NFC", name), ())
        if file_with_page := _FILE_WITH_PAGE.fullmatch(unicodedata.normalize("NFC", name).strip()):
            name = file_with_page[1]
        key = file_key(name)
        positions = known.get(key) or known.get(self._number_keys.find(key) or "") or []
        for normalize in (str, _without_extension) if len(positions) > 1 else ():
            path = normalize(_path_key(name)).removeprefix("./")
            known_paths = {position: normalize(self._path_of.get(position, "")) for position in positions}
            matching = [position for position, known_path in known_paths.items() if _is_same_path(known_path, path)]
            if matching:
                return matching  # folder and extension match as well
        return positions

    def _index(self, kind: NameKind) -> dict[str, list[int]]:
        positions: defaultdict[str, dict[int, None]] = defaultdict(dict)
        for position, title in enumerate(self._titles()):
            if title:
                key = file_key(title) if kind is NameKind.FILE else unicodedata.normalize("NFC", title)
                positions[key][position] = None
        if kind is NameKind.FILE:
            for name, position in (*self._position_of.items(), *self.locations):
                positions[file_key(name)][position] = None
                self._path_of.setdefault(position, _path_key(name))
        return {key: [*matches] for key, matches in positions.items() if key}


def file_key(name: str) -> str:
    """Return a file name in its form for comparison: lower case, without folders and extension; addresses are whole."""
    if "://" in name:
        return name.strip().lower().rstrip("/")
    return _without_extension(_path_key(name)).rpartition("/")[2]


def _path_key(name: str) -> str:
    path = unicodedata.normalize("NFC", name).replace("\\", "/").replace("_", " ").partition("#")[0]
    return " ".join(path.lower().split())


def _without_extension(path: str) -> str:
    return _EXTENSION.sub("", path)


def _is_same_path(path: str, other: str) -> bool:
    shorter, longer = sorted((path, other), key=len)
    return bool(shorter) and f"/{longer}".endswith(f"/{shorter}")


def is_file_name(name: str) -> bool:
    """Return whether a name has the extension of a document."""
    return _EXTENSION.search(name.strip().lower()) is not None


def reference_columns(names: Iterable[str], sample: Sample, passages: PassageNames) -> tuple[Reference, ...]:
    """Return the columns that name passages in the same way; small numbers and common titles need a telling name."""
    references: list[Reference] = []
    for name in names:
        if _NOT_REFERENCE.search(plain_name(name)):
            continue
        values = dict.fromkeys(value for row in sample for value in islice(_values(row.get(name)), _MAX_VALUES))
        hits = {
            kind: sum(any(positions for _, positions in named_passages(value, kind, passages)) for value in values)
            for kind in NameKind
        }
        kind = max(hits, key=hits.__getitem__)  # the first kind on a tie
        is_named = bool(values) and hits[kind] >= _MIN_MATCHING_FRACTION * len(values)
        if is_named and (_REFERENCE_HINT.search(plain_name(name)) or _is_distinctive(values, kind, passages)):
            grade = NOT_RELEVANT if _NEGATIVE.search(plain_name(name)) else RELEVANT_GRADE
            references.append(Reference(name, kind, grade))
    best = [kind for kind in NameKind if any(known.kind is kind and known.grade for known in references)]
    return tuple(reference for reference in references if best and reference.kind is best[0])


def _is_distinctive(values: Collection[str], kind: NameKind, passages: PassageNames) -> bool:
    if kind is NameKind.ID:
        return not all(re.fullmatch(r"[\d.]{1,6}", value) for value in values)
    return all(len(positions) < 2 for value in values for _, positions in named_passages(value, kind, passages))


def named_passages(cell: object, kind: NameKind, passages: PassageNames) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield each name in a cell with the positions of its passages, empty for an unknown name."""
    for value in _values(cell):
        yield from ((name, passages.find(kind, name)) for name in _split_names(value, kind, passages))


def _split_names(value: str, kind: NameKind, passages: PassageNames) -> list[str]:
    """Return the names that a text lists, or the text; ambiguous separators require that all names are known."""
    if passages.find(kind, value):
        return [value]
    names = _split(value, _SEPARATOR)
    if any(passages.find(kind, name) for name in names):
        return names
    splits = (_split(value, separator) for separator in _AMBIGUOUS_SEPARATORS)
    return next((names for names in splits if names and all(passages.find(kind, name) for name in names)), [value])


def _split(value: str, separator: re.Pattern[str]) -> list[str]:
    return [name for part in separator.split(value.strip(_BRACKETS)) if (name := part.strip(_BRACKETS))]


def _values(cell: object, depth: int = _MAX_DEPTH) -> Iterator[str]:
    for item in list_items(cell) if depth else ():
        value = item
        if isinstance(item, dict):
            value = next((cell for name, cell in item.items() if plain_name(name) in ID_NAMES), None)
        if is_collection(value):
            yield from _values(value, depth - 1)
        elif not is_blank(value):
            yield as_text(value)
