"""The way from models of sentences to what they find: as retrievers of the question set in use, on Compare."""

from collections.abc import Sequence
from pathlib import PurePath

import streamlit as st

from data.store import StoredSet
from models.sources import STARTER
from retrieval.comparison.experiment import add
from retrieval.comparison.first_stage import DenseSpec
from views.choices import BM25_NAME, Choices, choices_for, free_name
from views.embeddings.controls import Models
from views.names import set_name
from views.navigation import open_page
from views.resources.sets import chosen_set
from views.ui.words import plain, word

_LONGEST_NAME = 60


def draw(picked: Sequence[str], models: Models) -> None:
    """Draw the quiet button that opens Compare with these models, searched on the question set in use."""
    data = chosen_set()
    about = word("embeddings.to_compare_help", data=plain(set_name(data.name)))
    if st.button(
        word("embeddings.to_compare"),
        type="tertiary",
        icon=":material/arrow_forward:",
        icon_position="right",
        help=about if data.questions else word("embeddings.no_questions"),
        disabled=not data.questions,
        key="to_compare",
    ):
        names = [BM25_NAME, *retriever_names(picked, models, data)]
        open_page("compare", data=data.key, retrievers="|".join(names))


def retriever_names(picked: Sequence[str], models: Models, data: StoredSet) -> list[str]:
    """Return what Compare calls the dense retrievers of these models; one that it has not is added to the set."""
    names = []
    for reference in picked:
        choices = choices_for(data)
        known = dense_names(choices).get(reference)
        if known is None:
            known = _free_name(models.names[reference], choices)
            add(data.fingerprint, DenseSpec(name=known, model=reference, windows=reference != STARTER))
        names.append(known)
    return names


def dense_names(choices: Choices) -> dict[str, str]:
    """Names of the retrievers that search with one bi-encoder alone, by its reference."""
    specs = reversed([spec for spec in choices.specs.values() if isinstance(spec, DenseSpec)])
    return {spec.model: spec.name for spec in specs}


def _free_name(model: str, choices: Choices) -> str:
    """Return a name that is not taken; a bar separates names in the address."""
    short = (PurePath(model).name or model).replace("|", "/")[:_LONGEST_NAME]
    return free_name(f"{word('kind_short.dense')} · {short}", choices.specs)
