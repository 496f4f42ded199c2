"""Layers of a transformer: the best layer and pooling, a word's vectors in several sentences, and attention heads.

Layers are evaluated on scored pairs, or on questions that search passages by cosine. A word's vector is the mean of
its tokens' vectors (Ethayarajh 2019). Attention targets follow Clark et al. 2019 (What does BERT look at?).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.stats import spearmanr

from mrc_workbench.data.pairs import PairKind, PairSet
from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.labs.language.network import SentenceToken, TransformerModel, normalize_text

OnProgress = Callable[[float], None]
_ROUNDING = 1e-6  # cosines that differ by less are equal
_PAIR_BATCH_SIZE = 16
_MIN_PAIRS = 3  # two pairs always correlate perfectly
MAX_QUESTIONS = 200
MAX_PASSAGES = 300
_MIN_QUESTIONS = 2
_TEXT_BATCH_SIZE = 8  # keeps all layers of passages of 512 tokens
MAX_SENTENCES = 50
STATIC = -1  # the layer number of the embedding table


class PoolingMode(StrEnum):
    """How a sentence's tokens, special ones included, become one vector, as in sentence-transformers."""

    MEAN = "mean"
    CLS = "cls"  # the first token
    MAX = "max"  # the largest value of each dimension


def pooled_vectors(network: TransformerModel, sentences: Sequence[str]) -> np.ndarray:
    """Return unit vectors by layer and `PoolingMode`, `(n_layers + 1, 3, n_sentences, dimensions)` float64."""
    import torch

    features = network.features(sentences)
    mask = features["attention_mask"][..., None].bool()
    layers = []
    with torch.inference_mode():
        for state in network.model(**features, output_hidden_states=True).hidden_states:
            mean = state.masked_fill(~mask, 0).sum(dim=1) / mask.sum(dim=1)
            largest = state.masked_fill(~mask, float("-inf")).amax(dim=1)
            layers.append([pooled.double().cpu().numpy() for pooled in (mean, state[:, 0], largest)])
    vectors = np.stack(layers)
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12))


def best_layer(scores: np.ndarray) -> tuple[int, PoolingMode]:
    """Return the layer and pooling of the highest score `(n_layers + 1, 3)`. Raises `ValueError` if all are NaN."""
    layer, pooling = np.unravel_index(np.nanargmax(scores), scores.shape)
    return int(layer), list(PoolingMode)[pooling]


@dataclass(frozen=True)
class LayerScores:
    """Spearman's correlation of cosines and gold scores, `(n_layers + 1, 3)` float64 by layer and `PoolingMode`.

    NaN if all cosines are equal, as for [CLS] before the first layer. Layer 0 is the input of the first layer.
    """

    spearman: np.ndarray
    pairs: int


def score_layers(network: TransformerModel, pairs: PairSet, on_progress: OnProgress | None = None) -> LayerScores:
    """Evaluate every layer and pooling on scored pairs, in batches.

    Memory does not grow with the model's width. Raises `LanguageError`: `no_scores`, `few_pairs`.
    """
    if pairs.kind is not PairKind.SCORED:
        raise LanguageError("no_scores", f"{pairs.name!r} has no scores: use scored pairs")
    if len(pairs) < _MIN_PAIRS:
        message = f"{len(pairs)} pairs are too few, {_MIN_PAIRS} are needed"
        raise LanguageError("few_pairs", message, least=_MIN_PAIRS)
    first, second = ([str(text) for text in column] for column in pairs.texts)
    order = sorted(range(len(pairs)), key=lambda row: -len(first[row]) - len(second[row]))
    parts = []
    for start in range(0, len(order), _PAIR_BATCH_SIZE):
        rows = order[start : start + _PAIR_BATCH_SIZE]
        vectors = pooled_vectors(network, [first[row] for row in rows] + [second[row] for row in rows])
        parts.append(np.einsum("lpnd,lpnd->lpn", vectors[:, :, : len(rows)], vectors[:, :, len(rows) :]))
        if on_progress:
            on_progress((start + len(rows)) / len(order))
    cosines = np.concatenate(parts, axis=2)
    gold = pairs.gold[order]

    def spearman(cosines: np.ndarray) -> float:
        return float(spearmanr(cosines, gold).statistic) if np.ptp(cosines) >= _ROUNDING else np.nan

    return LayerScores(np.array([[spearman(values) for values in layer] for layer in cosines]), len(pairs))


