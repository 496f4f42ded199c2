"""Late interaction with all passages and with candidates, by the packaged base: on KorQuAD, and on 100,000 passages.

Encoding so many takes hours, so their tokens are made of KorQuAD's: each is a passage of it in which about half of the
runs of 16 tokens come from other passages, with noise on every token. `LATE_PASSAGES` says how many these are.
"""

import os
from collections.abc import Iterator
from time import perf_counter

import numpy as np

from benchmarks.material import korquad
from benchmarks.quality.article_split import workspace
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.vectors import TokenVectors
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.retrieval.centroids import Block, TokenIndex, mapped_index
from mrc_workbench.retrieval.dense import max_sim

_NARROW, _DEPTH = 128, 100
_ASKED, _ALONE = 300, 100  # questions of KorQuAD; those asked of many passages
_NAMES = {0: "half precision", 2: "2 bits", 1: "1 bit"}
_RUN, _EXCHANGED, _NOISE = 16, 0.5, 0.2  # noise: the length of what is added to a token's vector of length 1
_BLOCK = 1024


def late_interaction() -> list[str]:
    """Return a row for each way to keep and to compare the tokens of KorQuAD's passages."""
    lines = [*_HEAD]
    with workspace():
        question_set = read_file(korquad()).question_set
        for dimensions in (0, _NARROW):
            passages, questions, relevant = _encoded(question_set, dimensions)
            lines += _few(passages, questions, relevant)
    return lines


def late_large() -> list[str]:
    """Return the row of so many passages that all are compared with nobody waiting."""
    with workspace():
        passages, questions, _ = _encoded(read_file(korquad()).question_set, _NARROW)
        return [*_HEAD, *_many(passages, questions.between(0, _ALONE))]


_HEAD = (
    "| passages | dimensions | tokens kept in | bytes a passage | index, s | ms a question, median | p95 | nDCG@10 "
    "| recall@10 | @100 |",
    "|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|",
)


def _few(passages: TokenVectors, questions: TokenVectors, relevant: np.ndarray) -> list[str]:
    exact, times = _exact(passages, questions)
    size = f"{len(passages):,} | {passages.vectors.shape[1]}"
    bytes_ = f"{passages.vectors.nbytes / len(passages):,.0f}"
    quality = f"{_ndcg(exact, relevant):.2f} | 1.0000 | 1.0000"
    lines = [f"| {size} | half precision, all compared | {bytes_} | – | {times} | {quality} |"]
    for bits, name in _NAMES.items():
        began = perf_counter()
        index = TokenIndex.of([(np.arange(len(passages)), passages)], len(passages), bits)
        built, found = perf_counter() - began, _found(index, questions)
        told = f"{_line(index, built, questions)} | {_ndcg(found, relevant):.2f} | {_recall(found, exact)}"
        lines.append(f"| {size} | {name} | {told} |")
    return lines


def _many(passages: TokenVectors, questions: TokenVectors) -> list[str]:
    count, exact = int(os.environ.get("LATE_PASSAGES", "100000")), _Best(questions)
    began = perf_counter()
    index = mapped_index(f"clones {perf_counter()}", lambda: map(exact.seen, _clones(passages, count)), count)
    built = perf_counter() - began - exact.seconds
    told = f"{_line(index, built, questions)} | – | {_recall(_found(index, questions), exact.rows)}"
    return [f"| {count:,} | {passages.vectors.shape[1]} | {_NAMES[0]} | {told} |"]


class _Best:
    """The first passages of each question, compared with all that pass by."""

    def __init__(self, questions: TokenVectors) -> None:
        self._questions, self.seconds = questions, 0.0
        self._scores = np.zeros((len(questions), 0), dtype=np.float32)
        self.rows = np.zeros((len(questions), 0), dtype=np.int64)

    def seen(self, block: Block) -> Block:
        began = perf_counter()
        scores = np.hstack([self._scores, max_sim(self._questions, block[1])])
        rows = np.hstack([self.rows, np.tile(block[0], (len(scores), 1))])
        order = np.argsort(-scores, axis=1, kind="stable")[:, :_DEPTH]
        self._scores, self.rows = (np.take_along_axis(of, order, axis=1) for of in (scores, rows))
        self.seconds += perf_counter() - began
        return block


