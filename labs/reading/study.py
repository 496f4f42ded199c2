"""The study of readers: `scores.json` and the files beside it, stored evaluations, and `mrc reading`.

A stored evaluation holds the comparison of retrievers (`found`), `answers.json`, `judged.npz` and, written last,
`scores.json`: a folder with scores is complete.
"""

import json
import re
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from cyclopts import Parameter
from pydantic import TypeAdapter, ValidationError

from mrc_workbench.data.cache import Arrays, load_arrays, save_arrays
from mrc_workbench.data.commands import AsJson, commands_of, one_of, stop_message
from mrc_workbench.data.problems import Failure, failure_dict
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import find
from mrc_workbench.data.studies import Study
from mrc_workbench.data.terminal import aligned, end_progress_line, report_progress, tell
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.text.languages import VERSION as LANGUAGES_VERSION
from mrc_workbench.data.workspace import read_json, write_json
from mrc_workbench.labs.reading import scores
from mrc_workbench.labs.reading.evaluate import (
    Answered,
    ReaderResult,
    ReadingExperiment,
    ReadingResult,
    evaluate,
    read_experiment,
)
from mrc_workbench.labs.reading.extractive import ByDepth, Candidates, Fate
from mrc_workbench.labs.reading.generate import Generated
from mrc_workbench.labs.reading.labels import Property
from mrc_workbench.labs.reading.scores import Rules
from mrc_workbench.models.sources import contents
from mrc_workbench.retrieval.comparison import store as comparison_store
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.spec import VERSION as RETRIEVAL_VERSION
from mrc_workbench.retrieval.significance import Pair, PairTest, paired_tests, question_groups, share_intervals

_TESTED = 5  # the depth at which retrievers are told apart, or the nearest below


def as_dict(result: ReadingResult) -> dict[str, Any]:
    """Return the content of `scores.json`: fractions from 0 to 1.

    `readers` by name, by retriever, by K: exact match `em`, the rules' overlap (`f1` or `rouge_w`), the `ceiling`, 95%
    intervals, and fates. `oracles`: both with the right passage given.
    """
    experiment, groups = result.experiment, question_groups(result.question_set)
    names = (scores.EXACT, experiment.rules.overlap_name)
    told: dict[str, Any] = {
        "data": result.question_set.name,
        "fingerprint": result.question_set.fingerprint,
        "split": experiment.split.value,
        "questions": len(result.question_set.questions),
        "rules": experiment.rules.value,
    }
    told |= {part: {} for part in ("readers", "oracles", "weights", "differences", "generators")}
    for one in result.readers:
        answered, name = one.by_retriever, one.name
        figures = {by: _by_k(said.depth, names, groups) for by, said in answered.items()}
        told["readers"][name] = failure_dict(one.error) if one.error else figures
        if not one.error:
            told["oracles"][name] = _shares(one.oracle, names, groups)
        told["weights"][name] = {
            by: {"weight": said.weight, "chosen_on": "validation" if said.weight_by_validation else None}
            for by, said in answered.items()
        }
        told["differences"][name] = [
            {part: getattr(test, part) for part in ("measure", "a", "b", "difference")}
            | {"interval": [test.low, test.high], "p": test.p_family, "sure": bool(test.sure)}
            for test in differences(result, one)
        ]
    for by_model in result.generators:
        figures = {by: _generated(batch) for by, batch in by_model.by_retriever.items()}
        told["generators"][by_model.name] = failure_dict(by_model.error) if by_model.error else figures
    return told


def tested_depth(ks: tuple[int, ...]) -> int:
    """The index in `ks` of the depth at which retrievers are compared."""
    within = [place for place, k in enumerate(ks) if k <= _TESTED]
    return max(within, key=lambda place: ks[place], default=0)


def differences(result: ReadingResult, reader: ReaderResult) -> list[PairTest]:
    """Test every pair of retrievers by one reader's answers; one family of tests."""
    pairs = []
    for measure, name in (("exact", scores.EXACT), ("overlap", result.experiment.rules.overlap_name)):
        for (a, first), (b, second) in combinations(reader.by_retriever.items(), 2):
            place = tested_depth(first.depth.ks)
            pairs.append(Pair(a, b, name, *(getattr(one.depth, measure)[:, place] for one in (first, second))))
    return paired_tests(pairs, question_groups(result.question_set))


