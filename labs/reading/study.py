"""The study of readers: `scores.json`, stored evaluations, and the commands `mrc reading`.

A stored evaluation has the folder `comparison` (of retrievers), `answers.json`, `judged.npz` and `scores.json`, which
is written last: a folder with scores is complete.
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
from pydantic import TypeAdapter

from mrc_workbench.data.cache import Arrays, Artifact
from mrc_workbench.data.commands import AsJson, choice_option, command_group, stop_message
from mrc_workbench.data.files import current_names
from mrc_workbench.data.problems import Failure, failure_dict
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import find
from mrc_workbench.data.studies import Study
from mrc_workbench.data.terminal import end_progress_line, format_table, print_line, report_progress
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.text.languages import VERSION as LANGUAGES_VERSION
from mrc_workbench.data.workspace import read_json, write_json
from mrc_workbench.labs.reading import evaluate as evaluation
from mrc_workbench.labs.reading import scores
from mrc_workbench.labs.reading.evaluate import ReaderResult, ReadingExperiment, ReadingResult, evaluate
from mrc_workbench.labs.reading.extractive import AnswerOutcome, AnswersByDepth, SpanCandidates
from mrc_workbench.labs.reading.generate import RetrieverAnswers
from mrc_workbench.labs.reading.labels import LabelKind
from mrc_workbench.labs.reading.scores import ScoringRules
from mrc_workbench.models.sources import local_fingerprints
from mrc_workbench.retrieval.comparison import store as comparison_store
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.spec import VERSION as RETRIEVAL_VERSION
from mrc_workbench.retrieval.significance import Pair, PairTest, paired_tests, proportion_intervals, question_groups

_TESTED_K = 5  # depth of the tests between retrievers, or the nearest below
SCORES_FILE = "scores.json"
_TEXTS = "answers.json"
_ARRAYS = "judged.npz"
_COMPARISON_FOLDER = "comparison"
_EARLIER_COMPARISON_FOLDER = "found"
_EVALUATIONS: Artifact[dict[str, Any]] = Artifact("evaluation", TypeAdapter(dict[str, Any]), _ARRAYS)
_ANSWERS: TypeAdapter[dict[str, dict[str, list[list[str]]]]] = TypeAdapter(dict[str, dict[str, list[list[str]]]])
EARLIER_SCORE_KEYS = {"fates": "outcomes", "chosen_on": "selected_on"}
commands = command_group("reading", "Evaluate readers and score answers.")
_PREDICTIONS = 'JSON of question ids and answers, as {"q1": "서울"}; one file for each reader'
_BY_SLICE = "also score kinds of questions, answers and passages, with differences from the first file"


def as_dict(result: ReadingResult) -> dict[str, Any]:
    """Return the content of `scores.json`: fractions from 0 to 1.

    `readers` by name, retriever and K: exact match `em`, the rules' overlap (`f1` or `rouge_w`), the `ceiling`, 95%
    intervals, and outcomes. `oracles`: exact match and overlap on the relevant passage.
    """
    experiment = result.experiment
    groups = question_groups(result.question_set)
    names = (scores.EXACT, experiment.rules.overlap_name)
    content: dict[str, Any] = {
        "data": result.question_set.name,
        "fingerprint": result.question_set.fingerprint,
        "split": experiment.split.value,
        "questions": len(result.question_set.questions),
        "rules": experiment.rules.value,
    }
    content |= {part: {} for part in ("readers", "oracles", "weights", "differences", "generators")}
    for reader in result.readers:
        name = reader.name
        metrics = {}
        weights = {}
        for retriever, answers in reader.by_retriever.items():
            metrics[retriever] = _metrics_by_k(answers.by_depth, names, groups)
            selected_on = "validation" if answers.is_weight_tuned else None
            weights[retriever] = {"weight": answers.weight, "selected_on": selected_on}
        content["readers"][name] = failure_dict(reader.error) if reader.error else metrics
        content["weights"][name] = weights
        if not reader.error:
            content["oracles"][name] = _means_with_intervals(reader.oracle, names, groups)
        content["differences"][name] = [
            {part: getattr(test, part) for part in ("measure", "a", "b", "difference")}
            | {"interval": [test.low, test.high], "p": test.p_family, "sure": bool(test.is_significant)}
            for test in compare_retrievers(result, reader)
        ]
    for generator in result.generators:
        metrics = {retriever: _generator_dict(batch) for retriever, batch in generator.by_retriever.items()}
        content["generators"][generator.name] = failure_dict(generator.error) if generator.error else metrics
    return content


def tested_depth_index(ks: tuple[int, ...]) -> int:
    """Return the index in `ks` of the depth for tests between retrievers."""
    indices = [index for index, k in enumerate(ks) if k <= _TESTED_K]
    return max(indices, key=lambda index: ks[index], default=0)


def compare_retrievers(result: ReadingResult, reader: ReaderResult) -> list[PairTest]:
    """Test every pair of retrievers by one reader's answers; one family of tests."""
    pairs = []
    for measure, name in (("exact", scores.EXACT), ("overlap", result.experiment.rules.overlap_name)):
        for (a, first), (b, second) in combinations(reader.by_retriever.items(), 2):
            index = tested_depth_index(first.by_depth.ks)
            values = [getattr(answers.by_depth, measure)[:, index] for answers in (first, second)]
            pairs.append(Pair(a, b, name, values[0], values[1]))
    return paired_tests(pairs, question_groups(result.question_set))


