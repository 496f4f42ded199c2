"""Stored comparisons: the job that computes one, its folder, and the references of commands.

A folder contains `rankings.npz`, `provenance.json` and, written last, `scores.json`: with scores it is complete, and
opens without models. The user's name is in `name.json`, never in a path. A command refers to a comparison by its key,
its experiment file, or the folder of `compare --out`.
"""

import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import not_
from pathlib import Path
from threading import Thread
from typing import Any, Self

from pydantic import BaseModel, Field, FiniteFloat, NonNegativeInt, TypeAdapter, ValidationError

from mrc_workbench.data.cache import SCORES, Arrays, Artifact, key_of
from mrc_workbench.data.files import accept_earlier_names, current_names
from mrc_workbench.data.jobs.processes import import_heavy_libraries
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import RELEVANT_GRADE, QuestionSet
from mrc_workbench.data.split import Part, split
from mrc_workbench.data.store import find, save_question_set
from mrc_workbench.data.store import stored as stored_sets
from mrc_workbench.data.studies import Study, StudyJob
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.text.languages import VERSION as LANGUAGES_VERSION
from mrc_workbench.data.workspace import read_json
from mrc_workbench.retrieval.comparison.compare import Comparison, Result, compare, provenance
from mrc_workbench.retrieval.comparison.experiment import KIND_BY_NAME, Experiment, make_storable, read_experiment
from mrc_workbench.retrieval.comparison.spec import VERSION, SearchCosts, Spec
from mrc_workbench.retrieval.measures import Measure, Scores, evaluate
from mrc_workbench.retrieval.mix import SignalDetails
from mrc_workbench.retrieval.rankings import Rankings
from mrc_workbench.retrieval.significance import intervals_of, question_groups

COMPARISONS = Study[Experiment, Comparison](
    name="comparisons",
    summary="Compare retrievers.",
    versions=(VERSION, ANALYZER_VERSION),
    spec=Experiment,
    spec_file="experiment.toml",
    run=lambda experiment, progress: compare(experiment, find(experiment.data), on_progress=progress),
)


@dataclass(frozen=True, order=True)
class ComparisonJob(StudyJob[Experiment, Comparison]):
    """The job of a comparison. It starts without the libraries of models, see `retrieval.job`."""

    study: Study[Experiment, Comparison] = field(default=COMPARISONS, compare=False)

    @classmethod
    def of(cls, experiment: Experiment, fingerprint: str) -> Self:
        """Return the job of an experiment; a comparison from before language detection is not reused."""
        job = COMPARISONS.job(experiment, fingerprint)
        is_outdated = _predates_language_detection(job.folder)
        return cls(job.folder.with_name(key_of(job.id, LANGUAGES_VERSION)[:16]) if is_outdated else job.folder)

    def begin(self) -> None:
        Thread(target=import_heavy_libraries, daemon=True).start()  # most comparisons need a model soon
        self.launch("internal", self.study.name, self.folder, light=True)

    def log_result(self, result: Result) -> None:
        """Add a finished retriever to the progress, so that a page displays its metrics immediately."""
        questions = len(result.rankings.indices) if result.rankings else 0
        note = {"finished": result.name, "metrics": result.metrics, "questions": questions}
        self.add_progress(note | ({"failed": True} if result.error else {}))

    def finished_retrievers(self) -> dict[str, "FinishedRetriever"]:
        """Return the finished retrievers by name, in the order of completion."""
        retrievers = {}
        for note in self.progress():
            with suppress(ValidationError):  # a damaged note
                retriever = FinishedRetriever.model_validate(note)
                retrievers[retriever.name] = retriever
        return retrievers


class FinishedRetriever(BaseModel):
    """The progress note about a finished retriever. A failed one has no metrics."""

    name: str = Field(alias="finished")
    metrics: dict[str, FiniteFloat] = {}
    questions: NonNegativeInt = 0
    failed: bool = False
    _earlier = accept_earlier_names({"figures": "metrics"})


