"""Cached functions: comparisons, opened once for all sessions."""

import logging
from pathlib import Path

from retrieval.analysis.open_comparison import OpenComparison
from retrieval.comparison.compare import Comparison, compare, is_kept
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.labs import analyzers_for
from text.analyzers import Analyzer
from views.resources.cached import cached
from views.resources.sets import question_set

logger = logging.getLogger(__name__)


def open_comparison(key: str, folder: Path) -> OpenComparison | None:
    """Open the finished comparison in a folder; None where it cannot be read, or is not of the stored set `key`."""
    return _opened(key, str(folder), (folder / "scores.json").stat().st_mtime)


@cached(max_entries=8)
def _opened(key: str, folder: str, finished: float) -> OpenComparison | None:
    del finished  # only a part of the key: a comparison that ran again is another one
    try:
        return OpenComparison(Path(folder), question_set(key))
    except ValueError as error:
        logger.warning("a kept comparison cannot be opened: %s", error)
        return None


@cached(max_entries=8)
def finished_part(key: str, experiment: str) -> Comparison | None:
    """Return a comparison that is still going on, cut to what is done; None where rankings are gone."""
    wanted = Experiment.model_validate_json(experiment)
    return compare(wanted, question_set(key)) if is_kept(wanted, question_set(key)) else None


@cached(max_entries=8)
def analyzers_of(key: str) -> tuple[Analyzer, ...]:
    """Return the analyzers worth trying on a stored set."""
    return analyzers_for(question_set(key).passages.texts)
