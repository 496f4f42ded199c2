"""A learned mix: how much each retriever counts is learned in seconds from questions whose passages are known.

A retriever is a signal of two values for a passage of a question: its z-score in the retriever's list (see `hybrid`),
and how far its score lies below the best of that list, in usual deviations of this retriever's lists: the one compares
within the question, the other tells a clear best from one among many. A passage's score is the weighted sum of all
values, higher is better. The weights w make the relevant passages of the questions that teach likely among their
candidates: they minimise

    sum over questions of the mean over relevant passages p of -log softmax(w . x)[p]  +  _STRENGTH * |w - t * w0|^2

with the softmax over the candidates (a listwise loss, Cao et al. 2007), w0 the untrained mix and t the factor by which
it alone explains the questions best. So few questions leave the mix as it is untrained, and many decide (Bruch, Gai &
Ingber 2023 find that a mix of two needs few). It is convex: there is one best w. Trees over the same values
(LambdaMART, Burges 2010) ranked no better where they were tried, on KorQuAD's questions, and do not say why.

A model that was trained on some of these questions knows their answers, and would be trusted too much for them: they
teach how the other signals count, and the others alone how far to go from there with all of them, in the same way.

No question is ranked by weights that saw it: the questions that teach are in folds by groups of their passages, and
those of a fold are ranked by weights that the other folds taught.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import FiniteFloat
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax
from typing_extensions import TypedDict

from data.records import composed
from data.split.folds import FOLDS, Lessons
from retrieval.evaluation.measures import CUT, evaluate, hits_of
from retrieval.hybrid import Fusion, fused, normalised
from retrieval.rankings import NOT_FOUND, Rankings, Retriever, ranked

_VALUES = 2  # of a passage, by each signal
_STRENGTH = 10.0  # of the pull to the untrained mix, in questions
_CANDIDATES = 50  # a question, that teach: what lies below the untrained mix's first tells little
_STEEPEST = 100.0  # the largest factor of the untrained mix
_AT_ONCE = 1000  # questions that are ranked at a time
_EXPLAINING = 1000  # questions on which it is looked up what each signal brings


class SignalTold(TypedDict):
    """What is told of a signal, see `told`."""

    share: FiniteFloat
    brings: FiniteFloat


@dataclass(frozen=True)
class Learned:
    """What was learned; `n` signals have `_VALUES * n` weights, one signal's after the other's.

    `weights` `(FOLDS + 1, _VALUES * n)` are those of each fold, taught by the others, and last those that all questions
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
    where that are fewer than `depth`: of a reranker, those it read. `notes` tell what was learned, see `told`.
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
                self.notes = told(rankings, self._learned, self._lessons, [part.name for part in self._parts])
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
    """Learn from what each signal found for the questions of the lessons. A copy of a signal before it is left out.

    If all signals are copies of one, there is nothing to weigh: the mix ranks as that signal does.
    """
    distinct = _distinct(rankings)
    own = [half if new else None for half, new in zip(halves, distinct, strict=True)]
    sizes = Counter(half for half in own if half)  # parts count the same, and so do the signals of a part
    shares = np.array([1.0 / (len(sizes) * sizes[half]) if half else 0.0 for half in own])
    untrained = np.zeros((len(rankings), _VALUES))
    untrained[:, 0] = shares
    start = untrained.ravel()
    found = Learned(
        np.tile(start, (FOLDS + 1, 1)),
        shares,
        np.array([_usual_deviation(one) for one in rankings]),
        np.array(trained or [False] * len(rankings)),
    )
    if lessons.texts and distinct.sum() > 1:
        lists = _Lists.of(rankings, found, lessons, n_passages)
        free = np.repeat(distinct, _VALUES)
        found.weights[:] = [lists.taught(lessons.folds != fold, start, free) for fold in range(FOLDS + 1)]
    return found


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


def told(rankings: Sequence[Rankings], learned: Learned, lessons: Lessons, names: Sequence[str]) -> dict[str, Any]:
    """Tell, JSON-able, how many `questions` taught, and of each of the `signals`, by name, `share` and `brings`.

    `leaks`, if any, are the questions that share a relevant passage with a question of another fold.

    A share is that of what the scores of a question's candidates differ by, 0 to 1, all together 1; of questions that
    no model was trained on, where there are some. `brings` is by how
    much nDCG@10 of the questions that teach falls where the signal is left out and the others are taught anew, each
    question ranked by weights that did not see it. Of many questions some are drawn for that.
    """
    drawn = np.sort(np.random.default_rng(0).permutation(len(lessons.texts))[:_EXPLAINING])
    some = [Rankings(one.indices[drawn], one.scores[drawn]) for one in rankings]
    few = lessons.some(drawn)
    n_passages = len(lessons.question_set.passages)
    lists = _Lists.of(some, learned, few, n_passages)
    start, free = np.zeros((len(names), _VALUES)), np.repeat(_distinct(rankings), _VALUES)
    start[:, 0] = learned.shares
    parts = (lists.values * learned.weights[FOLDS]).reshape(*lists.values.shape[:2], len(names), _VALUES).sum(axis=3)
    parts = parts if few.known.all() else parts[~few.known]
    spread = np.sqrt(((parts - parts.mean(axis=1, keepdims=True)) ** 2).mean(axis=(0, 1)))
    spread /= spread.sum() or 1.0  # of a single passage no score differs
    reached = lists.reached(start.ravel(), free)
    signals: dict[str, SignalTold] = {}
    for row, name in enumerate(names):
        without, kept = start.copy(), free.copy().reshape(-1, _VALUES)
        without[row], kept[row] = 0.0, False
        brings = reached - lists.reached(without.ravel(), kept.ravel())
        signals[name] = {"share": float(spread[row]), "brings": float(brings)}
    leaks = {"leaks": lessons.leaks} if lessons.leaks else {}
    return {"questions": len(lessons.texts), **leaks, "signals": signals}


