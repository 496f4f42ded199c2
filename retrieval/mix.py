"""A learned mix: how much each retriever counts is learned in seconds from questions whose passages are known.

A retriever is a signal of two values for a passage of a query: its z-score in the retriever's list (see `hybrid`), and
how far its score lies below the best of that list, in usual deviations of this retriever's lists: the first compares
within the query, the second tells a clear best from one among many. A passage's score is the weighted sum of all
values, higher is better. `mix_fitting` learns the weights: with few training queries the mix stays near the untrained
mix, with many it learns more (Bruch, Gai & Ingber 2023 find that a mix of two needs few).
Trees over the same values (LambdaMART, Burges 2010) ranked no better where they were tried, on KorQuAD's questions,
and explain less.

A model that was trained on some of these queries knows their answers and would be trusted too much for them: they teach
how the other signals count, and the remaining queries alone how far to go from there with all of them, in the same way.

No query is ranked by weights that saw it: the training queries are in folds by groups of their passages, and those of a
fold are ranked by weights learned from the other folds.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import FiniteFloat
from typing_extensions import TypedDict

from mrc_workbench.data.records import composed
from mrc_workbench.data.split.partition import FOLDS, Lessons
from mrc_workbench.retrieval.evaluation.measures import hits_of
from mrc_workbench.retrieval.hybrid import Fusion, fused, normalised
from mrc_workbench.retrieval.mix_fitting import VALUES, TrainingLists
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, Retriever, ranked

_CANDIDATES = 50  # a question, that teach: what lies below the untrained mix's first tells little
_AT_ONCE = 1000  # questions that are ranked at a time
_EXPLAINING = 1000  # questions on which it is looked up what each signal brings


class SignalTold(TypedDict):
    """What is told of a signal, see `explained`."""

    share: FiniteFloat
    brings: FiniteFloat


@dataclass(frozen=True)
class Learned:
    """What was learned; `n` signals have `VALUES * n` weights, one signal's after the other's.

    `weights` `(FOLDS + 1, VALUES * n)` are those of each fold, taught by the others, and last those that all questions
    taught. `shares` `(n,)` are the untrained mix, and `deviations` `(n,)` the unit of each signal's gaps;
    `trained` `(n,)` bool are the signals of models that know the answers to some questions of the lessons.
    """

    weights: np.ndarray
    shares: np.ndarray
    deviations: np.ndarray
    trained: np.ndarray


class LearnedMix:
    """The first `depth` passages of each retriever, ordered by the mix that `lessons` taught; see the module.

    `halves` name for each retriever the part of the untrained mix that it belongs to: parts count the same, and so do
    the retrievers of a part. One that belongs to none, None, counts only where that was learned. The untrained mix
    picks the candidates, and is the mix itself where nothing taught. `trained` are those whose models know the answers
    to the lessons' `known` questions. `depths` are how many of each retriever's first passages its scores tell of,
    where that are fewer than `depth`: of a reranker, those it read. `notes` tell what was learned, see `explained`.
    """

    def __init__(
        self,
        name: str,
        parts: Sequence[Retriever],
        lessons: Lessons,
        *,
        n_passages: int,
        halves: Sequence[str | None],
        trained: Sequence[bool] = (),
        depth: int = 100,
        depths: Sequence[int] = (),
    ) -> None:
        if not any(halves):
            raise ValueError("a mix needs a retriever that counts before anything is learned")
        self.name = name
        self._parts, self._lessons, self._halves = parts, lessons, halves
        self._trained = trained or [False] * len(parts)
        self._n_passages, self._depth = n_passages, depth
        self._depths = depths or [depth] * len(parts)
        self._learned: Learned | None = None
        self.notes: dict[str, Any] = {}

    def make_ready(self, questions: Sequence[str]) -> None:
        """Learn, the first time, whatever is to be asked."""
        del questions
        _ = self.learned

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        asked = zip(self._parts, self._depths, strict=True)
        learned, rankings = self.learned, [part.search(questions, self._depth).first(depth) for part, depth in asked]
        folds = np.array([self._lessons.fold_of.get(composed(text), FOLDS) for text in questions], dtype=np.int64)
        return mixed(rankings, learned, folds, self._n_passages, k)

    @property
    def learned(self) -> Learned:
        """What the lessons teach, learned when it is first asked for."""
        if self._learned is None:
            asked = zip(self._parts, self._trained, self._depths, strict=True)
            rankings = [self._taught_by(part, is_trained).first(depth) for part, is_trained, depth in asked]
            self._learned = learn(rankings, self._lessons, self._halves, self._n_passages, self._trained)
            if self._lessons.texts:
                self.notes = explained(rankings, self._learned, self._lessons, [part.name for part in self._parts])
        return self._learned

    def _taught_by(self, part: Retriever, is_trained: bool) -> Rankings:
        """What a signal finds for the questions that teach; of one that was trained on some, only for the others."""
        lessons = self._lessons
        if not (is_trained and lessons.known.any()):
            return part.search(lessons.texts, self._depth)
        of_all = Rankings.of_nothing(len(lessons.texts), min(self._depth, self._n_passages))
        if len(new := np.flatnonzero(~lessons.known)):
            found = part.search([lessons.texts[row] for row in new], self._depth)
            of_all.indices[new], of_all.scores[new] = found.indices, found.scores
        return of_all


def learn(
    rankings: Sequence[Rankings],
    lessons: Lessons,
    halves: Sequence[str | None],
    n_passages: int,
    trained: Sequence[bool] = (),
) -> Learned:
    """Learn from what each signal found for the training queries. A copy of a signal before it is left out.

    If all signals are copies of one, there is nothing to weigh: the mix ranks as that signal does.
    """
    originals = _originals(rankings)
    distinct = originals == np.arange(len(rankings))
    shares = _untrained_shares(halves, originals)
    start = np.zeros((len(rankings), VALUES))
    start[:, 0] = shares
    learned = Learned(
        np.tile(start.ravel(), (FOLDS + 1, 1)),
        shares,
        np.array([_usual_deviation(signal) for signal in rankings]),
        np.array(trained or [False] * len(rankings)),
    )
    if lessons.texts and distinct.sum() > 1:
        lists = training_lists(rankings, learned, lessons, n_passages)
        learned.weights[:] = lists.averaged(start.ravel(), np.repeat(distinct, VALUES))
    return learned


def _untrained_shares(halves: Sequence[str | None], originals: np.ndarray) -> np.ndarray:
    """Return how much each signal counts before anything is learned, `(n_signals,)` of sum 1; a copy counts nothing.

    Parts count the same, and so do the signals of a part. If no signal but a copy belongs to a part, its original does.
    """
    own = [
        half if original == row else None for row, (half, original) in enumerate(zip(halves, originals, strict=True))
    ]
    if not any(own):
        for half, original in zip(halves, originals.tolist(), strict=True):
            own[original] = own[original] or half
    sizes = Counter(half for half in own if half)
    return np.array([1.0 / (len(sizes) * sizes[half]) if half else 0.0 for half in own])


def mixed(rankings: Sequence[Rankings], learned: Learned, folds: np.ndarray, n_passages: int, k: int) -> Rankings:
    """Order the candidates of each question by the weights of its fold, `(n_questions,)`; `FOLDS` of one that is new.

    The candidates are the best of the untrained mix, as many as the longest list of a signal has, or k.
    """
    candidates = _candidates(rankings, learned.shares, n_passages, max(k, *(one.indices.shape[1] for one in rankings)))
    scores = np.full(candidates.shape, -np.inf)
    for first in range(0, len(candidates), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        lists = [Rankings(one.indices[some], one.scores[some]) for one in rankings]
        values = _values(lists, candidates[some], learned.deviations, n_passages)
        scores[some] = np.einsum("qcv,qv->qc", values, learned.weights[folds[some]])
    return ranked(candidates, scores, min(k, n_passages))


def explained(rankings: Sequence[Rankings], learned: Learned, lessons: Lessons, names: Sequence[str]) -> dict[str, Any]:
    """Describe a mix, JSON-able: the number of training `questions`, and of the `signals`, by name, `share`, `brings`.

    `leaks`, if any, are the queries that share a relevant passage with a query of another fold.

    A share is that of what the scores of a query's candidates differ by, 0 to 1, all together 1; of queries that no
    model was trained on, if there are some. `brings` is by how much nDCG@10 of the training queries falls if the signal
    is left out and the others are fitted anew, each query ranked by weights that did not see it. It compares single
    fits of the usual strength. Of many queries some are drawn for that.
    """
    drawn = np.sort(np.random.default_rng(0).permutation(len(lessons.texts))[:_EXPLAINING])
    some = [Rankings(signal.indices[drawn], signal.scores[drawn]) for signal in rankings]
    few = lessons.some(drawn)
    lists = training_lists(some, learned, few, len(lessons.question_set.passages))
    start, free = np.zeros((len(names), VALUES)), np.repeat(_originals(rankings) == np.arange(len(names)), VALUES)
    start[:, 0] = learned.shares
    values = (lists.values * learned.weights[FOLDS]).reshape(*lists.values.shape[:2], len(names), VALUES).sum(axis=3)
    values = values if few.known.all() else values[~few.known]
    spread = np.sqrt(((values - values.mean(axis=1, keepdims=True)) ** 2).mean(axis=(0, 1)))
    spread /= spread.sum() or 1.0  # of a single passage no score differs
    reached = _held_out_ndcg(lists, start.ravel(), free)
    signals: dict[str, SignalTold] = {}
    for row, name in enumerate(names):
        without, others = start.copy(), free.copy().reshape(-1, VALUES)
        without[row], others[row] = 0.0, False
        brings = reached - _held_out_ndcg(lists, without.ravel(), others.ravel())
        signals[name] = {"share": float(spread[row]), "brings": float(brings)}
    leaks = {"leaks": lessons.leaks} if lessons.leaks else {}
    return {"questions": len(lessons.texts), **leaks, "signals": signals}


def _held_out_ndcg(lists: TrainingLists, start: np.ndarray, free: np.ndarray) -> float:
    """Return nDCG@10, 0 to 1, of a single fit, each fold ranked by weights of the others; 0 if no signal is left."""
    if not free.any():
        return 0.0
    folds = lists.lessons.folds
    return lists.ndcg({fold: lists.fits(folds != fold, start, free)[0] for fold in range(FOLDS)})


def training_lists(rankings: Sequence[Rankings], learned: Learned, lessons: Lessons, n_passages: int) -> TrainingLists:
    """Return the candidates of the training queries, those that the untrained mix ranks first."""
    indices = _candidates(rankings, learned.shares, n_passages, _CANDIDATES)
    values = _values(rankings, indices, learned.deviations, n_passages)
    relevant = hits_of(Rankings(indices, np.zeros(indices.shape)), lessons.question_set)
    return TrainingLists(lessons, indices, values, relevant, np.repeat(learned.trained, VALUES))


def _candidates(rankings: Sequence[Rankings], shares: np.ndarray, n_passages: int, n: int) -> np.ndarray:
    return fused(rankings, n_passages, Fusion.Z_SCORE, shares.tolist(), n).indices


def _values(
    rankings: Sequence[Rankings], candidates: np.ndarray, deviations: np.ndarray, n_passages: int
) -> np.ndarray:
    """Return what each signal says of candidates `(n_questions, n)`, `(n_questions, n, n_values)` float64.

    Of a passage that is not in its list a signal says what it says of the last in it.
    """
    told = np.zeros((*candidates.shape, len(rankings), VALUES))
    rows = np.arange(len(candidates), dtype=np.int64)[:, None] * n_passages
    wanted = rows + candidates
    for signal, (one, deviation) in enumerate(zip(rankings, deviations, strict=True)):
        scores, absent = normalised(one, Fusion.Z_SCORE)
        gaps = _gaps(one) / deviation
        furthest = np.where(np.isnan(gaps).all(axis=1), 0.0, np.fmin.reduce(gaps, axis=1, initial=0.0))
        found = one.indices != NOT_FOUND
        codes = (rows + one.indices)[found]
        order = np.argsort(codes)
        places = np.minimum(np.searchsorted(codes, wanted, sorter=order), len(codes) - 1)
        there = (codes[order[places]] == wanted) if len(codes) else np.zeros(candidates.shape, dtype=bool)
        for value, (of_list, of_none) in enumerate(((scores, absent), (gaps, furthest))):
            told[:, :, signal, value] = of_none[:, None]
            told[there, signal, value] = of_list[found][order[places[there]]]
    return told.reshape(*candidates.shape, -1)


def _gaps(rankings: Rankings) -> np.ndarray:
    """How far each score lies from the best of its list, 0 or less, NaN where nothing was found."""
    scores = np.where(rankings.indices != NOT_FOUND, rankings.scores, np.nan).astype(np.float64)
    return np.asarray(scores - scores[:, :1]) if scores.shape[1] else scores


def _usual_deviation(rankings: Rankings) -> float:
    """The standard deviation of scores within a list, the root of the mean of squares over lists; 1 where it is 0."""
    gaps = np.ma.masked_invalid(_gaps(rankings))
    variances = gaps.var(axis=1).compressed() if gaps.size else np.zeros(0)
    return float(np.sqrt(variances.mean())) or 1.0 if len(variances) else 1.0


def _originals(rankings: Sequence[Rankings]) -> np.ndarray:
    """Return for each signal the first that has the same lists and, up to a factor, scores, `(n_signals,)` int64."""
    scores = [normalised(signal, Fusion.Z_SCORE)[0] for signal in rankings]

    def is_same(row: int, other: int) -> bool:
        if row == other:
            return True
        if not np.array_equal(rankings[row].indices, rankings[other].indices) or not len(rankings[row].indices):
            return False
        return np.allclose(scores[row], scores[other], atol=1e-4, equal_nan=True)

    return np.array([next(other for other in range(row + 1) if is_same(row, other)) for row in range(len(rankings))])
