"""Each objective's loss over a batch, against the library's own made by hand and against its formula."""

from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer import losses
from torch import Tensor
from torch.nn import functional

from mrc_workbench.data.pairs import PairSet
from mrc_workbench.models.loading import load_bi_encoder, load_cross_encoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.engine.adaptation import forget, pool_sentences
from mrc_workbench.training.options import OptionError
from mrc_workbench.training.recipes.losses import negatives_of_processes
from mrc_workbench.training.recipes.sentence_material import damaged, encoder_examples
from mrc_workbench.training.recipes.sentences import cross_sentence_loss, sentence_loss
from mrc_workbench.training.text_options import (
    CONTRASTED,
    FITTING,
    Concatenation,
    CrossSentenceObjective,
    SentenceObjective,
    SentenceOptions,
    SentencePooling,
)
from tests.training.recipes.sentence_worlds import SETS, labelled, scored, sentences, tiny_base, tiny_bi_encoder

pytestmark = pytest.mark.slow
ROWS = 8


def model() -> Any:
    return load_bi_encoder(find_model(tiny_bi_encoder()), []).eval()


def options(objective: SentenceObjective, **changed: Any) -> SentenceOptions:
    return SentenceOptions(base="folder", objective=objective, **({"teacher": "folder"} | changed))


def batch(made: Any, options: SentenceOptions, pairs: PairSet) -> tuple[list[dict[str, Any]], Tensor | None]:
    columns, _ = encoder_examples(options, pairs)
    label = columns.pop("label", None)
    features = [made.preprocess(column[:ROWS]) for column in columns.values()]
    return features, None if label is None else torch.tensor(label[:ROWS])


def vectors(made: Any, features: list[dict[str, Any]]) -> list[Tensor]:
    return [made(dict(column))["sentence_embedding"] for column in features]


def of(objective: SentenceObjective, **changed: Any) -> tuple[float, list[Tensor], Tensor | None, Any]:
    """The loss of the recipe, the vectors it is made of, the labels and the loss module."""
    torch.manual_seed(0)
    made, chosen = model(), options(objective, **changed)
    loss = sentence_loss(made, chosen)
    features, labels = batch(made, chosen, SETS[FITTING[objective][0]]())
    with torch.no_grad():
        found = loss([dict(column) for column in features], labels)
        return float(found), vectors(made, features), labels, loss


@pytest.mark.parametrize("concatenation", Concatenation)
def test_softmax_reads_what_is_concatenated(concatenation: Concatenation) -> None:
    found, (u, v), labels, loss = of(SentenceObjective.NLI_SOFTMAX, concatenation=concatenation)
    parts = {"u": u, "v": v, "|u-v|": (u - v).abs(), "u*v": u * v}
    read = torch.cat([parts[name] for name in concatenation.value.split(",")], dim=1)
    assert loss.classifier.weight.shape == (3, read.shape[1])
    assert labels is not None
    told = functional.cross_entropy(read @ loss.classifier.weight.T + loss.classifier.bias, labels)
    assert found == pytest.approx(float(told), abs=1e-6)


def test_regression_is_the_squared_difference_of_cosine_and_score() -> None:
    found, (u, v), labels, loss = of(SentenceObjective.COSINE)
    assert isinstance(loss, losses.CosineSimilarityLoss)
    assert labels is not None
    assert 0 <= labels.min() < labels.max() <= 1
    assert found == pytest.approx(float(((functional.cosine_similarity(u, v) - labels) ** 2).mean()), abs=1e-6)


@pytest.mark.parametrize("scale", [20.0, 5.0])
def test_cosent_wants_the_order_of_the_scores(scale: float) -> None:
    found, (u, v), labels, _ = of(SentenceObjective.COSENT, scale=scale)
    assert labels is not None
    cosines = (functional.cosine_similarity(u, v) * scale).tolist()
    # log(1 + sum over pairs i, j where i has the higher score, of exp(cos_j - cos_i)), Su 2022
    wrong = [np.exp(cosines[j] - cosines[i]) for i in range(ROWS) for j in range(ROWS) if labels[i] > labels[j]]
    assert found == pytest.approx(np.log(1 + sum(wrong)), rel=1e-5)


