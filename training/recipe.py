"""The kinds of training: a new one is a class like `Recipe`, in a file or folder of its own and a line in `RECIPES`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from models.sources import ModelSource
from retrieval.comparison.spec import Spec
from training.base import Family
from training.engine.task import Measurement, Task
from training.language.recipe import LanguageRecipe
from training.options.common import TrainingOptions
from training.options.language_model import LANGUAGE_MODEL
from training.options.questions import READER
from training.options.rankers import BI_ENCODER, CROSS_ENCODER, SPARSE_ENCODER
from training.options.sentences import SENTENCE_CROSS_ENCODER, SENTENCES
from training.rankers.bi_encoder import BiEncoderRecipe
from training.rankers.cross_encoder import CrossEncoderRecipe
from training.rankers.material import RANKERS
from training.rankers.sparse_encoder import SparseEncoderRecipe
from training.readers.recipe import ReaderRecipe
from training.sentences.cross_encoder import SentenceCrossEncoderRecipe
from training.sentences.encoder import SentenceRecipe


class Recipe(Protocol):
    """The class says what a kind of training is; an instance is one training, whose methods are called in turn.

    `loading` and `loading_a_starter` are lines that import and an expression that loads a model from `{folder}`.
    """

    family: Family
    options: type[TrainingOptions]
    base: str  # hub id that a page offers to start from, besides what the options offer
    measure: str  # what a finished training is told by
    colour: str  # of its curves
    does: str  # the words of a finished model's card
    hub_task: str
    loading: tuple[str, str]
    loading_a_starter: tuple[str, str]
    usage: str

    def __init__(self, options: TrainingOptions, material: Any) -> None: ...

    def measured(self, source: ModelSource) -> Measurement:
        """Measure a model on what judges it, and on a sample of what it learns from."""

    def task(self, source: ModelSource) -> Task:
        """Load the base, change it as told, and gather what its training needs. Raises `OptionError`."""

    def concluded(self, model_folder: Path) -> tuple[Mapping[str, Measurement], dict[str, Any]]:
        """Measure the finished model: measurements by name, `after` among them, and what else was found out."""

    def seconds_to_measure(self, model: Any) -> float:
        """Seconds that measuring this model once would take."""

    @staticmethod
    def retrievers(model: str, first: str, *, title: bool, named: Callable[[str], str]) -> list[Spec]:
        """Return what can be searched with a finished model; `first` is the name of BM25, `named` makes names."""


RECIPES: dict[str, type[Recipe]] = {
    BI_ENCODER: BiEncoderRecipe,
    CROSS_ENCODER: CrossEncoderRecipe,
    SPARSE_ENCODER: SparseEncoderRecipe,
    SENTENCES: SentenceRecipe,
    SENTENCE_CROSS_ENCODER: SentenceCrossEncoderRecipe,
    READER: ReaderRecipe,
    LANGUAGE_MODEL: LanguageRecipe,
}


def ranking_kinds() -> list[str]:
    """Return the kinds that learn from a question set, and whose models rank passages."""
    return [kind for kind, recipe in RECIPES.items() if recipe.family is RANKERS]


def kinds_alike(kind: str) -> tuple[str, ...]:
    """Return the kinds whose finished models do the same work."""
    alike = (BI_ENCODER, SENTENCES)
    return alike if kind in alike else (kind,)


def kinds_to_start_from(kind: str) -> tuple[str, ...]:
    """Return the kinds whose finished models a training of this kind can go on from."""
    # a reader's head is new on any transformer, and a language model is what all transformers began as
    others = (*kinds_alike(BI_ENCODER), LANGUAGE_MODEL) if kind == READER else (LANGUAGE_MODEL,)
    return tuple(dict.fromkeys((*kinds_alike(kind), *others)))


def usual_base(kind: str) -> str:
    """Return the base that a training of this kind starts from where nobody chooses."""
    return next(iter(recipe_of(kind).options.offered()), recipe_of(kind).base)


def recipe_of(kind: str) -> type[Recipe]:
    """Return the recipe of a kind. Raises `ValueError` where there is none."""
    if kind not in RECIPES:
        raise ValueError(f"there is no kind of training {kind!r}; there are {', '.join(RECIPES)}")
    return RECIPES[kind]
