"""Which layer makes the best vectors, and pooled how: judged by pairs that people scored, or by questions.

A question is encoded as a passage is, and finds the passages of the highest cosine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from mrc_workbench.data.pairs import PairKind, PairSet
from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.labs.language.network import Network


class Pooling(StrEnum):
    """How a sentence's pieces become one vector; those that the tokenizer adds count, as in sentence-transformers."""

    MEAN = "mean"
    CLS = "cls"  # the first piece
    MAX = "max"  # the largest value of each dimension


def points(network: Network, sentences: Sequence[str]) -> np.ndarray:
    """Return vectors of length 1 by layer and `Pooling`, `(n_layers + 1, 3, n_sentences, dimensions)` float64.

    Layer 0 is what goes into the first.
    """
    import torch

    features = network.features(sentences)
    mask = features["attention_mask"][..., None].bool()
    with torch.inference_mode():
        states = network.model(**features, output_hidden_states=True).hidden_states
        vectors = np.stack([[one.double().cpu().numpy() for one in _pool(state, mask)] for state in states])
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12))


def _pool(state: Any, mask: Any) -> tuple[Any, Any, Any]:
    """In the order of `Pooling`; `state` `(n, width, dimensions)`, `mask` `(n, width, 1)`."""
    mean = state.masked_fill(~mask, 0).sum(dim=1) / mask.sum(dim=1)
    return mean, state[:, 0], state.masked_fill(~mask, float("-inf")).amax(dim=1)


def best_way(figures: np.ndarray) -> tuple[int, Pooling]:
    """The layer and pooling of the highest figure, `(n_layers + 1, 3)`. Raises `ValueError` where none is a number."""
    layer, pooling = np.unravel_index(np.nanargmax(figures), figures.shape)
    return int(layer), list(Pooling)[pooling]


_PAIRS_AT_ONCE = 16
_LEAST_PAIRS = 3  # pairs: of two, every order is perfect


@dataclass(frozen=True)
class LayerScores:
    """Spearman's correlation of cosine and people's score, `(n_layers + 1, 3)` float64 by layer and `Pooling`.

    -1 to 1, higher is better; layer 0 is what goes into the first. NaN where all cosines are the same: what the first
    piece is before it saw the others.
    """

    spearman: np.ndarray
    pairs: int

    @property
    def best(self) -> tuple[int, Pooling]:
        return best_way(self.spearman)


def layer_scores(network: Network, pairs: PairSet, on_progress: Callable[[float], None] | None = None) -> LayerScores:
    """Measure every layer and pooling over pairs with scores, a few pairs at a time.

    Only cosines are kept, so memory does not grow with the model's width. Raises `LanguageError`: `no_scores` of pairs
    that nobody scored, `few_pairs`.
    """
    if pairs.kind is not PairKind.SCORED:
        raise LanguageError("no_scores", f"{pairs.name!r} has no scores: take pairs that people scored")
    if len(pairs) < _LEAST_PAIRS:
        raise LanguageError(
            "few_pairs", f"{len(pairs)} pairs are too few, {_LEAST_PAIRS} are needed", least=_LEAST_PAIRS
        )
    first, second = ([str(text) for text in column] for column in pairs.texts)
    order = sorted(range(len(pairs)), key=lambda row: -len(first[row]) - len(second[row]))
    parts = []
    for at in range(0, len(order), _PAIRS_AT_ONCE):
        rows = order[at : at + _PAIRS_AT_ONCE]
        every = points(network, [first[row] for row in rows] + [second[row] for row in rows])
        parts.append(np.einsum("lpnd,lpnd->lpn", every[:, :, : len(rows)], every[:, :, len(rows) :]))
        if on_progress:
            on_progress((at + len(rows)) / len(order))
    cosines = np.concatenate(parts, axis=2)
    gold = pairs.gold[order]

    def spearman(cosines: np.ndarray) -> float:
        return float(spearmanr(cosines, gold).statistic) if np.ptp(cosines) >= 1e-6 else np.nan  # rounding is no order

    return LayerScores(np.array([[spearman(one) for one in of_layer] for of_layer in cosines]), len(pairs))


MOST_QUESTIONS, MOST_PASSAGES = 200, 300
_LEAST_QUESTIONS = 2  # questions
_AT_ONCE = 8  # texts: of a passage of 512 pieces, all layers are held


