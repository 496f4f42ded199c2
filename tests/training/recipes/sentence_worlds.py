"""Small sets of pairs, and tiny models that know their words."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mrc_workbench.data.pairs import PairKind, PairSet
from mrc_workbench.data.pairs.store import save_pairs
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.training.recipes import RECIPES
from mrc_workbench.training.runs import Run, TrainingPlan, create_run, new_plan
from mrc_workbench.training.text_options import SENTENCE_CROSS_ENCODER
from mrc_workbench.training.text_options import SENTENCES as KIND
from tests.tiny_models import SENTENCES, build_bi_encoder, build_cross_encoder_base

_MODELS = TemporaryDirectory()
WORDS = " ".join(SENTENCES).split()


def make_sentences(count: int, seed: int = 0, words: int = 4) -> list[str]:
    rng = np.random.default_rng(seed)
    distinct: dict[str, None] = {}
    while len(distinct) < count:
        distinct[" ".join(rng.permutation(WORDS)[:words])] = None
    return list(distinct)


def make_scored_pairs(rows: int = 60, seed: int = 0) -> PairSet:
    """Return pairs that share some of four words; the score from 0 to 5 is their fraction."""
    rng = np.random.default_rng(seed)
    first = make_sentences(rows, seed)
    same = rng.integers(0, 5, rows)
    second = []
    for sentence, count in zip(first, same.tolist(), strict=True):
        others = rng.permutation([word for word in WORDS if word not in sentence])[: 4 - count]
        second.append(" ".join([*sentence.split()[:count], *others]))
    return PairSet.from_columns("scored", PairKind.SCORED, [first, second], same * 1.25, scale=(0.0, 5.0))


def make_topic_pairs(rows: int = 120) -> PairSet:
    """Return pairs of six words, which are similar if their first words are equal."""
    rng = np.random.default_rng(0)
    topics = WORDS[:2]
    others = WORDS[2:]
    topic_rows = rng.integers(2, size=(rows, 2))
    sides = topic_rows.T.tolist()
    columns = [[" ".join([topics[row], *rng.permutation(others)[:5]]) for row in side] for side in sides]
    scores = 5.0 * (topic_rows[:, 0] == topic_rows[:, 1])
    return PairSet.from_columns("topics", PairKind.SCORED, columns, scores, scale=(0.0, 5.0))


def make_labelled_pairs(premises: int = 30) -> PairSet:
    """Each premise entails its beginning, contradicts its end, and is neutral to another sentence."""
    first = []
    second = []
    for premise in make_sentences(premises, 1):
        first += [premise] * 3
        second += [" ".join(premise.split()[:2]), f"{premise} {premise}", " ".join(premise.split()[2:])]
    return PairSet.from_columns("labelled", PairKind.LABELLED, [first, second], [0, 1, 2] * premises)


def reverse_words(sentences: list[str]) -> list[str]:
    return [" ".join(reversed(sentence.split())) for sentence in sentences]


def make_triplets(rows: int = 40) -> PairSet:
    first = make_sentences(rows, 2)
    return PairSet.from_columns("triplets", PairKind.TRIPLETS, [first, reverse_words(first), make_sentences(rows, 3)])


def make_parallel_pairs(rows: int = 40) -> PairSet:
    first = make_sentences(rows, 4)
    return PairSet.from_columns("parallel", PairKind.PARALLEL, [first, reverse_words(first)])


def make_single_sentences(rows: int = 40) -> PairSet:
    return PairSet.from_columns("alone", PairKind.SENTENCES, [make_sentences(rows, 5)])


SETS = {
    PairKind.SCORED: make_scored_pairs,
    PairKind.LABELLED: make_labelled_pairs,
    PairKind.TRIPLETS: make_triplets,
    PairKind.PARALLEL: make_parallel_pairs,
    PairKind.SENTENCES: make_single_sentences,
}


@cache
def tiny_bi_encoder() -> str:
    return str(build_bi_encoder(Path(_MODELS.name) / "bi-encoder"))


@cache
def tiny_base() -> str:
    return str(build_cross_encoder_base(Path(_MODELS.name) / "base"))


def make_plan(kind: str, pairs: PairSet, **options: Any) -> TrainingPlan:
    base = options.pop("base", tiny_base() if kind == SENTENCE_CROSS_ENCODER else tiny_bi_encoder())
    defaults = RECIPES[kind].options.defaults_for(base)
    objective = options.get("objective", defaults.objective)
    small = {"batch_size": 8, "epochs": 1.0, "logging_steps": 1, "learning_rate": 1e-3}
    plan_options = replace(defaults, **(RECIPES[kind].options.defaults_for_objective(objective) | small | options))
    data = (save_pairs(pairs).key, pairs.name, pairs.fingerprint)
    return new_plan(kind, "test", data, SplitOptions(0.2, 0.2), plan_options)


def create_pair_run(pairs: PairSet, kind: str = KIND, **options: Any) -> Run:
    return create_run(make_plan(kind, pairs, **options))
