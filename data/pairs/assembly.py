"""Raw rows become pairs; what does not fit is left out with its reason."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from data.files.cells import shown
from data.files.tables import RawRow
from data.pairs.columns import SENTENCES, PairColumns
from data.pairs.records import PairKind, PairSet
from data.pairs.values import LARGEST, Scale, is_number, label_of, may_be_thousands, part_of, score_of
from data.problems import Problem, ProblemCode
from data.rows.reader import RowReader
from data.rows.rejection import Rejection
from data.texts import BLOCK, Texts, column_of


@dataclass
class GatheredPairs:
    """Good rows in the order they came, a block of them at a time in Arrow's memory."""

    kind: PairKind
    scale: Scale
    _values: "array[float]" = field(default_factory=lambda: array("f"))
    _published: "array[int]" = field(default_factory=lambda: array("b"))
    _open: list[list[str]] = field(default_factory=list)
    _blocks: list[list[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._open = [[] for _ in range(self.kind.width)]
        self._blocks = [[] for _ in range(self.kind.width)]

    def add(self, sentences: Sequence[str], value: float, part: int) -> None:
        """Keep a row."""
        for column, sentence in zip(self._open, sentences, strict=True):
            column.append(sentence)
        self._values.append(value)
        self._published.append(part)
        if len(self._open[0]) == BLOCK:
            self._close()

    def pairs(self, name: str) -> PairSet:
        """Return the set of all rows."""
        self._close()
        texts = tuple(Texts(pa.chunked_array(blocks, pa.large_string())) for blocks in self._blocks)
        dtype = np.float32 if self.kind is PairKind.SCORED else np.int8
        has_values = self.kind in (PairKind.SCORED, PairKind.LABELLED)
        values = np.array(self._values if has_values else (), dtype=dtype)
        return PairSet(name, self.kind, texts, values, np.array(self._published, dtype=np.int8), self.scale)

    def __len__(self) -> int:
        return len(self._published)

    def _close(self) -> None:
        for blocks, column in zip(self._blocks, self._open, strict=True):
            blocks.append(column_of(column))
            column.clear()


@dataclass
class PairAssembly:
    """The rows of one file on their way into the set. `part` is the place of the file's in `PARTS`, or -1."""

    columns: PairColumns
    part: int
    gathered: GatheredPairs
    rejection: Rejection = field(default_factory=Rejection)
    row_count: int = 0
    _ambiguous: str = ""  # the first score whose comma may part thousands
    _has_decimals: bool = False  # a score with another comma, which parts decimals

    def add(self, row: RawRow) -> None:
        """Take one row. Raises `DataError` where none of very many was good."""
        self.row_count += 1
        problem = row.problem or self._take(row)
        if problem is not None:
            self.rejection.add(row, problem, any_good=len(self.gathered) > 0)

    def end(self) -> None:
        """Note, after the last row, how scores were read that can be read in two ways."""
        if self._ambiguous and not self._has_decimals:
            column, value = shown(self.columns.score, 80), shown(self._ambiguous, 80)
            read = f"{score_of(self._ambiguous):g}"
            self.rejection.problems.add(Problem.of(ProblemCode.DECIMAL_COMMA, column=column, value=value, read=read))

    def _take(self, row: RawRow) -> Problem | None:
        """Keep a good row; return why it is not kept, if so."""
        reader = RowReader(row, self.columns)
        sentences = []
        for role in SENTENCES[: self.gathered.kind.width]:
            sentences.append(reader.text(role, ProblemCode.EMPTY_SENTENCE))
            if reader.problem is not None:
                return reader.problem
        value = self._value(reader)
        if isinstance(value, Problem):
            return value
        part = part_of(reader.text("part")) if self.columns.part else -1
        self.gathered.add(sentences, value, part if part >= 0 else self.part)
        if reader.dropped is not None:
            self.rejection.problems.add(reader.dropped)
        if reader.mended:
            self.rejection.problems.add(Problem.of(ProblemCode.MENDED_TEXT, row.number))
        return None

    def _value(self, reader: RowReader) -> float | Problem:
        """The score or label of a row, 0 for kinds that have none, or the problem with it."""
        match self.gathered.kind:
            case PairKind.SCORED:
                return self._score(reader)
            case PairKind.LABELLED:
                text = reader.text("label")
                label = label_of(text)
                return self._unfit(ProblemCode.UNKNOWN_LABEL, reader, "label", text) if label is None else label
            case _:
                return 0

    def _score(self, reader: RowReader) -> float | Problem:
        text = reader.text("score")
        score, (low, high) = score_of(text), self.gathered.scale
        if score is None and is_number(text):
            return self._unfit(ProblemCode.TOO_LARGE_NUMBER, reader, "score", text, most=f"{LARGEST:g}")
        if score is None:
            return self._unfit(ProblemCode.NO_NUMBER, reader, "score", text)
        self._note_comma(text)
        if not low <= score <= high:
            return self._unfit(ProblemCode.OUT_OF_SCALE, reader, "score", text, low=f"{low:g}", high=f"{high:g}")
        return score

    def _note_comma(self, text: str) -> None:
        if may_be_thousands(text):
            self._ambiguous = self._ambiguous or text
        elif "," in text:
            self._has_decimals = True

    def _unfit(self, code: ProblemCode, reader: RowReader, role: str, text: str, **more: str) -> Problem:
        column = shown(getattr(self.columns, role), 80)
        return Problem.of(code, reader.row.number, column=column, value=shown(text, 80) or "-", **more)
