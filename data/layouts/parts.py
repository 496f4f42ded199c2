"""The published part (train, validation or test) that a cell, a file name or a folder name tells."""

import re
import unicodedata
from collections.abc import Iterable
from pathlib import PurePosixPath

from mrc_workbench.data.formats.tables import as_text, is_collection

TRAIN, VALIDATION, TEST = "train", "validation", "test"
_BY_WORD = {
    **dict.fromkeys(("train", "training", "trn", "학습", "훈련", "学習", "訓練", "训练"), TRAIN),
    **dict.fromkeys(
        ("dev", "devel", "development", "val", "valid", "validation", "검증", "개발", "検証", "验证", "開発"),
        VALIDATION,
    ),
    **dict.fromkeys(
        (
            "test",
            "testing",
            "tst",
            "eval",
            "evaluation",
            "heldout",
            "holdout",
            "평가",
            "시험",
            "테스트",
            "評価",
            "テスト",
            "测试",
            "測試",
        ),
        TEST,
    ),
}
_WORD = re.compile(r"[a-z]+|[가-힣]+|[\u3040-\u30ff\u4e00-\u9fff]+")
_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")
_LONGEST_CELL, _MOST_WORDS = 40, 3  # characters and words; a cell with more is a text
_ENDINGS = ("용데이터", "데이터셋", "데이터", "세트", "셋", "용", "用データ", "データ", "用", "集", "")


def part_named(value: object) -> str:
    """Return the part that a cell of a split column names, "" if it names none: "train", "dev", "학습용"."""
    words = [] if is_collection(value) else name_words(as_text(value)[:_LONGEST_CELL])
    return _part_of_words(words) if len(words) <= _MOST_WORDS else ""


def part_of_path(path: str) -> str:
    """Return the part that the name of a file tells, else its nearest folder that tells one, else ""."""
    for name in reversed(PurePosixPath(path).parts):
        if part := _part_of_words(name_words(name)):
            return part
    return ""


def part_of_word(word: str) -> str:
    """Return the part that a word in lower case names, "" if it names none; East Asian ones may have an ending."""
    if word.isascii():
        return _BY_WORD.get(word, "")
    endings = (ending for ending in _ENDINGS if word.endswith(ending))
    return next((part for ending in endings if (part := _BY_WORD.get(word.removesuffix(ending)))), "")


def published_parts(paths: Iterable[str]) -> dict[str, str]:
    """Return the part of each path that tells one; {} unless the paths tell at least two different parts.

    A single part, such as the test judgements that BEIR publishes alone, divides nothing.
    """
    part_by_path = {path: part for path in paths if (part := part_of_path(path))}
    return part_by_path if len({*part_by_path.values()}) > 1 else {}


def name_words(text: str) -> list[str]:
    """Return the English and Korean words of a name, in lower case; parts of camelCase are words."""
    separated = _HUMP.sub(" ", unicodedata.normalize("NFC", text))
    return _WORD.findall(separated.lower())


def _part_of_words(words: Iterable[str]) -> str:
    """The only part among words; two different ones, as of train_test.json, tell nothing."""
    parts = {part for word in words if (part := part_of_word(word))}
    return parts.pop() if len(parts) == 1 else ""
