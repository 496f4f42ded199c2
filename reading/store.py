"""Evaluations of readers on disk, for pages that were not there when they were made.

A folder holds what retrievers found (`found`, a kept comparison), `answers.json`, `judged.npz` and, written last,
`scores.json`: a folder with scores is whole.
"""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from data.cache import Arrays, load_arrays, save_arrays
from data.failure import Failure
from data.records import QuestionSet
from data.workspace import read_json, write_json
from reading.evaluate import Answered, ByDepth, Candidates, ReaderResult, ReadingResult
from reading.experiment import ReadingExperiment
from reading.results import as_dict
from retrieval.comparison import store as comparison_store
from retrieval.comparison.compare import Comparison
from retrieval.comparison.experiment import Experiment

_SCORES, _TEXTS, _ARRAYS, _FOUND = "scores.json", "answers.json", "judged.npz", "found"
_ANSWERS: TypeAdapter[dict[str, dict[str, list[list[str]]]]] = TypeAdapter(dict[str, dict[str, list[list[str]]]])
_OF_CANDIDATES = tuple(one.name for one in fields(Candidates) if one.name != "answers")
_OF_DEPTHS = tuple(one.name for one in fields(ByDepth) if one.name != "ks")


@dataclass(frozen=True)
class KeptReading:
    """An evaluation of readers as it was made, and the content of its `scores.json`; language models are not in it."""

    result: ReadingResult
    told: dict[str, Any]


def keep(result: ReadingResult, folder: Path) -> None:
    """Write what `load` reads. Raises `OSError`."""
    (folder / _SCORES).unlink(missing_ok=True)  # those of another run do not belong to what follows
    comparison_store.keep(_plain(result.comparison), folder / _FOUND)
    arrays: Arrays = {}
    for number, reader in enumerate(result.readers):
        arrays[f"{number}_oracle"] = reader.oracle
        for place, answered in enumerate(reader.by_retriever.values()):
            arrays |= {f"{number}_{place}_read_{name}": getattr(answered.read, name) for name in _OF_CANDIDATES}
            arrays |= {f"{number}_{place}_depth_{name}": getattr(answered.depth, name) for name in _OF_DEPTHS}
    save_arrays(folder / _ARRAYS, arrays)
    texts = {one.name: {name: by.read.answers for name, by in one.by_retriever.items()} for one in result.readers}
    write_json(folder / _TEXTS, texts)
    units = {one.name: {name: by.unit for name, by in one.by_retriever.items()} for one in result.readers}
    experiment = result.experiment.model_dump(mode="json")
    write_json(folder / _SCORES, as_dict(result) | {"experiment": experiment, "units": units})


def load(folder: Path, question_set: QuestionSet) -> KeptReading:
    """Read an evaluation of questions of `question_set` (the whole set; its part is taken as it was then).

    Raises `ValueError` where the folder holds no whole evaluation of this version, or one of other questions.
    """
    told, arrays = read_json(folder / _SCORES), load_arrays(folder / _ARRAYS)
    if not told or arrays is None:
        raise ValueError(f"{folder} holds no finished evaluation")
    found = comparison_store.load(folder / _FOUND, question_set)
    try:
        texts = _ANSWERS.validate_json((folder / _TEXTS).read_bytes())
        experiment = ReadingExperiment.model_validate(told["experiment"])
        readers = tuple(
            _reader(number, spec.name, experiment.depths_read, told=told, texts=texts[spec.name], arrays=arrays)
            for number, spec in enumerate(experiment.reader)
        )
    except (AttributeError, KeyError, OSError, TypeError, ValidationError) as error:
        raise ValueError(f"{folder} holds no evaluation of this version: {error!r}") from error
    return KeptReading(ReadingResult(experiment, found, readers), told)


def _plain(comparison: Comparison) -> Comparison:
    """The comparison without what is of readers alone, as any other is kept."""
    content = comparison.experiment.model_dump(include=set(Experiment.model_fields))
    return replace(comparison, experiment=Experiment.model_validate(content))


def _reader(
    number: int,
    name: str,
    ks: tuple[int, ...],
    *,
    told: dict[str, Any],
    texts: dict[str, list[list[str]]],
    arrays: Arrays,
) -> ReaderResult:
    if isinstance(told["readers"][name].get("error"), str):  # a retriever may be called so
        return ReaderResult(name, error=Failure.from_dict(told["readers"][name]))
    answered = {}
    for place, retriever in enumerate(told["readers"][name]):

        def part(of: str, names: tuple[str, ...], place: int = place) -> dict[str, np.ndarray]:
            return {one: arrays[f"{number}_{place}_{of}_{one}"] for one in names}

        weight = told["weights"][name][retriever]
        answered[retriever] = Answered(
            ByDepth(ks, **part("depth", _OF_DEPTHS)),
            Candidates(texts[retriever], **part("read", _OF_CANDIDATES)),
            weight["weight"],
            weight["chosen_on"] is not None,
            told["units"][name][retriever],
        )
    return ReaderResult(name, answered, arrays[f"{number}_oracle"])
