"""Passages as columns in memory, their file, and reports of merged passages and changed ids."""

import json.encoder
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mrc_workbench.data.formats.tables import display_text
from mrc_workbench.data.problems import Problem, ProblemCode
from mrc_workbench.data.texts import BLOCK, Texts, column_of, in_blocks
from mrc_workbench.data.workspace import read_json, write_json

SCHEMA = pa.schema([("id", pa.large_string()), ("text", pa.large_string()), ("title", pa.large_string())])
FILE = "passages.arrow"
_SEAL = "passages.json"  # fingerprint of the content, size and time of the file
_LEGACY_FILE = "passages.parquet"  # of earlier versions
_BLOCK_ROWS = 1 << 16
_EXAMPLES = 3
_EXAMPLE_LENGTH = 60
_ID_LENGTH = 40


@dataclass(frozen=True, slots=True)
class Passage:
    """A text of the corpus. `title` names its article, empty if unknown."""

    id: str
    text: str
    title: str = ""


class Passages(Sequence[Passage]):
    """The passages of a corpus, in order; equal to any sequence of the same passages.

    `table` has the columns of `SCHEMA`, without nulls, and may be mapped from a file. Passages with a `known`
    fingerprint, or that `are_distinct`, are not checked for duplicates.
    """

    def __init__(self, table: Any, *, known: str = "", are_distinct: bool = False) -> None:
        self.table = table.cast(SCHEMA)
        self._known = known
        self._are_distinct = are_distinct or bool(known)
        self.ids, self.texts, self.titles = (Texts(self.table.column(name)) for name in SCHEMA.names)
        self._titled_texts = Texts(self.table.column("text"), self.table.column("title"))

    @classmethod
    def from_passages(cls, passages: Iterable[Passage]) -> "Passages":
        """Convert passages to columns; returns `Passages` unchanged. Raises `ValueError` for a lone surrogate."""
        if isinstance(passages, cls):
            return passages
        blocks = in_blocks(passages)
        columns = ([column_of([getattr(item, name) for item in block]) for name in SCHEMA.names] for block in blocks)
        return cls(pa.Table.from_batches((pa.record_batch(arrays, schema=SCHEMA) for arrays in columns), SCHEMA))

    def indexed_texts(self, *, title: bool) -> Texts:
        """Return the indexed texts; with `title`, each begins with a line for its title if that is known."""
        return self._titled_texts if title else self.texts

    def title_lengths(self, *, title: bool) -> np.ndarray:
        """Characters of the title and its line break in each indexed text, `(n_passages,)` int64; 0 without title."""
        lengths = self.titles.lengths()
        return np.where(lengths > 0, lengths + 1, 0) if title else np.zeros(len(self), dtype=np.int64)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hexadecimal) of a line `["id", "text", "title"]` per passage, in order."""
        if self._known:
            return self._known
        digest = sha256()
        quoted = json.encoder.encode_basestring
        for id_, text, title in self._rows():
            digest.update(f"[{quoted(id_)}, {quoted(text)}, {quoted(title)}]\n".encode())
        return digest.hexdigest()

    @cached_property
    def row_of(self) -> "RowOfId":
        return RowOfId(self.ids)

    @cached_property
    def duplicate(self) -> str:
        """The first repeated id or text, such as "passage id 'a'"; empty if there is none."""
        if self._are_distinct:
            return ""
        for label, texts in (("id", self.ids), ("text", self.texts)):
            row = texts.repeated_row()
            if row is not None:
                return f"passage {label} {texts[row][:80]!r}"
        return ""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, position: int) -> Passage: ...
    @overload
    def __getitem__(self, position: slice) -> "Passages": ...
    def __getitem__(self, position: int | slice) -> "Passage | Passages":
        if isinstance(position, slice):
            start, stop, step = position.indices(len(self))
            if step != 1:
                return Passages.from_passages(self[row] for row in range(start, stop, step))
            return Passages(self.table.slice(start, max(0, stop - start)))
        return Passage(self.ids[position], self.texts[position], self.titles[position])

    def __iter__(self) -> Iterator[Passage]:
        return (Passage(*row) for row in self._rows())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Passages):
            return self is other or bool(self.table.equals(other.table))
        if not isinstance(other, Sequence) or len(self) != len(other):
            return NotImplemented
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Passages({len(self):,})"

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        columns = (self.ids.blocks(), self.texts.blocks(), self.titles.blocks())
        return chain.from_iterable(zip(*block, strict=True) for block in zip(*columns, strict=True))


class RowOfId(Mapping[str, int]):
    """Rows by id as two arrays: the hashes of the distinct ids in ascending order, and their rows."""

    def __init__(self, ids: Texts) -> None:
        hashes = ids.hashes()
        self._ids = ids
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def rows(self, ids: Sequence[str]) -> np.ndarray:
        """Return the row of each id, `(n,)` int64, -1 for unknown ids."""
        hashes = np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids))
        positions = np.searchsorted(self._hashes, hashes)
        known = positions < len(self._hashes)
        known[known] = self._hashes[positions[known]] == hashes[known]
        rows = np.full(len(ids), -1, dtype=np.int64)
        rows[known] = self._order[positions[known]]
        candidates = zip(np.flatnonzero(known).tolist(), self._ids.at(rows[known]), strict=True)
        for position, id_ in candidates:
            if id_ != ids[position]:  # another id with the same hash
                rows[position] = self.get(ids[position], -1)
        return rows

    def __getitem__(self, id_: str) -> int:
        target = hash(id_)
        position = int(np.searchsorted(self._hashes, target))
        while position < len(self._hashes) and self._hashes[position] == target:
            row = int(self._order[position])
            if self._ids[row] == id_:
                return row
            position += 1
        raise KeyError(id_)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


class PassageBuilder:
    """Passages by position, those with the same text merged; ids of merged copies become aliases."""

    def __init__(self) -> None:
        self.ids: list[str] = []  # as in the file, "" if missing
        self._titles: list[str] = []
        self._same_title: dict[str, str] = {}  # one object per title, shared by its passages
        self._blocks: list[Any] = []
        self._open_texts: list[str] = []
        self._position_of_hash: dict[int, int] = {}
        self._last_text: str | None = None  # the same passage is often looked up several times in a row
        self._last_key = 0
        self._copies: dict[str, int] = {}  # id of a merged copy -> position of the passage
        self._listed_aliases: dict[str, int] = {}  # the same, listed by the file
        self._ambiguous: set[str] = set()  # ids of copies of several passages
        self._nameless_copies: list[int] = []  # positions of the texts that rows without an id repeat
        self._other_titles: dict[int, str] = {}  # position -> the first title that is not used

    def find(self, text: str) -> int:
        """Return the position of a text; the next free position if it is new."""
        return self._position_of_hash.get(self._key(text), len(self))

    def add(self, text: str, title: str, id_: str, *, is_copy: bool = False) -> int:
        """Store a passage, or merge one with a known text; return its position. `is_copy`: report a merged row."""
        title = self._same_title.setdefault(title, title)
        count = len(self._titles)
        position = self._position_of_hash.setdefault(self._key(text), count)
        if position < count:
            self._merge(position, title, id_, is_copy)
            return position
        self._open_texts.append(text)
        self._titles.append(title)
        self.ids.append(id_)
        if len(self._open_texts) == BLOCK:
            self._blocks.append(column_of(self._open_texts))
            self._open_texts = []
        return position

    def add_alias(self, id_: str, position: int) -> None:
        if self._listed_aliases.setdefault(id_, position) != position:
            self._ambiguous.add(id_)

    def _merge(self, position: int, title: str, id_: str, is_copy: bool) -> None:
        if not self._titles[position]:
            self._titles[position] = title
        elif title and title != self._titles[position]:
            self._other_titles.setdefault(position, title)
        if id_ and not self.ids[position]:
            self.ids[position] = id_
        elif id_ in ("", self.ids[position]):
            if is_copy:
                self._nameless_copies.append(position)
        elif self._copies.setdefault(id_, position) != position:
            self._ambiguous.add(id_)

    def titles(self) -> Sequence[str]:
        return self._titles

    def passages(self) -> Passages:
        texts = pa.chunked_array([*self._blocks, column_of(self._open_texts)])
        columns = [_column(self.final_ids), texts, _column(self._titles)]
        return Passages(pa.Table.from_arrays(columns, schema=SCHEMA), are_distinct=True)

    @cached_property
    def final_ids(self) -> list[str]:
        """The ids by position once all passages are added; ids that are missing or repeated are generated."""
        return list(fill_ids("p", self.ids, reserved=[*self._copies, *self._listed_aliases]))

    def aliases(self) -> dict[str, str]:
        copies = self._listed_aliases | self._copies
        if not copies:
            return {}
        unavailable = self._ambiguous.union(self.final_ids)
        return {copy: self.final_ids[position] for copy, position in copies.items() if copy not in unavailable}

    def notices(self) -> list[Problem]:
        merged = (f"{copy} → {self.ids[position]}" for copy, position in self._copies.items())
        repeated_texts = (self._text(position) for position in self._nameless_copies)
        titles = (f"{title} → {self._titles[position]}" for position, title in self._other_titles.items())
        ids = zip(self.ids, self.final_ids, strict=True)
        pairs = [(original, final) for original, final in ids if original != final]
        generated = [final for original, final in pairs if not original] if any(self.ids) else []
        changed = [f"{original} → {final}" for original, final in pairs if original]
        ambiguous_ids = self._ambiguous.union(self.ids) if self._copies else ()
        changed += (id_ for id_ in self._copies if id_ in ambiguous_ids)
        counted = [
            (ProblemCode.MERGED_PASSAGES, len(self._copies), merged),
            (ProblemCode.REPEATED_PASSAGES, len(self._nameless_copies), repeated_texts),
            (ProblemCode.SEVERAL_TITLES, len(self._other_titles), titles),
            (ProblemCode.CHANGED_IDS, len(changed), changed),
            (ProblemCode.GENERATED_IDS, len(generated), generated),
        ]
        examples = ((code, count, _examples(texts, _EXAMPLE_LENGTH)) for code, count, texts in counted if count)
        return [Problem.from_code(code, count=count, examples=texts) for code, count, texts in examples]

    def __len__(self) -> int:
        return len(self._titles)

    def _key(self, text: str) -> int:
        """The text's hash, or, after a collision, the next number without a text."""
        if text is self._last_text:
            return self._last_key
        key = hash(text)
        while (position := self._position_of_hash.get(key)) is not None and self._text(position) != text:
            key += 1
        self._last_text = text
        self._last_key = key
        return key

    def _text(self, position: int) -> str:
        block, row = divmod(position, BLOCK)
        return self._blocks[block][row].as_py() if block < len(self._blocks) else self._open_texts[row]


