"""What `scores.json` says of answers, and the files beside it."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from data.failure import Failure
from data.workspace import write_json
from reading.evaluate import Answered, Fate, ReaderResult, ReadingResult
from reading.generate.by_retriever import Generated, GeneratorResult
from reading.judge.rules import write_predictions
from reading.judge.scores import EXACT
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
        "readers": {one.name: _reader(one, names, groups) for one in result.readers},
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
                name = f"{len(told['predictions']) + 1:03}-{_plain(reader.name)}-{_plain(retriever)}-{k}.json"
                (folder / "predictions").mkdir(exist_ok=True)
                said = dict(zip(ids, answered.answers(place), strict=True))
                write_predictions(said, folder / "predictions" / name)
                told["predictions"][name] = {"reader": reader.name, "retriever": retriever, "k": k}
    for generator in result.generators:
        for retriever, one in generator.by_retriever.items():
            name = f"{len(told['predictions']) + 1:03}-{_plain(generator.name)}-{_plain(retriever)}.json"
            (folder / "predictions").mkdir(exist_ok=True)
            said = {id_: answer.prediction for id_, answer in one.batch.answers.items()}
            write_predictions(said, folder / "predictions" / name)
            told["predictions"][name] = {"generator": generator.name, "retriever": retriever}
    write_json(folder / "scores.json", told)


def _plain(name: str) -> str:
    return re.sub(r"[^\w-]+", "-", name).strip("-").lower()[:40]


def _reader(result: ReaderResult, names: tuple[str, str], groups: np.ndarray) -> dict[str, Any]:
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
