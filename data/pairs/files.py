"""A set of pairs on disk: an Arrow file that is mapped into memory, and carries what its columns mean."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from data.pairs.records import PairKind, PairSet
from data.texts import Texts

FILE = "pairs.arrow"
_BLOCK_ROWS = 1 << 16
_MEANING, _PUBLISHED, _VALUE, _SENTENCE = b"pairs", "published", "value", "sentence{}"


def write_pairs(folder: Path, pairs: PairSet) -> None:
    """Write the pairs into a folder that is not in use yet."""
    columns = {_SENTENCE.format(place): texts.column for place, texts in enumerate(pairs.texts, start=1)}
    columns |= {_VALUE: pa.array(pairs.values)} if len(pairs.values) else {}
    table = pa.table(columns | {_PUBLISHED: pa.array(pairs.published)})
    meaning = json.dumps({"kind": pairs.kind, "scale": pairs.scale}).encode()
    table = table.replace_schema_metadata({_MEANING: meaning})
    with pa.OSFile(str(folder / FILE), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=_BLOCK_ROWS)


def open_pairs(folder: Path, name: str) -> PairSet:
    """Map the pairs of a folder into memory, under this name.

    Raises `OSError`, an Arrow error, or one of Python's where there are none to be read.
    """
    table = pa.ipc.open_file(pa.memory_map(str(folder / FILE))).read_all()
    table.validate(full=True)  # a damaged file may point anywhere
    meaning = json.loads(table.schema.metadata[_MEANING])
    kind = PairKind(meaning["kind"])
    values = table[_VALUE].to_numpy() if _VALUE in table.column_names else np.zeros(0, dtype=np.int8)
    texts = tuple(Texts(table[_SENTENCE.format(place)]) for place in range(1, kind.width + 1))
    return PairSet(name, kind, texts, values, table[_PUBLISHED].to_numpy(), tuple(meaning["scale"]))
