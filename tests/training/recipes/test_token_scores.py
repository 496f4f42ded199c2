"""Late interaction over a batch's distinct passages: the library's loss and gradients, in less memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from mrc_workbench.models.loading import load_token_encoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.engine.adaptation import adapt
from mrc_workbench.training.engine.speed import cached_lower_layers, passes_by_length
from mrc_workbench.training.ranker_options import LateOptions
from mrc_workbench.training.recipes.losses import SharedPassagesLoss, best_products, late_loss, mean_max_sims
from tests.tiny_models import SENTENCES, build_bi_encoder
from tests.training.engine.test_frozen_layers import calls_of_layers, without_dropout
from tests.training.worlds import assert_same_tensors

pytestmark = pytest.mark.slow

QUESTIONS = ["달은", "강은 어디로 흐르는가", "산은 높다"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_token_encoder(find_model(str(build_bi_encoder(tmp_path_factory.mktemp("base"))))).eval()


def features_of(model: Any, questions: Sequence[str], passages: Sequence[str]) -> list[dict[str, Any]]:
    features = [model.preprocess(list(texts)) for texts in (questions, passages)]
    return [features[0] | {"task": "query"}, features[1] | {"task": "document"}]


def loss_and_gradients(loss: Any, features: list[dict[str, Any]]) -> tuple[float, dict[str, Any]]:
    loss.zero_grad()
    value = loss(features, None)
    value.backward()
    weights = loss.model.named_parameters()
    return float(value.detach()), {name: weight.grad.clone() for name, weight in weights if weight.grad is not None}


@pytest.mark.parametrize("temperature", [0.01, 0.5])
def test_loss_matches_library_without_repeated_passages(model: Any, temperature: float) -> None:
    features = features_of(model, QUESTIONS, SENTENCES[:3])
    of_library = late_loss(model, LateOptions(base="folder", temperature=temperature))
    shared = late_loss(model, LateOptions(base="folder", temperature=temperature, shared_passages=True))
    assert type(of_library).__name__ == "MultiVectorMultipleNegativesRankingLoss"
    assert isinstance(shared, SharedPassagesLoss)
    expected_loss, expected = loss_and_gradients(of_library, features)
    loss, gradients = loss_and_gradients(shared, features)
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    assert_same_tensors(gradients, expected, rtol=1e-3)


def test_uses_library_loss_with_several_processes(model: Any) -> None:
    loss = late_loss(model, LateOptions(base="folder", shared_passages=True), processes=2)
    assert type(loss).__name__ == "MultiVectorMultipleNegativesRankingLoss"


def test_scores_repeated_passage_once(model: Any) -> None:
    features = features_of(model, QUESTIONS, [SENTENCES[0], SENTENCES[1], SENTENCES[0]])
    scores = mean_max_sims(model, features[0], features_of(model, QUESTIONS, SENTENCES[:2])[1]) / 0.1
    expected = torch.nn.functional.cross_entropy(scores, torch.tensor([0, 1, 0])).item()
    loss = SharedPassagesLoss(model, 0.1, scores=mean_max_sims)
    assert loss(features).item() == pytest.approx(expected, rel=1e-5)


def test_scores_match_search(model: Any) -> None:
    expected = model.similarity(model.encode_query(QUESTIONS), model.encode_document(SENTENCES))
    scores = mean_max_sims(model, *features_of(model, QUESTIONS, SENTENCES))
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-5)


def test_gradients_match_full_computation() -> None:
    generator = torch.Generator().manual_seed(0)
    questions = torch.randn(7, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    passages = torch.randn(9, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(7, 3, generator=generator, dtype=torch.float64)
    lengths = [4, 1, 4]
    at_once = torch.stack([part.max(dim=1).values for part in (questions @ passages.T).split(lengths, dim=1)], dim=1)
    expected = torch.autograd.grad((at_once * weights).sum(), (questions, passages))
    in_parts = best_products(questions, passages, lengths)
    torch.testing.assert_close(in_parts, at_once)
    actual = torch.autograd.grad((in_parts * weights).sum(), (questions, passages))
    for gradient, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(gradient, other)


def test_ignores_masked_tokens() -> None:
    """Of a text with only masked tokens, the first token counts."""

    def tokens(features: dict[str, Any], task: str) -> dict[str, Any]:
        assert task == ("query" if features["is_question"] else "document")
        return {name: features[name] for name in ("token_embeddings", "attention_mask")}

    def make_features(embeddings: Any, mask: list[list[int]], *, is_question: bool) -> dict[str, Any]:
        tensors = {"token_embeddings": torch.tensor(embeddings), "attention_mask": torch.tensor(mask)}
        return tensors | {"is_question": is_question}

    first = [1.0, 0.0]
    second = [0.0, 1.0]
    questions = make_features([[first, second], [second, first]], [[1, 1], [1, 0]], is_question=True)
    texts = [[first, second], [first, first], [second, first]]
    scores = mean_max_sims(tokens, questions, make_features(texts, [[1, 0], [0, 0], [0, 1]], is_question=False))
    torch.testing.assert_close(scores, torch.tensor([[0.5, 0.5, 0.5], [0.0, 0.0, 0.0]]))


def test_packaged_base_freezes_lower_layers() -> None:
    packaged = LateOptions.defaults_for("packaged:any")
    other = LateOptions.defaults_for("some/model")
    assert packaged.shares_passages
    assert (packaged.frozen_layers, packaged.temperature, packaged.learning_rate) == (8, 0.01, 1e-4)
    assert packaged.evaluation_steps == 100
    assert not other.shares_passages
    assert (other.frozen_layers, other.temperature, other.learning_rate) == (0, 0.02, 2e-5)


def test_stores_states_of_highest_frozen_layer(model: Any, tmp_path: Path) -> None:
    """The tiny model reads its last layer and the one below, which is frozen."""
    folder = str(build_bi_encoder(tmp_path))
    trained = load_token_encoder(find_model(folder))
    adapt(trained, LateOptions(base=folder, frozen_layers=1))
    assert trained[1].layer_start == 1
    loss = SharedPassagesLoss(without_dropout(trained), 0.1, scores=mean_max_sims)
    features = features_of(trained, QUESTIONS, SENTENCES[:3])
    expected_loss, expected = loss_and_gradients(loss, features)
    with cached_lower_layers(trained, 1) as lower, passes_by_length(trained):
        assert lower is not None
        calls = calls_of_layers(trained, lambda: loss_and_gradients(loss, features))
        assert calls[0] > 0
        assert lower.bytes > 0
        assert calls_of_layers(trained, lambda: loss_and_gradients(loss, features))[0] == 0
        value, gradients = loss_and_gradients(loss, features)
    assert value == pytest.approx(expected_loss, rel=1e-4)
    assert_same_tensors(gradients, expected, rtol=1e-3, atol=1e-4)
