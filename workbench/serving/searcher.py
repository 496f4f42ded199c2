"""A retriever of a kept comparison or of an experiment file, opened and asked: from Python, and many at a time.

    searcher = open_searcher("experiment.toml", "Hybrid")
    for hit in searcher.search(["자격루는 누가 만들었는가?"], k=10)[0]:
        print(hit.score, hit.id, hit.text)

What is found, and in which order, is what Compare shows of the same retriever. Nothing that is asked is written to the
disk.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from mrc_workbench.data.cache import keeping_nothing
from mrc_workbench.data.passages import Passages
from mrc_workbench.data.store import find
from mrc_workbench.models.hub import ModelError
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.comparison.compare import retrievers_of
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.references import find_experiment
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import origin_of
from mrc_workbench.retrieval.milvus.connection import is_reachable, place
from mrc_workbench.retrieval.rankings import Findings, Retriever


class Hit(NamedTuple):
    """A passage found: higher scores are better."""

    id: str
    title: str
    text: str
    score: float


@dataclass(frozen=True)
class Searcher:
    """A retriever, built, and the passages it finds; `reaches` tells whether the engine it searches in answers."""

    retriever: Retriever
    passages: Passages
    reaches: Callable[[], bool] | None = None

    @property
    def name(self) -> str:
        return self.retriever.name

    def search(self, questions: Sequence[str], k: int = 10) -> list[list[Hit]]:
        """Return the best k passages of each question, best first, fewer where no more are found.

        Not for several threads at once.
        """
        with keeping_nothing():
            rankings = self.retriever.search(list(questions), k)
        hits = []
        for found in (Findings.of(rankings, row) for row in range(len(questions))):
            scored = [(self.passages[row], score) for row, score in zip(found.rows, found.scores, strict=True)]
            hits.append([Hit(one.id, one.title, one.text, score) for one, score in scored])
        return hits


def open_searcher(
    reference: str | Path, name: str = "", on_progress: Callable[[str, float], None] | None = None
) -> Searcher:
    """Open one retriever, by its name where there are several. As `open_searchers` otherwise."""
    if not name and len(names := searchable(find_experiment(reference)[0])) > 1:
        raise ValueError(f"{reference} holds several retrievers, so name one: {', '.join(names)}")
    (searcher,) = open_searchers(reference, [name] if name else [], on_progress).values()
    return searcher


def open_searchers(
    reference: str | Path, names: Sequence[str] = (), on_progress: Callable[[str, float], None] | None = None
) -> dict[str, Searcher]:
    """Open retrievers of a kept comparison (its key) or of an experiment file, by name; all where none is named.

    They are built, or what was built before is opened, models are loaded and shared. `on_progress` is told the name of
    the one at work and how much of its work is done, 0 to 1. Raises `ValueError` where one is not there or knows only
    the questions it was made for, and what building it raises.
    """
    # BM25, model and index have threads of their own, which spin for a while after each of their turns; on cores that
    # are not theirs alone a question takes many times as long. Here they sleep, where nobody has said otherwise
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    experiment, base = find_experiment(reference)
    question_set, compared = find(experiment.data, base), origin_of(base).get("data", {}).get("corpus_fingerprint")
    if compared and compared != question_set.corpus_fingerprint:
        raise ValueError(f"the passages of {experiment.data!r} are others than those compared: compare them again")
    known = searchable(experiment)
    if missing := [name for name in names if name not in known]:
        raise ValueError(
            f"no retriever to be asked is called {missing[0]!r} in {reference}: there is {', '.join(known)}"
        )
    wanted, at_work = list(dict.fromkeys(names or known)), ""
    asked = experiment.asked(question_set)
    alone = experiment.model_copy(update={"retriever": tuple(experiment.needed(wanted))})

    def tell(share: float) -> None:
        if on_progress:
            on_progress(at_work, share)

    made = retrievers_of(alone, asked, base, tell, whole=question_set)
    opened = {}
    for at_work in wanted:
        tell(0.0)
        if isinstance(retriever := made[at_work], Exception):
            raise retriever
        retriever.prepare()
        in_milvus = any(spec.kind == "milvus" for spec in experiment.needed([at_work]))
        engine = place() if in_milvus else None
        reaches = partial(is_reachable, engine) if engine and engine.address else None
        opened[at_work] = Searcher(retriever, question_set.passages, reaches)
        some = [passage.text[:100] for passage in question_set.passages[:2]]
        opened[at_work].search(some, 1)  # what is loaded, or compiled, with the first question that finds something
    return opened


def searchable(experiment: Experiment) -> list[str]:
    """Return the names of the retrievers that answer any question: a run of elsewhere knows its own alone."""
    names = [spec.name for spec in experiment.retriever]
    return [name for name in names if all(spec.searchable for spec in experiment.needed([name]))]


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
        "version": _version(),
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


def _version() -> str:
    try:
        return version("mrc-workbench")
    except PackageNotFoundError:  # a checkout that nobody installed
        return "not installed"


@dataclass(frozen=True, eq=False)
class _Asked:
    questions: Sequence[str]
    k: int
    answer: "asyncio.Future[list[list[Hit]]]"


class Batches:
    """Questions that arrive together are searched together, in a thread: whoever waits for more is not kept waiting.

    A batch is closed once it has `most` questions, or `seconds` after the one before was answered and somebody asked.
    A request is never divided: one of more questions than that is a batch of its own. What each is answered does not
    depend on what is asked beside it, and neither does an error.
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
            if batch := self._taken():
                loop = asyncio.get_running_loop()
                for asked, found in zip(
                    batch, await loop.run_in_executor(self._thread, self._found, batch), strict=True
                ):
                    if asked.answer.done():  # whoever asked has given up
                        continue
                    if isinstance(found, Exception):
                        asked.answer.set_exception(found)
                    else:
                        asked.answer.set_result(found)

    def _taken(self) -> list[_Asked]:
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

    def _found(self, batch: Sequence[_Asked]) -> list[list[list[Hit]] | Exception]:
        """Search a batch in the thread. What was given up while it waited for the thread is left out."""
        self._began = time.monotonic()
        try:
            waited_for = [asked for asked in batch if not asked.answer.done()]
            found = iter(self._searched(waited_for) if waited_for else [])
            nobody: list[list[Hit]] = []
            return [nobody if asked not in waited_for else next(found) for asked in batch]
        finally:
            self._began = None

    def _searched(self, batch: Sequence[_Asked]) -> list[list[list[Hit]] | Exception]:
        try:
            questions = [text for asked in batch for text in asked.questions]
            hits = iter(self._searcher.search(questions, max(asked.k for asked in batch)))
        except Exception as error:
            return [error] if len(batch) == 1 else [self._searched([asked])[0] for asked in batch]
        return [[next(hits)[: asked.k] for _ in asked.questions] for asked in batch]
