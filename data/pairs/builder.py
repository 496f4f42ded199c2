"""Builds a set of sentence pairs with scores, labels and parts from rows, and reports unusable rows."""

import math
import re
import unicodedata
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from mrc_workbench.data.formats.columns import SENTENCES, PairColumns
from mrc_workbench.data.formats.rows import DatasetBuilder, Rejection, RowReader
from mrc_workbench.data.formats.tables import MAX_CHARACTERS, RawRow, display_text, is_collection
from mrc_workbench.data.layouts.cells import passages_in
from mrc_workbench.data.layouts.references import name_words, parse_part, part_from_word
from mrc_workbench.data.pairs import Label, PairKind, PairSet
from mrc_workbench.data.problems import Problem, ProblemCode
from mrc_workbench.data.split import PARTS, Part
from mrc_workbench.data.texts import BLOCK, Texts, column_of

Scale = tuple[float, float]

DEFAULT_SCALES: tuple[Scale, ...] = ((0, 1), (-1, 1), (1, 5), (0, 5), (0, 10), (0, 100), (-100, 100))
_MIN_FRACTION_ON_SCALE = 0.995  # of the scores: single typing errors do not change the guessed scale
MAX_SCORE = 1e15  # absolute value; squares of larger scores may overflow in float32
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_THOUSANDS = re.compile(r"[+-]?\d{1,3},\d{3}", re.ASCII)  # ambiguous: may also be three decimals
_BOOLEAN_SCORES = {"true": 1.0, "false": 0.0}
_LABELS: dict[Label, tuple[str, ...]] = {
    Label.ENTAILMENT: ("0", "entailment", "entail", "entails", "entailed", "e", "함의", "함축", "수반"),
    Label.NEUTRAL: ("1", "neutral", "neutrality", "n", "중립", "무관"),
    Label.CONTRADICTION: ("2", "contradiction", "contradict", "contradicts", "contradictory", "c", "모순", "상충"),
}
_LABEL_OF = {text: label for label, texts in _LABELS.items() for text in texts}
_MAX_TEXTS = 100  # distinct texts of a column: labels have fewer


def parse_score(text: str) -> float | None:
    """Return the number in a text, 1 for true, 0 for false; None for other texts and beyond `MAX_SCORE`."""
    number = float(text.replace(",", ".")) if _NUMBER.fullmatch(text) else _BOOLEAN_SCORES.get(text.lower(), math.inf)
    return number if abs(number) <= MAX_SCORE else None


def parse_label(text: str) -> Label | None:
    """Return the label of an English or Korean word, an abbreviation, or XNLI's number; None for other texts."""
    return _LABEL_OF.get(unicodedata.normalize("NFKC", text).lower())


def part_from_name(name: str) -> Part | None:
    """Return the part that the last matching word of a file's name names, else None."""
    parts = [part for word in name_words(name) if (part := part_from_word(word))]
    return Part(parts[-1]) if parts else None


def strip_part(name: str) -> str:
    """Return the words of a file's name, without those that name a part, joined by hyphens."""
    return "-".join([word for word in re.split(r"[\s_.\-()]+", name) if word and not parse_part(word)])


@dataclass
class ColumnValues:
    """The values of a column: its numbers and its first distinct texts. Blank values are ignored."""

    numbers: "array[float]" = field(default_factory=lambda: array("d"))
    texts: set[str] = field(default_factory=set)
    non_numeric_count: int = 0

    def add(self, text: str) -> None:
        number = parse_score(text)
        if number is not None:
            self.numbers.append(number)
        elif text:
            self.non_numeric_count += 1
            if len(self.texts) < _MAX_TEXTS:
                self.texts.add(text)

    @property
    def are_numbers(self) -> bool:
        return len(self.numbers) > self.non_numeric_count

    @property
    def are_labels(self) -> bool:
        """Whether the values are XNLI's three numbers, or texts that name labels. Only 0 and 1 are a score."""
        numbers = set(self.numbers)
        if 2.0 in numbers and numbers <= {-1.0, 0.0, 1.0, 2.0}:  # -1: annotators disagree
            return True
        return not self.are_numbers and any(parse_label(text) is not None for text in self.texts)

    def guess_scale(self) -> Scale:
        """Guess the scale of the scores: the first default scale that contains them, else the next whole numbers."""
        numbers = np.frombuffer(self.numbers)
        if not len(numbers):
            return DEFAULT_SCALES[0]
        for low, high in DEFAULT_SCALES:
            if ((numbers >= low) & (numbers <= high)).mean() >= _MIN_FRACTION_ON_SCALE:
                return float(low), float(high)
        low = math.floor(numbers.min())
        high = math.ceil(numbers.max())
        return float(low), float(max(high, low + 1))


def guess_kind(sentence_count: int, score: ColumnValues | None, label: ColumnValues | None) -> PairKind:
    """Guess the kind of rows from the number of sentences and, for two sentences, from the other columns."""
    if sentence_count != 2:
        return PairKind.SENTENCES if sentence_count < 2 else PairKind.TRIPLETS
    if score is not None and score.are_numbers:
        return PairKind.SCORED
    if label is not None:
        return PairKind.LABELLED if label.are_labels or not label.are_numbers else PairKind.SCORED
    return PairKind.PARALLEL if score is None else PairKind.SCORED


