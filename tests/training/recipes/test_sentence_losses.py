"""The loss of each objective over a batch, compared with the library's and with its formula."""

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
from mrc_workbench.training.engine.adaptation import set_hidden_dropout, set_sentence_pooling
from mrc_workbench.training.options import OptionError
from mrc_workbench.training.recipes.losses import negatives_of_processes
from mrc_workbench.training.recipes.sentence_data import delete_words, encoder_examples
from mrc_workbench.training.recipes.texts import cross_sentence_loss, sentence_loss
from mrc_workbench.training.text_options import (
    IN_BATCH_OBJECTIVES,
    PAIR_KINDS_OF_OBJECTIVE,
    Concatenation,
    CrossSentenceObjective,
    SentenceObjective,
    SentenceOptions,
    SentencePooling,
)
from tests.training.recipes.sentence_worlds import (
    SETS,
    make_labelled_pairs,
    make_scored_pairs,
    make_sentences,
    tiny_base,
    tiny_bi_encoder,
)

pytestmark = pytest.mark.slow
ROWS = 8


def model() -> Any:
    return load_bi_encoder(find_model(tiny_bi_encoder()), []).eval()


def options(objective: SentenceObjective, **changed: Any) -> SentenceOptions:
    return SentenceOptions(base="folder", objective=objective, **({"teacher": "folder"} | changed))


def batch(encoder: Any, options: SentenceOptions, pairs: PairSet) -> tuple[list[dict[str, Any]], Tensor | None]:
    columns, _ = encoder_examples(options, pairs)
    label = columns.pop("label", None)
    features = [encoder.preprocess(column[:ROWS]) for column in columns.values()]
    return features, None if label is None else torch.tensor(label[:ROWS])


def vectors(encoder: Any, features: list[dict[str, Any]]) -> list[Tensor]:
    return [encoder(dict(column))["sentence_embedding"] for column in features]


def compute_loss(objective: SentenceObjective, **changed: Any) -> tuple[float, list[Tensor], Tensor | None, Any]:
    torch.manual_seed(0)
    encoder = model()
    loss_options = options(objective, **changed)
    loss = sentence_loss(encoder, loss_options)
    features, labels = batch(encoder, loss_options, SETS[PAIR_KINDS_OF_OBJECTIVE[objective][0]]())
    with torch.no_grad():
        actual = loss([dict(column) for column in features], labels)
        return float(actual), vectors(encoder, features), labels, loss


@pytest.mark.parametrize("concatenation", Concatenation)
def test_softmax_reads_concatenated_vectors(concatenation: Concatenation) -> None:
    actual, (u, v), labels, loss = compute_loss(SentenceObjective.NLI_SOFTMAX, concatenation=concatenation)
    parts = {"u": u, "v": v, "|u-v|": (u - v).abs(), "u*v": u * v}
    read = torch.cat([parts[name] for name in concatenation.value.split(",")], dim=1)
    assert loss.classifier.weight.shape == (3, read.shape[1])
    assert labels is not None
    expected = functional.cross_entropy(read @ loss.classifier.weight.T + loss.classifier.bias, labels)
    assert actual == pytest.approx(float(expected), abs=1e-6)


def test_cosine_loss_is_squared_difference() -> None:
    actual, (u, v), labels, loss = compute_loss(SentenceObjective.COSINE)
    assert isinstance(loss, losses.CosineSimilarityLoss)
    assert labels is not None
    assert 0 <= labels.min() < labels.max() <= 1
    assert actual == pytest.approx(float(((functional.cosine_similarity(u, v) - labels) ** 2).mean()), abs=1e-6)


@pytest.mark.parametrize("scale", [20.0, 5.0])
def test_cosent_loss_matches_formula(scale: float) -> None:
    actual, (u, v), labels, _ = compute_loss(SentenceObjective.COSENT, scale=scale)
    assert labels is not None
    cosines = (functional.cosine_similarity(u, v) * scale).tolist()
    # log(1 + sum over pairs i, j where i has the higher score, of exp(cos_j - cos_i)), Su 2022
    wrong = [np.exp(cosines[j] - cosines[i]) for i in range(ROWS) for j in range(ROWS) if labels[i] > labels[j]]
    assert actual == pytest.approx(np.log(1 + sum(wrong)), rel=1e-5)


