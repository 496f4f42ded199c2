"""BM25 over analyzed passages.

Scores follow Lucene's BM25 (Robertson & Zaragoza 2009 without the constant factor k1 + 1):
`sum over question terms of ln(1 + (N - n + .5) / (n + .5)) * f / (f + k1 * (1 - b + b * length / mean length))`
with N passages, n of them holding the term, f its count in the passage. Higher is better; a passage that shares no
term is not found. See Kamphuis et al. 2020, "Which BM25 do you mean?", for the variants.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from data.records import Passage
from retrieval.analyzers import Analyzer, Tokens, analyze, choose, tokens_of
from retrieval.rankings import Rankings, top_k

_BLOCK, _CELLS = 512, 50_000_000  # questions, and scores, at a time: 200 MB

# scores of analyzed questions, in blocks of some `(rows, n_passages)`, -inf where no term is shared
ScoreBlocks = Callable[[Tokens], Iterator[np.ndarray]]


class Engine(StrEnum):
    """`BM25S` is the engine; `RANK_BM25` is a slow reference in its own variant (Okapi with an idf floor).

    In that variant a term of half of the passages weighs nothing, and a passage that scores 0 or less is not found.
    """

    BM25S = "bm25s"
    RANK_BM25 = "rank-bm25"


@dataclass(frozen=True)
class BM25Options:
    """`k1` (0 or more) bounds what repetition adds, `b` (0 to 1) how much long passages are held back.

    The defaults are those of Anserini; `title` indexes the article title with the passage.
    """

    analyzer: Analyzer = Analyzer.AUTO
    k1: float = 0.9
    b: float = 0.4
    title: bool = True
    engine: Engine = Engine.BM25S

    def __post_init__(self) -> None:
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise ValueError(f"k1 must be 0 or more and b between 0 and 1, not k1={self.k1}, b={self.b}")


class BM25:
    """A BM25 index over passages; building it analyzes them (cached on disk).

    `memory_bytes` is the size of the index's weights, 0 where not known.
    """

    def __init__(self, name: str, passages: Sequence[Passage], options: BM25Options | None = None) -> None:
        self.name = name
        self.options = options or BM25Options()
        texts = indexed_texts(passages, title=self.options.title)
        self.analyzer = choose(self.options.analyzer, texts)
        self._n_passages = len(passages)
        analyze(self.analyzer, [""])  # loads what it needs now: with tokens from disk it would wait for a question
        tokens = tokens_of(self.analyzer, texts)
        build = _bm25s_scores if self.options.engine is Engine.BM25S else _rank_bm25_scores
        # neither engine can index passages without a single token
        self._scores_of, self.memory_bytes = (
            build(tokens, self.options) if len(tokens.ids) else (self._nothing_found, 0)
        )

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question; scores are BM25, higher is better."""
        return best_of_blocks(self.score_blocks(questions), (len(questions), self._n_passages), k)

    def score_blocks(self, questions: Sequence[str]) -> Iterator[np.ndarray]:
        """Score every passage for some questions at a time: `(rows, n_passages)`, -inf where no term is shared."""
        return self._scores_of(tokens_of(self.analyzer, questions))

    def _nothing_found(self, questions: Tokens) -> Iterator[np.ndarray]:
        block = _block(self._n_passages)
        for start in range(0, len(questions), block):
            yield np.full((min(block, len(questions) - start), self._n_passages), -np.inf, dtype=np.float32)


def best_of_blocks(blocks: Iterable[np.ndarray], shape: tuple[int, int], k: int) -> Rankings:
    """Return the best k columns of a score matrix of some shape that comes a few rows at a time.

    Rows that do not come, because there is no passage to score, hold nothing.
    """
    parts = [top_k(scores, k) for scores in blocks]
    if not parts:
        return top_k(np.full(shape, -np.inf, dtype=np.float32), k)
    return Rankings(np.concatenate([part.indices for part in parts]), np.concatenate([part.scores for part in parts]))


def indexed_texts(passages: Sequence[Passage], *, title: bool) -> list[str]:
    """Return the text of each passage as it is indexed, its title on the line before it where asked and known."""
    return [f"{p.title}\n{p.text}" if title and p.title else p.text for p in passages]


def _block(n_passages: int) -> int:
    return max(1, min(_BLOCK, _CELLS // max(1, n_passages)))


def _bm25s_scores(tokens: Tokens, options: BM25Options) -> tuple[ScoreBlocks, int]:
    """Return what scores questions, and the bytes of the index's arrays."""
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it asks for every detail by itself
    index = bm25s.BM25(method="lucene", k1=options.k1, b=options.b)
    documents = [part.tolist() for part in np.split(tokens.ids, tokens.offsets[1:-1])]
    vocabulary = {token: number for number, token in enumerate(tokens.vocabulary)}
    index.index((documents, vocabulary), show_progress=False)

    def blocks(questions: Tokens) -> Iterator[np.ndarray]:
        ids, block = questions.ids_in(vocabulary), _block(len(documents))
        for start in range(0, len(ids), block):
            scores = np.stack([index.get_scores_from_ids(part.tolist()) for part in ids[start : start + block]])
            yield np.where(scores > 0, scores, -np.inf)

    return blocks, sum(part.nbytes for part in index.scores.values() if isinstance(part, np.ndarray))


def _rank_bm25_scores(tokens: Tokens, options: BM25Options) -> tuple[ScoreBlocks, int]:
    from rank_bm25 import BM25Okapi

    index = BM25Okapi(tokens.texts(), k1=options.k1, b=options.b)

    def blocks(questions: Tokens) -> Iterator[np.ndarray]:
        for words in questions.texts():
            scores = index.get_scores(words)[None, :]
            yield np.where(scores > 0, scores, -np.inf)

    return blocks, 0  # a reference: nobody asks what its dictionaries weigh