@dataclass(frozen=True)
class _Lists:
    """Candidates of the questions that teach, best of the untrained mix first.

    `indices` are rows of the corpus, `(n_questions, n)`, -1 where there is none, `values` `(n_questions, n, n_values)`
    what the signals say, `relevant` `(n_questions, n)` bool, and `trained` `(n_values,)` bool what trained models say.
    """

    lessons: Lessons
    indices: np.ndarray
    values: np.ndarray
    relevant: np.ndarray
    trained: np.ndarray

    @classmethod
    def of(cls, rankings: Sequence[Rankings], learned: Learned, lessons: Lessons, n_passages: int) -> "_Lists":
        indices = _candidates(rankings, learned.shares, n_passages, _CANDIDATES)
        values = _values(rankings, indices, learned.deviations, n_passages)
        relevant = hits_of(Rankings(indices, np.zeros(indices.shape)), lessons.question_set)
        return cls(lessons, indices, values, relevant, np.repeat(learned.trained, _VALUES))

    def taught(self, rows: np.ndarray, start: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Return the weights `(n_values,)` that the questions teach that `rows` `(n_questions,)` bool tells.

        `start` is the untrained mix; weights that are not `free` are 0. What models were trained on teaches nothing of
        what they say, only where the others begin.
        """
        others = np.where(self.trained, 0.0, start)
        if self.trained.any() and others.any():
            start = self._fitted(rows, others, free & ~self.trained)
        return self._fitted(rows & ~self.lessons.known, start, free)

    def _fitted(self, rows: np.ndarray, start: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Return the best weights `(n_values,)` for the questions of `rows`, pulled to `start`."""
        asked = rows & self.relevant.any(axis=1) & (~self.relevant & (self.indices != NOT_FOUND)).any(axis=1)
        if not asked.any():
            return start
        there, shape = self.indices[asked] != NOT_FOUND, self.indices[asked].shape
        values = self.values[asked][:, :, free].reshape(-1, int(free.sum()))  # a row a candidate: products of matrices
        wanted = self.relevant[asked] / self.relevant[asked].sum(axis=1, keepdims=True)

        def likelihoods(weights: np.ndarray) -> tuple[float, np.ndarray]:
            """The sum over questions of -log, and the likelihood of each candidate, `shape`."""
            told = log_softmax(np.where(there, (values @ weights).reshape(shape), -np.inf), axis=1)
            return -float((wanted * np.where(there, told, 0.0)).sum()), np.exp(told)

        def loss_at(factor: float) -> float:
            return likelihoods(factor * start[free])[0]

        untrained = start[free] * minimize_scalar(loss_at, bounds=(0.0, _STEEPEST), method="bounded").x

        def penalised(weights: np.ndarray) -> tuple[float, np.ndarray]:
            loss, chance = likelihoods(weights)
            off = weights - untrained
            slope = values.T @ (chance - wanted).ravel()
            return loss + _STRENGTH * float(off @ off), slope + 2 * _STRENGTH * off

        def curvature(weights: np.ndarray) -> np.ndarray:
            chance = likelihoods(weights)[1]
            weighed = values * chance.reshape(-1, 1)
            means = weighed.reshape(*shape, -1).sum(axis=1)
            return np.asarray(values.T @ weighed - means.T @ means + 2 * _STRENGTH * np.eye(len(weights)))

        found = np.zeros(len(start))
        found[free] = minimize(penalised, untrained, jac=True, hess=curvature, method="trust-exact").x
        return found

    def reached(self, start: np.ndarray, free: np.ndarray) -> float:
        """Return nDCG@10, 0 to 1, where the questions of each fold are ranked by what the others taught.

        Of questions that no model was trained on; 0 where there is none, and where no signal is left.
        """
        new = np.flatnonzero(~self.lessons.known)
        if not len(new) or not free.any():
            return 0.0
        folds = self.lessons.folds
        weights = np.stack([self.taught(folds != fold, start, free) for fold in range(FOLDS)])[folds[new]]
        scores = np.einsum("qcv,qv->qc", self.values[new], weights)
        asked = self.lessons.question_set.with_questions(new)
        return evaluate(ranked(self.indices[new], scores, CUT), asked, (CUT,)).means()[f"ndcg@{CUT}"]


def _candidates(rankings: Sequence[Rankings], shares: np.ndarray, n_passages: int, n: int) -> np.ndarray:
    return fused(rankings, n_passages, Fusion.Z_SCORE, shares.tolist(), n).indices


def _values(
    rankings: Sequence[Rankings], candidates: np.ndarray, deviations: np.ndarray, n_passages: int
) -> np.ndarray:
    """Return what each signal says of candidates `(n_questions, n)`, `(n_questions, n, n_values)` float64.

    Of a passage that is not in its list a signal says what it says of the last in it.
    """
    told = np.zeros((*candidates.shape, len(rankings), _VALUES))
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


def _distinct(rankings: Sequence[Rankings]) -> np.ndarray:
    """Whether each signal says another thing than all before it, up to a factor, `(n_signals,)` bool."""
    scores = [normalised(one, Fusion.Z_SCORE)[0] for one in rankings]

    def same(one: int, other: int) -> bool:
        if not np.array_equal(rankings[one].indices, rankings[other].indices) or not len(rankings[one].indices):
            return False
        return np.allclose(scores[one], scores[other], atol=1e-4, equal_nan=True)

    return np.array([not any(same(before, row) for before in range(row)) for row in range(len(rankings))])
