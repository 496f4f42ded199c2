"""Files of `save_to_disk`: notes are no data, missing files are named."""

import json
from pathlib import Path

import pytest
from datasets import Dataset, DatasetDict

from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.layouts.members import files_of
from mrc_workbench.data.layouts.reading import missing_shards, set_aside
from mrc_workbench.data.problems import ProblemCode
from mrc_workbench.data.questions.read import File, read_file

ROWS = {"question": ["곰은?", "새는?", "강은?"], "context": ["곰은 산에 산다.", "새는 난다.", "강은 흐른다."]}


def named(*names: str) -> list[File]:
    return [File(Content(b"content"), name) for name in names]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    folder = tmp_path / "stored"
    Dataset.from_dict(ROWS).save_to_disk(folder, num_shards=1)
    return folder


def test_a_stored_dataset_is_read_without_its_notes(stored: Path) -> None:
    reading = read_file(stored)
    assert [one.text for one in reading.question_set.questions] == ROWS["question"]
    assert reading.gaps == ()


def test_notes_of_a_dictionary_of_splits_are_not_data(tmp_path: Path) -> None:
    rows = Dataset.from_dict(ROWS)
    DatasetDict({"train": rows, "validation": rows}).save_to_disk(
        tmp_path / "set", num_shards={"train": 2, "validation": 1}
    )
    data, notices = set_aside(files_of(tmp_path / "set"))
    assert [file.name for file in data] == [
        "set/train/data-00000-of-00002.arrow",
        "set/train/data-00001-of-00002.arrow",
        "set/validation/data-00000-of-00001.arrow",
    ]
    assert notices == ()


def test_missing_files_of_a_stored_dataset_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    Dataset.from_dict(ROWS).save_to_disk(folder, num_shards=3)
    (folder / "data-00001-of-00003.arrow").unlink()
    _, (notice,) = set_aside(files_of(folder))
    assert notice.code is ProblemCode.MISSING_SHARDS
    assert notice.details == {"ids": 1, "examples": "set/data-00001-of-00003.arrow"}


def test_missing_shards_are_told_by_names() -> None:
    assert missing_shards(named("train-00000-of-00002.parquet", "test-00000-of-00001.parquet")) == [
        "train-00001-of-00002.parquet"
    ]
    assert missing_shards(named("a/train-00000-of-00002.parquet", "a/train-00001-of-00002.parquet")) == []
    assert len(missing_shards(named("x-00000-of-99999.arrow"))) < 2000


@pytest.mark.parametrize(
    "state", [b"[]", b"{", b'{"_data_files": 3}', b'{"_data_files": [{"filename": null}, 4]}', b"\xff\xfe"]
)
def test_damaged_notes_name_nothing(state: bytes) -> None:
    assert missing_shards([File(Content(state), "set/state.json"), *named("set/data-00000-of-00001.arrow")]) == []


def test_json_of_the_same_name_beside_other_files_is_data() -> None:
    files = [File(Content(json.dumps([{"text": "a"}]).encode()), "state.json"), *named("corpus.jsonl")]
    data, notices = set_aside(files)
    assert (len(data), notices) == (2, ())
