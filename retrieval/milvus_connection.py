"""Where Milvus is, connections that are open as long as they are used, and loading of a corpus into a collection.

Milvus Lite's file belongs to one process at a time, so it is opened, used and closed. A collection is filled as
`<name>_loading` in batches, continues where it was interrupted, and is renamed when it is complete.
"""

import dataclasses
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

import numpy as np

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.workspace import workspace

FILES = "Milvus Lite"
PATIENCE = {"retry_times": 8}  # of a call whose connection was lost: after 0.01, 0.03, ... 3 seconds, ten in all
_WAITS = (0.25, 0.5, 1.0, 2.0, 4.0)  # seconds before a connection is tried again
_SECONDS_TO_CONNECT = 5.0
_SECONDS_FOR_A_TURN = 60.0
MOST = 16_384  # hits that Milvus gives for a question
Vectors = list[dict[int, float]] | list[list[float]]
ROW = "row"  # the id of a passage: its row in the corpus
_BATCH = 256  # passages a request
_SECONDS_TO_INDEX = 600.0


class MilvusError(Failure):
    """Milvus cannot be used; the detail `milvus` is where. No message holds a user, a password or a token."""


@dataclasses.dataclass(frozen=True)
class Place:
    """A server's `address` (`http://host:port`) and `database`; without an address, files of the workspace."""

    address: str = ""
    database: str = ""
    token: str = dataclasses.field(default="", repr=False)

    @property
    def shown(self) -> str:
        return "/".join(filter(None, (self.address, self.database))) or FILES

    def without_secrets(self, text: str) -> str:
        password = self.token.partition(":")[2]
        for secret in filter(None, (self.token, password)):
            for spelled in {secret, quote(secret), quote(secret, safe="")}:
                text = text.replace(spelled, "***")
        return text


def place() -> Place:
    """Return the server of `MILVUS_URI` and `MILVUS_TOKEN`, else the workspace's files. Raises `MilvusError`."""
    uri, token = (os.environ.get(name, "").strip() for name in ("MILVUS_URI", "MILVUS_TOKEN"))
    if not uri:
        return Place()
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError:  # it repeats the address, and with it the password
        host = None
    if not host or parts.scheme not in ("http", "https"):
        message = "MILVUS_URI is no address of a Milvus server; one looks like http://127.0.0.1:19530"
        raise MilvusError("milvus_address", message, milvus="MILVUS_URI")
    host = f"[{host}]" if ":" in host else host
    address = f"{parts.scheme}://{host}:{port or (443 if parts.scheme == 'https' else 19530)}"
    given = ":".join(unquote(part) for part in (parts.username, parts.password) if part)
    return Place(address, parts.path.strip("/").partition("/")[0], token or given)


def is_reachable(place: Place, seconds: float = 2.0) -> bool:
    """Whether something accepts connections at a server's address: it is asked nothing."""
    parts = urlsplit(place.address)
    try:
        with socket.create_connection((str(parts.hostname), int(parts.port or 0)), seconds):
            return True
    except OSError:
        return False


@contextmanager
def connected(place: Place, collection: str) -> Iterator[Any]:
    """Yield a `MilvusClient`; a collection in the workspace is a file, whose users wait for their turn.

    Raises `MilvusError`: `milvus_unreachable`, `milvus_refused` (token), `milvus_busy` (file in use), `milvus_failed`.
    """
    from grpc import RpcError
    from pymilvus.exceptions import MilvusException

    try:
        if place.address:
            with closing(_client(place.address, place)) as client:
                yield client
        else:
            with _served(place, collection) as address, closing(_client(address, place)) as client:
                yield client
    except (MilvusException, RpcError) as error:
        raise _told(error, place) from None  # what they say may hold more than anybody should read


@contextmanager
def _served(place: Place, collection: str) -> Iterator[str]:
    from filelock import FileLock, Timeout
    from milvus_lite.adapter.grpc.server import start_server_in_thread
    from milvus_lite.exceptions import DataDirLockedError

    folder = workspace() / "milvus"
    folder.mkdir(parents=True, exist_ok=True)
    turn = FileLock(folder / f"{collection}.lock", timeout=_SECONDS_FOR_A_TURN)
    try:
        turn.acquire()
        server, database, port = start_server_in_thread(str(folder / f"{collection}.db"), host="127.0.0.1")
    except (Timeout, DataDirLockedError) as error:
        turn.release()
        message = f"another process has {collection}.db open; try again when it is done"
        raise MilvusError("milvus_busy", message, milvus=place.shown) from error
    except BaseException:
        turn.release()
        raise
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(grace=2).wait()
        database.close()
        turn.release()


