"""The errors of an experiment file in words: unknown fields with the nearest known one, and no consequences."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

OWN_ERROR = "Value error, "  # what pydantic puts before the message of a check of ours


def messages_of(error: ValidationError, model: type[BaseModel], kinds: Sequence[type[BaseModel]]) -> list[str]:
    """Return a message for each error of a file of the type `model`; `kinds` are tagged by their field `kind`."""
    errors = error.errors()
    places = [one["loc"] for one in errors]
    return [_message(one, model, kinds) for one in errors if not _is_consequence(one, places)]


def _is_consequence(error: ErrorDetails, places: Sequence[tuple[int | str, ...]]) -> bool:
    """Whether a list is too short because its entries were refused."""
    place = error["loc"]
    return error["type"] == "too_short" and any(other[: len(place)] == place and other != place for other in places)


def _message(error: ErrorDetails, model: type[BaseModel], kinds: Sequence[type[BaseModel]]) -> str:
    place = error["loc"]
    where = ".".join(map(str, place)) or "file"
    if error["type"] == "union_tag_invalid":
        return f"{where}: {_unknown_kind(str(error['ctx']['tag']), kinds)}"
    if error["type"] != "extra_forbidden":
        return f"{where}: {error['msg'].removeprefix(OWN_ERROR)}"
    known = sorted(_fields_beside(place, model, kinds))
    nearest = get_close_matches(str(place[-1]), known, n=1)
    if nearest:
        return f"{where}: unknown field; did you mean {nearest[0]!r}?"
    return f"{where}: unknown field; known fields: {', '.join(known)}"


def _unknown_kind(kind: str, kinds: Sequence[type[BaseModel]]) -> str:
    known = [str(one.model_fields["kind"].default) for one in kinds if "kind" in one.model_fields]
    nearest = get_close_matches(kind, known, n=1)
    guess = f"; did you mean {nearest[0]!r}?" if nearest else "."
    return f"no kind of retriever is called {kind!r}{guess} Known: {', '.join(known)}"


def _fields_beside(place: tuple[int | str, ...], model: type[BaseModel], kinds: Sequence[type[BaseModel]]) -> set[str]:
    """Return the fields of the table that an unknown field stands in."""
    models: list[type[BaseModel]] = [model]
    for part in place[:-1]:
        if isinstance(part, int):
            continue
        tagged = [kind for kind in kinds if "kind" in kind.model_fields and kind.model_fields["kind"].default == part]
        within = [one for parent in models if part in parent.model_fields for one in _models_in(parent, part)]
        models = tagged or within or models
    return {name for one in models for name in one.model_fields}


def _models_in(parent: type[BaseModel], field: str) -> Iterator[type[BaseModel]]:
    yield from _models_of(parent.model_fields[field].annotation)


def _models_of(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_of(argument)
