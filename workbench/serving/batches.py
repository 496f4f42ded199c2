"""Questions of concurrent requests, searched together in a thread."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass

from mrc_workbench.retrieval.searcher import Searcher, SearchHit

Hits = list[list[SearchHit]]  # of each question


@dataclass(frozen=True, eq=False)
class _PendingSearch:
    questions: Sequence[str]
    k: int
    answer: "asyncio.Future[Hits]"


class Batches:
    """Searches questions that arrive together as one batch, in a thread.

    A batch starts when it has `max_questions`, or `seconds` after its first request. A request with more questions is a
    separate batch: requests are never divided. Neither results nor errors depend on the other requests of a batch.
    """

    def __init__(self, searcher: Searcher, thread: Executor, *, max_questions: int, seconds: float) -> None:
        self._searcher = searcher
        self._thread = thread
        self._max_questions = max_questions
        self._seconds = seconds
        self._waiting: deque[_PendingSearch] = deque()
        self._has_waiting = asyncio.Event()
        self._is_full = asyncio.Event()
        self.search_started: float | None = None  # start of the current search, in monotonic seconds

    async def search(self, questions: Sequence[str], k: int) -> Hits:
        """Search as `Searcher.search` does, with its errors. Batches skip cancelled requests."""
        request = _PendingSearch(questions, k, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        self._update_events()
        return await request.answer

    async def work(self) -> None:
        while True:
            await self._has_waiting.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._is_full.wait()
            if batch := self._take_batch():
                loop = asyncio.get_running_loop()
                for request, result in await loop.run_in_executor(self._thread, self._search_waiting, batch):
                    if request.answer.done():  # the client has disconnected
                        continue
                    if isinstance(result, Exception):
                        request.answer.set_exception(result)
                    else:
                        request.answer.set_result(result)

    def _take_batch(self) -> list[_PendingSearch]:
        batch: list[_PendingSearch] = []
        count = 0
        while self._waiting and (not batch or count + len(self._waiting[0].questions) <= self._max_questions):
            request = self._waiting.popleft()
            if not request.answer.done():
                batch.append(request)
                count += len(request.questions)
        self._update_events()
        return batch

    def _update_events(self) -> None:
        count = sum(len(request.questions) for request in self._waiting)
        for event, least in ((self._has_waiting, 1), (self._is_full, self._max_questions)):
            if count >= least:
                event.set()
            else:
                event.clear()

    def _search_waiting(self, batch: Sequence[_PendingSearch]) -> list[tuple[_PendingSearch, Hits | Exception]]:
        """Search a batch in the thread, without requests that were cancelled meanwhile."""
        self.search_started = time.monotonic()
        try:
            waiting = [request for request in batch if not request.answer.done()]
            return list(zip(waiting, self._search(waiting), strict=True)) if waiting else []
        finally:
            self.search_started = None

    def _search(self, batch: Sequence[_PendingSearch]) -> list[Hits | Exception]:
        try:
            questions = [text for request in batch for text in request.questions]
            hits = iter(self._searcher.search(questions, max(request.k for request in batch)))
        except Exception as error:
            return [error] if len(batch) == 1 else [self._search([request])[0] for request in batch]
        return [[next(hits)[: request.k] for _ in request.questions] for request in batch]