def save(result: ReadingResult, folder: Path) -> None:
    """Write the metrics, and every answer in KorQuAD's official form. Raises `OSError`."""
    ids = [question.id for question in result.question_set.questions]
    said: list[tuple[dict[str, str | int], dict[str, str]]] = []
    for reader in result.readers:
        for retriever, answered in reader.by_retriever.items():
            for place, k in enumerate(answered.depth.ks):
                of: dict[str, str | int] = {"reader": reader.name, "retriever": retriever, "k": k}
                said.append((of, dict(zip(ids, answered.answers(place), strict=True))))
    for generator in result.generators:
        for retriever, one in generator.by_retriever.items():
            predictions = {id_: answer.prediction for id_, answer in one.batch.answers.items()}
            said.append(({"generator": generator.name, "retriever": retriever}, predictions))
    files: dict[str, dict[str, str | int]] = {}
    for number, (of, predictions) in enumerate(said, start=1):
        name = "-".join([f"{number:03}", *(file_name(str(one)) for one in of.values())]) + ".json"
        (folder / "predictions").mkdir(parents=True, exist_ok=True)
        scores.write_predictions(predictions, folder / "predictions" / name)
        files[name] = of
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "scores.json", as_dict(result) | {"predictions": files})


def file_name(name: str) -> str:
    """Return a user's name as a part of a file's name."""
    return re.sub(r"[^\w-]+", "-", name).strip("-").lower()[:40]


def _generated(one: Generated) -> dict[str, Any]:
    """Return the means with their intervals, the failures, and the tokens if the server reported them."""
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


def _by_k(depth: ByDepth, names: tuple[str, str], groups: np.ndarray) -> dict[str, Any]:
    return {
        str(k): _shares(np.stack([depth.exact[:, place], depth.overlap[:, place]], axis=1), names, groups)
        | {"ceiling": float(depth.ceiling[:, place].mean())}
        | {"fates": {fate.name.lower(): float((depth.fate[:, place] == fate).mean()) for fate in Fate}}
        for place, k in enumerate(depth.ks)
    }


def _shares(values: np.ndarray, names: tuple[str, str], groups: np.ndarray) -> dict[str, Any]:
    means, ends = values.mean(axis=0).tolist(), share_intervals(values, groups).tolist()
    return {**dict(zip(names, means, strict=True)), "interval": dict(zip(names, ends, strict=True))}


_SCORES, _TEXTS, _ARRAYS, _FOUND = "scores.json", "answers.json", "judged.npz", "found"
_ANSWERS: TypeAdapter[dict[str, dict[str, list[list[str]]]]] = TypeAdapter(dict[str, dict[str, list[list[str]]]])
_OF_CANDIDATES = tuple(one.name for one in fields(Candidates) if one.name != "answers")
_OF_DEPTHS = tuple(one.name for one in fields(ByDepth) if one.name != "ks")


@dataclass(frozen=True)
class StoredReading:
    """An evaluation of readers as it was made, and the content of its `scores.json`; language models are not in it."""

    result: ReadingResult
    told: dict[str, Any]


def keep(result: ReadingResult, folder: Path) -> None:
    """Write what `load` reads. Raises `OSError`."""
    (folder / _SCORES).unlink(missing_ok=True)  # those of another run do not belong to what follows
    # without what is of readers alone, as any other comparison is kept
    content = result.comparison.experiment.model_dump(include=set(Experiment.model_fields))
    plain = replace(result.comparison, experiment=Experiment.model_validate(content))
    comparison_store.keep(plain, folder / _FOUND)
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


def load(folder: Path, question_set: QuestionSet) -> StoredReading:
    """Read an evaluation on `question_set` (the whole set).

    Raises `ValueError` if the folder holds no complete evaluation of this version, or one of other questions.
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
    return StoredReading(ReadingResult(experiment, found, readers), told)


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


STUDY = Study[ReadingExperiment, ReadingResult](
    name="reading",
    summary="Evaluate readers and score answers.",
    versions=(1, RETRIEVAL_VERSION, ANALYZER_VERSION, LANGUAGES_VERSION),
    spec=ReadingExperiment,
    spec_file="experiment.toml",
    run=lambda experiment, progress: evaluate(experiment, find(experiment.data), on_progress=progress),
    inputs=lambda experiment: (contents(reader.model for reader in experiment.reader),),
    save=keep,
)


commands = commands_of("reading", "Evaluate readers and score answers.")
_PREDICTIONS = 'JSON of question ids and answers, as {"q1": "서울"}; one file for each reader'
_BY_SLICE = "also score kinds of questions, answers and passages, with differences from the first file"


@commands.command
def score(
    *,
    data: Annotated[str, Parameter(help="the questions: a path, or a name or key of the catalog or the workspace")],
    predictions: Annotated[tuple[Path, ...], Parameter(help=_PREDICTIONS)],
    rules: Annotated[Rules, one_of(Rules, help="rules that decide what is correct")] = Rules.KORQUAD,
    by_slice: Annotated[bool, Parameter(negative="", help=_BY_SLICE)] = False,
    as_json: AsJson = False,
) -> int:
    """Score files of answers, one or several side by side.

    JSON has fractions from 0 to 1.
    """
    question_set = find(data)
    by_reader = {str(path): scores.scored(question_set, scores.read_predictions(path), rules) for path in predictions}
    tests = scores.compared(question_set, by_reader)
    figures = {by: scores.slice_figures(question_set, by_reader, by) for by in Property} if by_slice else {}
    if as_json:
        told: dict[str, Any] = {"rules": rules.value, "readers": {}, "differences": [asdict(test) for test in tests]}
        for name, one in by_reader.items():
            told["readers"][name] = {**one.means(), "interval": one.intervals, "unsaid": one.unsaid}
        if figures:
            told["slices"] = {by: _records(table) for by, table in figures.items()}
        tell(json.dumps(told, ensure_ascii=False, indent=2))
        return 0
    tell(f"{question_set.name}: {len(question_set.questions):,} questions, by the rules of {rules}")
    for name, one in by_reader.items():
        tell(name)
        for measure, mean in one.means().items():
            low, high = one.intervals.get(measure, (None, None))
            interval = "" if low is None or high is None else f"  95% {100 * low:.2f} to {100 * high:.2f}"
            tell(f"  {measure:<20} {100 * mean:6.2f}{interval}")
        if one.unsaid:
            tell(f"  {one.unsaid:,} questions have no answer in the file: wrong")
    for test in tests:
        ends = f"{100 * test.low:+.2f} to {100 * test.high:+.2f}, p {test.p_family:.4f}"
        sure = "sure" if test.sure else "not sure"
        tell(f"{test.measure}: {test.a} less {test.b} {100 * test.difference:+.2f} ({ends}, {sure})")
    for by, table in figures.items():
        about = "each interval alone, p of a measure's slices together"
        tell(f"by {by}: slices of {scores.FEWEST} questions and more, {about}")
        tell("\n".join(map(_slice_line, _records(table))))
    return 0


def _records(figures: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of `slice_figures` for JSON: NaN is null."""
    return figures.astype(object).where(figures.notna(), None).to_dict("records")


