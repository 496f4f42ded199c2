"""Models of sentence-transformers: bi-encoders, sparse encoders (SPLADE: Formal et al. 2021), cross-encoders."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, vstack

from mrc_workbench.data.cache import cached_arrays, is_caching, key_of, load_arrays, sample_path, save_arrays
from mrc_workbench.data.texts import fingerprint_of, in_blocks
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.inference import Precision, fast_passes, share_weights, takes_rows
from mrc_workbench.models.loading import load_bi_encoder, load_cross_encoder, load_sparse_encoder, prompts_of
from mrc_workbench.models.sources import ModelSource, is_starter
from mrc_workbench.models.vectors import BLOCK, RecentVectors, StoredVectors, VectorBlocks, reading_costs
from mrc_workbench.models.windows import (
    Pair,
    PairTokenizer,
    TruncatingModel,
    Window,
    WindowCutter,
    WindowOptions,
    Windows,
)

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer, SparseEncoder

_VERSION = 4  # raise when stored vectors change
_SPARSE_VERSION = 1  # raise when stored term weights change
_LOGITS_A_PASS = {"cpu": 1 << 26, "cuda": 1 << 29}  # for each term and position: 256 MB and 2 GB in float32
_NO_LETTER = "\ufffd"  # of a term with an incomplete character
_WORD_BEGINS = ("▁", "Ġ")
_ROUTES = {"question": "query", "passage": "document"}
_PAIRS_AT_ONCE = 4096  # tokenized together


class BiEncoder(TruncatingModel):
    """A lazily loaded bi-encoder with stored vectors; bfloat16 vectors have a cosine above .999 with float32 ones."""

    @cached_property
    def model(self) -> "SentenceTransformer":
        model = load_bi_encoder(self._source, self._corpus)
        share_weights(model, self._content)
        return model

    @cached_property
    def _recent(self) -> RecentVectors:
        return RecentVectors()

    def load(self) -> None:
        """Load the model, and the analyzer of a starter, so that encoding times exclude loading."""
        super().load()
        if is_starter(self._source) and not self._is_given:
            self.model[0].load_analyzer()

    def encode_questions(self, texts: Sequence[str]) -> np.ndarray:
        if texts and not is_caching():
            return self._recent.lookup(texts, lambda new: self.encode("question", new).copy())
        return self._vectors("question", texts, (self._passages_fraction, 1.0))

    def encode_sentences(self, texts: Sequence[str]) -> np.ndarray:
        """Encode sentences for symmetric comparison: all as questions, as E5 recommends (Wang et al. 2024)."""
        return self._vectors("question", texts, (0.0, 1.0))

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        return self._vectors("passage", texts, (0.0, self._passages_fraction))

    def windows_of(self, texts: Sequence[str], title_lengths: np.ndarray, options: WindowOptions) -> Windows:
        """Return and store the windows of passages that are too long for the model."""
        if self._is_given:
            return self.cut(texts, title_lengths, options)
        if is_starter(self._source):
            return Windows.empty()
        began = time.perf_counter()

        def cut() -> dict[str, np.ndarray]:
            windows, seconds = self._timed(lambda: self.cut(texts, title_lengths, options))
            return {"rows": windows.rows, "windows": windows.windows, "seconds": seconds}

        title_key = sha256(title_lengths.tobytes()).hexdigest()
        key = key_of(_VERSION, self.fingerprint, fingerprint_of(texts), title_key, astuple(options))
        stored = cached_arrays("windows", key, cut, store=len(texts) > 1)
        self.meter.note(time.perf_counter() - began, *stored["seconds"].tolist())
        return Windows(stored["rows"], stored["windows"], not options.tokens)

    def count_truncated(self, texts: Sequence[str]) -> int:
        if self._is_given or is_starter(self._source):
            return 0
        return self.lengths_of(texts).n_truncated

    def _cutter(self, options: WindowOptions) -> WindowCutter | None:
        if not self._fast or not self.model.tokenizer.is_fast:
            return None
        return WindowCutter(self.model.tokenizer, options, prompts_of(self.model)[1])

    def encode_windows(self, texts: Sequence[str], windows: Windows) -> tuple[np.ndarray, np.ndarray]:
        """Return vectors of passages (as `encode_passages`) and windows, and the passage of each, `(n_vectors,)`."""
        added = windows.texts(texts)
        if not added:
            return self.encode_passages(texts), np.arange(len(texts))
        costs = [reading_costs(np.array([*map(len, batch)])).sum() for batch in (texts, added)]
        boundary = self._passages_fraction * float(costs[0] / sum(costs))
        rows = windows.whole_rows(len(texts))
        passage_vectors = self._vectors("passage", texts, (0.0, boundary))
        window_vectors = self._vectors("passage", added, (boundary, self._passages_fraction))
        passage_vectors = passage_vectors if len(rows) == len(texts) else passage_vectors[rows]
        return np.concatenate([passage_vectors, window_vectors]), np.concatenate([rows, windows.rows[windows.is_added]])

    def has_passages(self, texts: Sequence[str]) -> bool:
        key = self.key_of("passage", texts)
        return vectors_path(key).is_file() or sample_path("vectors", key).is_file()

    def key_of(self, side: str, texts: Sequence[str]) -> str:
        return key_of(_VERSION, self.fingerprint, side, fingerprint_of(texts))

    def encode(self, side: str, texts: Sequence[str], on_progress: Callable[[float], None] | None = None) -> np.ndarray:
        """Encode texts without storing: `(n_texts, dimensions)` float32 of length 1. Raises `ModelError`."""
        encode = self.model.encode_query if side == "question" else self.model.encode_document
        settings = {"normalize_embeddings": True, "show_progress_bar": False}
        if self._fast:
            with fast_passes(self.model, "sentence_embedding", self._precision, on_progress=on_progress):
                vectors = encode(list(texts), batch_size=max(1, len(texts)), **settings)
        else:
            vectors = encode(list(texts), batch_size=self._batch_size, **settings)
        return self._finite(np.asarray(vectors, dtype=np.float32))

    def ship(self, side: str, texts: Sequence[str]) -> None:
        """Encode texts in float32 and ship their vectors with the sample. Raises `OSError`."""
        exact = BiEncoder(self._source, self._corpus, precision=Precision.FLOAT32)
        vectors, seconds = exact._timed(lambda: exact.encode(side, texts))
        save_arrays(sample_path("vectors", self.key_of(side, texts)), {"vectors": vectors, "seconds": seconds})

    @cached_property
    def _fast(self) -> bool:
        return takes_rows(self.model)

    def _vectors(self, side: str, texts: Sequence[str], progress_range: tuple[float, float]) -> np.ndarray:
        began = time.perf_counter()

        def encode(block: list[str]) -> np.ndarray:
            return self.encode(side, block, blocks.report_block_progress)

        blocks = VectorBlocks(texts, encode, self.load, partial(self._report_progress, progress_range), self._clock)
        stored = self._load_or_compute(side, texts, blocks)
        passed = time.perf_counter() - began
        self.meter.note(passed, stored.load_seconds, stored.seconds, elsewhere=stored.elsewhere)
        return stored.vectors

    def _load_or_compute(self, side: str, texts: Sequence[str], blocks: VectorBlocks) -> StoredVectors:
        if self._is_given or len(texts) <= 1 or not is_caching():
            return blocks.computed()
        key = self.key_of(side, texts)
        if (path := vectors_path(key)).is_file() or not (shipped_arrays := load_arrays(sample_path("vectors", key))):
            return blocks.load_or_compute(path)
        load_seconds, seconds = shipped_arrays["seconds"].tolist()
        return StoredVectors(shipped_arrays["vectors"], load_seconds, seconds, elsewhere=True)


def vectors_path(key: str) -> Path:
    """Return the path of stored vectors in the workspace."""
    return workspace() / "cache" / "vectors" / f"{key}.npy"


class SparseTextEncoder(TruncatingModel):
    """A lazily loaded sparse encoder with stored blocks of weights; bfloat16 weights near 0 differ from float32."""

    @cached_property
    def model(self) -> "SparseEncoder":
        return load_sparse_encoder(self._source)

    def encode_questions(self, texts: Sequence[str]) -> csr_array:
        return self._weights("question", texts, (self._passages_fraction, 1.0))

    def encode_passages(self, texts: Sequence[str]) -> csr_array:
        return self._weights("passage", texts, (0.0, self._passages_fraction))

    def count_truncated(self, texts: Sequence[str]) -> int:
        return self.lengths_of(texts).n_truncated

    def _cutter(self, options: WindowOptions) -> WindowCutter | None:
        model = self._models_by_side["passage"]
        return WindowCutter(model.tokenizer, options) if takes_rows(model) and model.tokenizer.is_fast else None

    def encode(self, side: str, texts: Sequence[str]) -> csr_array:
        """Encode texts without storing: `(n_texts, n_terms)` float32. Raises `ModelError`."""
        model = self._models_by_side[side]
        encode = model.encode_query if side == "question" else model.encode_document
        settings: dict[str, Any] = {"convert_to_sparse_tensor": False, "save_to_cpu": True, "show_progress_bar": False}
        if takes_rows(model):
            with fast_passes(model, "sentence_embedding", self._precision, self._tokens_per_pass):
                embeddings = encode(list(texts), batch_size=max(1, len(texts)), **settings)
        else:
            embeddings = encode(list(texts), batch_size=self._batch_size, **settings)
        weights = self._finite(embeddings.numpy().astype(np.float32, copy=False))
        if self.model.similarity_fn_name == "cosine":
            lengths = np.linalg.norm(weights, axis=1, keepdims=True)
            weights = np.divide(weights, lengths, out=np.zeros_like(weights), where=lengths > 0)
        return csr_array(weights)

    def spans_by_term(self, text: str) -> dict[int, tuple[tuple[int, int], ...]]:
        """Return the terms that occur in a text with their spans, which are empty for slow tokenizers."""
        tokenizer = self.model.tokenizer
        tokens = tokenizer(text, add_special_tokens=False, return_offsets_mapping=tokenizer.is_fast, verbose=False)
        spans_by_id: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        ids = tokens["input_ids"]
        for term, span in zip(ids, tokens.get("offset_mapping") or [(0, 0)] * len(ids), strict=True):
            spans_by_id[term].append(tuple(span))
        return {term: tuple(spans) for term, spans in spans_by_id.items()}

    def readings(self, terms: Sequence[int]) -> list[str]:
        """Return distinct readable names of terms; `##` marks the continuation of a word."""
        tokenizer = self.model.tokenizer
        # SentencePiece marks beginnings of words; WordPiece marks continuations
        marks_beginnings = tokenizer.tokenize("a a")[-1].startswith(_WORD_BEGINS)

        def reading(term: int, name: str) -> str:
            text: str = tokenizer.decode([term]).strip()
            if not text or _NO_LETTER in text or term in tokenizer.all_special_ids:
                return name
            return text if name.startswith(_WORD_BEGINS) or not marks_beginnings else f"##{text}"

        return [*map(reading, terms, tokenizer.convert_ids_to_tokens(list(terms)))]

    @cached_property
    def _models_by_side(self) -> dict[str, "SparseEncoder"]:
        from sentence_transformers.base.modules import Router
        from sentence_transformers.sparse_encoder import SparseEncoder

        router = self.model[0]
        if not isinstance(router, Router):
            return dict.fromkeys(_ROUTES, self.model)
        options: dict[str, Any] = {"prompts": self.model.prompts, "max_active_dims": self.model.max_active_dims}
        modules_by_side = {side: [*router.sub_modules[route], *[*self.model][1:]] for side, route in _ROUTES.items()}
        return {side: SparseEncoder(modules=modules, **options) for side, modules in modules_by_side.items()}

    @cached_property
    def _tokens_per_pass(self) -> dict[str, int]:
        n_terms = self.model.get_embedding_dimension() or len(self.model.tokenizer)
        return {device: max(1, logits // n_terms) for device, logits in _LOGITS_A_PASS.items()}

    def _weights(self, side: str, texts: Sequence[str], progress_range: tuple[float, float]) -> csr_array:
        if not len(texts):
            return csr_array((0, 0), dtype=np.float32)
        began = time.perf_counter()
        rows = []
        load = work = 0.0
        done = 0
        for block in in_blocks(texts, BLOCK):
            stored = self._block(side, block, store=len(texts) > 1)
            parts = (stored["weights"], stored["terms"], stored["offsets"])
            rows.append(csr_array(parts, shape=(len(block), int(stored["n_terms"]))))
            block_load, block_work = stored["seconds"].tolist()
            load = max(load, block_load)
            work += block_work
            done += len(block)
            self._report_progress(progress_range, done / len(texts))
        self.meter.note(time.perf_counter() - began, load, work)
        return csr_array(vstack(rows, format="csr"))

    def _block(self, side: str, texts: list[str], *, store: bool) -> dict[str, np.ndarray]:
        def compute() -> dict[str, np.ndarray]:
            weights, seconds = self._timed(lambda: self.encode(side, texts))
            of_rows = {"weights": weights.data, "terms": weights.indices, "offsets": weights.indptr}
            return of_rows | {"n_terms": np.array(weights.shape[1]), "seconds": seconds}

        key = key_of(_SPARSE_VERSION, self.fingerprint, side, fingerprint_of(texts)) if store else ""
        return cached_arrays("sparse", key, compute, store=store)


class CrossEncoderScorer(TruncatingModel):
    """A sentence-transformers cross-encoder, loaded with the first pair; its last layer computes in float32."""

    @cached_property
    def model(self) -> "CrossEncoder":
        return load_cross_encoder(self._source, self._corpus, self._labels, new_head=self._new_head)

    def __init__(
        self,
        source: ModelSource,
        corpus: Sequence[str],
        *,
        precision: Precision = Precision.AUTO,
        batch_size: int = 64,
        labels: int = 1,
        new_head: bool = False,
    ) -> None:
        super().__init__(source, corpus, precision=precision, batch_size=batch_size)
        self._labels = labels
        self._new_head = new_head
        self._cutters: dict[WindowOptions, WindowCutter] = {}

    def preload_questions(self, questions: Sequence[str]) -> None:
        """Let a starter reuse the tokens that BM25 stored for the questions."""
        if vocabulary := getattr(self.model[0], "vocabulary", None):
            vocabulary.remember(self._corpus)
            vocabulary.remember(questions)

    def score(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return logits of pairs, `(n_pairs,)` or `(n_pairs, labels)`. Raises `ModelError` (`not_finite`)."""
        import torch

        settings: dict[str, Any] = {"activation_fn": torch.nn.Identity(), "show_progress_bar": False}
        if self._tokens is None:
            scores = self.model.predict(list(pairs), batch_size=self._batch_size, **settings)
            return self._finite(np.asarray(scores, dtype=np.float32))
        batches = [np.zeros((0, self._labels) if self._labels > 1 else 0, dtype=np.float32)]
        with self._tokens.joining(), fast_passes(self.model, "scores", self._precision):
            for start in range(0, len(pairs), _PAIRS_AT_ONCE):
                part = list(pairs[start : start + _PAIRS_AT_ONCE])
                batches.append(self.model.predict(part, batch_size=len(part), **settings))
        return self._finite(np.concatenate(batches).astype(np.float32, copy=False))

    def score_windows(self, pairs: Sequence[Pair], title_lengths: Sequence[int], options: WindowOptions) -> np.ndarray:
        if not len(pairs):
            return self.score(pairs)
        window_pairs = list[Pair]()
        starts = list[int]()
        for (question, text), title_length in zip(pairs, title_lengths, strict=True):
            starts.append(len(window_pairs))
            windows = self.windows_of(question, text, title_length, options)
            window_pairs += [(question, window.text(text)) for window in windows] or [(question, text)]
        return np.asarray(np.maximum.reduceat(self.score(window_pairs), starts))

    def windows_of(self, question: str, text: str, title_length: int, options: WindowOptions) -> list[Window]:
        """Return the windows of a passage that is too long beside the question, else none."""
        cutter = self._cutter(options)
        return cutter.windows_beside(question, text, title_length) if cutter else []

    def count_truncated(self, questions: Sequence[str], texts: Sequence[str], candidates: np.ndarray) -> int:
        """Count the `candidates` `(n_questions, depth)`, rows of `texts` or -1, that are too long for a question."""
        if is_starter(self._source):
            return 0
        question_lengths, passage_lengths = map(self.lengths_of, (questions, texts))
        limit = question_lengths.max_pair_tokens
        rooms = np.maximum(limit - question_lengths.tokens, limit // 2)
        too_long = (candidates >= 0) & (passage_lengths.tokens[candidates] > rooms[:, None])
        return len(np.unique(candidates[too_long]))

    def _cutter(self, options: WindowOptions) -> WindowCutter | None:
        if self._tokens is None or not self.model.tokenizer.is_fast:
            return None
        if options not in self._cutters:
            self._cutters[options] = WindowCutter(self.model.tokenizer, options)
        return self._cutters[options]

    @cached_property
    def _tokens(self) -> "PairTokenizer | None":
        return PairTokenizer(self.model) if takes_rows(self.model) else None
