"""Scores, labels and parts, and what a column of them means."""

import pytest

from mrc_workbench.data.layouts.references import part_named
from mrc_workbench.data.pairs.builder import Values, guessed_kind, label_of, part_in_name, score_of, without_part
from mrc_workbench.data.pairs.records import Label, PairKind
from mrc_workbench.data.split import Part


def values(*texts: str) -> Values:
    found = Values()
    for text in texts:
        found.add(text)
    return found


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4.900", 4.9), ("4,5", 4.5), ("-1", -1), ("+.5", 0.5), ("1e-3", 0.001), ("5.", 5), ("True", 1), ("false", 0),
        ("", None), ("nan", None), ("inf", None), ("1e999", None), ("1e39", None), ("-1e300", None),
        ("9" * 200_000, None), ("1e15", 1e15), ("1_000", None), ("1,000.5", None), ("네", None),
        ("٣", None), ("4점", None), ("0x1", None),
    ],
)  # fmt: skip
def test_scores(text: str, number: float | None) -> None:
    assert score_of(text) == number


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("entailment", Label.ENTAILMENT), ("Entails", Label.ENTAILMENT), ("0", Label.ENTAILMENT),
        ("함의", Label.ENTAILMENT), ("NEUTRAL", Label.NEUTRAL), ("n", Label.NEUTRAL), ("1", Label.NEUTRAL),
        ("중립", Label.NEUTRAL), ("contradiction", Label.CONTRADICTION), ("2", Label.CONTRADICTION),
        ("모순", Label.CONTRADICTION), ("contradictory", Label.CONTRADICTION), ("-", None), ("", None), ("-1", None),
        ("3", None), ("긍정", None),
    ],
)  # fmt: skip
def test_labels(text: str, label: Label | None) -> None:
    assert label_of(text) is label


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("korsts_train", Part.TRAIN), ("sts-dev", Part.VALIDATION), ("xnli.test.ko", Part.TEST),
        ("klue-sts-v1.1_dev", Part.VALIDATION), ("snli_1.0_train.ko", Part.TRAIN), ("문장쌍 검증용", Part.VALIDATION),
        ("testament", None), ("latest", None), ("문장", None), ("train_test", Part.TEST), ("", None),
    ],
)  # fmt: skip
def test_parts_in_names(name: str, part: Part | None) -> None:
    assert part_in_name(name) is part


def test_parts_of_a_column() -> None:
    named = [part_named(text) for text in ("Train", "dev", "TEST", "평가", "학습용", "기타", "")]
    assert named == [Part.TRAIN, Part.VALIDATION, Part.TEST, Part.TEST, Part.TRAIN, "", ""]


@pytest.mark.parametrize(
    ("name", "rest"), [("korsts_train", "korsts"), ("xnli.dev.ko", "xnli-ko"), ("test", ""), ("뉴스 학습", "뉴스")]
)
def test_names_without_their_part(name: str, rest: str) -> None:
    assert without_part(name) == rest


@pytest.mark.parametrize(
    ("texts", "scale"),
    [
        (("0", "0.5", "1"), (0, 1)),
        (("-1", "0.2", "1"), (-1, 1)),
        (("1", "3.5", "5"), (1, 5)),
        (("0", "3.8", "5.000"), (0, 5)),
        (("0", "7"), (0, 10)),
        (("12", "100"), (0, 100)),
        (("-50", "99"), (-100, 100)),
        (("-7", "300.5"), (-7, 301)),
        (("250", "250"), (250, 251)),
        ((), (0, 1)),
    ],
)
def test_scales(texts: tuple[str, ...], scale: tuple[float, float]) -> None:
    assert values(*texts).scale() == scale


def test_a_slip_of_the_pen_makes_no_other_scale() -> None:
    many = [str(number % 6) for number in range(1000)]
    assert values(*many, "45").scale() == (0, 5)
    assert values(*many[:20], "45").scale() == (0, 100)


NUMBERED, NAMED, BINARY = values("0", "1", "2", "-1"), values("함의", "중립", "?"), values("0", "1", "1")
SCORES, WORDS = values("0", "2.5", "5"), values("좋음", "나쁨")


@pytest.mark.parametrize(
    ("sentences", "score", "label", "kind"),
    [
        (1, None, None, PairKind.SENTENCES),
        (1, SCORES, NAMED, PairKind.SENTENCES),
        (0, None, None, PairKind.SENTENCES),
        (3, None, NAMED, PairKind.TRIPLETS),
        (2, None, None, PairKind.PARALLEL),
        (2, SCORES, None, PairKind.SCORED),
        (2, NUMBERED, None, PairKind.SCORED),
        (2, None, NUMBERED, PairKind.LABELLED),
        (2, None, NAMED, PairKind.LABELLED),
        (2, None, SCORES, PairKind.SCORED),
        (2, None, BINARY, PairKind.SCORED),
        (2, None, values("1", "함의"), PairKind.LABELLED),  # half of them are not most
        (2, None, WORDS, PairKind.LABELLED),
        (2, WORDS, NAMED, PairKind.LABELLED),
        (2, SCORES, NAMED, PairKind.SCORED),
        (2, WORDS, None, PairKind.SCORED),
    ],
)
def test_kinds(sentences: int, score: Values | None, label: Values | None, kind: PairKind) -> None:
    assert guessed_kind(sentences, score, label) is kind
