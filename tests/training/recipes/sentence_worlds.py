"""Sets of pairs whose training can be followed, and tiny models that know their words."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mrc_workbench.data.pairs import PairKind, PairSet
from mrc_workbench.data.pairs.store import keep
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.training.recipes import RECIPES
from mrc_workbench.training.runs import Plan, Run, create_run, new_plan
from mrc_workbench.training.text_options import SENTENCE_CROSS_ENCODER
from mrc_workbench.training.text_options import SENTENCES as KIND
from tests.tiny_models import SENTENCES, build_bi_encoder, build_cross_encoder_base

_MODELS = TemporaryDirectory()
WORDS = " ".join(SENTENCES).split()


def sentences(count: int, seed: int = 0, words: int = 4) -> list[str]:
    """Different sentences of words that the tiny models know."""
    rng = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[" ".join(rng.permutation(WORDS)[:words])] = None
    return list(found)


def scored(rows: int = 60, seed: int = 0) -> PairSet:
    """Pairs that share some words of four: the score from 0 to 5 says how many."""
    rng = np.random.default_rng(seed)
    first = sentences(rows, seed)
    same = rng.integers(0, 5, rows)
    second = [
        " ".join([*one.split()[:count], *rng.permutation([word for word in WORDS if word not in one])[: 4 - count]])
        for one, count in zip(first, same.tolist(), strict=True)
    ]
    return PairSet.of("scored", PairKind.SCORED, [first, second], same * 1.25, scale=(0.0, 5.0))


def by_topic(rows: int = 120) -> PairSet:
    """Pairs of six words: those with the same first word are alike, whatever the others are."""
    rng = np.random.default_rng(0)
    topics, others = WORDS[:2], WORDS[2:]
    of = rng.integers(2, size=(rows, 2))
    columns = [[" ".join([topics[one], *rng.permutation(others)[:5]]) for one in column] for column in of.T.tolist()]
    return PairSet.of("topics", PairKind.SCORED, columns, 5.0 * (of[:, 0] == of[:, 1]), scale=(0.0, 5.0))


def labelled(premises: int = 30) -> PairSet:
    """Each premise entails its beginning, contradicts its end, and says nothing of another sentence."""
    rows = [
        row
        for one in sentences(premises, 1)
        for row in ((one, " ".join(one.split()[:2])), (one, f"{one} {one}"), (one, " ".join(one.split()[2:])))
    ]
    columns = [list(column) for column in zip(*rows, strict=True)]
    return PairSet.of("labelled", PairKind.LABELLED, columns, [0, 1, 2] * premises)


def triplets(rows: int = 40) -> PairSet:
    first, others = sentences(rows, 2), sentences(rows, 3)
    columns = [first, [" ".join(reversed(one.split())) for one in first], others]
    return PairSet.of("triplets", PairKind.TRIPLETS, columns)


def parallel(rows: int = 40) -> PairSet:
    first = sentences(rows, 4)
    return PairSet.of("parallel", PairKind.PARALLEL, [first, [" ".join(reversed(one.split())) for one in first]])


def alone(rows: int = 40) -> PairSet:
    return PairSet.of("alone", PairKind.SENTENCES, [sentences(rows, 5)])


SETS = {
    PairKind.SCORED: scored,
    PairKind.LABELLED: labelled,
    PairKind.TRIPLETS: triplets,
    PairKind.PARALLEL: parallel,
    PairKind.SENTENCES: alone,
}


@cache
def tiny_bi_encoder() -> str:
    return str(build_bi_encoder(Path(_MODELS.name) / "bi-encoder"))


@cache
def tiny_base() -> str:
    """Of a cross-encoder: a masked language model."""
    return str(build_cross_encoder_base(Path(_MODELS.name) / "base"))


def planned(kind: str, pairs: PairSet, **options: Any) -> Plan:
    """A plan over a set that is kept, from a tiny model where no base is named."""
    base = options.pop("base", tiny_base() if kind == SENTENCE_CROSS_ENCODER else tiny_bi_encoder())
    made = RECIPES[kind].options.suited_to(base)
    objective = options.get("objective", made.objective)
    small = {"batch_size": 8, "epochs": 1.0, "logging_steps": 1, "learning_rate": 1e-3}
    chosen = replace(made, **(RECIPES[kind].options.settings_for(objective) | small | options))
    data = (keep(pairs).key, pairs.name, pairs.fingerprint)
    return new_plan(kind, "test", data, SplitOptions(0.2, 0.2), chosen)


def created(pairs: PairSet, kind: str = KIND, **options: Any) -> Run:
    return create_run(planned(kind, pairs, **options))
