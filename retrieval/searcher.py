"""Search with a retriever of a stored comparison or of an experiment file, from Python.

    searcher = open_searcher("experiment.toml", "Hybrid")
    for hit in searcher.search(["자격루는 누가 만들었는가?"], k=10)[0]:
        print(hit.score, hit.id, hit.text)

Hits and their order equal those of a comparison with the same retriever. Queries are never written to disk.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mrc_workbench.data.cache import without_caching
from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import find
from mrc_workbench.retrieval.comparison.compare import build_context
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import find_experiment, read_provenance
from mrc_workbench.retrieval.milvus_connection import is_reachable, milvus_settings
from mrc_workbench.retrieval.rankings import QueryHits, Retriever

Progress = Callable[[str, float], None]  # gets the name of a retriever and the fraction of its work


class SearchHit(NamedTuple):
    """A passage in the results; higher scores are better."""

    id: str
    title: str
    text: str
    score: float


@dataclass(frozen=True)
class Searcher:
    """A built retriever with its passages; `is_engine_reachable` checks an external search engine."""

    retriever: Retriever
    passages: Passages
    is_engine_reachable: Callable[[], bool] | None = None

    @property
    def name(self) -> str:
        return self.retriever.name

    def search(self, questions: Sequence[str], k: int = 10) -> list[list[SearchHit]]:
        with without_caching():
            rankings = self.retriever.search(list(questions), k)
        results = [QueryHits.from_rankings(rankings, question) for question in range(len(questions))]
        return [[self._hit(row, score) for row, score in zip(hits.rows, hits.scores, strict=True)] for hits in results]

    def _hit(self, row: int, score: float) -> SearchHit:
        passage = self.passages[row]
        return SearchHit(passage.id, passage.title, passage.text, score)


def open_searcher(reference: str | Path, name: str = "", on_progress: Progress | None = None) -> Searcher:
    """Open a single retriever; `name` selects one of several. See `open_searchers`."""
    if not name and len(names := searchable_retrievers(find_experiment(reference)[0])) > 1:
        raise ValueError(f"{reference} holds several retrievers; select one: {', '.join(names)}")
    (searcher,) = open_searchers(reference, [name] if name else [], on_progress).values()
    return searcher


def open_searchers(
    reference: str | Path, names: Sequence[str] = (), on_progress: Progress | None = None
) -> dict[str, Searcher]:
    """Open retrievers of a stored comparison (its key) or of an experiment file, by name; all without `names`.

    Models are shared. Raises `ValueError` if a retriever is missing or only replays an imported run, and the errors of
    building it.
    """
    # the threads of BM25, model and index spin after each task, which slows queries down on shared cores
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    experiment, base = find_experiment(reference)
    question_set = find(experiment.data, base)
    compared_fingerprint = read_provenance(base).get("data", {}).get("corpus_fingerprint")
    if compared_fingerprint and compared_fingerprint != question_set.corpus_fingerprint:
        raise ValueError(f"the passages of {experiment.data!r} changed since the comparison: compare them again")
    known = searchable_retrievers(experiment)
    if missing := [name for name in names if name not in known]:
        raise ValueError(f"{reference} has no searchable retriever {missing[0]!r}; available: {', '.join(known)}")
    return build_searchers(experiment, question_set, base, names, on_progress)


def build_searchers(
    experiment: Experiment,
    question_set: QuestionSet,
    base: Path | None = None,
    names: Sequence[str] = (),
    on_progress: Progress | None = None,
) -> dict[str, Searcher]:
    """Open searchable retrievers of an experiment over a dataset, by name, as `open_searchers` does."""
    selected = list(dict.fromkeys(names or searchable_retrievers(experiment)))
    sub_experiment = experiment.model_copy(update={"retriever": tuple(experiment.with_dependencies(selected))})
    name = ""

    def report_progress(fraction: float) -> None:
        if on_progress:
            on_progress(name, fraction)

    retrievers = build_context(
        sub_experiment, experiment.evaluation_set(question_set), base, report_progress, whole=question_set
    ).retrievers
    warmup_queries = [passage.text[:100] for passage in question_set.passages[:2]]
    searchers = {}
    for name in selected:
        report_progress(0.0)
        retriever = retrievers[name]
        if isinstance(retriever, Exception):
            raise retriever
        retriever.prepare()
        is_in_milvus = any(spec.kind == "milvus" for spec in experiment.with_dependencies([name]))
        milvus = milvus_settings() if is_in_milvus else None
        check_reachable = partial(is_reachable, milvus) if milvus and milvus.address else None
        searchers[name] = Searcher(retriever, question_set.passages, check_reachable)
        searchers[name].search(warmup_queries, 1)  # loads and compiles everything that a query needs
    return searchers


def searchable_retrievers(experiment: Experiment) -> list[str]:
    """Return the names of the retrievers that answer any question; an imported run answers only its own."""
    names = [spec.name for spec in experiment.retriever]
    return [name for name in names if all(spec.searchable for spec in experiment.with_dependencies([name]))]
