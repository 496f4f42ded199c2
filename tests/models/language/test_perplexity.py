"""Perplexity by hand, of a model and of frequencies, and how sure it is; and sizes with the weights published."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import binom

from mrc_workbench.models.language import masking

# millions, of BERT's vocabulary of 30,522 pieces; Turc et al. 2019, and Devlin et al. 2019 for large
PUBLISHED = {"tiny": 4.4, "mini": 11.2, "small": 28.8, "medium": 41.4, "base": 109.5, "large": 335.1}


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
