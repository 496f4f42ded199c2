"""Cells that name one or several passages by id, file name or title."""

import json
import unicodedata
from collections.abc import Sequence
from typing import Any

import pytest

from mrc_workbench.data.layouts import references
from mrc_workbench.data.layouts.references import NameKind
from mrc_workbench.data.questions.read import read
from tests.data.layouts.written import grades, jsonl, read_all, relevant, relevant_texts

FILES = ("2023/휴가 규정.txt", "2024/휴가 규정.txt", "수당.txt#연차", "수당.txt#야근", "007.md", "출장.txt", "출장.pdf")
IDS = {name: index for index, name in enumerate(FILES)}
TITLES = ("", "", "수당", "수당", "출장 안내")


def find_names(cell: object, kind: NameKind, ids: dict[str, int] | None = None) -> list[tuple[str, Sequence[int]]]:
    passages = references.PassageNames(IDS if ids is None else ids, lambda: TITLES)
    return [(name, [*positions]) for name, positions in references.named_passages(cell, kind, passages)]


@pytest.mark.parametrize(
    ("name", "positions"),
    [
        ("휴가 규정.txt", [0, 1]),
        ("휴가_규정.TXT", [0, 1]),
        ("2024/휴가 규정.txt", [1]),
        ("./자료/2024/휴가_규정", [1]),
        ("C:\\자료\\2023\\휴가 규정.txt", [0]),
        ("2022/휴가 규정.txt", [0, 1]),
        ("출장.PDF", [6]),
        ("출장", [5, 6]),
        ("수당", [2, 3]),
        ("수당.txt 3쪽", [2, 3]),
        ("수당.txt, p. 3-4", [2, 3]),
        ("출장.pdf (2페이지)", [6]),
        ("수당.txt#야근", [2, 3]),
        ("7", [4]),
        ("없는 문서.txt", []),
    ],
)
def test_resolves_files_by_name_and_folder(name: str, positions: list[int]) -> None:
    assert find_names(name, NameKind.FILE) == [(name, positions)]
    decomposed = unicodedata.normalize("NFD", name)
    assert find_names(decomposed, NameKind.FILE) == [(decomposed, positions)]


@pytest.mark.parametrize(
    "cell",
    ["D1, D3", "D1;D3", "D1|D3", "D1\nD3", "D1、D3", "D1/D3", "D1·D3", "D1 & D3", "D1 D3", "{D1;D3}", "['D1', 'D3']"],
)
def test_splits_several_ids_in_a_cell(cell: str) -> None:
    assert find_names(cell, NameKind.ID, {"D1": 0, "D2": 1, "D3": 2}) == [("D1", [0]), ("D3", [2])]


def test_returns_unknown_ids_of_a_list() -> None:
    assert find_names("D1, D9", NameKind.ID, {"D1": 0}) == [("D1", [0]), ("D9", [])]


def test_splits_at_ambiguous_separators_only_between_known_names() -> None:
    assert find_names("출장 안내", NameKind.TITLE) == [("출장 안내", [4])]
    assert find_names("수당 규정", NameKind.TITLE) == [("수당 규정", [])]
    assert find_names("수당/출장 안내", NameKind.TITLE) == [("수당", [2, 3]), ("출장 안내", [4])]


@pytest.mark.parametrize(
    ("ids", "name", "expected"),
    [
        (["0", "1", "10"], "1.0", "1"),
        (["0", "1", "10"], "0.0", "0"),
        (["1.0", "2.0"], "2", "2.0"),
        (["001", "002"], "2", "002"),
        (["1", "1.0"], "01", None),
        (["d1"], "d1.0", None),
        (["1"], "1.5", None),
        (["1"], "1e0", None),
        (["1000", "2500"], "1e3", "1000"),
        (["1000", "2500"], "2.5E+03", "2500"),
        (["1000"], "1.0005e3", None),
        (["1"], "１.0", None),
        (["1"], "", None),
    ],
)
def test_finds_the_id_with_the_same_number(ids: list[str], name: str, expected: str | None) -> None:
    assert references.NumberIds(lambda: ids).find(name) == expected


