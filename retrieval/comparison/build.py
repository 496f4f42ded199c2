"""An experiment's specifications made into retrievers that search."""

from collections.abc import Callable
from pathlib import Path

from data.records import QuestionSet
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.spec import CachedRetriever, Materials


def retrievers_of(
    experiment: Experiment,
    question_set: QuestionSet,
    base: Path | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> dict[str, CachedRetriever | Exception]:
    """Make the experiment's retrievers, by name, over the set's passages; nothing is built before it is searched.

    Imported runs answer the questions of the set, no others. Where a model cannot be found, or a part could not be
    made, the place holds the exception instead: the others go on. `on_progress` is told how much of its work, 0 to 1,
    the retriever has done that is at work.
    """
    materials = Materials(question_set, base, on_progress, experiment.depths)
    for spec in experiment.retriever:
        try:
            materials.made[spec.name] = spec.make(materials)
        except Exception as error:
            materials.made[spec.name] = error
    return materials.made
