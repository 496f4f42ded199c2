"""Which models can be measured, and which have seen what they are measured on."""

import json

import pytest

from data.pairs.records import PairSet
from data.pairs.store import StoredPairs, keep
from data.split import Part, SplitOptions
from embeddings.encoder import add
from models.sources import DEFAULT_BI_ENCODER, STARTER
from tests.embeddings.worlds import scored_pairs
from tests.views.embeddings.worlds import scored
from training.options.rankers import BiEncoderOptions, CrossEncoderOptions
from training.runs.runs import Run, create_run, new_plan
from views.embeddings.page import has_seen, models_at_hand, problem_of

DONE = {"state": "done"}


def trained(data: StoredPairs, shares: SplitOptions | None = None, kind: str = "bi-encoder") -> Run:
    options = {"bi-encoder": BiEncoderOptions, "cross-encoder": CrossEncoderOptions}[kind](base=STARTER)
    named = (data.key, data.name, data.fingerprint)
    run = create_run(new_plan(kind, "Mine", named, shares or SplitOptions(), options))
    run.model_folder.mkdir()
    (run.model_folder / "modules.json").write_text("[]", encoding="utf-8")
    (run.folder / "status.json").write_text(json.dumps(DONE), encoding="utf-8")
    return run


@pytest.fixture
def drawn() -> StoredPairs:
    """A set of which nothing is published: its parts are drawn."""
    pairs: PairSet = scored_pairs()
    return keep(PairSet.of("drawn", pairs.kind, [[*column] for column in pairs.texts], pairs.values, scale=pairs.scale))


def test_bi_encoders_are_offered_and_rerankers_are_not(drawn: StoredPairs) -> None:
    run = trained(drawn)
    trained(drawn, kind="cross-encoder")
    add("a/model")
    models = models_at_hand()
    assert [*models.names] == [STARTER, DEFAULT_BI_ENCODER, run.id, "a/model"]
    assert models.names[run.id] == "Mine"
    assert models.first_picked == (STARTER, run.id)
    assert models.added == ("a/model",)


def test_a_training_has_seen_what_it_learned_from(drawn: StoredPairs) -> None:
    run = trained(drawn)
    assert has_seen(run, drawn, Part.TRAIN)
    assert has_seen(run, drawn, Part.ALL)
    assert not has_seen(run, drawn, Part.TEST)
    assert not has_seen(run, keep(scored()), Part.TRAIN)


def test_parts_drawn_otherwise_may_hold_what_it_learned_from(drawn: StoredPairs) -> None:
    assert has_seen(trained(drawn, SplitOptions(seed=1)), drawn, Part.TEST)
    published = keep(scored())  # all of it published for testing
    assert not has_seen(trained(published, SplitOptions(seed=1)), published, Part.TEST)


def test_what_is_gone_is_a_problem_and_the_hub_is_asked_by_nobody() -> None:
    assert problem_of("no/such/folder") is not None
    assert problem_of(DEFAULT_BI_ENCODER) is None
