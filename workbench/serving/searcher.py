"""Many questions at a time: what `mrc serve` opens, and requests that are searched in batches."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.workspace import project_version
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.references import find_experiment
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.searcher import Hit, Searcher, open_searchers


@dataclass(frozen=True)
class Opened:
    """Searchers by name, and what `GET /info` tells of them."""

    searchers: dict[str, Searcher]
    information: dict[str, Any]


def open_all(
    reference: str | Path, names: Sequence[str] = (), on_progress: Callable[[str, float], None] | None = None
) -> Opened:
    """Open retrievers as `open_searchers` does, with what identifies them: two servers on one index tell the same."""
    searchers = open_searchers(reference, names, on_progress)
    experiment, base = find_experiment(reference)
    passages = next(iter(searchers.values())).passages
    specs = {spec.name: spec for spec in experiment.retriever}
    retrievers = [
        {"name": name, "kind": specs[name].kind, "models": _models_of(experiment.needed([name]), base, passages)}
        for name in searchers
    ]
    information = {
        "version": project_version(),
        "data": _without_folders(experiment.data),
        "corpus_fingerprint": passages.fingerprint,
        "passages": len(passages),
        "experiment": _without_folders(experiment.model_dump(mode="json", exclude_none=True)),
        "retrievers": retrievers,
    }
    return Opened(searchers, information)


def _models_of(specs: Sequence[Spec], base: Path, passages: Passages) -> dict[str, str]:
    """Return the fingerprint of each model that retrievers use, by its reference; empty if it cannot be had."""
    models = {}
    for reference in (str(getattr(spec, "model", "")) for spec in specs):
        if reference:
            try:
                fingerprint = find_model(reference, base).fingerprint(passages.fingerprint)
            except ModelError:
                fingerprint = ""
            models[_without_folders(reference)] = fingerprint
    return models


def _without_folders(content: Any) -> Any:
    """Return JSON-able content whose absolute paths are their last names: clients need not know where files lie."""
    if isinstance(content, dict):
        return {name: _without_folders(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_without_folders(value) for value in content]
    return Path(content).name if isinstance(content, str) and Path(content).is_absolute() else content


@dataclass(frozen=True, eq=False)
class _Asked:
    questions: Sequence[str]
    k: int
    answer: "asyncio.Future[list[list[Hit]]]"


class Batches:
    """Searches questions that arrive together as one batch, in a thread.

    A batch is closed once it has `most` questions, or `seconds` after the first request since the previous batch. A
    request is never divided: one with more questions is a batch of its own. Neither results nor errors depend on the
    other requests of a batch.
    """

    def __init__(self, searcher: Searcher, thread: Executor, *, most: int, seconds: float) -> None:
        self._searcher, self._thread, self._most, self._seconds = searcher, thread, most, seconds
        self._waiting: deque[_Asked] = deque()
        self._somebody, self._enough = asyncio.Event(), asyncio.Event()
        self._began: float | None = None  # when the search of now began, of any batch

    async def search(self, questions: Sequence[str], k: int) -> list[list[Hit]]:
        """Return what `Searcher.search` does, and raise what it raises. Cancelled in time, it is not searched."""
        asked = _Asked(questions, k, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        self._note()
        return await asked.answer

    def searching_for(self) -> float:
        """Return for how many seconds the search of now has been running; 0 while none is."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    async def work(self) -> None:
        """Answer until cancelled."""
        while True:
            await self._somebody.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._enough.wait()
            if batch := self._take():
                loop = asyncio.get_running_loop()
                for request, result in await loop.run_in_executor(self._thread, self._search_waiting, batch):
                    if request.answer.done():  # the client has given up
                        continue
                    if isinstance(result, Exception):
                        request.answer.set_exception(result)
                    else:
                        request.answer.set_result(result)

    def _take(self) -> list[_Asked]:
        batch: list[_Asked] = []
        held = 0
        while self._waiting and (not batch or held + len(self._waiting[0].questions) <= self._most):
            asked = self._waiting.popleft()
            if not asked.answer.done():
                batch.append(asked)
                held += len(asked.questions)
        self._note()
        return batch

    def _note(self) -> None:
        held = sum(len(asked.questions) for asked in self._waiting)
        for event, is_set in ((self._somebody, held > 0), (self._enough, held >= self._most)):
            (event.set if is_set else event.clear)()

    def _search_waiting(self, batch: Sequence[_Asked]) -> list[tuple[_Asked, list[list[Hit]] | Exception]]:
        """Search a batch in the thread, without the requests that were given up while it waited for the thread."""
        self._began = time.monotonic()
        try:
            waiting = [asked for asked in batch if not asked.answer.done()]
            return list(zip(waiting, self._search(waiting), strict=True)) if waiting else []
        finally:
            self._began = None

    def _search(self, batch: Sequence[_Asked]) -> list[list[list[Hit]] | Exception]:
        try:
            questions = [text for asked in batch for text in asked.questions]
            hits = iter(self._searcher.search(questions, max(asked.k for asked in batch)))
        except Exception as error:
            return [error] if len(batch) == 1 else [self._search([asked])[0] for asked in batch]
        return [[next(hits)[: asked.k] for _ in asked.questions] for asked in batch]
