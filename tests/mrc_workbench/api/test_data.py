"""Datasets of tables, dictionaries and files."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import mrc_workbench as mrc
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.store import stored

ROWS = [
    {"질문": "자격루는 누가 만들었는가?", "지문": "자격루는 장영실이 만든 물시계이다.", "정답": "장영실"},
    {"질문": "측우기는 무엇을 재는가?", "지문": "측우기는 비가 내린 양을 재는 기구이다.", "정답": "비가 내린 양"},
]
COLUMNS = {"question": "질문", "context": "지문", "answers": "정답"}
BEIR: dict[str, Any] = {
    "corpus": {"d 1": {"title": "Clock", "text": "Jang built the clock."}, "d2": "It rains.", "d3": "Snow falls."},
    "queries": {"q1": "Who built the clock?", "q2": "What falls?"},
    "qrels": {"q1": {"d 1": 2, "d2": 0}, "q2": {"d3": 1, "d2": 1}},
}


class Polars:
    """A table of another library."""

    def to_pandas(self) -> pd.DataFrame:
        return pd.DataFrame(ROWS)


@pytest.mark.parametrize("source", [ROWS, pd.DataFrame(ROWS), pd.DataFrame(ROWS, index=[7, 9]), Polars()])
def test_rows_of_any_table_are_read_as_those_of_a_file(source: Any, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    pd.DataFrame(ROWS).to_csv(file, index=False)
    of_file, dataset = mrc.load(file, columns=COLUMNS), mrc.load(source, columns=COLUMNS)
    assert dataset.question_set.fingerprint == of_file.question_set.fingerprint
    assert dataset.questions["answers"].tolist() == [["장영실"], ["비가 내린 양"]]
    assert dataset.passages["text"].tolist() == [row["지문"] for row in ROWS]


def test_roles_that_are_not_named_are_recognised() -> None:
    assert mrc.load(ROWS, columns={"question": "질문"}).passages["text"].tolist() == [row["지문"] for row in ROWS]


def test_beir_dictionaries_keep_ids_and_grades() -> None:
    dataset = mrc.load(BEIR, name="Weather")
    assert dataset.name == "Weather"
    assert dataset.questions["relevant"].to_dict() == {"q1": {"d 1": 2, "d2": 0}, "q2": {"d3": 1, "d2": 1}}
    assert dataset.passages.loc["d 1"].tolist() == ["Clock", "Jang built the clock."]


def test_several_files_are_one_collection(tmp_path: Path) -> None:
    corpus = [{"_id": "d1", "text": "Jang built the clock."}, {"_id": "d2", "text": "It rains."}]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "Who built the clock?"}))
    (tmp_path / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    dataset = mrc.load([tmp_path / "corpus.jsonl", tmp_path / "queries.jsonl", tmp_path / "test.tsv"])
    assert dataset.questions["relevant"]["q1"] == {"d1": 1}


def test_saved_dataset_is_listed_and_loaded_by_its_key() -> None:
    dataset = mrc.load(BEIR, name="Weather")
    assert dataset.key not in mrc.datasets()["name"].tolist()
    assert dataset.save() == dataset.key
    assert [(one.key, one.name) for one in stored()] == [(dataset.key, "Weather")]
    assert mrc.datasets()["name"].tolist()[-1] == dataset.key
    assert mrc.load(dataset.key).question_set.fingerprint == dataset.question_set.fingerprint


def test_problems_tell_which_rows_are_left_out() -> None:
    rows = [*ROWS, {"질문": "어디인가?", "지문": "", "정답": ""}]
    assert any("3" in problem or "4" in problem for problem in mrc.load(rows, columns=COLUMNS).problems)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "an empty list"),
        ([1, 2], "a list of int"),
        ({"corpus": {}}, "queries, qrels is missing"),
        (pd.DataFrame({"question": ["a", 1]}), "one type"),
    ],
)
def test_refuses_what_is_no_data(source: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mrc.load(source)


def test_refuses_unknown_role_and_suggests_one() -> None:
    with pytest.raises(ValueError, match="did you mean 'context'"):
        mrc.load(ROWS, columns={"contxt": "지문"})


def test_refuses_unknown_name() -> None:
    with pytest.raises(DataError, match="There is no dataset"):
        mrc.load("nothing.csv")


def test_notebook_shows_texts_escaped() -> None:
    dataset = mrc.load([{"question": "<script>1</script>?", "context": "Some text of a passage."}])
    assert "<script>" not in dataset._repr_html_()
    assert "&lt;script&gt;" in dataset._repr_html_()
