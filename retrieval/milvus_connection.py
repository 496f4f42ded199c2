"""The address of Milvus, short-lived connections, and loading of a corpus into a collection.

Milvus Lite allows a single process per file, so each use opens and closes it. A collection is filled as
`<name>_loading` in batches, resumes after an interruption, and is renamed when it is complete.
"""

import dataclasses
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

import numpy as np

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.workspace import workspace

FILES = "Milvus Lite"
RETRY_OPTIONS = {"retry_times": 8}  # of calls that lose the connection: after 0.01, 0.03, ... 3 seconds, 10 in total
_RETRY_DELAYS = (0.25, 0.5, 1.0, 2.0, 4.0)  # seconds
_SECONDS_TO_CONNECT = 5.0
_LOCK_TIMEOUT_SECONDS = 60.0
MAX_HITS = 16_384  # per question
Vectors = list[dict[int, float]] | list[list[float]]
Progress = Callable[[float], None]
ROW = "row"  # the id of a passage: its row in the corpus
_BATCH = 256  # passages per request
_SECONDS_TO_INDEX = 600.0


class MilvusError(Failure):
    """Milvus cannot be used; the detail `milvus` is its address. Messages never contain credentials."""


@dataclasses.dataclass(frozen=True)
class MilvusSettings:
    """A server's `address` (`http://host:port`) and `database`; without an address, files in the workspace."""

    address: str = ""
    database: str = ""
    token: str = dataclasses.field(default="", repr=False)

    @property
    def display_name(self) -> str:
        return "/".join(filter(None, (self.address, self.database))) or FILES

    def without_secrets(self, text: str) -> str:
        password = self.token.partition(":")[2]
        for secret in filter(None, (self.token, password)):
            for spelling in {secret, quote(secret), quote(secret, safe="")}:
                text = text.replace(spelling, "***")
        return text


def milvus_settings() -> MilvusSettings:
    """Return the server of `MILVUS_URI` and `MILVUS_TOKEN`, else the workspace's files. Raises `MilvusError`."""
    uri, token = (os.environ.get(name, "").strip() for name in ("MILVUS_URI", "MILVUS_TOKEN"))
    if not uri:
        return MilvusSettings()
    try:
        parts = urlsplit(uri)
        host = parts.hostname
        port = parts.port
    except ValueError:  # its message would contain the password
        host = None
    if not host or parts.scheme not in ("http", "https"):
        message = "MILVUS_URI must be the address of a Milvus server, such as http://127.0.0.1:19530"
        raise MilvusError("milvus_address", message, milvus="MILVUS_URI")
    host = f"[{host}]" if ":" in host else host
    address = f"{parts.scheme}://{host}:{port or (443 if parts.scheme == 'https' else 19530)}"
    credentials = ":".join(unquote(part) for part in (parts.username, parts.password) if part)
    return MilvusSettings(address, parts.path.strip("/").partition("/")[0], token or credentials)


def is_reachable(settings: MilvusSettings, seconds: float = 2.0) -> bool:
    """Whether the server's address accepts connections."""
    parts = urlsplit(settings.address)
    try:
        with socket.create_connection((str(parts.hostname), int(parts.port or 0)), seconds):
            return True
    except OSError:
        return False


@contextmanager
def open_client(settings: MilvusSettings, collection: str) -> Iterator[Any]:
    """Yield a `MilvusClient`; a local collection is a locked file. Raises `MilvusError`."""
    from grpc import RpcError
    from pymilvus.exceptions import MilvusException

    try:
        server = nullcontext(settings.address) if settings.address else _local_server(settings, collection)
        with server as address, closing(_client(address, settings)) as client:
            yield client
    except (MilvusException, RpcError) as error:
        raise _to_milvus_error(error, settings) from None  # their messages may contain credentials


@contextmanager
def _local_server(settings: MilvusSettings, collection: str) -> Iterator[str]:
    from filelock import FileLock, Timeout
    from milvus_lite.adapter.grpc.server import start_server_in_thread
    from milvus_lite.exceptions import DataDirLockedError

    folder = workspace() / "milvus"
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / f"{collection}.lock", timeout=_LOCK_TIMEOUT_SECONDS)
    try:
        lock.acquire()
        server, database, port = start_server_in_thread(str(folder / f"{collection}.db"), host="127.0.0.1")
    except (Timeout, DataDirLockedError) as error:
        lock.release()
        message = f"another process has {collection}.db open; try again when it is done"
        raise MilvusError("milvus_locked", message, milvus=settings.display_name) from error
    except BaseException:
        lock.release()
        raise
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(grace=2).wait()
        database.close()
        lock.release()


