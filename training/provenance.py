"""What a training was made of, noted as it begins: enough to do it again, or to tell why it came out otherwise."""

import hashlib
import platform
import re
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from data.records import QuestionSet
from data.split import Part, split
from data.store import find
from retrieval.analyzers import Analyzer, choose
from retrieval.bm25 import indexed_texts
from retrieval.cache import key_of
from retrieval.hub import hub_revision
from retrieval.models import ModelSource
from training.arguments import uses_bfloat16
from training.options import TrainingOptions
from training.runs import Plan

# the libraries whose versions decide numbers; those that are not installed are left out
LIBRARIES = (
    "torch",
    "transformers",
    "sentence-transformers",
    "accelerate",
    "tokenizers",
    "datasets",
    "peft",
    "bm25s",
    "kiwipiepy",
    "numpy",
)


def provenance(plan: Plan, source: ModelSource) -> dict[str, Any]:
    """Return, JSON-able: base and revision, data, split, options, versions, hardware, and the UTC time it was made.

    `source` is the base as it was resolved. Raises `DataError` where the plan's data is gone, `ModelError` where the
    base is.
    """
    question_set = find(plan.data)
    texts = indexed_texts(question_set.passages, title=plan.options.title)
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "base": {"reference": source.reference, **_identity(source, texts)},
        "data": {
            "name": plan.data_name,
            "fingerprint": plan.fingerprint,
            "language": "ko" if choose(Analyzer.AUTO, texts) is Analyzer.KIWI_BIGRAM else "",  # empty: not known
            **_counts(plan, question_set),
        },
        "split": asdict(plan.split),
        "options": asdict(plan.options),
        "seed": plan.options.seed,
        "marked_negatives": [list(pair) for pair in plan.marked_negatives],
        "versions": _versions(),
        "hardware": _hardware(plan.options),
    }


def _identity(source: ModelSource, texts: list[str]) -> dict[str, str]:
    """Tell a base by its content: the hub's commit, the files of a folder, or the corpus a starter is made of."""
    if source.hub_id:
        return {"revision": hub_revision(source.hub_id).commit}
    if source.folder:
        return {"fingerprint": content_fingerprint(source.folder)}
    return {"fingerprint": source.fingerprint(key_of(texts))}


def content_fingerprint(folder: Path) -> str:
    """sha256 (hexadecimal) of a model folder's files and their names; the card beside them is not the model."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "README.md"):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def _counts(plan: Plan, question_set: QuestionSet) -> dict[str, int]:
    rows = split(question_set, plan.split).rows
    parts = {f"{part.value}_questions": len(rows[part]) for part in (Part.TRAIN, Part.VALIDATION, Part.TEST)}
    return {"questions": len(question_set.questions), "passages": len(question_set.passages), **parts}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def _hardware(options: TrainingOptions) -> dict[str, Any]:
    import torch

    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "physical_cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "memory": psutil.virtual_memory().total,  # bytes
        "gpus": gpus,
        "device": "cuda" if gpus else "cpu",
        "bfloat16": uses_bfloat16(options),
    }


def _processor() -> str:
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        told = ""
    named = re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE)
    return named[1].strip() if named else platform.processor() or platform.machine()