def stopped_specs(data: str) -> list[Spec]:
    """Return the retrievers that stopped comparisons of a stored dataset (its key), except labs, have not searched."""
    specs: list[Spec] = []
    for path in sorted(COMPARISONS.folder.glob("*/stop")):
        job = ComparisonJob(path.parent)
        with suppress(OSError, ValueError):  # an unreadable experiment
            experiment = job.read_spec()
            if job.is_stopped and experiment.data == data and experiment.lab is None:
                done = job.finished_retrievers()
                specs += [spec for spec in experiment.retriever if spec.name not in done]
    return specs


_PROVENANCE = "provenance.json"
_RENAMED_SCORES = {"made_questions": "synthetic_questions"}


def _predates_language_detection(folder: Path) -> bool:
    """Whether `auto` selected words or bigrams before language detection: results would differ now."""
    origin = read_json(folder / _PROVENANCE)
    with suppress(AttributeError, KeyError, TypeError):
        specs = origin["experiment"]["retriever"]
        names = [spec["name"] for spec in specs if spec.get("analyzer") == Analyzer.AUTO]
        analyzers = {origin["retrievers"].get(name, {}).get("analyzer") for name in names}
        return origin.get("languages_version") is None and bool(analyzers & {Analyzer.WORD, Analyzer.BIGRAM})
    return False


@dataclass(frozen=True)
class StoredComparison:
    """A comparison in the list of the workspace. `created_at` is an ISO 8601 time in UTC."""

    key: str
    folder: Path
    name: str  # by the user, or empty
    created_at: str
    data: str  # name of the dataset
    reference: str  # to the dataset, in the experiment: a stored key, a catalog id, a file
    data_fingerprint: str
    corpus_fingerprint: str
    fingerprint: str  # of the passages and the evaluated questions
    part: Part
    questions: int  # evaluated
    passages: int
    retrievers: tuple[str, ...]
    ks: tuple[int, ...]
    lab: str | None
    relevance_level: int
    metrics: dict[str, dict[str, float]]  # mean of every measure by retriever, without failed ones


class _Scores(BaseModel):
    """The content of `scores.json`: metrics and fields of a `Result`, or the error, by retriever."""

    data: str
    fingerprint: str
    split: Part
    questions: int
    synthetic_questions: dict[str, int] = Field(default_factory=dict, exclude_if=not_)
    passages: int
    parts: dict[str, Any] = Field(default_factory=dict, exclude_if=not_)
    warnings: list[str] = Field(default_factory=list, exclude_if=not_)
    retrievers: dict[str, dict[str, Any]]
    _earlier = accept_earlier_names(_RENAMED_SCORES)


@dataclass(frozen=True, kw_only=True)
class _StoredCosts(SearchCosts):
    notes: dict[str, int | str | dict[str, SignalDetails] | dict[str, FiniteFloat]] = field(default_factory=dict)


_COSTS = TypeAdapter(_StoredCosts)
_STORED = TypeAdapter(StoredComparison)
_ARTIFACT = Artifact("comparison", TypeAdapter(_Scores), "rankings.npz", allows_unsealed=True)


def save_comparison(comparison: Comparison, folder: Path, given_provenance: dict[str, Any] | None = None) -> None:
    """Write the data that `load` needs."""
    arrays: Arrays = {}
    for row, result in enumerate(comparison.results):
        if result.rankings:
            arrays |= {f"indices_{row}": result.rankings.indices, f"scores_{row}": result.rankings.scores}
    scores = _Scores.model_validate(scores_content(comparison))
    _ARTIFACT.write(folder, scores, arrays, {_PROVENANCE: given_provenance or provenance(comparison)})


def scores_content(comparison: Comparison) -> dict[str, Any]:
    """Return the content of `scores.json`: that of the comparison, and the interval of every measure."""
    content: dict[str, Any] = comparison.as_dict()
    groups = question_groups(comparison.question_set)
    for name, scores in comparison.scores.items():
        content["retrievers"][name]["interval"] = intervals_of(scores, groups)
    return content


def read_provenance(folder: Path) -> dict[str, Any]:
    """Return a stored comparison's provenance under current names; empty if there is none."""
    origin = current_names(read_json(folder / _PROVENANCE), {"made": "created_at"}, _PROVENANCE)
    with suppress(AttributeError, KeyError, TypeError, ValueError):  # not from `provenance`
        origin["data"] = current_names(origin["data"], _RENAMED_SCORES, _PROVENANCE)
        experiment = Experiment.with_current_names(origin["experiment"])
        experiment["retriever"] = [_current_spec(spec) for spec in experiment["retriever"]]
        origin["experiment"] = experiment
        origin["retrievers"] = {name: _current_spec(values) for name, values in origin["retrievers"].items()}
    return origin


