"""Passages in the making: texts that differ, each kept once, a block of them at a time in Arrow's memory."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from data.passages import SCHEMA, Passages
from data.texts import BLOCK, column_of, in_blocks


class GatheredPassages:
    """Passages by place, in the order they came. A text is found by its hash, and then compared."""

    def __init__(self) -> None:
        self.ids: list[str] = []  # as given, "" where there is none
        self._titles: list[str] = []
        self._same_title: dict[str, str] = {}  # one object a title, however many passages have it
        self._blocks: list[Any] = []
        self._open: list[str] = []
        self._place_of_hash: dict[int, int] = {}

    def find(self, text: str) -> int:
        """Return the place of a text; that of the next one where it is new."""
        return self._place_of_hash.get(self._key(text), len(self))

    def add(self, text: str, title: str, id_: str) -> int:
        """Keep a passage and return its place; of one that is known only a title it lacked is kept."""
        key, title = self._key(text), self._same_title.setdefault(title, title)
        place = self._place_of_hash.setdefault(key, len(self))
        if place < len(self):
            self._titles[place] = self._titles[place] or title
            return place
        self._open.append(text)
        self._titles.append(title)
        self.ids.append(id_)
        if len(self._open) == BLOCK:
            self._blocks.append(column_of(self._open))
            self._open = []
        return place

    def passages(self, ids: Iterable[str]) -> Passages:
        """Return all of them under these ids."""
        texts = [*self._blocks, column_of(self._open)]
        columns = [_column(in_blocks(ids)), pa.chunked_array(texts), _column(in_blocks(self._titles))]
        return Passages(pa.Table.from_arrays(columns, schema=SCHEMA))

    def __len__(self) -> int:
        return len(self._titles)

    def _key(self, text: str) -> int:
        """The text's hash, or the next number that no other text has."""
        key = hash(text)
        while (place := self._place_of_hash.get(key)) is not None and self._text(place) != text:
            key += 1
        return key

    def _text(self, place: int) -> str:
        block, row = divmod(place, BLOCK)
        return self._blocks[block][row].as_py() if block < len(self._blocks) else self._open[row]


def _column(blocks: Iterable[list[str]]) -> Any:
    return pa.chunked_array([column_of(block) for block in blocks], pa.large_string())
