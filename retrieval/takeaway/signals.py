"""What an engine knows to search by: terms weighed by BM25, vectors of texts, and one of them vectors of tokens too.

Each says what an engine holds of passages, what it is asked with, and how it scores.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import cast

import numpy as np
from scipy.sparse import csr_array

from data.problems import Failure
from models.encoders.bi_encoder import BiEncoder
from models.encoders.protocols import TokenVectors
from models.encoders.token_encoder import TokenEncoder
from retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec
from retrieval.comparison.spec import Materials
from retrieval.late import max_sim
from retrieval.lexical.weights import counts_by_term
from retrieval.milvus.retriever import term_weights
from retrieval.rankings import Rankings, joined, top_k
from text.analysis import Tokens, tokens_of

SPACE = "␣"  # stands in a token for a space, at which engines cut
_QUESTIONS = 64  # scored at a time with all passages


class TakeAwayError(Failure):
    """What cannot be taken away (`nothing_to_take`, `retriever_failed`, of models `no_network`, `no_tokenizer`,
    `no_onnx`), or a folder that is not one to write to or to ask (`folder_in_use`, `no_folder`).
    """


class Terms:
    """BM25 over the tokens of a field: `texts` are tokens parted by spaces, of passages and of questions alike."""

    kind = "terms"

    def __init__(self, field: str, spec: BM25Spec, materials: Materials) -> None:
        self.field, self.name, self.k1, self.b = field, spec.name, spec.k1, spec.b
        texts = materials.texts(spec.title)
        self.analysis = spec.analysis(spec.dictionary_of(materials)).chosen(texts)
        self.tokens = tokens_of(self.analysis, texts)
        self._number = {term: number for number, term in enumerate(self.tokens.vocabulary)}

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.diff(self.tokens.offsets)

    @property
    def n_terms(self) -> int:
        return len(self._number)

    @property
    def mean_length(self) -> float:
        return float(self.lengths.mean()) if len(self.lengths) else 0.0

    @cached_property
    def weights(self) -> csr_array:
        """Weights by passage and term, `(n_passages, n_terms)` float32."""
        return term_weights(self.tokens, self.k1, self.b)

    def of_passages(self, start: int, stop: int) -> list[str]:
        offsets = self.tokens.offsets
        part = Tokens(
            self.tokens.vocabulary, self.tokens.ids[offsets[start] : offsets[stop]], offsets[start : stop + 1]
        )
        return written(replace(part, offsets=part.offsets - part.offsets[0]).texts())

    def of_questions(self, questions: Sequence[str]) -> list[str]:
        return written(tokens_of(self.analysis, questions).texts())

    def counts_of(self, questions: Sequence[str]) -> csr_array:
        """Term counts of questions, `(n_questions, n_terms)`; a term that no passage holds is left out."""
        ids, offsets = tokens_of(self.analysis, questions).flat_ids_in(self._number)
        return counts_by_term(ids, offsets, len(self._number))

    def score_blocks(self, questions: Sequence[str], *, rounded: bool = False) -> Iterator[np.ndarray]:
        """Yield scores `(some questions, n_passages)` float64, -inf where no term is shared.

        With lengths `rounded`, they are those of Lucene, which keeps a passage's length in a byte.
        """
        weights = self.weights
        if rounded:
            weights = term_weights(self.tokens, self.k1, self.b, in_a_byte(self.lengths))
        counts, columns = self.counts_of(questions), weights.T.tocsr()
        for start in range(0, len(questions), _QUESTIONS):
            scores = (counts[start : start + _QUESTIONS] @ columns).toarray().astype(np.float64)
            yield np.where(scores > 0, scores, -np.inf)


class Vectors:
    """A bi-encoder's vectors: the score of a passage is the cosine; see `Dense`."""

    kind = "vectors"

    def __init__(self, field: str, spec: DenseSpec, materials: Materials) -> None:
        self.field, self.name = field, spec.name
        self.model, self.index, self.precision = spec.model, spec.index, spec.precision
        self.source = materials.source(spec.model)
        self.encoder: BiEncoder = materials.encoder(spec.model, spec.title, spec.precision)
        self._texts = materials.texts(spec.title)

    @cached_property
    def vectors(self) -> np.ndarray:
        return self.encoder.encode_passages(self._texts)

    def of_passages(self, start: int, stop: int) -> list[list[float]]:
        return numbers(self.vectors[start:stop])

    def of_questions(self, questions: Sequence[str]) -> list[list[float]]:
        return numbers(self.encoder.encode_questions(questions))

    def score_blocks(self, questions: Sequence[str], *, rounded: bool = False) -> Iterator[np.ndarray]:
        """Yield scores `(some questions, n_passages)` float64, -inf where nothing is known of the question."""
        del rounded
        asked = self.encoder.encode_questions(questions)
        for start in range(0, len(questions), _QUESTIONS):
            block = asked[start : start + _QUESTIONS]
            known = np.any(block != 0, axis=1, keepdims=True)
            yield np.where(known, (block @ self.vectors.T).astype(np.float64), -np.inf)


