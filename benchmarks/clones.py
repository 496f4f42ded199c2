"""Analyzed passages and questions of any number, made of KorQuAD dev: its articles again and again, in other words.

A clone of an article holds its sentences, from any of them on, cut into passages anew, each under the title: words
stand together as people put them, passages that follow each other are of one article, and lengths are KorQuAD's. A
sentence of a clone takes its words from an earlier clone, any of them, and some are given names that stood nowhere
before. After r rounds of all articles the vocabulary is `V * r ** beta` (Heaps' law; beta between KorQuAD's first half
and all of it), and the rarer a word the sooner it is renamed: in inverse proportion to the articles that hold it, which
is what Good and Turing expect of KorQuAD's words (of those in 1, 2, 3, 4 articles 0.47, 0.22, 0.19, 0.14 are missing
from as much text again). So what stands in many articles stands in as large a share of a million passages; what stands
in few names a subject, which a few clones share and most do not."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.material import korquad
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.analysis import PART, Tokens, tokens_of
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.text.marking import sentence_spans


@dataclass(frozen=True)
class Articles:
    """Analyzed articles: pieces are their sentences, in order, and then their titles."""

    pieces: Tokens
    passage_article: np.ndarray  # (n_passages,), ascending
    passage_sentences: np.ndarray  # (n_passages,) how many
    questions: Tokens
    asked_sentence: np.ndarray  # (n_questions,) which holds the answer

    @cached_property
    def sentence_article(self) -> np.ndarray:
        """Article of each sentence, `(n_sentences,)`."""
        return np.repeat(self.passage_article, self.passage_sentences)

    @cached_property
    def sentence_share(self) -> np.ndarray:
        """Where in its article each sentence begins, from 0 to below 1, `(n_sentences,)`."""
        _, starts, sizes = np.unique(self.sentence_article, return_index=True, return_counts=True)
        return (np.arange(len(self.sentence_article)) - np.repeat(starts, sizes)) / np.repeat(sizes, sizes)

    @cached_property
    def passage_tokens(self) -> np.ndarray:
        """Tokens of each passage without its title, `(n_passages,)`."""
        ends = np.cumsum(self.passage_sentences)
        return np.diff(self.pieces.offsets[np.concatenate([[0], ends])])

    @cached_property
    def n_articles(self) -> int:
        """How many articles there are."""
        return int(self.passage_article[-1]) + 1

    def growth(self) -> float:
        """Return beta of Heaps' law, `vocabulary ~ tokens ** beta`, between the first half of the sentences and all."""
        n_sentences = len(self.sentence_article)
        ends = self.pieces.offsets[[n_sentences // 2, n_sentences]]
        half, whole = (len(np.unique(self.pieces.ids[:end])) for end in ends)
        return float(np.log(whole / half) / np.log(ends[1] / ends[0]))


def korquad_articles(analyzer: Analyzer = Analyzer.KIWI_BIGRAM) -> Articles:
    """Analyze KorQuAD dev sentence by sentence (kept in the workspace)."""
    return articles_of(read_file(korquad()).question_set, analyzer)


def articles_of(question_set: QuestionSet, analyzer: Analyzer) -> Articles:
    """Analyze a question set whose passages stand by article, sentence by sentence."""
    passages = question_set.passages
    spans = [sentence_spans(text) for text in passages.texts]
    sentences = [text[begin:end] for text, found in zip(passages.texts, spans, strict=True) for begin, end in found]
    number: dict[str, int] = {}
    of_passage = np.array([number.setdefault(passage.title, len(number)) for passage in passages])
    before = np.concatenate([[0], np.cumsum([len(found) for found in spans])])
    asked = []
    for question in question_set.questions:
        row = question_set.row_of_passage[question.relevant[0]]
        begin = question.starts[0] if question.starts else 0
        asked.append(before[row] + max(0, bisect_right([span[0] for span in spans[row]], begin) - 1))
    return Articles(
        tokens_of(analyzer, [*sentences, *number]),
        of_passage,
        np.diff(before),
        tokens_of(analyzer, [question.text for question in question_set.questions]),
        np.array(asked),
    )


_REMEMBERED = 128  # earlier clones of each article to take words from: a fair sample, whatever their number


@dataclass(frozen=True)
class Clones:
    """`tokens` of passages, `questions` in the same vocabulary, and the passage each is about, `(n_questions,)`."""

    tokens: Tokens
    questions: Tokens
    relevant: np.ndarray

    def parts(self, size: int = PART) -> Iterator[Tokens]:
        """Yield so many passages at a time, each part with a vocabulary of its own, as an analysis does."""
        for start in range(0, len(self.tokens), size):
            offsets = self.tokens.offsets[start : start + size + 1]
            ids = self.tokens.ids[offsets[0] : offsets[-1]]
            words = np.flatnonzero(np.bincount(ids))
            number = np.zeros(len(self.tokens.vocabulary), dtype=np.int32)
            number[words] = np.arange(len(words))
            yield Tokens([self.tokens.vocabulary[word] for word in words.tolist()], number[ids], offsets - offsets[0])

    def save(self, folder: Path) -> None:
        """Write everything into a folder, for `load`."""
        arrays = {"ids": self.tokens.ids, "offsets": self.tokens.offsets, "relevant": self.relevant}
        arrays |= {"asked_ids": self.questions.ids, "asked_offsets": self.questions.offsets}
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        (folder / "vocabulary.txt").write_text("\n".join(self.tokens.vocabulary), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "Clones":
        """Read what `save` wrote; the passages' tokens stay on the disk until they are asked for."""
        vocabulary = (folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
        passages = (np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in ("ids", "offsets"))
        questions = (np.load(folder / f"{name}.npy") for name in ("asked_ids", "asked_offsets"))
        return cls(Tokens(vocabulary, *passages), Tokens(vocabulary, *questions), np.load(folder / "relevant.npy"))


def cloned(source: Articles, n_passages: int, seed: int = 0) -> Clones:
    """Return so many passages, as many as `source` has or more, the same for the same seed, and its questions.

    Each question is asked of one clone, in the words of that clone; the clones asked are spread over the corpus.
    """
    n_own = len(source.passage_article)
    if n_passages < n_own:
        raise ValueError(f"{n_passages} passages cannot hold the {n_own} that are cloned")
    rng = np.random.default_rng(seed)
    names, asked = _Names(source, rng), _Asked(source, rng.integers(n_passages // n_own, size=len(source.questions)))
    ids, lengths = [], []
    for first in range(0, n_passages, n_own):
        table = names.of_next_round()
        pieces, row_of_sentence, passage_lengths = _cut_anew(source, rng)
        lengths.append(passage_lengths)
        ids.append(table[names.slots[_within(source.pieces.offsets, pieces)]])
        asked.note(first // n_own, names, table, first + row_of_sentence)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths)[:n_passages])])
    vocabulary = [*source.pieces.vocabulary, *(f"#{number}" for number in range(names.n_new))]
    passages = Tokens(vocabulary, _in_one(ids)[: offsets[-1]], offsets)
    return Clones(passages, Tokens(vocabulary, asked.ids, asked.offsets), asked.rows)


class _Names:
    """What each word of each article is called in a clone; `slots` `(n_tokens,)` says of which each token is."""

    def __init__(self, source: Articles, rng: np.random.Generator) -> None:
        self._rng, self._beta, self._source = rng, source.growth(), source
        self._n_words, self.n_new, self._round = len(source.pieces.vocabulary), 0, 0
        piece_article = np.concatenate([source.sentence_article, np.arange(source.n_articles)])
        of_token = np.repeat(piece_article, np.diff(source.pieces.offsets))
        self._pairs, first, self.slots = np.unique(
            of_token * self._n_words + source.pieces.ids, return_index=True, return_inverse=True
        )
        self._piece = np.searchsorted(source.pieces.offsets, first, side="right") - 1
        self._article, self._word = np.divmod(self._pairs, self._n_words)
        self._rate = 1 / np.bincount(self._word, minlength=self._n_words)[self._word]
        self._earlier = np.empty((_REMEMBERED, len(self._pairs)), dtype=np.int32)

    def of_next_round(self) -> np.ndarray:
        """Name the words of a clone of every article, `(n_slots,)` int32: the first ones are called as they are."""
        if self._round == 0:
            table = self._word.astype(np.int32)
        else:
            parent = self._rng.integers(min(self._round, _REMEMBERED), size=len(self._source.pieces))
            table = self._earlier[parent[self._piece], np.arange(len(self._pairs))]
            growth = (self._round + 1) ** self._beta - self._round**self._beta
            new = np.flatnonzero(self._rng.random(len(table)) < growth * self._rate)
            table[new] = self._n_words + self.n_new + np.arange(len(new))
            self.n_new += len(new)
        place = self._round if self._round < _REMEMBERED else int(self._rng.integers(self._round + 1))
        if place < _REMEMBERED:  # a reservoir (Vitter 1985)
            self._earlier[place] = table
        self._round += 1
        return table

    def slots_of(self, articles: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return the slot of each word in its article, -1 where the article does not hold it."""
        wanted = articles * self._n_words + words
        places = np.minimum(np.searchsorted(self._pairs, wanted), len(self._pairs) - 1)
        return np.where(self._pairs[places] == wanted, places, -1)


class _Asked:
    """The questions, each asked of a clone of some round: their words `ids`, and the passages asked about, `rows`."""

    def __init__(self, source: Articles, rounds: np.ndarray) -> None:
        known = {word: number for number, word in enumerate(source.pieces.vocabulary)}
        words, self.offsets = source.questions.flat_ids_in(known)
        self.ids = words.astype(np.int32)
        self.rows = np.zeros(len(rounds), dtype=np.int64)
        self._source, self._rounds = source, rounds
        self._of_token = np.repeat(np.arange(len(rounds)), np.diff(self.offsets))

    def note(self, round_number: int, names: _Names, table: np.ndarray, row_of_sentence: np.ndarray) -> None:
        """Put the questions of a round into its words, and note where what they ask about came to stand."""
        asked = np.flatnonzero(self._rounds == round_number)
        self.rows[asked] = row_of_sentence[self._source.asked_sentence[asked]]
        tokens = np.flatnonzero(self._rounds[self._of_token] == round_number)
        sentences = self._source.asked_sentence[self._of_token[tokens]]
        slots = names.slots_of(self._source.sentence_article[sentences], self.ids[tokens])
        self.ids[tokens] = np.where(slots >= 0, table[slots], self.ids[tokens])


def _cut_anew(source: Articles, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Begin each article at any of its sentences, go round, and cut it into passages as long as its own in any order.

    Articles stand in another order each time. Returns the pieces of all passages one after another, each begun by its
    title; the passage of each sentence, `(n_sentences,)`; and the tokens of each passage.
    """
    rank = rng.permutation(source.n_articles)
    begin = rng.random(source.n_articles)[source.sentence_article]
    order = np.lexsort(((source.sentence_share - begin) % 1, rank[source.sentence_article]))
    passages = np.lexsort((rng.random(len(source.passage_article)), rank[source.passage_article]))
    lengths = np.diff(source.pieces.offsets)
    ends = np.cumsum(lengths[order])
    passage_of = np.searchsorted(np.cumsum(source.passage_tokens[passages]), ends - lengths[order] / 2)
    row_of_sentence = np.empty_like(order)
    row_of_sentence[order] = passage_of
    titles = len(order) + source.passage_article[passages]
    at = np.searchsorted(passage_of, np.arange(len(passages)))
    pieces = np.insert(order, at, titles)
    return pieces, row_of_sentence, np.add.reduceat(lengths[pieces], at + np.arange(len(at)))


def _within(offsets: np.ndarray, pieces: np.ndarray) -> np.ndarray:
    """Places of all tokens of some pieces, one after another."""
    lengths = np.diff(offsets)[pieces]
    ends = np.cumsum(lengths)
    places: np.ndarray = np.arange(ends[-1]) + np.repeat(offsets[pieces] - (ends - lengths), lengths)
    return places


def _in_one(parts: list[np.ndarray]) -> np.ndarray:
    """Join parts, letting go of each as it is taken."""
    whole = np.empty(sum(map(len, parts)), dtype=parts[0].dtype)
    ends = np.cumsum([0, *map(len, parts)])
    for place, (begin, end) in enumerate(pairwise(ends.tolist())):
        whole[begin:end], parts[place] = parts[place], parts[0][:0]
    return whole
