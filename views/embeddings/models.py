"""The models that can be measured: those at hand, those trained here, and those that a person added."""

from collections.abc import Iterable
from dataclasses import dataclass

from data.pairs.store import StoredPairs
from data.split import Part, SplitOptions
from embeddings.encoder import added
from models.hub import ModelError
from models.sources import DEFAULT_BI_ENCODER, STARTER, default_model, find_model
from training.recipe import recipe_of
from training.runs.runs import Plan, Run
from views.choices import finished_runs, model_place
from views.names import base_name
from views.resources.pairs import parts_of

_BI_ENCODER = "sentence-similarity"  # what the hub calls the task of models that make one vector of a sentence
_PICKED_RUNS = 2
MOST = 20  # that one evaluation measures


@dataclass(frozen=True)
class Models:
    """Names by reference in a fixed order, what is picked before anybody chooses, those added, and the trained ones."""

    names: dict[str, str]
    first_picked: tuple[str, ...]
    added: tuple[str, ...]
    runs: dict[str, Run]


def models_at_hand() -> Models:
    """Return the base everything starts from, the starter, one of the hub, finished bi-encoders and what was added."""
    usual = list(dict.fromkeys((default_model(), STARTER)))
    runs = {model_place(run): run for run in reversed(finished_runs()) if _makes_vectors(run.plan())}
    others = tuple(added())
    references = dict.fromkeys([*usual, DEFAULT_BI_ENCODER, *runs, *others])
    names = dict(zip(references, _apart(base_name(one) for one in references), strict=True))
    return Models(names, (*usual, *[*runs][-_PICKED_RUNS:]), others, runs)


def problem_of(reference: str) -> ModelError | None:
    """Return what keeps a model from being measured, as far as that is known without loading it."""
    try:
        find_model(reference)
    except ModelError as error:
        return error
    return None


def has_seen(run: Run, data: StoredPairs, part: Part) -> bool:
    """Whether a training learned from pairs of this part, or may have: it drew the parts of the same set otherwise."""
    plan = run.plan()
    if plan.fingerprint != data.fingerprint:
        return False
    return part in (Part.ALL, Part.TRAIN) or (_drew_otherwise(plan) and not _is_published(data, part))


def _drew_otherwise(plan: Plan) -> bool:
    return plan.split != SplitOptions()


def _is_published(data: StoredPairs, part: Part) -> bool:
    from views.resources.pairs import pair_set

    return bool((pair_set(data.key).published[parts_of(data.key)[part]] >= 0).all())


def _makes_vectors(plan: Plan) -> bool:
    return recipe_of(plan.kind).hub_task == _BI_ENCODER


def _apart(names: Iterable[str]) -> list[str]:
    """The names, those that were given before with a number."""
    told: dict[str, None] = {}
    for name in names:
        numbered = (name, *(f"{name} ({number})" for number in range(2, len(told) + 3)))
        told[next(one for one in numbered if one not in told)] = None
    return [*told]