@dataclass(frozen=True)
class LayerSearch:
    """nDCG@10 of every question by layer and `PoolingMode`, `(n_layers + 1, 3, n_questions)` float64, 0 to 1.

    NaN if all vectors are equal, as for [CLS] before the first layer. Layer 0 is the input of the first layer.
    """

    ndcg: np.ndarray
    question_set: QuestionSet

    @property
    def means(self) -> np.ndarray:
        return np.asarray(self.ndcg.mean(axis=2))


def sample_questions(question_set: QuestionSet, rows: np.ndarray, seed: int = 0) -> QuestionSet:
    """Sample at most `MAX_QUESTIONS` at `rows`, their relevant passages, and other passages up to `MAX_PASSAGES`.

    Shuffles the passages. Raises `LanguageError` `few_questions`.
    """
    rng = np.random.default_rng(seed)
    question_rows: list[int] = []
    passages: set[int] = set()
    for row in rng.permutation(np.intersect1d(rows, question_set.answerable)).tolist():
        relevant_rows = set(question_set.relevance[[row]].indices.tolist())
        if len(passages | relevant_rows) <= MAX_PASSAGES:
            question_rows.append(row)
            passages |= relevant_rows
        if len(question_rows) == MAX_QUESTIONS:
            break
    if len(question_rows) < _MIN_QUESTIONS:
        message = f"{question_set.name!r} has {len(question_rows)} usable questions, {_MIN_QUESTIONS} are needed"
        raise LanguageError("few_questions", message, least=_MIN_QUESTIONS)
    others = [row for row in rng.permutation(len(question_set.passages)).tolist() if row not in passages]
    passage_rows = rng.permutation([*sorted(passages), *others[: MAX_PASSAGES - len(passages)]]).tolist()
    questions = tuple(question_set.questions[row] for row in question_rows)
    corpus = Passages.from_passages(question_set.passages[row] for row in passage_rows)
    return QuestionSet(question_set.name, corpus, questions)


def search_with_layers(
    network: TransformerModel,
    question_set: QuestionSet,
    prompts: tuple[str, str] = ("", ""),
    on_progress: OnProgress | None = None,
) -> LayerSearch:
    """Search passages, with their titles, by every layer and pooling; encodes each text once, in batches.

    `prompts` are the prefixes of questions and passages. Memory holds the float32 vectors of all layers.
    """
    before_question, before_passage = prompts
    texts = [before_question + question.text for question in question_set.questions]
    texts += [before_passage + text for text in question_set.passages.indexed_texts(title=True)]
    vectors = _encode_with_layers(network, texts, on_progress)
    relevant = question_set.relevance.toarray()

    def score_layer(vectors: np.ndarray) -> np.ndarray:
        cosines = vectors[: len(relevant)] @ vectors[len(relevant) :].T
        return np.full(len(cosines), np.nan) if np.ptp(cosines) < _ROUNDING else ndcg(cosines, relevant)

    return LayerSearch(np.array([[score_layer(pooled) for pooled in layer] for layer in vectors]), question_set)


def ndcg(scores: np.ndarray, relevant: np.ndarray, k: int = 10) -> np.ndarray:
    """Return nDCG@k of every question, `(n_questions,)` float64, from scores and bool `(n_questions, n_passages)`.

    The sum of 1 / log2(1 + rank) over the relevant passages in the top k, divided by its maximum (Järvelin &
    Kekäläinen 2002, binary relevance). Ties are in the order of the passages.
    """
    k = min(k, scores.shape[1])
    first = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    gains = 1 / np.log2(2 + np.arange(k))
    reached = np.take_along_axis(relevant, first, axis=1) @ gains
    return np.asarray(reached / np.cumsum(gains)[np.minimum(relevant.sum(axis=1), k) - 1])


def _encode_with_layers(network: TransformerModel, texts: Sequence[str], on_progress: OnProgress | None) -> np.ndarray:
    """Return vectors by layer and pooling, `(n_layers + 1, 3, n_texts, dimensions)` float32."""
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    total = sum(map(len, texts))
    done = 0
    encoded = np.zeros(0)
    for start in range(0, len(order), _TEXT_BATCH_SIZE):
        rows = order[start : start + _TEXT_BATCH_SIZE]
        vectors = pooled_vectors(network, [texts[row] for row in rows])
        if not encoded.size:
            encoded = np.empty((*vectors.shape[:2], len(texts), vectors.shape[3]), dtype=np.float32)
        encoded[:, :, rows] = vectors
        done += sum(len(texts[row]) for row in rows)
        if on_progress:
            on_progress(done / max(1, total))
    return encoded


