"""The options with an effect by kind, base, objective and other values, and their translations."""

import re
from dataclasses import fields
from typing import Any

import pytest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.labs.reading.scores import ScoringRules
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, DEFAULT_READER, STARTER
from mrc_workbench.training.options import LoraFullWeights, NegativesFrom, Report
from mrc_workbench.training.ranker_options import (
    BI_ENCODER,
    CROSS_ENCODER,
    LATE_INTERACTION,
    SPARSE_ENCODER,
    BiEncoderObjective,
    BiEncoderOptions,
    BiEncoderPooling,
    CrossEncoderObjective,
    CrossEncoderOptions,
    LateObjective,
    SparseEncoderObjective,
)
from mrc_workbench.training.recipes import get_recipe
from mrc_workbench.training.results import Advice
from mrc_workbench.training.text_options import (
    READER,
    CrossSentenceObjective,
    ReaderBestBy,
    ReaderObjective,
    ReaderOptions,
    SentenceBestBy,
    SentenceCrossEncoderOptions,
    SentenceObjective,
    SentenceOptions,
    SentencePooling,
)
from mrc_workbench.workbench.views.train.base import affects_training, starting_values
from mrc_workbench.workbench.views.ui.words import catalog

MEGA_BATCH = BiEncoderObjective.MEGA_BATCH_MARGIN
MULTIPLE = BiEncoderObjective.MULTIPLE_NEGATIVES
GIST = BiEncoderObjective.GIST
TRIPLET = BiEncoderObjective.TRIPLET
KL = BiEncoderObjective.KL
MARGIN_MSE = CrossEncoderObjective.MARGIN_MSE
SPLADE = SparseEncoderObjective.SPLADE
SPAN = ReaderObjective.SPAN
OF_A_TRANSFORMER = {"max_length", "frozen_layers", "lora_rank", "precision", "attention_dropout", "embedding_table"}
OF_A_TRANSFORMER |= {"gradient_checkpointing", "windows", "lora_full_weights"}
NEVER_OF_A_STARTER = OF_A_TRANSFORMER | {"pooling", "mini_batch_size"}
SAMPLED = {"negatives_first", "negatives_last", "negatives_margin", "negatives_with_answer"}
NEGATIVES = SAMPLED | {"negatives", "negatives_from", "negatives_model", "rounds"}
OF_TEACHERS = {"teacher", "teacher_temperature", "teacher_bm25", "distillation_weight"}
OF_SHARED_PASSAGES = {"shared_passages", "mix_loss_weight"}
OF_OBJECTIVES = {"positive_margin", "negative_margin", "triplet_margin", "temperature", "guide"} | OF_TEACHERS
OF_OBJECTIVES |= OF_SHARED_PASSAGES
OTHER_OBJECTIVES = OF_OBJECTIVES - {"temperature"}
NO_NEGATIVES = NEGATIVES - {"negatives"}
NEVER_OF_TRIPLETS = {"mini_batch_size", "group_batches_by"} | OF_OBJECTIVES - {"triplet_margin"}
NEVER_OF_MEGA_BATCH = NEGATIVES | {"triplet_margin", "temperature", "guide"} | OF_TEACHERS | OF_SHARED_PASSAGES
NOT_OF_TEACHERS = {"negatives_model", "group_batches_by"} | OF_OBJECTIVES - OF_TEACHERS - {"temperature"}
NEVER_OF_A_READER = {"title", "evaluation_batch_size", "negatives_model"}
NEGATIVES_OF_A_READER = {"negatives", "negatives_from"}


def relevant_options(kind: str, base: str, objective: str, **entered: Any) -> set[str]:
    """Return the options of a kind that have an effect, without the base."""
    values = starting_values(kind, get_recipe(kind).options.defaults_for(base), objective) | entered
    known = {field.name for field in fields(get_recipe(kind).options)} - {"base"}
    return {name for name in known if affects_training(name, values, starter=base == STARTER)}


