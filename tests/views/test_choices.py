"""What can be picked for a question set, and the experiment it makes."""

from dataclasses import replace
from pathlib import Path

import pytest

from data.catalog import CATALOG, read_entry
from data.records import Passage, Question, QuestionSet
from data.split import Part, SplitOptions
from data.store import StoredSet, keep
from jobs.status import State
from models.packaged import PackagedBase
from retrieval.comparison.added import add
from retrieval.comparison.experiment import Experiment, write_experiment
from retrieval.comparison.kinds.first_stage import RunSpec, SparseSpec
from retrieval.comparison.multistage import HybridSpec
from text.analyzers import Analyzer
from training.options.bi_encoder import BI_ENCODER, BiEncoderOptions
from training.options.cross_encoder import CROSS_ENCODER
from training.options.sparse_encoder import SPARSE_ENCODER
from training.recipe import RECIPES
from training.runs.runs import Run, create_run, new_plan
from views.choices import choices_for, free_name, without_plainest


def sample() -> StoredSet:
    return keep(read_entry(CATALOG["sample"]).question_set)


def finished(kind: str, name: str, data: StoredSet, seed: int = 0) -> Run:
    about = (data.key, data.name, data.fingerprint)
    run = create_run(new_plan(kind, name, about, SplitOptions(seed=seed), RECIPES[kind].options.suited_to()))
    run.write_status(replace(run.status(), state=State.DONE))
    return run


USUAL = ["BM25", "Dense", "Hybrid", "Reranked"]


def test_without_trainings_there_are_four_that_are_picked_and_bm25_of_plain_words_that_is_not() -> None:
    choices = choices_for(sample())
    assert list(choices.specs) == [*USUAL, "BM25 words"]
    assert list(choices.first_picked) == USUAL
    assert choices.analyzer is Analyzer.KIWI_BIGRAM


@pytest.mark.parametrize(
    ("picked", "told"),
    [
        (["BM25", "Dense", "BM25 words", "LSA"], ["BM25", "Dense"]),
        (["BM25", "BM25 words"], ["BM25", "BM25 words"]),
        (["BM25 words", "LSA"], ["BM25 words", "LSA"]),
        (["BM25"], ["BM25"]),
    ],
)
def test_the_plainest_are_told_of_only_where_there_are_no_two_others(picked: list[str], told: list[str]) -> None:
    assert without_plainest(picked) == told


def test_where_bm25_is_of_words_anyway_there_is_no_second_one() -> None:
    rows = (Passage("p", "Words that are spaced, and nothing else."),)
    english = QuestionSet("english", rows, (Question("q", "Which words?", (), ("p",)),))
    assert list(choices_for(keep(english)).specs) == USUAL


@pytest.mark.packaged
def test_a_base_that_a_package_ships_is_dense_search_and_the_starter_is_called_what_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PackagedBase, "path", Path("anywhere"))
    choices = choices_for(sample())
    assert list(choices.specs) == [*USUAL, "BM25 words", "LSA"]
    assert choices.first_picked == tuple(USUAL)
    models = {name: choices.specs[name].model for name in ("Dense", "LSA")}  # type: ignore[attr-defined]
    assert models == {"Dense": "packaged:multilingual-e5-small", "LSA": "starter"}
    experiment = choices.experiment(sample(), ["Dense"], Part.ALL)
    assert 'model = "packaged:multilingual-e5-small"' in write_experiment(experiment)


def test_of_a_large_set_bm25_alone_is_picked_at_first() -> None:
    choices = choices_for(replace(sample(), passages=1_000_000))
    assert choices.large
    assert (list(choices.specs), choices.first_picked) == ([*USUAL, "BM25 words"], ("BM25",))


def test_finished_trainings_appear_by_themselves_and_unfinished_ones_do_not() -> None:
    data = sample()
    finished(BI_ENCODER, "나의 모델", data)
    finished(CROSS_ENCODER, "reader", data)
    create_run(
        new_plan(
            BI_ENCODER,
            "unfinished",
            (data.key, data.name, data.fingerprint),
            SplitOptions(),
            BiEncoderOptions.suited_to(),
        )
    )
    choices = choices_for(data)
    assert set(choices.trained) == {"Dense · 나의 모델", "Hybrid · 나의 모델", "Reranked · reader"}
    assert choices.first_picked[-2:] == ("Dense · 나의 모델", "Reranked · reader")


def test_a_trained_sparse_encoder_searches_alone_and_with_bm25() -> None:
    data = sample()
    run = finished(SPARSE_ENCODER, "terms", data)
    choices = choices_for(data)
    assert choices.specs["Sparse · terms"] == SparseSpec(name="Sparse · terms", model=run.id)
    assert choices.specs["Hybrid · terms"].parts == ("BM25", "Sparse · terms")
    assert choices.first_picked[-1] == "Sparse · terms"


def test_an_experiment_lists_what_is_wrapped_before_what_wraps_it() -> None:
    experiment = choices_for(sample()).experiment(sample(), ["Hybrid"], Part.ALL)
    assert [spec.name for spec in experiment.retriever] == ["BM25", "Dense", "Hybrid"]
    assert Experiment.model_validate_json(experiment.model_dump_json()) == experiment


def test_a_trained_model_is_judged_on_the_split_it_was_trained_with() -> None:
    data = sample()
    finished(BI_ENCODER, "seeded", data, seed=7)
    experiment = choices_for(data).experiment(data, ["BM25", "Dense · seeded"], Part.TEST)
    assert experiment.seed == 7


def test_names_stay_different() -> None:
    assert free_name("Dense", {}) == "Dense"
    taken = choices_for(sample()).specs
    assert free_name("Dense", taken) == "Dense (2)"


def test_an_imported_run_and_what_wraps_it_cannot_be_asked_something_new() -> None:
    data = sample()
    add(data.fingerprint, RunSpec(name="Run", path="/x.trec"))
    add(data.fingerprint, HybridSpec(name="Both", of=("BM25", "Run")))
    choices = choices_for(data)
    assert {"Run", "Both"} <= choices.specs.keys()
    assert choices.searchable == [*USUAL, "BM25 words"]
