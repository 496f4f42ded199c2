"""The search of this folder, asked from a program: the workbench's own, so it finds what was found there."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrc_workbench.data.passages import Passage, Passages
    from mrc_workbench.retrieval.comparison.spec import CachedRetriever

HERE = Path(__file__).resolve().parent


class PlainSearch:
    """Searches the folder's passages by its retriever, which is built with the first question."""

    def __init__(self, folder: Path = HERE) -> None:
        """Raise `ModuleNotFoundError` with advice if the workbench is missing."""
        self.folder = folder
        try:
            from mrc_workbench.data.terminal import quiet
        except ModuleNotFoundError as error:
            message = f"this folder needs the workbench: set PYTHONPATH to its folder ({error})"
            raise ModuleNotFoundError(message) from None
        quiet()  # before the libraries of models are imported

    def __call__(self, question: str, k: int = 10) -> "list[tuple[Passage, float]]":
        """Return the best k passages and their scores, best first, higher is better."""
        from mrc_workbench.retrieval.rankings import QueryHits

        retriever, passages = self._retriever_and_passages
        findings = QueryHits.from_rankings(retriever.search([question], k))
        return [(passages[row], score) for row, score in zip(findings.rows, findings.scores, strict=True)]

    @cached_property
    def _retriever_and_passages(self) -> "tuple[CachedRetriever, Passages]":
        from mrc_workbench.data.store import find
        from mrc_workbench.data.workspace import read_json
        from mrc_workbench.retrieval.comparison.compare import build_context
        from mrc_workbench.retrieval.comparison.experiment import read_experiment

        experiment = read_experiment(self.folder / "experiment.toml")
        question_set = find(experiment.data, self.folder)
        evaluated = experiment.evaluation_set(question_set)
        name = read_json(self.folder / "takeaway.json")["retriever"]
        cached_retriever = build_context(experiment, evaluated, self.folder, whole=question_set).retrievers[name]
        if isinstance(cached_retriever, Exception):
            raise cached_retriever
        return cached_retriever, evaluated.passages
