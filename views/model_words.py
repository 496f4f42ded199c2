"""How a model is called on the pages."""

from models.hub import ModelError
from models.packaged.bases import PackagedBase, packaged_base
from models.sources import STARTER, find_model, is_starter
from training.runs.runs import find_model_run
from views.data_words import set_name
from views.words import moment, word, word_or

OTHER = "other"


def kind_name(kind: str) -> str:
    """Return the words for a kind of training, or its name where there are none."""
    return word_or(f"train.kind_{kind}", kind)


def is_a_starter(reference: str) -> bool:
    """Whether a model is a starter; one that is nowhere is none."""
    try:
        return is_starter(find_model(reference))
    except (ModelError, OSError, ValueError):
        return False


def model_label(choice: str) -> str:
    """Return the words for a model to choose from: a run with its data and time, since names may be given twice."""
    if run := find_model_run(choice):
        plan = run.plan()
        return word("train.base_run", name=plan.name, data=set_name(plan.data_name), created=moment(plan.created))
    if packaged := _packaged(choice):
        return word("train.base_packaged", model=packaged.name)
    words = {STARTER: "train.base_starter", OTHER: "train.base_other"}
    return word(words[choice]) if choice in words else word("train.base_hub", model=choice)


def base_name(reference: str) -> str:
    """Return the words for a base model: a finished run by its name, everything else as it is called."""
    if reference == STARTER:
        return word("train.starter")
    if packaged := _packaged(reference):
        return packaged.name
    run = find_model_run(reference)
    return run.plan().name if run else reference


def _packaged(reference: str) -> PackagedBase | None:
    try:
        return packaged_base(reference)
    except ModelError:
        return None
