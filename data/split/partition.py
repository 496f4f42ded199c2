"""Groups of passages, partitions of questions that share few relevant passages, and the folds of cross-validation.

`relevance` is a boolean matrix `(n_questions, n_passages)` with at least one passage in every row.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count as count_from

import numpy as np
import pyarrow.compute as pc
from scipy.sparse import block_array, coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from mrc_workbench.data.records import QuestionSet, composed

MIN_QUESTIONS = 20  # of a part: metrics of fewer questions are too uncertain
FOLDS = 5


def select_groups(groups: np.ndarray, target_count: int, order: np.ndarray) -> np.ndarray:
    """Return the first groups in `order` with about `target_count` questions; groups over twice this are skipped."""
    sizes = np.bincount(groups, minlength=int(order.max(initial=-1)) + 1)
    fitting = order[(sizes[order] > 0) & (sizes[order] <= 2 * target_count)]
    middles = np.cumsum(sizes[fitting]) - sizes[fitting] / 2
    return np.asarray(fitting[middles <= target_count])


def count_shared_questions(relevance: csr_array, first: np.ndarray, second: np.ndarray) -> int:
    """Count the questions of `first` that share a relevant passage with a question of `second`."""
    is_of_second = np.zeros(relevance.shape[1], dtype=bool)
    is_of_second[relevance[second].indices] = True
    return int((relevance[first].astype(np.int32) @ is_of_second.astype(np.int32) > 0).sum())


def select_least_shared(relevance: csr_array, target_count: int, rng: np.random.Generator) -> np.ndarray:
    """Return `target_count` questions that share few relevant passages with the others, ascending.

    Whole components of linked questions come first, in random order. The rest grows within the largest remaining
    component, from its edge, by the question with the fewest new neighbours (greedy small vertex separator).
    """
    n_questions = relevance.shape[0]
    target_count = min(target_count, n_questions)
    components = connected_components(_bipartite(relevance), directed=False)[1][:n_questions]
    sizes = np.bincount(components)
    taken: list[np.ndarray] = []
    n_taken = 0
    is_free = sizes > 0
    for component in rng.permutation(len(sizes)):
        if is_free[component] and n_taken + sizes[component] <= target_count:
            is_free[component] = False
            taken.append(np.flatnonzero(components == component))
            n_taken += int(sizes[component])
    if n_taken < target_count:
        rows = np.flatnonzero(components == np.argmax(np.where(is_free, sizes, 0)))
        taken.append(rows[_grow(relevance[rows], target_count - n_taken, rng)])
    return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *taken]))


def _bipartite(relevance: csr_array) -> csr_array:
    edges = relevance.astype(np.int8)
    return block_array([[None, edges], [edges.T, None]], format="csr")


def _grow(relevance: csr_array, target_count: int, rng: np.random.Generator) -> np.ndarray:
    """Return `target_count` questions of a connected graph, grown from its edge with as few neighbours as possible."""
    passages_of = np.split(relevance.indices, relevance.indptr[1:-1])
    by_passage = relevance.T.tocsr()
    questions_of = np.split(by_passage.indices, by_passage.indptr[1:-1])
    is_inside = np.zeros(relevance.shape[0], dtype=bool)
    is_neighbour = np.zeros(relevance.shape[0], dtype=bool)
    is_touched = np.zeros(relevance.shape[1], dtype=bool)  # passages of questions inside
    n_outside = np.diff(by_passage.indptr)  # questions of each passage that are neither inside nor neighbours

    graph = _bipartite(relevance)
    start = int(rng.integers(relevance.shape[0]))
    for _ in range(2):  # the last question of two breadth-first walks is far from the centre
        walked = breadth_first_order(graph, start, directed=False, return_predecessors=False)
        start = int(walked[walked < relevance.shape[0]][-1])
    is_neighbour[start] = True
    n_outside[passages_of[start]] -= 1
    age = count_from()
    queue = [(0, next(age), start)]  # a stale entry overstates its cost, so newer entries of the question come first
    grown: list[int] = []
    while len(grown) < target_count and queue:
        _, _, question = heapq.heappop(queue)
        if is_inside[question]:
            continue
        is_inside[question] = True
        grown.append(question)
        passages = passages_of[question]
        reached = passages[~is_touched[passages]]
        is_touched[reached] = True
        neighbours = [int(other) for passage in reached for other in questions_of[passage] if not is_inside[other]]
        for other in neighbours:
            if not is_neighbour[other]:
                is_neighbour[other] = True
                n_outside[passages_of[other]] -= 1
        for other in dict.fromkeys(neighbours):
            untouched = passages_of[other][~is_touched[passages_of[other]]]
            heapq.heappush(queue, (int(n_outside[untouched].sum()), next(age), other))
    return np.array(grown, dtype=np.int64)


def min_questions(target_count: int) -> int:
    """Return the minimal size of a part with a proportional size of `target_count` questions."""
    return MIN_QUESTIONS if target_count >= MIN_QUESTIONS else target_count // 2


def linked_passages(relevance: csr_array) -> np.ndarray:
    """Number the groups of passages that questions link, directly or through others, `(n_passages,)`."""
    sources = np.repeat(relevance.indices[relevance.indptr[:-1]], np.diff(relevance.indptr))
    return linked_groups(sources, relevance.indices, relevance.shape[1])


def linked_groups(sources: np.ndarray, targets: np.ndarray, count: int) -> np.ndarray:
    """Number the connected components of `count` nodes with edges from `sources` to `targets`, `(count,)`."""
    links = coo_array((np.ones(len(sources), dtype=np.int8), (sources, targets)), shape=(count, count))
    return np.asarray(connected_components(links, directed=False)[1])


def passage_groups(question_set: QuestionSet) -> np.ndarray:
    """Number the passages linked by titles or questions, `(n_passages,)` int32, in order of first appearance."""
    n = len(question_set.passages)
    titles = question_set.passages.titles
    number = np.asarray(titles.column.combine_chunks().dictionary_encode().indices)
    _, first_of_title = np.unique(number, return_index=True)
    is_known = np.asarray(pc.not_equal(titles.column, ""))
    same_title = np.where(is_known, first_of_title[number], np.arange(n))
    relevance = question_set.relevance
    lengths = np.diff(relevance.indptr)
    starts = np.repeat(relevance.indptr[:-1][lengths > 0], lengths[lengths > 0])
    sources = np.concatenate([np.arange(n), relevance.indices[starts]])
    labels = linked_groups(sources, np.concatenate([same_title, relevance.indices]), n)
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first)).astype(np.int32)[inverse]


@dataclass(frozen=True)
class TrainingQueries:
    """Questions with known relevant passages, and the fold of each, `(n_questions,)`, 0 to `FOLDS` - 1.

    Questions with equal texts, or with passages of the same group, share a fold. If groups leave too few questions
    outside a fold, folds share few passages, or questions are drawn one by one, as in `split`. `was_trained_on`
    `(n_questions,)` bool marks the training questions of the signals.
    """

    question_set: QuestionSet
    folds: np.ndarray
    was_trained_on: np.ndarray

    @classmethod
    def from_question_set(
        cls, question_set: QuestionSet, rows: np.ndarray, known: np.ndarray | None = None
    ) -> "TrainingQueries":
        """Use the answerable questions at `rows`; signals were trained on the questions at the rows `known`."""
        training_set = question_set.with_questions(rows)
        folds = _assign_folds(training_set) if len(rows) else np.zeros(0, dtype=np.int64)
        return cls(training_set, folds, np.isin(rows, [] if known is None else known))

    def select_rows(self, rows: np.ndarray) -> "TrainingQueries":
        return TrainingQueries(self.question_set.with_questions(rows), self.folds[rows], self.was_trained_on[rows])

    @cached_property
    def texts(self) -> list[str]:
        return [question.text for question in self.question_set.questions]

    @property
    def leaks(self) -> int:
        return _count_fold_leaks(self.question_set.relevance, self.folds)

    @cached_property
    def fold_by_text(self) -> Mapping[str, int]:
        return dict(zip(map(composed, self.texts), self.folds.tolist(), strict=True))


def _assign_folds(training_set: QuestionSet) -> np.ndarray:
    relevance = training_set.relevance
    n_questions = len(training_set.questions)
    first = relevance.indices[relevance.indptr[:-1]]
    groups = passage_groups(training_set)[first]
    if len(np.unique(groups)) < FOLDS:
        groups = linked_passages(relevance)[first]  # few articles: folds consist of passages
    folds = _assign_grouped_folds(groups)
    if n_questions - int(np.bincount(folds).max()) < min_questions(n_questions - n_questions // FOLDS):
        folds = _assign_ungrouped_folds(relevance)
    first_of_text: dict[str, int] = {}
    texts = [composed(question.text) for question in training_set.questions]
    return np.array([first_of_text.setdefault(text, int(fold)) for text, fold in zip(texts, folds, strict=True)])


def _assign_grouped_folds(groups: np.ndarray) -> np.ndarray:
    names, number, counts = np.unique(groups, return_inverse=True, return_counts=True)
    fold_of_group = np.zeros(len(names), dtype=np.int64)
    sizes = np.zeros(FOLDS, dtype=np.int64)
    for group in np.random.default_rng(0).permutation(len(names)):
        fold_of_group[group] = sizes.argmin()
        sizes[fold_of_group[group]] += counts[group]
    return np.asarray(fold_of_group[number])


def _assign_ungrouped_folds(relevance: csr_array) -> np.ndarray:
    """Return folds that share few passages, or random folds if these leak no more."""
    n_questions = relevance.shape[0]
    random_folds = np.zeros(n_questions, dtype=np.int64)
    random_folds[np.random.default_rng(0).permutation(n_questions)] = np.arange(n_questions) % FOLDS
    grown_folds = np.full(n_questions, FOLDS - 1, dtype=np.int64)
    left = np.arange(n_questions)
    rng = np.random.default_rng(0)
    for fold in range(FOLDS - 1):
        rows = left[select_least_shared(relevance[left], len(left) // (FOLDS - fold), rng)]
        grown_folds[rows] = fold
        left = np.setdiff1d(left, rows)
    leaks_less = _count_fold_leaks(relevance, grown_folds) < _count_fold_leaks(relevance, random_folds)
    return grown_folds if leaks_less else random_folds


def _count_fold_leaks(relevance: csr_array, folds: np.ndarray) -> int:
    inside = (np.flatnonzero(folds == fold) for fold in range(FOLDS))
    return sum(count_shared_questions(relevance, rows, np.setdiff1d(np.arange(len(folds)), rows)) for rows in inside)
