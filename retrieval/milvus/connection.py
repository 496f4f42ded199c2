"""A connection for as long as it is used: a file is one process's at a time, so it is opened, used and closed."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from data.workspace import workspace
from retrieval.milvus.place import MilvusError, Place

PATIENCE = {"retry_times": 8}  # of a call whose connection was lost: after 0.01, 0.03, ... 3 seconds, ten in all
_WAITS = (0.25, 0.5, 1.0, 2.0, 4.0)  # seconds before a connection is tried again
_SECONDS_TO_CONNECT = 5.0
_SECONDS_FOR_A_TURN = 60.0


@contextmanager
def connected(place: Place, collection: str) -> Iterator[Any]:
    """Yield a `MilvusClient`. In the workspace every collection is a file of its own, and others wait for their turn.

    Raises `MilvusError`: `milvus_unreachable`, `milvus_refused` (by its token), `milvus_busy` (another process has the
    file) or `milvus_failed`, also for what goes wrong while the client is used.
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
    """Serve a file on a free port of this machine alone; yields the address."""
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
    """Return what a `MilvusException` or an `RpcError` means; the client hides the latter behind the former."""
    from grpc import RpcError
    from pymilvus.client.types import Status

    cause = next((one for one in (error.__cause__, error) if isinstance(one, RpcError)), None)
    status = cause.code() if cause else error.code
    said = place.without_secrets(str(cause.details() if cause else error.message))
    name = getattr(status, "name", "")
    if name in ("UNAUTHENTICATED", "PERMISSION_DENIED") or "auth check failure" in said:
        message = f"Milvus at {place.shown} does not take the token of MILVUS_TOKEN: {said}"
        return MilvusError("milvus_refused", message, milvus=place.shown)
    if name in ("UNAVAILABLE", "DEADLINE_EXCEEDED") or status == Status.CONNECT_FAILED:
        message = f"Milvus at {place.shown} does not answer; is it running, and is MILVUS_URI right? {said}"
        return MilvusError("milvus_unreachable", message, milvus=place.shown)
    return MilvusError("milvus_failed", f"Milvus at {place.shown} failed: {said}", milvus=place.shown)
