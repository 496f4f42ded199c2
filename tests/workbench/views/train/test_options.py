"""Options with an effect and their translations; the training form for sentence pairs, readers and language models."""

import re
from dataclasses import fields, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.pairs import PairKind, PairSet
from mrc_workbench.data.pairs.store import StoredPairs, save_pairs
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.text.corpora import save_text
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.labs.reading.scores import ScoringRules
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.language.masking import Size
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, DEFAULT_READER, STARTER
from mrc_workbench.training import ranker_options, text_options
from mrc_workbench.training.options import LoraFullWeights, NegativesFrom, Report
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderObjective, CrossEncoderObjective
from mrc_workbench.training.recipes import compatible_base_kinds, default_base, get_recipe
from mrc_workbench.training.results import Advice
from mrc_workbench.training.runs import Run
from mrc_workbench.training.text_options import LANGUAGE_MODEL, READER, SENTENCES, ReaderOptions, SentenceObjective
from mrc_workbench.workbench.views.train.base import affects_training, base_choices, starting_values
from mrc_workbench.workbench.views.ui.words import catalog
from tests.workbench.views.driving import opened, run
from tests.workbench.views.train import worlds
from tests.workbench.views.train.worlds import EN, button, enter, field, field_names, page, press, texts, unopened

MEGA_BATCH = BiEncoderObjective.MEGA_BATCH_MARGIN
MULTIPLE = BiEncoderObjective.MULTIPLE_NEGATIVES
GIST = BiEncoderObjective.GIST
TRIPLET = BiEncoderObjective.TRIPLET
KL = BiEncoderObjective.KL
MARGIN_MSE = CrossEncoderObjective.MARGIN_MSE
SPLADE = ranker_options.SparseEncoderObjective.SPLADE
SPAN = text_options.ReaderObjective.SPAN
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
            (ranker_options.CROSS_ENCODER, STARTER, name, {}, OF_A_TRANSFORMER | {"negatives_model", "teacher"})
            for name in CrossEncoderObjective
            if name is not MARGIN_MSE
        ),
        (ranker_options.CROSS_ENCODER, STARTER, MARGIN_MSE, {}, OF_A_TRANSFORMER | {"negatives_model"}),
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
    multiple = ranker_options.LateObjective.MULTIPLE_NEGATIVES
    kl = ranker_options.LateObjective.KL
    assert "shared_passages" in relevant_options(ranker_options.LATE_INTERACTION, DEFAULT_BI_ENCODER, multiple)
    assert "shared_passages" not in relevant_options(
        ranker_options.LATE_INTERACTION, DEFAULT_BI_ENCODER, multiple, negatives=2
    )
    assert "shared_passages" not in relevant_options(ranker_options.LATE_INTERACTION, DEFAULT_BI_ENCODER, kl)


def test_hides_options_of_query_encoder_without_it() -> None:
    names = {"question_side", "question_regularizer", "passage_regularizer", "temperature", "mini_batch_size"}
    assert names <= relevant_options(ranker_options.SPARSE_ENCODER, "klue/roberta-base", SPLADE)
    own_terms = relevant_options(ranker_options.SPARSE_ENCODER, "klue/roberta-base", SPLADE, question_side="idf")
    assert names & own_terms == names - {"question_regularizer"}


@pytest.mark.parametrize("language", ["ko", "en"])
def test_translates_every_option_state_failure_and_advice(language: str) -> None:
    words = set(catalog(language))
    of_text = (text_options.SentenceOptions, text_options.SentenceCrossEncoderOptions, ReaderOptions)
    for options in (ranker_options.BiEncoderOptions, ranker_options.CrossEncoderOptions, *of_text):
        names = {known.name for known in fields(options)} - {"base", "objective"}
        assert {f"option{about}.{name}" for name in names for about in ("", "_help")} <= words
    of_sentences = (*SentenceObjective, *text_options.CrossSentenceObjective)
    for objective in (*BiEncoderObjective, *CrossEncoderObjective, *of_sentences, *text_options.ReaderObjective):
        assert {f"objective.{objective}", f"objective_does.{objective}"} <= words
    enums = {"negatives_from": NegativesFrom, "precision": Precision, "report_to": Report}
    enums |= {"lora_full_weights": LoraFullWeights, "pooling": text_options.SentencePooling}
    enums |= {"best_by": text_options.SentenceBestBy}
    assert set(ranker_options.BiEncoderPooling) <= {choice.value for choice in text_options.SentencePooling}
    assert {f"choice.{name}_{choice}" for name, choices in enums.items() for choice in choices} <= words
    assert {f"choice.best_by_{choice}" for choice in text_options.ReaderBestBy} <= words
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


