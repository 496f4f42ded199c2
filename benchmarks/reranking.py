"""Reranking BM25's first 50 passages of KorQuAD's questions: ours against the library's plain `predict`, in turns.

`RERANKING_QUESTIONS` is how many questions the small model is asked (8), and four times those of the one of base size.
"""

import os
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from benchmarks import peers
from benchmarks.encoding import rates
from benchmarks.korquad import korquad
from benchmarks.random_models import BASE, SMALL, cross_encoder
from data.read import read_file
from retrieval.bm25 import BM25, indexed_texts
from retrieval.models import find_model
from retrieval.precision import Precision
from retrieval.scoring import CrossEncoderScorer

_DEPTH, _MAX_LENGTH, _WANTED = 50, 512, 2.5
_PEER = f"sentence-transformers {version('sentence-transformers')} predict, float32"
_SIZES = {"6 layers of 384": (SMALL, 1), "base size": (BASE, 4)}
Pairs = list[tuple[str, str]]


def measure() -> list[str]:
    """Return seconds of both for either size, and how alike both order each question's passages."""
    question_set = read_file(korquad()).question_set
    texts = indexed_texts(question_set.passages, title=True)
    count = int(os.environ.get("RERANKING_QUESTIONS", "8"))
    drawn = np.random.default_rng(0).permutation(len(question_set.questions))[:count]
    lines = ["| model | pairs a second, plain | ours | times faster | Spearman's rho |", "|---|---:|---:|---:|---:|"]
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        asked = [question_set.questions[row].text for row in drawn]
        found = BM25("BM25", question_set.passages).search(asked, _DEPTH).indices
        for name, (size, part) in _SIZES.items():
            questions = max(1, count // part)
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
    ours = CrossEncoderScorer(find_model(str(model)), [], precision=Precision.AUTO)
    exact, reduced = plain.predict(pairs, activation_fn=identity), ours.score(pairs)
    each = zip(exact.reshape(-1, _DEPTH), reduced.reshape(-1, _DEPTH), strict=True)
    rho = float(np.mean([spearmanr(one, other).statistic for one, other in each]))
    measured = peers.in_turns(
        f"Reranking, {name}",
        _PEER,
        f"{len(pairs) // _DEPTH} questions, {_DEPTH} passages each",
        lambda: ours.score(pairs),
        lambda: plain.predict(pairs, activation_fn=identity),
        rounds=2,
        wanted=_WANTED,
    )
    return measured, rho
