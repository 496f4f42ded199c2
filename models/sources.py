"""References of models, their sources, and fingerprints of their content without loading them."""

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from mrc_workbench.data.cache import is_intact, key_of
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.texts import fingerprint_of
from mrc_workbench.data.workspace import limits, read_json, read_only_workspace, user, workspace
from mrc_workbench.models.files import ModelError, hub_revision, require_regular_files
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.packaged import PackagedBase, installed_base, packaged_base

Outcome = TypeVar("Outcome")
STARTER = "starter"
DEFAULT_BI_ENCODER = "snunlp/KR-SBERT-V40K-klueNLI-augSTS"
DEFAULT_CROSS_ENCODER = "klue/roberta-base"
DEFAULT_MASKED_LANGUAGE_MODEL = "klue/roberta-base"
DEFAULT_READER = "klue/roberta-base"
_STARTER_VERSION = 4  # raise when starter models of a corpus change
# the module and its earlier names in saved models
_STARTER_MODULES = ("mrc_workbench.models.starter.", "models.starter.", "retrieval.starter.")
_RUN_ID = re.compile("[0-9A-Za-z][0-9A-Za-z-]*")  # no path
_HUB_NAME = r"(?!\.|-)[A-Za-z0-9_.-]{1,96}(?<!\.|-)"
_HUB_ID = re.compile(rf"(?!.*(?:--|\.\.|\.git$)){_HUB_NAME}(/{_HUB_NAME})?")


@dataclass(frozen=True)
class ModelSource:
    """The source of a model: a folder, the hub, or the corpus (a starter)."""

    reference: str
    folder: Path | None = None
    hub_id: str | None = None
    packaged: PackagedBase | None = None  # which is written to the folder

    def fingerprint(self, corpus_key: str) -> str:
        """Return a key of the content: file sizes and times, the hub's commit, or the corpus of a starter."""
        if self.packaged:
            return self.packaged.content
        if self.folder:
            files = sorted(path for path in self.folder.rglob("*") if path.is_file())
            return key_of([(str(p.relative_to(self.folder)), p.stat().st_size, p.stat().st_mtime_ns) for p in files])
        if self.hub_id:
            return key_of(self.hub_id, hub_revision(self.hub_id).commit)
        return key_of(STARTER, _STARTER_VERSION, ANALYZER_VERSION, corpus_key)


def find_model(reference: str, base: Path | None = None) -> ModelSource:
    """Resolve a reference; paths are relative to `base`. Raises `ModelError`, also for paths of signed-in users."""
    if reference == STARTER:
        return ModelSource(reference)
    if packaged := packaged_base(reference):
        packaged.require()
        return ModelSource(reference, folder=packaged.folder, packaged=packaged)
    for folder in _candidate_folders(reference, base):
        if os.path.isdir(folder):  # noqa: PTH112 - a name may be too long for the file system
            run_model = folder / "model"  # of a training run
            model_folder = run_model if run_model.is_dir() else folder
            if not any((model_folder / name).is_file() for name in ("modules.json", "config.json")):
                message = f"the folder {reference!r} holds no model yet"
                raise ModelError("model_not_found", message, model=reference)
            require_regular_files(reference, model_folder)
            return ModelSource(reference, folder=model_folder.resolve())
    if _HUB_ID.fullmatch(reference):
        return ModelSource(reference, hub_id=reference)
    if user() and not limits().paths:
        message = f"{reference[:200]!r} is no finished run and no hub id; folders of the server are not open to users"
        raise ModelError("server_path", message, model=reference)
    message = f"{reference[:200]!r} is no folder, no finished run and no hub id"
    raise ModelError("model_not_found", message, model=reference)


def _candidate_folders(reference: str, base: Path | None) -> list[Path]:
    runs = [root / "runs" / reference for root in (workspace(), read_only_workspace()) if root]
    if not user() or limits().paths:
        return [(base or Path()) / reference, *runs]
    return runs if _RUN_ID.fullmatch(reference) else []


