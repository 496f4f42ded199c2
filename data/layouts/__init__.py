"""Collections as they are published: passages, questions and judgements in separate files, or together in rows.

`words.toml` lists the names of columns, keys and files that the readers know.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path


def _as_tuples(lists: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(words) for name, words in lists.items() if isinstance(words, list)}


_LISTS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
WORDS = _as_tuples(_LISTS)
QUESTION_KEYS = _as_tuples(_LISTS["question_keys"])
PASSAGE_KEYS = _as_tuples(_LISTS["passage_keys"])
PART_WORDS = _as_tuples(_LISTS["parts"])