def export_scores(result: ReadingResult, folder: Path) -> None:
    """Write the metrics, and every answer in KorQuAD's official format. Raises `OSError`."""
    ids = [question.id for question in result.question_set.questions]
    outputs: list[tuple[dict[str, str | int], dict[str, str]]] = []
    for reader in result.readers:
        for retriever, answers in reader.by_retriever.items():
            for index, k in enumerate(answers.by_depth.ks):
                source: dict[str, str | int] = {"reader": reader.name, "retriever": retriever, "k": k}
                outputs.append((source, dict(zip(ids, answers.answers(index), strict=True))))
    for generator in result.generators:
        for retriever, entry in generator.by_retriever.items():
            predictions = {id_: answer.prediction for id_, answer in entry.batch.answers.items()}
            outputs.append(({"generator": generator.name, "retriever": retriever}, predictions))
    files: dict[str, dict[str, str | int]] = {}
    for number, (source, predictions) in enumerate(outputs, start=1):
        name = "-".join([f"{number:03}", *(file_name(str(entry)) for entry in source.values())]) + ".json"
        (folder / "predictions").mkdir(parents=True, exist_ok=True)
        scores.write_predictions(predictions, folder / "predictions" / name)
        files[name] = source
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / SCORES_FILE, as_dict(result) | {"predictions": files})


def file_name(name: str) -> str:
    """Return a user's name as part of a file name."""
    return re.sub(r"[^\w-]+", "-", name).strip("-").lower()[:40]


def _generator_dict(result: RetrieverAnswers) -> dict[str, Any]:
    """Return the means with their intervals, the failures, and the tokens if the server reported them."""
    batch = result.batch
    usages = [answer.usage for answer in batch.answers.values()]
    content: dict[str, Any] = result.scores.means() if result.scores else {}
    intervals = result.scores.intervals if result.scores else {}
    content["interval"] = {name: [*ends] for name, ends in intervals.items()}
    failed = {id_: failure.as_dict() for id_, failure in batch.failures.items()}
    content |= {"answered": len(batch.answers), "failed": failed, "remaining": batch.n_remaining}
    if batch.end_reason:
        content["end_reason"] = batch.end_reason.as_dict()
    for name in ("prompt_tokens", "completion_tokens"):
        reported = [count for usage in usages if (count := getattr(usage, name)) is not None]
        if reported:
            content[name] = sum(reported)
    return content | {"seconds": sum(usage.seconds for usage in usages), "spent": batch.spent}


