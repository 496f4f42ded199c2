"""Vectors of sentences by a model's reference: made block by block on disk, each once on this machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.encoders.bi_encoder import BiEncoder, kept_at
from models.encoders.vector_blocks import read_vectors
from models.sources import find_model


@dataclass(frozen=True)
class SentenceVectors:
    """Vectors `(n_sentences, dimensions)` float32 of length 1 in the order of the sentences, mapped from the disk.

    `fingerprint` is that of the model's content; `seconds` are those that encoding took when it was done.
    """

    vectors: np.ndarray
    fingerprint: str
    seconds: float


def encode(
    reference: str,
    sentences: Sequence[str],
    corpus: Sequence[str],
    *,
    base: Path | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> SentenceVectors:
    """Encode different sentences, each with the model's question prompt; what is kept of them is not made again.

    `corpus` is what a starter is made of: all sentences of the set, whichever of them are encoded. Ended halfway, the
    next call goes on after the last whole block; 100,000 sentences take the memory of one block. Raises `ModelError`.
    """
    encoder = BiEncoder(find_model(reference, base), corpus, on_progress=on_progress)
    vectors = encoder.encode_sentences(sentences)
    return SentenceVectors(vectors, encoder.fingerprint, encoder.meter.lap()[1])


def kept_vectors(
    reference: str, sentences: Sequence[str], corpus: Sequence[str], base: Path | None = None
) -> np.ndarray | None:
    """Map what `encode` kept of these sentences into memory, without torch; None where there is nothing sound.

    Raises `ModelError` where there is no such model.
    """
    encoder = BiEncoder(find_model(reference, base), corpus)
    kept = read_vectors(kept_at(encoder.key_of("question", sentences)))
    return kept.vectors if kept else None
