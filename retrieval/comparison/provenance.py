"""What a comparison was made of and measured with: enough to do it again, or to tell why it came out otherwise."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from data.records import QuestionSet
from data.split import split
from jobs.machine import commit, hardware, versions
from models.hub import ModelError
from models.sources import find_model, identity
from retrieval.comparison.compare import Comparison
from retrieval.comparison.experiment import BM25Spec, DenseSpec, MilvusSpec, RerankSpec, RunSpec, Spec, WindowedBM25Spec
from retrieval.evaluation.significance import LEVEL, PERMUTATIONS, RESAMPLES
from retrieval.milvus.kinds import Search
from retrieval.multistage.weight import recommended_weight
from text.analyzers import VERSION as ANALYZER_VERSION
from text.analyzers import choose

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
    experiment, asked = comparison.experiment, comparison.question_set
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
        "commit": commit(),
    }


def _resolved(spec: Spec, question_set: QuestionSet, base: Path | None) -> dict[str, Any]:
    """Return a specification with what its open values came to: `auto`, a model's newest revision, a chosen weight."""
    told: dict[str, Any] = spec.model_dump(mode="json", exclude={"name"}, exclude_none=True)
    if isinstance(spec, BM25Spec | WindowedBM25Spec):
        return told | {"analyzer": choose(spec.analyzer, question_set.passages.indexed_texts(title=spec.title)).value}
    if isinstance(spec, RunSpec):
        return told | _file((base or Path()) / spec.path)
    if isinstance(spec, MilvusSpec) and spec.search is not Search.DENSE:
        told["analyzer"] = choose(spec.analyzer, question_set.passages.indexed_texts(title=spec.title)).value
    if not isinstance(spec, DenseSpec | RerankSpec | MilvusSpec) or (
        isinstance(spec, MilvusSpec) and spec.search is Search.BM25
    ):
        return told
    reference = spec.model
    try:
        source = find_model(reference, base)
        told["model"] = {
            "reference": reference,
            **identity(source, question_set.passages.indexed_texts(title=spec.title)),
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
