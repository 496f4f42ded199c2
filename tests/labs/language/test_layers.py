"""Scores by layer and pooling, compared with plain transformers, SciPy's correlation and nDCG by ir-measures."""

from collections.abc import Sequence
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from scipy.stats import spearmanr

from mrc_workbench.data.pairs import PairKind, PairSet
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.labs.language import layers as layers_module
from mrc_workbench.labs.language.layers import PoolingMode, sample_questions
from mrc_workbench.labs.language.network import TransformerModel, model_prompts
from tests.doubles import raises_failure
from tests.labs.language.tiny_bert import BELLY, N_LAYERS, PEAR, SHIP, write_model

TEXTS = (SHIP, PEAR, BELLY, "나는 한강에서 먹었다", "서울", "배를 먹었다", "담배")
PAIRS = [(0, 1), (0, 2), (1, 5), (3, 4), (0, 5), (4, 6), (2, 3)]
GOLD = [1.0, 0.5, 4.5, 2.0, 2.5, 0.0, 1.5]
RELEVANT_BY_QUESTION = {"나는 배": (0, 5), "사과를 먹었다": (1,), "서울에서 먹다": (4,)}


def pairs() -> PairSet:
    texts = [[TEXTS[pair[side]] for pair in PAIRS] for side in (0, 1)]
    return PairSet.from_columns("few", PairKind.SCORED, texts, GOLD, scale=(0, 5))


def vectors_by_layer(network: TransformerModel, texts: Sequence[str]) -> dict[tuple[int, PoolingMode], np.ndarray]:
    """Return vectors by layer and pooling; encodes one text at a time, so there is no padding."""
    states_by_text = [network.hidden_states(text).astype(np.float64) for text in texts]
    vectors = {}
    for layer in range(N_LAYERS + 1):
        states = [text_states[layer] for text_states in states_by_text]
        vectors[layer, PoolingMode.MEAN] = np.array([hidden.mean(axis=0) for hidden in states])
        vectors[layer, PoolingMode.CLS] = np.array([hidden[0] for hidden in states])
        vectors[layer, PoolingMode.MAX] = np.array([hidden.max(axis=0) for hidden in states])
    return vectors


