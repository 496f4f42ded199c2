"""Masked fractions and replacements, rows of tokens, random second segments, and perplexity with its intervals."""

import gc
import math
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from mrc_workbench.models.language import masking
from mrc_workbench.models.language.tokenizers import Specials, TokenFile, WholeWords, word_starts, write_tokens
from tests.doubles import raises_failure
from tests.labs.language import doubles
from tests.labs.language.doubles import BEGIN, END, SPECIALS, ids_of

SIZE = 30_000
SENTENCE = "학교에서 공부했다."  # its morphemes are 학교 에서 공부 하었 다 .
LETTERS = [(index, index + 1) for index, letter in enumerate(SENTENCE) if letter != " "]
PIECES = [(0, 2), (2, 4), (4, 6), (6, 7), (7, 9), (9, 10)]  # 학교 에서 ␣공 부 했다 .
LONG_PIECES = [(0, 3), (3, 4), (5, 8), (8, 10)]  # 학교에 서 공부했 다.
RNG = np.random.default_rng(0)
# millions, of BERT's vocabulary of 30,522 pieces; Turc et al. 2019, and Devlin et al. 2019 for large
PUBLISHED = {"tiny": 4.4, "mini": 11.2, "small": 28.8, "medium": 41.4, "base": 109.5, "large": 335.1}


def masker(**options: float) -> masking.Masker:
    return masking.Masker(masking.MaskingOptions(**options), doubles.MASK, doubles.special_ids(SIZE))


