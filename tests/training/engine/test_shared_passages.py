"""Batches that encode a passage once for all its questions: every question has its turn, no negative is relevant."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from mrc_workbench.models.loading import load_bi_encoder
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.training.base import Examples
from mrc_workbench.training.engine.batches import MOST_QUESTIONS, sampler_of
from mrc_workbench.training.ranker_options import BiEncoderObjective, BiEncoderOptions
from tests.tiny_models import build_bi_encoder
from tests.training.engine.test_batches import plain, tangled

pytestmark = pytest.mark.slow


def shared(examples: Examples, size: int = 4) -> list[list[int]]:
    sampler = sampler_of(replace(examples, shared=True), batch_size=size)(range(len(examples.question)))
    return [list(batch) for batch in sampler]


def test_an_epoch_shows_each_passage_once_with_all_its_questions() -> None:
    passage_of_question = np.random.default_rng(0).integers(0, 20, 90)
    batches = shared(plain(passage_of_question), size=5)
    assert sorted(row for batch in batches for row in batch) == list(range(90))
    passages = [passage for batch in batches for passage in set(passage_of_question[batch].tolist())]
    assert len(passages) == len(set(passages))
    assert max(len(set(passage_of_question[batch].tolist())) for batch in batches) <= 5


def test_passages_of_an_article_are_negatives_of_each_other() -> None:
    """Twenty articles of seven passages, three questions each: 32 passages are those of five or six articles."""
    passage = np.repeat(np.arange(140), 3)
    article = passage // 7
    examples = replace(plain(passage, article=article), shared=True)
    sampler = sampler_of(examples, batch_size=32)(range(len(passage)))
    for epoch in range(3):
        sampler.set_epoch(epoch)
        articles = [np.unique(article[batch]) for batch in sampler]
        assert max(map(len, articles)) <= 6
        assert sum(map(len, articles)) <= 20 + len(articles) - 1  # at most one is cut at each batch's end


def test_a_passage_brings_a_few_of_its_questions_and_others_in_the_next_epoch() -> None:
    passage_of_question = np.repeat([0, 1, 2], [30, 1, 1])
    examples = replace(plain(passage_of_question), shared=True)
    sampler = sampler_of(examples, batch_size=3)(range(32))
    seen = set()
    for epoch in range(12):
        sampler.set_epoch(epoch)
        (batch,) = list(sampler)
        assert len(batch) == MOST_QUESTIONS + 2
        seen |= set(batch)
    assert len(seen) > 25
    sampler.set_epoch(3)
    assert [list(batch) for batch in sampler] == [list(batch) for batch in sampler]


@given(tangled())
@settings(deadline=None)
def test_no_passage_of_a_batch_is_relevant_to_a_question_of_another(examples: Examples) -> None:
    examples = replace(examples, passages=examples.passages[:, :1])
    try:
        batches = shared(examples)
    except ValueError:
        return  # too few that may stand together
    for batch in batches:
        for row in batch:
            relevant = set(examples.relevance[[int(examples.question[row])]].indices.tolist())
            others = {int(passage) for passage in examples.passages[batch, 0]} - {int(examples.passages[row, 0])}
            assert not relevant & others


def test_the_loss_is_that_of_multiple_negatives_if_no_passage_repeats(tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    from mrc_workbench.training.recipes.losses import SharedPassagesLoss

    model = load_bi_encoder(find_model(str(build_bi_encoder(tmp_path))), []).eval()
    asked, shown = ["달은", "강은 어디로", "산은"], ["달은 밝다", "강은 바다로 흐른다", "산은 높다"]
    features = [model.preprocess(asked), model.preprocess(shown)]
    expected = MultipleNegativesRankingLoss(model, scale=20)(features, None).item()
    assert SharedPassagesLoss(model, 0.05)(features).item() == pytest.approx(expected, rel=1e-5)


def test_questions_of_one_passage_are_no_negatives_of_each_other(tmp_path: Path) -> None:
    import torch

    from mrc_workbench.training.recipes.losses import SharedPassagesLoss

    model = load_bi_encoder(find_model(str(build_bi_encoder(tmp_path))), []).eval()
    asked, shown = ["달은", "물", "강은 어디로"], ["달은 밝다", "달은 밝다", "강은 바다로 흐른다"]
    features = [model.preprocess(asked), model.preprocess(shown)]
    questions, passages = (torch.tensor(model.encode(texts, normalize_embeddings=True)) for texts in (asked, shown[1:]))
    scores = questions @ passages.T / 0.05
    expected = torch.nn.functional.cross_entropy(scores, torch.tensor([0, 0, 1])).item()
    assert SharedPassagesLoss(model, 0.05)(features).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "shares"),
    [
        ({}, True),
        ({"negatives": 1}, False),
        ({"mini_batch_size": 8}, False),
        ({"base": STARTER}, False),
        ({"shared_passages": False}, False),
        ({"objective": BiEncoderObjective.GIST}, False),
    ],
)
def test_passages_are_shared_only_where_each_question_has_one(changes: dict[str, object], shares: bool) -> None:
    given_ = {"base": "folder", "objective": BiEncoderObjective.MULTIPLE_NEGATIVES, "shared_passages": True}
    assert BiEncoderOptions(**given_ | changes).shares_passages is shares  # type: ignore[arg-type]