def cosine_matrix(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    lengths = [np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (first, second)]
    return (first / lengths[0]) @ (second / lengths[1]).T


@pytest.mark.slow
def test_correlations_match_scipy(network: TransformerModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers_module, "_PAIR_BATCH_SIZE", 3)
    fractions: list[float] = []
    layer_scores_ = layers_module.score_layers(network, pairs(), fractions.append)
    assert layer_scores_.spearman.shape == (N_LAYERS + 1, 3)
    for (layer, pooling), vectors in vectors_by_layer(network, TEXTS).items():
        correlation = layer_scores_.spearman[layer, [*PoolingMode].index(pooling)]
        cosines = cosine_matrix(vectors, vectors)
        if layer == 0 and pooling is PoolingMode.CLS:
            assert np.isnan(correlation)  # equal for all sentences
        else:
            assert correlation == pytest.approx(spearmanr([cosines[pair] for pair in PAIRS], GOLD).statistic)
    assert fractions == pytest.approx([3 / 7, 6 / 7, 1])
    assert layer_scores_.pairs == 7


@pytest.mark.slow
def test_mean_pooling_matches_sentence_transformers(network: TransformerModel) -> None:
    from sentence_transformers import SentenceTransformer

    expected = SentenceTransformer(network.reference).encode([*TEXTS])  # mean pooling by default
    assert vectors_by_layer(network, TEXTS)[N_LAYERS, PoolingMode.MEAN] == pytest.approx(expected, abs=1e-5)


def test_best_layer_has_highest_score() -> None:
    assert layers_module.best_layer(np.array([[0.1, np.nan, 0.2], [0.5, 0.3, 0.4]])) == (1, PoolingMode.MEAN)
    values = np.array([[[0.1, 0.2], [np.nan, np.nan], [0.5, 0.4]], [[1.0, 0.0], [0.2, 0.2], [0.0, 0.6]]])
    means = layers_module.LayerSearch(values, small_set()).means
    assert layers_module.best_layer(means) == (1, PoolingMode.MEAN)
    assert means[0, 2] == pytest.approx(0.45)


@pytest.mark.slow
def test_rejects_unscored_and_few_pairs(network: TransformerModel) -> None:
    unscored = PairSet.from_columns("unscored", PairKind.SENTENCES, [[SHIP]])
    for pair_set, code in ((unscored, "no_scores"), (pairs().at(np.arange(2)), "few_pairs")):
        with raises_failure(code):
            layers_module.score_layers(network, pair_set)


def small_set() -> QuestionSet:
    passages = [Passage(f"p{index}", text, "한강" if index == 4 else "") for index, text in enumerate(TEXTS)]
    questions = []
    for index, (text, rows) in enumerate(RELEVANT_BY_QUESTION.items()):
        questions.append(Question(f"q{index}", text, (), tuple(f"p{row}" for row in rows)))
    return QuestionSet("small", passages, tuple(questions))


def large_set(questions: int = 500, passages: int = 800) -> QuestionSet:
    """Passages i and i + 1 are relevant to question i."""
    all_passages = [Passage(f"p{index}", f"text {index}") for index in range(passages)]
    records = [Question(f"q{index}", f"{index}?", (), (f"p{index}", f"p{index + 1}")) for index in range(questions)]
    return QuestionSet("large", all_passages, tuple(records))


def ndcg_by_ir_measures(scores: np.ndarray, relevant: np.ndarray) -> list[float]:
    qrels, run = (
        {f"q{row}": {f"p{index}": value for index, value in enumerate(values)} for row, values in enumerate(matrix)}
        for matrix in (relevant.astype(int).tolist(), scores.tolist())
    )
    ndcg_by_query = {item.query_id: item.value for item in ir_measures.iter_calc([ir_measures.nDCG @ 10], qrels, run)}
    return [ndcg_by_query[f"q{row}"] for row in range(len(scores))]


@pytest.mark.parametrize(("passages", "most_relevant"), [(40, 1), (40, 15), (4, 3)])
def test_ndcg_matches_ir_measures(passages: int, most_relevant: int) -> None:
    rng = np.random.default_rng(passages + most_relevant)
    scores = rng.normal(size=(30, passages))
    relevant = np.zeros((30, passages), dtype=bool)
    for row in relevant:
        row[rng.permutation(passages)[: rng.integers(1, most_relevant + 1)]] = True
    assert layers_module.ndcg(scores, relevant) == pytest.approx(ndcg_by_ir_measures(scores, relevant))


def test_ties_keep_order_and_single_question_is_rejected() -> None:
    relevant = np.array([[False, True, False]])
    assert layers_module.ndcg(np.ones((1, 3)), relevant) == pytest.approx([1 / np.log2(3)])
    with raises_failure("few_questions"):
        sample_questions(large_set(), np.array([3]))


@pytest.mark.slow
def test_search_matches_transformers(network: TransformerModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers_module, "_TEXT_BATCH_SIZE", 3)
    fractions: list[float] = []
    search = layers_module.search_with_layers(network, small_set(), on_progress=fractions.append)
    assert search.ndcg.shape == (N_LAYERS + 1, len(PoolingMode), len(RELEVANT_BY_QUESTION))
    texts = [*RELEVANT_BY_QUESTION, *TEXTS]
    texts[texts.index("서울")] = "한강 서울"  # with the title
    relevant = small_set().relevance.toarray()
    for (layer, pooling), vectors in vectors_by_layer(network, texts).items():
        scores_of_layer = search.ndcg[layer, [*PoolingMode].index(pooling)]
        scores = cosine_matrix(*np.split(vectors, [len(RELEVANT_BY_QUESTION)]))
        if layer == 0 and pooling is PoolingMode.CLS:
            assert np.isnan(scores_of_layer).all()  # equal for all texts
        else:
            assert scores_of_layer == pytest.approx(ndcg_by_ir_measures(scores, relevant))
    assert fractions == sorted(fractions)
    assert fractions[-1] == pytest.approx(1)


@pytest.mark.slow
def test_prepends_prompts(network: TransformerModel) -> None:
    bare = small_set()
    passages = [Passage(record.id, f"나는 {record.title} {record.text}".replace("  ", " ")) for record in bare.passages]
    questions = tuple(Question(record.id, f"서울 {record.text}", (), record.relevant) for record in bare.questions)
    expected = layers_module.search_with_layers(network, QuestionSet("prompted", passages, questions)).ndcg
    search = layers_module.search_with_layers(network, bare, ("서울 ", "나는 "))
    assert search.ndcg == pytest.approx(expected, nan_ok=True)


@pytest.mark.slow
def test_reads_prompts_of_model_folder(tmp_path: Path) -> None:
    source = write_model(tmp_path)
    assert model_prompts(source) == ("", "")
    path = tmp_path / "config_sentence_transformers.json"
    path.write_text('{"prompts": {"query": "query: ", "passage": "passage: "}}')
    assert model_prompts(source) == ("query: ", "passage: ")
    path.write_text('{"prompts": {"clustering": "c: "}, "default_prompt_name": "clustering"}')
    assert model_prompts(source) == ("c: ", "c: ")


def test_sample_contains_relevant_and_other_passages() -> None:
    full_set = large_set()
    sample = sample_questions(large_set(), np.arange(100, 500))
    assert len(sample.passages) == layers_module.MAX_PASSAGES
    assert 0 < len(sample.questions) <= layers_module.MAX_QUESTIONS
    assert {int(record.id[1:]) for record in sample.questions} <= {*range(100, 500)}
    for record in sample.questions:
        assert record.relevant == full_set.questions[int(record.id[1:])].relevant
    rows = [int(record.id[1:]) for record in sample.passages]
    assert rows != sorted(rows)
    assert sample_questions(large_set(), np.arange(100, 500)).fingerprint == sample.fingerprint
    assert sample_questions(large_set(), np.arange(100, 500), seed=1).fingerprint != sample.fingerprint
    sample = sample_questions(large_set(), np.array([3, 7]))
    assert sorted(question.id for question in sample.questions) == ["q3", "q7"]
    assert len(sample.passages) == layers_module.MAX_PASSAGES
    assert len(sample_questions(small_set(), np.arange(3)).passages) == len(TEXTS)