def test_finds_ids_added_later() -> None:
    ids = ["1"]
    numbers = references.NumberIds(lambda: ids)
    assert numbers.find("2.0") is None
    ids.append("2")
    assert numbers.find("2.0") == "2"


def test_canonical_ids_are_equal_for_equal_numbers() -> None:
    assert {references.canonical_id(id_) for id_ in ("7", "07", "7.0", "7.00")} == {"7"}
    assert references.canonical_id("7a") == "7a"


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("KorQuAD_v1.0_train.json", "train"),
        ("klue-mrc-v1.1_dev.json", "validation"),
        ("train-00000-of-00003.parquet", "train"),
        ("TrainSet.json", "train"),
        ("qrels/test.tsv", "test"),
        ("queries.dev.tsv", "validation"),
        ("1.Training/라벨링데이터/span.json", "train"),
        ("2.Validation/라벨링데이터/span.json", "validation"),
        ("학습용/기사.json", "train"),
        ("훈련데이터.csv", "train"),
        ("검증/질문.csv", "validation"),
        ("평가데이터셋.csv", "test"),
        ("질문_시험.csv", "test"),
        ("train/dev.json", "validation"),
        ("学習データ.csv", "train"),
        ("训练集/a.csv", "train"),
        ("評価用.csv", "test"),
        ("train_test.json", ""),
        ("testset.csv", ""),
        ("contest/latest.json", ""),
        ("corpus.jsonl", ""),
        ("", ""),
    ],
)
def test_reads_the_part_from_paths(path: str, part: str) -> None:
    assert references.part_from_path(path) == part


@pytest.mark.parametrize(
    ("cell", "part"),
    [
        ("Train", "train"),
        ("dev", "validation"),
        ("TEST", "test"),
        ("평가", "test"),
        ("학습용", "train"),
        ("기타", ""),
        ("", ""),
        ("valid ", "validation"),
        ("시험용", "test"),
        ("what does a test measure?", ""),
        (3, ""),
        (["test"], ""),
        (None, ""),
    ],
)
def test_reads_the_part_from_cells(cell: object, part: str) -> None:
    assert references.parse_part(cell) == part


def test_ignores_a_single_published_part() -> None:
    assert references.published_parts(["qrels/test.tsv", "queries.jsonl"]) == {}
    parts = {"train.json": "train", "dev.json": "validation"}
    assert references.published_parts(["train.json", "dev.json", "notes.json"]) == parts


QUESTIONS = ("두루미는 어디로 날아오나?", "수달은 무엇을 먹나?")
TEXTS = ("두루미는 겨울에 철원 들판으로 날아온다.", "수달은 맑은 강에서 물고기를 잡아먹는다.")
ROWS = (0, 1)


EXPECTED = {question: [text] for question, text in zip(QUESTIONS, TEXTS, strict=True)}


@pytest.mark.parametrize(
    ("column", "names", "reference_column", "named"),
    [
        ("file_name", ("crane.pdf", "otter.pdf"), "target_file_name", ("crane.pdf", "otter.pdf")),
        ("url", ("https://a.kr/1", "https://a.kr/2"), "expected_url", ("https://a.kr/1", "https://a.kr/2/")),
        ("source", ("docs/crane.md", "docs/otter.md"), "source", ("crane.md", "otter.md")),
        ("파일명", ("두루미.hwp", "수달.hwp"), "정답파일", ("두루미.hwp", "수달.hwp")),
    ],
)
def test_resolves_passages_by_a_name_column(column: str, names: Any, reference_column: str, named: Any) -> None:
    documents = [{"text": TEXTS[row], column: names[row]} for row in ROWS]
    questions = [{"question": QUESTIONS[row], reference_column: named[row]} for row in ROWS]
    reading = read_all({"documents.jsonl": jsonl(documents), "questions.jsonl": jsonl(questions)})
    assert relevant_texts(reading) == EXPECTED
    assert {column, reference_column} <= {*reading.used_columns}