def batch(rng: np.random.Generator, rows: int = 6, width: int = 128) -> np.ndarray:
    """Text between [CLS] and [SEP], the end of it padding."""
    tokens = rng.integers(5, SIZE, size=(rows, width))
    tokens[:, 0] = 2
    tokens[:, width // 2] = 3
    tokens[:, -8:] = 0
    return tokens


def each(tokens: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)


def whole_or_not_at_all(hidden: np.ndarray, words: np.ndarray) -> bool:
    """Whether all tokens of every word are hidden, or none of them."""
    sizes = np.bincount(words)
    gone = np.bincount(words, weights=hidden)
    return bool(((gone == 0) | (gone == sizes)).all())


def test_helper_detects_partially_masked_words() -> None:
    words = np.array([0, 0, 1, 1, 1, 3])
    assert whole_or_not_at_all(np.array([True, True, False, False, False, True]), words)
    assert not whole_or_not_at_all(np.array([True, True, False, True, True, True]), words)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_masking_fractions_of_many_tokens(whole: bool) -> None:
    rng = np.random.default_rng(0)
    hides = masker()
    tokens = batch(rng, 120)
    text = tokens >= 5
    words = masking.words_of((rng.random(tokens.shape) < 0.6) | ~text) if whole else each(tokens)
    numbers = words + np.arange(len(words))[:, None] * words.shape[1]  # other words in every row
    seen = np.zeros(5, dtype=np.int64)  # text, hidden, as the mask, as another, as it is
    for _ in range(500):
        inputs, labels = hides.mask_tokens(tokens, words, rng)
        hidden = labels != masking.IGNORED
        assert not hidden[~text].any(), "a special token"
        assert whole_or_not_at_all(hidden[text], numbers[text])
        as_mask = hidden & (inputs == doubles.MASK)
        as_itself = hidden & (inputs == tokens)
        seen += [text.sum(), hidden.sum(), as_mask.sum(), (hidden & ~as_mask & ~as_itself).sum(), as_itself.sum()]
    assert seen[1] / seen[0] == pytest.approx(0.15, abs=0.001)
    assert seen[2:] / seen[1] == pytest.approx([0.8, 0.1, 0.1], abs=0.001)
    assert seen[2:].sum() == seen[1]


def test_masking_fractions_are_configurable() -> None:
    rng = np.random.default_rng(0)
    hides = masker(fraction=0.4, masked=0.5, random=0.5)
    tokens = batch(rng, 2000)
    inputs, labels = hides.mask_tokens(tokens, each(tokens), rng)
    hidden = labels != masking.IGNORED
    assert hidden.sum() / (tokens >= 5).sum() == pytest.approx(0.4, abs=0.005)
    assert (inputs[hidden] == doubles.MASK).mean() == pytest.approx(0.5, abs=0.01)
    assert (inputs[hidden] == tokens[hidden]).mean() < 0.001, "nothing is left as it is"
    assert np.array_equal(inputs[~hidden], tokens[~hidden])
    assert np.array_equal(labels[hidden], tokens[hidden])


def test_never_masks_or_inserts_special_tokens() -> None:
    rng = np.random.default_rng(1)
    tokens = batch(np.random.default_rng(0), 500)
    inputs, labels = masker(fraction=1.0, masked=0.0, random=1.0).mask_tokens(tokens, each(tokens), rng)
    special = tokens < 5
    assert (labels[special] == masking.IGNORED).all()
    assert np.array_equal(inputs[special], tokens[special])
    assert np.array_equal(labels[~special], tokens[~special])
    assert inputs[~special].min() >= 5
    assert len(np.unique(inputs)) > SIZE / 2, "any piece of text may stand there"


@pytest.mark.parametrize(
    ("text", "offsets", "whole_words", "starts"),
    [
        (SENTENCE, PIECES, WholeWords.SPACES, [1, 0, 1, 0, 0, 0]),
        (SENTENCE, PIECES, WholeWords.OFF, [1, 0, 1, 0, 0, 0]),
        # inside words, those that share a letter are one
        pytest.param(SENTENCE, LETTERS, WholeWords.MORPHEMES, [1, 0, 1, 0, 1, 0, 1, 1, 1], marks=pytest.mark.slow),
        # a token of several morphemes makes one word of them
        pytest.param(SENTENCE, LONG_PIECES, WholeWords.MORPHEMES, [1, 0, 1, 1], marks=pytest.mark.slow),
        # a ␣␣ three bytes ␣b: bytes of a letter and pieces of space belong to a word
        ("a  집 b", [(0, 1), (1, 3), (3, 4), (3, 4), (3, 4), (4, 6)], WholeWords.SPACES, [1, 1, 0, 0, 0, 1]),
        ("", np.zeros((0, 2), dtype=np.int64), WholeWords.SPACES, []),
    ],
)
def test_finds_word_starts(text: str, offsets: Any, whole_words: WholeWords, starts: list[int]) -> None:
    (is_start,) = word_starts([text], [np.array(offsets)], whole_words)
    assert is_start.dtype == bool
    assert is_start.tolist() == starts


def written(folder: Path, texts: list[str]) -> TokenFile:
    write_tokens(folder, iter(texts), doubles.LetterTokenizer(), SPECIALS, WholeWords.SPACES)
    return TokenFile.open(folder)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return doubles.documents(300)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> TokenFile:
    return written(tmp_path_factory.mktemp("tokens"), texts)


@pytest.mark.slow
def test_stores_all_tokens(file: TokenFile, texts: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert file.tokens.tolist() == doubles.token_stream(texts)
    assert np.diff(file.bounds).tolist() == [len(ids_of(text)) + 1 for text in texts]
    tokens = [token for token in doubles.token_stream(texts) if token != END]
    assert np.array_equal(file.counts, np.bincount(tokens, minlength=56))
    words = sum(len(text.split()) for text in texts)
    assert int(file.starts.sum()) == words + len(texts), "of every word, and of every [SEP]"
    monkeypatch.setattr("mrc_workbench.models.language.tokenizers._CHARACTERS_AT_ONCE", 1000)
    assert np.array_equal(written(tmp_path, texts).tokens, file.tokens), "however many are cut together"


@pytest.mark.slow
def test_tokenizing_memory_does_not_grow_with_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for some numbers of each document, fewer than its tokens."""
    monkeypatch.setattr("mrc_workbench.models.language.tokenizers._CHARACTERS_AT_ONCE", 1000)

    def most(count: int) -> int:
        gc.collect()
        tracemalloc.start()
        try:
            texts = (f"{number:04d} " * 250 for number in range(count))
            write_tokens(tmp_path / str(count), texts, doubles.LetterTokenizer(), SPECIALS, WholeWords.SPACES)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    most(10)  # warm-up
    assert most(60) - most(10) < 50 * 500, "the tokens of a document alone are two thousand bytes"


def test_tokenizes_documents_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.models.language.tokenizers._CHARACTERS_AT_ONCE", 4)
    together: list[list[str]] = []

    class Noted(doubles.LetterTokenizer):
        def __call__(self, texts: list[str], **more: Any) -> Any:
            together.append(texts)
            return super().__call__(texts, **more)

    write_tokens(tmp_path, iter(["abc", "de", "f", "ghijk", "l"]), Noted(), SPECIALS, WholeWords.SPACES)
    assert together == [["abc", "de"], ["f", "ghijk"], ["l"]]


def test_tokens_stay_on_disk(file: TokenFile) -> None:
    for array in (file.tokens, file.starts):
        assert isinstance(array.base, np.memmap)
    pairs = masking.SegmentPairs(file, 64, SPECIALS)
    assert pairs.pairs.nbytes + pairs.document.nbytes == 32 * len(pairs)


def test_packed_rows_concatenate_documents(file: TokenFile, texts: list[str]) -> None:
    blocks = masking.PackedBlocks(file, 32, SPECIALS)
    every = doubles.token_stream(texts)
    assert len(blocks) == len(every) // 30
    rows = blocks.read(range(len(blocks)), RNG)
    assert rows.tokens[:, 1:-1].ravel().tolist() == every[: len(blocks) * 30]
    assert (rows.tokens[:, 0] == BEGIN).all()
    assert (rows.tokens[:, -1] == END).all()
    assert not rows.segments.any()
    assert not (rows.tokens == doubles.PAD).any()
    assert set(rows.lengths.tolist()) == set(blocks.lengths().tolist()) == {32}
    assert rows.follows is None


def test_numbers_words_of_rows(tmp_path: Path) -> None:
    blocks = masking.PackedBlocks(written(tmp_path, ["ab cde f", "gh"]), 20, SPECIALS)
    assert len(blocks) == 1
    rows = blocks.read([0], RNG)
    assert rows.tokens[0].tolist() == [BEGIN, *ids_of("abcdef"), END, *ids_of("gh"), END, END]
    assert rows.words[0].tolist() == [0, 1, 1, 2, 2, 2, 3, 4, 5, 5, 6, 7]
    assert blocks.lengths().tolist() == [12]


def test_pairs_split_documents_at_word_starts(file: TokenFile, texts: list[str]) -> None:
    pairs = masking.SegmentPairs(file, 64, SPECIALS)
    for number, text in enumerate(texts):
        own = pairs.pairs[pairs.document == number]
        ends = [0, *np.cumsum([len(word) for word in text.split()]).tolist()]
        first = int(file.bounds[number])
        assert (own[0, 0], own[-1, 2]) == (first, first + len(ids_of(text)))
        assert np.array_equal(own[1:, 0], own[:-1, 2])
        if len(ends) > 5 * len(own):
            assert set((own - first).ravel().tolist()) <= set(ends)
        assert (np.diff(own, axis=1) > 0).all()
        assert len(own) == -(-len(ids_of(text)) // 61)


@pytest.mark.slow
def test_random_pair_combines_two_documents(file: TokenFile) -> None:
    """With a distinct token at each position, tokens identify their source."""
    numbered_file = replace(file, tokens=len(SPECIALS) + np.arange(len(file.tokens)))
    pairs = masking.SegmentPairs(numbered_file, 64, Specials(-1, -2, -3))
    rng = np.random.default_rng(4)
    rows = rng.integers(len(pairs), size=10_000).tolist()
    read = pairs.read(rows, rng)
    assert read.follows is not None
    for row, tokens, segments, follows in zip(rows, read.tokens, read.segments, read.follows, strict=True):
        text = tokens >= 0
        first, second = (tokens[text & (segments == of)] - len(SPECIALS) for of in (0, 1))
        positions = [np.searchsorted(file.bounds, part, side="right") - 1 for part in (first, second)]
        documents_of = [np.unique(position).tolist() for position in positions]
        assert documents_of[0] == [pairs.document[row]], "a segment is of one document"
        start, middle, end = pairs.pairs[row].tolist()
        assert first.tolist() == list(range(start, start + len(first)))
        if follows == masking.NEXT:
            assert second.tolist() == list(range(middle, middle + len(second)))
            assert start + len(first) <= middle
            assert middle + len(second) <= end
        else:
            assert len(documents_of[1]) == 1
            assert documents_of[1] != documents_of[0]
    assert binomtest(int((read.follows == masking.NEXT).sum()), 10_000, 0.5).pvalue > 0.01


def test_pair_layout_matches_bert(tmp_path: Path) -> None:
    pairs = masking.SegmentPairs(written(tmp_path, ["ab cd", "ef"]), 16, SPECIALS)
    real = next(pair for _ in range(50) if (pair := pairs.read([0], RNG)).follows is not None and not pair.follows[0])
    assert real.tokens[0].tolist() == [BEGIN, *ids_of("ab"), END, *ids_of("cd"), END]
    assert real.segments[0].tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert real.words[0].tolist() == [0, 1, 1, 2, 3, 3, 4]


def test_copies_and_missing_text_do_not_count_as_other_documents(tmp_path: Path) -> None:
    pairs = masking.SegmentPairs(written(tmp_path, ["abcd"] * 50 + ["efgh"]), 16, SPECIALS)
    rng = np.random.default_rng(0)
    read = pairs.read([0] * 40, rng)
    assert read.follows is not None
    seconds = np.where(read.segments == 1, read.tokens, 0)[read.follows == masking.RANDOM]
    assert len(seconds)
    assert set(seconds[seconds >= 5].tolist()) == set(ids_of("efgh"))
    with raises_failure("one_document"):
        masking.SegmentPairs(written(tmp_path / "one", ["abcd"] * 3), 16, SPECIALS)
    with raises_failure("no_tokens"):
        masking.PackedBlocks(written(tmp_path / "none", []), 16, SPECIALS)


def test_truncates_longer_segment(tmp_path: Path) -> None:
    pairs = masking.SegmentPairs(written(tmp_path, ["mnopqrstuvwx", "a bcdefghijkl"]), 16, SPECIALS)
    read = pairs.read([0] * 40, np.random.default_rng(0))
    ends = {tuple(tokens[segments == 1].tolist()) for tokens, segments in zip(read.tokens, read.segments, strict=True)}
    assert (*ids_of("bcdefgh"), END) in ends, "beside the six letters of the first, which stay"


def test_rows_are_deterministic_for_seed(file: TokenFile) -> None:
    pairs = masking.SegmentPairs(file, 64, SPECIALS)
    first, again = (pairs.read([5, 1, 9], np.random.default_rng([0, 5, 1, 9])) for _ in range(2))
    assert np.array_equal(first.tokens, again.tokens)
    assert np.array_equal(np.asarray(first.follows), np.asarray(again.follows))


def guesses_of(
    losses: list[float], hidden: list[int], right: list[int], follow_right: Sequence[bool] = ()
) -> masking.MaskedPredictions:
    columns = (np.array(losses), np.array(hidden), np.array(right), np.array(follow_right, dtype=bool))
    return masking.MaskedPredictions(*columns)


def test_perplexity_averages_over_tokens() -> None:
    # three tokens of P = 1/2, 1/4 and 1/8 in one row, one of P = 1/2 in another, none in a third
    losses = [math.log(2) + math.log(4) + math.log(8), math.log(2), 0.0]
    means = guesses_of(losses, [3, 1, 0], [2, 0, 0], [True, False, True]).means()
    assert means["perplexity"] == pytest.approx((2 * 4 * 8 * 2) ** (1 / 4))
    assert means["log_likelihood"] == pytest.approx(-math.log(2 * 4 * 8 * 2) / 4)
    assert means["masked_accuracy"] == pytest.approx(2 / 4)
    assert means["next_accuracy"] == pytest.approx(2 / 3)
    without_pairs = guesses_of([7 * math.log(8000)] * 5, [7] * 5, [0] * 5)  # P = 1/8000 of every token
    assert without_pairs.means()["perplexity"] == pytest.approx(8000)
    assert "next_accuracy" not in without_pairs.means() | without_pairs.intervals()


def test_unigram_guesses_by_hand() -> None:
    counts = np.array([9, 5, 2, 0, 0])  # of text 7 tokens of 4 pieces: P = 6/11, 3/11, 1/11, 1/11
    labels = [np.array([masking.IGNORED, 1, 2]), np.array([masking.IGNORED, masking.IGNORED]), np.array([3, 1])]
    unigram = masking.unigram_predictions(labels, counts, np.arange(5) < 1)
    assert unigram.means()["perplexity"] == pytest.approx((11 / 6 * 11 / 3 * 11 / 1 * 11 / 6) ** (1 / 4))
    assert unigram.means()["masked_accuracy"] == pytest.approx(2 / 4), "the most frequent piece of text is always said"
    assert unigram.hidden.tolist() == [2, 0, 2]


def test_intervals_contain_value_and_shrink_with_rows() -> None:
    rng = np.random.default_rng(0)
    widths = []
    for count in (50, 800):
        hidden = rng.integers(5, 15, size=count)
        right = rng.binomial(hidden, 0.3)
        losses = hidden * rng.uniform(3, 5, size=count)
        guessed = masking.MaskedPredictions(losses, hidden, right, rng.random(count) < 0.7)
        for name, (low, high) in guessed.intervals().items():
            assert low < guessed.means()[name] < high
        low, high = guessed.intervals()["masked_accuracy"]
        widths.append(high - low)
        # rows are drawn, tokens of a row are independent here: as of a binomial
        expected_width = 2 * 1.96 * math.sqrt(0.3 * 0.7 / hidden.sum())
        assert high - low == pytest.approx(expected_width, rel=0.25)
    assert widths[1] < widths[0] / 3


def test_proportion_interval_is_wilson() -> None:
    right = np.arange(40) < 25
    z = 1.959963984540054
    n = 40
    p = 25 / 40
    middle = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    expected = ((middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n))
    assert masking.proportion_interval(right) == pytest.approx(expected)
    covered = [low <= 0.5 <= high for k in range(41) for low, high in (masking.proportion_interval(np.arange(40) < k),)]
    assert sum(binom.pmf(np.flatnonzero(covered), 40, 0.5)) == pytest.approx(0.95, abs=0.02)


def test_gain_resamples_same_rows() -> None:
    before = guesses_of([9.0] * 20, [3] * 20, [1] * 20)
    after = guesses_of([6.0] * 20, [3] * 20, [2] * 20)
    difference, (low, high) = after.gain(before)
    assert difference == pytest.approx(1 / 3)
    assert (low, high) == pytest.approx((1 / 3, 1 / 3)), "every row gains as much as every other"


def test_round_trips_stored_guesses() -> None:
    guesses = guesses_of([1.5, 2.5], [3, 1], [2, 0], [True, False])
    again = masking.MaskedPredictions.from_dict(guesses.to_dict())
    assert again.means() == guesses.means()
    assert again.follow_right.dtype == np.bool_


@pytest.mark.slow
@pytest.mark.parametrize("size", masking.Size)
def test_parameter_counts_match_publication(size: masking.Size) -> None:
    import torch
    from transformers import BertConfig, BertModel

    with torch.device("meta"):
        network = BertModel(BertConfig(**masking.configuration(size, 30_522, 128, 0)))
    weights = sum(parameter.numel() for parameter in network.parameters())
    assert weights / 1e6 == pytest.approx(PUBLISHED[size], abs=0.1)
    assert network.config.hidden_size % network.config.num_attention_heads == 0
    assert network.config.hidden_size // network.config.num_attention_heads == 64


def test_configurations_of_all_sizes() -> None:
    assert masking.SHAPES.keys() == set(masking.Size)
    assert masking.configuration(masking.Size.TINY, 1000, 128, 0)["max_position_embeddings"] == 512
    assert masking.configuration(masking.Size.TINY, 1000, 1024, 0)["max_position_embeddings"] == 1024
