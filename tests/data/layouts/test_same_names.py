"""Files with equal names, unusual archives, missing shards, and groups without passages in the corpus."""

import io
import json
import struct
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.layouts.members import list_files, missing_shards, select_data_files, with_distinct_names
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import (
    QuestionSetReading,
    export_archive,
    read,
    read_file,
    read_files,
    read_paths_in_subprocess,
)
from mrc_workbench.data.store import load, save_question_set
from mrc_workbench.data.subprocess_reader import File
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.retrieval.rankings import Rankings
from tests.data.layouts import written

CORPUS = written.jsonl([{"doc_id": f"d{n}", "contents": f"지문 {n}의 글이다."} for n in range(4)])


@pytest.mark.parametrize("name", written.LAYOUTS)
def test_reads_files_with_equal_names(name: str) -> None:
    files = written.LAYOUTS[name]()
    expected = written.read_all(files)
    reading = read_files([File(Content(content), "test.jsonl") for content in files.values()])
    assert reading.question_set.corpus_fingerprint == expected.question_set.corpus_fingerprint
    assert written.judged_texts(reading) == written.judged_texts(expected)
    assert len({file.name for file in reading.files}) == len(expected.files), "each file has a distinct name"


def test_names_files_with_their_folders(tmp_path: Path) -> None:
    written.write_all(tmp_path, written.mteb_jsonl())
    reading = read_paths_in_subprocess([tmp_path / name for name in written.mteb_jsonl()])
    assert [file.name for file in reading.files] == ["corpus/test.jsonl", "queries/test.jsonl", "qrels/test.jsonl"]
    assert len(reading.question_set.questions) == 3


def test_reads_archive_members_with_equal_names() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive, warnings.catch_warnings(action="ignore"):
        for content in written.beir().values():
            archive.writestr("data.jsonl", content)
    reading = read(out.getvalue(), "beir.zip")
    assert [file.name for file in reading.files] == ["data.jsonl", "data (2).jsonl", "data (3).jsonl"]
    assert len(reading.question_set.questions) == 3


def test_numbers_repeated_file_names() -> None:
    names = ["a.csv", "a.csv", "a (2).csv", "b/x", "b/x", ".csv", ".csv", "", ""]
    distinct_names = [file.name for file in with_distinct_names([File(Content(b"x"), name) for name in names])]
    assert distinct_names == ["a.csv", "a (2).csv", "a (2) (2).csv", "b/x", "b/x (2)", ".csv", ".csv (2)", "", " (2)"]


def test_rejects_several_collections_without_an_empty_name() -> None:
    files = written.beir()
    outside = {name.removeprefix("scifact/"): content for name, content in files.items()}
    with pytest.raises(DataError, match=r"several collections here: corpus\.jsonl, scifact\."):
        read(written.zipped({**outside, **files}), "both.zip")


def as_windows_writes(name: str, files: dict[str, bytes], encoding: str) -> bytes:
    """Return a zip archive of a folder with a name that has no UTF-8 flag."""
    placeholder = "x" * len(name.encode(encoding))
    content = written.zipped({f"{placeholder}/{file}": held for file, held in files.items()})
    return content.replace(placeholder.encode(), name.encode(encoding))


@pytest.mark.parametrize("encoding", ["cp949", "utf-8"])
def test_decodes_korean_member_names_without_utf8_flag(encoding: str) -> None:
    files = {name.removeprefix("scifact/"): content for name, content in written.beir().items()}
    reading = read(as_windows_writes("한국어", files, encoding), "set.zip")
    assert [file.name for file in reading.files] == [
        "한국어/corpus.jsonl", "한국어/queries.jsonl", "한국어/qrels/test.tsv",
    ]  # fmt: skip


def test_reports_empty_files_of_an_archive_or_a_folder(tmp_path: Path) -> None:
    files = {**written.beir(), "scifact/dev.tsv": b""}
    written.write_all(tmp_path, files)
    for reading in (read(written.zipped(files), "scifact.zip"), read_paths_in_subprocess([tmp_path / "scifact"])):
        (empty,) = [gap for gap in reading.gaps if gap.code is ProblemCode.EMPTY_FILE]
        assert empty.message.startswith("scifact/dev.tsv: The file is empty")


def test_rejects_an_empty_corpus_file() -> None:
    files = {name: b"" if "corpus" in name else content for name, content in written.beir().items()}
    with written.refuses(ProblemCode.EMPTY_FILE, r"corpus\.jsonl: The file is empty"):
        written.read_all(files)


def test_rejects_members_wrongly_listed_as_empty() -> None:
    content = bytearray(written.zipped(written.beir()))
    entry = content.index(b"PK\x01\x02")
    struct.pack_into("<I", content, entry + 24, 0)  # its size
    match = r"The archive scifact\.zip cannot be unpacked .*corpus\.jsonl is empty"
    with written.refuses(ProblemCode.BROKEN_ARCHIVE, match):
        read(bytes(content), "scifact.zip")


def test_rejects_archives_with_trailing_bytes() -> None:
    with written.refuses(ProblemCode.BROKEN_ARCHIVE, r"The archive scifact\.zip cannot be unpacked"):
        read(written.zipped(written.beir()) + bytes(70_000), "scifact.zip")


