"""Searches the passages of this folder with the workbench, so that results are those of the comparison."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

HERE = Path(__file__).resolve().parent


class PlainSearch:
    """The retriever of this folder; the first query builds its index."""

    def __init__(self, folder: Path = HERE) -> None:
        """Raise `ModuleNotFoundError` with advice if the workbench is missing."""
        try:
            import mrc_workbench
        except ModuleNotFoundError as error:
            message = f"this folder needs the workbench: set PYTHONPATH to its folder ({error})"
            raise ModuleNotFoundError(message) from None
        self._api = mrc_workbench
        self._dataset = mrc_workbench.load(folder / "questions.zip")
        self._experiment = folder / "experiment.toml"

    def __call__(self, query: str, k: int = 10) -> "pd.DataFrame":
        """Return the top k passages, best first: passage_id, title, text, and score (higher is better)."""
        return self._api.search(self._dataset, query, self._experiment, k, progress=False)
