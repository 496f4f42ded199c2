"""The way from a finished training to Compare: the trained model, its base and BM25 on test questions."""

from data.store import StoredSet
from retrieval.comparison.added import add
from retrieval.comparison.kinds.first_stage import DenseSpec
from retrieval.comparison.kinds.spec import Spec
from training.runs.runs import Plan
from views.choices import BM25_NAME, Choices, choices_for, free_name
from views.names import base_name
from views.navigation import open_page
from views.resources.sets import use_set
from views.ui.words import language


def compare_with_untrained(plan: Plan, data: StoredSet) -> None:
    """Open the comparison that tells what the training was worth, on the test questions of the set it learned from."""
    use_set(data.key)
    choices = choices_for(data)
    trained = next((name for name, known in choices.trained.items() if known == plan), None)
    before = _untrained(choices.specs[trained], plan, choices, data) if trained else None
    names = [name for name in (BM25_NAME, before, trained) if name]
    parameters = {"retrievers": "|".join(names), "baseline": before or BM25_NAME, "part": "test", "run": "now"}
    open_page("compare", data=data.key, **parameters, lang=language())


def _untrained(trained: Spec, plan: Plan, choices: Choices, data: StoredSet) -> str | None:
    """Return the name of what searches as the trained model does, with its base; a missing dense one is added.

    None for a base that cannot search before it was trained, such as a transformer without a reranker's head.
    """
    base, title = plan.options.base, getattr(trained, "title", True)
    for name, spec in choices.specs.items():
        if (spec.kind, getattr(spec, "model", None), getattr(spec, "title", True)) == (trained.kind, base, title):
            return name
    if not isinstance(trained, DenseSpec):
        return None
    short = base_name(base, plan.kind).replace("|", "/").rstrip("/").rsplit("/", maxsplit=1)[-1]
    added = DenseSpec(name=free_name(f"Dense · {short}", choices.specs), model=base, title=title, windows=True)
    add(data.fingerprint, added)
    return added.name