NEVER_OF_A_READER = {"base", "title", "evaluation_batch_size", "negatives_model"}
ROWS = 30
FIRST, SECOND = ([f"{word} {row}" for row in range(ROWS)] for word in ("sentence", "another"))


def pair_page() -> None:
    import streamlit as st

    from mrc_workbench.workbench.views.train.base import pick_base, pick_objective
    from mrc_workbench.workbench.views.train.page import draw_form, pick_pairs

    kind = st.query_params["train"]
    data = pick_pairs()
    base = pick_base(kind)
    draw_form(kind, base, pick_objective(kind, base, data), data)


def scored() -> StoredPairs:
    scores = [row % 6 for row in range(ROWS)]
    return save_pairs(PairSet.from_columns("likeness", PairKind.SCORED, [FIRST, SECOND], scores, scale=(0, 5)))


def labelled() -> StoredPairs:
    labels = [row % 3 for row in range(ROWS)]
    return save_pairs(PairSet.from_columns("inference", PairKind.LABELLED, [FIRST, SECOND], labels))


def reader_questions(*answers: str) -> QuestionSet:
    """Return a question about each of twenty passages, with these answers."""
    passages = tuple(Passage(f"p{number}", f"topic{number} here") for number in range(20))
    questions = (Question(f"q{number}", f"Where is topic{number}?", answers, (f"p{number}",)) for number in range(20))
    return QuestionSet("topics", passages, tuple(questions))


@pytest.fixture
def language_app(data: StoredSet) -> AppTest:
    return unopened(worlds.form_page, train=LANGUAGE_MODEL, base=STARTER, data=data.key)


@pytest.fixture
def pair_app(folder: Path) -> AppTest:
    return unopened(pair_page, train=SENTENCES, base=str(folder))


@pytest.fixture
def answered() -> StoredSet:
    return save_question_set(reader_questions("here"))


@pytest.fixture
def reader_app(answered: StoredSet, folder: Path) -> AppTest:
    return unopened(worlds.form_page, train=READER, base=str(folder), data=answered.key)


def test_offers_new_language_model_with_its_own_labels(language_app: AppTest) -> None:
    run(language_app)
    assert not language_app.error
    assert EN["train.base_new"] in next(box for box in language_app.selectbox if box.key == "base_en").options
    assert EN["train.about_new_model"] in texts(language_app)
    prefix = f"train_{LANGUAGE_MODEL}_"
    widget_by_name = {str(item.key).removeprefix(prefix): item for item in worlds.widgets(language_app)}
    own = {"size", "tokenizer_kind", "vocabulary", "mask_fraction", "mask_token_fraction", "random_token_fraction"}
    own |= {"whole_words", "max_length", "precision", "gradient_checkpointing", "attention_dropout"}
    assert not {"frozen_layers", "lora_rank", "embedding_table"} & widget_by_name.keys()
    assert own <= widget_by_name.keys() & {item.name for item in fields(text_options.LanguageOptions)}
    for name in own:
        assert widget_by_name[name].label == EN[f"option.{name}"]
        of_kind = f"option_help.{name}_{LANGUAGE_MODEL}"
        assert widget_by_name[name].help.startswith(EN[of_kind if of_kind in EN else f"option_help.{name}"])
    choices = [EN[f"choice.whole_words_{item}"] for item in ("off", "spaces", "morphemes")]
    assert widget_by_name["whole_words"].options == choices


def test_started_training_finds_its_text(language_app: AppTest, data: StoredSet, submitted: list[Run]) -> None:
    press(enter(run(language_app), LANGUAGE_MODEL, size="tiny"), "start")
    (plan,) = (submission.plan() for submission in submitted)
    assert (plan.kind, plan.data, plan.name) == (LANGUAGE_MODEL, data.key, "Language model 1")
    assert plan.options.size is Size.TINY
    assert get_recipe(plan.kind).family.find(plan.data).fingerprint == plan.fingerprint


