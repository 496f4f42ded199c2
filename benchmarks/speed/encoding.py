"""Encoding KorQuAD's passages by a BERT of base size: ours against the library's plain `encode`, in turns.

`ENCODING_TEXTS` is how many passages are encoded (64).
"""

import os
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks import peers
from benchmarks.material import bi_encoder, korquad
from data.read import read_file
from models.encoders.bi_encoder import BiEncoder
from models.precision import Precision
from models.sources import find_model

_WANTED = 2.5
_PEER = f"sentence-transformers {version('sentence-transformers')} encode, float32"


def measure() -> list[str]:
    """Return seconds of both, at both lengths, and the lowest cosine between their vectors."""
    texts = [passage.text for passage in read_file(korquad()).question_set.passages]
    drawn = np.random.default_rng(0).permutation(len(texts))[: int(os.environ.get("ENCODING_TEXTS", "64"))]
    asked = [texts[row] for row in drawn]
    columns = ("tokens read", "passages a second, plain", "ours", "times faster", "lowest cosine")
    lines = [f"| {' | '.join(columns)} |", "|---|---:|---:|---:|---:|"]
    measured = []
    for max_length, some in ((128, asked), (512, asked[: max(8, len(asked) // 4)])):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["MRC_WORKSPACE"] = folder
            model = bi_encoder(Path(folder, "base"), texts, max_length)
            measured.append(_in_turns(model, some, max_length))
            cosine = _lowest_cosine(model, some)
        lines.append(f"| {max_length} | {rates(measured[-1], len(some))} | {cosine:.6f} |")
    peers.keep(measured)
    return lines


def rates(one: peers.Measured, count: int) -> str:
    """Return how many of `count` things both do a second, and how many times faster ours is, as cells of a table."""
    low, high = one.spread or (0.0, 0.0)
    plain, ours = count / (one.theirs or 1.0), count / one.ours
    return f"{plain:.2f} | {ours:.2f} | {one.ratio or 0.0:.2f} ({low:.2f} to {high:.2f})"


def _in_turns(model: Path, texts: list[str], max_length: int) -> peers.Measured:
    from sentence_transformers import SentenceTransformer

    plain = SentenceTransformer(str(model), device="cpu", model_kwargs={"dtype": "float32"})
    ours = BiEncoder(find_model(str(model)), [], precision=Precision.AUTO)
    return peers.in_turns(
        "Encoding, base size",
        _PEER,
        f"{len(texts)} passages, {max_length} tokens",
        lambda: ours.encode("passage", texts),
        lambda: plain.encode(texts, normalize_embeddings=True),
        wanted=_WANTED,
    )


def _lowest_cosine(model: Path, texts: list[str]) -> float:
    source = find_model(str(model))
    exact, ours = (
        BiEncoder(source, [], precision=precision).encode("passage", texts)
        for precision in (Precision.FLOAT32, Precision.AUTO)
    )
    return float((exact * ours).sum(axis=1).min())
