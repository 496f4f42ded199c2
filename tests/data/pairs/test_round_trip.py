"""Random pairs through every format and encoding come back the same; whatever else is given is told."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.pairs.audit import audit_pairs, split_pairs
from data.pairs.reading import PairOptions, read_pairs
from data.pairs.records import PARTS, Label, PairKind, PairSet
from data.problems import DataError
from tests.data.sample_files import Row, as_csv, as_excel, as_json, as_jsonl, as_parquet
from tests.data.test_hostile import CHANGES

ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp949")
LETTERS = "가나힣똠ab?7 \t\n,;\"'.℃"
SENTENCES = st.text(LETTERS, min_size=1, max_size=12).filter(str.strip)
SCORES = st.integers(0, 50).map(lambda tenths: f"{tenths / 10:.1f}")
LABELS = st.sampled_from(["entailment", "Neutral", "모순", "함의", "contradiction"])
LABEL_OF = {"entailment": 0, "함의": 0, "Neutral": 1, "모순": 2, "contradiction": 2}


NAMES = ("문장1", "문장2", "값", "구분")


def rows_of(value: st.SearchStrategy[str]) -> st.SearchStrategy[list[Row]]:
    """Rows that tell at least two values apart."""
    cells = st.tuples(SENTENCES, SENTENCES, value, st.sampled_from(["train", "dev", "test", ""]))
    rows = st.lists(cells, min_size=10, max_size=14).filter(lambda rows: len({one[2] for one in rows}) > 3)
    return rows.map(lambda rows: [dict(zip(NAMES, row, strict=True)) for row in rows])


def check(content: bytes, rows: list[Row], kind: PairKind) -> None:
    role = "score" if kind is PairKind.SCORED else "label"
    scale = (0.0, 5.0) if kind is PairKind.SCORED else None
    reading = read_pairs([(content, "짝")], PairOptions({role: "값"}, kind, scale))
    assert [file.problems for file in reading.files] == [()]
    pairs = reading.pairs
    assert [list(column) for column in pairs.texts] == [
        [row[name].strip() for row in rows] for name in ("문장1", "문장2")
    ]
    wanted = [LABEL_OF[row["값"]] if kind is PairKind.LABELLED else float(row["값"]) for row in rows]
    assert pairs.values.tolist() == pytest.approx(wanted)
    names = {"train": 0, "dev": 1, "test": 2, "": -1}
    assert pairs.published.tolist() == [names[row["구분"]] for row in rows]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@given(rows=rows_of(SCORES))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_delimited(rows: list[Row], delimiter: str, encoding: str) -> None:
    check(as_csv(rows, delimiter).encode(encoding), rows, PairKind.SCORED)


@pytest.mark.parametrize("write", [as_json, as_jsonl])
@given(rows=rows_of(LABELS))
@settings(max_examples=25, deadline=None)
def test_json(rows: list[Row], write: Any) -> None:
    check(write(rows).encode(), rows, PairKind.LABELLED)


@pytest.mark.slow
@pytest.mark.parametrize("write", [as_excel, as_parquet])
@given(rows=rows_of(SCORES))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_binary(rows: list[Row], write: Any) -> None:
    check(write(rows), rows, PairKind.SCORED)


CELLS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2), st.just("\ud800"), st.just("1e999"),
)  # fmt: skip
GOOD: list[Row] = [{"sentence1": f"가 {row}", "sentence2": f"나 {row}", "score": row % 6} for row in range(12)]


def use(content: bytes, options: PairOptions | None = None) -> PairSet | None:
    """Read what may be anything: a set that can be used, or an error that can be told."""
    try:
        reading = read_pairs([(content, "짝")], options)
    except DataError as error:
        str(error).encode()
        return None
    for file in reading.files:
        assert file.rejected.to_csv().encode()
        assert all(problem.message.encode() for problem in file.problems)
        assert file.row_count == len(reading.pairs) + file.left_out
    pairs, rows = reading.pairs, split_pairs(reading.pairs)
    assert "".join(pairs.sentences).encode()
    assert sum(len(rows[part]) for part in PARTS) == audit_pairs(pairs).row_count == len(pairs) >= 10
    if pairs.kind is PairKind.LABELLED:
        assert set(pairs.values.tolist()) <= set(Label)
    return pairs


@given(bad=st.lists(st.dictionaries(st.sampled_from(["sentence1", "sentence2", "score"]), CELLS), max_size=6))
@settings(max_examples=50, deadline=None)
def test_hostile_cells_cost_no_other_row(bad: list[Row]) -> None:
    good = {"sentence1": [row["sentence1"] for row in GOOD], "sentence2": [row["sentence2"] for row in GOOD]}
    content = as_jsonl([*bad, *GOOD]).encode("utf-8", "surrogatepass")
    pairs = use(content, PairOptions(kind=PairKind.SCORED, scale=(0, 5)))
    assert pairs is not None
    assert [list(column)[-12:] for column in pairs.texts] == list(good.values())
    assert pairs.values.tolist()[-12:] == [row["score"] for row in GOOD]


@given(st.binary(max_size=300))
@settings(max_examples=50, deadline=None)
def test_random_bytes(content: bytes) -> None:
    use(content)
    use(as_csv(GOOD).encode() + content)


@given(cuts=CHANGES, kind=st.sampled_from(list(PairKind)))
@pytest.mark.parametrize("name", ["csv", "json", "jsonl", "parquet"])
@settings(max_examples=50, deadline=None)
def test_damaged_files(cuts: list[tuple[float, int, bytes]], kind: PairKind, name: str) -> None:
    files = {"csv": as_csv(GOOD).encode(), "json": as_json(GOOD).encode(), "jsonl": as_jsonl(GOOD).encode()}
    content = files.get(name) or as_parquet(GOOD)
    for place, length, piece in cuts:
        start = int(place * len(content))
        content = content[:start] + piece + content[start + length :]
    use(content)
    use(content, PairOptions(kind=kind))
