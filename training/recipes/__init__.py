"""The kinds of training; each is a `training.base.Recipe` in `RECIPES`."""

from typing import Any

from mrc_workbench.training.base import Recipe
from mrc_workbench.training.ranker_options import BI_ENCODER, LATE_INTERACTION
from mrc_workbench.training.recipes.rankers import BiEncoderRecipe, CrossEncoderRecipe, LateRecipe, SparseEncoderRecipe
from mrc_workbench.training.recipes.readers import ReaderRecipe
from mrc_workbench.training.recipes.texts import LanguageRecipe, SentenceCrossEncoderRecipe, SentenceRecipe
from mrc_workbench.training.recipes.training_data import RANKER_FAMILY
from mrc_workbench.training.text_options import LANGUAGE_MODEL, READER, SENTENCES

# in the order of pages and help
RECIPES: dict[str, type[Recipe[Any, Any]]] = {
    recipe.kind: recipe
    for recipe in (
        BiEncoderRecipe,
        CrossEncoderRecipe,
        LateRecipe,
        SparseEncoderRecipe,
        SentenceRecipe,
        SentenceCrossEncoderRecipe,
        ReaderRecipe,
        LanguageRecipe,
    )
}


def ranking_kinds() -> list[str]:
    """Return the kinds that learn from a question set and rank passages."""
    return [kind for kind, recipe in RECIPES.items() if recipe.family is RANKER_FAMILY]


def equivalent_kinds(kind: str) -> tuple[str, ...]:
    """Return the kinds with interchangeable models."""
    dense_encoders = (BI_ENCODER, SENTENCES)
    return dense_encoders if kind in dense_encoders else (kind,)


def compatible_base_kinds(kind: str) -> tuple[str, ...]:
    """Return the kinds with models that a training of this kind can start from."""
    # readers and late interaction can start from any transformer
    encoders = equivalent_kinds(BI_ENCODER) if kind in (READER, LATE_INTERACTION) else ()
    return tuple(dict.fromkeys((*equivalent_kinds(kind), *encoders, LANGUAGE_MODEL)))


def default_base(kind: str) -> str:
    """Return the default base of a kind."""
    return next(iter(get_recipe(kind).options.available_bases()), get_recipe(kind).base)


def get_recipe(kind: str) -> type[Recipe[Any, Any]]:
    """Return the recipe of a kind. Raises `ValueError` for an unknown kind."""
    if kind not in RECIPES:
        raise ValueError(f"there is no kind of training {kind!r}; there are {', '.join(RECIPES)}")
    return RECIPES[kind]
