import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from mrc_workbench.data.pairs import Label, PairKind, PairSet, split_pairs
from mrc_workbench.data.pairs.store import keep
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.labs.embeddings.encoder import Distinct
from mrc_workbench.training.options import OptionError, TrainingError
from mrc_workbench.training.recipes.sentence_material import (
    PAIRS,
    Judgement,
    PairMaterial,
    PairMeasurement,
    judgement,
    triples_of,
)
from mrc_workbench.training.text_options import (
    FITTING,
    CrossSentenceObjective,
    SentenceCrossEncoderOptions,
    SentenceObjective,
    SentenceOptions,
)
from tests.training.recipes.sentence_worlds import SETS, labelled, scored

SHARES = SplitOptions(0.2, 0.2)


def options(objective: SentenceObjective = SentenceObjective.COSENT, **changed: object) -> SentenceOptions:
    return SentenceOptions(base="folder", objective=objective, teacher="folder", **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", PairKind)
@pytest.mark.parametrize("objective", SentenceObjective)
def test_an_objective_is_refused_where_it_does_not_fit_the_pairs(kind: PairKind, objective: SentenceObjective) -> None:
    pairs = SETS[kind]()
    if kind in FITTING[objective]:
        PAIRS.check(pairs, options(objective))
        return
    with pytest.raises(OptionError, match=f"{objective} learns from") as told:
        PAIRS.check(pairs, options(objective))
    assert (told.value.option, told.value.code) == ("objective", "pair_kind")
    others = str(told.value).partition("there are ")[2].split(", ")
    assert others == [one for one in SentenceObjective if kind in FITTING[one]]


def test_scored_pairs_judge_themselves_and_a_sample_of_them_is_measured() -> None:
    pairs = scored(100)
    material = PairMaterial.of(pairs, SHARES, options(evaluation_limit=5))
    rows = split_pairs(pairs, SHARES)
    assert (material.measure, material.judged_by, len(material.judge)) == ("spearman", "spearman", 5)
    assert set(material.judge.sentences) <= set(pairs.at(rows[Part.VALIDATION]).sentences)
    assert material.train.fingerprint == pairs.at(rows[Part.TRAIN]).fingerprint
    assert material.sample is not None
    assert len(material.sample) == len(rows[Part.VALIDATION])
    assert set(material.sample.sentences) <= set(material.train.sentences)
    assert PairMaterial.of(pairs, SHARES, options(best_by="loss")).judged_by == "loss"


def test_labelled_pairs_are_judged_by_their_loss_or_by_scored_pairs() -> None:
    softmax, judges = SentenceObjective.NLI_SOFTMAX, keep(scored(50))
    alone = PairMaterial.of(labelled(), SHARES, options(softmax))
    assert (alone.measure, alone.judged_by, alone.sample) == ("", "loss", None)
    judged = PairMaterial.of(labelled(), SHARES, options(softmax, judged_on=judges.key))
    assert (judged.measure, judged.judged_by, judged.sample, judged.judged_on) == (
        *("spearman", "spearman", None),
        "scored",
    )
    assert judged.judge.fingerprint == scored(50).at(split_pairs(scored(50), SHARES)[Part.VALIDATION]).fingerprint
    cross = SentenceCrossEncoderOptions(base="folder", objective=CrossSentenceObjective.CROSS_ENTROPY)
    assert PairMaterial.of(labelled(), SHARES, cross).judged_by == "accuracy"


def test_only_scored_pairs_judge_a_sentence_encoder() -> None:
    judges = keep(labelled())
    with pytest.raises(OptionError, match="judged_on must name a set of scored pairs, and labelled holds labelled"):
        PAIRS.check(scored(), options(judged_on=judges.key))


def test_a_set_without_training_rows_is_refused() -> None:
    published = np.full(30, 1)
    columns = [list(column) for column in scored(30).texts]
    pairs = PairSet.of("dev", PairKind.SCORED, columns, scored(30).values, published=published, scale=(0, 5))
    with pytest.raises(TrainingError, match="0 training and 30 validation pairs") as told:
        PairMaterial.of(pairs, SHARES, options())
    assert told.value.code == "too_few_pairs"


def test_triples_of_labelled_pairs_are_those_counted_by_hand() -> None:
    rows = [
        ("a", "a follows", Label.ENTAILMENT),
        ("a", "a follows too", Label.ENTAILMENT),
        ("a", "a also follows", Label.ENTAILMENT),
        ("a", "a is wrong", Label.CONTRADICTION),
        ("b", "b follows", Label.ENTAILMENT),  # nothing contradicts it
        ("a", "a is never", Label.CONTRADICTION),
        ("a", "who knows", Label.NEUTRAL),
        ("c", "c is wrong", Label.CONTRADICTION),  # nothing follows
        ("d", "d", Label.ENTAILMENT),  # the same sentence
        ("d", "d is wrong", Label.CONTRADICTION),
    ]
    first, second, labels = (list(column) for column in zip(*rows, strict=True))
    sentences, triples, relevance = triples_of(PairSet.of("nli", PairKind.LABELLED, [first, second], labels))
    assert [tuple(sentences[one] for one in row) for row in triples] == [
        ("a", "a follows", "a is wrong"),
        ("a", "a follows too", "a is never"),
        ("a", "a also follows", "a is wrong"),
    ]
    place = sentences.index
    relevant = {(sentences[row], sentences[column]) for row, column in zip(*relevance.nonzero(), strict=True)}
    entailed = {(premise, other) for premise, other, label in rows if label is Label.ENTAILMENT}
    assert relevant == entailed | {(one, one) for one in sentences}
    assert relevance.shape == (len(sentences),) * 2
    assert place("a") == triples[0, 0]


def test_a_measurement_is_that_of_other_libraries_and_survives_the_disk() -> None:
    pairs = scored(40)
    distinct = Distinct.of(pairs)
    vectors = np.random.default_rng(0).normal(size=(len(distinct.sentences), 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found = judgement(pairs, distinct, vectors, "spearman")
    of = dict(zip(distinct.sentences, vectors, strict=True))
    # a sentence beside itself has the cosine 1 however it is rounded
    cosines = [1.0 if one == other else float(of[one] @ of[other]) for one, other in zip(*pairs.texts, strict=True)]
    means = found.means()
    assert means["spearman"] == pytest.approx(spearmanr(cosines, pairs.gold).statistic, abs=1e-6)
    assert means["pearson"] == pytest.approx(pearsonr(cosines, pairs.gold).statistic, abs=1e-5)
    alike = [2 - 2 * cosine for cosine, gold in zip(cosines, pairs.gold, strict=True) if gold >= 0.8]
    assert means["alignment"] == pytest.approx(np.mean(alike), abs=1e-5)
    apart = [np.exp(-2 * np.sum((a - b) ** 2)) for n, a in enumerate(vectors) for b in vectors[n + 1 :]]
    assert means["uniformity"] == pytest.approx(np.log(np.mean(apart)), abs=1e-5)
    material = PairMaterial.of(scored(), SHARES, options())
    kept = PairMeasurement(found, found, judge=material.judge.fingerprint).kept()
    read = material.measurement(kept)
    assert read is not None
    assert read.means() == {"validation": pytest.approx(means), "training": pytest.approx(means)}
    assert PairMeasurement.of({}, Judgement.of) is None
    others = PairMaterial.of(scored(seed=1), SHARES, options())
    assert others.measurement(kept) is None  # what was kept is of other pairs


def test_a_model_that_says_one_thing_only_has_no_correlation() -> None:
    said = np.ones(5, dtype=np.float32)
    right = np.arange(5, dtype=np.float32)
    assert Judgement("spearman", said, right).means() == {"spearman": 0.0, "pearson": 0.0}


@pytest.mark.slow
def test_the_gain_is_that_of_a_paired_bootstrap() -> None:
    material = PairMaterial.of(scored(200), SHARES, options())
    gold, rng = material.judge.gold.astype(np.float32), np.random.default_rng(1)
    better = Judgement("spearman", gold + rng.normal(0, 0.2, len(gold)).astype(np.float32), gold)
    worse = Judgement("spearman", gold + rng.normal(0, 0.8, len(gold)).astype(np.float32), gold)
    found = material.summary({"before": PairMeasurement(worse), "after": PairMeasurement(better)}, options())
    by_hand = [spearmanr(one.said, gold).statistic for one in (worse, better)]
    assert [found[name]["spearman"] for name in ("before", "after")] == pytest.approx(by_hand)
    assert found["gain"]["difference"] == pytest.approx(by_hand[1] - by_hand[0])
    low, high = found["gain"]["interval"]
    drawn = []
    for _ in range(1000):
        rows = rng.integers(len(gold), size=len(gold))  # here every pair is a group of its own
        after, before = (spearmanr(one.said[rows], gold[rows]).statistic for one in (better, worse))
        drawn.append(after - before)
    assert [low, high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.05)
    interval = found["intervals"]["after"]["spearman"]
    assert interval[0] < by_hand[1] < interval[1]
    same = material.summary({"before": PairMeasurement(worse), "after": PairMeasurement(worse)}, options())
    assert same["gain"] == {"measure": "spearman", "difference": 0.0, "interval": [0.0, 0.0]}


def test_labels_are_told_by_how_many_are_right() -> None:
    right = np.array([0, 1, 2, 2], dtype=np.int8)
    assert Judgement("accuracy", np.array([0, 1, 1, 2], dtype=np.int8), right).means() == {"accuracy": 0.75}
