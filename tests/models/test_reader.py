"""Windows against the tokenizer's own way to cut a pair, a reader's spans against every span summed by hand."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.models import reader as span_reader
from mrc_workbench.models import reader_networks as networks
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import Precision, length_batched_passes
from mrc_workbench.models.reader import SpanOptions, SpanReader, SpanTokens
from mrc_workbench.models.reader_networks import FOLLOWS, GUESSES, MaskedNetwork, load_masked, new_masked
from mrc_workbench.models.sources import STARTER, find_model
from tests.doubles import raises_failure
from tests.models.worlds import sharpened
from tests.tiny_models import SENTENCES, TINY, build_bi_encoder, build_cross_encoder_base, with_head

pytestmark = pytest.mark.slow

WORDS = " ".join(SENTENCES).split()
TEXT = st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)
rng = np.random.default_rng(0)
PAIRS = [(" ".join(rng.choice(WORDS, 3)), " ".join(rng.choice(WORDS, n))) for n in (1, 2, 5, 20, 40, 40, 90, 200)]
PIECES = 60
SMALL = {**TINY, "vocab_size": PIECES, "max_position_embeddings": 40, "pad_token_id": 0}
NETWORKS = {
    "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**SMALL)),
    "pairs": lambda: transformers.BertForPreTraining(transformers.BertConfig(**SMALL)),
    "roberta": lambda: transformers.RobertaForMaskedLM(transformers.RobertaConfig(**SMALL, type_vocab_size=1)),
    "another": lambda: transformers.DistilBertForMaskedLM(
        transformers.DistilBertConfig(vocab_size=PIECES, dim=32, n_layers=2, n_heads=2, hidden_dim=64, pad_token_id=0)
    ),
}


@pytest.fixture(scope="module", params=["bert", "roberta"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model_folder = tmp_path_factory.mktemp("model") / str(request.param)
    if request.param == "bert":
        return with_head(sharpened(build_bi_encoder(model_folder)), "QuestionAnswering")
    return with_head(sharpened(build_cross_encoder_base(model_folder, segment_types=1)), "QuestionAnswering")


@pytest.fixture(scope="module")
def reader(folder: Path) -> SpanReader:
    return SpanReader(find_model(str(folder)), options=SpanOptions(48, 12, 6), precision=Precision.FLOAT32)


def by_hand(reader: SpanReader, question: str, passage: str) -> tuple[float, int, int, float]:
    """Return the best span of all windows by plain transformers, and the score of no answer."""
    network = reader.model[0].model
    tokenizer = reader.model.tokenizer
    options = {"truncation": "only_second", "max_length": 48, "stride": 12, "return_overflowing_tokens": True}
    encoded = tokenizer(question, passage, return_offsets_mapping=True, **options)
    spans = []
    nothing = []
    for number, ids in enumerate(encoded["input_ids"]):
        owners = encoded.sequence_ids(number)
        given = {"input_ids": torch.tensor([ids])}
        if "token_type_ids" in encoded:
            given["token_type_ids"] = torch.tensor([encoded["token_type_ids"][number]])
        with torch.no_grad():
            logits = network(**given)
        allowed = torch.tensor([position == 0 or owner == 1 for position, owner in enumerate(owners)])
        sides = (logits.start_logits, logits.end_logits)
        shares = [torch.log_softmax(side[0].masked_fill(~allowed, -torch.inf), 0).tolist() for side in sides]
        nothing.append(shares[0][0] + shares[1][0])
        inside = [position for position, owner in enumerate(owners) if owner == 1]
        for first in inside:
            for last in (position for position in inside if first <= position < first + 6):
                start = encoded["offset_mapping"][number][first][0]
                end = encoded["offset_mapping"][number][last][1]
                spans.append((shares[0][first] + shares[1][last], start, end))
    score, start, end = max(spans)
    return score, start, end, min(nothing)


def test_best_span_equals_exhaustive_search(reader: SpanReader) -> None:
    read = reader.read(PAIRS)
    for row, (question, passage) in enumerate(PAIRS):
        score, start, end, nothing = by_hand(reader, question, passage)
        assert read.scores[row, 0] == pytest.approx(score, abs=1e-4)
        assert read.nothing[row] == pytest.approx(nothing, abs=1e-4)
        answer_text = passage[read.starts[row, 0] : read.ends[row, 0]]
        assert answer_text == passage[start:end].strip()


def test_spans_do_not_overlap_and_are_sorted(reader: SpanReader) -> None:
    read = reader.read(PAIRS, spans=3)
    assert (read.scores[:, :-1] >= read.scores[:, 1:]).all()
    assert read.scores[:, 0] == pytest.approx(reader.read(PAIRS).scores[:, 0], abs=1e-5)
    for starts, ends, scores in zip(read.starts, read.ends, read.scores, strict=True):
        spans = sorted((int(a), int(b)) for a, b, score in zip(starts, ends, scores, strict=True) if np.isfinite(score))
        assert all(first[1] <= second[0] for first, second in pairwise(spans))
    assert np.isneginf(read.scores[0, 1:]).all(), "a passage of one word has one span"


def test_empty_passage_has_no_answer(reader: SpanReader) -> None:
    read = reader.read([(WORDS[0], ""), (WORDS[0], WORDS[1])])
    assert (read.starts[0, 0], read.ends[0, 0]) == (0, 0)
    assert np.isneginf(read.scores[0, 0])
    assert np.isfinite(read.scores[1, 0])
    assert len(reader.read([])) == 0


def test_new_head_is_deterministic_and_loads_in_transformers(tmp_path: Path) -> None:
    base = find_model(str(build_cross_encoder_base(tmp_path / "base", segment_types=1)))
    first, second = (SpanReader(base, new_head=True) for _ in range(2))
    assert first.read(PAIRS).scores.tolist() == second.read(PAIRS).scores.tolist()
    first.model.save_pretrained(str(tmp_path / "saved"))
    assert not list((tmp_path / "saved").glob("*.bin"))
    network = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "saved")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    given = tokenizer(*PAIRS[3], return_tensors="pt")
    with torch.no_grad():
        assert torch.equal(network(**given).start_logits, first.model[0](dict(given))["starts"])


def test_stores_span_options(folder: Path, tmp_path: Path) -> None:
    model = SpanReader(find_model(str(folder))).model
    model.save_pretrained(str(tmp_path))
    source = find_model(str(tmp_path))
    assert span_reader.options_of(source) == SpanOptions()
    span_reader.save_options(tmp_path, SpanOptions(64, 16, 5))
    assert (span_reader.options_of(source), span_reader.threshold_of(source)) == (SpanOptions(64, 16, 5), None)
    span_reader.save_options(tmp_path, SpanOptions(64, 16, 5), -1.25)
    assert (span_reader.options_of(source), SpanReader(source).threshold) == (SpanOptions(64, 16, 5), -1.25)
    assert SpanReader(source).fingerprint != SpanReader(source, options=SpanOptions()).fingerprint
    (tmp_path / "reader.json").write_text('{"length": "x"}', encoding="utf-8")
    assert span_reader.options_of(source) == SpanOptions()


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder)


@settings(max_examples=60, deadline=None)
@given(question=st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join), passage=TEXT.filter(bool))
def test_windows_equal_library_windows(tokenizer: Any, question: str, passage: str) -> None:
    options = {"max_length": 32, "stride": 8, "return_overflowing_tokens": True}
    encoded = tokenizer(question, passage, truncation="only_second", **options)
    windows = SpanTokens(tokenizer, 512, SpanOptions(32, 8), "tiny").windows(question, passage)
    assert [window.ids.tolist() for window in windows] == encoded["input_ids"]


@settings(max_examples=60, deadline=None)
@given(question=TEXT, passage=TEXT, length=st.integers(12, 40), overlap=st.integers(0, 6))
def test_windows_cover_every_token(tokenizer: Any, question: str, passage: str, length: int, overlap: int) -> None:
    tokens = SpanTokens(tokenizer, 512, SpanOptions(length, overlap), "tiny")
    read = tokens.tokens_of(passage).ids
    seen: set[int] = set()
    for window in tokens.windows(question, passage):
        assert window.width <= length
        part = window.ids[window.start : window.start + window.last - window.first]
        assert part.tolist() == read[window.first : window.last].tolist()
        seen |= set(range(window.first, window.last))
    assert seen == set(range(len(read)))


def test_offsets_match_text(tokenizer: Any) -> None:
    tokens = SpanTokens(tokenizer, 512, SpanOptions(), "tiny")
    text = f"{WORDS[0]}  {WORDS[1]} {WORDS[2]}"
    offsets = tokens.tokens_of(text).offsets.tolist()
    assert text[offsets[0][0] : offsets[0][1]].strip() in WORDS[0]
    assert max(end for _, end in offsets) == len(text)


def test_batch_marks_allowed_positions(tokenizer: Any) -> None:
    tokens = SpanTokens(tokenizer, 512, SpanOptions(), "tiny")
    windows = [*tokens.windows(WORDS[0], f"{WORDS[1]} {WORDS[2]}"), *tokens.windows(WORDS[0], WORDS[1])]
    arrays = span_reader.batch(windows, 0, segments=True)
    assert arrays["input_ids"].shape == (2, windows[0].width)
    assert arrays["attention_mask"].sum(axis=1).tolist() == [windows[0].width, windows[1].width]
    allowed = [[0, *range(window.start, window.start + window.last - window.first)] for window in windows]
    assert [np.flatnonzero(row).tolist() for row in arrays["allowed"]] == allowed
    assert "token_type_ids" not in span_reader.batch(windows, 0, segments=False)


def test_rejects_tokenizer_without_offsets() -> None:
    class Slow:
        is_fast = False

    with raises_failure("no_letters", ModelError):
        SpanTokens(Slow(), 512, SpanOptions(), "old")


@pytest.mark.parametrize("wrong", [{"length": -1}, {"overlap": -1}, {"longest_answer": 0}, {"length": 9, "overlap": 6}])
def test_rejects_invalid_span_options(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must|least"):
        SpanOptions(**wrong)


def features(*, pairs: bool = False) -> dict[str, torch.Tensor]:
    """Five rows of different lengths, with some tokens to guess; the second has none."""
    rng = np.random.default_rng(0)
    lengths = np.array([12, 5, 30, 17, 30])
    inside = np.arange(30) < lengths[:, None]
    ids = np.where(inside, rng.integers(5, PIECES, size=inside.shape), 0)
    labels = np.where(inside & (rng.random(inside.shape) < 0.2), rng.integers(5, PIECES, size=ids.shape), -100)
    labels[1] = -100
    arrays = {
        "input_ids": ids,
        "attention_mask": inside.astype(np.int64),
        "token_type_ids": (inside & (np.arange(30) > lengths[:, None] // 2)).astype(np.int64),
        "labels": labels,
        "weights": np.full((5, 1), 5 / (labels >= 0).sum(), dtype=np.float32),
    }
    arrays |= {"follows": np.array([[0], [1], [1], [0], [1]])} if pairs else {}
    return {name: torch.from_numpy(value) for name, value in arrays.items()}


def masked_network(kind: str) -> tuple[Any, MaskedNetwork]:
    torch.manual_seed(0)
    network = NETWORKS[kind]().eval()
    return network, MaskedNetwork(network, None, 40)


@pytest.mark.parametrize("kind", NETWORKS)
def test_loss_equals_transformers(kind: str) -> None:
    network, ours = masked_network(kind)
    given = features(pairs=kind == "pairs")
    inputs = {name: given[name] for name in ("input_ids", "attention_mask", "labels")}
    if network.config.model_type == "bert":
        inputs["token_type_ids"] = given["token_type_ids"]
    if kind == "pairs":
        inputs["next_sentence_label"] = given["follows"][:, 0]
    theirs = network(**inputs).loss
    loss = ours(given)["losses"].mean()
    assert loss.item() == pytest.approx(theirs.item(), rel=1e-5)
    gradients = []
    for any_loss in (theirs, loss):
        network.zero_grad()
        any_loss.backward()
        named = network.named_parameters()
        gradients.append({name: weight.grad.clone() for name, weight in named if weight.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-4, atol=1e-6)


def test_blocks_and_length_batches_do_not_change_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    network, ours = masked_network("pairs")
    given = features(pairs=True)
    at_once = ours.score_tokens(given)
    monkeypatch.setattr(networks, "_MAX_LOGITS_PER_BLOCK", 2 * network.config.vocab_size)
    with torch.no_grad():
        few_at_a_time = ours.score_tokens(given)
    for name, values in few_at_a_time.items():
        torch.testing.assert_close(values, at_once[name])
    whole = ours(given)["losses"]
    with torch.no_grad(), length_batched_passes(ours, ("losses",), {"cpu": 40}):
        parts = ours(given)["losses"]
    torch.testing.assert_close(parts, whole)
    of_pairs = ours.score_tokens(given)["follow_losses"]
    once = ours(given)["losses"]
    ours.pairs_weight = 10.0
    torch.testing.assert_close(ours(given)["losses"] - once, 9 * of_pairs)


def test_scores_tokens_of_each_row() -> None:
    network, ours = masked_network("pairs")
    given = features(pairs=True)
    with torch.no_grad():
        judged = ours.score_tokens(given)
        output = network(**{name: given[name] for name in ("input_ids", "attention_mask", "token_type_ids")})
    chances = torch.log_softmax(output.prediction_logits, dim=-1)
    for row in range(5):
        masked_positions = [(position, int(label)) for position, label in enumerate(given["labels"][row]) if label >= 0]
        losses = [-chances[row, position, label].item() for position, label in masked_positions]
        assert judged["token_losses"][row].item() == pytest.approx(sum(losses), abs=1e-4)
        assert judged["hidden"][row] == len(masked_positions)
        right = [chances[row, position].argmax().item() == label for position, label in masked_positions]
        assert judged["right"][row] == sum(right)
    follows = given["follows"][:, 0]
    assert torch.equal(judged["follow_right"], output.seq_relationship_logits.argmax(dim=1) == follows)


def test_new_network_is_deterministic_and_loads_in_transformers(tmp_path: Path) -> None:
    tokenizer = load_masked(find_model(str(build_bi_encoder(tmp_path / "base")))).tokenizer
    sizes = SMALL | {"vocab_size": len(tokenizer)}
    first, same, other = (new_masked(sizes, tokenizer, pairs=True, seed=seed) for seed in (1, 1, 2))
    weights = [built[0].model.get_input_embeddings().weight for built in (first, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert first.new_heads == (GUESSES, FOLLOWS)
    first.save_pretrained(str(tmp_path / "saved"), create_model_card=False)
    plain = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "saved")
    given = {name: value for name, value in features().items() if name in ("input_ids", "attention_mask")}
    given["input_ids"] = given["input_ids"] % len(tokenizer)
    with torch.no_grad():
        assert torch.equal(plain(**given).logits, first[0].model(**given).prediction_logits)
    assert load_masked(find_model(str(tmp_path / "saved")), pairs=True).new_heads == ()


def test_reports_missing_prediction_layers_and_initializes_them_deterministically(tmp_path: Path) -> None:
    bare = build_bi_encoder(tmp_path / "bare")
    roberta = build_cross_encoder_base(tmp_path / "roberta")
    assert load_masked(find_model(str(bare))).new_heads == (GUESSES,)
    assert load_masked(find_model(str(bare)), pairs=True).new_heads == (GUESSES, FOLLOWS)
    assert load_masked(find_model(str(roberta))).new_heads == ()
    weights = [load_masked(find_model(str(bare)))[0].model.cls.predictions.transform.dense.weight for _ in range(2)]
    assert torch.equal(*weights)


def test_rejects_models_that_are_no_masked_language_model(tmp_path: Path) -> None:
    with raises_failure("no_pairs", ModelError):
        load_masked(find_model(str(build_cross_encoder_base(tmp_path / "roberta"))), pairs=True)
    with raises_failure("starter_language", ModelError):
        load_masked(find_model(STARTER))
    with raises_failure("starter_reader", ModelError):
        SpanReader(find_model(STARTER)).read(PAIRS)