def _examples(texts: Iterable[str], length: int) -> str:
    return ", ".join(display_text(text, length) for text in islice(texts, _EXAMPLES))


def _column(texts: Iterable[str]) -> Any:
    return pa.chunked_array([column_of(block) for block in in_blocks(texts)], pa.large_string())


def fill_ids(prefix: str, ids: Sequence[str], reserved: Iterable[str] = ()) -> Iterator[str]:
    """Yield the ids, with missing and repeated ones replaced by "p1", "p2"... that are not in `reserved`."""
    used = set(ids)
    seen = set[str]()
    if len(used) == len(ids) and "" not in used:
        yield from ids
        return
    used.update(reserved)
    fresh = (id_ for id_ in (f"{prefix}{number}" for number in count(1)) if id_ not in used)
    for id_ in ids:
        yield next(fresh) if not id_ or id_ in seen else id_
        seen.add(id_)


def write_passages(folder: Path, passages: Passages) -> None:
    """Write the passages into a new folder."""
    with pa.OSFile(str(folder / FILE), "wb") as file, pa.ipc.new_file(file, SCHEMA) as writer:
        writer.write_table(passages.table, max_chunksize=_BLOCK_ROWS)
    write_json(folder / _SEAL, {"fingerprint": passages.fingerprint, "file": _file_state(folder / FILE)})


