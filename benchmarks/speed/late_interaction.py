"""Measure late interaction with the packaged base: `python -m benchmarks late_interaction`, `late_large`.

`late_interaction` compares exhaustive search on KorQuAD with candidates of the centroid index. `late_large` searches
`LATE_PASSAGES` (100,000) passages. Encoding them would take hours, so they are synthetic: KorQuAD passages in which
about half of the runs of 16 tokens come from other passages, with noise added to each token.
"""

import os
from collections.abc import Iterator
from time import perf_counter

import numpy as np

from benchmarks.quality.article_split import workspace
from benchmarks.synthetic_data import korquad
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.vectors import TokenVectors
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.retrieval.centroids import Block, TokenIndex, mapped_index
from mrc_workbench.retrieval.dense import max_sim

_NARROW = 128
_DEPTH = 100
# numbers of questions: on KorQuAD, and for latencies
_SAMPLED_QUESTIONS = 300
_SINGLE_QUESTIONS = 100
_NAMES = {0: "half precision", 2: "2 bits", 1: "1 bit"}
_RUN = 16  # tokens
_EXCHANGED = 0.5  # fraction of runs
_NOISE = 0.2  # length of the vector added to a token's unit vector
_BLOCK = 1024


def late_interaction() -> list[str]:
    """Return a row for each way to store and to search the tokens of KorQuAD's passages."""
    lines = [*_HEAD]
    with workspace():
        question_set = read_file(korquad()).question_set
        for dimensions in (0, _NARROW):
            passages, questions, relevant = _encode_set(question_set, dimensions)
            lines += _measure_korquad(passages, questions, relevant)
    return lines


def late_large() -> list[str]:
    """Return the row of the synthetic passages; exhaustive search is still feasible at this size."""
    with workspace():
        passages, questions, _ = _encode_set(read_file(korquad()).question_set, _NARROW)
        return [*_HEAD, *_measure_large(passages, questions.between(0, _SINGLE_QUESTIONS))]


_HEAD = (
    "| passages | dimensions | tokens stored in | bytes per passage | index, s | ms per question, median | p95 "
    "| nDCG@10 | recall@10 | @100 |",
    "|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|",
)


def _measure_korquad(passages: TokenVectors, questions: TokenVectors, relevant: np.ndarray) -> list[str]:
    exact, times = _exact_rankings(passages, questions)
    size = f"{len(passages):,} | {passages.vectors.shape[1]}"
    bytes_ = f"{passages.vectors.nbytes / len(passages):,.0f}"
    quality = f"{_ndcg(exact, relevant):.2f} | 1.0000 | 1.0000"
    lines = [f"| {size} | half precision, exhaustive | {bytes_} | – | {times} | {quality} |"]
    for bits, name in _NAMES.items():
        began = perf_counter()
        index = TokenIndex.from_blocks([(np.arange(len(passages)), passages)], len(passages), bits)
        built = perf_counter() - began
        rankings = _search_each(index, questions)
        cells = f"{_line(index, built, questions)} | {_ndcg(rankings, relevant):.2f} | {_recall(rankings, exact)}"
        lines.append(f"| {size} | {name} | {cells} |")
    return lines


def _measure_large(passages: TokenVectors, questions: TokenVectors) -> list[str]:
    count = int(os.environ.get("LATE_PASSAGES", "100000"))
    exact = _ExactRankings(questions)
    began = perf_counter()
    index = mapped_index(
        f"clones {perf_counter()}", lambda: map(exact.add_block, _synthetic_blocks(passages, count)), count
    )
    built = perf_counter() - began - exact.seconds
    cells = f"{_line(index, built, questions)} | – | {_recall(_search_each(index, questions), exact.rows)}"
    return [f"| {count:,} | {passages.vectors.shape[1]} | {_NAMES[0]} | {cells} |"]


class _ExactRankings:
    """The top passages of each question by exhaustive search, updated block by block."""

    def __init__(self, questions: TokenVectors) -> None:
        self._questions = questions
        self.seconds = 0.0
        self._scores = np.zeros((len(questions), 0), dtype=np.float32)
        self.rows = np.zeros((len(questions), 0), dtype=np.int64)

    def add_block(self, block: Block) -> Block:
        began = perf_counter()
        scores = np.hstack([self._scores, max_sim(self._questions, block[1])])
        rows = np.hstack([self.rows, np.tile(block[0], (len(scores), 1))])
        order = np.argsort(-scores, axis=1, kind="stable")[:, :_DEPTH]
        self._scores, self.rows = (np.take_along_axis(values, order, axis=1) for values in (scores, rows))
        self.seconds += perf_counter() - began
        return block


