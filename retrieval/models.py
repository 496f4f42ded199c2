"""Which model is meant, where it is, and how it is loaded: safely, and only when something must be computed.

A model is `starter` (made of the corpus searched), a folder, the id of a run in the workspace, or a hub id.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from data.texts import fingerprint_of
from data.workspace import replacing, workspace
from retrieval.analyzers import VERSION as ANALYZER_VERSION
from retrieval.cache import key_of
from retrieval.hub import ModelError, hub_revision
from retrieval.precision import Precision

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer

STARTER = "starter"
DEFAULT_BI_ENCODER = "snunlp/KR-SBERT-V40K-klueNLI-augSTS"
DEFAULT_CROSS_ENCODER = "klue/roberta-base"
_STARTER_VERSION = 3  # raise when a starter model of the same corpus would come out different
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


class Encoder(Protocol):
    """Turns texts into vectors of length 1, `(n_texts, dimensions)` float32."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors would."""
        ...

    def encode_questions(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of questions; a text nothing is known of has a vector of zeros."""
        ...

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of passages."""
        ...


class PairScorer(Protocol):
    """Scores question-passage pairs together; higher is more relevant."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the scores would."""
        ...

    def load(self) -> None:
        """Make ready to score, which counts as building an index; called again it does nothing."""
        ...

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Scores `(n_pairs,)` float32."""
        ...


@dataclass(frozen=True)
class ModelSource:
    """Where a model comes from: a folder on this machine, the hub, or the corpus itself (neither)."""

    reference: str
    folder: Path | None = None
    hub_id: str | None = None

    def fingerprint(self, corpus_key: str) -> str:
        """Key of the model's content: file sizes and times, the hub's commit, or the corpus a starter is made of."""
        if self.folder:
            files = sorted(path for path in self.folder.rglob("*") if path.is_file())
            return key_of([(str(p.relative_to(self.folder)), p.stat().st_size, p.stat().st_mtime_ns) for p in files])
        if self.hub_id:
            return key_of(self.hub_id, hub_revision(self.hub_id).commit)
        return key_of(STARTER, _STARTER_VERSION, ANALYZER_VERSION, corpus_key)


def find_model(reference: str, base: Path | None = None) -> ModelSource:
    """Resolve a model reference. Paths are relative to `base` or absolute. Raises `ModelError` (`model_not_found`)."""
    if reference == STARTER:
        return ModelSource(reference)
    for folder in ((base or Path()) / reference, workspace() / "runs" / reference):
        if _is_folder(folder):
            finished = folder / "model"  # a training's run folder stands for the model in it
            return ModelSource(reference, folder=_with_a_model(reference, finished if finished.is_dir() else folder))
    if _HUB_ID.fullmatch(reference):
        return ModelSource(reference, hub_id=reference)
    raise ModelError("model_not_found", reference, f"{reference!r} is no folder, no finished run and no hub id")


def is_starter(source: ModelSource) -> bool:
    """Whether a model is a starter, trained or not: of modules of this project, without layers or a tokenizer."""
    if source.folder is None:
        return source.hub_id is None
    return _first_module(source.folder).startswith("retrieval.starter.")


def starter_bi_encoder_folder(source: ModelSource, corpus: Sequence[str]) -> Path:
    """Folder of a starter bi-encoder, trained or not. Raises `FileNotFoundError` where it was not built yet."""
    folder = source.folder or _starter_folder(source, "bi-encoder", corpus)
    if not folder.is_dir():
        raise FileNotFoundError(f"no starter was built of these {len(corpus)} passages yet: search with it once")
    return folder


def _first_module(folder: Path) -> str:
    listed = folder / "modules.json"
    modules = json.loads(listed.read_text(encoding="utf-8")) if listed.is_file() else []
    return str(modules[0]["type"]) if modules else ""


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name too long for the file system
        return False


def _with_a_model(reference: str, folder: Path) -> Path:
    if not any((folder / name).is_file() for name in ("modules.json", "config.json")):
        raise ModelError("model_not_found", reference, f"the folder {reference!r} holds no model, or not yet")
    return folder.resolve()


class SourcedModel:
    """A model that is known by its content before it is loaded. A starter computes in float32 whatever is asked."""

    model: Any

    def __init__(self, source: ModelSource, corpus: Sequence[str], precision: Precision) -> None:
        self._source, self._corpus, self._precision = source, corpus, precision

    @cached_property
    def fingerprint(self) -> str:
        """Key of the model's content, and of the precision where it is not float32."""
        content = self._source.fingerprint(fingerprint_of(self._corpus))
        exact = self._precision is Precision.FLOAT32 or is_starter(self._source)
        return content if exact else key_of(content, self._precision)

    def load(self) -> None:
        """Load the model now rather than with the first text, so that loading counts as building an index."""
        _ = self.model


def load_bi_encoder(source: ModelSource, corpus: Sequence[str]) -> "SentenceTransformer":
    """Load a bi-encoder in float32 from safetensors. A starter is built from `corpus` once and kept on disk."""
    from sentence_transformers import SentenceTransformer

    from retrieval.starter.bi_encoder import AnalyzedEmbedding, build_bi_encoder

    folder = source.folder or _starter(source, "bi-encoder", corpus, build_bi_encoder)
    if folder and (module := _own_module(folder, AnalyzedEmbedding)):
        return SentenceTransformer(modules=[module], similarity_fn_name="cosine")
    return SentenceTransformer(**_where(source), model_kwargs=_WEIGHTS)


def load_cross_encoder(source: ModelSource, corpus: Sequence[str]) -> "CrossEncoder":
    """Load a cross-encoder with one output in float32 from safetensors. A starter is built from `corpus` once."""
    import torch
    from sentence_transformers import CrossEncoder

    from retrieval.starter.cross_encoder import KernelPooling, build_cross_encoder

    folder = source.folder or _starter(source, "cross-encoder", corpus, build_cross_encoder)
    if folder and (module := _own_module(folder, KernelPooling)):
        return CrossEncoder(modules=[module])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a base model has no scoring head: one is drawn while loading, the same every time
        model: CrossEncoder = CrossEncoder(**_where(source), num_labels=1, model_kwargs=_WEIGHTS)
    if model.tokenizer is not None and getattr(model.config, "type_vocab_size", 2) < 2:
        # RoBERTa knows one segment, but klue/roberta-base comes with BERT's tokenizer, which numbers two
        names = ["input_ids", "attention_mask"]
        model.tokenizer.model_input_names = names
        model.tokenizer.init_kwargs["model_input_names"] = names  # what is saved with it: others load the model too
    return model


_WEIGHTS: dict[str, Any] = {"use_safetensors": True, "dtype": "float32"}


def _where(source: ModelSource) -> dict[str, Any]:
    if source.folder:
        return {"model_name_or_path": str(source.folder)}
    revision = hub_revision(str(source.hub_id))
    return {
        "model_name_or_path": source.hub_id,
        "revision": revision.commit,
        # a hub that does not answer is asked again and again for minutes, even for files that are here
        "local_files_only": not revision.online,
    }


def _own_module(folder: Path, module_class: Any) -> Any:
    # sentence-transformers imports classes of other packages only with trust_remote_code, which is never set here
    if _first_module(folder) != f"{module_class.__module__}.{module_class.__qualname__}":
        return None
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    return module_class.load(str(folder), subfolder=modules[0]["path"])


def _starter(source: ModelSource, kind: str, corpus: Sequence[str], build: Callable[..., Any]) -> Path | None:
    if source.hub_id:
        return None
    folder = _starter_folder(source, kind, corpus)
    if not folder.is_dir():
        with replacing(folder) as new:
            build(corpus).save_pretrained(str(new), create_model_card=False)
    return folder


def _starter_folder(source: ModelSource, kind: str, corpus: Sequence[str]) -> Path:
    return workspace() / "cache" / "starters" / f"{kind}-{source.fingerprint(fingerprint_of(corpus))}"
