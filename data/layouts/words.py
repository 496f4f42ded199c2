"""The names of columns, keys and files that the readers of layouts know, in lists from `words.toml`."""

import tomllib
from pathlib import Path

_LISTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
WORDS: dict[str, tuple[str, ...]] = {name: tuple(words) for name, words in _LISTS.items()}
