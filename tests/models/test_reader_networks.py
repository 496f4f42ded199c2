"""A masked language model as it is trained: its loss is that of transformers, and it knows which heads are new."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    DistilBertConfig,
    DistilBertForMaskedLM,
    RobertaConfig,
    RobertaForMaskedLM,
)

from mrc_workbench.models import reader_networks as networks
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import passes_of_like_length
from mrc_workbench.models.reader_networks import FOLLOWS, GUESSES, MaskedNetwork, load_masked, new_masked
from mrc_workbench.models.sources import STARTER, find_model
from tests.hub import TINY, build_bi_encoder, build_cross_encoder_base

pytestmark = pytest.mark.slow

PIECES = 60
SMALL = {**TINY, "vocab_size": PIECES, "max_position_embeddings": 40, "pad_token_id": 0}
NETWORKS = {
    "bert": lambda: BertForMaskedLM(BertConfig(**SMALL)),
    "pairs": lambda: BertForPreTraining(BertConfig(**SMALL)),
    "roberta": lambda: RobertaForMaskedLM(RobertaConfig(**SMALL, type_vocab_size=1)),
    "another": lambda: DistilBertForMaskedLM(
        DistilBertConfig(vocab_size=PIECES, dim=32, n_layers=2, n_heads=2, hidden_dim=64, pad_token_id=0)
    ),
}


def features(*, pairs: bool = False) -> dict[str, torch.Tensor]:
    """Five rows of different lengths, with some tokens to guess; the second has none."""
    rng, lengths = np.random.default_rng(0), np.array([12, 5, 30, 17, 30])
    inside = np.arange(30) < lengths[:, None]
    ids = np.where(inside, rng.integers(5, PIECES, size=inside.shape), 0)
    labels = np.where(inside & (rng.random(inside.shape) < 0.2), rng.integers(5, PIECES, size=ids.shape), -100)
    labels[1] = -100
    told = {
        "input_ids": ids,
        "attention_mask": inside.astype(np.int64),
        "token_type_ids": (inside & (np.arange(30) > lengths[:, None] // 2)).astype(np.int64),
        "labels": labels,
        "shares": np.full((5, 1), 5 / (labels >= 0).sum(), dtype=np.float32),
    }
    told |= {"follows": np.array([[0], [1], [1], [0], [1]])} if pairs else {}
    return {name: torch.from_numpy(value) for name, value in told.items()}


def made(kind: str) -> tuple[Any, MaskedNetwork]:
    torch.manual_seed(0)
    network = NETWORKS[kind]().eval()
    return network, MaskedNetwork(network, None, 40)


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_loss_is_that_of_transformers(kind: str) -> None:
    network, ours = made(kind)
    given = features(pairs=kind == "pairs")
    told = {name: given[name] for name in ("input_ids", "attention_mask", "labels")}
    if "bert" in network.config.model_type and network.config.model_type == "bert":
        told["token_type_ids"] = given["token_type_ids"]
    if kind == "pairs":
        told["next_sentence_label"] = given["follows"][:, 0]
    theirs = network(**told).loss
    loss = ours(given)["losses"].mean()
    assert loss.item() == pytest.approx(theirs.item(), rel=1e-5)
    gradients = []
    for one in (theirs, loss):
        network.zero_grad()
        one.backward()
        gradients.append(
            {name: weight.grad.clone() for name, weight in network.named_parameters() if weight.grad is not None}
        )
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-4, atol=1e-6)


def test_many_pieces_are_judged_a_few_tokens_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    network, ours = made("pairs")
    given = features(pairs=True)
    at_once = ours.judged(given)
    monkeypatch.setattr(networks, "_LOGITS_AT_ONCE", 2 * network.config.vocab_size)
    with torch.no_grad():
        few_at_a_time = ours.judged(given)
    for name, found in few_at_a_time.items():
        torch.testing.assert_close(found, at_once[name])


def test_passes_of_like_length_change_nothing() -> None:
    _, ours = made("pairs")
    given = features(pairs=True)
    whole = ours(given)["losses"]
    with torch.no_grad(), passes_of_like_length(ours, ("losses",), {"cpu": 40}):
        parts = ours(given)["losses"]
    torch.testing.assert_close(parts, whole)


def test_the_loss_of_pairs_counts_as_much_as_told() -> None:
    _, ours = made("pairs")
    given = features(pairs=True)
    of_pairs = ours.judged(given)["follow_losses"]
    once = ours(given)["losses"]
    ours.pairs_weight = 10.0
    torch.testing.assert_close(ours(given)["losses"] - once, 9 * of_pairs)


def test_what_it_says_of_each_row() -> None:
    network, ours = made("pairs")
    given = features(pairs=True)
    with torch.no_grad():
        judged = ours.judged(given)
        said = network(**{name: given[name] for name in ("input_ids", "attention_mask", "token_type_ids")})
    chances = torch.log_softmax(said.prediction_logits, dim=-1)
    for row in range(5):
        asked = [(place, int(label)) for place, label in enumerate(given["labels"][row]) if label >= 0]
        losses = [-chances[row, place, label].item() for place, label in asked]
        assert judged["token_losses"][row].item() == pytest.approx(sum(losses), abs=1e-4)
        assert judged["hidden"][row] == len(asked)
        right = [chances[row, place].argmax().item() == label for place, label in asked]
        assert judged["right"][row] == sum(right)
    follows = given["follows"][:, 0]
    assert torch.equal(judged["follow_right"], said.seq_relationship_logits.argmax(dim=1) == follows)


def test_a_new_one_is_the_same_for_a_seed_and_plain_transformers_load_it(tmp_path: Path) -> None:
    tokenizer = load_masked(find_model(str(build_bi_encoder(tmp_path / "base")))).tokenizer
    told = SMALL | {"vocab_size": len(tokenizer)}
    first, same, other = (new_masked(told, tokenizer, pairs=True, seed=seed) for seed in (1, 1, 2))
    weights = [one[0].model.get_input_embeddings().weight for one in (first, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert first.new_heads == (GUESSES, FOLLOWS)
    first.save_pretrained(str(tmp_path / "saved"), create_model_card=False)
    plain = AutoModelForMaskedLM.from_pretrained(tmp_path / "saved")
    given = {name: value for name, value in features().items() if name in ("input_ids", "attention_mask")}
    given["input_ids"] = given["input_ids"] % len(tokenizer)
    with torch.no_grad():
        assert torch.equal(plain(**given).logits, first[0].model(**given).prediction_logits)
    assert load_masked(find_model(str(tmp_path / "saved")), pairs=True).new_heads == ()


def test_heads_that_a_base_has_not_are_told_and_always_drawn_alike(tmp_path: Path) -> None:
    bare, roberta = build_bi_encoder(tmp_path / "bare"), build_cross_encoder_base(tmp_path / "roberta")
    assert load_masked(find_model(str(bare))).new_heads == (GUESSES,)
    assert load_masked(find_model(str(bare)), pairs=True).new_heads == (GUESSES, FOLLOWS)
    assert load_masked(find_model(str(roberta))).new_heads == ()
    heads = [load_masked(find_model(str(bare)))[0].model.cls.predictions.transform.dense.weight for _ in range(2)]
    assert torch.equal(*heads)


def test_what_cannot_be_one(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        load_masked(find_model(str(build_cross_encoder_base(tmp_path / "roberta"))), pairs=True)
    assert caught.value.code == "no_pairs"
    with pytest.raises(ModelError) as caught:
        load_masked(find_model(STARTER))
    assert caught.value.code == "starter_language"
