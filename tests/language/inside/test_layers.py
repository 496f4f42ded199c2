"""The best layer and pooling, against vectors by plain transformers, pooled by sentence-transformers and by hand."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from data.pairs.records import PairKind, PairSet
from language.inside import layers
from language.inside.layers import LayerScores, Pooling, layer_scores
from language.inside.network import Network, load_encoder
from language.text_file import LanguageError
from tests.language.tiny_bert import BELLY, LAYERS, PEAR, SHIP, written

pytestmark = pytest.mark.slow
SENTENCES = (SHIP, PEAR, BELLY, "나는 한강에서 먹었다", "서울", "배를 먹었다", "담배")
PAIRS = [(0, 1), (0, 2), (1, 5), (3, 4), (0, 5), (4, 6), (2, 3)]
GOLD = [1.0, 0.5, 4.5, 2.0, 2.5, 0.0, 1.5]


def pairs() -> PairSet:
    texts = [[SENTENCES[pair[side]] for pair in PAIRS] for side in (0, 1)]
    return PairSet.of("few", PairKind.SCORED, texts, GOLD, scale=(0, 5))


@pytest.fixture
def network(tmp_path: Path) -> Network:
    return load_encoder(written(tmp_path))


def their_vectors(network: Network, layer: int, pooling: Pooling) -> np.ndarray:
    """One sentence at a time, so that there is no padding."""
    found = []
    for sentence in SENTENCES:
        state = network.hidden_states(sentence)[layer]
        found.append({"mean": state.mean(axis=0), "cls": state[0], "max": state.max(axis=0)}[pooling])
    return np.array(found, dtype=np.float64)


def test_each_layer_and_pooling_has_the_correlation_of_scipy(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_PAIRS_AT_ONCE", 3)
    shares: list[float] = []
    found = layer_scores(network, pairs(), shares.append)
    assert found.spearman.shape == (LAYERS + 1, 3)
    for layer in range(LAYERS + 1):
        for place, pooling in enumerate(Pooling):
            vectors = their_vectors(network, layer, pooling)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            cosines = [float(vectors[one] @ vectors[other]) for one, other in PAIRS]
            if layer == 0 and pooling is Pooling.CLS:
                assert np.isnan(found.spearman[layer, place])  # [CLS] before it saw the sentence
            else:
                assert found.spearman[layer, place] == pytest.approx(spearmanr(cosines, GOLD).statistic)
    assert shares == pytest.approx([3 / 7, 6 / 7, 1])
    assert found.pairs == 7


def test_the_last_layer_pooled_is_what_sentence_transformers_makes(network: Network) -> None:
    from sentence_transformers import SentenceTransformer

    wanted = SentenceTransformer(network.reference).encode([*SENTENCES])  # mean pooling where nothing is said
    assert their_vectors(network, LAYERS, Pooling.MEAN) == pytest.approx(wanted, abs=1e-5)


def test_the_best_is_named() -> None:
    scores = LayerScores(np.array([[0.1, np.nan, 0.2], [0.5, 0.3, 0.4]]), 7)
    assert scores.best == (1, Pooling.MEAN)


def test_pairs_need_scores_and_there_must_be_some(network: Network) -> None:
    alone = PairSet.of("alone", PairKind.SENTENCES, [[SHIP]])
    for given, code in ((alone, "no_scores"), (pairs().at(np.arange(2)), "few_pairs")):
        with pytest.raises(LanguageError) as told:
            layer_scores(network, given)
        assert told.value.code == code