def default_model() -> str:
    """Return the default base: a packaged base if one is installed, else the starter."""
    packaged = installed_base()
    return packaged.reference if packaged else STARTER


def is_starter(source: ModelSource) -> bool:
    """Whether a model is a starter, trained or not, which has modules of this project and no tokenizer."""
    if source.folder is None:
        return source.hub_id is None
    return starter_module(source.folder) is not None


def require_sparse(source: ModelSource, find: Callable[[str], Path | None] | None = None) -> None:
    """Raise `ModelError` (`not_sparse`) unless a model is a sparse encoder or a masked language model."""
    find = partial(file_in_folder, source.folder) if source.folder else find
    bi_encoder = is_starter(source) or source.packaged
    if not bi_encoder and (find is None or _can_be_sparse(find)):
        return
    problem = f"{source.reference!r} is no sparse encoder, and no masked language model with a head"
    message = f"{problem}; use a SPLADE model, or a base such as klue/roberta-base"
    raise ModelError("not_sparse", message, model=source.reference)


def require_tokens(source: ModelSource) -> None:
    """Raise `ModelError` (`not_late`) for a starter, which has words instead of tokens."""
    if is_starter(source):
        message = f"{source.reference!r} has words instead of tokens: late interaction needs a transformer"
        raise ModelError("not_late", message, model=source.reference)


def training_fingerprint(source: ModelSource) -> str:
    """Return the fingerprint of the dataset of a model that was trained here, else an empty string."""
    data = read_json(source.folder.parent / "provenance.json").get("data", {}) if source.folder else {}
    return str(data.get("fingerprint", "")) if isinstance(data, dict) else ""


def file_in_folder(folder: Path, name: str) -> Path | None:
    """Return a file of a model's folder, None if missing."""
    path = folder / name
    return path if os.path.isfile(path) else None  # noqa: PTH113 - a name may be too long for the file system


def is_late_interaction(find: Callable[[str], Path | None]) -> bool:
    """Whether a model was trained for late interaction; `find` returns its files."""
    metadata = _content(find, "config_sentence_transformers.json")
    configuration = _content(find, "config.json")
    is_foreign = "query_prefix" in metadata or "HF_ColBERT" in (configuration.get("architectures") or ())
    return bool(metadata.get("model_type") == "MultiVectorEncoder" or is_foreign)


def _can_be_sparse(find: Callable[[str], Path | None]) -> bool:
    if find("modules.json"):  # of sentence-transformers, which stores the type except for old bi-encoders
        return _content(find, "config_sentence_transformers.json").get("model_type") == "SparseEncoder"
    return any(name.endswith("ForMaskedLM") for name in _content(find, "config.json").get("architectures") or ())


def _content(find: Callable[[str], Path | None], name: str) -> dict[str, Any]:
    path = find(name)
    return read_json(path) if path else {}


def starter_bi_encoder_folder(source: ModelSource, corpus: Sequence[str]) -> Path:
    """Return the folder of a starter bi-encoder. Raises `FileNotFoundError` if it was not built yet."""
    folder = source.folder or starter_folder(source, "bi-encoder", corpus)
    if not (folder.is_dir() if source.folder else is_intact(folder)):
        raise FileNotFoundError(f"no starter was built from these {len(corpus)} passages yet: search with it once")
    return folder


def starter_module(folder: Path) -> tuple[str, str] | None:
    """Return the class and the subfolder of a starter's module; None for other models."""
    try:
        first = json.loads((folder / "modules.json").read_text(encoding="utf-8"))[0]
        name = first["type"]
        path = first.get("path", "")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None  # loading reports damaged files
    if not (isinstance(name, str) and isinstance(path, str) and name.startswith(_STARTER_MODULES)):
        return None
    return name.rpartition(".")[2], path