def _slice_line(row: dict[str, Any]) -> str:
    mean, low, high = (f"{100 * row[name]:6.2f}" for name in ("mean", "low", "high"))
    line = (
        f"  {row['slice']:<14}{row['questions']:>7,}  {row['measure']:<7}{mean}  95% {low} to {high}  {row['reader']}"
    )
    if row["p_holm"] is None:
        return line
    apart, *ends = (f"{100 * row[name]:+.2f}" for name in ("difference", "difference_low", "difference_high"))
    return f"{line} {apart} ({' to '.join(ends)}, p {row['p_holm']:.4f})"


@commands.command(name="evaluate")
def evaluate_command(
    experiment: Annotated[
        Path, Parameter(help="experiment file (TOML): [[retriever]] as for a comparison, and [[reader]]")
    ],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="folder for scores.json and the answers")] = None,
    as_json: AsJson = False,
) -> int:
    """Evaluate readers on the first passages of retrievers.

    JSON has fractions from 0 to 1.
    """
    asked, base = read_experiment(experiment), experiment.parent
    with stop_message("Stopped. Rankings and answers found so far are kept: run the same command again to continue."):
        result = evaluate(asked, find(asked.data, base), base=base, on_progress=report_progress)
    end_progress_line()
    tell(json.dumps(as_dict(result), ensure_ascii=False, indent=2) if as_json else table(result))
    tried: tuple[Any, ...] = (*result.comparison.results, *result.readers, *result.generators)
    failed = [one for one in tried if one.error]
    for one in failed:
        tell(f"{one.name} failed: {one.error}", error=True)
    if out:
        save(result, out)
    return int(bool(failed))


def table(result: ReadingResult) -> str:
    """Return exact match and overlap by depth as lines of text, in percent."""
    rules, told = result.experiment.rules, as_dict(result)
    lines = [f"{result.question_set.name}: {told['questions']:,} questions, by the rules of {rules}, em / overlap"]
    for reader in result.readers:
        if reader.error:
            continue
        oracle = told["oracles"][reader.name]
        lines.append(f"{reader.name}, with the right passage: {_cell(oracle, rules.overlap_name)}")
        ks, rows = result.experiment.depths_read, []
        for name, by_k in told["readers"][reader.name].items():
            rows.append((name, [_cell(by_k[str(k)], rules.overlap_name) for k in ks]))
            rows.append(("  holds it", [f"{100 * by_k[str(k)]['ceiling']:.2f}" for k in ks]))
        lines += aligned((f"first {k}" for k in ks), rows, 15)
    for name, by_retriever in told["generators"].items():
        for retriever, one in by_retriever.items() if "error" not in by_retriever else ():
            shares = _cell(one, rules.overlap_name) if "em" in one else "-"
            left = sum((len(one["failed"]), one["left"]))
            lines.append(f"{name} from {retriever}: {shares}, {one['answered']:,} answered, {left:,} not")
    return "\n".join(lines)


def _cell(shares: dict[str, float], overlap: str) -> str:
    return f"{100 * shares['em']:.2f} / {100 * shares[overlap]:.2f}"