def _client(address: str, place: Place) -> Any:
    from pymilvus import MilvusClient
    from pymilvus.exceptions import MilvusException

    for wait in (*_WAITS, None):
        try:
            return MilvusClient(
                address,
                token=place.token,
                db_name=place.database,
                timeout=_SECONDS_TO_CONNECT,
                dedicated=True,  # shared ones stay open, also to a file that is closed
                # a proxy of the system is not asked for what is on this machine
                grpc_options={"grpc.enable_http_proxy": 0} if address.startswith("http://127.0.0.1:") else {},
            )
        except MilvusException as error:
            if wait is None or _told(error, place).code != "milvus_unreachable":
                raise
            time.sleep(wait)
    raise AssertionError("the last try returns or raises")


def _told(error: Any, place: Place) -> MilvusError:
    """Return what a `MilvusException` means, or the `RpcError` that it hides."""
    from grpc import RpcError
    from pymilvus.client.types import Status

    cause = next((one for one in (error.__cause__, error) if isinstance(one, RpcError)), None)
    status = cause.code() if cause else error.code
    said = place.without_secrets(str(cause.details() if cause else error.message))
    name = getattr(status, "name", "")
    code, what = "milvus_failed", f"failed: {said}"
    if name in ("UNAUTHENTICATED", "PERMISSION_DENIED") or "auth check failure" in said:
        code, what = "milvus_refused", f"does not take the token of MILVUS_TOKEN: {said}"
    elif name in ("UNAVAILABLE", "DEADLINE_EXCEEDED") or status == Status.CONNECT_FAILED:
        code, what = "milvus_unreachable", f"does not answer; is it running, and is MILVUS_URI right? {said}"
    return MilvusError(code, f"Milvus at {place.shown} {what}", milvus=place.shown)


class Field(Protocol):
    """A vector of every passage, compared with a question's by inner product: higher is better."""

    name: str
    key: str  # changes whenever a vector of a passage would, or its index
    most: int  # passages that a search ever finds
    search: dict[str, Any]  # parameters of a search in this index

    def schema(self) -> dict[str, Any]: ...  # arguments of `create_schema().add_field`

    def index(self) -> dict[str, Any]: ...  # arguments of `prepare_index_params().add_index`

    def of_passages(self, start: int, stop: int) -> Vectors: ...  # of rows of the corpus

    def of_questions(self, questions: Sequence[str]) -> tuple[np.ndarray, Vectors]: ...  # rows of known ones, vectors


def load(
    client: Any, name: str, fields: Sequence[Field], n_passages: int, tell: Callable[[float], None] | None = None
) -> None:
    """Fill the collection, unless it is complete; two processes that do so at once write the same rows."""
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
    from pymilvus import DataType
    from pymilvus.exceptions import MilvusException

    if not client.has_collection(name, **PATIENCE):
        schema, indexes = client.create_schema(auto_id=False, enable_dynamic_field=False), client.prepare_index_params()
        schema.add_field(ROW, DataType.INT64, is_primary=True)
        for field in fields:
            schema.add_field(**field.schema())
            indexes.add_index(**field.index())
        try:  # strong: a search sees all that was written before it
            client.create_collection(name, schema=schema, index_params=indexes, consistency_level="Strong", **PATIENCE)
        except MilvusException:
            if not _appears(client, name):
                raise
    client.load_collection(name, **PATIENCE)
    (told,) = client.query(name, filter="", output_fields=["count(*)"], **PATIENCE)
    # rows are written in order, so those there are the first
    for start in range(int(told["count(*)"]), n_passages, _BATCH):
        stop = min(start + _BATCH, n_passages)
        columns = [field.of_passages(start, stop) for field in fields]
        names = (ROW, *(field.name for field in fields))
        rows = [dict(zip(names, values, strict=True)) for values in zip(range(start, stop), *columns, strict=True)]
        client.upsert(name, rows, **PATIENCE)
        tell(stop / n_passages)
    client.flush(name, **PATIENCE)
    # a server builds its indexes by the way: times measured before would tell nothing
    until = time.monotonic() + _SECONDS_TO_INDEX
    for field in fields:
        while int((client.describe_index(name, field.name, **PATIENCE) or {}).get("pending_index_rows", 0)):
            if time.monotonic() > until:
                return
            time.sleep(0.5)


def _appears(client: Any, name: str) -> bool:
    """Whether somebody else, who began at the same moment, makes the collection."""
    for wait in (0.0, *_WAITS):
        time.sleep(wait)
        if client.has_collection(name, **PATIENCE):
            return True
    return False
