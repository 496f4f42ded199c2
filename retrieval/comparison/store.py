"""Comparisons on disk: the job that makes one, what it was made of, and its folder, opened when models are gone.

A folder holds `rankings.npz`, `provenance.json` and, written last, `scores.json`: a folder with scores is whole. The
name a person gives it stands in `name.json`, never in a path. The page that asked for a comparison imports no torch,
and may be closed: a process runs `python -m retrieval compare` and leaves rankings in the cache, from which the page's
own call of `compare` then reads. Both give the same numbers: they are the same function over the same rankings.
"""

import re
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from pydantic import BaseModel, FiniteFloat, TypeAdapter

from data.cache import is_sealed, is_sound, key_of, save_arrays
from data.records import QuestionSet
from data.split import Part, split
from data.statistics import LEVEL, RESAMPLES
from data.workspace import read_json, remove_folder, workspace, write_json, write_text
from jobs.detached import read_on
from jobs.folder import Job
from jobs.machine import commit, hardware, versions
from retrieval.comparison.compare import Comparison, Result, failures
from retrieval.comparison.experiment import Experiment, write_experiment
from retrieval.comparison.spec import VERSION, Materials
from retrieval.evaluation.measures import Scores, evaluate
from retrieval.evaluation.significance import PERMUTATIONS, intervals_of, question_groups
from retrieval.rankings import Rankings
from text.analyzers import VERSION as ANALYZER_VERSION


class ComparisonJob(Job):
    """The job of one comparison, `workspace/comparisons/<key>/`: experiment, and what `store.keep` writes."""

    @classmethod
    def of(cls, experiment: Experiment, fingerprint: str) -> "ComparisonJob":
        """Return the job of an experiment over the question set with this fingerprint; it may not exist yet."""
        key = key_of(VERSION, ANALYZER_VERSION, experiment.model_dump(mode="json"), fingerprint)[:16]
        return cls(workspace() / "comparisons" / key)

    def start(self, experiment: Experiment) -> None:
        """Start the process, where none is at work on it. Raises `LimitError` as `admit` does, and writes nothing."""
        self.admit()
        write_text(self.folder / "experiment.toml", write_experiment(experiment))
        Thread(target=read_on, daemon=True).start()  # most comparisons need a model soon
        words = ("compare", self.folder / "experiment.toml", "--out", self.folder, "--tell")
        self.launch("retrieval", *words, light=True)


# the libraries whose versions decide numbers; those that are not installed are left out
LIBRARIES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "rank-bm25",
    "kiwipiepy",
    "faiss-cpu",
    "pymilvus",
    "milvus-lite",
    "torch",
    "transformers",
    "sentence-transformers",
    "tokenizers",
)


def provenance(
    comparison: Comparison, question_set: QuestionSet | None = None, base: Path | None = None
) -> dict[str, Any]:
    """Return, JSON-able: data, split, experiment, each retriever as resolved, versions, hardware, and the UTC time.

    `question_set` is the set that the questions asked were split from, where there are others; models named by a path
    are looked for from `base`, as `compare` did.
    """
    experiment, asked = comparison.experiment, comparison.question_set
    whole, materials = question_set or asked, Materials(asked, base)
    return {
        "made": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "data": {
            "name": whole.name,
            "fingerprint": whole.fingerprint,
            "corpus_fingerprint": whole.corpus_fingerprint,
            "questions": len(whole.questions),
            **({"made_questions": whole.made} if whole.made else {}),
            "passages": len(whole.passages),
        },
        "split": {
            "part": experiment.split.value,
            "validation": experiment.validation_share,
            "test": experiment.test_share,
            "seed": experiment.seed,
            "questions": {part.value: len(rows) for part, rows in split(whole, experiment.split_options).rows.items()},
        },
        "experiment": experiment.model_dump(mode="json", exclude_none=True),
        "retrievers": {spec.name: spec.resolved(materials) for spec in experiment.retriever},
        "analyzer_version": ANALYZER_VERSION,
        "statistics": {
            "level": LEVEL,
            "resamples": RESAMPLES,
            "permutations": PERMUTATIONS,
            "seed": 0,
            "correction": "holm",
        },
        "versions": versions(LIBRARIES),
        "hardware": hardware(),
        "commit": commit(),
    }


