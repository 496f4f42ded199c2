"""The best layer and pooling, against vectors by plain transformers, SciPy's correlation and nDCG by ir-measures."""

from collections.abc import Sequence
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from scipy.stats import spearmanr

from mrc_workbench.data.pairs import PairKind, PairSet
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.labs.language import layers as searching
from mrc_workbench.labs.language.layers import (
    LayerScores,
    LayerSearch,
    Pooling,
    layer_scores,
    layer_search,
    ndcg,
    sample_questions,
)
from mrc_workbench.labs.language.network import Network, prompts_of
from tests.labs.language.doubles import refused
from tests.labs.language.tiny_bert import BELLY, LAYERS, PEAR, SHIP, written

TEXTS = (SHIP, PEAR, BELLY, "나는 한강에서 먹었다", "서울", "배를 먹었다", "담배")
PAIRS = [(0, 1), (0, 2), (1, 5), (3, 4), (0, 5), (4, 6), (2, 3)]
GOLD = [1.0, 0.5, 4.5, 2.0, 2.5, 0.0, 1.5]


def pairs() -> PairSet:
    texts = [[TEXTS[pair[side]] for pair in PAIRS] for side in (0, 1)]
    return PairSet.of("few", PairKind.SCORED, texts, GOLD, scale=(0, 5))


def vectors_of(network: Network, texts: Sequence[str]) -> dict[tuple[int, Pooling], np.ndarray]:
    """By layer and pooling, one text at a time, so that there is no padding."""
    every = [network.hidden_states(text).astype(np.float64) for text in texts]
    pool = {"mean": lambda one: one.mean(axis=0), "cls": lambda one: one[0], "max": lambda one: one.max(axis=0)}
    return {
        (layer, pooling): np.array([pool[pooling](states[layer]) for states in every])
        for layer in range(LAYERS + 1)
        for pooling in Pooling
    }


