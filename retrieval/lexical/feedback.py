"""Pseudo-relevance feedback (RM3): a question is asked again with the words of the passages that it finds first.

The passages found first are taken to be relevant, whatever they are. Their language, a distribution over terms that
counts a passage by its score, is a model of what was asked for; its best terms are mixed with the question's own.
Lavrenko & Croft 2001, "Relevance-based language models"; Abdul-Jaleel et al. 2004, "UMass at TREC 2004", for the
mixture.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, diags_array

from retrieval.lexical.weights import TermStatistics, counts_by_term
from retrieval.rankings import NOT_FOUND, Rankings
from text.analysis import Analysis, TokenKind, Tokens, analyze, reading
from text.analyzers import Analyzer

QUESTIONS = 512  # asked again at a time: of their first passages the tokens are held in memory
_COMMON = 0.1  # a term of more passages than this share tells none of them apart, and is not added
_TIE = 12  # digits: sums that differ in later ones are the same sum made in another order


class Weighed(NamedTuple):
    """Questions as terms, and how much each of them counts, `(n_tokens,)` float32."""

    tokens: Tokens
    factors: np.ndarray


@dataclass(frozen=True)
class FeedbackOptions:
    """How many `passages` are taken to be relevant, how many of their `terms` are asked, and these terms' `share`.

    The defaults are those of Anserini.
    """

    passages: int = 10
    terms: int = 10
    share: float = 0.5

    def __post_init__(self) -> None:
        if self.passages < 1 or self.terms < 1 or not 0 <= self.share <= 1:
            raise ValueError(
                "feedback is of 1 or more passages and 1 or more terms, with a share between 0 and 1, not "
                f"{self.passages}, {self.terms} and {self.share}"
            )


class Feedback:
    """Asks questions again over passages of these texts, whose terms `statistics` counts.

    A term weighs `(1 - share) * count + share * n * P(term | R)`, n being the question's tokens: RM3 times n, which
    ranks the same and leaves scores as large as those of BM25. With the passages' weights `P(D)`, their scores parted
    by the sum of these, `P(term | R)` is `sum over D of P(D) * count in D / length of D`, of the best terms alone,
    divided by what these sum to; ties by term. Where there are none, a question stays as it is.

    Counts and lengths are of the terms that may be added: those of a tenth of the passages or fewer (or of one), as in
    Anserini, and of morphemes where there are such, since two letters alone say nothing. Anserini also takes the best
    terms of each passage only; the papers do not, and neither does this.
    """

    def __init__(
        self, options: FeedbackOptions, analysis: Analysis, texts: Sequence[str], statistics: TermStatistics
    ) -> None:
        self.options = options
        self._analysis, self._texts, self._statistics = analysis, texts, statistics

    def asked_again(self, questions: Sequence[Sequence[str]], first: Rankings) -> Weighed:
        """Return analyzed questions with their new weights, no term twice in one; `first` is what they find first."""
        is_found = first.indices != NOT_FOUND
        rows, places = np.unique(first.indices[is_found], return_inverse=True)
        documents = [*questions, *self.tokens(rows.tolist())]
        numbers, terms = pd.factorize(np.array([token for tokens in documents for token in tokens], dtype=object))
        offsets = np.cumsum([0, *map(len, documents)])
        counts = counts_by_term(numbers, offsets, len(terms))
        own, held = counts[: len(questions)], counts[len(questions) :]
        allowed = _distributions(held @ diags_array(self._may_be_added(terms.tolist())))
        by_question = first.scores[is_found].astype(np.float64), places, np.cumsum([0, *is_found.sum(axis=1)])
        of_passages = _distributions(csr_array(by_question, shape=(len(questions), len(rows))))
        relevance = csr_array(of_passages @ allowed)
        model = _distributions(_best(relevance, np.argsort(np.argsort(terms)), self.options.terms))
        shares = np.where(np.diff(model.indptr) > 0, self.options.share, 0.0)
        mixed = csr_array(diags_array(1 - shares) @ own + diags_array(shares * own.sum(axis=1)) @ model)
        mixed.eliminate_zeros()
        tokens = Tokens(terms.tolist(), mixed.indices.astype(np.int32), mixed.indptr.astype(np.int64))
        return Weighed(tokens, mixed.data.astype(np.float32))

    def tokens(self, rows: Sequence[int]) -> list[list[str]]:
        return analyze(self._analysis, [self._texts[row] for row in rows])

    def _may_be_added(self, terms: Sequence[str]) -> np.ndarray:
        """Whether each term may be added, `(n_terms,)`, 1 or 0."""
        places = self._statistics.places_of(terms)
        holders, known = np.zeros(len(terms), dtype=np.int64), places >= 0
        holders[known] = self._statistics.holders[places[known]]
        rare = (holders > 0) & (holders <= max(1, _COMMON * self._statistics.n_passages))
        if self._analysis.analyzer is Analyzer.KIWI_BIGRAM:
            rare &= [reading(self._analysis, term)[1] is not TokenKind.LETTERS for term in terms]
        return rare.astype(np.float64)


def _distributions(counts: csr_array) -> csr_array:
    """Divide every row by its sum; one of nothing stays so."""
    counts = csr_array(counts)
    counts.eliminate_zeros()
    sums = counts.sum(axis=1)
    return csr_array(diags_array(1 / np.where(sums > 0, sums, 1)) @ counts)


def _best(weights: csr_array, order: np.ndarray, n_terms: int) -> csr_array:
    """Keep the highest weights of every row, ties by the `order` of the columns."""
    rows = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    places = np.lexsort((order[weights.indices], -weights.data.round(_TIE), rows))
    kept = places[np.arange(len(places)) - weights.indptr[rows[places]] < n_terms]
    return csr_array((weights.data[kept], (rows[kept], weights.indices[kept])), shape=weights.shape)
