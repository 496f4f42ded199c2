"""Scores, labels and parts, and the meaning of their columns."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrc_workbench.data import pairs as module
from mrc_workbench.data.pairs import Label, PairKind, PairSet, audit_pairs, builder, sentence_set, split_pairs
from mrc_workbench.data.pairs.builder import ColumnValues, parse_label, parse_score, part_from_name, strip_part
from mrc_workbench.data.pairs.store import PairReadOptions, read_pairs
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.split import PARTS, Part
from tests.data.sample_files import Row, as_csv, as_excel, as_json, as_jsonl, as_parquet
from tests.data.test_hostile import CHANGES


def values(*texts: str) -> ColumnValues:
    column_values = ColumnValues()
    for text in texts:
        column_values.add(text)
    return column_values


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4.900", 4.9), ("4,5", 4.5), ("-1", -1), ("+.5", 0.5), ("1e-3", 0.001), ("5.", 5), ("True", 1), ("false", 0),
        ("", None), ("nan", None), ("inf", None), ("1e999", None), ("1e39", None), ("-1e300", None),
        ("9" * 200_000, None), ("1e15", 1e15), ("1_000", None), ("1,000.5", None), ("네", None),
        ("٣", None), ("4점", None), ("0x1", None),
    ],
)  # fmt: skip
def test_parses_scores(text: str, number: float | None) -> None:
    assert parse_score(text) == number


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
def test_parses_labels(text: str, label: Label | None) -> None:
    assert parse_label(text) is label


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("korsts_train", Part.TRAIN), ("sts-dev", Part.VALIDATION), ("xnli.test.ko", Part.TEST),
        ("klue-sts-v1.1_dev", Part.VALIDATION), ("snli_1.0_train.ko", Part.TRAIN), ("문장쌍 검증용", Part.VALIDATION),
        ("testament", None), ("latest", None), ("문장", None), ("train_test", Part.TEST), ("", None),
    ],
)  # fmt: skip
def test_reads_parts_from_names(name: str, part: Part | None) -> None:
    assert part_from_name(name) is part


@pytest.mark.parametrize(
    ("name", "rest"), [("korsts_train", "korsts"), ("xnli.dev.ko", "xnli-ko"), ("test", ""), ("뉴스 학습", "뉴스")]
)
def test_strips_the_part_from_names(name: str, rest: str) -> None:
    assert strip_part(name) == rest


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
        ((*"012345" * 200, "45"), (0, 5)),  # a single outlier of many
        ((*"012345" * 3, "45"), (0, 100)),
    ],
)
def test_guesses_scales(texts: tuple[str, ...], scale: tuple[float, float]) -> None:
    assert values(*texts).guess_scale() == scale


NUMBERED = values("0", "1", "2", "-1")
NAMED = values("함의", "중립", "?")
BINARY = values("0", "1", "1")
SCORES = values("0", "2.5", "5")
WORDS = values("좋음", "나쁨")


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
def test_guesses_kinds(sentences: int, score: ColumnValues | None, label: ColumnValues | None, kind: PairKind) -> None:
    assert builder.guess_kind(sentences, score, label) is kind


def scored(*scores: float, scale: tuple[float, float] = (0.0, 5.0)) -> PairSet:
    first = [f"문장 {row}" for row in range(len(scores))]
    return PairSet.from_columns("짝", PairKind.SCORED, [first, ["같은 문장"] * len(scores)], scores, scale=scale)


@pytest.mark.parametrize(
    ("kind", "columns", "given_values", "match"),
    [
        (PairKind.TRIPLETS, ["가", "나"], [], "texts"),
        (PairKind.LABELLED, ["가", "나"], [], "values"),
        (PairKind.PARALLEL, ["가", "나"], [1], "values"),
        (PairKind.PARALLEL, ["가다", "나"], [], "differ in length"),
    ],
)
def test_rejects_unequal_columns(kind: PairKind, columns: list[str], given_values: list[int], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        PairSet.from_columns("짝", kind, columns, given_values)


@pytest.mark.parametrize("scores", [(5.1,), (-0.1, 3), (float("nan"),)])
def test_rejects_scores_outside_the_scale(scores: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="outside"):
        scored(*scores)


@pytest.mark.parametrize("scale", [(0, 1e39), (0, 1e300), (0, float("inf")), (-float("inf"), 5)])
def test_rejects_infinite_scores_and_scales(scale: tuple[float, float]) -> None:
    """A set stored before such scores were skipped is reported as broken."""
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="outside"):
        scored(0, 1e39, 3, scale=scale)


def test_normalizes_scores_to_the_scale() -> None:
    assert scored(0, 2.5, 5).gold.tolist() == [0, 0.5, 1]
    assert scored(-1, 0, 1, scale=(-1, 1)).gold.tolist() == [0, 0.5, 1]


def test_fingerprint_covers_everything_but_the_name() -> None:
    original = scored(1, 2)
    assert original.fingerprint == scored(1, 2).fingerprint
    others = [scored(1, 3), scored(2, 1), scored(1, 2, scale=(0, 4)), original.at(np.array([1, 0]))]
    parts = PairSet.from_columns(
        "짝", original.kind, original.texts, original.values, published=[0, -1], scale=original.scale
    )
    labels = PairSet.from_columns("짝", PairKind.LABELLED, original.texts, [Label.NEUTRAL, Label.CONTRADICTION])
    assert len({other.fingerprint for other in [original, parts, labels, *others]}) == 7


def test_selects_rows_with_values_and_parts() -> None:
    published = [PARTS.index(part) for part in (Part.TRAIN, Part.TEST, Part.VALIDATION)]
    pairs = PairSet.from_columns(
        "짝", PairKind.SCORED, [["가", "나", "다"], ["라", "마", "바"]], [1, 2, 3], published=published, scale=(0, 5)
    )
    few = pairs.at(np.array([2, 0]))
    assert [list(column) for column in few.texts] == [["다", "가"], ["바", "라"]]
    assert few.values.tolist() == [3, 1]
    assert [PARTS[part] for part in few.published] == [Part.VALIDATION, Part.TRAIN]
    assert len(pairs.at(np.array([], dtype=int))) == 0


PAIRS = PairSet.from_columns("짝", PairKind.PARALLEL, [["가", "나", "가"], ["나", "다", "라"]])


def test_numbers_equal_sentences_alike() -> None:
    other = PairSet.from_columns("문장", PairKind.SENTENCES, [["라", "마", "가"]])
    first, second = module.number_sentences(PAIRS, other)
    assert first.tolist() == [[0, 1], [1, 2], [0, 3]]
    assert second.tolist() == [[3], [4], [0]]


def test_numbers_of_an_empty_set_are_empty() -> None:
    assert module.number_sentences(PAIRS.at(np.array([], dtype=int)))[0].shape == (0, 2)


def test_builds_sets_of_plain_sentences() -> None:
    pairs = sentence_set("글", [" 하나. ", "둘.", "", "  ", "하나."])
    assert (pairs.kind, list(pairs.texts[0])) == (PairKind.SENTENCES, ["하나.", "둘."])
    assert list(sentence_set("글", PAIRS.sentences).texts[0]) == ["가", "나", "다", "라"]


ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp949")
ALPHABET = "가나힣똠ab?7 \t\n,;\"'.℃"
SENTENCES = st.text(ALPHABET, min_size=1, max_size=12).filter(str.strip)
SCORE_TEXTS = st.integers(0, 50).map(lambda tenths: f"{tenths / 10:.1f}")
LABELS = st.sampled_from(["entailment", "Neutral", "모순", "함의", "contradiction"])
LABEL_OF = {"entailment": 0, "함의": 0, "Neutral": 1, "모순": 2, "contradiction": 2}


NAMES = ("문장1", "문장2", "값", "구분")


def rows_of(value: st.SearchStrategy[str]) -> st.SearchStrategy[list[Row]]:
    """Rows with at least two different values."""
    cells = st.tuples(SENTENCES, SENTENCES, value, st.sampled_from(["train", "dev", "test", ""]))
    rows = st.lists(cells, min_size=10, max_size=14).filter(lambda rows: len({row[2] for row in rows}) > 3)
    return rows.map(lambda rows: [dict(zip(NAMES, row, strict=True)) for row in rows])


def check(content: bytes, rows: list[Row], kind: PairKind) -> None:
    role = "score" if kind is PairKind.SCORED else "label"
    scale = (0.0, 5.0) if kind is PairKind.SCORED else None
    reading = read_pairs([(content, "짝")], PairReadOptions({role: "값"}, kind, scale))
    assert [file.problems for file in reading.files] == [()]
    pairs = reading.pairs
    assert [list(c) for c in pairs.texts] == [[r[name].strip() for r in rows] for name in ("문장1", "문장2")]
    expected = [LABEL_OF[row["값"]] if kind is PairKind.LABELLED else float(row["값"]) for row in rows]
    assert pairs.values.tolist() == pytest.approx(expected)
    names = {"train": 0, "dev": 1, "test": 2, "": -1}
    assert pairs.published.tolist() == [names[row["구분"]] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@given(rows=rows_of(SCORE_TEXTS))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_reads_delimited_files(rows: list[Row], delimiter: str, encoding: str) -> None:
    check(as_csv(rows, delimiter).encode(encoding), rows, PairKind.SCORED)


@pytest.mark.parametrize("write", [as_json, as_jsonl])
@given(rows=rows_of(LABELS))
@settings(max_examples=25, deadline=None)
def test_reads_json_files(rows: list[Row], write: Any) -> None:
    check(write(rows).encode(), rows, PairKind.LABELLED)


@pytest.mark.slow
@pytest.mark.parametrize("write", [as_excel, as_parquet])
@given(rows=rows_of(SCORE_TEXTS))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_reads_binary_files(rows: list[Row], write: Any) -> None:
    check(write(rows), rows, PairKind.SCORED)


CELLS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2), st.just("\ud800"), st.just("1e999"),
)  # fmt: skip
GOOD: list[Row] = [{"sentence1": f"가 {row}", "sentence2": f"나 {row}", "score": row % 6} for row in range(12)]


def use(content: bytes, options: PairReadOptions | None = None) -> PairSet | None:
    """Read any content: the result is a usable set or an error with a message."""
    try:
        reading = read_pairs([(content, "짝")], options)
    except DataError as error:
        str(error).encode()
        return None
    for file in reading.files:
        assert file.rejected.to_csv().encode()
        assert all(problem.message.encode() for problem in file.problems)
        assert file.row_count == len(reading.pairs) + file.left_out
    pairs = reading.pairs
    rows = split_pairs(reading.pairs)
    assert "".join(pairs.sentences).encode()
    assert sum(len(rows[part]) for part in PARTS) == audit_pairs(pairs).row_count == len(pairs) >= 10
    if pairs.kind is PairKind.LABELLED:
        assert set(pairs.values.tolist()) <= set(Label)
    return pairs


@pytest.mark.slow
@given(bad=st.lists(st.dictionaries(st.sampled_from(["sentence1", "sentence2", "score"]), CELLS), max_size=6))
@settings(max_examples=50, deadline=None)
def test_hostile_cells_affect_no_other_row(bad: list[Row]) -> None:
    good = {"sentence1": [row["sentence1"] for row in GOOD], "sentence2": [row["sentence2"] for row in GOOD]}
    content = as_jsonl([*bad, *GOOD]).encode("utf-8", "surrogatepass")
    pairs = use(content, PairReadOptions(kind=PairKind.SCORED, scale=(0, 5)))
    assert pairs is not None
    assert [list(column)[-12:] for column in pairs.texts] == list(good.values())
    assert pairs.values.tolist()[-12:] == [row["score"] for row in GOOD]


@given(st.binary(max_size=300))
@settings(max_examples=50, deadline=None)
def test_accepts_or_rejects_random_bytes(content: bytes) -> None:
    use(content)
    use(as_csv(GOOD).encode() + content)


@pytest.mark.slow
@given(cuts=CHANGES, kind=st.sampled_from(list(PairKind)))
@pytest.mark.parametrize("name", ["csv", "json", "jsonl", "parquet"])
@settings(max_examples=50, deadline=None)
def test_reads_or_rejects_damaged_files(cuts: list[tuple[float, int, bytes]], kind: PairKind, name: str) -> None:
    files = {"csv": as_csv(GOOD).encode(), "json": as_json(GOOD).encode(), "jsonl": as_jsonl(GOOD).encode()}
    content = files.get(name) or as_parquet(GOOD)
    for offset, length, piece in cuts:
        start = int(offset * len(content))
        content = content[:start] + piece + content[start + length :]
    use(content)
    use(content, PairReadOptions(kind=kind))