class StoredWork(Protocol):
    """Stored computations of a model: states of layers that it shares with another model."""

    def attach(self, model: Any) -> None:
        """Let a loaded model use the stored work; idempotent."""

    def clock(self) -> float: ...


class SourcedModel:
    """A lazily loaded model with a fingerprint. Starters use float32; seconds include stored work."""

    model: Any
    stored_work: StoredWork | None = None

    def __init__(self, source: ModelSource, corpus: Sequence[str], precision: Precision) -> None:
        self._source = source
        self._corpus = corpus
        self._precision = precision

    @cached_property
    def fingerprint(self) -> str:
        return self._content_and_precision

    @cached_property
    def _content_and_precision(self) -> str:
        exact = self._precision is Precision.FLOAT32 or is_starter(self._source)
        return self._content if exact else key_of(self._content, self._precision)

    @cached_property
    def _content(self) -> str:
        return self._source.fingerprint(fingerprint_of(self._corpus))

    def load(self) -> None:
        model = self.model
        if self.stored_work:
            self.stored_work.attach(model)

    def _clock(self) -> float:
        return self.stored_work.clock() if self.stored_work else time.perf_counter()

    def _timed(self, work: Callable[[], Outcome]) -> tuple[Outcome, np.ndarray]:
        """Load the model and run `work`; return its result, and the seconds of both, `(2,)` float64."""
        began = self._clock()
        self.load()
        loaded = self._clock()
        outcome = work()
        return outcome, np.array([loaded - began, self._clock() - loaded])

    def _finite(self, values: np.ndarray) -> np.ndarray:
        """Return the values of a model. Raises `ModelError` (`not_finite`)."""
        if np.isfinite(values).all():
            return values
        name = self._source.reference
        message = f"the model {name!r} returns values that are no numbers: its weights are damaged, or too large"
        raise ModelError("not_finite", message, model=name)


def starter_folder(source: ModelSource, kind: str, corpus: Sequence[str]) -> Path:
    """Return the folder of the starter of this corpus."""
    return workspace() / "cache" / "starters" / f"{kind}-{source.fingerprint(fingerprint_of(corpus))}"


def model_identity(source: ModelSource, texts: Sequence[str]) -> dict[str, str]:
    """Return the identity of a model for provenance: commit, package or fingerprint."""
    if source.hub_id:
        return {"revision": hub_revision(source.hub_id).commit}
    if source.packaged:
        packaged = source.packaged
        return {"package": packaged.requirement, "origin": packaged.origin, "fingerprint": packaged.sha256}
    if source.folder:
        return {"fingerprint": content_fingerprint(source.folder)}
    return {"fingerprint": source.fingerprint(fingerprint_of(texts))}


def local_fingerprints(references: Iterable[str]) -> list[str]:
    """Return the fingerprints of local models, "" for hub models. Raises `ModelError`."""
    sources = map(find_model, references)
    return [source.fingerprint("") if source.folder else "" for source in sources]


def content_fingerprint(folder: Path) -> str:
    """Return the sha256 (hexadecimal) of a model folder's files and names, without the card."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "README.md"):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


class Meter:
    """Seconds of a model: those that passed in this process, and those of the work behind stored results."""

    def __init__(self) -> None:
        self.load = 0.0  # seconds of loading the model
        self._passed = self._work = self._elsewhere = 0.0

    def note(self, passed: float, load: float, work: float, *, elsewhere: bool = False) -> None:
        """Add passed seconds, and those of the work behind results, `elsewhere` if on another machine."""
        self.load = max(self.load, load)
        self._passed += passed
        self._work += work
        self._elsewhere += work if elsewhere else 0.0

    def lap(self) -> tuple[float, float]:
        lap = self._passed, self._work
        self._passed = self._work = 0.0
        return lap

    def take_elsewhere(self) -> float:
        seconds = self._elsewhere
        self._elsewhere = 0.0
        return seconds