def _metrics_by_k(depth: AnswersByDepth, names: tuple[str, str], groups: np.ndarray) -> dict[str, Any]:
    metrics = {}
    for index, k in enumerate(depth.ks):
        values = np.stack([depth.exact[:, index], depth.overlap[:, index]], axis=1)
        outcomes = {kind.name.lower(): float((depth.outcome[:, index] == kind).mean()) for kind in AnswerOutcome}
        ceiling = float(depth.ceiling[:, index].mean())
        metrics[str(k)] = _means_with_intervals(values, names, groups) | {"ceiling": ceiling, "outcomes": outcomes}
    return metrics


def _means_with_intervals(values: np.ndarray, names: tuple[str, str], groups: np.ndarray) -> dict[str, Any]:
    means = values.mean(axis=0).tolist()
    ends = proportion_intervals(values, groups).tolist()
    return {**dict(zip(names, means, strict=True)), "interval": dict(zip(names, ends, strict=True))}


_CANDIDATE_FIELDS = tuple(field.name for field in fields(SpanCandidates) if field.name != "answers")
_DEPTH_FIELDS = tuple(field.name for field in fields(AnswersByDepth) if field.name != "ks")
_EARLIER_FIELDS = {"found": "retrieval_scores", "letters": "offsets", "holds": "contains_answer"}
_EARLIER_FIELDS |= {"place": "rank", "fate": "outcome"}


@dataclass(frozen=True)
class StoredReading:
    """An evaluation of readers, without language models, and the content of its `scores.json`."""

    result: ReadingResult
    scores: dict[str, Any]


def save_result(result: ReadingResult, folder: Path) -> None:
    """Write the files that `load` reads. Raises `OSError`."""
    (folder / SCORES_FILE).unlink(missing_ok=True)  # scores of an earlier run do not belong to the new files
    # the fields of a comparison, as in any stored comparison
    fields_of_comparison = result.comparison.experiment.model_dump(include=set(Experiment.model_fields))
    comparison = replace(result.comparison, experiment=Experiment.model_validate(fields_of_comparison))
    comparison_store.save_comparison(comparison, folder / _COMPARISON_FOLDER)
    arrays: Arrays = {}
    for number, reader in enumerate(result.readers):
        arrays[f"{number}_oracle"] = reader.oracle
        for index, answers in enumerate(reader.by_retriever.values()):
            prefix = f"{number}_{index}"
            arrays |= {f"{prefix}_read_{name}": getattr(answers.candidates, name) for name in _CANDIDATE_FIELDS}
            arrays |= {f"{prefix}_depth_{name}": getattr(answers.by_depth, name) for name in _DEPTH_FIELDS}
    texts = {}
    units = {}
    for reader in result.readers:
        texts[reader.name] = {name: answers.candidates.answers for name, answers in reader.by_retriever.items()}
        units[reader.name] = {name: answers.unit for name, answers in reader.by_retriever.items()}
    content = as_dict(result) | {"experiment": result.experiment.model_dump(mode="json"), "units": units}
    _EVALUATIONS.write(folder, content, arrays, {_TEXTS: texts})


def load(folder: Path, question_set: QuestionSet) -> StoredReading:
    """Read an evaluation on `question_set` (the whole set).

    Raises `ValueError` without a complete evaluation of this version on these questions.
    """

    def build(content: dict[str, Any], arrays: Arrays) -> StoredReading:
        comparison_folder = folder / _COMPARISON_FOLDER
        if not comparison_folder.is_dir():
            comparison_folder = folder / _EARLIER_COMPARISON_FOLDER
        comparison = comparison_store.load(comparison_folder, question_set)
        texts = _ANSWERS.validate_python(read_json(folder / _TEXTS))
        experiment = ReadingExperiment.model_validate(content["experiment"])
        readers = [
            _reader_result(experiment, content, number, texts[spec.name], arrays)
            for number, spec in enumerate(experiment.reader)
        ]
        return StoredReading(ReadingResult(experiment, comparison, tuple(readers)), content)

    return _EVALUATIONS.read(folder, build)


