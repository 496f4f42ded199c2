"""The token encoder of late interaction (ColBERT: Khattab & Zaharia 2020): a vector per token.

Any transformer can be used, with normalized hidden states of its upper layers; see `TokenLayers`. A model trained for
late interaction uses its own projection and masks.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from mrc_workbench.data import cache
from mrc_workbench.data.cache import key_of
from mrc_workbench.data.text.analyzers import Span
from mrc_workbench.data.texts import fingerprint_of
from mrc_workbench.models.inference import LOWER, Precision, ProgressCallback, TokenLayers, in_precision, share_weights
from mrc_workbench.models.loading import load_token_encoder
from mrc_workbench.models.sources import ModelSource
from mrc_workbench.models.vectors import BLOCK, TokenBlocks, TokenVectors, reading_costs
from mrc_workbench.models.windows import TruncatingModel, Window, WindowCutter, WindowOptions

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder

_WEIGHTS_VERSION = 1  # raise when token weights change: stored vectors of questions depend on them
_VERSION = 1  # raise when stored vectors change
_TOKENIZED = 1000  # texts that are tokenized together
_AT_ONCE = 32  # texts of similar length in a pass
_PROMPTS = {"question": "query", "passage": "document"}
_FIT_TOKENS = 50_000  # sample that fits a projection


@dataclass(frozen=True)
class TokenWeights:
    """Weights of the tokens of questions: the square root of BM25's inverse document frequency.

    `by_token` `(n_vocabulary,)` float32 holds sqrt(ln(1 + (N - n + .5) / (n + .5))) for a token in n of N passages
    (Robertson & Zaragoza 2009), and 0 for special tokens. Tokens of the prompt count 0.
    """

    by_token: np.ndarray

    @classmethod
    def from_texts(cls, tokenizer: Any, texts: Sequence[str]) -> "TokenWeights":
        counts = np.zeros(len(tokenizer), dtype=np.int64)
        for start in range(0, len(texts), _TOKENIZED):
            block = [*texts[start : start + _TOKENIZED]]
            for ids in tokenizer(block, add_special_tokens=False, verbose=False)["input_ids"]:
                counts[[*set(ids)]] += 1
        weights = np.sqrt(np.log1p((len(texts) - counts + 0.5) / (counts + 0.5)))
        weights[[*tokenizer.all_special_ids]] = 0.0
        return cls(weights.astype(np.float32))

    def of_text(self, tokenizer: Any, prompt: str, text: str, n_tokens: int) -> np.ndarray:
        """Return weights of a question's tokens, `(n_tokens,)` float32 of mean 1; all 1 if all would be 0."""
        ids = tokenizer(prompt + text, verbose=False)["input_ids"]
        prompt_ids = tokenizer(prompt.rstrip(), add_special_tokens=False)["input_ids"]
        weights = self.by_token[ids]
        first = next((index for index, weight in enumerate(weights.tolist()) if weight), 0)
        if ids[first : first + len(prompt_ids)] == prompt_ids:
            weights[first : first + len(prompt_ids)] = 0.0
        if len(ids) > n_tokens:  # the model reads the beginning and a special token
            weights = np.append(weights[: n_tokens - 1], np.float32(0))
        if len(weights) < n_tokens or not weights.any():
            return np.ones(n_tokens, dtype=np.float32)
        return np.asarray(weights / weights.mean(), dtype=np.float32)


