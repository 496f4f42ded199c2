"""What others published for a question set, so that one's own figures have company: read from `published.toml`.

Nothing of it was measured here: models, texts and their preparation are those of the source.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

from pydantic import BaseModel, Field

_OTHER = re.compile(r"[\W_]+")


class Source(BaseModel):
    """Who published, where and when, and what was measured."""

    id: str
    title: str
    address: str = Field(pattern="^https://")
    date: date
    measure: str


class _Set(BaseModel):
    title: str
    names: tuple[str, ...]
    questions: int
    source: str
    figures: dict[str, float]


class _File(BaseModel):
    source: tuple[Source, ...]
    models: dict[str, str]
    set: tuple[_Set, ...]


@dataclass(frozen=True)
class Published:
    """Figures (0 to 1) of others by model, over `questions` of a set, and which kind each model is: late or dense."""

    title: str
    questions: int
    source: Source
    figures: Mapping[str, float]
    kinds: Mapping[str, str]


def published(name: str) -> Sequence[Published]:
    """Return what is known of the set of this name, as people call it; nothing of most."""
    letters, file = _OTHER.sub("", name.casefold()), _file()
    sources = {source.id: source for source in file.source}
    return [
        Published(one.title, one.questions, sources[one.source], one.figures, file.models)
        for one in file.set
        if any(known in letters for known in one.names)
    ]


@cache
def _file() -> _File:
    return _File.model_validate(tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")))
