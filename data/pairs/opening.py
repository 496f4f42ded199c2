"""A file of pairs whose format and columns are known, and whose rows can be read again and again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from data.files.cells import as_text, is_blank, is_collection, shown
from data.files.content import Content
from data.files.formats import Format, RecognisedFile, recognise
from data.files.opening import Proposal, looked_at, table_opener
from data.files.plain_text import line_table
from data.files.tables import RawRow, Table
from data.pairs.columns import SENTENCES, PairColumns, guess_pair_columns, is_known, wanted_names
from data.pairs.records import PairKind
from data.pairs.values import Values
from data.problems import DataError, ProblemCode

_SQUAD = ("data", "paragraphs", "qas")  # what such a file has in place of columns
Cells = Mapping[str, object]


@dataclass(frozen=True)
class OpenedFile:
    """A file to be read. An object in a cell is columns of its own, such as `labels.label` of KLUE-STS."""

    name: str
    recognised: RecognisedFile = field(repr=False)
    table: Callable[[], Table] = field(repr=False)  # opened anew at each call
    columns: PairColumns
    available: tuple[str, ...]
    first_rows: tuple[dict[str, str], ...] = field(repr=False)
    objects: tuple[str, ...]  # the columns that hold objects

    @property
    def proposal(self) -> Proposal[PairColumns]:
        """What can be chosen of it."""
        return Proposal(self.columns, self.available, self.first_rows)

    def rows(self) -> Iterator[RawRow]:
        """Yield all rows, from the first."""
        for row in self.table().rows:
            yield row._replace(cells=_flat(row.cells, self.objects)) if self.objects else row

    def values(self, role: str) -> Values | None:
        """Return what stands in the column of a role; None where there is no such column."""
        column = getattr(self.columns, role)
        if column is None:
            return None
        found = Values()
        for row in self.rows():
            value = None if row.problem else row.cells.get(column)
            found.add("" if is_collection(value) else as_text(value))
        return found

    def fitted(self, kind: PairKind) -> "OpenedFile":
        """Return the file with the columns that rows of a kind are read from. Raises `DataError` where one is missing.

        A label that is a number can be a score, and what is called a score can be a label.
        """
        columns = self.columns
        if kind is PairKind.SCORED:
            columns = replace(columns, score=columns.score or columns.label, label=None)
        elif kind is PairKind.LABELLED:
            columns = replace(columns, label=columns.label or columns.score, score=None)
        else:
            columns = replace(columns, label=None, score=None)
        columns = replace(columns, **dict.fromkeys(SENTENCES[kind.width :]))
        value = {PairKind.SCORED: ("score",), PairKind.LABELLED: ("label",)}.get(kind, ())
        for role in (*SENTENCES[: kind.width], *value):
            if getattr(columns, role) is None:
                raise self._missing(role)
        return replace(self, columns=columns)

    def _missing(self, role: str) -> DataError:
        found = shown(", ".join(self.available), 300)
        if role == SENTENCES[0]:
            return DataError.of(ProblemCode.NO_SENTENCE, found=found, wanted=wanted_names(role))
        return DataError.of(ProblemCode.MISSING_COLUMN, role=role, found=found, wanted=wanted_names(role))


def opened(content: Content, name: str, chosen: Mapping[str, str | None]) -> OpenedFile:
    """Open a file; columns that are not chosen are guessed. Raises `DataError` where it cannot be read."""
    recognised = recognise(content, is_known)
    if recognised.format is Format.SQUAD:
        return OpenedFile(name, recognised, lambda: Table((), ()), PairColumns(), _SQUAD, (), ())
    opener = _opener(content, recognised)
    table, sample = looked_at(opener())
    objects = tuple(name for name in table.names if _holds_objects(name, sample))
    flat = [_flat(cells, objects) for cells in sample]
    names = tuple(dict.fromkeys(name for cells in (dict.fromkeys(table.names), *flat) for name in cells))
    names = tuple(name for name in names if name not in objects) if objects else table.names
    first_rows = looked_at(Table(names, (RawRow(0, cells) for cells in flat)))[0].first
    columns = replace(guess_pair_columns(names, flat), **chosen)
    _check_names(chosen, names)
    return OpenedFile(name, recognised, opener, columns, names, first_rows, objects)


def _opener(content: Content, recognised: RecognisedFile) -> Callable[[], Table]:
    if recognised.format is Format.TEXT and recognised.text is not None:
        return partial(line_table, recognised.text)
    return table_opener(content, recognised)


def _holds_objects(name: str, sample: Sequence[Cells]) -> bool:
    """Whether most cells of a column are objects: a few among texts are slips."""
    filled = [value for cells in sample if not is_blank(value := cells.get(name))]
    return 2 * sum(isinstance(value, dict) for value in filled) > len(filled)


def _flat(cells: Cells, objects: Sequence[str]) -> Cells:
    """The cells with those of objects among them, named behind a dot."""
    flat: dict[str, object] = {}
    for name, value in cells.items():
        if name in objects and isinstance(value, dict):
            flat |= {f"{name}.{inner}": one for inner, one in value.items()}
        else:
            flat[name] = value
    return flat


def _check_names(chosen: Mapping[str, str | None], names: Sequence[str]) -> None:
    for role, name in chosen.items():
        if name is not None and name not in names:
            found = shown(", ".join(names), 300)
            raise DataError.of(ProblemCode.UNKNOWN_COLUMN, role=role, name=shown(name, 80), found=found)
