"""The sparse encoder (SPLADE: Formal et al. 2021): texts into weights of terms, each once on this machine."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, vstack

from mrc_workbench.data.cache import cached_arrays, key_of
from mrc_workbench.data.texts import fingerprint_of, in_blocks
from mrc_workbench.models.encoders.vector_blocks import BLOCK, Meter
from mrc_workbench.models.loading import load_sparse_encoder
from mrc_workbench.models.precision import Precision
from mrc_workbench.models.sources import ModelSource, SourcedModel
from mrc_workbench.models.windows import Cutter, WindowOptions, kept_lengths

if TYPE_CHECKING:
    from sentence_transformers import SparseEncoder

_VERSION = 1  # raise when what is kept of encoded texts changes
_PASSAGES_SHARE = 0.8  # of the progress of encoding: passages are longer than questions
_LOGITS_A_PASS = {"cpu": 1 << 26, "cuda": 1 << 29}  # one for each term at each place: 256 MB and 2 GB in float32
_NO_LETTER = "\ufffd"  # of a term that is a part of a letter's bytes
_WORD_BEGINS = ("▁", "Ġ")
_ROUTES = {"question": "query", "passage": "document"}


class SparseTextEncoder(SourcedModel):
    """A sentence-transformers sparse encoder, loaded when a text is encoded whose terms are not on disk.

    The texts are kept a block at a time: what was interrupted goes on with the next block, and a corpus that grew
    encodes what is new. In bfloat16 weights are near those of float32, and a term of hardly any weight may come or go.
    """

    @cached_property
    def model(self) -> "SparseEncoder":
        return load_sparse_encoder(self._source)

    def __init__(
        self,
        source: ModelSource,
        corpus: Sequence[str],
        *,
        precision: Precision = Precision.AUTO,
        batch_size: int = 64,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        super().__init__(source, corpus, precision)
        self._batch_size = batch_size  # of what reads no rows of tokens: an inference-free question side
        self.meter, self._on_progress = Meter(), on_progress

    def encode_questions(self, texts: Sequence[str]) -> csr_array:
        return self._weights("question", texts, (_PASSAGES_SHARE, 1.0))

    def encode_passages(self, texts: Sequence[str]) -> csr_array:
        return self._weights("passage", texts, (0.0, _PASSAGES_SHARE))

    def cut_off(self, texts: Sequence[str]) -> int:
        """Of how many passages only the beginning is read."""
        return kept_lengths(self, texts, self._cutter).cut_off

    def _cutter(self) -> Cutter | None:
        from mrc_workbench.models.inference import takes_rows

        model = self._sides["passage"]
        return Cutter(model.tokenizer, WindowOptions()) if takes_rows(model) and model.tokenizer.is_fast else None

    def encode(self, side: str, texts: Sequence[str]) -> csr_array:
        """Encode texts now, all as one block, and keep nothing: `(n_texts, n_terms)` float32.

        Of a model that scores by cosine each row is of length 1, so that every score is a dot product. Raises
        `ModelError` (`not_finite`) where the model has no numbers for them.
        """
        from mrc_workbench.models.inference import fast_passes, takes_rows

        model = self._sides[side]
        encode = model.encode_query if side == "question" else model.encode_document
        settings: dict[str, Any] = {"convert_to_sparse_tensor": False, "save_to_cpu": True, "show_progress_bar": False}
        if takes_rows(model):
            with fast_passes(model, "sentence_embedding", self._precision, self._places):
                found = encode(list(texts), batch_size=max(1, len(texts)), **settings)
        else:
            found = encode(list(texts), batch_size=self._batch_size, **settings)
        weights = self._finite(found.numpy().astype(np.float32, copy=False))
        if self.model.similarity_fn_name == "cosine":
            lengths = np.linalg.norm(weights, axis=1, keepdims=True)
            weights = np.divide(weights, lengths, out=np.zeros_like(weights), where=lengths > 0)
        return csr_array(weights)

    def spans_by_term(self, text: str) -> dict[int, tuple[tuple[int, int], ...]]:
        """Return the terms that stand in a text, and their letters in it: none where the tokenizer cannot tell."""
        tokenizer = self.model.tokenizer
        told = tokenizer(text, add_special_tokens=False, return_offsets_mapping=tokenizer.is_fast, verbose=False)
        found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        ids = told["input_ids"]
        for term, span in zip(ids, told.get("offset_mapping") or [(0, 0)] * len(ids), strict=True):
            found[term].append(tuple(span))
        return {term: tuple(spans) for term, spans in found.items()}

    def readings(self, terms: Sequence[int]) -> list[str]:
        """Return terms as a person reads them, no two of a vocabulary alike: `##` leads what goes on a word."""
        tokenizer = self.model.tokenizer
        # pieces that begin a word are marked, as by SentencePiece; WordPiece marks the others
        marks_beginnings = tokenizer.tokenize("a a")[-1].startswith(_WORD_BEGINS)

        def reading(term: int, name: str) -> str:
            text: str = tokenizer.decode([term]).strip()
            if not text or _NO_LETTER in text or term in tokenizer.all_special_ids:
                return name
            return text if name.startswith(_WORD_BEGINS) or not marks_beginnings else f"##{text}"

        return [*map(reading, terms, tokenizer.convert_ids_to_tokens(list(terms)))]

    @cached_property
    def _sides(self) -> dict[str, "SparseEncoder"]:
        """The model of questions and that of passages: the same, but for one that has modules for each."""
        from sentence_transformers.base.modules import Router
        from sentence_transformers.sparse_encoder import SparseEncoder

        router = self.model[0]
        if not isinstance(router, Router):
            return dict.fromkeys(_ROUTES, self.model)
        rest = [*self.model][1:]
        limit = self.model.max_active_dims
        ways = {side: [*router.sub_modules[route], *rest] for side, route in _ROUTES.items()}
        return {
            side: SparseEncoder(modules=modules, prompts=self.model.prompts, max_active_dims=limit)
            for side, modules in ways.items()
        }

    @cached_property
    def _places(self) -> dict[str, int]:
        """How many tokens a pass takes: each has a logit for every term of the vocabulary."""
        n_terms = self.model.get_embedding_dimension() or len(self.model.tokenizer)
        return {device: max(1, logits // n_terms) for device, logits in _LOGITS_A_PASS.items()}

    def _weights(self, side: str, texts: Sequence[str], shares: tuple[float, float]) -> csr_array:
        if not len(texts):
            return csr_array((0, 0), dtype=np.float32)
        began, (before, after) = time.perf_counter(), shares  # of all encoding done
        rows, load, work = [], 0.0, 0.0
        done = 0
        for block in in_blocks(texts, BLOCK):
            kept = self._block(side, block, keep=len(texts) > 1)  # one question typed by a person is not worth a file
            parts = (kept["weights"], kept["terms"], kept["offsets"])
            rows.append(csr_array(parts, shape=(len(block), int(kept["n_terms"]))))
            load, work = max(load, float(kept["seconds"][0])), work + float(kept["seconds"][1])
            done += len(block)
            if self._on_progress:
                self._on_progress(before + (after - before) * done / len(texts))
        self.meter.note(time.perf_counter() - began, load, work)
        return csr_array(vstack(rows, format="csr"))

    def _block(self, side: str, texts: list[str], *, keep: bool) -> dict[str, np.ndarray]:
        def compute() -> dict[str, np.ndarray]:
            found, seconds = self._timed(lambda: self.encode(side, texts))
            of_rows = {"weights": found.data, "terms": found.indices, "offsets": found.indptr}
            return of_rows | {"n_terms": np.array(found.shape[1]), "seconds": seconds}

        key = key_of(_VERSION, self.fingerprint, side, fingerprint_of(texts)) if keep else ""
        return cached_arrays("sparse", key, compute, keep=keep)