@dataclass(frozen=True)
class Occurrence:
    """A word in a sentence from character `start`, with its tokens.

    `covered_text` is the text of the tokens, longer than the word if a token is.
    """

    sentence: str
    start: int
    pieces: tuple[str, ...]
    covered_text: str


@dataclass(frozen=True)
class WordVectors:
    """A word's vectors by layer, one for each of n occurrences.

    `static` `(n, dimensions)` float32 are from the embedding table. `layers` `(n_layers + 1, n, dimensions)` float32:
    layer 0 is the input of the first layer, with positions.
    """

    word: str
    occurrences: tuple[Occurrence, ...]
    static: np.ndarray
    layers: np.ndarray

    @property
    def layer_numbers(self) -> range:
        return range(STATIC, len(self.layers))

    def layer_vectors(self, layer: int) -> np.ndarray:
        """Return the vectors of a layer, `(n, dimensions)` float32."""
        return np.asarray(self.static if layer == STATIC else self.layers[layer])

    def cosines(self, layer: int) -> np.ndarray:
        """Return the cosines of all occurrences in a layer, `(n, n)` float64."""
        points = _normalize_rows(self.layer_vectors(layer))
        return np.asarray(np.clip(points @ points.T, -1, 1))

    def mean_cosine(self, layer: int) -> float:
        """Return the mean cosine of different occurrences in a layer; NaN for a single one."""
        n = len(self.occurrences)
        return float((self.cosines(layer).sum() - n) / (n * (n - 1))) if n > 1 else float("nan")


@dataclass(frozen=True)
class PlaneProjection:
    """Points `(n, 2)` float64 on the first two principal components, and their fractions of variance `(2,)`."""

    points: np.ndarray
    explained: np.ndarray


def words_in_context(network: TransformerModel, word: str, sentences: Sequence[str]) -> WordVectors:
    """Find every occurrence of a word in sentences, and return its vectors there.

    Raises `LanguageError`: `no_word`, `no_sentence`, `many_sentences`, `word_not_found` in a sentence, and `word_cut`
    if it is after the last token that the model reads.
    """
    word = normalize_text(word)
    sentences = [text for text in map(normalize_text, sentences) if text]
    if not word:
        raise LanguageError("no_word", "type a word")
    if not sentences:
        raise LanguageError("no_sentence", f"type sentences with {word!r}")
    if len(sentences) > MAX_SENTENCES:
        message = f"{len(sentences)} sentences are too many, the limit is {MAX_SENTENCES}"
        raise LanguageError("many_sentences", message, most=MAX_SENTENCES)
    for sentence in sentences:
        if word not in sentence:
            message = f"{word!r} is not in the sentence {sentence[:80]!r}"
            raise LanguageError("word_not_found", message, word=word, sentence=sentence[:200])
    occurrences = []
    static = []
    layers = []
    for sentence in sentences:
        pieces = network.pieces(sentence)
        table = network.static_vectors(sentence)
        states = network.hidden_states(sentence)
        for start in (match.start() for match in re.finditer(re.escape(word), sentence)):
            end = start + len(word)
            indices = [index for index, piece in enumerate(pieces) if piece.overlaps(start, end)]
            if not indices:
                message = f"{word!r} is after the first {network.max_tokens} tokens of {sentence[:80]!r}"
                raise LanguageError("word_cut", message, word=word, sentence=sentence[:200], most=network.max_tokens)
            covered_text = sentence[pieces[indices[0]].start : pieces[indices[-1]].end]
            tokens = tuple(pieces[index].text for index in indices)
            occurrences.append(Occurrence(sentence, start, tokens, covered_text))
            static.append(table[indices].mean(axis=0))
            layers.append(states[:, indices].mean(axis=1))
    return WordVectors(word, tuple(occurrences), np.stack(static), np.stack(layers, axis=1))