def _reader_result(
    experiment: ReadingExperiment,
    content: dict[str, Any],
    number: int,
    texts: dict[str, list[list[str]]],
    arrays: Arrays,
) -> ReaderResult:
    name = experiment.reader[number].name
    if isinstance(content["readers"][name].get("error"), str):  # not a retriever with this name
        return ReaderResult(name, error=Failure.from_dict(content["readers"][name]))
    answers = {}
    for index, retriever in enumerate(content["readers"][name]):

        def load_fields(part: str, index: int = index) -> dict[str, np.ndarray]:
            prefix = f"{number}_{index}_{part}_"
            fields = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            return current_names(fields, _EARLIER_FIELDS, _ARRAYS)

        weight = current_names(content["weights"][name][retriever], EARLIER_SCORE_KEYS, SCORES_FILE)
        answers[retriever] = evaluation.ReaderAnswers(
            AnswersByDepth(experiment.depths_read, **load_fields("depth")),
            SpanCandidates(texts[retriever], **load_fields("read")),
            weight["weight"],
            weight["selected_on"] is not None,
            content["units"][name][retriever],
        )
    return ReaderResult(name, answers, arrays[f"{number}_oracle"])


STUDY = Study[ReadingExperiment, ReadingResult](
    name="reading",
    summary="Evaluate readers and score answers.",
    versions=(1, RETRIEVAL_VERSION, ANALYZER_VERSION, LANGUAGES_VERSION),
    spec=ReadingExperiment,
    spec_file="experiment.toml",
    run=lambda experiment, progress: evaluate(experiment, find(experiment.data), on_progress=progress),
    inputs=lambda experiment: (local_fingerprints(reader.model for reader in experiment.reader),),
    save=save_result,
)


@commands.command
def score(
    *,
    data: Annotated[str, Parameter(help="the questions: a path, or a name or key of the catalog or the workspace")],
    predictions: Annotated[tuple[Path, ...], Parameter(help=_PREDICTIONS)],
    rules: Annotated[
        ScoringRules, choice_option(ScoringRules, help="rules that decide what is correct")
    ] = ScoringRules.KORQUAD,
    by_slice: Annotated[bool, Parameter(negative="", help=_BY_SLICE)] = False,
    as_json: AsJson = False,
) -> int:
    """Score and compare files of answers.

    JSON has fractions from 0 to 1.
    """
    question_set = find(data)
    by_reader = {}
    for path in predictions:
        by_reader[str(path)] = scores.score_answers(question_set, scores.read_predictions(path), rules)
    tests = scores.compare_readers(question_set, by_reader)
    slice_tables = {by: scores.score_slices(question_set, by_reader, by) for by in LabelKind} if by_slice else {}
    if as_json:
        content: dict[str, Any] = {"rules": rules.value, "readers": {}, "differences": [asdict(test) for test in tests]}
        for name, reader_scores in by_reader.items():
            details = {"interval": reader_scores.intervals, "missing": reader_scores.n_missing}
            content["readers"][name] = reader_scores.means() | details
        if slice_tables:
            content["slices"] = {by: _table_records(table) for by, table in slice_tables.items()}
        print_line(json.dumps(content, ensure_ascii=False, indent=2))
        return 0
    print_line(f"{question_set.name}: {len(question_set.questions):,} questions, by the rules of {rules}")
    for name, reader_scores in by_reader.items():
        print_line(name)
        for measure, mean in reader_scores.means().items():
            low, high = reader_scores.intervals.get(measure, (None, None))
            interval = "" if low is None or high is None else f"  95% {100 * low:.2f} to {100 * high:.2f}"
            print_line(f"  {measure:<20} {100 * mean:6.2f}{interval}")
        if reader_scores.n_missing:
            print_line(f"  {reader_scores.n_missing:,} questions without an answer in the file count as wrong")
    for test in tests:
        ends = f"{100 * test.low:+.2f} to {100 * test.high:+.2f}, p {test.p_family:.4f}"
        verdict = "sure" if test.is_significant else "not sure"
        print_line(f"{test.measure}: {test.a} less {test.b} {100 * test.difference:+.2f} ({ends}, {verdict})")
    for by, table in slice_tables.items():
        note = "intervals are pointwise, p is corrected for all slices of a metric"
        print_line(f"by {by}: slices of {scores.MIN_SLICE_QUESTIONS} questions and more, {note}")
        print_line("\n".join(map(_format_slice, _table_records(table))))
    return 0


