"""Loading a corpus: once, in batches, going on where it was interrupted.

As with files, what is not whole has another name: a collection is filled as `<name>_loading` and renamed when it is.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from retrieval.milvus.connection import PATIENCE
from retrieval.milvus.fields import Field

ROW = "row"  # the id of a passage: its row in the corpus
_BATCH = 256  # passages a request
_SECONDS_TO_INDEX = 600.0


def load(
    client: Any, name: str, fields: Sequence[Field], n_passages: int, tell: Callable[[float], None] | None = None
) -> None:
    """Fill the collection, unless it is whole. `tell` hears how much of it is loaded, 0 to 1.

    Two that fill one collection at once write the same rows; who is done second finds it whole.
    """
    from pymilvus.exceptions import MilvusException

    if client.has_collection(name, **PATIENCE):
        return
    under_way = f"{name}_loading"
    try:
        _fill(client, under_way, fields, n_passages, tell or (lambda _: None))
        client.rename_collection(under_way, name, **PATIENCE)
    except MilvusException:
        if not client.has_collection(name, **PATIENCE):
            raise


def _fill(client: Any, name: str, fields: Sequence[Field], n_passages: int, tell: Callable[[float], None]) -> None:
    if not client.has_collection(name, **PATIENCE):
        _create(client, name, fields)
    client.load_collection(name, **PATIENCE)
    # rows are written in order, so those there are the first
    for start in range(_count(client, name), n_passages, _BATCH):
        stop = min(start + _BATCH, n_passages)
        columns = [field.of_passages(start, stop) for field in fields]
        names = (ROW, *(field.name for field in fields))
        rows = [dict(zip(names, values, strict=True)) for values in zip(range(start, stop), *columns, strict=True)]
        client.upsert(name, rows, **PATIENCE)
        tell(stop / n_passages)
    client.flush(name, **PATIENCE)
    _wait_for_indexes(client, name, fields)


def _create(client: Any, name: str, fields: Sequence[Field]) -> None:
    from pymilvus import DataType

    schema, indexes = client.create_schema(auto_id=False, enable_dynamic_field=False), client.prepare_index_params()
    schema.add_field(ROW, DataType.INT64, is_primary=True)
    for field in fields:
        schema.add_field(**field.schema())
        indexes.add_index(**field.index())
    # strong: a search sees all that was written before it
    client.create_collection(name, schema=schema, index_params=indexes, consistency_level="Strong", **PATIENCE)


def _count(client: Any, name: str) -> int:
    (told,) = client.query(name, filter="", output_fields=["count(*)"], **PATIENCE)
    return int(told["count(*)"])


def _wait_for_indexes(client: Any, name: str, fields: Sequence[Field]) -> None:
    """Wait until a server has built its indexes, which it does by the way: times measured before would tell nothing."""
    until = time.monotonic() + _SECONDS_TO_INDEX
    while any(_pending(client, name, field) for field in fields) and time.monotonic() < until:
        time.sleep(0.5)


def _pending(client: Any, name: str, field: Field) -> int:
    """Return how many rows are not in the field's index yet; 0 where Milvus does not tell."""
    told = client.describe_index(name, field.name, **PATIENCE) or {}
    return int(told.get("pending_index_rows", 0))
