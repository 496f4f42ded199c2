"""What is told of answers, `scores.json` and the files beside it, and evaluations kept for pages that were not there.

A kept folder holds what retrievers found (`found`, a kept comparison), `answers.json`, `judged.npz` and, written last,
`scores.json`: a folder with scores is whole.
"""

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from data.cache import Arrays, load_arrays, save_arrays
from data.problems import Failure
from data.records import QuestionSet
from data.workspace import read_json, write_json
from reading.evaluate import Answered, ByDepth, Candidates, Fate, ReaderResult, ReadingResult
from reading.experiment import ReadingExperiment
from reading.generate.by_retriever import Generated, GeneratorResult
from reading.judge.rules import write_predictions
from reading.judge.scores import EXACT
from retrieval.comparison import store as comparison_store
from retrieval.comparison.compare import Comparison
from retrieval.comparison.experiment import Experiment
from retrieval.evaluation.significance import Pair, PairTest, paired_tests, question_groups, share_intervals

_TESTED = 5  # the depth at which retrievers are told apart, or the nearest below


def as_dict(result: ReadingResult) -> dict[str, Any]:
    """The content of `scores.json`: shares between 0 and 1.

    `readers` by name, by retriever, by K: exact match `em`, the rules' overlap (`f1` or `rouge_w`), the `ceiling`, 95%
    intervals, and what became of the answers. `oracles`: both with the right passage given.
    """
    experiment, groups = result.experiment, question_groups(result.question_set)
    names = (EXACT, experiment.rules.overlap_name)
    return {
        "data": result.question_set.name,
        "fingerprint": result.question_set.fingerprint,
        "split": experiment.split.value,
        "questions": len(result.question_set.questions),
        "rules": experiment.rules.value,
        "readers": {one.name: _reader_figures(one, names, groups) for one in result.readers},
        "oracles": {one.name: _shares(one.oracle, names, groups) for one in result.readers if not one.error},
        "weights": {
            one.name: {name: _weight(answered) for name, answered in one.by_retriever.items()} for one in result.readers
        },
        "differences": {one.name: [_told(test) for test in differences(result, one)] for one in result.readers},
        "generators": {one.name: _generator(one) for one in result.generators},
    }


def tested_depth(ks: tuple[int, ...]) -> int:
    """The place in `ks` of the depth at which retrievers are told apart."""
    within = [place for place, k in enumerate(ks) if k <= _TESTED]
    return max(within, key=lambda place: ks[place], default=0)


def differences(result: ReadingResult, reader: ReaderResult) -> list[PairTest]:
    """Test every two retrievers by what one reader says from their first passages; one family of tests."""
    answered = list(reader.by_retriever.items())
    pairs = []
    for measure in ("exact", "overlap"):
        name = EXACT if measure == "exact" else result.experiment.rules.overlap_name
        for number, (a, first) in enumerate(answered):
            for b, second in answered[number + 1 :]:
                place = tested_depth(first.depth.ks)
                values = [getattr(one.depth, measure)[:, place] for one in (first, second)]
                pairs.append(Pair(a, b, name, *values))
    return paired_tests(pairs, question_groups(result.question_set)) if pairs else []