def _synthetic_blocks(passages: TokenVectors, count: int) -> Iterator[Block]:
    """Yield `count` synthetic passages in seeded blocks, generated from `passages`."""
    n_tokens = len(passages.vectors)
    vectors = passages.vectors.astype(np.float32)
    n_blocks = -(-count // _BLOCK)
    for number in range(n_blocks):
        rng = np.random.default_rng((7, number))
        rows = np.arange(number, count, n_blocks)
        source_rows = rows % len(passages)
        lengths = np.diff(passages.starts)[source_rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        token_rows = np.arange(starts[-1]) + np.repeat(passages.starts[source_rows] - starts[:-1], lengths)
        runs = np.arange(starts[-1]) // _RUN
        other = rng.integers(0, n_tokens - _RUN, runs[-1] + 1)[runs] + np.arange(starts[-1]) % _RUN
        sampled = vectors[np.where(rng.random(runs[-1] + 1)[runs] < _EXCHANGED, other, token_rows)]
        sampled += _NOISE / np.sqrt(sampled.shape[1]) * rng.standard_normal(sampled.shape, dtype=np.float32)
        sampled /= np.linalg.norm(sampled, axis=1, keepdims=True)
        yield rows, TokenVectors(sampled.astype(np.float16), starts)


def _encode_set(question_set: QuestionSet, dimensions: int) -> tuple[TokenVectors, TokenVectors, np.ndarray]:
    """Return the tokens of all passages and of sampled questions, and the rows of their relevant passages."""
    texts = question_set.passages.indexed_texts(title=True)
    questions = question_set.questions
    DEFAULT.write()
    encoder = TokenEncoder(find_model(DEFAULT.reference), texts, dimensions=dimensions, windows=WindowOptions())
    passages = encoder.encode_passages(texts, question_set.passages.title_lengths(title=True))
    sampled_rows = np.sort(np.random.default_rng(0).choice(len(questions), _SAMPLED_QUESTIONS, replace=False))
    relevant = np.array([question_set.row_of_passage[questions[row].relevant[0]] for row in sampled_rows.tolist()])
    return passages, encoder.encode_questions([question.text for question in questions]).select(sampled_rows), relevant


def _exact_rankings(passages: TokenVectors, questions: TokenVectors) -> tuple[np.ndarray, str]:
    """Return the top passages of each question by exhaustive search, and cells with milliseconds per question."""
    rankings = []
    seconds = []
    for row in range(len(questions)):
        began = perf_counter()
        scores = max_sim(questions.between(row, row + 1), passages)[0]
        seconds.append(perf_counter() - began)
        rankings.append(np.argsort(-scores, kind="stable")[:_DEPTH])
    return np.array(rankings), _milliseconds(seconds)


def _search_each(index: TokenIndex, questions: TokenVectors) -> np.ndarray:
    query_vectors = (questions.between(row, row + 1).vectors for row in range(len(questions)))
    return np.concatenate([index.search(vectors, _DEPTH).indices for vectors in query_vectors])


def _line(index: TokenIndex, built: float, questions: TokenVectors) -> str:
    """Return cells: bytes per passage, build seconds, and milliseconds per question in the best of three rounds."""
    rounds = []
    for _ in range(3):
        seconds = []
        for row in range(min(_SINGLE_QUESTIONS, len(questions))):
            began = perf_counter()
            index.search(questions.between(row, row + 1).vectors, _DEPTH)
            seconds.append(perf_counter() - began)
        rounds.append(seconds)
    return f"{index.memory_bytes / len(index):,.0f} | {built:.0f} | {_milliseconds(min(rounds, key=np.median))}"


def _milliseconds(seconds: list[float]) -> str:
    return " | ".join(f"{1000 * percentile:.1f}" for percentile in np.percentile(seconds, (50, 95)))


def _recall(rankings: np.ndarray, exact: np.ndarray) -> str:
    recalls = [
        np.mean([len(np.intersect1d(a[:k], b[:k])) / k for a, b in zip(rankings, exact, strict=True)])
        for k in (10, 100)
    ]
    return " | ".join(f"{recall:.4f}" for recall in recalls)


def _ndcg(rankings: np.ndarray, relevant: np.ndarray) -> float:
    """Return the mean nDCG@10 of questions with one relevant passage each, in points."""
    hits = rankings[:, :10] == relevant[:, None]
    return float(100 * (hits / np.log2(np.arange(2, 12))).sum(axis=1).mean())
