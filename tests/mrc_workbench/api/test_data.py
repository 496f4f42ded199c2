"""Datasets of tables, dictionaries and files."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import mrc_workbench as mrc
from mrc_workbench.api.values import ApiError
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.store import stored

ROWS = [
    {"질문": "자격루는 누가 만들었는가?", "지문": "자격루는 장영실이 만든 물시계이다.", "정답": "장영실"},
    {"질문": "측우기는 무엇을 재는가?", "지문": "측우기는 비가 내린 양을 재는 기구이다.", "정답": "비가 내린 양"},
]
COLUMN_ERRORS = [(["질문"], "columns must be names by role"), ({"contxt": "지문"}, "did you mean 'context'")]
COLUMNS = {"question": "질문", "context": "지문", "answers": "정답"}
BEIR: dict[str, Any] = {
    "corpus": {"d 1": {"title": "Clock", "text": "Jang built the clock."}, "d2": "It rains.", "d3": "Snow falls."},
    "queries": {"q1": "Who built the clock?", "q2": "What falls?"},
    "qrels": {"q1": {"d 1": 2, "d2": 0}, "q2": {"d3": 1, "d2": 1}},
}


class Polars:
    def to_pandas(self) -> pd.DataFrame:
        return pd.DataFrame(ROWS)


@pytest.mark.parametrize("source", [ROWS, pd.DataFrame(ROWS), pd.DataFrame(ROWS, index=[7, 9]), Polars()])
def test_reads_table_rows_like_a_file(source: Any, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    pd.DataFrame(ROWS).to_csv(file, index=False)
    of_file = mrc.load(file, columns=COLUMNS)
    dataset = mrc.load(source, columns=COLUMNS)
    assert dataset.question_set.fingerprint == of_file.question_set.fingerprint
    assert dataset.questions["answers"].tolist() == [["장영실"], ["비가 내린 양"]]
    assert dataset.passages["text"].tolist() == [row["지문"] for row in ROWS]


def test_beir_dictionaries_keep_ids_and_grades() -> None:
    dataset = mrc.load(BEIR, name="Weather")
    assert dataset.name == "Weather"
    assert dataset.questions["relevant"].to_dict() == {"q1": {"d 1": 2, "d2": 0}, "q2": {"d3": 1, "d2": 1}}
    assert dataset.passages.loc["d 1"].tolist() == ["Clock", "Jang built the clock."]


def test_reads_several_files_as_one_collection(tmp_path: Path) -> None:
    corpus = [{"_id": "d1", "text": "Jang built the clock."}, {"_id": "d2", "text": "It rains."}]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "Who built the clock?"}))
    (tmp_path / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    dataset = mrc.load([tmp_path / "corpus.jsonl", tmp_path / "queries.jsonl", tmp_path / "test.tsv"])
    assert dataset.questions["relevant"]["q1"] == {"d1": 1}


def test_lists_and_loads_saved_dataset_by_key() -> None:
    dataset = mrc.load(BEIR, name="Weather")
    assert dataset.key not in mrc.datasets()["name"].tolist()
    assert dataset.save() == dataset.key
    assert [(stored_set.key, stored_set.name) for stored_set in stored()] == [(dataset.key, "Weather")]
    assert mrc.datasets()["name"].tolist()[-1] == dataset.key
    assert mrc.load(dataset.key).question_set.fingerprint == dataset.question_set.fingerprint


def test_reports_left_out_rows() -> None:
    rows = [*ROWS, {"질문": "어디인가?", "지문": "", "정답": ""}]
    assert any("3" in problem or "4" in problem for problem in mrc.load(rows, columns=COLUMNS).problems)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "an empty list"),
        ([1, 2], "a list of int"),
        ({"corpus": {}}, "queries, qrels is missing"),
        (pd.DataFrame({"question": ["a", 1]}), "one type"),
        (pd.DataFrame([["a", "b"]], columns=["context", "context"]), "several columns named 'context'"),
        (pd.DataFrame({"question": [], "context": []}, dtype=str), "The table contains no question"),
        (None, "cannot be loaded from None"),
        (3, "cannot be loaded from int"),
        (b"question", "cannot be loaded from bytes"),
        ("", "is empty"),
        (BEIR | {"corpus": ["text"]}, "corpus must be a dictionary of texts"),
        (BEIR | {"queries": pd.DataFrame({"_id": ["q1"]})}, "queries must be a dictionary of texts"),
        (BEIR | {"qrels": [{"query-id": "q1"}]}, "judgements must be grades by passage id by question id"),
        (BEIR | {"qrels": {"q1": ["d2"]}}, "judgements of question 'q1' must be grades by passage id"),
        (BEIR | {"qrels": {"q1": {"d2": 0.9}}}, r"must be a whole number, not 0\.9"),
    ],
)
def test_rejects_invalid_data(source: Any, message: str) -> None:
    with pytest.raises((ApiError, DataError), match=message):
        mrc.load(source)


@pytest.mark.parametrize(("columns", "message"), COLUMN_ERRORS)
def test_rejects_columns_of_unknown_roles(columns: Any, message: str) -> None:
    with pytest.raises(ApiError, match=message):
        mrc.load(ROWS, columns=columns)


@pytest.mark.parametrize(
    "row", [{"context": "자격루는 물시계이다."}, {"context": "물시계이다.", "data": "x"}, ROWS[0] | {"지문": "물시계"}]
)
def test_reads_single_row(row: dict[str, str]) -> None:
    data = mrc.load([row], columns={"context": "지문"} if "지문" in row else None)
    assert data.question_set.fingerprint == mrc.load(pd.DataFrame([row])).question_set.fingerprint
    assert len(data.passages) == 1


def test_accepts_small_collections_and_judgement_tables() -> None:
    dataset = mrc.load({"corpus": {1: "It rains."}, "queries": {2: {"text": "What falls?"}}, "qrels": {2: {1: 1.0}}})
    assert dataset.passages["text"].to_dict() == {"1": "It rains."}
    assert dataset.questions["text"].to_dict() == {"2": "What falls?"}
    pairs = [(query, passage, grade) for query, of in BEIR["qrels"].items() for passage, grade in of.items()]
    table = pd.DataFrame(pairs, columns=["query-id", "corpus-id", "score"])
    assert mrc.load(BEIR | {"qrels": table}).key == mrc.load(BEIR).key


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (ROWS, "Table of 2 questions"),
        (pd.DataFrame(ROWS[:1]), "Table of 1 question"),
        ([{"context": "It rains."}, {"context": "Snow falls."}], "Table of 2 passages"),
        (BEIR, "Collection of 2 questions"),
    ],
)
def test_names_python_data_by_size(source: Any, name: str) -> None:
    assert mrc.load(source).name == name
    assert mrc.load(source, name="Own").name == "Own"


def test_recognises_columns_and_accepts_numbers() -> None:
    assert mrc.load(ROWS, columns={"question": "질문"}).passages["text"].tolist() == [row["지문"] for row in ROWS]
    table = pd.DataFrame([list(row.values()) for row in ROWS])
    dataset = mrc.load(table, columns={"question": 0, "context": 1, "answers": 2})  # type: ignore[dict-item]
    assert dataset.key == mrc.load(ROWS, columns=COLUMNS).key


def test_messages_name_arguments_of_load(tmp_path: Path) -> None:
    table = pd.DataFrame({"foo": ["Who built it?"], "bar baz": ["Jang built the clock in Seoul, long ago."]})
    with pytest.raises(DataError, match="No context column found") as refused:
        mrc.load(table, columns={"question": "foo"})
    assert 'columns={"context": "bar baz"}' in str(refused.value)
    assert "--columns" not in str(refused.value)
    assert "Columns in the table: foo, bar baz" in str(refused.value)
    file = tmp_path / "table.csv"
    file.write_bytes("question,context\n무엇인가?,자격루는 물시계이다.\n".encode("cp949"))
    with pytest.raises(DataError, match='encoding="NAME"'):
        mrc.load(file, encoding="klingon")


def test_reports_missing_file() -> None:
    with pytest.raises(DataError, match=r"There is no dataset no/such/file\.csv: no such file"):
        mrc.load("no/such/file.csv")
    with pytest.raises(DataError, match=r"There is no dataset smple\. Give a path"):
        mrc.load("smple")


def test_escapes_texts_in_notebook() -> None:
    dataset = mrc.load([{"question": "<script>1</script>?", "context": "Some text of a passage."}])
    assert "<script>" not in dataset._repr_html_()
    assert "&lt;script&gt;" in dataset._repr_html_()
