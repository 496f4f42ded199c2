"""Which options matter for a training: for its kind, its base and its objective. The others are not shown."""

from collections.abc import Mapping, Set
from dataclasses import asdict
from enum import StrEnum
from itertools import chain
from typing import Any

from mrc_workbench.data.pairs.records import PairKind
from mrc_workbench.training.options import NegativesFrom, TrainingOptions
from mrc_workbench.training.ranker_options import (
    BI_ENCODER,
    LATE_INTERACTION,
    TAUGHT,
    BiEncoderObjective,
    CrossEncoderObjective,
    LateObjective,
    QuestionSide,
    SparseEncoderObjective,
)
from mrc_workbench.training.recipes import ranking_kinds, recipe_of
from mrc_workbench.training.text_options import (
    CONTRASTED,
    FITTING,
    CrossSentenceObjective,
    LanguageObjective,
    ReaderObjective,
    SentenceObjective,
)

FIRST = ("epochs", "batch_size", "learning_rate")
NEEDED = ("guide", "teacher")  # without them the objective cannot do its work, so they are not folded away
NEGATIVES_SOURCE = ("negatives_share", "negatives", "negatives_from", "negatives_model", "rounds")
NEGATIVES_DRAWN = ("negatives_first", "negatives_last", "negatives_margin", "negatives_with_answer")
MORE = {
    "common": ("max_length", "pooling", "temperature", "patience", "lora_rank", "recompute", "title"),
    "learning": ("batches_of", "shared_passages", "mix_weight", "warmup", "weight_decay", "seed"),
    "loss": (
        *("positive_margin", "negative_margin", "triplet_margin"),
        *("teacher_temperature", "teacher_bm25", "distillation_weight"),
        *("question_regularizer", "passage_regularizer"),
        *("concatenation", "scale", "dropout", "deletion", "pairs_weight"),
    ),
    "model": (
        *("question_side", "dimensions", "overlap", "longest_answer", "windows"),
        *("frozen_layers", "lora_also", "matryoshka"),
    ),
    "memory": (
        *("mini_batch_size", "evaluation_batch_size", "precision"),
        *("attention_dropout", "embedding_table"),
    ),
    "measuring": (
        *("best_by", "rules", "judged_on", "depth"),
        *("evaluation_limit", "evaluation_steps", "logging_steps", "report_to"),
    ),
    "saving": ("save_steps", "save_minutes", "save_limit", "kept_models"),
}
# the others, such as those of an added kind, are drawn with those of the loss
LISTED = {"base", "objective", *FIRST, *NEEDED, *NEGATIVES_SOURCE, *NEGATIVES_DRAWN, *chain(*MORE.values())}
_NO_PART_OF_A_STARTER = {
    *("pooling", "max_length", "windows", "frozen_layers", "lora_rank", "lora_also"),
    *("shared_passages", "mix_weight"),
    *("recompute", "mini_batch_size", "precision", "attention_dropout", "embedding_table"),
}
_OF_LANGUAGE: set[StrEnum] = {*LanguageObjective}
_NO_PART_OF_A_NEW_MODEL = {"frozen_layers", "lora_rank", "lora_also", "embedding_table"}
# on what is entered there, other options depend
DECIDING = ("negatives_share", "negatives", "negatives_from", "distillation_weight", "question_side")
_KNOWN: set[StrEnum] = {
    *(*BiEncoderObjective, *CrossEncoderObjective, *SparseEncoderObjective, *LateObjective),
    *(*SentenceObjective, *CrossSentenceObjective, *ReaderObjective, *LanguageObjective),
}
_ALL_BUT_READERS = _KNOWN - {*ReaderObjective}
_ALL_BUT_TRIPLETS: set[StrEnum] = {*BiEncoderObjective, *SparseEncoderObjective} - {BiEncoderObjective.TRIPLET}
_ONLY_FOR: dict[str, Set[StrEnum]] = {
    "guide": {BiEncoderObjective.GIST},
    "teacher": {CrossEncoderObjective.MARGIN_MSE, *TAUGHT, SentenceObjective.DISTILLATION},
    "teacher_temperature": {*TAUGHT},
    "teacher_bm25": {*TAUGHT},
    "distillation_weight": {*TAUGHT},
    "positive_margin": {BiEncoderObjective.MEGA_BATCH_MARGIN},
    "negative_margin": {BiEncoderObjective.MEGA_BATCH_MARGIN},
    "triplet_margin": {BiEncoderObjective.TRIPLET, SentenceObjective.TRIPLET},
    "concatenation": {SentenceObjective.NLI_SOFTMAX},
    "scale": {SentenceObjective.COSENT},
    "dropout": {SentenceObjective.SIMCSE_UNSUPERVISED},
    "deletion": {SentenceObjective.TSDAE},
    "pairs_weight": {LanguageObjective.MLM_NSP},
    "batches_of": _ALL_BUT_TRIPLETS,
    "shared_passages": {BiEncoderObjective.MULTIPLE_NEGATIVES},
    "mix_weight": {BiEncoderObjective.MULTIPLE_NEGATIVES},
    "temperature": {
        *(BiEncoderObjective.MULTIPLE_NEGATIVES, BiEncoderObjective.GIST),
        *(SparseEncoderObjective.SPLADE, *TAUGHT, *CONTRASTED),
    },
    "mini_batch_size": _ALL_BUT_TRIPLETS,
    "title": _ALL_BUT_READERS,  # passages are read without
    "evaluation_batch_size": _ALL_BUT_READERS,  # as many as fit into a pass
}


