"""Batches that encode a passage once for all its questions use all questions, and no relevant negatives."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from mrc_workbench.models.loading import load_bi_encoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.base import Examples
from mrc_workbench.training.engine.batches import MAX_QUESTIONS_PER_PASSAGE, make_sampler
from tests.tiny_models import build_bi_encoder
from tests.training.engine.test_batches import make_overlapping_examples, plain

pytestmark = pytest.mark.slow


def shared(examples: Examples, size: int = 4) -> list[list[int]]:
    sampler = make_sampler(replace(examples, shared=True), batch_size=size)(range(len(examples.question)))
    return [list(batch) for batch in sampler]


def test_epoch_holds_each_passage_once_with_its_questions() -> None:
    passage_of_question = np.random.default_rng(0).integers(0, 20, 90)
    batches = shared(plain(passage_of_question), size=5)
    assert sorted(row for batch in batches for row in batch) == list(range(90))
    passages = [passage for batch in batches for passage in set(passage_of_question[batch].tolist())]
    assert len(passages) == len(set(passages))
    assert max(len(set(passage_of_question[batch].tolist())) for batch in batches) <= 5


def test_passages_of_one_article_are_mutual_negatives() -> None:
    """Twenty articles of seven passages, three questions each: 32 passages come from five or six articles."""
    passage = np.repeat(np.arange(140), 3)
    article = passage // 7
    examples = replace(plain(passage, article=article), shared=True)
    sampler = make_sampler(examples, batch_size=32)(range(len(passage)))
    for epoch in range(3):
        sampler.set_epoch(epoch)
        articles = [np.unique(article[batch]) for batch in sampler]
        assert max(map(len, articles)) <= 6
        assert sum(map(len, articles)) <= 20 + len(articles) - 1  # at most one per batch is cut


def test_samples_other_questions_of_a_passage_each_epoch() -> None:
    passage_of_question = np.repeat([0, 1, 2], [30, 1, 1])
    examples = replace(plain(passage_of_question), shared=True)
    sampler = make_sampler(examples, batch_size=3)(range(32))
    seen = set()
    for epoch in range(12):
        sampler.set_epoch(epoch)
        (batch,) = list(sampler)
        assert len(batch) == MAX_QUESTIONS_PER_PASSAGE + 2
        seen |= set(batch)
    assert len(seen) > 25
    sampler.set_epoch(3)
    assert [list(batch) for batch in sampler] == [list(batch) for batch in sampler]


@given(make_overlapping_examples())
@settings(deadline=None)
def test_batch_holds_no_passage_relevant_to_another_question(examples: Examples) -> None:
    examples = replace(examples, passages=examples.passages[:, :1])
    try:
        batches = shared(examples)
    except ValueError:
        return  # too few compatible examples
    for batch in batches:
        for row in batch:
            relevant = set(examples.relevance[[int(examples.question[row])]].indices.tolist())
            others = {int(passage) for passage in examples.passages[batch, 0]} - {int(examples.passages[row, 0])}
            assert not relevant & others


def test_loss_equals_multiple_negatives_without_repeated_passages(tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    from mrc_workbench.training.recipes.losses import SharedPassagesLoss

    model = load_bi_encoder(find_model(str(build_bi_encoder(tmp_path))), []).eval()
    queries = ["달은", "강은 어디로", "산은"]
    passages = ["달은 밝다", "강은 바다로 흐른다", "산은 높다"]
    features = [model.preprocess(queries), model.preprocess(passages)]
    expected = MultipleNegativesRankingLoss(model, scale=20)(features, None).item()
    assert SharedPassagesLoss(model, 0.05)(features).item() == pytest.approx(expected, rel=1e-5)


def test_excludes_other_questions_of_the_passage_as_negatives(tmp_path: Path) -> None:
    import torch

    from mrc_workbench.training.recipes.losses import SharedPassagesLoss

    model = load_bi_encoder(find_model(str(build_bi_encoder(tmp_path))), []).eval()
    queries = ["달은", "물", "강은 어디로"]
    passage_texts = ["달은 밝다", "달은 밝다", "강은 바다로 흐른다"]
    features = [model.preprocess(queries), model.preprocess(passage_texts)]
    sides = (queries, passage_texts[1:])
    questions, passages = (torch.tensor(model.encode(texts, normalize_embeddings=True)) for texts in sides)
    scores = questions @ passages.T / 0.05
    expected = torch.nn.functional.cross_entropy(scores, torch.tensor([0, 0, 1])).item()
    assert SharedPassagesLoss(model, 0.05)(features).item() == pytest.approx(expected, rel=1e-4)
