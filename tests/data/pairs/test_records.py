"""The carrier of sentence pairs."""

import numpy as np
import pytest

from data.pairs.records import PARTS, Label, PairKind, PairSet
from data.split import Part


def scored(*scores: float, scale: tuple[float, float] = (0.0, 5.0)) -> PairSet:
    first = [f"문장 {row}" for row in range(len(scores))]
    return PairSet.of("짝", PairKind.SCORED, [first, ["같은 문장"] * len(scores)], scores, scale=scale)


def test_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="texts"):
        PairSet.of("짝", PairKind.TRIPLETS, [["가"], ["나"]])
    with pytest.raises(ValueError, match="values"):
        PairSet.of("짝", PairKind.LABELLED, [["가"], ["나"]])
    with pytest.raises(ValueError, match="values"):
        PairSet.of("짝", PairKind.PARALLEL, [["가"], ["나"]], [1])
    with pytest.raises(ValueError, match="differ in length"):
        PairSet.of("짝", PairKind.PARALLEL, [["가", "다"], ["나"]])


@pytest.mark.parametrize("scores", [(5.1,), (-0.1, 3), (float("nan"),)])
def test_a_score_outside_of_the_scale_is_refused(scores: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="outside"):
        scored(*scores)


@pytest.mark.parametrize("scale", [(0, 1e39), (0, 1e300), (0, float("inf")), (-float("inf"), 5)])
def test_nothing_infinite_is_a_score_or_a_scale(scale: tuple[float, float]) -> None:
    """Also of a set that was kept before such scores were left out: it is told as broken, and no figure is made."""
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="outside"):
        scored(0, 1e39, 3, scale=scale)


def test_scores_become_shares_of_their_scale() -> None:
    assert scored(0, 2.5, 5).gold.tolist() == [0, 0.5, 1]
    assert scored(-1, 0, 1, scale=(-1, 1)).gold.tolist() == [0, 0.5, 1]


def test_content_is_told_apart_by_all_but_the_name() -> None:
    one = scored(1, 2)
    assert one.fingerprint == scored(1, 2).fingerprint
    others = [scored(1, 3), scored(2, 1), scored(1, 2, scale=(0, 4)), one.at(np.array([1, 0]))]
    parts = PairSet.of("짝", one.kind, one.texts, one.values, published=[0, -1], scale=one.scale)
    labels = PairSet.of("짝", PairKind.LABELLED, one.texts, [Label.NEUTRAL, Label.CONTRADICTION])
    assert len({other.fingerprint for other in [one, parts, labels, *others]}) == 7


def test_rows_are_taken_with_all_that_belongs_to_them() -> None:
    published = [PARTS.index(part) for part in (Part.TRAIN, Part.TEST, Part.VALIDATION)]
    made = PairSet.of(
        "짝", PairKind.SCORED, [["가", "나", "다"], ["라", "마", "바"]], [1, 2, 3], published=published, scale=(0, 5)
    )
    few = made.at(np.array([2, 0]))
    assert [list(column) for column in few.texts] == [["다", "가"], ["바", "라"]]
    assert few.values.tolist() == [3, 1]
    assert [PARTS[part] for part in few.published] == [Part.VALIDATION, Part.TRAIN]
    assert len(made.at(np.array([], dtype=int))) == 0


def test_sentences_are_each_there_once() -> None:
    pairs = PairSet.of("짝", PairKind.PARALLEL, [["가", "나"], ["나", "가"]])
    assert pairs.sentences == ["가", "나"]