def autorag(groups: list[list[str]]) -> QuestionSetReading:
    questions = written.named("qid query retrieval_gt", [("q1", "무엇?", groups), ("q2", "왜?", [["d0"]])])
    return written.read_all({"qa.jsonl": written.jsonl(questions), "corpus.jsonl": CORPUS})


@pytest.mark.parametrize(
    ("groups", "recall"),
    [
        ([["d1"], ["d2"]], 1.0),
        ([["d1"], ["zz"]], 1 / 2),
        ([["d1"], ["zz"], ["yy"]], 1 / 3),
        ([["d1", "zz"], ["d2"]], 1.0),
    ],
)
def test_counts_missing_groups_as_not_met(groups: list[list[str]], recall: float) -> None:
    question_set = autorag(groups).question_set
    rows = [[question_set.row_of_passage[id_] for id_ in ranked] for ranked in (("d1", "d2"), ("d0", "d3"))]
    rankings = Rankings(np.array(rows, dtype=np.int32), np.array([[2, 1], [2, 1]], dtype=np.float32))
    scores = evaluate(rankings, question_set, ks=[2])
    assert scores.per_question["recall@2"].tolist() == pytest.approx([recall, 1.0])


def test_reports_and_stores_missing_groups() -> None:
    reading = autorag([["d1"], ["zz"]])
    assert written.gaps(reading)["unmet_groups"] == {"ids": 1, "examples": "q1"}
    loaded = load(save_question_set(reading.question_set).key)
    assert loaded.questions == reading.question_set.questions
    assert loaded.relevant_from(1).questions[0].groups == (("d1",), ())


def test_keeps_questions_without_known_passages_unanswerable() -> None:
    reading = autorag([["yy"], ["zz"]])
    assert reading.question_set.questions[0].groups == ()
    assert "unmet_groups" not in written.gaps(reading)
    assert written.gaps(reading)["unjudged_questions"]["examples"] == "q1"


def test_exports_missing_groups() -> None:
    question_set = autorag([["d1"], ["zz"]]).question_set
    again = read(export_archive(question_set, Layout.BEIR), "again.zip")
    assert again.question_set.questions == question_set.questions
    assert again.question_set.questions[0].groups == (("d1",), ())
    assert "unmet_groups" in written.gaps(again)


ROWS = {"question": ["곰은?", "새는?", "강은?"], "context": ["곰은 산에 산다.", "새는 난다.", "강은 흐른다."]}


def files_named(*names: str) -> list[File]:
    return [File(Content(b"content"), name) for name in names]


def test_ignores_metadata_files_of_stored_datasets(tmp_path: Path) -> None:
    Dataset.from_dict(ROWS).save_to_disk(tmp_path / "stored", num_shards=1)
    reading = read_file(tmp_path / "stored")
    assert [question.text for question in reading.question_set.questions] == ROWS["question"]
    assert reading.gaps == ()


def test_ignores_metadata_files_of_dataset_dicts(tmp_path: Path) -> None:
    rows = Dataset.from_dict(ROWS)
    shards = {"train": 2, "validation": 1}
    DatasetDict(dict.fromkeys(shards, rows)).save_to_disk(tmp_path / "set", num_shards=shards)
    data, notices = select_data_files(list_files(tmp_path / "set"))
    train = [f"set/train/data-0000{shard}-of-00002.arrow" for shard in range(2)]
    assert [file.name for file in data] == [*train, "set/validation/data-00000-of-00001.arrow"]
    assert notices == ()


def test_reports_missing_files_of_stored_datasets(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    Dataset.from_dict(ROWS).save_to_disk(folder, num_shards=3)
    (folder / "data-00001-of-00003.arrow").unlink()
    _, (notice,) = select_data_files(list_files(folder))
    assert notice.code is ProblemCode.MISSING_SHARDS
    assert notice.details == {"ids": 1, "examples": "set/data-00001-of-00003.arrow"}


def test_detects_missing_shards_by_name() -> None:
    shards = files_named("train-00000-of-00002.parquet", "test-00000-of-00001.parquet")
    assert missing_shards(shards) == ["train-00001-of-00002.parquet"]
    assert missing_shards(files_named("a/train-00000-of-00002.parquet", "a/train-00001-of-00002.parquet")) == []
    assert len(missing_shards(files_named("x-00000-of-99999.arrow"))) < 2000


@pytest.mark.parametrize(
    "state", [b"[]", b"{", b'{"_data_files": 3}', b'{"_data_files": [{"filename": null}, 4]}', b"\xff\xfe"]
)
def test_ignores_damaged_state_files(state: bytes) -> None:
    assert missing_shards([File(Content(state), "set/state.json"), *files_named("set/data-00000-of-00001.arrow")]) == []


def test_reads_state_json_without_arrow_files_as_data() -> None:
    files = [File(Content(json.dumps([{"text": "a"}]).encode()), "state.json"), *files_named("corpus.jsonl")]
    data, notices = select_data_files(files)
    assert (len(data), notices) == (2, ())
