"""What a comparison was made of and measured with: enough to do it again, or to tell why it came out otherwise."""

import hashlib
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from data.records import QuestionSet
from data.split import split
from data.texts import fingerprint_of
from retrieval.analyzers import VERSION as ANALYZER_VERSION
from retrieval.analyzers import choose
from retrieval.bm25 import indexed_texts
from retrieval.compare import Comparison
from retrieval.experiment import BM25Spec, DenseSpec, MilvusSpec, RerankSpec, RunSpec, Spec, WindowedBM25Spec
from retrieval.hub import ModelError, hub_revision
from retrieval.milvus.kinds import Search
from retrieval.models import ModelSource, find_model
from retrieval.recommended import recommended_weight
from retrieval.significance import LEVEL, PERMUTATIONS, RESAMPLES

_PROJECT = Path(__file__).parent.parent
# the libraries whose versions decide numbers; those that are not installed are left out
LIBRARIES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "bm25s",
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
    experiment, asked = comparison.experiment, comparison.asked
    whole = question_set or asked
    return {
        "made": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "data": {
            "name": whole.name,
            "fingerprint": whole.fingerprint,
            "corpus_fingerprint": whole.corpus_fingerprint,
            "questions": len(whole.questions),
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
        "retrievers": {spec.name: _resolved(spec, asked, base) for spec in experiment.retriever},
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
        "commit": _commit(),
    }


def _resolved(spec: Spec, asked: QuestionSet, base: Path | None) -> dict[str, Any]:
    """Return a specification with what its open values came to: `auto`, a model's newest revision, a chosen weight."""
    told: dict[str, Any] = spec.model_dump(mode="json", exclude={"name"}, exclude_none=True)
    if isinstance(spec, BM25Spec | WindowedBM25Spec):
        return told | {"analyzer": choose(spec.analyzer, indexed_texts(asked.passages, title=spec.title)).value}
    if isinstance(spec, RunSpec):
        return told | _file((base or Path()) / spec.path)
    if isinstance(spec, MilvusSpec) and spec.search is not Search.DENSE:
        told["analyzer"] = choose(spec.analyzer, indexed_texts(asked.passages, title=spec.title)).value
    if not isinstance(spec, DenseSpec | RerankSpec | MilvusSpec) or (
        isinstance(spec, MilvusSpec) and spec.search is Search.BM25
    ):
        return told
    reference = spec.model
    try:
        source = find_model(reference, base)
        told["model"] = {
            "reference": reference,
            **identity(source, indexed_texts(asked.passages, title=spec.title)),
        }
    except ModelError as error:
        return told | {"model": {"reference": reference, "error": error.code}}
    if isinstance(spec, RerankSpec) and spec.weight is None:
        told["weight"] = recommended_weight(source)
    return told


def _file(path: Path) -> dict[str, str]:
    try:
        return {"fingerprint": hashlib.sha256(path.read_bytes()).hexdigest()}
    except OSError:  # the retriever failed then, and says so itself
        return {}


def identity(source: ModelSource, texts: Sequence[str]) -> dict[str, str]:
    """Tell a model by its content: the hub's commit, the files of a folder, or the texts a starter is made of."""
    if source.hub_id:
        return {"revision": hub_revision(source.hub_id).commit}
    if source.folder:
        return {"fingerprint": content_fingerprint(source.folder)}
    return {"fingerprint": source.fingerprint(fingerprint_of(texts))}


def content_fingerprint(folder: Path) -> str:
    """sha256 (hexadecimal) of a model folder's files and their names; the card beside them is not the model."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "README.md"):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def versions(libraries: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of Python and of those of the libraries that are installed."""
    found = {"python": platform.python_version()}
    for library in libraries:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, Any]:
    """Return what this machine computes with. GPUs are those torch sees, none where nothing needed torch."""
    torch = sys.modules.get("torch")
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "physical_cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "memory": psutil.virtual_memory().total,  # bytes
        "gpus": [torch.cuda.get_device_name(gpu) for gpu in range(torch.cuda.device_count())] if torch else [],
    }


def _processor() -> str:
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        told = ""
    named = re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE)
    return named[1].strip() if named else platform.processor() or platform.machine()


def _commit() -> str:
    """Return this project's git commit, with `-dirty` where files differ from it; empty where it is no checkout."""
    if not (_PROJECT / ".git").exists():
        return ""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        told = subprocess.run(command, cwd=_PROJECT, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.strip()