_KEY = re.compile("[0-9a-f]{16}")
_SCORES, _PROVENANCE, _RANKINGS, _NAME = "scores.json", "provenance.json", "rankings.npz", "name.json"


@dataclass(frozen=True)
class StoredComparison:
    """One comparison of the workspace, as its list shows it. `made` is an ISO 8601 time in UTC."""

    key: str
    folder: Path
    name: str  # given by a person; empty until then
    made: str
    data: str  # name of the question set
    reference: str  # what the experiment calls it: a stored key, a catalog id, a file
    data_fingerprint: str
    corpus_fingerprint: str
    fingerprint: str  # of the passages and the questions asked
    part: Part
    questions: int  # asked
    passages: int
    retrievers: tuple[str, ...]
    ks: tuple[int, ...]
    lab: str | None
    figures: dict[str, dict[str, float]]  # mean of every measure by retriever; those that failed are left out


_STORED = TypeAdapter(StoredComparison)


class _Told(BaseModel):
    """What `scores.json` tells of a retriever beside its figures: fields of a `Result`."""

    build_seconds: FiniteFloat = 0.0
    query_seconds: FiniteFloat = 0.0
    model_seconds: FiniteFloat = 0.0
    memory_bytes: int = 0
    short: int = 0
    unanswered: int = 0
    notes: dict[str, int] = {}


def keep(comparison: Comparison, folder: Path, origin: dict[str, Any] | None = None) -> None:
    """Write what `load` needs, and nothing that can be made from it: a page waits for this."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _SCORES).unlink(missing_ok=True)  # those of another run of it do not belong to the files that follow
    arrays: dict[str, np.ndarray] = {}
    for row, result in enumerate(comparison.results):
        if result.rankings:
            arrays |= {f"indices_{row}": result.rankings.indices, f"scores_{row}": result.rankings.scores}
    save_arrays(folder / _RANKINGS, arrays)
    write_json(folder / _PROVENANCE, origin or provenance(comparison))
    write_json(folder / _SCORES, scores_content(comparison))


def scores_content(comparison: Comparison) -> dict[str, Any]:
    """Return the content of `scores.json`: that of the comparison, and each retriever's interval of every measure."""
    content: dict[str, Any] = comparison.as_dict()
    groups = question_groups(comparison.question_set)
    for name, scores in comparison.scores.items():
        content["retrievers"][name]["interval"] = intervals_of(scores, groups)
    return content


def origin_of(folder: Path) -> dict[str, Any]:
    """Return a saved comparison's provenance; empty where there is none."""
    return read_json(folder / _PROVENANCE)


def load(folder: Path, question_set: QuestionSet) -> Comparison:
    """Read a comparison of the questions of `question_set` (the whole set; its part is taken as it was then).

    Raises `ValueError` where the folder holds no whole comparison, or one over other passages or questions.
    """
    try:
        return _load(folder, question_set)
    except (AttributeError, KeyError, TypeError) as error:  # JSON, but not what `keep` writes
        raise ValueError(f"{folder} holds no comparison of this version: {error!r}") from error


def _load(folder: Path, question_set: QuestionSet) -> Comparison:
    scores, origin = read_json(folder / _SCORES), origin_of(folder)
    if not scores or not origin:
        raise ValueError(f"{folder} holds no finished comparison")
    experiment = Experiment.model_validate(origin["experiment"])
    asked = split(question_set, experiment.split_options).questions(question_set, experiment.split)
    if asked.fingerprint != scores["fingerprint"]:
        raise ValueError(f"{folder} compares other passages or questions than those of {question_set.name!r}")
    failed, names = failures(scores), list(scores["retrievers"])
    found = _read_rankings(folder, [row for row, name in enumerate(names) if name not in failed])
    results = [
        _result(name, scores["retrievers"][name], found[row], asked, experiment)
        if row in found
        else Result(name, error=failed[name])
        for row, name in enumerate(names)
    ]
    return Comparison(experiment, asked, tuple(results))


