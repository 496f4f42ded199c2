from dataclasses import fields

import pytest

from retrieval.models import DEFAULT_BI_ENCODER, DEFAULT_CROSS_ENCODER, STARTER
from training.arguments import trainer_arguments
from training.options import BiEncoderOptions, CrossEncoderOptions, Kind, default_options
from training.runs import Run

KINDS = pytest.mark.parametrize("options", [BiEncoderOptions, CrossEncoderOptions])


@KINDS
def test_every_option_says_what_it_is(options: type) -> None:
    for known in fields(options):
        assert len(known.metadata["help"]) > 8, known.name
        if known.name != "title" and not isinstance(known.default, str):
            assert known.metadata["low"] is not None, known.name


@KINDS
def test_every_bound_is_kept(options: type) -> None:
    for known in fields(options):
        low, high = known.metadata["low"], known.metadata["high"]
        if low is not None:
            with pytest.raises(ValueError, match=f"^{known.name} must be .*not {low - 1}$"):
                options(**{known.name: low - 1})
        if high is not None:
            with pytest.raises(ValueError, match=f"^{known.name} must be between {low} and {high}, not {high + 1}$"):
                options(**{known.name: high + 1})


@KINDS
def test_bounds_themselves_are_allowed(options: type) -> None:
    for known in fields(options):
        bounds = {known.metadata["low"], known.metadata["high"]} - {None}
        if known.name != "save_steps":
            needed = {"base": "folder"} if known.name == "mini_batch_size" else {}
            assert all(getattr(options(**needed, **{known.name: b}), known.name) == b for b in bounds), known.name


def test_messages() -> None:
    with pytest.raises(ValueError, match="batch_size must be between 2 and 65536, not 1"):
        BiEncoderOptions(batch_size=1)
    with pytest.raises(ValueError, match="save_steps must be 0 or more, not -1"):
        BiEncoderOptions(save_steps=-1)
    with pytest.raises(ValueError, match="base must name a model"):
        CrossEncoderOptions(base="  ")


@pytest.mark.parametrize("name", ["epochs", "learning_rate", "weight_decay", "warmup", "positive_margin"])
def test_a_value_that_is_not_a_number_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be between .* not nan"):
        BiEncoderOptions(**{name: float("nan")})


def test_checkpoints_are_measured_ones() -> None:
    assert BiEncoderOptions(evaluation_steps=50, save_steps=100).save_steps == 100
    with pytest.raises(ValueError, match="save_steps must be a multiple of evaluation_steps"):
        BiEncoderOptions(evaluation_steps=50, save_steps=75)
    with pytest.raises(ValueError, match="save_steps needs evaluation_steps"):
        CrossEncoderOptions(save_steps=100)


def test_a_starter_takes_whole_batches() -> None:
    with pytest.raises(ValueError, match="mini_batch_size must be 0 for the starter"):
        BiEncoderOptions(base=STARTER, mini_batch_size=8)
    assert BiEncoderOptions(base="some/model", mini_batch_size=8).mini_batch_size == 8


def test_defaults_suit_the_base() -> None:
    starter, pretrained = default_options(Kind.BI_ENCODER), default_options(Kind.BI_ENCODER, DEFAULT_BI_ENCODER)
    assert (starter.base, pretrained.base) == (STARTER, DEFAULT_BI_ENCODER)
    assert starter == default_options(Kind.BI_ENCODER, STARTER)
    # a table of vectors moves only by large steps, which would wreck a pretrained transformer (2e-5 is BERT's own)
    assert starter.learning_rate >= 10 * pretrained.learning_rate
    assert pretrained.learning_rate == 2e-5
    cross_starter = default_options(Kind.CROSS_ENCODER)
    cross_pretrained = default_options(Kind.CROSS_ENCODER, DEFAULT_CROSS_ENCODER)
    assert (cross_starter.base, cross_pretrained.base) == (STARTER, DEFAULT_CROSS_ENCODER)
    assert (cross_pretrained.epochs, cross_pretrained.batch_size, cross_pretrained.learning_rate) == (1, 16, 2e-5)


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("base", [STARTER, "an/other"])
def test_a_default_is_of_its_field_s_type(kind: Kind, base: str) -> None:
    chosen = default_options(kind, base)
    for known in fields(chosen):
        assert type(getattr(chosen, known.name)) is type(known.default), known.name


@pytest.mark.parametrize(("warmup", "steps"), [(0.0, 0), (0.1, 10), (0.105, 11), (1.0, 100)])
def test_warm_up_is_a_share_of_the_steps(run: Run, warmup: float, steps: int) -> None:
    from sentence_transformers import SentenceTransformerTrainingArguments

    arguments = trainer_arguments(run, BiEncoderOptions(warmup=warmup), "ndcg@10")
    assert SentenceTransformerTrainingArguments(**arguments).get_warmup_steps(100) == steps


@pytest.mark.parametrize(
    ("given", "strategy", "evaluated", "saved"),
    [((0, 0), "epoch", None, 500), ((20, 0), "steps", 20, 20), ((20, 60), "steps", 20, 60)],
)
def test_how_often_is_measured_and_saved(
    run: Run, given: tuple[int, int], strategy: str, evaluated: int | None, saved: int
) -> None:
    options = CrossEncoderOptions(evaluation_steps=given[0], save_steps=given[1])
    arguments = trainer_arguments(run, options, "ndcg@10")
    assert (arguments["eval_strategy"], arguments["save_strategy"]) == (strategy, strategy)
    assert (arguments["eval_steps"], arguments["save_steps"]) == (evaluated, saved)
    assert arguments["load_best_model_at_end"] is True


@pytest.fixture
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("run"))