def test_marks_every_chunk_of_a_named_file_relevant() -> None:
    chunks = [{"text": t, "source": "birds.pdf"} for t in TEXTS] + [{"text": "곰은 산에 산다.", "source": "bear.pdf"}]
    questions = [{"question": QUESTIONS[0], "source": "birds.pdf"}, {"question": QUESTIONS[1], "source": "bear.pdf"}]
    reading = read_all({"chunks.jsonl": jsonl(chunks), "questions.jsonl": jsonl(questions)})
    assert [len(ids) for ids in relevant(reading)] == [2, 1]


@pytest.mark.parametrize(
    ("column", "names"),
    [
        ("문서", ("두루미", "수달")),
        ("document", ("두루미.txt", "docs/수달.txt")),
        ("relevant_docs", (["두루미.txt"], ["수달.txt"])),
    ],
)
def test_resolves_documents_named_in_rows(column: str, names: Any) -> None:
    questions = [{"question": QUESTIONS[row], column: names[row]} for row in ROWS]
    files = {"docs/두루미.txt": TEXTS[0].encode(), "docs/수달.txt": TEXTS[1].encode(), "qa.jsonl": jsonl(questions)}
    assert relevant_texts(read_all(files)) == EXPECTED


def test_resolves_passages_by_title_across_files() -> None:
    wiki = [{"title": f"제목 {row}", "text": TEXTS[row]} for row in ROWS]
    questions = [{"question": QUESTIONS[row], "article": f"제목 {row}"} for row in ROWS]
    reading = read_all({"a.jsonl": jsonl(questions), "wiki.jsonl": jsonl(wiki)})
    assert (relevant_texts(reading), len(reading.question_set.passages)) == (EXPECTED, 2)


@pytest.mark.parametrize(
    ("judged", "expected"),
    [({"q0": {"d0": 1, "d1": 0}, "q1": {"d1": 2}}, [{"d0": 1, "d1": 0}, {"d1": 2}]), ({"q0": ["d0"]}, [{"d0": 1}, {}])],
)
def test_reads_judgements_by_question_id(judged: Any, expected: list[dict[str, int]]) -> None:
    corpus = json.dumps({f"d{row}": TEXTS[row] for row in ROWS}).encode()
    queries = jsonl([{"query_id": f"q{row}", "text": QUESTIONS[row]} for row in ROWS])
    files = {"corpus.json": corpus, "queries.jsonl": queries, "qrels.json": json.dumps(judged).encode()}
    assert grades(read_all(files)) == expected


def test_ignores_run_scores_as_judgements() -> None:
    corpus = jsonl([{"_id": f"d{row}", "text": TEXTS[row]} for row in ROWS])
    queries = jsonl([{"_id": f"q{row}", "text": QUESTIONS[row]} for row in ROWS])
    relevance = json.dumps({"q0": {"d0": 12.5}}).encode()
    files = {"corpus.jsonl": corpus, "queries.jsonl": queries, "relevance.json": relevance}
    assert relevant(read_all(files)) == [(), ()]


def test_reads_parts_with_a_single_row() -> None:
    files = {
        f"{part}.jsonl": jsonl([{"query": QUESTIONS[row], "pos": [TEXTS[row]], "neg": []}])
        for row, part in enumerate(("train", "test"))
    }
    assert relevant_texts(read_all(files)) == EXPECTED


def test_reports_questions_whose_lists_are_empty() -> None:
    rows = [{"question": QUESTIONS[0], "contexts": [TEXTS[0]]}, {"question": QUESTIONS[1], "contexts": []}]
    assert any(QUESTIONS[1] in gap.message for gap in read(jsonl(rows), "rows.jsonl").gaps)
