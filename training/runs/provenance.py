"""What a training was made of, noted as it begins: enough to do it again, or to tell why it came out otherwise."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from jobs.machine import hardware, versions
from models.precision import Precision
from models.sources import ModelSource, find_model, identity
from text.analyzers import Analyzer, choose
from training.options.common import TrainingOptions, uses_bfloat16
from training.recipe import recipe_of
from training.runs.runs import Plan, rounds_of

# the libraries whose versions decide numbers; those that are not installed are left out
LIBRARIES = (
    "torch",
    "transformers",
    "sentence-transformers",
    "accelerate",
    "tokenizers",
    "datasets",
    "peft",
    "numba",
    "kiwipiepy",
    "numpy",
)

Options = TypeVar("Options", bound=TrainingOptions)


def provenance(plan: Plan, source: ModelSource) -> dict[str, Any]:
    """Return, JSON-able: base and revision, data, split, options, versions, hardware, and the UTC time it was made.

    `source` is the base as it was resolved. Raises `DataError` where the plan's data is gone, `ModelError` where the
    base is.
    """
    family = recipe_of(plan.kind).family
    data = family.find(plan.data)
    texts = family.texts(data, plan.options)
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "base": {"reference": source.reference, **identity(source, texts)},
        "data": {
            "name": plan.data_name,
            "fingerprint": plan.fingerprint,
            "language": "ko" if choose(Analyzer.AUTO, texts) is Analyzer.KIWI_BIGRAM else "",  # empty: not known
            **family.about(data, plan.split, plan.options),
        },
        "split": asdict(plan.split),
        "options": asdict(plan.options),
        "seed": plan.options.seed,
        **{name: _helper(reference, texts) for name, reference in plan.options.helpers.items()},
        **({"round": f"{plan.round}/{rounds}"} if (rounds := rounds_of(plan.options)) > 1 else {}),
        "marked_negatives": [list(pair) for pair in plan.marked_negatives],
        "versions": versions(LIBRARIES),
        "hardware": _hardware(plan.options),
    }


def _helper(reference: str, texts: Sequence[str]) -> dict[str, str]:
    return {"reference": reference, **identity(find_model(reference), texts)}


def in_precision_begun(options: Options, made: Mapping[str, Any]) -> Options:
    """Return the options with the precision that a run began in: which one is quicker is tried once, not each time.

    Another GPU, or a CPU instead of one, is tried anew.
    """
    began, here = made.get("hardware", {}), hardware() | {"device": _device()}
    if options.precision is not Precision.AUTO or any(began.get(of) != here[of] for of in ("device", "gpus")):
        return options
    return replace(options, precision=Precision.BFLOAT16 if began["bfloat16"] else Precision.FLOAT32)


def _hardware(options: TrainingOptions) -> dict[str, Any]:
    return {**hardware(), "device": _device(), "bfloat16": uses_bfloat16(options)}


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
