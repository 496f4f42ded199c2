"""What a transformer makes of words where they stand: the same word in several sentences, and where its heads look.

A word in several sentences is one point before the first layer, and a meaning each after the last. Its vector is the
mean of those of its pieces (as in Ethayarajh 2019, and in most probing work since). The kinds of heads are those that
Clark et al. 2019 (What does BERT look at?) tell heads by."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.labs.language.network import Network, Piece, composed

MOST_SENTENCES = 50
STATIC = -1  # the number of the layer before all others: the table of pieces


@dataclass(frozen=True)
class Occurrence:
    """A word where it stands in a sentence: from the letter `start` on, read as `pieces`.

    `letters` are those that the pieces stand for: more than the word's own where a piece is longer than the word.
    """

    sentence: str
    start: int
    pieces: tuple[str, ...]
    letters: str

    def is_glued(self, word: str) -> bool:
        """Whether its pieces hold more letters than the word's, so that its vector is of more than the word."""
        return self.letters != word


@dataclass(frozen=True)
class WordVectors:
    """A word's vectors by layer, one for each occurrence.

    `static` `(n, dimensions)` float32 are rows of the table of pieces: the same in every sentence where the pieces are.
    `layers` `(n_layers + 1, n, dimensions)` float32: 0 is what goes into the first layer, pieces with their positions.
    """

    word: str
    occurrences: tuple[Occurrence, ...]
    static: np.ndarray
    layers: np.ndarray

    @property
    def numbers(self) -> range:
        """Of the layers, `STATIC` first."""
        return range(STATIC, len(self.layers))

    def at(self, layer: int) -> np.ndarray:
        """The vectors of a layer, `(n, dimensions)` float32."""
        return np.asarray(self.static if layer == STATIC else self.layers[layer])

    def cosines(self, layer: int) -> np.ndarray:
        """Cosine of every two occurrences in a layer, `(n, n)` float64 in -1 to 1."""
        points = _unit(self.at(layer))
        return np.asarray(np.clip(points @ points.T, -1, 1))

    def likeness(self, layer: int) -> float:
        """Mean cosine of two different occurrences in a layer; NaN of a single one."""
        n = len(self.occurrences)
        return float((self.cosines(layer).sum() - n) / (n * (n - 1))) if n > 1 else float("nan")


@dataclass(frozen=True)
class Plane:
    """Points `(n, 2)` float64 on the two main directions, and the shares of the variance these hold, `(2,)`."""

    points: np.ndarray
    explained: np.ndarray


def words_in_context(network: Network, word: str, sentences: Sequence[str]) -> WordVectors:
    """Find a word by its letters in sentences, each time it occurs, and return its vectors there.

    Raises `LanguageError`: `no_word`, `no_sentence`, `many_sentences`, `word_not_found` in a sentence, and `word_cut`
    where it stands behind the last token that the model reads.
    """
    word, sentences = composed(word), [text for text in map(composed, sentences) if text]
    if not word:
        raise LanguageError("no_word", "type the word whose meaning is compared")
    if not sentences:
        raise LanguageError("no_sentence", f"type sentences that hold {word!r}")
    if len(sentences) > MOST_SENTENCES:
        message = f"{len(sentences)} sentences were given, {MOST_SENTENCES} are read at most"
        raise LanguageError("many_sentences", message, most=MOST_SENTENCES)
    for sentence in sentences:
        if word not in sentence:
            message = f"{word!r} is not in the sentence {sentence[:80]!r}"
            raise LanguageError("word_not_found", message, word=word, sentence=sentence[:200])
    occurrences, static, layers = [], [], []
    for sentence in sentences:
        pieces = network.pieces(sentence)
        table, states = network.static_vectors(sentence), network.hidden_states(sentence)
        for start in (found.start() for found in re.finditer(re.escape(word), sentence)):
            end = start + len(word)
            places = [at for at, one in enumerate(pieces) if not one.special and one.start < end and one.end > start]
            if not places:
                message = f"{word!r} stands behind the first {network.longest} tokens of {sentence[:80]!r}"
                raise LanguageError("word_cut", message, word=word, sentence=sentence[:200], most=network.longest)
            letters = sentence[pieces[places[0]].start : pieces[places[-1]].end]
            occurrences.append(Occurrence(sentence, start, tuple(pieces[at].text for at in places), letters))
            static.append(table[places].mean(axis=0))
            layers.append(states[:, places].mean(axis=1))
    return WordVectors(word, tuple(occurrences), np.stack(static), np.stack(layers, axis=1))


