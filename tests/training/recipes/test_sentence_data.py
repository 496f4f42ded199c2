import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from mrc_workbench.data.pairs import Label, PairKind, PairSet, split_pairs
from mrc_workbench.data.pairs.store import save_pairs
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.labs.embeddings.encoder import DistinctSentences
from mrc_workbench.training.options import OptionError, TrainingError
from mrc_workbench.training.recipes.sentence_data import (
    PAIR_FAMILY,
    PairMeasurement,
    PairPredictions,
    PairTrainingData,
    make_triples,
    predict_pairs,
)
from mrc_workbench.training.text_options import (
    PAIR_KINDS_OF_OBJECTIVE,
    CrossSentenceObjective,
    SentenceCrossEncoderOptions,
    SentenceObjective,
    SentenceOptions,
)
from tests.training.recipes.sentence_worlds import SETS, make_labelled_pairs, make_scored_pairs

SHARES = SplitOptions(0.2, 0.2)


def options(objective: SentenceObjective = SentenceObjective.COSENT, **changed: object) -> SentenceOptions:
    return SentenceOptions(base="folder", objective=objective, teacher="folder", **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", PairKind)
@pytest.mark.parametrize("objective", SentenceObjective)
def test_rejects_objective_for_other_pair_kinds(kind: PairKind, objective: SentenceObjective) -> None:
    pairs = SETS[kind]()
    if kind in PAIR_KINDS_OF_OBJECTIVE[objective]:
        PAIR_FAMILY.check(pairs, options(objective))
        return
    with pytest.raises(OptionError, match=f"{objective} learns from") as error:
        PAIR_FAMILY.check(pairs, options(objective))
    assert (error.value.option, error.value.code) == ("objective", "pair_kind")
    others = str(error.value).partition("use ")[2].split(", ")
    assert others == [candidate for candidate in SentenceObjective if kind in PAIR_KINDS_OF_OBJECTIVE[candidate]]


def test_scored_pairs_are_their_own_evaluation_set() -> None:
    pairs = make_scored_pairs(100)
    data = PairTrainingData.from_pairs(pairs, SHARES, options(evaluation_limit=5))
    rows = split_pairs(pairs, SHARES)
    assert (data.measure, data.best_by, len(data.evaluation_pairs)) == ("spearman", "spearman", 5)
    assert set(data.evaluation_pairs.sentences) <= set(pairs.at(rows[Part.VALIDATION]).sentences)
    assert data.train.fingerprint == pairs.at(rows[Part.TRAIN]).fingerprint
    assert data.sample is not None
    assert len(data.sample) == len(rows[Part.VALIDATION])
    assert set(data.sample.sentences) <= set(data.train.sentences)
    assert PairTrainingData.from_pairs(pairs, SHARES, options(best_by="loss")).best_by == "loss"


def test_evaluates_labelled_pairs_by_loss_or_scored_set() -> None:
    softmax = SentenceObjective.NLI_SOFTMAX
    judges = save_pairs(make_scored_pairs(50))
    alone = PairTrainingData.from_pairs(make_labelled_pairs(), SHARES, options(softmax))
    assert (alone.measure, alone.best_by, alone.sample) == ("", "loss", None)
    judged = PairTrainingData.from_pairs(make_labelled_pairs(), SHARES, options(softmax, evaluation_set=judges.key))
    assert (judged.measure, judged.best_by, judged.evaluation_set_name) == ("spearman", "spearman", "scored")
    assert judged.sample is None
    rows = split_pairs(make_scored_pairs(50), SHARES)[Part.VALIDATION]
    assert judged.evaluation_pairs.fingerprint == make_scored_pairs(50).at(rows).fingerprint
    cross = SentenceCrossEncoderOptions(base="folder", objective=CrossSentenceObjective.CROSS_ENTROPY)
    assert PairTrainingData.from_pairs(make_labelled_pairs(), SHARES, cross).best_by == "accuracy"


def test_requires_scored_evaluation_set_for_encoder() -> None:
    judges = save_pairs(make_labelled_pairs())
    with pytest.raises(OptionError, match="evaluation_set must name a set of scored pairs, and labelled holds label"):
        PAIR_FAMILY.check(make_scored_pairs(), options(evaluation_set=judges.key))


def test_rejects_set_without_training_pairs() -> None:
    published = np.full(30, 1)
    columns = [list(column) for column in make_scored_pairs(30).texts]
    scores = make_scored_pairs(30).values
    pairs = PairSet.from_columns("dev", PairKind.SCORED, columns, scores, published=published, scale=(0, 5))
    with pytest.raises(TrainingError, match="0 training and 30 validation pairs") as error:
        PairTrainingData.from_pairs(pairs, SHARES, options())
    assert error.value.code == "too_few_pairs"


def test_makes_triples_of_labelled_pairs() -> None:
    rows = [
        ("a", "a follows", Label.ENTAILMENT),
        ("a", "a follows too", Label.ENTAILMENT),
        ("a", "a also follows", Label.ENTAILMENT),
        ("a", "a is wrong", Label.CONTRADICTION),
        ("b", "b follows", Label.ENTAILMENT),  # no contradiction
        ("a", "a is never", Label.CONTRADICTION),
        ("a", "who knows", Label.NEUTRAL),
        ("c", "c is wrong", Label.CONTRADICTION),  # no entailment
        ("d", "d", Label.ENTAILMENT),  # the same sentence
        ("d", "d is wrong", Label.CONTRADICTION),
    ]
    first, second, labels = (list(column) for column in zip(*rows, strict=True))
    pairs = PairSet.from_columns("nli", PairKind.LABELLED, [first, second], labels)
    sentences, triples, relevance = make_triples(pairs)
    expected = [("a follows", "a is wrong"), ("a follows too", "a is never"), ("a also follows", "a is wrong")]
    assert [tuple(sentences[column] for column in row) for row in triples] == [("a", *pair) for pair in expected]
    relevant = {(sentences[row], sentences[column]) for row, column in zip(*relevance.nonzero(), strict=True)}
    entailed = {(premise, other) for premise, other, label in rows if label is Label.ENTAILMENT}
    assert relevant == entailed | {(sentence_row, sentence_row) for sentence_row in sentences}
    assert relevance.shape == (len(sentences),) * 2
    assert sentences.index("a") == triples[0, 0]


def test_metrics_match_other_libraries_and_round_trip() -> None:
    pairs = make_scored_pairs(40)
    distinct = DistinctSentences.from_pairs(pairs)
    vectors = np.random.default_rng(0).normal(size=(len(distinct.sentences), 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    predictions = predict_pairs(pairs, distinct, vectors, "spearman")
    of = dict(zip(distinct.sentences, vectors, strict=True))
    # a sentence and itself have the cosine 1 with any rounding
    sentence_pairs = zip(*pairs.texts, strict=True)
    cosines = [1.0 if first == second else float(of[first] @ of[second]) for first, second in sentence_pairs]
    means = predictions.means()
    assert means["spearman"] == pytest.approx(spearmanr(cosines, pairs.gold).statistic, abs=1e-6)
    assert means["pearson"] == pytest.approx(pearsonr(cosines, pairs.gold).statistic, abs=1e-5)
    alike = [2 - 2 * cosine for cosine, gold in zip(cosines, pairs.gold, strict=True) if gold >= 0.8]
    assert means["alignment"] == pytest.approx(np.mean(alike), abs=1e-5)
    kernel_values = [np.exp(-2 * np.sum((a - b) ** 2)) for n, a in enumerate(vectors) for b in vectors[n + 1 :]]
    assert means["uniformity"] == pytest.approx(np.log(np.mean(kernel_values)), abs=1e-5)
    data = PairTrainingData.from_pairs(make_scored_pairs(), SHARES, options())
    stored = PairMeasurement(predictions, predictions, evaluation_key=data.evaluation_pairs.fingerprint).to_dict()
    read = data.read_measurement(stored)
    assert read is not None
    assert read.means() == {"validation": pytest.approx(means), "training": pytest.approx(means)}
    assert PairMeasurement.from_dict({}, PairPredictions.from_dict) is None
    others = PairTrainingData.from_pairs(make_scored_pairs(seed=1), SHARES, options())
    assert others.read_measurement(stored) is None  # the stored measurement is of other pairs


def test_constant_predictions_have_zero_correlation() -> None:
    predicted = np.ones(5, dtype=np.float32)
    right = np.arange(5, dtype=np.float32)
    assert PairPredictions("spearman", predicted, right).means() == {"spearman": 0.0, "pearson": 0.0}


@pytest.mark.slow
def test_gain_uses_paired_bootstrap() -> None:
    data = PairTrainingData.from_pairs(make_scored_pairs(200), SHARES, options())
    gold = data.evaluation_pairs.gold.astype(np.float32)
    rng = np.random.default_rng(1)
    better = PairPredictions("spearman", gold + rng.normal(0, 0.2, len(gold)).astype(np.float32), gold)
    worse = PairPredictions("spearman", gold + rng.normal(0, 0.8, len(gold)).astype(np.float32), gold)
    content = data.summarize({"before": PairMeasurement(worse), "after": PairMeasurement(better)}, options())
    by_hand = [spearmanr(predictions.predicted, gold).statistic for predictions in (worse, better)]
    assert [content[name]["spearman"] for name in ("before", "after")] == pytest.approx(by_hand)
    assert content["gain"]["difference"] == pytest.approx(by_hand[1] - by_hand[0])
    low, high = content["gain"]["interval"]
    resampled = []
    for _ in range(1000):
        rows = rng.integers(len(gold), size=len(gold))  # each pair is a separate group
        after, before = (spearmanr(part.predicted[rows], gold[rows]).statistic for part in (better, worse))
        resampled.append(after - before)
    assert [low, high] == pytest.approx(np.quantile(resampled, [0.025, 0.975]), abs=0.05)
    interval = content["intervals"]["after"]["spearman"]
    assert interval[0] < by_hand[1] < interval[1]
    same = data.summarize({"before": PairMeasurement(worse), "after": PairMeasurement(worse)}, options())
    assert same["gain"] == {"measure": "spearman", "difference": 0.0, "interval": [0.0, 0.0]}


def test_scores_labels_by_accuracy() -> None:
    right = np.array([0, 1, 2, 2], dtype=np.int8)
    assert PairPredictions("accuracy", np.array([0, 1, 1, 2], dtype=np.int8), right).means() == {"accuracy": 0.75}
