"""The published part that names of files and folders and cells tell."""

import pytest

from mrc_workbench.data.layouts.references import part_named, part_of_path, published_parts


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
def test_names_tell_the_part(path: str, part: str) -> None:
    assert part_of_path(path) == part


@pytest.mark.parametrize(
    ("cell", "part"),
    [
        ("Train", "train"),
        ("valid ", "validation"),
        ("시험용", "test"),
        ("what does a test measure?", ""),
        (3, ""),
        (["test"], ""),
        (None, ""),
    ],
)
def test_cells_tell_the_part(cell: object, part: str) -> None:
    assert part_named(cell) == part


def test_a_single_part_divides_nothing() -> None:
    assert published_parts(["qrels/test.tsv", "queries.jsonl"]) == {}
    assert published_parts(["train.json", "dev.json", "notes.json"]) == {
        "train.json": "train",
        "dev.json": "validation",
    }