def _read_rankings(folder: Path, rows: list[int]) -> dict[int, Rankings]:
    """Rankings by the place of their retriever. Raises `ValueError` where they cannot be read."""
    try:
        if is_sealed(folder / _RANKINGS) and not is_sound(folder / _RANKINGS):
            raise ValueError("they are not as they were sealed")
        with np.load(folder / _RANKINGS, allow_pickle=False) as kept:
            return {row: Rankings(kept[f"indices_{row}"], kept[f"scores_{row}"]) for row in rows}
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{folder / _RANKINGS} cannot be read: {error}") from error


def _result(
    name: str, entry: dict[str, Any], rankings: Rankings, question_set: QuestionSet, experiment: Experiment
) -> Result:
    """Score rankings again; a measure that had no figure then has none now."""
    scores = evaluate(rankings, question_set, experiment.ks)
    per_question = {measure: values for measure, values in scores.per_question.items() if measure in entry}
    told = _Told.model_validate(entry).model_dump()
    return Result(name, rankings, Scores(scores.ks, per_question), **told)


def kept_comparisons() -> list[StoredComparison]:
    """Return the comparisons of the workspace that can be opened, the newest first."""
    found = [kept for folder in _finished() if (kept := _read(folder))]
    return sorted(found, key=lambda kept: kept.made, reverse=True)


def damaged_comparisons() -> list[str]:
    """Return the keys of those that ran to their end and cannot be read: damaged, or written by an earlier version."""
    return [folder.name for folder in _finished() if _read(folder) is None]


def rename(key: str, name: str) -> None:
    """Give a kept comparison a name; an empty one takes its name away. Raises `KeyError` where there is no such key."""
    write_json(_folder(key) / _NAME, {"name": " ".join(name.split())})


def delete(key: str) -> None:
    """Remove a kept comparison. Raises `KeyError` where there is no such key."""
    remove_folder(_folder(key))


def _finished() -> list[Path]:
    """Folders of all that ran to their end."""
    paths = sorted(_comparisons().glob(f"*/{_SCORES}"))
    return [path.parent for path in paths if _KEY.fullmatch(path.parent.name)]


def _comparisons() -> Path:
    return workspace() / "comparisons"


def _folder(key: str) -> Path:
    """Return the folder of a key. One that is none, such as a path, never reaches the file system."""
    if not _KEY.fullmatch(key) or not (_comparisons() / key / _SCORES).is_file():
        raise KeyError(key)
    return _comparisons() / key


def _read(folder: Path) -> StoredComparison | None:
    """Read what the list shows; None where it is damaged, or was written by an older version."""
    scores, origin = read_json(folder / _SCORES), read_json(folder / _PROVENANCE)
    try:
        experiment = origin["experiment"]
        datetime.fromisoformat(origin["made"])
        found = {
            "key": folder.name,
            "folder": folder,
            "name": str(read_json(folder / _NAME).get("name", "")),
            "made": origin["made"],
            "data": scores["data"],
            "reference": experiment["data"],
            "data_fingerprint": origin["data"]["fingerprint"],
            "corpus_fingerprint": origin["data"]["corpus_fingerprint"],
            "fingerprint": scores["fingerprint"],
            "part": scores["split"],
            "questions": scores["questions"],
            "passages": scores["passages"],
            "retrievers": list(scores["retrievers"]),
            "ks": experiment["ks"],
            "lab": experiment.get("lab"),
            "figures": {name: _figures(entry) for name, entry in scores["retrievers"].items() if "error" not in entry},
        }
        return _STORED.validate_python(found)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _figures(entry: dict[str, Any]) -> dict[str, float]:
    return {measure: value for measure, value in entry.items() if "@" in measure}