def test_triplet_loss_applies_margin() -> None:
    actual, (anchor, positive, negative), _, _ = compute_loss(SentenceObjective.TRIPLET, triplet_margin=0.4)
    near = functional.cosine_similarity(anchor, positive)
    far = functional.cosine_similarity(anchor, negative)
    assert actual == pytest.approx(float((far - near + 0.4).clamp(min=0).mean()), abs=1e-6)


@pytest.mark.parametrize("objective", [SentenceObjective.SIMCSE_UNSUPERVISED, SentenceObjective.SIMCSE_SUPERVISED])
def test_simcse_contrasts_with_in_batch_negatives(objective: SentenceObjective) -> None:
    actual, (anchor, *others), _, _ = compute_loss(objective, temperature=0.1)
    assert len(others) == (2 if objective is SentenceObjective.SIMCSE_SUPERVISED else 1)
    cosines = functional.normalize(anchor) @ functional.normalize(torch.cat(others)).T
    expected = functional.cross_entropy(cosines / 0.1, torch.arange(len(anchor)))
    assert actual == pytest.approx(float(expected), abs=1e-5)


def test_distillation_regresses_both_sentences_to_teacher() -> None:
    encoder = model()
    loss_options = options(SentenceObjective.DISTILLATION)
    features, _ = batch(encoder, loss_options, SETS[PAIR_KINDS_OF_OBJECTIVE[loss_options.objective][0]]())
    teacher_vectors = torch.randn(ROWS, encoder.get_embedding_dimension())
    with torch.no_grad():
        actual = sentence_loss(encoder, loss_options)([dict(column) for column in features], teacher_vectors)
        squares = [((vector - teacher_vectors) ** 2).mean() for vector in vectors(encoder, features)]
    assert float(actual) == pytest.approx(float(sum(squares) / 2), abs=1e-6)


def test_tsdae_ties_decoder_and_reconstructs_sentence() -> None:
    torch.manual_seed(0)
    sentence_encoder = model()
    loss_options = options(SentenceObjective.TSDAE)
    loss = sentence_loss(sentence_encoder, loss_options).eval()
    encoder = sentence_encoder[0].auto_model
    decoder = loss.decoder.bert
    assert encoder.encoder.layer[0].output.dense.weight is decoder.encoder.layer[0].output.dense.weight
    assert encoder.get_input_embeddings().weight is loss.decoder.get_output_embeddings().weight
    features, _ = batch(sentence_encoder, loss_options, SETS[PAIR_KINDS_OF_OBJECTIVE[loss_options.objective][0]]())
    whole = features[1]["input_ids"]
    with torch.no_grad():
        actual = loss([dict(column) for column in features], None)
        (vector, _) = vectors(sentence_encoder, features)
        logits = loss.decoder(input_ids=whole[:, :-1], encoder_hidden_states=vector[:, None], use_cache=False).logits
        expected = functional.cross_entropy(logits.flatten(0, 1), whole[:, 1:].flatten(), ignore_index=0)
    assert float(actual) == pytest.approx(float(expected), abs=1e-5)


def test_gathers_for_simcse_only() -> None:
    shared = {objective: negatives_of_processes(options(objective)) for objective in SentenceObjective}
    assert {objective for objective, how in shared.items() if how == "gathered"} == {*IN_BATCH_OBJECTIVES}
    assert {how for objective, how in shared.items() if objective not in IN_BATCH_OBJECTIVES} == {"none"}
    assert sentence_loss(model(), options(IN_BATCH_OBJECTIVES[0]), processes=2).gather_across_devices


def test_rejects_base_without_decoder() -> None:
    encoder = model()
    encoder[0].auto_model.config = type("OtherConfig", (), {})()
    with pytest.raises(OptionError, match="needs a base that can be a decoder") as error:
        sentence_loss(encoder, options(SentenceObjective.TSDAE))
    assert error.value.code == "no_decoder"


