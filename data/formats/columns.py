"""Assigns roles to columns by the names in `columns.toml`; finds headers below titles, and notes below tables."""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mrc_workbench.data.formats.tables import IsKnownName, RawRow, as_text, display_text, is_blank, is_collection
from mrc_workbench.data.problems import DataError, Problem, ProblemCode


@dataclass(frozen=True)
class QuestionColumns:
    """The names of columns by role, None if there is no column."""

    question: str | None = None
    context: str | None = None
    answers: str | None = None
    title: str | None = None
    id: str | None = None  # of the question; of the passage in rows without a question
    kind: str | None = None
    start: str | None = None  # position of the answer in the passage, in characters
    label: str | None = None  # grade of the row's passage, 0 if not relevant
    positives: str | None = None  # lists of passages
    negatives: str | None = None
    candidates: str | None = None  # lists of passages without a judgement
    passage_id: str | None = None
    part: str | None = None  # train, validation or test
    impossible: str | None = None  # whether the passage does not answer the question

    @property
    def has_passages(self) -> bool:
        return (self.context or self.positives or self.candidates) is not None


_WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
# by role, the best name first, normalized by `plain_name`
NAMES: dict[str, tuple[str, ...]] = {
    role: (
        *names,
        *(word + noun for word in _WORDS["with_passage_nouns"].get(role, ()) for noun in _WORDS["passage_nouns"]),
    )
    for role, names in _WORDS["questions"].items()
}
PAIR_NAMES: dict[str, tuple[str, ...]] = {role: tuple(names) for role, names in _WORDS["pairs"].items()}
_NOT_A_TEXT = {
    "id", "ids", "idx", "index", "start", "end", "begin", "type", "kind", "len", "length", "count", "score",
    "번호", "유형", "위치", "길이", "개수", "점수",
}  # fmt: skip
_PASSAGE_WORDS = ("doc", "passage", "paragraph", "context", "article", "file", "문서", "지문", "본문", "문단", "파일")

FindColumn = Callable[[str, Sequence[str], Sequence[str]], str | None]  # role, known names, names in the file


def guess_columns(names: Sequence[str]) -> QuestionColumns:
    """Guess roles from names, to detect headers. `data.layouts.roles` assigns the final roles."""
    return QuestionColumns(**roles_by_name(NAMES, ((known_name, names), (name_with_known_word, names)), {}))


def is_known(name: str, names: Mapping[str, Sequence[str]] = NAMES) -> bool:
    """Whether a column has a known name."""
    plain = plain_name(name)
    return any(plain in known for known in names.values())


is_pair_column = partial(is_known, names=PAIR_NAMES)


def plain_name(name: str) -> str:
    """Normalize a name for comparisons: lower case without spaces, underscores, hyphens and dots."""
    return re.sub(r"[\s_\-.]+", "", unicodedata.normalize("NFKC", name)).lower()


def example_names(known: Sequence[str]) -> str:
    """Return some known names for a role, separated by commas, Korean ones first."""
    korean = [name for name in known if not name.isascii()]
    return ", ".join([*korean[:3], *known[:3]])


def require_columns(selected: Mapping[str, str | None], names: Sequence[str]) -> None:
    """Raise `DataError` if a column selected for a role is not in the file."""
    for role, name in selected.items():
        if name is not None and name not in names:
            details = {"name": display_text(name, 80), "available": display_text(", ".join(names), 300)}
            raise DataError.from_code(ProblemCode.UNKNOWN_COLUMN, role=role, **details)


