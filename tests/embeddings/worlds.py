"""Small sets of pairs in which what is right can be told by reading them."""

from data.pairs.records import Label, PairKind, PairSet

SUBJECTS = ("고양이가", "강아지가", "아이가", "할머니가", "기차가", "새가", "배우가", "의사가")
PLACES = ("지붕 위에서", "강가에서", "시장에서", "학교 앞에서", "바닷가에서")
DOINGS = ("잠을 잔다", "노래를 부른다", "달린다", "밥을 먹는다")


def sentence(subject: int, place: int, doing: int) -> str:
    return f"{SUBJECTS[subject % 8]} {PLACES[place % 5]} {DOINGS[doing % 4]}"


def scored_pairs(n: int = 60) -> PairSet:
    """Gold counts the parts that two sentences share, 0 to 3; rows 2 and 3 share a sentence."""
    first = [sentence(row, row // 3, row // 2) for row in range(n)]
    second = [
        sentence(row + row % 2, row // 3 + row % 3 // 2, row // 2 + (row % 5 > 2)) for row in range(n)
    ]  # changes one part, two, three or none
    gold = [
        sum(a == b for a, b in zip(one.split(), other.split(), strict=True))
        for one, other in zip(first, second, strict=True)
    ]
    parts = [2 if row % 2 else 0 for row in range(n)]
    return PairSet.of("counted", PairKind.SCORED, [first, second], gold, published=parts, scale=(0, 4))


def labelled_pairs(n: int = 240) -> PairSet:
    """A hypothesis that repeats its premise follows; another doing is neutral, a denial contradicts."""
    first = [sentence(row, row // 8, row // 40) + f" {row}" for row in range(n)]
    endings = {Label.ENTAILMENT: "그렇다", Label.NEUTRAL: "그리고 웃는다", Label.CONTRADICTION: "그렇지 않다 아니다"}
    labels = [Label(row % 3) for row in range(n)]
    second = [f"{text} {endings[label]}" for text, label in zip(first, labels, strict=True)]
    parts = [2 if row % 4 == 0 else 0 for row in range(n)]
    return PairSet.of("follows", PairKind.LABELLED, [first, second], labels, published=parts)
