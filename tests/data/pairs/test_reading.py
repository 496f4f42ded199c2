"""Columns, kinds, scales and parts of files of pairs, and the problems of their rows."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.formats.columns import PairColumns
from mrc_workbench.data.pairs import Label, PairKind
from mrc_workbench.data.pairs.store import PairReading, PairReadOptions, propose_pair_columns, read_pairs
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.split import PARTS, Part
from tests.data.layouts.written import refuses, zipped
from tests.data.sample_files import as_csv, as_excel, as_json, as_jsonl, as_parquet, as_squad, workbook

SCORED: list[dict[str, Any]] = [
    {"문장1": f"첫 문장, {row}", "문장2": f'둘째 "문장" {row}', "점수": str(row % 6), "구분": ("학습", "평가")[row % 2]}
    for row in range(12)
]
LABELLED: list[dict[str, Any]] = [
    {"premise": f"전제 {row}", "hypothesis": f"가설 {row}", "gold_label": ("entailment", "중립", "2")[row % 3]}
    for row in range(12)
]


def tsv(rows: Sequence[Sequence[str]]) -> bytes:
    return "\n".join("\t".join(row) for row in rows).encode()


def table(*rows: tuple[str, ...], more: int = 12) -> bytes:
    """A few rows with scores before good ones."""
    good = [(f"첫 문장 {row}", f"둘째 문장 {row}", str(row % 6)) for row in range(more)]
    return tsv([("sentence1", "sentence2", "score"), *rows, *good])


def read(content: bytes, name: str = "짝", **options: Any) -> PairReading:
    return read_pairs([(content, name)], PairReadOptions(**options))


def problem_codes(reading: PairReading) -> list[tuple[ProblemCode, int | None]]:
    return [(problem.code, problem.row) for problem in reading.files[0].problems]


@pytest.mark.parametrize(
    "content",
    [
        as_csv(SCORED).encode("cp949"),
        as_csv(SCORED, "\t").encode("utf-16"),
        as_csv(SCORED, ";").encode("utf-8-sig"),
        as_json(SCORED).encode(),
        as_jsonl(SCORED).encode(),
        as_excel(SCORED),
        as_parquet(SCORED),
    ],
    ids=["csv", "tsv", "semicolons", "json", "jsonl", "excel", "parquet"],
)
def test_reads_scored_pairs_in_every_format(content: bytes) -> None:
    reading = read(content)
    pairs = reading.pairs
    assert (pairs.kind, pairs.scale, problem_codes(reading), reading.left_out) == (PairKind.SCORED, (0, 5), [], 0)
    assert list(pairs.texts[0]) == [row["문장1"] for row in SCORED]
    assert list(pairs.texts[1]) == [row["문장2"] for row in SCORED]
    assert pairs.values.tolist() == [float(row["점수"]) for row in SCORED]
    assert [PARTS[part] for part in pairs.published] == [Part.TRAIN, Part.TEST] * 6
    assert reading.files[0].columns == PairColumns("문장1", "문장2", score="점수", part="구분")


@pytest.mark.parametrize("write", [as_csv, as_json, as_jsonl])
def test_reads_labels_in_any_spelling(write: Any) -> None:
    pairs = read(write(LABELLED).encode()).pairs
    assert (pairs.kind, pairs.scale) == (PairKind.LABELLED, (0, 0))
    assert [Label(value) for value in pairs.values] == list(Label) * 4
    assert pairs.published.tolist() == [-1] * 12


def test_reads_three_numbers_as_labels_and_two_as_scores() -> None:
    three = [{"sentence1": f"가 {row}", "sentence2": f"나 {row}", "label": row % 3} for row in range(12)]
    two = [row | {"label": int(row["label"]) % 2} for row in three]
    assert read(as_parquet(three)).pairs.kind is PairKind.LABELLED
    pairs = read(as_parquet(two)).pairs
    assert (pairs.kind, pairs.scale) == (PairKind.SCORED, (0, 1))


def test_flattens_objects_in_cells() -> None:
    rows = [{"guid": f"n{n}", "sentence1": f"가 {n}", "sentence2": f"나 {n}"} for n in range(12)]
    rows = [{**row, "labels": {"label": n / 4, "binary": 1}} for n, row in enumerate(rows)]
    for content in (as_json(rows).encode(), as_jsonl(rows).encode(), as_parquet(rows)):
        reading = read(content)
        assert reading.files[0].columns.score == "labels.label"
        assert reading.files[0].available_columns == ("guid", "sentence1", "sentence2", "labels.label", "labels.binary")
        assert reading.files[0].first_rows[1]["labels.label"] == "0.25"
        assert reading.pairs.values.tolist() == [row / 4 for row in range(12)]


def test_reads_triplets_translations_and_sentences() -> None:
    triplets = [{"anchor": f"가 {row}", "positive": f"나 {row}", "negative": f"다 {row}"} for row in range(10)]
    assert read(as_jsonl(triplets).encode()).pairs.kind is PairKind.TRIPLETS
    nested = [{"translation": {"ko": f"문장 {row}", "en": f"sentence {row}"}} for row in range(10)]
    pairs = read(as_jsonl(nested).encode()).pairs
    assert (pairs.kind, pairs.texts[0][3], pairs.texts[1][3]) == (PairKind.PARALLEL, "문장 3", "sentence 3")
    lines = "\n\n".join(f"문장 하나, {row}." for row in range(10))
    for text in (lines, f"문장\n{lines}"):
        pairs = read(text.encode()).pairs
        assert (pairs.kind, list(pairs.texts[0])) == (PairKind.SENTENCES, lines.split("\n\n"))


def test_reads_literal_quotation_marks() -> None:
    rows = [(f'"가" 라고 {row}', f'그는 "나 {row}', str(row % 6)) for row in range(12)]
    pairs = read(tsv([("sentence1", "sentence2", "score"), *rows])).pairs
    assert list(pairs.texts[0]) == [row[0] for row in rows]
    assert list(pairs.texts[1]) == [row[1] for row in rows]


def test_joins_files_into_a_set_with_parts() -> None:
    def file(name: str, score: str) -> tuple[bytes, str]:
        return tsv([("sentence1", "sentence2", "score"), *[(f"가 {name}", "나", score)] * 6]), name

    files = [file("sts-train.tsv", "1"), file("sts-dev.tsv", "0"), file("sts-test.tsv", "5")]
    reading = read_pairs(files)
    assert (reading.pairs.name, reading.pairs.scale) == ("sts", (0, 5))
    assert reading.pairs.published.tolist() == [0] * 6 + [1] * 6 + [2] * 6
    assert [pair_file.part for pair_file in reading.files] == list(PARTS)
    given = read_pairs(files, PairReadOptions(parts=(None, Part.TEST, Part.TEST)))
    assert given.pairs.published.tolist() == [-1] * 6 + [2] * 12
    with pytest.raises(ValueError, match="shorter"):
        read_pairs(files, PairReadOptions(parts=(None,)))


def test_reports_problems_with_their_row() -> None:
    scores = [("문장", "다른 문장", score) for score in ("많이", "", "nan", "5.1")]
    reading = read(table(("", "문장", "3"), ("문장", " ", "3"), *scores, ("문장", "다른 문장")), scale=(0, 5))
    codes = [ProblemCode.EMPTY_SENTENCE] * 2 + [ProblemCode.NO_NUMBER] * 3
    codes += [ProblemCode.OUT_OF_SCALE, ProblemCode.FIELD_COUNT]
    assert problem_codes(reading) == [*zip(codes, range(2, 9), strict=True)]
    file = reading.files[0]
    assert (len(reading.pairs), file.row_count, file.left_out, file.problem_count) == (12, 19, 7, 7)
    assert file.problems[0].message.startswith("Row 2: a sentence (sentence1) is empty.")
    assert file.problems[2].message.startswith("Row 4: the score (score) is not a number: 많이.")
    assert file.problems[3].message.startswith("Row 5: the score (score) is not a number: -.")
    assert file.problems[5].message.startswith("Row 7: the score (score) is 5.1, outside the scale from 0 to 5.")
    assert file.rejected["row"].tolist() == list(range(2, 9))
    assert file.rejected["score"].tolist()[2] == "많이"


def test_reports_unknown_labels() -> None:
    rows = [*LABELLED, {"premise": "가", "hypothesis": "나", "gold_label": "-"}]
    reading = read(as_csv(rows).encode())
    assert problem_codes(reading) == [(ProblemCode.UNKNOWN_LABEL, 14)]
    assert "the label (gold_label) is unknown: -." in reading.files[0].problems[0].message


def test_reports_cells_without_text() -> None:
    rows = [
        {"sentence1": ["목록"], "sentence2": "나", "score": 1},
        {"sentence1": "가\x00나", "sentence2": "다", "score": 1},
        {"sentence1": "가", "sentence2": "나", "score": [1]},
        {"sentence1": "가" * 1_000_001, "sentence2": "나", "score": 1},
        *({"sentence1": f"가 {row}", "sentence2": "나", "score": row % 6} for row in range(12)),
    ]
    reading = read(json.dumps(rows).encode())
    codes = (ProblemCode.NOT_TEXT, ProblemCode.MENDED_TEXT, ProblemCode.NO_NUMBER, ProblemCode.TOO_LONG)
    assert problem_codes(reading) == [*zip(codes, (1, 2, 3, 4), strict=True)]
    assert reading.pairs.texts[0][0] == "가�나"


def test_rejects_formula_errors_as_sentences() -> None:
    lines: list[list[Any]] = [["문장1", "문장2", "점수"], ["=1/0", "나", 1]]
    lines += [[f"가 {row}", "나", row % 6] for row in range(12)]
    reading = read(workbook(lines))
    # a workbook that was never opened holds no results
    assert problem_codes(reading) == [(ProblemCode.EMPTY_SENTENCE, 2)]


@pytest.mark.parametrize(
    ("content", "options", "code", "words"),
    [
        (b"", {}, ProblemCode.EMPTY_FILE, "empty"),
        (tsv([("a", "b")] + [("1", "2")] * 12), {}, ProblemCode.NO_SENTENCE, "in the file: a, b. Names that are"),
        (as_squad([{"번호": "1", "제목": "가", "질문": "?", "지문": "나", "정답": []}]).encode(), {},
         ProblemCode.NO_SENTENCE, "data, paragraphs, qas"),
        (table(more=9), {}, ProblemCode.TOO_FEW_ROWS, r"Too few usable rows \(9\): a dataset of pairs needs 10"),
        (tsv([("sentence1", "sentence2", "score")]), {}, ProblemCode.TOO_FEW_ROWS, r"Too few usable rows \(0\)"),
        (tsv([("sentence1", "sentence2", "score")] + [("가", "나", "4")] * 12), {}, ProblemCode.SINGLE_VALUE, r"\(4\)"),
        (tsv([("sentence1", "sentence2", "label")] + [("가", "나", "중립")] * 12), {}, ProblemCode.SINGLE_VALUE,
         "neutral"),
        (tsv([("sentence1", "sentence2", "label")] + [("가", "나", "좋음")] * 12), {}, ProblemCode.NO_GOOD_ROW,
         "None of the 12 rows"),
        (table(), {"kind": PairKind.TRIPLETS}, ProblemCode.MISSING_COLUMN, "No sentence3 column"),
        (as_json([{"sentence1": "가", "sentence2": "나"}] * 12).encode(), {"kind": PairKind.LABELLED},
         ProblemCode.MISSING_COLUMN, "No label column"),
        (table(), {"columns": {"sentence2": "없음"}}, ProblemCode.UNKNOWN_COLUMN, "column 없음, chosen as sentence2"),
    ],
    ids=lambda value: value.value if isinstance(value, ProblemCode) else "",
)  # fmt: skip
def test_rejects_unusable_files(content: bytes, options: dict[str, Any], code: ProblemCode, words: str) -> None:
    with refuses(code, words) as error:
        read(content, **options)
    assert "file" not in error.value.details


def test_errors_name_the_file() -> None:
    with pytest.raises(DataError, match=r"^dev\.tsv: No sentence column found") as error:
        read_pairs([(table(), "train.tsv"), (tsv([("a", "b")] * 12), "dev.tsv")])
    assert error.value.details["file"] == "dev.tsv"


def test_given_options_override_guesses() -> None:
    rows = [("문장 하나 둘", "4", "다른 문장 하나"), *[(f"가 나 {row}", str(row % 4), "다 라") for row in range(12)]]
    content = tsv([("x", "y", "z"), *rows])
    guess = read(content)
    assert (guess.pairs.kind, guess.files[0].columns) == (PairKind.PARALLEL, PairColumns("x", "z"))
    given = read(content, columns={"score": "y", "sentence1": "z", "sentence2": "x"}, scale=(0, 10)).pairs
    assert (given.kind, given.scale, given.texts[0][0]) == (PairKind.SCORED, (0, 10), "다른 문장 하나")
    alone = read(content, kind=PairKind.SENTENCES)
    assert (alone.pairs.kind, len(alone.pairs.texts)) == (PairKind.SENTENCES, 1)
    as_parallel = read(table(), kind=PairKind.PARALLEL)
    assert (as_parallel.pairs.kind, len(as_parallel.pairs.values)) == (PairKind.PARALLEL, 0)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"scale": (5, 0)}, "the scale must be two numbers"),
        ({"scale": (0, float("nan"))}, "the scale must be two numbers"),
        ({"scale": (-1e308, 1e308)}, "the scale must be two numbers"),
        ({"scale": (0, 1e39)}, "the scale must be two numbers"),
        ({"columns": {"text": "a"}}, "roles"),
        ({"parts": (Part.ALL,)}, "published"),
    ],
)
def test_rejects_invalid_options(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        PairReadOptions(**options)


def test_proposes_columns_of_a_file_without_sentences() -> None:
    proposal = propose_pair_columns(tsv([("a", "b"), ("1", "2")]))
    assert (proposal.columns, proposal.available) == (PairColumns(), ("a", "b"))
    assert proposal.first_rows == ({"a": "1", "b": "2"},)


def test_counts_many_bad_rows_and_reads_the_rest() -> None:
    reading = read(table(*[("", "가", "1")] * 10_050), scale=(0, 5))
    file = reading.files[0]
    assert (len(reading.pairs), file.left_out, len(file.problems)) == (12, 10_050, 10_000)


def test_keeps_the_order_across_blocks() -> None:
    rows = [(f"문장 {row}", f"다른 {row}", f"{row % 50 / 10}") for row in range(20_000)]
    pairs = read(tsv([("sentence1", "sentence2", "score"), *rows])).pairs
    assert list(pairs.texts[1]) == [row[1] for row in rows]
    assert np.allclose(pairs.values, [row % 50 / 10 for row in range(20_000)])


@pytest.mark.parametrize("score", ["1e39", "-1e300", "9" * 200_000])
def test_skips_too_large_scores_when_guessing_the_scale(score: str) -> None:
    reading = read(table(("가", "나", score)))
    assert (reading.pairs.scale, len(reading.pairs), reading.left_out) == ((0, 5), 12, 1)
    (problem,) = reading.files[0].problems
    assert (problem.code, problem.row) == (ProblemCode.TOO_LARGE_NUMBER, 2)
    assert problem.message.startswith("Row 2: the score (score) is too large: ")
    assert len(problem.message) < 300
    assert np.isfinite(reading.pairs.gold).all()


def test_reports_ambiguous_commas() -> None:
    rows = [(f"가 {row}", f"나 {row}", f"{row + 1},000") for row in range(5)]
    reading = read(table(*rows, more=8))
    (problem,) = reading.files[0].problems
    assert (problem.code, problem.row, reading.left_out) == (ProblemCode.DECIMAL_COMMA, None, 0)
    assert "1,000 (column score) were read as 1, with a decimal comma" in problem.message
    assert reading.pairs.values[:5].tolist() == [1, 2, 3, 4, 5]
    decimals = [*rows, ("다", "라", "2,5")]
    assert problem_codes(read(table(*decimals, more=8))) == []  # certainly a decimal comma


@pytest.mark.parametrize("write", [as_csv, as_jsonl, as_parquet])
def test_reads_triplets_of_lists(write: Any) -> None:
    rows = [{"query": f"질문 {n}", "pos": [f"답 {n}"], "neg": [f"다른 글 {n}", f"먼 글 {n}"]} for n in range(6)]
    content = write(rows)
    reading = read(content if isinstance(content, bytes) else content.encode())
    assert (reading.pairs.kind, problem_codes(reading)) == (PairKind.TRIPLETS, [])
    assert list(reading.pairs.texts[1])[:4] == ["답 0", "답 0", "답 1", "답 1"], "each negative has its positive"
    assert list(reading.pairs.texts[2])[:4] == ["다른 글 0", "먼 글 0", "다른 글 1", "먼 글 1"]


def test_reports_columns_without_a_role_as_unused() -> None:
    rows = [{"번호": n, "문장1": f"가 {n}", "문장2": f"나 {n}", "점수": n % 6, "구분": "뉴스"} for n in range(12)]
    file = read(as_jsonl(rows).encode()).files[0]
    assert (file.used_columns, file.unused_columns) == (("문장1", "문장2", "점수"), ("번호", "구분")), "뉴스 is no part"


def test_joins_archive_members_into_a_set() -> None:
    files = {"readme.md": "짝".encode(), "train.tsv": table(), "test.tsv": table(more=3)}
    reading = read(zipped(files), "sts.zip")
    assert (reading.pairs.name, [file.part for file in reading.files]) == ("sts", [Part.TEST, Part.TRAIN])
    assert (len(reading.pairs), problem_codes(reading)) == (15, [(ProblemCode.DESCRIBING_FILES, None)])
    assert [file.part for file in read(zipped(files), parts=(None,)).files] == [None, None]


def test_joins_json_lists_named_as_parts() -> None:
    rows = [{"sentence1": f"가 {n}", "sentence2": f"나 {n}", "score": n % 6} for n in range(12)]
    reading = read(json.dumps({"train": rows[:8], "dev": rows[8:]}).encode())
    assert reading.pairs.published.tolist() == [0] * 8 + [1] * 4


def test_skips_rows_with_empty_lists() -> None:
    rows = [{"query": f"질문 {n}", "pos": [f"답 {n}"], "neg": [f"글 {n}"] if n else []} for n in range(11)]
    reading = read(as_jsonl(rows).encode())
    assert problem_codes(reading) == [(ProblemCode.NOT_TEXT, 1)]
    assert len(reading.pairs.texts[0]) == 10


def test_keeps_sentences_in_brackets() -> None:
    rows = [{"sentence1": f'["속보"] 소식 {n}', "sentence2": f"[{n}]", "score": str(n % 5)} for n in range(12)]
    assert list(read(as_jsonl(rows).encode()).pairs.texts[1])[:2] == ["[0]", "[1]"]
