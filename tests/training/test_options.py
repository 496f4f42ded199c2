"""Valid combinations of options."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from mrc_workbench.models.inference import Precision
from mrc_workbench.models.language.masking import MaskingOptions
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, DEFAULT_CROSS_ENCODER, STARTER
from mrc_workbench.training.base import trainer_arguments
from mrc_workbench.training.options import BestBy, NegativesFrom, OptionError
from mrc_workbench.training.ranker_options import (
    BiEncoderObjective,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
    LateOptions,
)
from mrc_workbench.training.recipes import RECIPES, ranking_kinds
from mrc_workbench.training.text_options import LanguageObjective, LanguageOptions

KINDS = pytest.mark.parametrize("options", [BiEncoderOptions, CrossEncoderOptions])


@KINDS
def test_every_option_has_help(options: type) -> None:
    for known in fields(options):
        assert len(known.metadata["help"]) > 8, known.name
        if not isinstance(known.default, str | bool):
            assert known.metadata["low"] is not None, known.name


@KINDS
def test_rejects_values_out_of_range(options: type) -> None:
    for known in fields(options):
        low = known.metadata["low"]
        high = known.metadata["high"]
        if low is not None:
            with pytest.raises(ValueError, match=f"^{known.name} must be .*not {low - 1}$"):
                options(**{known.name: low - 1})
        if high is not None:
            with pytest.raises(ValueError, match=f"^{known.name} must be between {low} and {high}, not {high + 1}$"):
                options(**{known.name: high + 1})


# options that another option requires
NEEDS: dict[str, dict[str, Any]] = {
    **{name: {"base": "folder"} for name in ("max_length", "frozen_layers", "lora_rank", "mini_batch_size")},
    "mix_loss_weight": {"base": "folder", "objective": "multiple-negatives", "shared_passages": True},
    "save_steps": {"evaluation_steps": 1},
    "rounds": {"objective": "multiple-negatives", "negatives": 1},
    "negatives_first": {"negatives_last": 1000},
}


@KINDS
def test_accepts_bounds(options: type) -> None:
    for known in fields(options):
        needs = NEEDS.get(known.name, {})
        if known.name == "negatives" and options is BiEncoderOptions:
            needs = {"objective": "multiple-negatives"}
        for bound in {known.metadata["low"], known.metadata["high"]} - {None}:
            assert getattr(options(**{**needs, known.name: bound}), known.name) == bound, known.name


@KINDS
def test_rejects_extra_weights_without_adapters(options: type) -> None:
    frozen_table = {"lora_rank": 4, "lora_full_weights": "norms-and-embeddings", "embedding_table": "frozen"}
    for settings, code in (({"lora_full_weights": "norms"}, "lora_full_weights"), (frozen_table, "lora_table")):
        with pytest.raises(OptionError) as refused:
            options(base="folder", **settings)
        assert (refused.value.option, refused.value.code) == ("lora_full_weights", code)
    trained = options(base="folder", lora_rank=4, lora_full_weights="norms", embedding_table="frozen")
    assert trained.lora_full_weights == "norms"


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (BiEncoderOptions, {"batch_size": 1}, "batch_size must be between 2 and 65536, not 1"),
        (BiEncoderOptions, {"save_steps": -1}, "save_steps must be 0 or more, not -1"),
        (CrossEncoderOptions, {"base": "  "}, "base must name a model"),
        (
            BiEncoderOptions,
            {"evaluation_steps": 50, "save_steps": 75},
            "save_steps must be a multiple of evaluation_steps",
        ),
        (CrossEncoderOptions, {"save_steps": 100}, "save_steps needs evaluation_steps"),
        (CrossEncoderOptions, {"objective": "margin-mse"}, "teacher must name a cross-encoder for margin-mse"),
    ],
)
def test_error_messages(kind: type, given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message) as refused:
        kind(**given)
    assert refused.value.option == message.split(maxsplit=1)[0]


@pytest.mark.parametrize("name", ["epochs", "learning_rate", "weight_decay", "warmup", "positive_margin"])
def test_rejects_nan(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be between .* not nan"):
        BiEncoderOptions(**{name: float("nan")})


SHARED: dict[str, Any] = {"base": "folder", "objective": "multiple-negatives", "shared_passages": True}
NEEDS_TRANSFORMER: dict[str, Any] = {"max_length": 8, "frozen_layers": 1, "lora_rank": 2, "mini_batch_size": 8}
NEEDS_TRANSFORMER |= {"precision": "bfloat16", "pooling": "cls"}
TRIPLET_IN_PARTS = {"base": "folder", "objective": "triplet", "negatives": 1, "mini_batch_size": 8}
NO_MIX: list[dict[str, Any]] = [{"shared_passages": False}, {"negatives": 2}, {"mini_batch_size": 8}]
_REFUSED: dict[type, list[tuple[dict[str, Any], str, str]]] = {
    BiEncoderOptions: [
        *(({name: value}, name, "starter") for name, value in NEEDS_TRANSFORMER.items()),
        ({"objective": "gist"}, "objective", "gist_starter"),
        ({"base": "folder", "objective": "gist", "guide": "starter"}, "guide", "gist_starter"),
        ({"objective": "triplet"}, "negatives", "triplet"),
        (TRIPLET_IN_PARTS, "mini_batch_size", "triplet"),
        ({"negatives": 1}, "negatives", "mega_batch"),
        ({"objective": "kl", "teacher": "starter"}, "negatives", "taught"),
        ({"objective": "margin-mse", "teacher": "starter"}, "negatives", "taught"),
        ({"objective": "kl", "negatives": 1}, "teacher", "teacher"),
        ({"objective": "multiple-negatives", "rounds": 2}, "rounds", "rounds"),
        ({"matryoshka": "256, wide"}, "matryoshka", "numbers"),
        ({"matryoshka": "0"}, "matryoshka", "numbers"),
        ({"base": " "}, "base", "empty"),
        ({"negatives_model": ""}, "negatives_model", "empty"),
        ({"negatives_first": 5, "negatives_last": 4}, "negatives_last", "ranks"),
        ({"base": "folder", "lora_rank": 2, "frozen_layers": 1}, "frozen_layers", "lora"),
        ({"evaluation_steps": 50, "save_steps": 75}, "save_steps", "save_steps"),
        ({"save_steps": 100}, "save_steps", "save_steps"),
        ({"batch_size": 1}, "batch_size", "range"),
        ({"objective": "guess"}, "objective", "range"),
        ({"best_by": "recall@7"}, "best_by", "range"),
        *((SHARED | {"mix_loss_weight": 0.5} | changes, "mix_loss_weight", "mix") for changes in NO_MIX),
    ],
    LateOptions: [
        ({"objective": "kl", "teacher": STARTER}, "negatives", "taught"),
        ({"objective": "kl", "negatives": 1, "teacher": " "}, "teacher", "teacher"),
    ],
    LanguageOptions: [
        ({"mask_fraction": 0.0}, "mask_fraction", "range"),
        ({"mask_token_fraction": 0.8, "random_token_fraction": 0.3}, "random_token_fraction", "shares"),
        ({"base": "some/model", "tokenizer": "folder"}, "tokenizer", "of_the_base"),
        ({"lora_rank": 4}, "lora_rank", "new_model"),
        ({"frozen_layers": 1}, "frozen_layers", "new_model"),
        ({"embedding_table": "frozen"}, "embedding_table", "new_model"),
        ({"whole_words": "sentences"}, "whole_words", "range"),
        ({"vocabulary": 10}, "vocabulary", "range"),
        ({"base": " "}, "base", "empty"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "given", "option", "code"), [(kind, *case) for kind, cases in _REFUSED.items() for case in cases]
)
def test_rejects_incompatible_options_with_code(kind: type, given: dict[str, Any], option: str, code: str) -> None:
    with pytest.raises(OptionError) as refused:
        kind(**given)
    assert (refused.value.option, refused.value.code) == (option, code)
    assert str(refused.value).startswith(f"{option} ")


@pytest.mark.parametrize(
    ("kind", "changes", "shares"),
    [
        *(
            (kind, changes, shares)
            for kind in (BiEncoderOptions, LateOptions)
            for changes, shares in (({}, True), ({"negatives": 1}, False), ({"shared_passages": False}, False))
        ),
        (BiEncoderOptions, {"mini_batch_size": 8}, False),
        (BiEncoderOptions, {"base": STARTER}, False),
        (BiEncoderOptions, {"objective": "gist"}, False),
        (LateOptions, {"objective": "kl", "negatives": 1, "teacher": "starter"}, False),
    ],
)
def test_shares_passages_only_for_compatible_options(kind: type, changes: dict[str, Any], shares: bool) -> None:
    assert kind(**SHARED | changes).shares_passages is shares


def test_accepts_options_valid_for_other_kinds() -> None:
    assert BiEncoderOptions(evaluation_steps=50, save_steps=100).save_steps == 100
    assert CrossEncoderOptions(objective=CrossEncoderObjective.MARGIN_MSE, teacher="starter").teacher == "starter"
    for name, value in {"mini_batch_size": 8, "max_length": 8, "frozen_layers": 1, "lora_rank": 2}.items():
        assert getattr(BiEncoderOptions(base="some/model", **{name: value}), name) == value


def test_converts_strings_to_enums() -> None:
    options = BiEncoderOptions(objective="multiple-negatives", best_by="mrr@10", negatives_from="hybrid")  # type: ignore[arg-type]
    assert options == BiEncoderOptions(
        objective=BiEncoderObjective.MULTIPLE_NEGATIVES, best_by=BestBy.MRR_10, negatives_from=NegativesFrom.HYBRID
    )
    assert isinstance(options.objective, BiEncoderObjective)


@pytest.mark.parametrize(("given", "sizes"), [("", []), ("64", [64]), ("64, 256 128,64", [256, 128, 64])])
def test_sorts_matryoshka_dimensions(given: str, sizes: list[int]) -> None:
    assert BiEncoderOptions(matryoshka=given).matryoshka_dimensions == sizes


def test_defaults_depend_on_base() -> None:
    starter = BiEncoderOptions.defaults_for()
    pretrained = BiEncoderOptions.defaults_for(DEFAULT_BI_ENCODER)
    assert (starter.base, pretrained.base) == (STARTER, DEFAULT_BI_ENCODER)
    assert starter == BiEncoderOptions.defaults_for(STARTER)
    # a vector table needs large steps, which would destroy a pretrained transformer (BERT: 2e-5)
    assert starter.learning_rate >= 10 * pretrained.learning_rate
    assert pretrained.learning_rate == 2e-5
    cross_starter = CrossEncoderOptions.defaults_for()
    cross_pretrained = CrossEncoderOptions.defaults_for(DEFAULT_CROSS_ENCODER)
    assert (cross_starter.base, cross_pretrained.base) == (STARTER, DEFAULT_CROSS_ENCODER)
    assert (cross_pretrained.epochs, cross_pretrained.batch_size, cross_pretrained.learning_rate) == (1, 16, 2e-5)


@pytest.mark.parametrize("kind", ranking_kinds())
@pytest.mark.parametrize("base", [STARTER, "an/other"])
def test_defaults_have_field_types(kind: str, base: str) -> None:
    defaults = RECIPES[kind].options.defaults_for(base)
    for known in fields(defaults):
        assert type(getattr(defaults, known.name)) is type(known.default), known.name


@pytest.mark.slow
@pytest.mark.parametrize(("warmup", "steps"), [(0.0, 0), (0.1, 10), (0.105, 11), (1.0, 100)])
def test_warm_up_is_a_fraction_of_steps(tmp_path: Path, warmup: float, steps: int) -> None:
    from sentence_transformers import SentenceTransformerTrainingArguments

    arguments = trainer_arguments(tmp_path, BiEncoderOptions(warmup=warmup), "batch_sampler")
    assert SentenceTransformerTrainingArguments(**arguments).get_warmup_steps(100) == steps


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "strategy", "evaluated", "saved"),
    [((0, 0), "epoch", None, 500), ((20, 0), "steps", 20, 20), ((20, 60), "steps", 20, 60)],
)
def test_evaluation_and_save_intervals(
    tmp_path: Path, given: tuple[int, int], strategy: str, evaluated: int | None, saved: int
) -> None:
    options = CrossEncoderOptions(evaluation_steps=given[0], save_steps=given[1])
    arguments = trainer_arguments(tmp_path, options, "batch_sampler")
    assert (arguments["eval_strategy"], arguments["save_strategy"]) == (strategy, strategy)
    assert (arguments["eval_steps"], arguments["save_steps"]) == (evaluated, saved)
    assert arguments["load_best_model_at_end"] is True

    assert arguments["metric_for_best_model"] == "eval_validation_ndcg@10"


@pytest.mark.slow
def test_uses_selected_precision(tmp_path: Path) -> None:
    def bf16(**options: Any) -> bool:
        return bool(trainer_arguments(tmp_path, BiEncoderOptions(**options), "batch_sampler")["bf16"])

    assert bf16(base="folder", precision=Precision.BFLOAT16)
    assert not bf16(base="folder", precision=Precision.FLOAT32)
    assert not bf16(precision=Precision.AUTO)  # a starter


def test_new_language_model_accepts_transformer_options() -> None:
    options = LanguageOptions(base=STARTER, max_length=64, gradient_checkpointing=True, precision="bfloat16")
    assert options.masking == MaskingOptions(0.15, 0.8, 0.1)
    assert not options.pairs
    assert LanguageOptions(objective=LanguageObjective.MLM_NSP).pairs
    assert LanguageOptions(base="some/model", lora_rank=4, embedding_table="frozen").lora_rank == 4


def test_continued_language_model_uses_lower_learning_rate() -> None:
    assert LanguageOptions.defaults_for("some/model").learning_rate < LanguageOptions.defaults_for().learning_rate
