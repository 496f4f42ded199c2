"""The words of the report, in the reader's language.

What a person named or wrote is put into the words as text, never as HTML.
"""

import tomllib
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

LANGUAGES = ("en", "ko")
Say = Callable[..., Markup]
_RETRIEVERS = {  # the default names, which results and addresses hold, and the keys of what a reader calls them
    "Dense": "dense",
    "Late": "late",
    "Best mix": "best_mix",
    "Hybrid": "hybrid",
    "Reranked": "reranked",
    "BM25 words": "bm25_words",
    "LSA": "lsa",
}
_OF_A_MODEL = " · "  # between the name of a retriever and that of its model
_TRAINED = "trained"


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


def kind_label(kind: str, say: Say) -> str:
    """Return what a reader calls a question type; a type without words keeps its name."""
    with suppress(KeyError):
        return str(say(f"question_kind.{kind}"))
    return kind


def retriever_name(name: str, language: str) -> str:
    """Return what a reader calls a retriever: a default name in their language, any other as it is. Not HTML."""
    kind, separator, model = name.partition(_OF_A_MODEL)
    if kind not in _RETRIEVERS:
        return name
    texts = catalog(language)
    if model == _TRAINED:
        model = texts["retriever.trained"]
    return texts[f"retriever.{_RETRIEVERS[kind]}"] + separator + model


def retriever_names(names: Iterable[str], language: str) -> dict[str, str]:
    """Return what a reader calls each of these retrievers: their names as they are if two would be called the same."""
    called = {name: retriever_name(name, language) for name in names}
    return called if len(set(called.values())) == len(called) else {name: name for name in called}
