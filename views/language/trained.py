"""Language models that were trained here: their runs, what they went on from, and their models on the way."""

from collections.abc import Mapping
from pathlib import Path

from models.sources import STARTER
from training.engine.checkpoints import kept_models
from training.options.language_model import LANGUAGE_MODEL
from training.runs.runs import Run
from views.choices import finished_runs, model_place


def language_runs() -> Mapping[str, Run]:
    """Return the trainings of language models that ended well, by the reference of their model, the newest first."""
    return {model_place(run): run for run in finished_runs() if run.plan().kind == LANGUAGE_MODEL}


def base_of(model: str) -> str | None:
    """Return the model that a language model went on from; None where it began from nothing, or is no such run's."""
    run = language_runs().get(model)
    base = run.plan().options.base if run else STARTER
    return None if base == STARTER else base


def models_on_the_way(run: Run) -> Mapping[int, Path]:
    """Return the models that were kept, by step; none where there are too few for a curve."""
    found = kept_models(run.folder)
    return found if len(found) > 1 else {}