def _table_records(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of `score_slices` for JSON: NaN is null."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def _format_slice(row: dict[str, Any]) -> str:
    mean, low, high = (f"{100 * row[name]:6.2f}" for name in ("mean", "low", "high"))
    label = f"{row['slice']:<14}{row['questions']:>7,}  {row['measure']:<7}"
    line = f"  {label}{mean}  95% {low} to {high}  {row['reader']}"
    if row["p_holm"] is None:
        return line
    difference, *ends = (f"{100 * row[name]:+.2f}" for name in ("difference", "difference_low", "difference_high"))
    return f"{line} {difference} ({' to '.join(ends)}, p {row['p_holm']:.4f})"


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
    """Evaluate readers on the top passages of retrievers.

    JSON has fractions from 0 to 1.
    """
    reading_experiment = evaluation.read_experiment(experiment)
    base = experiment.parent
    question_set = find(reading_experiment.data, base)
    with stop_message("Stopped. Rankings and answers are stored: run the same command again to continue."):
        result = evaluate(reading_experiment, question_set, base=base, on_progress=report_progress)
    end_progress_line()
    print_line(json.dumps(as_dict(result), ensure_ascii=False, indent=2) if as_json else format_reading(result))
    outcomes: tuple[Any, ...] = (*result.comparison.results, *result.readers, *result.generators)
    failed = [outcome for outcome in outcomes if outcome.error]
    for outcome in failed:
        print_line(f"{outcome.name} failed: {outcome.error}", error=True)
    if out:
        export_scores(result, out)
    return int(bool(failed))


def format_reading(result: ReadingResult) -> str:
    """Return exact match and overlap by depth as lines of text, in percent."""
    rules = result.experiment.rules
    content = as_dict(result)
    lines = [f"{result.question_set.name}: {content['questions']:,} questions, by the rules of {rules}, em / overlap"]
    for reader in result.readers:
        if reader.error:
            continue
        oracle = content["oracles"][reader.name]
        lines.append(f"{reader.name}, with the right passage: {_format_cell(oracle, rules.overlap_name)}")
        ks = result.experiment.depths_read
        rows = []
        for name, by_k in content["readers"][reader.name].items():
            rows.append((name, [_format_cell(by_k[str(k)], rules.overlap_name) for k in ks]))
            rows.append(("  contains answer", [f"{100 * by_k[str(k)]['ceiling']:.2f}" for k in ks]))
        lines += format_table((f"first {k}" for k in ks), rows, 15)
    for name, by_retriever in content["generators"].items():
        for retriever, metrics in by_retriever.items() if "error" not in by_retriever else ():
            cell = _format_cell(metrics, rules.overlap_name) if "em" in metrics else "-"
            n_missing = sum((len(metrics["failed"]), metrics["remaining"]))
            lines.append(f"{name} from {retriever}: {cell}, {metrics['answered']:,} answered, {n_missing:,} not")
    return "\n".join(lines)


def _format_cell(metrics: dict[str, float], overlap: str) -> str:
    return f"{100 * metrics['em']:.2f} / {100 * metrics[overlap]:.2f}"
