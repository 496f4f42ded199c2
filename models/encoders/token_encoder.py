"""The token encoder of late interaction (ColBERT: Khattab & Zaharia 2020): a vector of every token, not of the text.

Any transformer can be read so: the hidden states of two of its upper layers, brought to length 1, tell a question's
words from each other where the pooled vector of the same weights has mixed them. A model that was trained for it brings
its own projection and masks.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from data.cache import cached_arrays, has_arrays, key_of, save_arrays, shipped
from data.texts import fingerprint_of
from models.encoders.protocols import TokenVectors
from models.encoders.shared_weights import share_weights
from models.encoders.vector_blocks import BLOCK, Meter, reading_costs
from models.loading import LOWER_SHARE, TokenLayers, load_token_encoder
from models.precision import Precision
from models.sources import ModelSource, SourcedModel
from models.windows import Cutter, Window, WindowOptions, Windows, kept_lengths
from text.analyzers import Span

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder

_VERSION = 1  # raise when what is kept of encoded texts changes
_AT_ONCE = 32  # texts of like length in a pass
_PROMPTS = {"question": "query", "passage": "document"}
_FITTED_ON = 50_000  # tokens that a projection is fitted on


class TokenEncoder(SourcedModel):
    """A late-interaction model, or any other transformer, loaded when a text is encoded that is not on disk.

    `dimensions` are those that are kept, 0 for all: the others are left out by the directions in which the tokens of
    the corpus differ most (singular value decomposition). With `windows` a passage that the model does not read whole
    has the tokens of all its windows; without, those of its beginning. `heads` are the lengths of passages' titles.
    `projection` `(all, kept)` brings vectors to the dimensions that are kept: None where all are, or before `fit`.
    """

    @cached_property
    def model(self) -> "MultiVectorEncoder":
        model = load_token_encoder(self._source, self._layers)
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
        layers: TokenLayers = TokenLayers.UPPER,
        on_progress: Callable[[float], None] | None = None,
        passages_share: float = 0.8,
        at_hand: "MultiVectorEncoder | None" = None,
    ) -> None:
        """A model `at_hand`, as one that is being trained, is not loaded, and of what it makes nothing is kept."""
        super().__init__(source, corpus, precision)
        self._is_at_hand = at_hand is not None
        if at_hand is not None:
            self.model = at_hand
        self._dimensions, self._windows, self._layers = dimensions, windows, layers
        self._passages_share = passages_share
        self.meter, self._on_progress = Meter(), on_progress
        self.projection: np.ndarray | None = None

    @cached_property
    def fingerprint(self) -> str:
        whole = super().fingerprint
        return whole if self._layers is TokenLayers.LAST else key_of(whole, self._layers, LOWER_SHARE)

    def encode_questions(self, texts: Sequence[str]) -> TokenVectors:
        return self._vectors("question", texts, None, (self._passages_share, 1.0))

    def encode_passages(self, texts: Sequence[str], heads: np.ndarray | None = None) -> TokenVectors:
        """Vectors of passages, which the projection is fitted on where one is wanted: encode them first."""
        return self._vectors("passage", texts, heads, (0.0, self._passages_share))

    def passage_blocks(
        self, texts: Sequence[str], heads: np.ndarray | None = None
    ) -> Iterator[tuple[np.ndarray, TokenVectors]]:
        """Yield the rows of a block of passages and their vectors: more than memory holds may be read so."""
        yield from self._blocks("passage", texts, heads, (0.0, self._passages_share))

    def key_of_passages(self, texts: Sequence[str], heads: np.ndarray | None = None) -> str:
        return self._key("passage", texts, heads)

    def has_passages(self, texts: Sequence[str], heads: np.ndarray) -> bool:
        """Whether the vectors of all tokens of these passages are on disk, so that none is encoded."""
        n_blocks = -(-len(texts) // BLOCK)
        blocks = (np.arange(number, len(texts), n_blocks) for number in range(n_blocks))
        return all(
            has_arrays("token-vectors", self._key("passage", [texts[row] for row in rows.tolist()], heads[rows]))
            for rows in blocks
        )

    def ship_passages(self, exact: "TokenEncoder", texts: Sequence[str], heads: np.ndarray) -> None:
        """Store the vectors that `exact` computes of these passages with the sample, under this encoder's key.

        The passages are one block, so that they are one file. Raises `OSError`.
        """
        if len(texts) > BLOCK:
            raise ValueError(f"{len(texts)} passages are more than the {BLOCK} of one block")
        arrays = exact._kept("passage", [*texts], heads, lambda _: None, keep=True)
        save_arrays(shipped("token-vectors", self.key_of_passages(texts, heads)), arrays)

    def encode(
        self, side: str, texts: Sequence[str], on_progress: Callable[[float], None] | None = None
    ) -> list[np.ndarray]:
        """Encode texts now and keep nothing: `(n_tokens, all dimensions)` float16 of each.

        `on_progress` is told the share that is done. Raises `ModelError` (`not_finite`) where the model has no numbers
        for them.
        """
        from models.inference import in_precision

        encode = self.model.encode_query if side == "question" else self.model.encode_document
        costs = reading_costs(np.array([len(text) for text in texts]))
        order, done = np.argsort(-costs, kind="stable"), 0.0
        found: list[np.ndarray] = [np.zeros((0, 0))] * len(texts)
        with in_precision(self.model[0], self._precision):
            for start in range(0, len(order), _AT_ONCE):
                rows = order[start : start + _AT_ONCE].tolist()
                vectors = encode(
                    [texts[row] for row in rows], batch_size=_AT_ONCE, convert_to_numpy=True, show_progress_bar=False
                )
                for row, one in zip(rows, vectors, strict=True):
                    found[row] = self._finite(one).astype(np.float16)
                done += costs[rows].sum()
                if on_progress:
                    on_progress(done / costs.sum())
        return found

    def fit(self, passages: Sequence[str], heads: np.ndarray | None = None) -> None:
        """Make questions and single passages readable, as after `encode_passages` of all: from the first block."""
        if self._dimensions and self.projection is None:
            first = np.arange(0, len(passages), -(-len(passages) // BLOCK))
            block, titles = [passages[row] for row in first.tolist()], heads[first] if heads is not None else None
            self.projection = self._kept("passage", block, titles, lambda _: None, keep=True)["projection"]

    def cut_off(self, texts: Sequence[str]) -> int:
        """Of how many passages only the beginning is read; of none where they are read by windows."""
        if self._windows:
            return 0
        return kept_lengths(self, texts, lambda: self._cutter(WindowOptions())).cut_off

    def read(self, side: str, text: str, head: int | None = None) -> tuple[np.ndarray, list[Span]]:
        """Return the vectors of one text, and of each the letters it stands for; none, (0, 0), of a token of its own.

        `head` is the length of a passage's title; where it is given, a long passage is read by windows, as it is
        searched.
        """
        from models.inference import in_precision

        self.load()
        encode = self.model.encode_query if side == "question" else self.model.encode_document
        windows = [Window(0, 0, len(text))]
        if head is not None and self._windows:
            windows = self.windows_of([text], np.array([head], dtype=np.int64), self._windows).of(0) or windows
        vectors, spans = [], list[Span]()
        for window in windows:
            with in_precision(self.model[0], self._precision):
                (told,) = encode([window.text(text)], output_value=None, show_progress_bar=False)
            kept = told["attention_mask"].bool().cpu().numpy()
            vectors.append(told["token_embeddings"].float().cpu().numpy()[kept])
            letters = self._letters(side, window.text(text), told["input_ids"].tolist())
            spans += [_in_whole(window, letters[place]) for place in np.flatnonzero(kept)]
        found = np.concatenate(vectors).astype(np.float16)
        return self._projected(found, fit=False)[0].astype(np.float32), spans

    def _letters(self, side: str, text: str, ids: list[int]) -> list[Span]:
        """Return the letters of each token; none where the tokenizer cannot tell."""
        tokenizer, prompt = self.model.tokenizer, self.model.prompts.get(_PROMPTS[side]) or ""
        if not tokenizer.is_fast:
            return [(0, 0)] * len(ids)
        told = tokenizer(prompt + text, truncation=True, max_length=len(ids), return_offsets_mapping=True)
        before = len(prompt)
        letters = [(max(0, start - before), max(0, end - before)) for start, end in told["offset_mapping"]]
        same = [*told["input_ids"], *[-1] * len(ids)]
        return [letters[place] if same[place] == one else (0, 0) for place, one in enumerate(ids)]

    def windows_of(self, texts: Sequence[str], heads: np.ndarray, options: WindowOptions) -> Windows:
        """Windows of the passages that the model does not read whole; `heads` are the lengths of their titles."""
        cutter = self._cutter(options)
        return cutter.windows(list(texts), heads) if cutter else Windows.none()

    def _cutter(self, options: WindowOptions) -> Cutter | None:
        if not self.model.tokenizer.is_fast:
            return None
        return Cutter(self.model.tokenizer, options, self.model.prompts.get("document") or "")

    def _vectors(
        self, side: str, texts: Sequence[str], heads: np.ndarray | None, shares: tuple[float, float]
    ) -> TokenVectors:
        if not len(texts):
            return TokenVectors(np.zeros((0, self._dimensions), dtype=np.float16), np.zeros(1, dtype=np.int64))
        found: list[np.ndarray] = [np.zeros((0, 0))] * len(texts)
        for rows, block in self._blocks(side, texts, heads, shares):
            for row, start, end in zip(rows.tolist(), block.starts, block.starts[1:], strict=False):
                found[row] = block.vectors[start:end]
        return TokenVectors.of(found)

    def _blocks(
        self, side: str, texts: Sequence[str], heads: np.ndarray | None, shares: tuple[float, float]
    ) -> Iterator[tuple[np.ndarray, TokenVectors]]:
        """Encode the texts block by block, each kept: what was interrupted goes on with the next block.

        Every block is of texts from all over, so that the first is what the projection can be fitted on.
        """
        n_blocks = -(-len(texts) // BLOCK)
        for number in range(n_blocks):
            began, rows = time.perf_counter(), np.arange(number, len(texts), n_blocks)
            block, titles = [texts[row] for row in rows.tolist()], heads[rows] if heads is not None else None
            tell = partial(self._tell, shares, number, n_blocks)
            kept = self._kept(side, block, titles, tell, keep=len(texts) > 1)
            if side == "passage" and not number:
                self.projection = kept["projection"] if kept["projection"].size else None
            self.meter.note(time.perf_counter() - began, *kept["seconds"].tolist())
            yield rows, TokenVectors(kept["vectors"], kept["starts"])

    def _tell(self, shares: tuple[float, float], number: int, of: int, share: float) -> None:
        if self._on_progress:
            self._on_progress(shares[0] + (shares[1] - shares[0]) * (number + share) / of)

    def _kept(
        self, side: str, texts: list[str], heads: np.ndarray | None, tell: Callable[[float], None], *, keep: bool
    ) -> dict[str, np.ndarray]:
        def encoded() -> dict[str, np.ndarray]:
            read, counts = self._read(texts, heads)
            vectors = self.encode(side, read, tell)
            ends = np.cumsum([len(one) for one in vectors])[np.cumsum(counts) - 1]
            joined, projection = self._projected(np.concatenate(vectors), fit=side == "passage")
            return {"vectors": joined, "starts": np.concatenate([[0], ends]), "projection": projection}

        def compute() -> dict[str, np.ndarray]:
            found, seconds = self._timed(encoded)
            return found | {"seconds": seconds}

        key, keep = self._key(side, texts, heads), keep and not self._is_at_hand
        kept = cached_arrays("token-vectors", key, compute, keep=keep)
        tell(1.0)
        return kept

    def _key(self, side: str, texts: Sequence[str], heads: np.ndarray | None) -> str:
        windows = astuple(self._windows) if self._windows else None
        # the projection is fitted on passages as they are read: by windows it is another one, for questions too
        fitted = [self._dimensions, fingerprint_of(self._corpus), windows] if self._dimensions else []
        read_as, told = (windows, heads.tolist()) if heads is not None else (None, None)
        return key_of(_VERSION, self.fingerprint, side, fingerprint_of(texts), read_as, told, *fitted)

    def _read(self, texts: list[str], heads: np.ndarray | None) -> tuple[list[str], list[int]]:
        """Return what the model reads of the texts, one's windows after the other's, and how many these are of each."""
        if heads is None or not self._windows:
            return texts, [1] * len(texts)
        windows = self.windows_of(texts, heads, self._windows)
        parts = [[window.text(text) for window in windows.of(row)] or [text] for row, text in enumerate(texts)]
        return [*chain.from_iterable(parts)], [*map(len, parts)]

    def _projected(self, vectors: np.ndarray, *, fit: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return vectors of the dimensions wanted, and the projection to them, empty where all are kept."""
        if not 0 < self._dimensions < vectors.shape[1]:
            return vectors, np.zeros((0, 0), dtype=np.float32)
        wide = vectors.astype(np.float32)
        if self.projection is None:
            if not fit:
                raise ValueError("the projection is fitted on passages: they are encoded before questions")
            self.projection = directions(wide, self._dimensions)
        narrow = wide @ self.projection
        narrow /= np.maximum(np.linalg.norm(narrow, axis=1, keepdims=True), 1e-12)
        return narrow.astype(np.float16), self.projection


def directions(vectors: np.ndarray, count: int) -> np.ndarray:
    """Return the directions in which vectors of tokens lie furthest, `(dimensions, count)` float32, the first first."""
    drawn = vectors[np.random.default_rng(0).permutation(len(vectors))[:_FITTED_ON]]
    found = np.linalg.eigh(drawn.T @ drawn)[1]  # in rising order
    return np.ascontiguousarray(found[:, : -count - 1 : -1])


def _in_whole(window: Window, span: Span) -> Span:
    """Return where letters of a window stand in the text that it is cut from."""
    start, end = (place if place <= window.head else window.start + place - window.head for place in span)
    return start, end
