"""Stored comparisons whose results would be others today, though the same experiment is asked of the same data."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.workspace import read_json


class _Provenance(BaseModel):
    """What a comparison was made of, as far as it is needed here: values of the retrievers, and as resolved by name."""

    class Asked(BaseModel):
        """The values of an experiment."""

        retriever: list[dict[str, Any]] = []

    experiment: Asked = Asked()
    retrievers: dict[str, dict[str, Any]] = {}
    languages_version: int | None = None


def knew_no_languages(folder: Path) -> bool:
    """Whether `auto` compared words or bigrams in the comparison of a folder, made before languages were detected.

    False if there is no such comparison, or if it cannot be read.
    """
    try:
        made = _Provenance.model_validate(read_json(folder / "provenance.json"))
    except ValidationError:
        return False
    if made.languages_version is not None:
        return False
    automatic = [spec.get("name") for spec in made.experiment.retriever if spec.get("analyzer") == Analyzer.AUTO]
    resolved = [retriever for name, retriever in made.retrievers.items() if name in automatic]
    return any(retriever.get("analyzer") in (Analyzer.WORD, Analyzer.BIGRAM) for retriever in resolved)