def project_to_plane(vectors: np.ndarray) -> PlaneProjection:
    """Project vectors `(n, dimensions)`, scaled to length 1, to their first two principal components by SVD.

    The largest coordinate of each component is positive. Equal vectors are one point with 0 variance.
    """
    points = _normalize_rows(vectors)
    points = points - points.mean(axis=0)
    left_vectors, singular_values, _ = np.linalg.svd(points, full_matrices=False)
    singular_values = np.where(singular_values > 1e-6, singular_values, 0)  # rounding
    coordinates = np.zeros((len(vectors), 2))
    n_axes = min(2, len(singular_values))
    coordinates[:, :n_axes] = (left_vectors * singular_values)[:, :n_axes]
    largest = coordinates[np.abs(coordinates).argmax(axis=0), [0, 1]]
    variances = np.zeros(2)
    variances[:n_axes] = singular_values[:n_axes] ** 2
    return PlaneProjection(coordinates * np.where(largest < 0, -1, 1), variances / ((singular_values**2).sum() or 1.0))


def _normalize_rows(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1))


class AttentionTarget(StrEnum):
    """Tokens that a token attends to. They overlap: the previous token may be of the same word."""

    PREVIOUS = "previous"
    NEXT = "next"
    ITSELF = "itself"
    SPECIAL = "special"  # [CLS] and [SEP]
    SAME_WORD = "same_word"  # another token of the same word; spaces separate words


@dataclass(frozen=True)
class SentenceAttention:
    """Attention weights between tokens, `weights[layer, head, from, to]` float32; they sum to 1 over `to`."""

    pieces: tuple[SentenceToken, ...]
    weights: np.ndarray


@dataclass(frozen=True)
class HeadAttention:
    """The fraction of attention of each head to each `AttentionTarget`, `(n_layers, n_heads, 5)` float64, 0 to 1.

    Means over the ordinary tokens that have such a target; NaN without any. `uniform` `(5,)` are the fractions of
    uniform attention.
    """

    fractions: np.ndarray
    uniform: np.ndarray


def sentence_attention(network: TransformerModel, sentence: str) -> SentenceAttention:
    """Return the attention of all heads over a sentence. Raises `LanguageError`: `no_sentence`."""
    import torch

    sentence = normalize_text(sentence)
    if not sentence:
        raise LanguageError("no_sentence", "type a sentence")
    with torch.inference_mode():
        output = network.model(**network.features([sentence]), output_attentions=True)
        weights = np.stack([layer[0].float().cpu().numpy() for layer in output.attentions])
    return SentenceAttention(tuple(network.pieces(sentence)), weights)


def attention_by_head(sentences: Sequence[SentenceAttention]) -> HeadAttention:
    """Return the mean attention of each head to each target over the tokens of these sentences."""
    n_layers, n_heads = sentences[0].weights.shape[:2]
    attention = np.zeros((n_layers, n_heads, len(AttentionTarget)))
    uniform = np.zeros(len(AttentionTarget))
    n_sources = np.zeros(len(AttentionTarget))
    for sentence in sentences:
        targets = target_masks(sentence.pieces)
        attention += np.einsum("lhij,tij->lht", sentence.weights, targets, dtype=np.float64)
        uniform += targets.sum(axis=(1, 2)) / len(sentence.pieces)
        n_sources += targets.any(axis=2).sum(axis=1)
    counts = np.where(n_sources > 0, n_sources, np.nan)
    return HeadAttention(attention / counts, uniform / counts)


def target_masks(pieces: Sequence[SentenceToken]) -> np.ndarray:
    """Return whether token `to` is a target of token `from`, `[target, from, to]`, `(5, n, n)` bool."""
    n = len(pieces)
    words = np.array([piece.word for piece in pieces], dtype=np.int64)
    is_special = words < 0
    itself = np.eye(n, dtype=bool)
    by_target = {
        AttentionTarget.PREVIOUS: np.eye(n, k=-1, dtype=bool),
        AttentionTarget.NEXT: np.eye(n, k=1, dtype=bool),
        AttentionTarget.ITSELF: itself,
        AttentionTarget.SPECIAL: np.tile(is_special, (n, 1)),
        AttentionTarget.SAME_WORD: (words[:, None] == words) & ~itself,
    }
    return np.asarray(np.stack([by_target[target] for target in AttentionTarget]) & ~is_special[:, None])