def test_trains_on_stored_text(submitted: list[Run]) -> None:
    text = save_text(BytesIO("배가 고프다\n배를 탔다\n".encode()), "*낱말*")
    app = opened(page, train=LANGUAGE_MODEL, base=STARTER, corpus=text.reference)
    assert "on the text of **\\*낱말\\***" in texts(app)
    press(app, "start")
    (plan,) = (submission.plan() for submission in submitted)
    assert (plan.data, plan.data_name, plan.fingerprint) == (text.reference, "*낱말*", text.fingerprint)
    assert get_recipe(plan.kind).family.find(plan.data).fingerprint == plan.fingerprint


def test_other_kinds_offer_no_text(data: StoredSet) -> None:
    text = save_text(BytesIO(b"one\n"), "one")
    app = opened(page, train="bi-encoder", base=STARTER, corpus=text.reference, data=data.key)
    assert not [box for box in app.selectbox if str(box.key).startswith("corpus_")]


def test_trains_on_scored_pairs_with_entered_values(pair_app: AppTest, submitted: list[Run]) -> None:
    pairs_set = scored()
    run(pair_app)
    assert not pair_app.error
    assert field(pair_app, "objective", SENTENCES).value == SentenceObjective.COSENT
    assert {"scale", "pooling", "evaluation_set"} <= field_names(pair_app, SENTENCES)
    assert not {"concatenation", "deletion", "negatives", "title", "temperature"} & field_names(pair_app, SENTENCES)
    worlds.click(enter(pair_app, SENTENCES, scale=10.0), "train_start")
    (started,) = submitted
    plan = started.plan()
    assert (plan.kind, plan.data, plan.data_name, plan.fingerprint) == (
        SENTENCES, pairs_set.key, "likeness", pairs_set.fingerprint,
    )  # fmt: skip
    assert isinstance(plan.options, text_options.SentenceOptions)
    assert (plan.options.objective, plan.options.scale) == (SentenceObjective.COSENT, 10.0)


def test_offers_objectives_for_labelled_pairs_with_published_settings(pair_app: AppTest) -> None:
    labelled()
    run(pair_app)
    objective = field(pair_app, "objective", SENTENCES)
    assert objective.value == SentenceObjective.SIMCSE_SUPERVISED
    offered = [SentenceObjective.NLI_SOFTMAX, SentenceObjective.TRIPLET, SentenceObjective.SIMCSE_UNSUPERVISED]
    offered += [SentenceObjective.SIMCSE_SUPERVISED, SentenceObjective.TSDAE]
    assert objective.options == [EN[f"objective.{objective_name}"] for objective_name in offered]
    assert field(pair_app, "batch_size", SENTENCES).value == 128
    enter(pair_app, SENTENCES, objective=SentenceObjective.NLI_SOFTMAX.value)
    assert "concatenation" in field_names(pair_app, SENTENCES)
    assert "temperature" not in field_names(pair_app, SENTENCES)


def test_evaluates_unscored_pairs_on_another_set(pair_app: AppTest, submitted: list[Run]) -> None:
    judge = scored()
    save_pairs(PairSet.from_columns("plain", PairKind.SENTENCES, [FIRST]))
    run(pair_app)
    assert field(pair_app, "objective", SENTENCES).value == SentenceObjective.SIMCSE_UNSUPERVISED
    worlds.click(enter(pair_app, SENTENCES, evaluation_set=judge.key), "train_start")
    assert submitted[0].plan().options.evaluation_set == judge.key  # type: ignore[attr-defined]


def test_cross_encoder_of_sentences_offers_no_triplets(pair_app: AppTest) -> None:
    third = [f"third {row}" for row in range(ROWS)]
    save_pairs(PairSet.from_columns("three", PairKind.TRIPLETS, [FIRST, SECOND, third]))
    pair_app.query_params["train"] = text_options.SENTENCE_CROSS_ENCODER
    run(pair_app)
    assert [info.value for info in pair_app.info] == [EN["train.no_objective"]]