def known_name(role: str, known: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the name with the best known name; names of lists may end in a number (negative_1)."""
    by_plain = {plain_name(name): name for name in reversed(names)}
    if role in ("positives", "negatives"):
        by_plain = {plain.rstrip("0123456789"): name for plain, name in by_plain.items()} | by_plain
    return next((by_plain[name] for name in known if name in by_plain), None)


def roles_by_name(
    known: Mapping[str, tuple[str, ...]],
    steps: Iterable[tuple[FindColumn, Sequence[str]]],
    named_columns: Mapping[str, str],
    fits: Callable[[str, str, FindColumn], bool] = lambda _role, _name, _find: True,
) -> dict[str, str]:
    """Return columns by role: each step finds columns among those without a role.

    `named_columns` are the columns named by the user; `fits` checks whether the values of a column fit a role.
    """
    roles = dict(named_columns)
    for find, candidates in steps:
        for role, role_names in known.items():
            if role not in roles:
                unassigned = [name for name in candidates if name not in roles.values() and fits(role, name, find)]
                if (name := find(role, role_names, unassigned)) is not None:
                    roles[role] = name
    return roles


def name_after_dot(role: str, role_names: Sequence[str], names: Sequence[str]) -> str | None:
    """Return a name that is known as a whole or after its last dot."""
    by_last: dict[str, str] = {}
    for name in names:
        by_last.setdefault(name.rpartition(".")[2], name)
    matched_name = known_name(role, role_names, list(by_last))
    return known_name(role, role_names, names) or (by_last[matched_name] if matched_name is not None else None)


def name_with_known_word(role: str, role_names: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the only name that contains a known word, for roles with distinctive words."""
    if role not in ("title", "answers", "question", "context"):
        return None
    known = {word for word in role_names if len(word) > 1} - {"sentence"}  # sentence1 is a column of pairs
    korean = tuple(word for word in known if "가" <= word <= "힣")
    matches = []
    for name in names:
        words = set(re.findall(r"[a-z]+|[가-힣]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower()))
        # such as 정답 문서번호, the passage of the answer
        is_other = role == "answers" and any(word.startswith(_PASSAGE_WORDS) for word in words)
        is_known = words & known or name.endswith(korean)  # Korean writes compounds as one word
        if is_known and not words & _NOT_A_TEXT and not is_other:
            matches.append(name)
    return matches[0] if len(matches) == 1 else None


@dataclass(frozen=True)
class PairColumns:
    """The names of columns by role, None if there is no column."""

    sentence1: str | None = None
    sentence2: str | None = None
    sentence3: str | None = None
    score: str | None = None
    label: str | None = None
    part: str | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """The columns of sentences before the first missing one."""
        columns = (self.sentence1, self.sentence2, self.sentence3)
        return tuple(name for index, name in enumerate(columns) if name is not None and None not in columns[:index])


SENTENCES = ("sentence1", "sentence2", "sentence3")


Record = tuple[int, Sequence[object]]  # number of the row, and its cells
_MAX_TITLE_ROWS = 20  # rows above a header
_MAX_NOTE_ROWS = 20  # rows below a table
_MAX_NAME_CHARACTERS = 40  # of a column
_NUMBER = re.compile(r"[-+]?[\d.,:/%\s-]+")
_NOTE = re.compile(r"\s*([※*†]|주\s?[):.]|(비고|참고|출처|자료|source|notes?)\s?:)", re.IGNORECASE)


def find_header(records: Sequence[Sequence[object]], is_known_name: IsKnownName) -> int:
    """Return the position of the header record; `is_known_name` checks names of columns.

    It is the first record, unless that has fewer cells than the table below and a better record follows: with two known
    names, or with distinct texts in all columns.
    """
    if not records:
        return 0
    by_position = [_filled_cells(record) for record in records]
    widths = Counter(max(cells, default=0) for cells in by_position)
    width = max(widths, key=lambda count: (widths[count], count))
    filled = [list(cells.values()) for cells in by_position]
    known = [sum(map(is_known_name, cells)) for cells in filled[: _MAX_TITLE_ROWS + 1]]
    for position in range(1, len(known)):
        is_wider = all(len(cells) < len(filled[position]) for cells in filled[:position])
        if is_wider and known[position] > max(1, *known[:position]):
            return position
    if known[0] or 2 * len(filled[0]) > width:
        return 0
    for position in range(1, len(known)):
        cells = filled[position]
        if len(cells) == width > 1 and len(set(cells)) == width and not any(map(_NUMBER.fullmatch, cells)):
            return position
    return 0


def _filled_cells(record: Sequence[object]) -> dict[int, str]:
    return {position: as_text(cell) for position, cell in enumerate(record, start=1) if not is_blank(cell)}


def title_problems(titles: Sequence[Sequence[object]]) -> tuple[Problem, ...]:
    """Return the problem of lines above a header, none if there are no such lines."""
    if not titles:
        return ()
    words = "; ".join(" ".join(_filled_cells(title).values()) for title in titles)
    return (Problem.from_code(ProblemCode.TITLE_LINES, count=len(titles), words=display_text(words, 100)),)


def without_notes(rows: Iterator[RawRow], names: Sequence[str]) -> Iterator[RawRow]:
    """Yield rows; notes below the table and rows that repeat the header get a problem.

    Notes are rows at the end with only a first cell, unlike other rows, that begin like a note or follow a blank row.
    """
    notes = list[RawRow]()
    before = None
    may_be_notes = len(names) > 1
    last = names[-1] if names else ""
    for row in _mark_repeated_headers(rows, names):
        is_single = may_be_notes and not row.cells.get(last) and _has_only_first_cell(row)
        if is_single and before is not None and len(notes) < _MAX_NOTE_ROWS and (notes or _starts_note(row, before)):
            notes.append(row)
        else:
            may_be_notes = may_be_notes and not is_single  # else such rows are data
            yield from notes
            notes.clear()
            yield row
        before = row
    for row in notes:
        yield row._replace(problem=Problem.from_code(ProblemCode.NOTE_ROW, row.number))


def _mark_repeated_headers(rows: Iterator[RawRow], names: Sequence[str]) -> Iterator[RawRow]:
    for number, row in enumerate(rows):
        is_header = len(names) > 1 and all(as_text(row.cells.get(name)) == name for name in names)
        if number == 0 and len(names) > 1:
            cells = [as_text(cell)[:_MAX_NAME_CHARACTERS] for cell in row.cells.values() if not is_collection(cell)]
            is_header = is_header or (len(cells) > 1 and all(map(is_known, cells)))
        yield row._replace(problem=Problem.from_code(ProblemCode.REPEATED_HEADER, row.number)) if is_header else row


def _has_only_first_cell(row: RawRow) -> bool:
    cells = iter(row.cells.values())
    return not is_blank(next(cells, None)) and all(map(is_blank, cells))


def _starts_note(row: RawRow, before: RawRow) -> bool:
    breaks = sum(cell.count("\n") for cell in before.cells.values() if isinstance(cell, str))
    return row.number - before.number > 1 + breaks or _NOTE.match(as_text(next(iter(row.cells.values())))) is not None