def open_passages(folder: Path) -> Passages:
    """Map the passages of a folder into memory. Raises `OSError` or an Arrow error if they cannot be read."""
    path = folder / FILE
    if not path.exists():
        return Passages(pq.read_table(folder / _LEGACY_FILE, schema=SCHEMA))
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    seal = read_json(folder / _SEAL)
    if seal.get("file") == _file_state(path):  # size and time are unchanged
        return Passages(table, known=str(seal.get("fingerprint")))
    table.validate(full=True)  # a damaged file may point anywhere
    return Passages(table)


def _file_state(path: Path) -> list[Any]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


@dataclass
class Tally:
    """The number of rows with the same problem, and the distinct ids that they name."""

    rows: int = 0
    ids: dict[str, None] = field(default_factory=dict)

    def add(self, id_: str) -> None:
        self.rows += 1
        self.ids.setdefault(id_)

    def problems(self, code: ProblemCode) -> list[Problem]:
        counts = {"rows": self.rows, "ids": len(self.ids)}
        return [Problem.from_code(code, **counts, examples=_examples(self.ids, _ID_LENGTH))] if self.rows else []


def id_problems(code: ProblemCode, ids: Sequence[str]) -> tuple[Problem, ...]:
    """Return a problem with the number of ids and examples, none if there are no ids."""
    return (Problem.from_code(code, ids=len(ids), examples=_examples(ids, _ID_LENGTH)),) if ids else ()
