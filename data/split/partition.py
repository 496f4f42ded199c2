"""Partitions of questions that share few relevant passages, for datasets that cannot be divided by groups.

All functions take `relevance`, a boolean matrix `(n_questions, n_passages)` of which every row holds a passage, and
return positions of its rows.
"""

import heapq
from itertools import count as count_from

import numpy as np
from scipy.sparse import block_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components


def draw_groups(groups: np.ndarray, wanted: int, order: np.ndarray) -> np.ndarray:
    """Return the groups, taken in `order`, that together hold nearly `wanted` of the questions.

    `groups` `(n_questions,)` numbers the group of each question. A group twice as large as wanted is passed over.
    """
    sizes = np.bincount(groups, minlength=int(order.max(initial=-1)) + 1)
    fitting = order[(sizes[order] > 0) & (sizes[order] <= 2 * wanted)]
    middles = np.cumsum(sizes[fitting]) - sizes[fitting] / 2
    drawn: np.ndarray = fitting[middles <= wanted]
    return drawn


def shared_questions(relevance: csr_array, first: np.ndarray, second: np.ndarray) -> int:
    """Count the questions of `first` that share a relevant passage with a question of `second`."""
    is_of_second = np.zeros(relevance.shape[1], dtype=bool)
    is_of_second[relevance[second].indices] = True
    return int((relevance[first].astype(np.int32) @ is_of_second.astype(np.int32) > 0).sum())


def least_shared(relevance: csr_array, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Return `wanted` questions that share few relevant passages with the others, ascending.

    Whole components of questions linked by passages come first, in drawn order. The rest grows within the largest
    component that is left, from its edge: each step takes the question that brings the fewest new neighbours, which is
    the greedy heuristic for a small vertex separator.
    """
    n_questions = relevance.shape[0]
    wanted = min(wanted, n_questions)
    components = connected_components(_bipartite(relevance), directed=False)[1][:n_questions]
    sizes = np.bincount(components)
    taken: list[np.ndarray] = []
    n_taken = 0
    is_free = sizes > 0
    for component in rng.permutation(len(sizes)):
        if is_free[component] and n_taken + sizes[component] <= wanted:
            is_free[component] = False
            taken.append(np.flatnonzero(components == component))
            n_taken += int(sizes[component])
    if n_taken < wanted:
        rows = np.flatnonzero(components == np.argmax(np.where(is_free, sizes, 0)))
        taken.append(rows[_grow(relevance[rows], wanted - n_taken, rng)])
    return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *taken]))


def _bipartite(relevance: csr_array) -> csr_array:
    """Return the graph of questions (first) and passages (after them), `(n_questions + n_passages,)` square."""
    edges = relevance.astype(np.int8)
    return block_array([[None, edges], [edges.T, None]], format="csr")


def _edge(relevance: csr_array, rng: np.random.Generator) -> int:
    """Return a question far from the middle of a connected graph: the last one that two breadth-first walks reach."""
    graph, n_questions = _bipartite(relevance), relevance.shape[0]
    question = int(rng.integers(n_questions))
    for _ in range(2):
        walked = breadth_first_order(graph, question, directed=False, return_predecessors=False)
        question = int(walked[walked < n_questions][-1])
    return question


def _grow(relevance: csr_array, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Return `wanted` questions of a connected graph, grown from its edge with as few neighbours as possible."""
    passages_of = np.split(relevance.indices, relevance.indptr[1:-1])
    by_passage = relevance.T.tocsr()
    questions_of = np.split(by_passage.indices, by_passage.indptr[1:-1])
    is_inside = np.zeros(relevance.shape[0], dtype=bool)
    is_neighbour = np.zeros(relevance.shape[0], dtype=bool)
    is_touched = np.zeros(relevance.shape[1], dtype=bool)  # passages of questions inside
    n_outside = np.diff(by_passage.indptr)  # questions of each passage that are neither inside nor neighbours

    def new_neighbours(question: int) -> int:
        passages = passages_of[question]
        return int(n_outside[passages[~is_touched[passages]]].sum())

    start = _edge(relevance, rng)
    is_neighbour[start] = True
    n_outside[passages_of[start]] -= 1
    age = count_from()
    queue = [(0, next(age), start)]  # a stale entry overstates its cost: later entries of the question come first
    grown: list[int] = []
    while len(grown) < wanted and queue:
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
            heapq.heappush(queue, (new_neighbours(other), next(age), other))
    return np.array(grown, dtype=np.int64)
