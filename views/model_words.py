"""How a model is called on the pages."""

from models.hub import ModelError, downloaded_commits
from models.packaged.bases import PackagedBase, packaged_base
from models.sources import STARTER, find_model, is_starter
from training.options.language_model import LANGUAGE_MODEL
from training.runs.runs import find_model_run
from views.data_words import set_name
from views.ui.words import moment, word, word_or

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


def model_label(choice: str, kind: str = "") -> str:
    """Return the words for a model to choose from: a run with its data and time, since names may be given twice.

    `kind` is that of the training which is to start from it, as far as that matters.
    """
    if run := find_model_run(choice):
        plan = run.plan()
        return word("train.base_run", name=plan.name, data=set_name(plan.data_name), created=moment(plan.created))
    if packaged := _packaged(choice):
        return word("train.base_packaged", model=packaged.name)
    starter = "train.base_new" if kind == LANGUAGE_MODEL else "train.base_starter"
    words = {STARTER: starter, OTHER: "train.base_other"}
    return word(words[choice]) if choice in words else word("train.base_hub", model=choice)


def base_name(reference: str, kind: str = "") -> str:
    """Return the words for the base model of a kind of training: a finished run by its name, or as it is called."""
    if reference == STARTER:
        return word("train.new_model" if kind == LANGUAGE_MODEL else "train.starter")
    if packaged := _packaged(reference):
        return packaged.name
    run = find_model_run(reference)
    return run.plan().name if run else reference


def told_with_download(reference: str, name: str) -> str:
    """Return the name of a model, and that it is not on this machine yet where that is so. Not Markdown."""
    return word("model_words.to_download", model=name) if _is_elsewhere(reference) else name


def _is_elsewhere(reference: str) -> bool:
    try:
        hub_id = find_model(reference).hub_id
    except ModelError:
        return False
    return hub_id is not None and not downloaded_commits(hub_id)


def _packaged(reference: str) -> PackagedBase | None:
    try:
        return packaged_base(reference)
    except ModelError:
        return None
