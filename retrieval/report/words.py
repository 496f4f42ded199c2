"""The words of the report, in the reader's language.

What a person named or wrote is put into the words as text, never as HTML.
"""

import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

LANGUAGES = ("en", "ko")
Say = Callable[..., Markup]


@cache
def catalog(language: str) -> dict[str, str]:
    """Return the texts of a language by key, `section.name`. Raises `ValueError` where the language is not known."""
    if language not in LANGUAGES:
        raise ValueError(f"the report is written in {' or '.join(LANGUAGES)}, not in {language!r}")
    tables = tomllib.loads(Path(__file__).with_name(f"{language}.toml").read_text(encoding="utf-8"))
    return {f"{section}.{name}": text for section, entries in tables.items() for name, text in entries.items()}


def words_of(language: str) -> Say:
    """Return `say(key, **values)`: the text of a key as HTML, with its fields filled in and escaped."""
    texts = catalog(language)

    def say(key: str, /, **values: Any) -> Markup:
        return Markup(texts[key]).format(**values)  # noqa: S704 - our own words; format escapes the values

    return say