def plane(vectors: np.ndarray) -> Plane:
    """Bring vectors `(n, dimensions)`, made of length 1, onto their two main directions: PCA by SVD.

    The largest coordinate of either direction is positive. Vectors that are all alike are one point, explained by none.
    """
    points = _unit(vectors)
    points = points - points.mean(axis=0)
    sides, strengths, _ = np.linalg.svd(points, full_matrices=False)
    strengths = np.where(strengths > 1e-6, strengths, 0)  # rounding is no direction
    found = np.zeros((len(vectors), 2))
    wide = min(2, len(strengths))
    found[:, :wide] = (sides * strengths)[:, :wide]
    largest = found[np.abs(found).argmax(axis=0), [0, 1]]
    variances = np.zeros(2)
    variances[:wide] = strengths[:wide] ** 2
    return Plane(found * np.where(largest < 0, -1, 1), variances / ((strengths**2).sum() or 1.0))


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1))


class Target(StrEnum):
    """What a piece may look at. A piece can be several of them: the one before may be of the same word."""

    PREVIOUS = "previous"
    NEXT = "next"
    ITSELF = "itself"
    SPECIAL = "special"  # what the tokenizer adds: [CLS] and [SEP]
    SAME_WORD = "same_word"  # another piece of the same word, the words being separated by spaces


@dataclass(frozen=True)
class SentenceAttention:
    """How much each piece looks at each: `weights[layer, head, from, to]` float32, whose sum over `to` is 1."""

    pieces: tuple[Piece, ...]
    weights: np.ndarray


@dataclass(frozen=True)
class Heads:
    """How much of its attention each head gives each `Target`, `shares` `(n_layers, n_heads, 5)` float64, 0 to 1.

    Averaged over the pieces that have such a target, those that the tokenizer adds left out as givers; NaN where no
    piece has one. `even` `(5,)` is what a head would give that looks at all pieces alike.
    """

    shares: np.ndarray
    even: np.ndarray


def attention_of(network: Network, sentence: str) -> SentenceAttention:
    """Return the attention of all heads over a sentence. Raises `LanguageError`: `no_sentence`."""
    import torch

    sentence = composed(sentence)
    if not sentence:
        raise LanguageError("no_sentence", "type a sentence")
    with torch.inference_mode():
        told = network.model(**network.features([sentence]), output_attentions=True)
        weights = np.stack([layer[0].float().cpu().numpy() for layer in told.attentions])
    return SentenceAttention(tuple(network.pieces(sentence)), weights)


def heads_of(found: Sequence[SentenceAttention]) -> Heads:
    """Tell heads by what they look at, over the pieces of all these sentences, each piece counting the same."""
    layers, heads = found[0].weights.shape[:2]
    given, even, givers = np.zeros((layers, heads, len(Target))), np.zeros(len(Target)), np.zeros(len(Target))
    for one in found:
        targets = targets_of(one.pieces)
        given += np.einsum("lhij,tij->lht", one.weights, targets, dtype=np.float64)
        even += targets.sum(axis=(1, 2)) / len(one.pieces)
        givers += targets.any(axis=2).sum(axis=1)
    counts = np.where(givers > 0, givers, np.nan)
    return Heads(given / counts, even / counts)


def targets_of(pieces: Sequence[Piece]) -> np.ndarray:
    """Which pieces are which target of which, `[target, from, to]`, `(5, n, n)` bool; added pieces give to none."""
    n = len(pieces)
    words = np.array([one.word for one in pieces], dtype=np.int64)
    added = words < 0
    itself = np.eye(n, dtype=bool)
    by_target = {
        Target.PREVIOUS: np.eye(n, k=-1, dtype=bool),
        Target.NEXT: np.eye(n, k=1, dtype=bool),
        Target.ITSELF: itself,
        Target.SPECIAL: np.tile(added, (n, 1)),
        Target.SAME_WORD: (words[:, None] == words) & ~itself,
    }
    return np.asarray(np.stack([by_target[target] for target in Target]) & ~added[:, None])
