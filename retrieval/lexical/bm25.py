"""BM25 over analyzed passages.

Scores follow Lucene's BM25 (Robertson & Zaragoza 2009 without the constant factor k1 + 1):
`sum over question terms of ln(1 + (N - n + .5) / (n + .5)) * f / (f + k1 * (1 - b + b * length / mean length))`
with N passages, n of them holding the term, f its count in the passage. Higher is better; a passage that shares no
term is not found. See Kamphuis et al. 2020, "Which BM25 do you mean?", for the variants.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from data.passages import Passage, Passages
from retrieval.lexical.engines import ENGINES, Engine, Index, NothingFound
from retrieval.lexical.statistics import term_statistics
from retrieval.rankings import Rankings
from text.analyzers import Analyzer, analyze, choose
from text.tokens import tokens_of

_ANALYSIS = 0.9  # the share of analysis in all the work


@dataclass(frozen=True)
class BM25Options:
    """`k1` (0 or more) bounds what repetition adds, `b` (0 to 1) how much long passages are held back.

    The defaults are those of Anserini; `title` indexes the article title with the passage.
    """

    analyzer: Analyzer = Analyzer.AUTO
    k1: float = 0.9
    b: float = 0.4
    title: bool = True
    engine: Engine = Engine.POSTINGS

    def __post_init__(self) -> None:
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise ValueError(f"k1 must be 0 or more and b between 0 and 1, not k1={self.k1}, b={self.b}")


class BM25:
    """A BM25 index over passages; building it analyzes them (cached on disk), which `on_progress` is told of, 0 to 1.

    `memory_bytes` is the size of the index's weights, 0 where not known.
    """

    def __init__(
        self,
        name: str,
        passages: Sequence[Passage],
        options: BM25Options | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        self.name = name
        self.options = options or BM25Options()
        texts = Passages.of(passages).indexed_texts(title=self.options.title)
        self.analyzer = choose(self.options.analyzer, texts)
        self._n_passages = len(passages)
        analyze(self.analyzer, [""])  # loads what it needs now: with tokens from disk it would wait for a question
        tokens = tokens_of(self.analyzer, texts, on_progress and (lambda share: on_progress(_ANALYSIS * share)))
        # kept for explanations now: to read a million passages' tokens again takes the first of them a minute
        term_statistics(self.analyzer, texts, tokens)
        # no engine can index passages without a single token
        engine = ENGINES[self.options.engine] if len(tokens.ids) else NothingFound
        self._index: Index = engine(tokens, self.options.k1, self.options.b)
        self.memory_bytes = self._index.memory_bytes

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        """Return the best k passages of each question; scores are BM25, higher is better."""
        return self._index.search(tokens_of(self.analyzer, questions), k)

    def score_blocks(self, questions: Sequence[str]) -> Iterator[np.ndarray]:
        """Score every passage for some questions at a time: `(rows, n_passages)`, -inf where no term is shared."""
        return self._index.score_blocks(tokens_of(self.analyzer, questions))