def test_triplets_want_a_margin_between_cosines() -> None:
    found, (anchor, positive, negative), _, _ = of(SentenceObjective.TRIPLET, triplet_margin=0.4)
    near, far = functional.cosine_similarity(anchor, positive), functional.cosine_similarity(anchor, negative)
    assert found == pytest.approx(float((far - near + 0.4).clamp(min=0).mean()), abs=1e-6)


@pytest.mark.parametrize("objective", [SentenceObjective.SIMCSE_UNSUPERVISED, SentenceObjective.SIMCSE_SUPERVISED])
def test_simcse_tells_its_own_from_all_others_of_the_batch(objective: SentenceObjective) -> None:
    found, (anchor, *others), _, _ = of(objective, temperature=0.1)
    assert len(others) == (2 if objective is SentenceObjective.SIMCSE_SUPERVISED else 1)
    cosines = functional.normalize(anchor) @ functional.normalize(torch.cat(others)).T
    told = functional.cross_entropy(cosines / 0.1, torch.arange(len(anchor)))
    assert found == pytest.approx(float(told), abs=1e-5)


def test_distillation_brings_both_sentences_to_the_teachers_vector() -> None:
    made, chosen = model(), options(SentenceObjective.DISTILLATION)
    features, _ = batch(made, chosen, SETS[FITTING[chosen.objective][0]]())
    taught = torch.randn(ROWS, made.get_embedding_dimension())
    with torch.no_grad():
        found = sentence_loss(made, chosen)([dict(column) for column in features], taught)
        squares = [((vector - taught) ** 2).mean() for vector in vectors(made, features)]
    assert float(found) == pytest.approx(float(sum(squares) / 2), abs=1e-6)


def test_tsdae_shares_its_weights_with_the_decoder_and_says_the_whole_sentence() -> None:
    torch.manual_seed(0)
    made, chosen = model(), options(SentenceObjective.TSDAE)
    loss = sentence_loss(made, chosen).eval()
    encoder, decoder = made[0].auto_model, loss.decoder.bert
    assert encoder.encoder.layer[0].output.dense.weight is decoder.encoder.layer[0].output.dense.weight
    assert encoder.get_input_embeddings().weight is loss.decoder.get_output_embeddings().weight
    features, _ = batch(made, chosen, SETS[FITTING[chosen.objective][0]]())
    whole = features[1]["input_ids"]
    with torch.no_grad():
        found = loss([dict(column) for column in features], None)
        (vector, _) = vectors(made, features)
        said = loss.decoder(input_ids=whole[:, :-1], encoder_hidden_states=vector[:, None], use_cache=False).logits
        told = functional.cross_entropy(said.flatten(0, 1), whole[:, 1:].flatten(), ignore_index=0)
    assert float(found) == pytest.approx(float(told), abs=1e-5)


def test_several_processes_share_the_negatives_of_simcse_alone() -> None:
    shared = {one: negatives_of_processes(options(one)) for one in SentenceObjective}
    assert {one for one, how in shared.items() if how == "gathered"} == {*CONTRASTED}
    assert {how for one, how in shared.items() if one not in CONTRASTED} == {"none"}
    assert sentence_loss(model(), options(CONTRASTED[0]), processes=2).gather_across_devices


def test_a_base_that_is_no_decoder_is_refused() -> None:
    made = model()
    made[0].auto_model.config = type("OtherConfig", (), {})()
    with pytest.raises(OptionError, match="needs a base that can be a decoder") as told:
        sentence_loss(made, options(SentenceObjective.TSDAE))
    assert told.value.code == "no_decoder"


