"""Sentences by number, and sets of plain sentences."""

import numpy as np

from data.pairs.records import PairKind, PairSet, numbers_of, sentence_set, sentences_of

PAIRS = PairSet.of("짝", PairKind.PARALLEL, [["가", "나", "가"], ["나", "다", "라"]])


def test_equal_sentences_have_one_number_in_every_column_and_set() -> None:
    other = PairSet.of("문장", PairKind.SENTENCES, [["라", "마", "가"]])
    first, second = numbers_of(PAIRS, other)
    assert first.tolist() == [[0, 1], [1, 2], [0, 3]]
    assert second.tolist() == [[3], [4], [0]]


def test_a_set_without_rows_has_no_numbers() -> None:
    assert numbers_of(PAIRS.at(np.array([], dtype=int)))[0].shape == (0, 2)


def test_sets_of_plain_sentences() -> None:
    made = sentence_set("글", [" 하나. ", "둘.", "", "  ", "하나."])
    assert (made.kind, list(made.texts[0])) == (PairKind.SENTENCES, ["하나.", "둘."])
    assert list(sentences_of(PAIRS).texts[0]) == ["가", "나", "다", "라"]