class PairBuilder(DatasetBuilder):
    """Builds a set of pairs, block by block; `rejection` and `row_count` refer to the last file."""

    def __init__(self, kind: PairKind, scale: Scale) -> None:
        super().__init__()
        self.kind = kind
        self.scale = scale
        self._part: Part | None = None  # of the current file
        self._values = array("f")
        self._published = array("b")
        self._open_block: list[list[str]] = [[] for _ in range(kind.width)]
        self._blocks: list[list[Any]] = [[] for _ in range(kind.width)]
        self._ambiguous_score = ""  # the first score of a file with a comma that may separate thousands
        self._has_decimal_commas = False  # another score has a decimal comma

    def has_good_rows(self) -> bool:
        return len(self._published) > 0

    def add(self, rows: Iterable[RawRow], columns: PairColumns, part: Part | None, problems: Iterable[Problem]) -> None:
        """Read a file of a published part with its known `problems`. Raises `DataError` without good rows."""
        self.rejection = Rejection()
        self.rejection.report(problems)
        self.row_count = 0
        self._part = part
        self._ambiguous_score = ""
        self._has_decimal_commas = False
        self.read_rows(rows, columns, self._add_row)
        if self._ambiguous_score and not self._has_decimal_commas:
            column = display_text(columns.score, 80)
            value = display_text(self._ambiguous_score, 80)
            read = f"{parse_score(self._ambiguous_score):g}"
            self.rejection.report([Problem.from_code(ProblemCode.DECIMAL_COMMA, column=column, value=value, read=read)])

    def build(self, name: str) -> PairSet:
        self._flush_block()
        texts = tuple(Texts(pa.chunked_array(blocks, pa.large_string())) for blocks in self._blocks)
        dtype = np.float32 if self.kind is PairKind.SCORED else np.int8
        has_values = self.kind in (PairKind.SCORED, PairKind.LABELLED)
        values = np.array(self._values if has_values else (), dtype=dtype)
        return PairSet(name, self.kind, texts, values, np.array(self._published, dtype=np.int8), self.scale)

    def _add_row(self, reader: RowReader) -> Problem | None:
        """Store a good row; a row of lists becomes several rows, and shorter lists repeat."""
        sentences = [self._sentences(reader, role) for role in SENTENCES[: self.kind.width]]
        if reader.is_refused():
            return reader.problem
        read_value = {PairKind.SCORED: self._score, PairKind.LABELLED: self._label}.get(self.kind, lambda _: 0.0)
        value = read_value(reader)
        if isinstance(value, Problem):
            return value
        part = parse_part(reader.cell("part")) or self._part
        for number in range(max(map(len, sentences))):
            for column, texts in zip(self._open_block, sentences, strict=True):
                column.append(texts[number % len(texts)])
            self._values.append(value)
            self._published.append(PARTS.index(Part(part)) if part else -1)
            if len(self._open_block[0]) == BLOCK:
                self._flush_block()
        return None

    def _flush_block(self) -> None:
        for blocks, column in zip(self._blocks, self._open_block, strict=True):
            blocks.append(column_of(column))
            column.clear()

    def _sentences(self, reader: RowReader, role: str) -> list[str]:
        cell = reader.cell(role)
        is_list = is_collection(cell) or (isinstance(cell, str) and cell.lstrip().startswith("["))
        passages = passages_in(cell) if is_list and self.kind is PairKind.TRIPLETS else []
        texts = [reader.mend_text(passage.text) for passage in passages]
        if any(len(text) > MAX_CHARACTERS for text in texts) or not texts:
            text = "" if reader.is_refused() else reader.text(role, ProblemCode.EMPTY_SENTENCE)
            return [text]
        return texts

    def _label(self, reader: RowReader) -> float | Problem:
        text = reader.text("label")
        label = parse_label(text)
        return self._value_problem(ProblemCode.UNKNOWN_LABEL, reader, "label", text) if label is None else label

    def _score(self, reader: RowReader) -> float | Problem:
        text = reader.text("score")
        score = parse_score(text)
        low, high = self.scale
        if score is None and _NUMBER.fullmatch(text):
            return self._value_problem(ProblemCode.TOO_LARGE_NUMBER, reader, "score", text, most=f"{MAX_SCORE:g}")
        if score is None:
            return self._value_problem(ProblemCode.NO_NUMBER, reader, "score", text)
        if _THOUSANDS.fullmatch(text):  # read as a decimal comma: 1,000 is 1
            self._ambiguous_score = self._ambiguous_score or text
        elif "," in text:
            self._has_decimal_commas = True
        if not low <= score <= high:
            ends = {"low": f"{low:g}", "high": f"{high:g}"}
            return self._value_problem(ProblemCode.OUT_OF_SCALE, reader, "score", text, **ends)
        return score

    def _value_problem(self, code: ProblemCode, reader: RowReader, role: str, text: str, **more: str) -> Problem:
        details = {"column": reader.column(role), "value": display_text(text, 80) or "-", **more}
        return Problem.from_code(code, reader.row.number, **details)