class LateTokens:
    """The vectors of tokens of late interaction: the score of a passage is that of `Late`, of every passage."""

    kind = "tokens"

    def __init__(self, field: str, spec: LateSpec, materials: Materials) -> None:
        self.field, self.name = field, spec.name
        self.model, self.precision = spec.model, spec.precision
        self.source = materials.source(spec.model)
        self.encoder: TokenEncoder = materials.token_encoder(
            spec.model, spec.title, spec.precision, spec.dimensions, spec.window_options
        )
        self._texts, self._heads = materials.texts(spec.title), materials.passages.heads(title=spec.title)

    @cached_property
    def vectors(self) -> TokenVectors:
        return self.encoder.encode_passages(self._texts, self._heads)

    def of_passages(self, start: int, stop: int) -> list[list[list[float]]]:
        return _by_text(self.vectors.between(start, stop))

    def of_questions(self, questions: Sequence[str]) -> list[list[list[float]]]:
        _ = self.vectors  # the projection is fitted on passages
        return _by_text(self.encoder.encode_questions(questions))

    def score_blocks(self, questions: Sequence[str], *, rounded: bool = False) -> Iterator[np.ndarray]:
        """Yield scores `(some questions, n_passages)` float64, -inf of what has no tokens."""
        del rounded
        passages = self.vectors
        asked = self.encoder.encode_questions(questions)
        for start in range(0, len(questions), _QUESTIONS):
            yield max_sim(asked.between(start, start + _QUESTIONS), passages).astype(np.float64)


def _by_text(vectors: TokenVectors) -> list[list[list[float]]]:
    return [numbers(vectors.between(row, row + 1).vectors, 4) for row in range(len(vectors))]  # of half precision


def numbers(vectors: np.ndarray, digits: int = 7) -> list[list[float]]:
    """Return vectors of length 1 as JSON has them: seven digits are all that float32 tells apart."""
    return cast(list[list[float]], np.round(vectors.astype(np.float64), digits).tolist())


def projected(vectors: np.ndarray, projection: np.ndarray | None) -> np.ndarray:
    """Return vectors of tokens, `(n, all dimensions)`, with the dimensions that are kept, float32 of length 1."""
    if projection is None:
        return vectors.astype(np.float32)
    narrow: np.ndarray = vectors.astype(np.float32) @ projection
    narrow /= np.maximum(np.linalg.norm(narrow, axis=1, keepdims=True), 1e-12)
    return narrow


Signal = Terms | Vectors | LateTokens


def found(signal: Signal, questions: Sequence[str], depth: int, *, rounded: bool = False) -> Rankings:
    """Return the first `depth` passages of each question by one signal."""
    blocks = [top_k(scores, depth) for scores in signal.score_blocks(questions, rounded=rounded)]
    return joined(blocks or [Rankings.of_nothing(0, depth)])


def written(documents: Sequence[Sequence[str]]) -> list[str]:
    """Return tokens as one text each, at whose spaces an engine cuts."""
    return [" ".join(token.replace(" ", SPACE) for token in tokens) for tokens in documents]


def in_a_byte(lengths: np.ndarray) -> np.ndarray:
    """Return lengths as Lucene keeps them, in a byte: exact up to 40, then with 4 significant bits, rounded down."""
    free = 24  # lengths that have a byte of their own, and are added to all others
    over = np.maximum(lengths - free, 0)
    bits = np.frexp(over.astype(np.float64))[1]
    shift = np.maximum(bits - 4, 0)
    return np.where(lengths < free, lengths, free + ((over >> shift) << shift))