def cosines_of(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    lengths = [np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (first, second)]
    return (first / lengths[0]) @ (second / lengths[1]).T


@pytest.mark.slow
def test_each_layer_and_pooling_has_the_correlation_of_scipy(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_PAIRS_AT_ONCE", 3)
    shares: list[float] = []
    found = layer_scores(network, pairs(), shares.append)
    assert found.spearman.shape == (LAYERS + 1, 3)
    for (layer, pooling), vectors in vectors_of(network, TEXTS).items():
        told, cosines = found.spearman[layer, [*Pooling].index(pooling)], cosines_of(vectors, vectors)
        if layer == 0 and pooling is Pooling.CLS:
            assert np.isnan(told)  # [CLS] before it saw the sentence
        else:
            assert told == pytest.approx(spearmanr([cosines[pair] for pair in PAIRS], GOLD).statistic)
    assert shares == pytest.approx([3 / 7, 6 / 7, 1])
    assert found.pairs == 7


@pytest.mark.slow
def test_the_last_layer_pooled_is_what_sentence_transformers_makes(network: Network) -> None:
    from sentence_transformers import SentenceTransformer

    wanted = SentenceTransformer(network.reference).encode([*TEXTS])  # mean pooling where nothing is said
    assert vectors_of(network, TEXTS)[LAYERS, Pooling.MEAN] == pytest.approx(wanted, abs=1e-5)


def test_the_best_layer_and_pooling_has_the_highest_mean() -> None:
    scores = LayerScores(np.array([[0.1, np.nan, 0.2], [0.5, 0.3, 0.4]]), 7)
    assert scores.best == (1, Pooling.MEAN)
    values = np.array([[[0.1, 0.2], [np.nan, np.nan], [0.5, 0.4]], [[1.0, 0.0], [0.2, 0.2], [0.0, 0.6]]])
    found = LayerSearch(values, small())
    assert found.best == (1, Pooling.MEAN)
    assert found.means[0, 2] == pytest.approx(0.45)


@pytest.mark.slow
def test_pairs_need_scores_and_there_must_be_some(network: Network) -> None:
    alone = PairSet.of("alone", PairKind.SENTENCES, [[SHIP]])
    for given, code in ((alone, "no_scores"), (pairs().at(np.arange(2)), "few_pairs")):
        with refused(code):
            layer_scores(network, given)


ASKED = {"나는 배": (0, 5), "사과를 먹었다": (1,), "서울에서 먹다": (4,)}


def small() -> QuestionSet:
    passages = [Passage(f"p{place}", text, "한강" if place == 4 else "") for place, text in enumerate(TEXTS)]
    questions = [
        Question(f"q{place}", text, (), tuple(f"p{one}" for one in own))
        for place, (text, own) in enumerate(ASKED.items())
    ]
    return QuestionSet("small", passages, tuple(questions))


def large(questions: int = 500, passages: int = 800) -> QuestionSet:
    """Question i asks for passages i and i + 1."""
    every = [Passage(f"p{place}", f"text {place}") for place in range(passages)]
    asked = [Question(f"q{place}", f"{place}?", (), (f"p{place}", f"p{place + 1}")) for place in range(questions)]
    return QuestionSet("large", every, tuple(asked))


def of_ir_measures(scores: np.ndarray, relevant: np.ndarray) -> list[float]:
    qrels = {f"q{row}": {f"p{place}": int(one) for place, one in enumerate(own)} for row, own in enumerate(relevant)}
    run = {f"q{row}": {f"p{place}": float(one) for place, one in enumerate(own)} for row, own in enumerate(scores)}
    found = {one.query_id: one.value for one in ir_measures.iter_calc([ir_measures.nDCG @ 10], qrels, run)}
    return [found[f"q{row}"] for row in range(len(scores))]


@pytest.mark.parametrize(("passages", "most_relevant"), [(40, 1), (40, 15), (4, 3)])
def test_ndcg_is_that_of_ir_measures(passages: int, most_relevant: int) -> None:
    rng = np.random.default_rng(passages + most_relevant)
    scores = rng.normal(size=(30, passages))
    relevant = np.zeros((30, passages), dtype=bool)
    for row in relevant:
        row[rng.permutation(passages)[: rng.integers(1, most_relevant + 1)]] = True
    assert ndcg(scores, relevant) == pytest.approx(of_ir_measures(scores, relevant))


def test_ties_keep_the_order_of_passages_and_one_question_is_too_few() -> None:
    relevant = np.array([[False, True, False]])
    assert ndcg(np.ones((1, 3)), relevant) == pytest.approx([1 / np.log2(3)])
    with refused("few_questions"):
        sample_questions(large(), np.array([3]))


@pytest.mark.slow
def test_every_layer_and_pooling_ranks_by_the_vectors_of_transformers(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "_AT_ONCE", 3)
    shares: list[float] = []
    found = layer_search(network, small(), on_progress=shares.append)
    assert found.ndcg.shape == (LAYERS + 1, len(Pooling), len(ASKED))
    texts = [*ASKED, *TEXTS]
    texts[texts.index("서울")] = "한강 서울"  # with its title
    relevant = small().relevance.toarray()
    for (layer, pooling), vectors in vectors_of(network, texts).items():
        told, scores = found.ndcg[layer, [*Pooling].index(pooling)], cosines_of(*np.split(vectors, [len(ASKED)]))
        if layer == 0 and pooling is Pooling.CLS:
            assert np.isnan(told).all()  # [CLS] before it saw the text
        else:
            assert told == pytest.approx(of_ir_measures(scores, relevant))
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)


@pytest.mark.slow
def test_prompts_stand_before_the_texts(network: Network) -> None:
    bare = small()
    told = QuestionSet(
        "told",
        [Passage(one.id, f"나는 {one.title} {one.text}".replace("  ", " ")) for one in bare.passages],
        tuple(Question(one.id, f"서울 {one.text}", (), one.relevant) for one in bare.questions),
    )
    wanted = layer_search(network, told).ndcg
    assert layer_search(network, bare, ("서울 ", "나는 ")).ndcg == pytest.approx(wanted, nan_ok=True)


@pytest.mark.slow
def test_prompts_are_those_of_the_models_folder(tmp_path: Path) -> None:
    source = written(tmp_path)
    assert prompts_of(source) == ("", "")
    path = tmp_path / "config_sentence_transformers.json"
    path.write_text('{"prompts": {"query": "query: ", "passage": "passage: "}}')
    assert prompts_of(source) == ("query: ", "passage: ")
    path.write_text('{"prompts": {"clustering": "c: "}, "default_prompt_name": "clustering"}')
    assert prompts_of(source) == ("c: ", "c: ")


def test_all_passages_that_answer_are_among_those_drawn() -> None:
    whole, few = large(), sample_questions(large(), np.arange(100, 500))
    assert len(few.passages) == searching.MOST_PASSAGES
    assert 0 < len(few.questions) <= searching.MOST_QUESTIONS
    assert {int(one.id[1:]) for one in few.questions} <= {*range(100, 500)}
    assert [one.relevant for one in few.questions] == [
        whole.questions[int(one.id[1:])].relevant for one in few.questions
    ]
    rows = [int(one.id[1:]) for one in few.passages]
    assert rows != sorted(rows)
    assert sample_questions(large(), np.arange(100, 500)).fingerprint == few.fingerprint
    assert sample_questions(large(), np.arange(100, 500), seed=1).fingerprint != few.fingerprint


def test_other_passages_are_added_where_few_answer() -> None:
    few = sample_questions(large(), np.array([3, 7]))
    assert sorted(one.id for one in few.questions) == ["q3", "q7"]
    assert len(few.passages) == searching.MOST_PASSAGES
    assert len(sample_questions(small(), np.arange(3)).passages) == len(TEXTS)
