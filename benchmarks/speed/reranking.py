"""Reranking BM25's first 50 passages of KorQuAD's questions: ours against the library's plain `predict`, in turns.

A thousand questions take the library hours with a model of base size: larger models are asked fewer.
"""

import os
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy.stats import spearmanr

from benchmarks import peers
from benchmarks.material import BASE, SMALL, TINY, cross_encoder, korquad
from benchmarks.speed.encoding import rates
from data.read import read_file
from models.encoders.cross_encoder import CrossEncoderScorer
from models.precision import Precision
from models.sources import find_model
from retrieval.lexical.bm25 import BM25

_DEPTH, _MAX_LENGTH, _ROUNDS, _WANTED = 50, 512, 2, 2.5
_PEER = f"sentence-transformers {version('sentence-transformers')} predict, float32"
_MODELS = {"2 layers of 128": (TINY, 1000), "6 layers of 384": (SMALL, 40), "base size": (BASE, 8)}  # and questions
Pairs = list[tuple[str, str]]


def measure() -> list[str]:
    """Return the pairs a second of both for each model, and how alike both order each question's passages."""
    question_set = read_file(korquad()).question_set
    texts = question_set.passages.indexed_texts(title=True)
    most = max(questions for _, questions in _MODELS.values())
    drawn = np.random.default_rng(0).permutation(len(question_set.questions))[:most]
    lines = ["| model | pairs a second, plain | ours | times faster | Spearman's rho |", "|---|---:|---:|---:|---:|"]
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        asked = [question_set.questions[row].text for row in drawn]
        found = BM25("BM25", question_set.passages).search(asked, _DEPTH).indices
        for name, (size, questions) in _MODELS.items():
            pairs = [(asked[row], texts[passage]) for row in range(questions) for passage in found[row].tolist()]
            model = cross_encoder(Path(folder, name.replace(" ", "-")), texts, _MAX_LENGTH, size)
            one, rho = _in_turns(name, model, pairs)
            measured.append(one)
            lines.append(f"| {name} | {rates(one, len(pairs))} | {rho:.4f} |")
    peers.keep(measured)
    return lines


def _in_turns(name: str, model: Path, pairs: Pairs) -> tuple[peers.Measured, float]:
    import torch
    from sentence_transformers import CrossEncoder

    identity = torch.nn.Identity()
    plain = CrossEncoder(str(model), device="cpu", model_kwargs={"dtype": "float32"})
    plain.predict(pairs[:1], activation_fn=identity)  # loads what the first call loads
    rounds = []
    for _ in range(_ROUNDS):
        ours = CrossEncoderScorer(find_model(str(model)), [], precision=Precision.AUTO, new_head=True)
        ours.score(pairs[:1])
        our_seconds, reduced = _timed(partial(ours.score, pairs))
        their_seconds, exact = _timed(partial(plain.predict, pairs, activation_fn=identity))
        rounds.append((our_seconds, their_seconds))
    each = zip(exact.reshape(-1, _DEPTH), reduced.reshape(-1, _DEPTH), strict=True)
    rho = float(np.mean([spearmanr(one, other).statistic for one, other in each]))
    size = f"{len(pairs) // _DEPTH:,} questions, {_DEPTH} passages each"
    return peers.of_rounds(f"Reranking, {name}", _PEER, size, rounds, wanted=_WANTED), rho


def _timed(work: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    start = perf_counter()
    scores = work()
    return perf_counter() - start, scores