class TokenEncoder(TruncatingModel):
    """A late-interaction model, or any other transformer, loaded when vectors of texts are not stored.

    `projection` `(all, dimensions)` reduces vectors to `dimensions` (0: all) by the principal directions of the corpus
    (singular value decomposition); it is None before `fit`. With `windows` a long passage has the tokens of all its
    windows; without, those of its beginning.

    Vectors of passages have length 1. With weighted `layers`, those of a question have the lengths of its tokens'
    weights, with a mean of 1, so that a mean of dot products is a weighted mean of cosines. `also` are the layers of
    other encoders of the same passages: a single forward pass stores the vectors of all, if all dimensions are used.
    """

    windows_of = TruncatingModel.cut  # not stored, unlike those of a bi-encoder

    @cached_property
    def model(self) -> "MultiVectorEncoder":
        model = load_token_encoder(self._source, *self._passes)
        share_weights(model, self._content)
        return model

    def __init__(
        self,
        source: ModelSource,
        corpus: Sequence[str],
        *,
        precision: Precision = Precision.AUTO,
        dimensions: int = 0,
        windows: WindowOptions | None = None,
        layers: TokenLayers = TokenLayers.BALANCED,
        also: Iterable[TokenLayers] = (),
        weights: TokenWeights | None = None,
        on_progress: ProgressCallback | None = None,
        passages_fraction: float = 0.8,
        loaded_model: "MultiVectorEncoder | None" = None,
    ) -> None:
        """Compute `weights` of weighted `layers` from `corpus` by default; given ones prevent storing vectors."""
        progress: dict[str, Any] = {"on_progress": on_progress, "passages_fraction": passages_fraction}
        super().__init__(source, corpus, precision=precision, loaded_model=loaded_model, **progress)
        self._given_weights = weights
        self._dimensions = dimensions
        self._windows = windows
        self._layers = layers
        others = also if not dimensions else ()
        self._passes = tuple(dict.fromkeys(layer.of_passages for layer in (layers, *others)))  # of a forward pass
        self.projection: np.ndarray | None = None

    @cached_property
    def fingerprint(self) -> str:
        unweighted = self._fingerprint_of(self._layers)
        return key_of(unweighted, "idf", _WEIGHTS_VERSION) if self._layers.are_weighted else unweighted

    def _fingerprint_of(self, layers: TokenLayers) -> str:
        model_fingerprint = self._content_and_precision
        unweighted = layers.of_passages
        return key_of(model_fingerprint, unweighted, LOWER[unweighted][1]) if unweighted in LOWER else model_fingerprint

    @cached_property
    def weights(self) -> TokenWeights | None:
        """Weights of the tokens of questions, None if they are equal. Loads the model."""
        if self._given_weights is not None:
            return self._given_weights
        if not self._layers.are_weighted or self._is_given or not self.model.token_layers:
            return None
        key = key_of(_WEIGHTS_VERSION, self._content, fingerprint_of(self._corpus))
        tokenizer = self.model.tokenizer

        def compute() -> dict[str, np.ndarray]:
            return {"weights": TokenWeights.from_texts(tokenizer, self._corpus).by_token}

        return TokenWeights(cache.cached_arrays("token-weights", key, compute)["weights"])

    def encode_questions(self, texts: Sequence[str]) -> TokenVectors:
        return self._vectors("question", texts, None, (self._passages_fraction, 1.0))

    def encode_passages(self, texts: Sequence[str], title_lengths: np.ndarray | None = None) -> TokenVectors:
        """Encode passages, which also fit the projection: encode them before questions."""
        return self._vectors("passage", texts, title_lengths, (0.0, self._passages_fraction))

    def passage_blocks(self, texts: Sequence[str], title_lengths: np.ndarray | None = None) -> TokenBlocks:
        """Yield the rows and vectors of blocks of passages, which together may exceed the memory."""
        return self._blocks("passage", texts, title_lengths, (0.0, self._passages_fraction))

    def key_of_passages(self, texts: Sequence[str], title_lengths: np.ndarray | None = None) -> str:
        return self._key("passage", texts, title_lengths)

    def has_passages(self, texts: Sequence[str], title_lengths: np.ndarray) -> bool:
        keys = (self._key("passage", block, titles) for _, block, titles in _text_blocks(texts, title_lengths))
        return all(cache.has_arrays("token-vectors", key) for key in keys)

    def ship_passages(self, exact: "TokenEncoder", texts: Sequence[str], title_lengths: np.ndarray) -> None:
        """Store the vectors that `exact` computes of these passages with the sample, as one block. Raises `OSError`."""
        if len(texts) > BLOCK:
            raise ValueError(f"{len(texts)} passages are more than the {BLOCK} of one block")
        arrays = exact._load_or_compute("passage", [*texts], title_lengths, lambda _: None, store=True)
        cache.save_arrays(cache.sample_path("token-vectors", self.key_of_passages(texts, title_lengths)), arrays)

    def encode(self, side: str, texts: Sequence[str], on_progress: ProgressCallback | None = None) -> list[np.ndarray]:
        """Encode texts without storing, `(n_tokens, dimensions)` float16 each. Raises `ModelError`."""
        vectors = [parts[0] for parts in self._encode_passes(side, texts, on_progress)]
        return self._weighted(texts, vectors) if side == "question" else vectors

    def _encode_passes(
        self, side: str, texts: Sequence[str], on_progress: ProgressCallback | None = None
    ) -> list[list[np.ndarray]]:
        """Return the token vectors of each text by each of the layers of a pass, `(n_tokens, width)` float16."""
        encode = self.model.encode_query if side == "question" else self.model.encode_document
        costs = reading_costs(np.array([len(text) for text in texts]))
        order = np.argsort(-costs, kind="stable")
        done = 0.0
        encoded: list[list[np.ndarray]] = [[]] * len(texts)
        with in_precision(self.model[0], self._precision):
            for start in range(0, len(order), _AT_ONCE):
                rows = order[start : start + _AT_ONCE].tolist()
                part = [texts[row] for row in rows]
                vectors = encode(part, batch_size=_AT_ONCE, convert_to_numpy=True, show_progress_bar=False)
                for row, matrix in zip(rows, vectors, strict=True):
                    encoded[row] = self._by_layers(self._finite(matrix))
                done += costs[rows].sum()
                if on_progress:
                    on_progress(done / costs.sum())
        return encoded

    def _by_layers(self, vectors: np.ndarray) -> list[np.ndarray]:
        """Split vectors `(n_tokens, layers * width)` by the layers of a pass, float16 of length 1."""
        count = 1 if self._is_given else max(1, len(self.model.token_layers))
        if count == 1:
            return [vectors.astype(np.float16)]
        return [(part * np.sqrt(count)).astype(np.float16) for part in np.split(vectors, count, axis=1)]

    def _weighted(self, texts: Sequence[str], vectors: Sequence[np.ndarray]) -> list[np.ndarray]:
        if (weights := self.weights) is None:
            return [*vectors]
        of_text = partial(weights.of_text, self.model.tokenizer, self.model.prompts.get("query") or "")
        return [
            (matrix * of_text(text, len(matrix))[:, None]).astype(np.float16)
            for text, matrix in zip(texts, vectors, strict=True)
        ]

    def fit(self, passages: Sequence[str], title_lengths: np.ndarray | None = None) -> None:
        if self._dimensions and self.projection is None:
            _, block, titles = next(_text_blocks(passages, title_lengths))
            self.projection = self._load_or_compute("passage", block, titles, lambda _: None, store=True)["projection"]

    def count_truncated(self, texts: Sequence[str]) -> int:
        return 0 if self._windows else self.lengths_of(texts).n_truncated

    def read(self, side: str, text: str, title_length: int | None = None) -> tuple[np.ndarray, list[Span]]:
        """Return a text's vectors and spans, (0, 0) of special tokens; with `title_length`, by windows."""
        self.load()
        encode = self.model.encode_query if side == "question" else self.model.encode_document
        windows = [Window(0, 0, len(text))]
        if title_length is not None and self._windows:
            windows = self.cut([text], np.array([title_length], dtype=np.int64), self._windows).windows_of(0) or windows
        vectors = []
        spans = list[Span]()
        for window in windows:
            with in_precision(self.model[0], self._precision):
                (output,) = encode([window.text(text)], output_value=None, show_progress_bar=False)
            mask = output["attention_mask"].bool().cpu().numpy()
            of_tokens = output["token_embeddings"].float().cpu().numpy()[mask]
            vectors.append(self._by_layers(of_tokens)[0])
            character_spans = self._character_spans(side, window.text(text), output["input_ids"].tolist())
            edges = np.array(character_spans, dtype=np.int64).reshape(-1, 2)[mask]
            edges += np.where(edges > window.title_length, window.start - window.title_length, 0)
            spans += [(start, end) for start, end in edges.tolist()]
        all_vectors = np.concatenate(vectors)
        if side == "question":
            (all_vectors,) = self._weighted([text], [all_vectors])
        return self._projected(all_vectors, fit=False)[0].astype(np.float32), spans

    def _character_spans(self, side: str, text: str, ids: list[int]) -> list[Span]:
        tokenizer = self.model.tokenizer
        prompt = self.model.prompts.get(_PROMPTS[side]) or ""
        if not tokenizer.is_fast:
            return [(0, 0)] * len(ids)
        encoded = tokenizer(prompt + text, truncation=True, max_length=len(ids), return_offsets_mapping=True)
        tokens = zip(ids, encoded["input_ids"], encoded["offset_mapping"], strict=False)
        spans = [
            (max(0, start - len(prompt)), max(0, end - len(prompt))) if token_id == encoded_id else (0, 0)
            for token_id, encoded_id, (start, end) in tokens
        ]
        return spans + [(0, 0)] * (len(ids) - len(spans))

    def _cutter(self, options: WindowOptions) -> WindowCutter | None:
        if not self.model.tokenizer.is_fast:
            return None
        return WindowCutter(self.model.tokenizer, options, self.model.prompts.get("document") or "")

    def _vectors(
        self, side: str, texts: Sequence[str], title_lengths: np.ndarray | None, progress_range: tuple[float, float]
    ) -> TokenVectors:
        if not len(texts):
            return TokenVectors(np.zeros((0, self._dimensions), dtype=np.float16), np.zeros(1, dtype=np.int64))
        vectors: list[np.ndarray] = [np.zeros((0, 0))] * len(texts)
        for rows, block in self._blocks(side, texts, title_lengths, progress_range):
            for row, start, end in zip(rows.tolist(), block.starts, block.starts[1:], strict=False):
                vectors[row] = block.vectors[start:end]
        return TokenVectors.from_texts(vectors)

    def _blocks(
        self, side: str, texts: Sequence[str], title_lengths: np.ndarray | None, progress_range: tuple[float, float]
    ) -> TokenBlocks:
        """Encode and store the texts block by block; the first block of passages fits the projection."""
        n_blocks = -(-len(texts) // BLOCK)
        for number, (rows, block, titles) in enumerate(_text_blocks(texts, title_lengths)):
            began = time.perf_counter()

            def report_progress(fraction: float, number: int = number) -> None:
                self._report_progress(progress_range, (number + fraction) / n_blocks)

            stored = self._load_or_compute(side, block, titles, report_progress, store=len(texts) > 1)
            if side == "passage" and not number:
                self.projection = stored["projection"] if stored["projection"].size else None
            self.meter.note(time.perf_counter() - began, *stored["seconds"].tolist())
            yield rows, TokenVectors(stored["vectors"], stored["starts"])

    def _load_or_compute(
        self,
        side: str,
        texts: list[str],
        title_lengths: np.ndarray | None,
        report_progress: Callable[[float], None],
        *,
        store: bool,
    ) -> dict[str, np.ndarray]:
        store = store and not self._is_given

        def encode() -> list[dict[str, np.ndarray]]:
            parts, counts = self._window_texts(texts, title_lengths)
            passes = self._encode_passes(side, parts, report_progress)
            by_layers = [[matrices[number] for matrices in passes] for number in range(len(passes[0]))]
            if side == "question":
                by_layers = [self._weighted(parts, by_layers[0])]
            ends = np.cumsum([len(matrix) for matrix in by_layers[0]])[np.cumsum(counts) - 1]
            starts = np.concatenate([[0], ends])
            arrays = []
            for vectors in by_layers:
                joined, projection = self._projected(np.concatenate(vectors), fit=side == "passage")
                arrays.append({"vectors": joined, "starts": starts, "projection": projection})
            return arrays

        def compute() -> dict[str, np.ndarray]:
            (own, *others), seconds = self._timed(encode)
            for layers, arrays in zip(self._passes[1:], others, strict=False):
                if store and cache.is_caching():
                    key = self._key(side, texts, title_lengths, layers)
                    cache.write_arrays("token-vectors", key, arrays | {"seconds": seconds})
            return own | {"seconds": seconds}

        stored = cache.cached_arrays("token-vectors", self._key(side, texts, title_lengths), compute, store=store)
        report_progress(1.0)
        return stored

    def _key(
        self, side: str, texts: Sequence[str], title_lengths: np.ndarray | None, layers: TokenLayers | None = None
    ) -> str:
        windows = astuple(self._windows) if self._windows else None
        weighted = side == "question" and self._layers.are_weighted
        # the projection depends on the windows of passages, also for questions
        fitted = [self._dimensions, fingerprint_of(self._corpus), windows] if self._dimensions else []
        weights = ["weights", fingerprint_of(self._corpus)] if weighted else []
        read_as, title_key = (windows, title_lengths.tolist()) if title_lengths is not None else (None, None)
        model = self.fingerprint if weighted else self._fingerprint_of(layers or self._layers)
        return key_of(_VERSION, model, side, fingerprint_of(texts), read_as, title_key, *fitted, *weights)

    def _window_texts(self, texts: list[str], title_lengths: np.ndarray | None) -> tuple[list[str], list[int]]:
        if title_lengths is None or not self._windows:
            return texts, [1] * len(texts)
        windows = self.cut(texts, title_lengths, self._windows)
        parts = [[window.text(text) for window in windows.windows_of(row)] or [text] for row, text in enumerate(texts)]
        return [*chain.from_iterable(parts)], [*map(len, parts)]

    def _projected(self, vectors: np.ndarray, *, fit: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return vectors of unchanged lengths in fewer dimensions, and the projection, empty if all are used."""
        if not 0 < self._dimensions < vectors.shape[1]:
            return vectors, np.zeros((0, 0), dtype=np.float32)
        float_vectors = vectors.astype(np.float32)
        if self.projection is None:
            if not fit:
                raise ValueError("passages fit the projection: encode them before questions")
            self.projection = principal_directions(float_vectors, self._dimensions)
        projected = float_vectors @ self.projection
        lengths = np.linalg.norm(float_vectors, axis=1, keepdims=True)
        projected *= lengths / np.maximum(np.linalg.norm(projected, axis=1, keepdims=True), 1e-12)
        return projected.astype(np.float16), self.projection


def _text_blocks(
    texts: Sequence[str], title_lengths: np.ndarray | None
) -> Iterator[tuple[np.ndarray, list[str], np.ndarray | None]]:
    """Yield the rows, texts and title lengths of blocks that each sample the whole sequence."""
    n_blocks = -(-len(texts) // BLOCK)
    for number in range(n_blocks):
        rows = np.arange(number, len(texts), n_blocks)
        yield rows, [texts[row] for row in rows.tolist()], None if title_lengths is None else title_lengths[rows]


def principal_directions(vectors: np.ndarray, count: int) -> np.ndarray:
    """Return the first principal directions of token vectors, `(dimensions, count)` float32."""
    sample = vectors[np.random.default_rng(0).permutation(len(vectors))[:_FIT_TOKENS]]
    eigenvectors = np.linalg.eigh(sample.T @ sample)[1]  # ascending
    return np.ascontiguousarray(eigenvectors[:, : -count - 1 : -1])
