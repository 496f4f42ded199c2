"""Small sets of pairs with obvious gold values."""

import numpy as np

from mrc_workbench.data.pairs import Label, PairKind, PairSet

SUBJECTS = ("고양이가", "강아지가", "아이가", "할머니가", "기차가", "새가", "배우가", "의사가")
LOCATIONS = ("지붕 위에서", "강가에서", "시장에서", "학교 앞에서", "바닷가에서")
ACTIONS = ("잠을 잔다", "노래를 부른다", "달린다", "밥을 먹는다")
ENDINGS = {Label.ENTAILMENT: "그렇다", Label.NEUTRAL: "그리고 웃는다", Label.CONTRADICTION: "그렇지 않다"}


def sentence(subject: int, location: int, action: int) -> str:
    return f"{SUBJECTS[subject % 8]} {LOCATIONS[location % 5]} {ACTIONS[action % 4]}"


def scored_pairs(n: int = 60) -> PairSet:
    """Gold counts what two sentences have in common of who, where and what: 0 to 3. Every other row is for testing."""
    first = [(row, row // 3, row // 2) for row in range(n)]
    changed = [(row % 2, row // 2 % 2, row // 4 % 2) for row in range(n)]
    second = (np.array(first) + np.array(changed)).tolist()
    # 지금 does not count
    second_texts = [sentence(*indices) + " 지금" * (row % 3) for row, indices in enumerate(second)]
    columns = [[sentence(*indices) for indices in first], second_texts]
    gold = [3 - sum(changes) for changes in changed]
    published = [2 * (row // 8 % 2) for row in range(n)]
    return PairSet.from_columns("counted", PairKind.SCORED, columns, gold, published=published, scale=(0, 3))


def labelled_pairs(n: int = 240) -> PairSet:
    """The hypothesis repeats its premise, and its last words are the label's. Every fourth row is for testing."""
    first = [f"{row} {sentence(row, row // 8, row // 40)}" for row in range(n)]
    labels = [Label(row % 3) for row in range(n)]
    second = [f"{text} {ENDINGS[label]}" for text, label in zip(first, labels, strict=True)]
    published = [2 if row % 4 == 0 else 0 for row in range(n)]
    return PairSet.from_columns("follows", PairKind.LABELLED, [first, second], labels, published=published)
