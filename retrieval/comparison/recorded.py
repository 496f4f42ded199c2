"""Retrievers of a Python program, stored as imported runs: their results stay when the program has ended."""

import tempfile
from pathlib import Path

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.comparison.experiment import add_run
from mrc_workbench.retrieval.comparison.first_stage import Recorded, RunSpec
from mrc_workbench.retrieval.outside.adapt import Measured
from mrc_workbench.retrieval.trec import write_run

_NOTICED = ("unknown_passages", "unknown_example", "repeated", "rising_scores")


def store_measured(measured: Measured, whole: QuestionSet) -> RunSpec:
    """Add what was measured to the retrievers of a question set, under its name; returns the spec, its path absolute.

    `whole` is the set with all its questions, some of which were searched. Raises `LimitError` if there is no room.
    """
    noticed = {key: measured.notes[key] for key in _NOTICED if key in measured.notes}
    depth = measured.rankings.indices.shape[1]
    recorded = Recorded(seconds_per_query=measured.seconds_per_query, depth=depth, **noticed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.trec"
        write_run(path, measured.rankings, measured.question_set, measured.name)
        content = path.read_bytes()
    return add_run(whole, measured.name, content, measured.name, recorded)