@pytest.mark.parametrize("objective", CrossSentenceObjective)
def test_cross_encoder_losses_match_formulas(objective: CrossSentenceObjective) -> None:
    labels = 3 if objective is CrossSentenceObjective.CROSS_ENTROPY else 1
    cross_encoder = load_cross_encoder(find_model(tiny_base()), [], labels, new_head=True, resized=True).eval()
    pairs = make_labelled_pairs() if labels == 3 else make_scored_pairs()
    first, second = (list(column)[:ROWS] for column in pairs.texts)
    right = torch.tensor((pairs.values if labels == 3 else pairs.gold)[:ROWS].tolist())
    with torch.no_grad():
        actual = cross_sentence_loss(cross_encoder, objective)([first, second], right)
        logits = cross_encoder(cross_encoder.preprocess(list(zip(first, second, strict=True))))["scores"]
    match objective:
        case CrossSentenceObjective.BINARY_CROSS_ENTROPY:
            expected = functional.binary_cross_entropy_with_logits(logits.flatten(), right)
        case CrossSentenceObjective.MSE:
            expected = functional.mse_loss(logits.flatten().sigmoid(), right)
        case _:
            expected = functional.cross_entropy(logits, right.long())
    assert float(actual) == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize(("share", "alike"), [(0.0, True), (0.1, False)])
def test_no_dropout_gives_identical_vectors(share: float, alike: bool) -> None:
    encoder = model().train()
    for module in encoder.modules():  # no attention dropout, as on a CPU
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    set_hidden_dropout(encoder, share)
    torch.manual_seed(0)
    with torch.no_grad():
        twice = vectors(encoder, [encoder.preprocess(make_sentences(ROWS))] * 2)
    cosines = functional.cosine_similarity(*twice).numpy()
    if alike:
        np.testing.assert_allclose(cosines, 1, atol=1e-6)
    else:
        assert cosines.max() < 0.9999
        assert cosines.min() > 0.5


def test_rejects_base_without_dropout() -> None:
    encoder = model()
    for parent in encoder[0].auto_model.modules():
        for name, child in list(parent.named_children()):
            if isinstance(child, torch.nn.Dropout):
                setattr(parent, name, torch.nn.Identity())
    with pytest.raises(OptionError, match="dropout cannot be set"):
        set_hidden_dropout(encoder, 0.1)


@pytest.mark.parametrize("pooling", SentencePooling)
def test_saves_selected_pooling(pooling: SentencePooling, tmp_path: Any) -> None:
    encoder = model()
    texts = make_sentences(4)
    set_sentence_pooling(encoder, pooling)
    encoded = encoder.encode(texts)
    encoder.save_pretrained(str(tmp_path), create_model_card=False)
    np.testing.assert_allclose(load_bi_encoder(find_model(str(tmp_path)), []).encode(texts), encoded, atol=1e-6)
    tokens = encoder.tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model()[0].auto_model(**tokens, output_hidden_states=True).hidden_states
    mask = tokens["attention_mask"][:, :, None]
    first_and_last = (states[1] + states[-1]) / 2
    mean = (states[-1] * mask).sum(1) / mask.sum(1)
    expected = {
        **dict.fromkeys((SentencePooling.BASE, SentencePooling.MEAN), mean),
        SentencePooling.CLS: states[-1][:, 0],
        SentencePooling.MAX: states[-1].masked_fill(mask == 0, -1e9).amax(1),
        SentencePooling.FIRST_LAST_AVERAGE: (first_and_last * mask).sum(1) / mask.sum(1),
    }[pooling]
    np.testing.assert_allclose(encoded, expected.numpy(), atol=1e-5)


def test_deletes_words_with_given_probability() -> None:
    many = [" ".join(f"w{number}" for number in range(50))] * 200
    left = delete_words(many, 0.6, seed=1)
    assert sum(len(sentence.split()) for sentence in left) / 10_000 == pytest.approx(0.4, abs=0.02)
    word_lists = [sentence.split() for sentence in left]
    assert all(words == sorted(words, key=lambda word: int(word[1:])) for words in word_lists)
    assert delete_words(many, 0.6, seed=1) == left != delete_words(many, 0.6, seed=2)
    assert delete_words(["one", "", "a b"], 0.99, seed=0)[:2] == ["one", ""]
    assert delete_words(["a b c"], 0.0, seed=0) == ["a b c"]
