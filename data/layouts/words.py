"""The names of columns, keys and files that the readers of layouts know, in lists from `words.toml`."""

import tomllib
from collections.abc import Mapping
from pathlib import Path


def _as_tuples(lists: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(words) for name, words in lists.items() if isinstance(words, list)}


_LISTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
WORDS = _as_tuples(_LISTS)
QUESTION_KEYS = _as_tuples(_LISTS["question_keys"])
PASSAGE_KEYS = _as_tuples(_LISTS["passage_keys"])
PART_WORDS = _as_tuples(_LISTS["parts"])