def _current_spec(values: dict[str, Any]) -> dict[str, Any]:
    current = KIND_BY_NAME[values["kind"]].with_current_names(values)
    if current["kind"] == "late":  # before layers could be selected, the last was read
        current.setdefault("layers", "last")
    return current


def load(folder: Path, question_set: QuestionSet) -> Comparison:
    """Read a complete comparison of a part of the whole `question_set`. Raises `ValueError` for any other folder."""
    origin = read_provenance(folder)
    if not origin:
        raise ValueError(f"{folder} holds no finished comparison")

    def read(scores: _Scores, arrays: Arrays) -> Comparison:
        experiment = Experiment.model_validate(origin["experiment"])
        strict = replace(experiment.split_options, strict=True)  # the split of earlier versions
        for options in dict.fromkeys((experiment.split_options, strict)):
            parts = split(question_set, options)
            evaluated = experiment.evaluation_set(question_set, parts)
            if evaluated.fingerprint == scores.fingerprint:
                break
        else:
            raise ValueError(f"{folder} compares other passages or questions than those of {question_set.name!r}")
        experiment = experiment.model_copy(update={"strict_split": parts.options.strict})
        results = []
        for row, (name, entry) in enumerate(scores.retrievers.items()):
            if "error" in entry:
                results.append(Result(name, error=Failure.from_dict(entry)))
            else:
                rankings = Rankings(arrays[f"indices_{row}"], arrays[f"scores_{row}"])
                results.append(_result(name, entry, rankings, evaluated, experiment))
        return Comparison(experiment, evaluated, tuple(results), parts)

    return _ARTIFACT.read(folder, read)


def _result(
    name: str, entry: dict[str, Any], rankings: Rankings, question_set: QuestionSet, experiment: Experiment
) -> Result:
    """Score rankings again; keep measures that are stored, or that were unknown when the comparison was stored."""
    scores = evaluate(rankings, question_set, experiment.ks)
    known = {measure.partition("@")[0] for measure in entry}
    values = {
        measure: entry_values
        for measure, entry_values in scores.per_question.items()
        if measure in entry or Measure.parse(measure).name not in known
    }
    return Result.of(name, rankings, Scores(scores.ks, values), question_set, _COSTS.validate_python(entry))


def list_comparisons() -> list[StoredComparison]:
    """Return the readable comparisons of the workspace, the newest first."""
    readable = filter(None, (read_comparison(job.folder) for job in COMPARISONS.stored()))
    return sorted(readable, key=lambda stored: stored.created_at, reverse=True)


def get_comparison(key: str) -> StoredComparison | None:
    """Return the readable comparison of the workspace with this key, or None."""
    with suppress(KeyError):
        return read_comparison(COMPARISONS.stored_job(key).folder)
    return None


def damaged_comparisons() -> list[str]:
    """Return the keys of unreadable comparisons, which are damaged or from an earlier version."""
    return sorted(job.id for job in COMPARISONS.stored() if read_comparison(job.folder) is None)


def rename(key: str, name: str) -> None:
    """Name a stored comparison; an empty name removes its name. Raises `KeyError` for an unknown key."""
    COMPARISONS.stored_job(key).rename(name)


def delete(key: str) -> None:
    """Remove a stored comparison. Raises `KeyError` for an unknown key."""
    COMPARISONS.stored_job(key).delete()


def read_comparison(folder: Path) -> StoredComparison | None:
    """Read a comparison's entry of the list; None if it is damaged or from an earlier version."""
    scores = read_json(folder / SCORES)
    origin = read_provenance(folder)
    try:
        experiment = origin["experiment"]
        datetime.fromisoformat(origin["created_at"])
        values = {
            "key": folder.name,
            "folder": folder,
            "name": ComparisonJob(folder).name,
            "created_at": origin["created_at"],
            "reference": experiment["data"],
            "data_fingerprint": origin["data"]["fingerprint"],
            "corpus_fingerprint": origin["data"]["corpus_fingerprint"],
            "part": scores["split"],
            **{name: scores[name] for name in ("data", "fingerprint", "questions", "passages")},
            "retrievers": list(scores["retrievers"]),
            "ks": experiment["ks"],
            "lab": experiment.get("lab"),
            "relevance_level": experiment.get("relevance_level", RELEVANT_GRADE),
        }
        scored = {name: entry for name, entry in scores["retrievers"].items() if "error" not in entry}
        metrics = {name: {key: entry[key] for key in entry if "@" in key} for name, entry in scored.items()}
        return _STORED.validate_python(values | {"metrics": metrics})
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