def _client(address: str, settings: MilvusSettings) -> Any:
    from pymilvus import MilvusClient
    from pymilvus.exceptions import MilvusException

    for wait in (*_RETRY_DELAYS, None):
        try:
            return MilvusClient(
                address,
                token=settings.token,
                db_name=settings.database,
                timeout=_SECONDS_TO_CONNECT,
                dedicated=True,  # shared clients stay open, also to a closed file
                # no proxy for this machine
                grpc_options={"grpc.enable_http_proxy": 0} if address.startswith("http://127.0.0.1:") else {},
            )
        except MilvusException as error:
            if wait is None or _to_milvus_error(error, settings).code != "milvus_unreachable":
                raise
            time.sleep(wait)
    raise AssertionError("the last try returns or raises")


def _to_milvus_error(error: Any, settings: MilvusSettings) -> MilvusError:
    from grpc import RpcError
    from pymilvus.client.types import Status

    cause = next((candidate for candidate in (error.__cause__, error) if isinstance(candidate, RpcError)), None)
    status = cause.code() if cause else error.code
    text = settings.without_secrets(str(cause.details() if cause else error.message))
    name = getattr(status, "name", "")
    code = "milvus_failed"
    problem = f"failed: {text}"
    if name in ("UNAUTHENTICATED", "PERMISSION_DENIED") or "auth check failure" in text:
        code = "milvus_refused"
        problem = f"does not take the token of MILVUS_TOKEN: {text}"
    elif name in ("UNAVAILABLE", "DEADLINE_EXCEEDED") or status == Status.CONNECT_FAILED:
        code = "milvus_unreachable"
        problem = f"does not answer; is it running, and is MILVUS_URI right? {text}"
    return MilvusError(code, f"Milvus at {settings.display_name} {problem}", milvus=settings.display_name)


class MilvusField(Protocol):
    """A vector of every passage; its inner product with a question's vector is the score."""

    name: str
    key: str  # changes with any vector of a passage, and with the index
    max_hits: int  # of a search
    search: dict[str, Any]  # parameters of a search in this index

    def schema(self) -> dict[str, Any]: ...  # arguments of `create_schema().add_field`

    def index(self) -> dict[str, Any]: ...  # arguments of `prepare_index_params().add_index`

    def passage_vectors(self, start: int, stop: int) -> Vectors: ...  # of rows of the corpus

    def question_vectors(self, questions: Sequence[str]) -> tuple[np.ndarray, Vectors]:
        """Return the rows of questions with known terms or vectors, and their vectors."""


def load(
    client: Any,
    name: str,
    fields: Sequence[MilvusField],
    n_passages: int,
    on_progress: Progress | None = None,
) -> None:
    """Fill the collection unless it is complete; concurrent processes write the same rows."""
    from pymilvus.exceptions import MilvusException

    if client.has_collection(name, **RETRY_OPTIONS):
        return
    loading_name = f"{name}_loading"
    try:
        _fill(client, loading_name, fields, n_passages, on_progress)
        client.rename_collection(loading_name, name, **RETRY_OPTIONS)
    except MilvusException:
        if not client.has_collection(name, **RETRY_OPTIONS):
            raise


def _fill(client: Any, name: str, fields: Sequence[MilvusField], n_passages: int, on_progress: Progress | None) -> None:
    from pymilvus import DataType
    from pymilvus.exceptions import MilvusException

    if not client.has_collection(name, **RETRY_OPTIONS):
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        indexes = client.prepare_index_params()
        schema.add_field(ROW, DataType.INT64, is_primary=True)
        for field in fields:
            schema.add_field(**field.schema())
            indexes.add_index(**field.index())
        try:  # strong: a search sees all earlier writes
            client.create_collection(
                name, schema=schema, index_params=indexes, consistency_level="Strong", **RETRY_OPTIONS
            )
        except MilvusException:
            if not _wait_for_collection(client, name):
                raise
    client.load_collection(name, **RETRY_OPTIONS)
    (row,) = client.query(name, filter="", output_fields=["count(*)"], **RETRY_OPTIONS)
    # rows are written in order: continue after the existing ones
    for start in range(int(row["count(*)"]), n_passages, _BATCH):
        stop = min(start + _BATCH, n_passages)
        columns = [field.passage_vectors(start, stop) for field in fields]
        names = (ROW, *(field.name for field in fields))
        rows = [dict(zip(names, values, strict=True)) for values in zip(range(start, stop), *columns, strict=True)]
        client.upsert(name, rows, **RETRY_OPTIONS)
        if on_progress:
            on_progress(stop / n_passages)
    client.flush(name, **RETRY_OPTIONS)
    # a server builds indexes in the background: wait, so that latencies are meaningful
    until = time.monotonic() + _SECONDS_TO_INDEX
    for field in fields:
        while int((client.describe_index(name, field.name, **RETRY_OPTIONS) or {}).get("pending_index_rows", 0)):
            if time.monotonic() > until:
                return
            time.sleep(0.5)


def _wait_for_collection(client: Any, name: str) -> bool:
    for wait in (0.0, *_RETRY_DELAYS):
        time.sleep(wait)
        if client.has_collection(name, **RETRY_OPTIONS):
            return True
    return False