def objectives(kind: str, *, starter: bool, pairs: PairKind | None = None) -> list[str]:
    """Return the objectives that a model of the kind can be trained for, with `pairs` those that learn from such.

    A starter has no tokenizer to be guided by.
    """
    every = type(recipe_of(kind).options.suited_to().objective)
    if pairs is not None:
        return [known.value for known in every if pairs in FITTING[known]]
    return [known.value for known in every if not (starter and known is BiEncoderObjective.GIST)]


def starting_values(kind: str, options: TrainingOptions, objective: str, *, as_trained: bool = False) -> dict[str, Any]:
    """Return what the fields of a training begin with: options that suit a base, fitted to an objective.

    Those of a finished training that is gone on with stay `as_trained`, its settings not those usual of the objective.
    """
    settings = {} if as_trained else options.settings_for(objective)
    values = asdict(options) | settings | {"objective": objective}
    if objective in TAUGHT:
        values["negatives"] = values["negatives"] or 4  # for the teacher to order
    for name, (low, high) in fitted(kind, objective).items():
        values[name] = min(max(values[name], low), high)
    return values


def matters(name: str, values: Mapping[str, Any], *, starter: bool) -> bool:
    """Whether an option changes anything in a training with these values, from a starter or a pretrained model."""
    if (name in NEGATIVES_SOURCE or name in NEGATIVES_DRAWN) and not _matters_of_negatives(name, values):
        return False
    if _is_overruled(name, values):
        return False
    new_model = values["objective"] in _OF_LANGUAGE  # a starter of those is a transformer
    if starter and name in (_NO_PART_OF_A_NEW_MODEL if new_model else _NO_PART_OF_A_STARTER):
        return False
    if values["objective"] not in _KNOWN:
        return True  # an added kind means its own by a name
    return name not in _ONLY_FOR or values["objective"] in _ONLY_FOR[name]


def _is_overruled(name: str, values: Mapping[str, Any]) -> bool:
    """Whether the value of another option leaves nothing for this one to change."""
    if name == "batches_of":  # a teacher says nothing of the batch's other passages
        return values["objective"] in TAUGHT and bool(values["distillation_weight"] == 1)
    if name == "question_regularizer":  # questions have their own terms, no more
        return bool(values["question_side"] == QuestionSide.IDF)
    # with hard negatives each question has passages of its own
    return name in ("shared_passages", "mix_weight") and values["negatives"] > 0


def _matters_of_negatives(name: str, values: Mapping[str, Any]) -> bool:
    if values["objective"] == BiEncoderObjective.MEGA_BATCH_MARGIN:
        return False  # it takes the hardest passages of the batch
    if name != "negatives_share" and values.get("negatives_share") == 0:
        return False
    if name == "negatives_model" and values["negatives_from"] == NegativesFrom.BM25:
        return False
    return bool(name == "negatives" or values["negatives"])


def fitted(kind: str, objective: str) -> dict[str, tuple[int, int]]:
    """Return the smallest and largest value that an objective leaves to options which it restricts."""
    if kind not in ranking_kinds():
        return {}
    if objective == BiEncoderObjective.MEGA_BATCH_MARGIN:
        return {"negatives": (0, 0)}
    if objective == BiEncoderObjective.TRIPLET:
        return {"negatives": (1, 20), "mini_batch_size": (0, 0)}
    if kind in (BI_ENCODER, LATE_INTERACTION) and objective in TAUGHT:
        return {"negatives": (1, 20)}
    return {}