_LIST_HINT = "`mrc list` lists the stored comparisons"


class ComparisonNotFoundError(Failure, ValueError):
    """No stored comparison has this reference."""


def find_comparison(reference: str) -> StoredComparison:
    """Return the comparison of a key, an experiment file or an `--out` folder.

    Raises `ComparisonNotFoundError`, and `ExperimentError` or `DataError` for an experiment file.
    """
    if stored := get_comparison(reference):
        return stored
    path = Path(reference)
    if _is_output_folder(path):
        job = ComparisonJob.of(_read_stored_experiment(path), str(read_provenance(path)["data"].get("fingerprint")))
        if stored := get_comparison(job.id) or read_comparison(path):
            return stored
        raise _damaged_error(path)
    if not os.path.isfile(path):  # noqa: PTH113 - a name may be too long for the file system
        raise ComparisonNotFoundError("unknown_comparison", f"no comparison is stored as {reference!r}; {_LIST_HINT}")
    experiment = read_experiment(path)
    question_set = find(experiment.data, path.parent)
    job = ComparisonJob.of(make_storable(experiment, question_set, path.parent), question_set.fingerprint)
    if stored := get_comparison(job.id):
        return stored
    raise ComparisonNotFoundError("not_compared", f"{path} is not compared yet: run `mrc compare {path}` first")


def find_stored_comparison(reference: str) -> StoredComparison:
    """Return the comparison of a reference as `find_comparison` does, if it is in the workspace."""
    stored = find_comparison(reference)
    if get_comparison(stored.key) == stored:
        return stored
    raise ComparisonNotFoundError("not_stored", f"the comparison in {stored.folder} is not stored in this workspace")


def find_experiment(reference: str | Path) -> tuple[Experiment, Path]:
    """Return the experiment of a key, an experiment file or an `--out` folder, and the base of its paths.

    Raises `ExperimentError` or `ComparisonNotFoundError`.
    """
    if stored := get_comparison(str(reference)):
        return _read_stored_experiment(stored.folder), stored.folder
    path = Path(reference)
    if _is_output_folder(path):
        return _read_stored_experiment(path), path
    if os.path.isfile(path):  # noqa: PTH113 - a name may be too long for the file system
        return read_experiment(path), path.parent
    hint = f"give a key, an experiment file or a folder of `compare --out`; {_LIST_HINT}"
    raise ComparisonNotFoundError("unknown_comparison", f"there is no comparison {str(reference)!r}: {hint}")


def store_question_set(question_set: QuestionSet, source: str) -> None:
    """Store a dataset unless the workspace contains it. Raises `LimitError` and `OSError`."""
    if all(stored.fingerprint != question_set.fingerprint for stored in stored_sets()):
        save_question_set(question_set, source=source)


def store_comparison(
    comparison: Comparison, question_set: QuestionSet, origin: dict[str, Any], source: str
) -> ComparisonJob:
    """Store a comparison and its dataset, which comes from `source`; raises `LimitError` and `OSError`."""
    job = ComparisonJob.of(comparison.experiment, question_set.fingerprint)
    store_question_set(question_set, source)
    save_comparison(comparison, job.folder, origin)
    return job


def _is_output_folder(path: Path) -> bool:
    origin = read_provenance(path)
    return isinstance(origin.get("experiment"), dict) and isinstance(origin.get("data"), dict)


def _read_stored_experiment(folder: Path) -> Experiment:
    try:
        return Experiment.model_validate(read_provenance(folder)["experiment"])
    except ValueError as error:
        raise _damaged_error(folder) from error


def _damaged_error(folder: Path) -> ComparisonNotFoundError:
    return ComparisonNotFoundError("damaged_comparison", f"the comparison in {folder} cannot be read")
