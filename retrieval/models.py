"""Which model is meant, where it is, and how it is loaded: safely, and only when something must be computed.

A model is `starter` (made of the corpus searched), a folder, the id of a run in the workspace, or a hub id.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from data.workspace import replacing, workspace
from retrieval.analyzers import VERSION as ANALYZER_VERSION
from retrieval.cache import cached_arrays, key_of
from retrieval.hub import ModelError, hub_revision
from retrieval.meter import Meter

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer

STARTER = "starter"
DEFAULT_BI_ENCODER = "snunlp/KR-SBERT-V40K-klueNLI-augSTS"
DEFAULT_CROSS_ENCODER = "klue/roberta-base"
_VECTORS_VERSION = 2  # raise when what is kept of encoded texts changes
_BLOCK = 1024  # texts between two words of progress
_PASSAGES_SHARE = 0.8  # of the progress of encoding: passages are longer than questions
_STARTER_VERSION = 2  # raise when a starter model of the same corpus would come out different
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


class _SourcedModel:
    """A model that is known by its content before it is loaded."""

    model: Any

    def __init__(self, source: ModelSource, corpus: Sequence[str], *, batch_size: int = 64) -> None:
        self._source, self._corpus, self._batch_size = source, corpus, batch_size

    @cached_property
    def fingerprint(self) -> str:
        """Key of the model's content."""
        return self._source.fingerprint(key_of(list(self._corpus)))

    def load(self) -> None:
        """Load the model now rather than with the first text, so that loading counts as building an index."""
        _ = self.model


class BiEncoder(_SourcedModel):
    """A sentence-transformers bi-encoder, loaded when a text is encoded whose vector is not on disk."""

    @cached_property
    def model(self) -> "SentenceTransformer":
        """The loaded model; loading imports torch."""
        return load_bi_encoder(self._source, self._corpus)

    def __init__(
        self,
        source: ModelSource,
        corpus: Sequence[str],
        *,
        batch_size: int = 64,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        super().__init__(source, corpus, batch_size=batch_size)
        self.meter, self._on_progress = Meter(), on_progress

    def encode_questions(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of questions, with the model's own question prompt where it has one."""
        shares = (_PASSAGES_SHARE, 1.0)
        return self._cached("question", texts, lambda: self._encoded(self.model.encode_query, texts, shares))

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of passages, with the model's own passage prompt where it has one."""
        shares = (0.0, _PASSAGES_SHARE)
        return self._cached("passage", texts, lambda: self._encoded(self.model.encode_document, texts, shares))

    def _encoded(self, encode: Callable[..., Any], texts: Sequence[str], shares: tuple[float, float]) -> np.ndarray:
        before, after = shares  # of all encoding done
        blocks = []
        for start in range(0, max(1, len(texts)), _BLOCK):
            block = list(texts[start : start + _BLOCK])
            vectors = encode(block, normalize_embeddings=True, batch_size=self._batch_size, show_progress_bar=False)
            blocks.append(np.asarray(vectors, dtype=np.float32))
            if self._on_progress:
                self._on_progress(before + (after - before) * min(1.0, (start + _BLOCK) / max(1, len(texts))))
        return np.concatenate(blocks)

    def _cached(self, side: str, texts: Sequence[str], compute: Callable[[], np.ndarray]) -> np.ndarray:
        def arrays() -> dict[str, np.ndarray]:
            began = time.perf_counter()
            self.load()
            loaded = time.perf_counter()
            vectors = compute()
            return {"vectors": vectors, "seconds": np.array([loaded - began, time.perf_counter() - loaded])}

        began = time.perf_counter()
        key = key_of(_VECTORS_VERSION, self.fingerprint, side, list(texts))
        kept = cached_arrays("vectors", key, arrays, keep=len(texts) > 1)
        load_seconds, seconds = kept["seconds"].tolist()
        self.meter.note(time.perf_counter() - began, load_seconds, seconds)
        return kept["vectors"]


class CrossEncoderScorer(_SourcedModel):
    """A sentence-transformers cross-encoder, loaded when the first pair is scored."""

    @cached_property
    def model(self) -> "CrossEncoder":
        """The loaded model; loading imports torch."""
        return load_cross_encoder(self._source, self._corpus)

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Score pairs; logits, so that neighbouring scores do not melt into 1.0."""
        import torch

        identity = torch.nn.Identity()
        settings = {"batch_size": self._batch_size, "activation_fn": identity, "show_progress_bar": False}
        return np.asarray(self.model.predict(list(pairs), **settings), dtype=np.float32)


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
    return workspace() / "cache" / "starters" / f"{kind}-{source.fingerprint(key_of(list(corpus)))}"