@pytest.mark.parametrize(
    ("kind", "base", "objective", "entered", "absent"),
    [
        (BI_ENCODER, STARTER, MEGA_BATCH, {}, NEVER_OF_A_STARTER | NEVER_OF_MEGA_BATCH),
        (BI_ENCODER, DEFAULT_BI_ENCODER, MEGA_BATCH, {}, NEVER_OF_MEGA_BATCH),
        (BI_ENCODER, DEFAULT_BI_ENCODER, MULTIPLE, {}, NO_NEGATIVES | OTHER_OBJECTIVES - OF_SHARED_PASSAGES),
        # hard negatives differ by question
        (BI_ENCODER, DEFAULT_BI_ENCODER, MULTIPLE, {"negatives": 2}, {"negatives_model"} | OTHER_OBJECTIVES),
        (BI_ENCODER, DEFAULT_BI_ENCODER, GIST, {}, NO_NEGATIVES | OTHER_OBJECTIVES - {"guide"}),
        (BI_ENCODER, DEFAULT_BI_ENCODER, TRIPLET, {}, NEVER_OF_TRIPLETS | {"negatives_model"}),
        (BI_ENCODER, DEFAULT_BI_ENCODER, KL, {}, NOT_OF_TEACHERS),
        (BI_ENCODER, DEFAULT_BI_ENCODER, MARGIN_MSE, {}, NOT_OF_TEACHERS),
        # the loss uses other passages of the batch too
        (BI_ENCODER, DEFAULT_BI_ENCODER, KL, {"distillation_weight": 0.5}, NOT_OF_TEACHERS - {"group_batches_by"}),
        # a model mines the negatives
        (BI_ENCODER, DEFAULT_BI_ENCODER, TRIPLET, {"negatives_from": "hybrid"}, NEVER_OF_TRIPLETS),
        *(
            (CROSS_ENCODER, STARTER, name, {}, OF_A_TRANSFORMER | {"negatives_model", "teacher"})
            for name in CrossEncoderObjective
            if name is not MARGIN_MSE
        ),
        (CROSS_ENCODER, STARTER, MARGIN_MSE, {}, OF_A_TRANSFORMER | {"negatives_model"}),
        (READER, DEFAULT_READER, SPAN, {}, NEVER_OF_A_READER),
        (
            READER,
            DEFAULT_READER,
            SPAN,
            {"negative_question_fraction": 0.0},
            NEVER_OF_A_READER | SAMPLED | NEGATIVES_OF_A_READER,
        ),
    ],
)
def test_relevant_options(kind: str, base: str, objective: str, entered: dict[str, Any], absent: set[str]) -> None:
    everything = {field.name for field in fields(get_recipe(kind).options)} - {"base"}
    assert relevant_options(kind, base, objective, **entered) == everything - absent


def test_late_interaction_shares_passages_only_without_negatives() -> None:
    multiple = LateObjective.MULTIPLE_NEGATIVES
    kl = LateObjective.KL
    assert "shared_passages" in relevant_options(LATE_INTERACTION, DEFAULT_BI_ENCODER, multiple)
    assert "shared_passages" not in relevant_options(LATE_INTERACTION, DEFAULT_BI_ENCODER, multiple, negatives=2)
    assert "shared_passages" not in relevant_options(LATE_INTERACTION, DEFAULT_BI_ENCODER, kl)


def test_hides_options_of_query_encoder_without_it() -> None:
    names = {"question_side", "question_regularizer", "passage_regularizer", "temperature", "mini_batch_size"}
    assert names <= relevant_options(SPARSE_ENCODER, "klue/roberta-base", SPLADE)
    own_terms = relevant_options(SPARSE_ENCODER, "klue/roberta-base", SPLADE, question_side="idf")
    assert names & own_terms == names - {"question_regularizer"}


@pytest.mark.parametrize("language", ["ko", "en"])
def test_translates_every_option_state_failure_and_advice(language: str) -> None:
    words = set(catalog(language))
    for options in (BiEncoderOptions, CrossEncoderOptions, SentenceOptions, SentenceCrossEncoderOptions, ReaderOptions):
        names = {known.name for known in fields(options)} - {"base", "objective"}
        assert {f"option{about}.{name}" for name in names for about in ("", "_help")} <= words
    of_sentences = (*SentenceObjective, *CrossSentenceObjective)
    for objective in (*BiEncoderObjective, *CrossEncoderObjective, *of_sentences, *ReaderObjective):
        assert {f"objective.{objective}", f"objective_does.{objective}"} <= words
    enums = {"pooling": SentencePooling, "negatives_from": NegativesFrom, "precision": Precision, "report_to": Report}
    enums |= {"lora_full_weights": LoraFullWeights, "best_by": SentenceBestBy}
    assert set(BiEncoderPooling) <= {choice.value for choice in SentencePooling}
    assert {f"choice.{name}_{choice}" for name, choices in enums.items() for choice in choices} <= words
    assert {f"choice.best_by_{choice}" for choice in ReaderBestBy} <= words
    assert {f"choice.normalization_{member}" for member in ScoringRules} <= words
    codes = "range empty save_steps ranks starter lora triplet mega_batch gist_starter numbers teacher taught rounds"
    codes += " model_not_found mix lora_full_weights lora_table starter_reader no_answers overlap"
    assert {f"option_problem.{code}" for code in codes.split()} <= words
    sources = "".join(path.read_text(encoding="utf-8") for path in (PROJECT / "training").rglob("*.py"))
    failures, pushes = (set(re.findall(rf'{name}\(\s*"([a-z_]+)"', sources)) for name in ("TrainingError", "PushError"))
    assert "too_few" in failures
    assert "unreachable" in pushes
    failures |= {"hub_unreachable", "hub_unknown", "model_not_found", "data", "memory", "disk", "interrupted"}
    failures |= {"unexpected", "option"}
    assert {f"failure.{code}" for code in failures} | {f"push.{code}" for code in pushes} <= words
    assert {f"state.{state.value}" for state in State} | {f"advice.{member}" for member in Advice} <= words
