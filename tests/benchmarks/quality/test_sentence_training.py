from benchmarks.quality.language_models import SPLIT, _to_learn_from
from data.pairs.audit import split_pairs
from data.pairs.records import PairKind, PairSet
from data.split import Part


def test_the_test_pairs_of_a_set_without_training_pairs_are_learned_from() -> None:
    columns = [[f"{side} {number}" for number in range(6)] for side in "ab"]
    nli = PairSet.of("nli", PairKind.LABELLED, columns, [0, 1, 2] * 2, published=[1, 1, 2, 2, 2, 2])
    rows = split_pairs(_to_learn_from(nli), SPLIT)
    assert [rows[part].tolist() for part in (Part.TRAIN, Part.VALIDATION, Part.TEST)] == [[2, 3, 4, 5], [0, 1], []]