def _clones(passages: TokenVectors, count: int) -> Iterator[Block]:
    """Yield so many passages made of these, which differ from block to block and are the same every time."""
    n_tokens, vectors = len(passages.vectors), passages.vectors.astype(np.float32)
    n_blocks = -(-count // _BLOCK)
    for number in range(n_blocks):
        rng, rows = np.random.default_rng((7, number)), np.arange(number, count, n_blocks)
        of = rows % len(passages)
        lengths = np.diff(passages.starts)[of]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(starts[-1]) + np.repeat(passages.starts[of] - starts[:-1], lengths)
        runs = np.arange(starts[-1]) // _RUN
        other = rng.integers(0, n_tokens - _RUN, runs[-1] + 1)[runs] + np.arange(starts[-1]) % _RUN
        chosen = vectors[np.where(rng.random(runs[-1] + 1)[runs] < _EXCHANGED, other, places)]
        chosen += _NOISE / np.sqrt(chosen.shape[1]) * rng.standard_normal(chosen.shape, dtype=np.float32)
        chosen /= np.linalg.norm(chosen, axis=1, keepdims=True)
        yield rows, TokenVectors(chosen.astype(np.float16), starts)


def _encoded(question_set: QuestionSet, dimensions: int) -> tuple[TokenVectors, TokenVectors, np.ndarray]:
    """Return the tokens of all passages, those of some questions, and the row of the passage that answers each."""
    texts, questions = question_set.passages.indexed_texts(title=True), question_set.questions
    DEFAULT.write()
    encoder = TokenEncoder(find_model(DEFAULT.reference), texts, dimensions=dimensions, windows=WindowOptions())
    passages = encoder.encode_passages(texts, question_set.passages.heads(title=True))
    asked = np.sort(np.random.default_rng(0).choice(len(questions), _ASKED, replace=False))
    relevant = np.array([question_set.row_of_passage[questions[row].relevant[0]] for row in asked.tolist()])
    return passages, encoder.encode_questions([question.text for question in questions]).at(asked), relevant


def _exact(passages: TokenVectors, questions: TokenVectors) -> tuple[np.ndarray, str]:
    """Return the first passages of each question, and what one takes alone."""
    found, seconds = [], []
    for row in range(len(questions)):
        began = perf_counter()
        scores = max_sim(questions.between(row, row + 1), passages)[0]
        seconds.append(perf_counter() - began)
        found.append(np.argsort(-scores, kind="stable")[:_DEPTH])
    return np.array(found), _milliseconds(seconds)


def _found(index: TokenIndex, questions: TokenVectors) -> np.ndarray:
    asked = (questions.between(row, row + 1).vectors for row in range(len(questions)))
    return np.concatenate([index.search(vectors, _DEPTH).indices for vectors in asked])


def _line(index: TokenIndex, built: float, questions: TokenVectors) -> str:
    """Return bytes, seconds to build, and milliseconds of questions asked one at a time, the best of three rounds."""
    rounds = []
    for _ in range(3):
        seconds = []
        for row in range(min(_ALONE, len(questions))):
            began = perf_counter()
            index.search(questions.between(row, row + 1).vectors, _DEPTH)
            seconds.append(perf_counter() - began)
        rounds.append(seconds)
    return f"{index.memory_bytes / len(index):,.0f} | {built:.0f} | {_milliseconds(min(rounds, key=np.median))}"


def _milliseconds(seconds: list[float]) -> str:
    return " | ".join(f"{1000 * one:.1f}" for one in np.percentile(seconds, (50, 95)))


def _recall(found: np.ndarray, exact: np.ndarray) -> str:
    shares = [
        np.mean([len(np.intersect1d(a[:k], b[:k])) / k for a, b in zip(found, exact, strict=True)]) for k in (10, 100)
    ]
    return " | ".join(f"{share:.4f}" for share in shares)


def _ndcg(found: np.ndarray, relevant: np.ndarray) -> float:
    """Return the mean nDCG@10 of questions with one relevant passage each, in points."""
    hits = found[:, :10] == relevant[:, None]
    return float(100 * (hits / np.log2(np.arange(2, 12))).sum(axis=1).mean())
