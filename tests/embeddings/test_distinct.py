"""Sentences once each, and the groups that hang together by them."""

from data.pairs.records import PairKind, PairSet
from embeddings.encoder import Distinct


def test_sentences_stand_once_and_pairs_that_share_one_are_a_group() -> None:
    first, second = ["가", "나", "라", "마"], ["나", "다", "라", "바"]
    found = Distinct.of(PairSet.of("small", PairKind.PARALLEL, [first, second]))
    assert found.sentences == ["가", "나", "라", "마", "다", "바"]
    assert found.places.tolist() == [[0, 1], [1, 4], [2, 2], [3, 5]]
    assert found.groups.tolist() == [0, 0, 1, 2]
    assert found.sentence_groups.tolist() == [0, 0, 1, 2, 0, 2]


def test_triplets_and_sentences_alone() -> None:
    triplets = Distinct.of(PairSet.of("t", PairKind.TRIPLETS, [["가", "나"], ["다", "라"], ["마", "마"]]))
    assert triplets.groups.tolist() == [0, 0]
    alone = Distinct.of(PairSet.of("s", PairKind.SENTENCES, [["가", "나", "가"]]))
    assert alone.groups.tolist() == [0, 1, 0]