@pytest.mark.parametrize("objective", CrossSentenceObjective)
def test_cross_encoders_learn_scores_and_labels(objective: CrossSentenceObjective) -> None:
    labels = 3 if objective is CrossSentenceObjective.CROSS_ENTROPY else 1
    made = load_cross_encoder(find_model(tiny_base()), [], labels, new_head=True, resized=True).eval()
    pairs = labelled() if labels == 3 else scored()
    first, second = (list(column)[:ROWS] for column in pairs.texts)
    right = torch.tensor((pairs.values if labels == 3 else pairs.gold)[:ROWS].tolist())
    with torch.no_grad():
        found = cross_sentence_loss(made, objective)([first, second], right)
        logits = made(made.preprocess(list(zip(first, second, strict=True))))["scores"]
    told = {
        CrossSentenceObjective.BINARY_CROSS_ENTROPY: lambda: functional.binary_cross_entropy_with_logits(
            logits.flatten(), right
        ),
        CrossSentenceObjective.MSE: lambda: functional.mse_loss(logits.flatten().sigmoid(), right),
        CrossSentenceObjective.CROSS_ENTROPY: lambda: functional.cross_entropy(logits, right.long()),
    }[objective]()
    assert float(found) == pytest.approx(float(told), abs=1e-6)


@pytest.mark.parametrize(("share", "alike"), [(0.0, True), (0.1, False)])
def test_without_dropout_a_sentence_is_its_own_twin(share: float, alike: bool) -> None:
    made = model().train()
    for module in made.modules():  # attention forgets nothing, as on a CPU
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    forget(made, share)
    torch.manual_seed(0)
    with torch.no_grad():
        twice = vectors(made, [made.preprocess(sentences(ROWS))] * 2)
    cosines = functional.cosine_similarity(*twice).numpy()
    if alike:
        np.testing.assert_allclose(cosines, 1, atol=1e-6)
    else:
        assert cosines.max() < 0.9999
        assert cosines.min() > 0.5


def test_a_base_without_dropout_is_refused() -> None:
    made = model()
    for parent in made[0].auto_model.modules():
        for name, child in list(parent.named_children()):
            if isinstance(child, torch.nn.Dropout):
                setattr(parent, name, torch.nn.Identity())
    with pytest.raises(OptionError, match="dropout cannot be set"):
        forget(made, 0.1)


@pytest.mark.parametrize("pooling", SentencePooling)
def test_pooling_is_as_told_and_survives_the_disk(pooling: SentencePooling, tmp_path: Any) -> None:
    made, texts = model(), sentences(4)
    pool_sentences(made, pooling)
    found = made.encode(texts)
    made.save_pretrained(str(tmp_path), create_model_card=False)
    np.testing.assert_allclose(load_bi_encoder(find_model(str(tmp_path)), []).encode(texts), found, atol=1e-6)
    tokens = made.tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model()[0].auto_model(**tokens, output_hidden_states=True).hidden_states
    mask = tokens["attention_mask"][:, :, None]
    first_and_last = (states[1] + states[-1]) / 2
    expected = {
        SentencePooling.BASE: (states[-1] * mask).sum(1) / mask.sum(1),
        SentencePooling.MEAN: (states[-1] * mask).sum(1) / mask.sum(1),
        SentencePooling.CLS: states[-1][:, 0],
        SentencePooling.MAX: states[-1].masked_fill(mask == 0, -1e9).amax(1),
        SentencePooling.FIRST_LAST_AVERAGE: (first_and_last * mask).sum(1) / mask.sum(1),
    }[pooling]
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


def test_words_are_taken_from_sentences_with_the_probability_told() -> None:
    many = [" ".join(f"w{number}" for number in range(50))] * 200
    left = damaged(many, 0.6, seed=1)
    assert sum(len(one.split()) for one in left) / 10_000 == pytest.approx(0.4, abs=0.02)
    assert all(words == sorted(words, key=lambda word: int(word[1:])) for words in (one.split() for one in left))
    assert damaged(many, 0.6, seed=1) == left != damaged(many, 0.6, seed=2)
    assert damaged(["one", "", "a b"], 0.99, seed=0)[:2] == ["one", ""]
    assert damaged(["a b c"], 0.0, seed=0) == ["a b c"]
