"""What a comparison was made of and measured with: enough to do it again, or to tell why it came out otherwise."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from data.records import QuestionSet
from data.split import split
from jobs.machine import commit, hardware, versions
from retrieval.comparison.compare import Comparison
from retrieval.comparison.spec import Materials
from retrieval.evaluation.families import LEVEL, PERMUTATIONS
from retrieval.evaluation.significance import RESAMPLES
from text.analyzers import VERSION as ANALYZER_VERSION

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
