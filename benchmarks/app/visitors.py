"""Visitors of the app without a browser: each opens a page over the app's own socket and waits for all that is drawn.

So what they wait for is the server alone: the script's run, and sending what it draws.
"""

import asyncio
from contextlib import AsyncExitStack
from time import perf_counter

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

_PATIENCE = 60.0


def visits(address: str, page: str, query: str, count: int = 1) -> list[float]:
    """Open a page of the app ("data") with a query ("view=why") in so many new sessions, all at once.

    Returns for each the seconds until all of it is there. Raises `TimeoutError` after a minute.
    """
    return asyncio.run(_visits(address, page, query, count))


async def _visits(address: str, page: str, query: str, count: int) -> list[float]:
    socket = f"{address.replace('http', 'ws', 1)}/_stcore/stream"
    async with AsyncExitStack() as stack, asyncio.timeout(_PATIENCE):
        opened = [
            await stack.enter_async_context(connect(socket, subprotocols=[Subprotocol("streamlit")], max_size=None))
            for _ in range(count)
        ]
        return list(await asyncio.gather(*(_visit(one, page, query) for one in opened)))


async def _visit(connection: ClientConnection, page: str, query: str) -> float:
    asked = BackMsg()
    asked.rerun_script.query_string, asked.rerun_script.page_name = query, page
    asked.rerun_script.context_info.locale = "en-US"
    start = perf_counter()
    await connection.send(asked.SerializeToString())
    while not _is_end(await connection.recv()):
        pass
    return perf_counter() - start


def _is_end(content: str | bytes) -> bool:
    """Whether a message says that the script ran to its end: one that ended early is followed by another run."""
    told = ForwardMsg.FromString(content if isinstance(content, bytes) else content.encode())
    return (told.WhichOneof("type"), told.script_finished) == ("script_finished", ForwardMsg.FINISHED_SUCCESSFULLY)