def test_draws_labelled_field_for_every_option_of_a_reader(reader_app: AppTest) -> None:
    run(reader_app)
    assert not reader_app.error
    assert worlds.field_names(reader_app, READER) == {known.name for known in fields(ReaderOptions)} - NEVER_OF_A_READER
    assert field(reader_app, "best_by", READER).options == ["Exact match (EM)", "F1"]
    assert field(reader_app, "normalization", READER).options == ["KorQuAD 1.0", "SQuAD", "KLUE-MRC"]
    assert field(reader_app, "objective", READER).options == [EN["objective.span"]]
    assert EN["objective_does.span"] in texts(reader_app)
    assert field(reader_app, "max_length", READER).help.startswith(EN["option_help.max_length_reader"])
    assert field(reader_app, "negatives", READER).help.startswith(EN["option_help.negatives_reader"])
    assert EN["settings.find"] not in texts(reader_app)


def test_starts_training_of_a_reader_with_entered_values(
    reader_app: AppTest, answered: StoredSet, submitted: list[Run], folder: Path
) -> None:
    values = {"normalization": "klue", "best_by": "em", "max_length": 64, "overlap": 16, "validation": 0.2}
    entered_app = enter(run(reader_app), READER, **values)
    press(entered_app, "start")
    (started,) = submitted
    plan = started.plan()
    assert (plan.kind, plan.data, plan.fingerprint) == (READER, answered.key, answered.fingerprint)
    best_by = text_options.ReaderBestBy.EXACT
    entered = {"normalization": ScoringRules.KLUE, "best_by": best_by, "max_length": 64, "overlap": 16}
    assert plan.options == replace(ReaderOptions.defaults_for(str(folder)), **entered)


def test_reader_rejects_overlapping_windows_missing_answers_and_starter(reader_app: AppTest) -> None:
    enter(run(reader_app), READER, max_length=64)
    assert EN["option_problem.overlap"] in [error.value for error in reader_app.error]
    assert button(reader_app, "start").disabled
    reader_app.query_params["data"] = save_question_set(reader_questions()).key
    enter(reader_app, READER, max_length=384)
    problem = EN["option_problem.no_answers"]
    assert [error.value for error in reader_app.error] == [f"**{EN['option.data']}**: {problem}"]
    assert button(reader_app, "start").disabled
    assert worlds.base_box(worlds.with_base(reader_app, STARTER)).value == default_base(READER)


def test_reader_starts_from_transformer_models() -> None:
    started = worlds.trained_run(BI_ENCODER, "of a starter")
    worlds.with_module(started, "mrc_workbench.models.starter.AnalyzedEmbedding")
    fitting = [worlds.trained_run(kind, kind).id for kind in (READER, BI_ENCODER, SENTENCES, LANGUAGE_MODEL)]
    worlds.trained_run(ranker_options.CROSS_ENCODER, "reranks")
    assert compatible_base_kinds(READER) == (READER, BI_ENCODER, SENTENCES, LANGUAGE_MODEL)
    assert READER not in compatible_base_kinds(BI_ENCODER)
    choices = base_choices(READER)
    assert choices[-4:] == fitting
    assert DEFAULT_READER in choices
    assert STARTER not in choices
    assert started.id not in base_choices(SENTENCES)
    assert started.id in base_choices(BI_ENCODER)


@pytest.mark.usefixtures("at_the_hub")
def test_reader_accepts_bi_encoder_base_and_continues_settings(reader_app: AppTest) -> None:
    encoder = worlds.trained_run(BI_ENCODER, "an encoder", epochs=7.0)
    reader = worlds.trained_run(READER, "a reader", epochs=2.0, max_length=256)
    reader_app.query_params["base"] = encoder.id
    assert (field(run(reader_app), "epochs", READER).value, field(reader_app, "max_length", READER).value) == (3.0, 384)
    worlds.base_box(reader_app).set_value(reader.id)
    assert (field(run(reader_app), "epochs", READER).value, field(reader_app, "max_length", READER).value) == (2.0, 256)


def test_describes_result_of_training_a_reader(answered: StoredSet) -> None:
    test = run(unopened(worlds.page, train=READER, data=answered.key))
    assert EN["train.get_reader"].format(data=answered.name) in [text.value for text in test.markdown]