@dataclass(frozen=True)
class LayerSearch:
    """nDCG@10 of every question by layer and `Pooling`, `(n_layers + 1, 3, n_questions)` float64, 0 to 1.

    Layer 0 is what goes into the first. NaN where all vectors are the same: what the first piece is before it saw the
    others. `searched` are the questions, and the passages each found its own among.
    """

    ndcg: np.ndarray
    searched: QuestionSet

    @property
    def means(self) -> np.ndarray:
        """Over the questions, `(n_layers + 1, 3)`."""
        return np.asarray(self.ndcg.mean(axis=2))

    @property
    def best(self) -> tuple[int, Pooling]:
        return best_way(self.means)


def drawn(question_set: QuestionSet, rows: np.ndarray, seed: int = 0) -> QuestionSet:
    """Return some of the questions at `rows`, all passages that are relevant to them, and others up to a number.

    At most `MOST_QUESTIONS` of `MOST_PASSAGES`, the passages in an order by chance, the same for a seed. Raises
    `LanguageError` `few_questions`.
    """
    rng = np.random.default_rng(seed)
    asked: list[int] = []
    passages: set[int] = set()
    relevance = question_set.relevance
    for row in rng.permutation(np.intersect1d(rows, question_set.answerable)).tolist():
        own = relevance.indices[relevance.indptr[row] : relevance.indptr[row + 1]].tolist()
        if len(passages | {*own}) <= MOST_PASSAGES:
            asked.append(row)
            passages |= {*own}
        if len(asked) == MOST_QUESTIONS:
            break
    if len(asked) < _LEAST_QUESTIONS:
        message = f"{question_set.name!r} has {len(asked)} questions to measure with, {_LEAST_QUESTIONS} are needed"
        raise LanguageError("few_questions", message, least=_LEAST_QUESTIONS)
    others = [row for row in rng.permutation(len(question_set.passages)).tolist() if row not in passages]
    kept = rng.permutation([*sorted(passages), *others[: MOST_PASSAGES - len(passages)]]).tolist()
    questions = tuple(question_set.questions[row] for row in asked)
    searched = Passages.of(question_set.passages[row] for row in kept)
    return QuestionSet(question_set.name, searched, questions)


def layer_search(
    network: Network,
    searched: QuestionSet,
    prompts: tuple[str, str] = ("", ""),
    on_progress: Callable[[float], None] | None = None,
) -> LayerSearch:
    """Search with every layer and pooling, each text encoded once, a few at a time; passages with their titles.

    `prompts` stand before a question, and before a passage. Vectors of all layers are kept in float32 until all are
    there, so memory grows with the texts: `drawn` bounds them.
    """
    before_question, before_passage = prompts
    texts = [before_question + question.text for question in searched.questions]
    texts += [before_passage + text for text in searched.passages.indexed_texts(title=True)]
    vectors = _encoded(network, texts, on_progress)
    relevant = searched.relevance.toarray()

    def figures(vectors: np.ndarray) -> np.ndarray:
        asked, found = np.split(vectors, [len(relevant)])
        cosines = asked @ found.T
        if np.ptp(cosines) < 1e-6:  # rounding is no order
            return np.full(len(asked), np.nan)
        return ndcg(cosines, relevant)

    return LayerSearch(np.array([[figures(pooled) for pooled in layer] for layer in vectors]), searched)


def ndcg(scores: np.ndarray, relevant: np.ndarray, k: int = 10) -> np.ndarray:
    """Return nDCG@k of every question, `(n_questions,)` float64, from scores and bool `(n_questions, n_passages)`.

    The sum of 1 / log2(1 + rank) over the relevant passages among the first k, over its highest value (Järvelin &
    Kekäläinen 2002, binary). Of equal scores, the first passage is the first.
    """
    k = min(k, scores.shape[1])
    first = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    gains = 1 / np.log2(2 + np.arange(k))
    reached = np.take_along_axis(relevant, first, axis=1) @ gains
    return np.asarray(reached / np.cumsum(gains)[np.minimum(relevant.sum(axis=1), k) - 1])


def _encoded(network: Network, texts: Sequence[str], on_progress: Callable[[float], None] | None) -> np.ndarray:
    """By layer and pooling, `(n_layers + 1, 3, n_texts, dimensions)` float32."""
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    total, done = sum(map(len, texts)), 0
    found = np.zeros(0)
    for at in range(0, len(order), _AT_ONCE):
        rows = order[at : at + _AT_ONCE]
        vectors = points(network, [texts[row] for row in rows])
        if not found.size:
            found = np.empty((*vectors.shape[:2], len(texts), vectors.shape[3]), dtype=np.float32)
        found[:, :, rows] = vectors
        done += sum(len(texts[row]) for row in rows)
        if on_progress:
            on_progress(done / max(1, total))
    return found