def save(result: ReadingResult, folder: Path) -> None:
    """Write the figures, and every answer in KorQuAD's official form, for its own evaluation. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    told = as_dict(result) | {"predictions": {}}
    ids = [question.id for question in result.question_set.questions]
    for reader in result.readers:
        for retriever, answered in reader.by_retriever.items():
            for place, k in enumerate(answered.depth.ks):
                name = f"{len(told['predictions']) + 1:03}-{_named(reader.name)}-{_named(retriever)}-{k}.json"
                (folder / "predictions").mkdir(exist_ok=True)
                said = dict(zip(ids, answered.answers(place), strict=True))
                write_predictions(said, folder / "predictions" / name)
                told["predictions"][name] = {"reader": reader.name, "retriever": retriever, "k": k}
    for generator in result.generators:
        for retriever, one in generator.by_retriever.items():
            name = f"{len(told['predictions']) + 1:03}-{_named(generator.name)}-{_named(retriever)}.json"
            (folder / "predictions").mkdir(exist_ok=True)
            said = {id_: answer.prediction for id_, answer in one.batch.answers.items()}
            write_predictions(said, folder / "predictions" / name)
            told["predictions"][name] = {"generator": generator.name, "retriever": retriever}
    write_json(folder / "scores.json", told)


def _named(name: str) -> str:
    return re.sub(r"[^\w-]+", "-", name).strip("-").lower()[:40]


def _reader_figures(result: ReaderResult, names: tuple[str, str], groups: np.ndarray) -> dict[str, Any]:
    if result.error:
        return result.error.as_dict() if isinstance(result.error, Failure) else {"error": str(result.error)}
    return {name: _by_k(answered, names, groups) for name, answered in result.by_retriever.items()}


def _generator(result: GeneratorResult) -> dict[str, Any]:
    if result.error:
        return result.error.as_dict() if isinstance(result.error, Failure) else {"error": str(result.error)}
    return {name: _generated(one) for name, one in result.by_retriever.items()}


def _generated(one: Generated) -> dict[str, Any]:
    """Means with their intervals, what was not answered and why, and tokens where the server told them."""
    batch = one.batch
    told = [answer.usage for answer in batch.answers.values()]
    tokens = {
        name: sum(known)
        for name in ("prompt_tokens", "completion_tokens")
        if (known := [value for usage in told if (value := getattr(usage, name)) is not None])
    }
    return {
        **(one.scores.means() if one.scores else {}),
        "interval": {name: [*ends] for name, ends in one.scores.intervals.items()} if one.scores else {},
        "answered": len(batch.answers),
        "failed": {id_: failure.as_dict() for id_, failure in batch.failures.items()},
        "left": batch.left,
        **({"ended": batch.ended.as_dict()} if batch.ended else {}),
        **tokens,
        "seconds": sum(usage.seconds for usage in told),
        "spent": batch.spent,
    }


def _by_k(answered: Answered, names: tuple[str, str], groups: np.ndarray) -> dict[str, Any]:
    depth = answered.depth
    return {
        str(k): _shares(np.stack([depth.exact[:, place], depth.overlap[:, place]], axis=1), names, groups)
        | {"ceiling": float(depth.ceiling[:, place].mean())}
        | {"fates": {fate.name.lower(): float((depth.fate[:, place] == fate).mean()) for fate in Fate}}
        for place, k in enumerate(depth.ks)
    }


def _shares(values: np.ndarray, names: tuple[str, str], groups: np.ndarray) -> dict[str, Any]:
    means, ends = values.mean(axis=0).tolist(), share_intervals(values, groups).tolist()
    return {**dict(zip(names, means, strict=True)), "interval": dict(zip(names, ends, strict=True))}


def _weight(answered: Answered) -> dict[str, Any]:
    return {"weight": answered.weight, "chosen_on": "validation" if answered.weight_by_validation else None}


def _told(test: PairTest) -> dict[str, Any]:
    return {
        "measure": test.measure,
        "a": test.a,
        "b": test.b,
        "difference": test.difference,
        "interval": [test.low, test.high],
        "p": test.p_family,
        "sure": bool(test.sure),
    }


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
    comparison_store.keep(_without_readers(result.comparison), folder / _FOUND)
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
            _reader_result(number, spec.name, experiment.depths_read, told=told, texts=texts[spec.name], arrays=arrays)
            for number, spec in enumerate(experiment.reader)
        )
    except (AttributeError, KeyError, OSError, TypeError, ValidationError) as error:
        raise ValueError(f"{folder} holds no evaluation of this version: {error!r}") from error
    return KeptReading(ReadingResult(experiment, found, readers), told)


def _without_readers(comparison: Comparison) -> Comparison:
    """The comparison without what is of readers alone, as any other is kept."""
    content = comparison.experiment.model_dump(include=set(Experiment.model_fields))
    return replace(comparison, experiment=Experiment.model_validate(content))


def _reader_result(
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
