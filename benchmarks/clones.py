"""Generate any number of analyzed passages and questions: clones of KorQuAD dev's articles with other words.

A clone of an article contains its sentences, rotated by a random offset and split into different passages, each with
the title. Co-occurring words stay together, consecutive passages belong to one article, and lengths are KorQuAD's.
Each sentence copies the words of a random earlier clone, with some words replaced by new ones. After r rounds of all
articles, the vocabulary has `V * r ** beta` words (Heaps' law; beta is measured between KorQuAD's first half and all of
it). The rate of replacement is inversely proportional to the number of articles that contain the word, as Good-Turing
estimates it: of KorQuAD's words in 1, 2, 3, 4 articles, another text of the same size lacks 0.47, 0.22, 0.19, 0.14. So
a general word is in the same fraction of a million passages, and a rare one names a subject of a few clones.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.synthetic_data import korquad
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.analysis import TEXTS_PER_PART, Tokens, tokens_of
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.text.marking import sentence_spans


@dataclass(frozen=True)
class Articles:
    """Analyzed articles; `pieces` are all sentences in order, then all titles."""

    pieces: Tokens
    passage_article: np.ndarray  # (n_passages,), ascending
    passage_sentences: np.ndarray  # (n_passages,) counts
    questions: Tokens
    answer_sentence: np.ndarray  # (n_questions,) sentence that contains the answer

    @cached_property
    def sentence_article(self) -> np.ndarray:
        """The article of each sentence, `(n_sentences,)`."""
        return np.repeat(self.passage_article, self.passage_sentences)

    @cached_property
    def sentence_position(self) -> np.ndarray:
        """The relative position of each sentence in its article, 0 to below 1, `(n_sentences,)`."""
        _, starts, sizes = np.unique(self.sentence_article, return_index=True, return_counts=True)
        return (np.arange(len(self.sentence_article)) - np.repeat(starts, sizes)) / np.repeat(sizes, sizes)

    @cached_property
    def passage_tokens(self) -> np.ndarray:
        """The number of tokens of each passage without its title, `(n_passages,)`."""
        ends = np.cumsum(self.passage_sentences)
        return np.diff(self.pieces.offsets[np.concatenate([[0], ends])])

    @cached_property
    def n_articles(self) -> int:
        """The number of articles."""
        return int(self.passage_article[-1]) + 1

    def heaps_exponent(self) -> float:
        """Return beta of Heaps' law, `vocabulary ~ tokens ** beta`, between the first half of the sentences and all."""
        n_sentences = len(self.sentence_article)
        ends = self.pieces.offsets[[n_sentences // 2, n_sentences]]
        half, whole = (len(np.unique(self.pieces.ids[:end])) for end in ends)
        return float(np.log(whole / half) / np.log(ends[1] / ends[0]))


def load_korquad_articles(analyzer: Analyzer = Analyzer.KIWI_BIGRAM) -> Articles:
    """Analyze the sentences of KorQuAD dev; the workspace caches the tokens."""
    return analyze_articles(read_file(korquad()).question_set, analyzer)


def analyze_articles(question_set: QuestionSet, analyzer: Analyzer) -> Articles:
    """Analyze the sentences of a question set whose passages are sorted by article."""
    passages = question_set.passages
    spans = [sentence_spans(text) for text in passages.texts]
    sentences = [
        text[begin:end]
        for text, passage_spans in zip(passages.texts, spans, strict=True)
        for begin, end in passage_spans
    ]
    article_numbers: dict[str, int] = {}
    article_of_passage = np.array(
        [article_numbers.setdefault(passage.title, len(article_numbers)) for passage in passages]
    )
    first_sentences = np.concatenate([[0], np.cumsum([len(passage_spans) for passage_spans in spans])])
    answer_sentences = []
    for question in question_set.questions:
        row = question_set.row_of_passage[question.relevant[0]]
        begin = question.starts[0] if question.starts else 0
        answer_sentences.append(
            first_sentences[row] + max(0, bisect_right([span[0] for span in spans[row]], begin) - 1)
        )
    return Articles(
        tokens_of(analyzer, [*sentences, *article_numbers]),
        article_of_passage,
        np.diff(first_sentences),
        tokens_of(analyzer, [question.text for question in question_set.questions]),
        np.array(answer_sentences),
    )


_RESERVOIR_SIZE = 128  # earlier clones of each article, a uniform sample, whose words are copied


@dataclass(frozen=True)
class Clones:
    """`tokens` of passages, `questions` in the same vocabulary, and their `relevant` passage, `(n_questions,)`."""

    tokens: Tokens
    questions: Tokens
    relevant: np.ndarray

    def parts(self, size: int = TEXTS_PER_PART) -> Iterator[Tokens]:
        """Yield blocks of `size` passages, each with its own vocabulary, as an analysis returns them."""
        for start in range(0, len(self.tokens), size):
            offsets = self.tokens.offsets[start : start + size + 1]
            ids = self.tokens.ids[offsets[0] : offsets[-1]]
            words = np.flatnonzero(np.bincount(ids))
            number = np.zeros(len(self.tokens.vocabulary), dtype=np.int32)
            number[words] = np.arange(len(words))
            yield Tokens([self.tokens.vocabulary[word] for word in words.tolist()], number[ids], offsets - offsets[0])

    def save(self, folder: Path) -> None:
        """Write the arrays and the vocabulary into a folder."""
        arrays = {"ids": self.tokens.ids, "offsets": self.tokens.offsets, "relevant": self.relevant}
        arrays |= {"question_ids": self.questions.ids, "question_offsets": self.questions.offsets}
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        (folder / "vocabulary.txt").write_text("\n".join(self.tokens.vocabulary), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "Clones":
        """Read what `save` wrote; the tokens of passages are memory-mapped."""
        vocabulary = (folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
        passages = (np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in ("ids", "offsets"))
        questions = (np.load(folder / f"{name}.npy") for name in ("question_ids", "question_offsets"))
        return cls(Tokens(vocabulary, *passages), Tokens(vocabulary, *questions), np.load(folder / "relevant.npy"))


def clone_articles(source: Articles, n_passages: int, seed: int = 0) -> Clones:
    """Return `n_passages` passages, at least as many as `source` has, and its questions in the words of their clone.

    The clones that questions are about are spread over the corpus. The seed determines the result.
    """
    n_source_passages = len(source.passage_article)
    if n_passages < n_source_passages:
        raise ValueError(f"{n_passages} passages cannot contain the {n_source_passages} that are cloned")
    rng = np.random.default_rng(seed)
    clone_names = _CloneNames(source, rng)
    cloned_questions = _ClonedQuestions(
        source, rng.integers(n_passages // n_source_passages, size=len(source.questions))
    )
    ids = []
    lengths = []
    for first in range(0, n_passages, n_source_passages):
        table = clone_names.next_round()
        pieces, row_of_sentence, passage_lengths = _recut_passages(source, rng)
        lengths.append(passage_lengths)
        ids.append(table[clone_names.slots[_token_positions(source.pieces.offsets, pieces)]])
        cloned_questions.add_round(first // n_source_passages, clone_names, table, first + row_of_sentence)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths)[:n_passages])])
    vocabulary = [*source.pieces.vocabulary, *(f"#{number}" for number in range(clone_names.n_new))]
    passages = Tokens(vocabulary, _concatenate(ids)[: offsets[-1]], offsets)
    return Clones(passages, Tokens(vocabulary, cloned_questions.ids, cloned_questions.offsets), cloned_questions.rows)


class _CloneNames:
    """Map each word of each article (a slot) to its word in a clone; `slots` `(n_tokens,)` has the token's slot."""

    def __init__(self, source: Articles, rng: np.random.Generator) -> None:
        self._rng = rng
        self._beta = source.heaps_exponent()
        self._source = source
        self._n_words = len(source.pieces.vocabulary)
        self.n_new = 0
        self._round = 0
        piece_article = np.concatenate([source.sentence_article, np.arange(source.n_articles)])
        article_of_token = np.repeat(piece_article, np.diff(source.pieces.offsets))
        self._pairs, first, self.slots = np.unique(
            article_of_token * self._n_words + source.pieces.ids, return_index=True, return_inverse=True
        )
        self._piece = np.searchsorted(source.pieces.offsets, first, side="right") - 1
        self._article, self._word = np.divmod(self._pairs, self._n_words)
        self._rate = 1 / np.bincount(self._word, minlength=self._n_words)[self._word]
        self._earlier = np.empty((_RESERVOIR_SIZE, len(self._pairs)), dtype=np.int32)

    def next_round(self) -> np.ndarray:
        """Return the words of each article's next clone, `(n_slots,)` int32; the first clone keeps the originals."""
        if self._round == 0:
            table = self._word.astype(np.int32)
        else:
            parent = self._rng.integers(min(self._round, _RESERVOIR_SIZE), size=len(self._source.pieces))
            table = self._earlier[parent[self._piece], np.arange(len(self._pairs))]
            growth = (self._round + 1) ** self._beta - self._round**self._beta
            new = np.flatnonzero(self._rng.random(len(table)) < growth * self._rate)
            table[new] = self._n_words + self.n_new + np.arange(len(new))
            self.n_new += len(new)
        slot = self._round if self._round < _RESERVOIR_SIZE else int(self._rng.integers(self._round + 1))
        if slot < _RESERVOIR_SIZE:  # a reservoir (Vitter 1985)
            self._earlier[slot] = table
        self._round += 1
        return table

    def find_slots(self, articles: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return the slot of each word in its article, -1 if the article does not contain it."""
        keys = articles * self._n_words + words
        positions = np.minimum(np.searchsorted(self._pairs, keys), len(self._pairs) - 1)
        return np.where(self._pairs[positions] == keys, positions, -1)


class _ClonedQuestions:
    """The questions, each about the clone of one round: word `ids`, and the `rows` of the relevant passages."""

    def __init__(self, source: Articles, rounds: np.ndarray) -> None:
        id_of_word = {word: number for number, word in enumerate(source.pieces.vocabulary)}
        words, self.offsets = source.questions.flat_ids_in(id_of_word)
        self.ids = words.astype(np.int32)
        self.rows = np.zeros(len(rounds), dtype=np.int64)
        self._source = source
        self._rounds = rounds
        self._question_of_token = np.repeat(np.arange(len(rounds)), np.diff(self.offsets))

    def add_round(self, round_number: int, names: _CloneNames, table: np.ndarray, row_of_sentence: np.ndarray) -> None:
        """Translate the questions of a round into the words of their clones, and record their relevant passages."""
        questions = np.flatnonzero(self._rounds == round_number)
        self.rows[questions] = row_of_sentence[self._source.answer_sentence[questions]]
        tokens = np.flatnonzero(self._rounds[self._question_of_token] == round_number)
        sentences = self._source.answer_sentence[self._question_of_token[tokens]]
        slots = names.find_slots(self._source.sentence_article[sentences], self.ids[tokens])
        self.ids[tokens] = np.where(slots >= 0, table[slots], self.ids[tokens])


def _recut_passages(source: Articles, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rotate the sentences of each article, and split it into passages with its own lengths in random order.

    The articles are shuffled. Returns the concatenated pieces of all passages, each with its title first; the passage
    of each sentence, `(n_sentences,)`; and the number of tokens of each passage.
    """
    rank = rng.permutation(source.n_articles)
    begin = rng.random(source.n_articles)[source.sentence_article]
    order = np.lexsort(((source.sentence_position - begin) % 1, rank[source.sentence_article]))
    passages = np.lexsort((rng.random(len(source.passage_article)), rank[source.passage_article]))
    lengths = np.diff(source.pieces.offsets)
    ends = np.cumsum(lengths[order])
    passage_of = np.searchsorted(np.cumsum(source.passage_tokens[passages]), ends - lengths[order] / 2)
    row_of_sentence = np.empty_like(order)
    row_of_sentence[order] = passage_of
    titles = len(order) + source.passage_article[passages]
    title_positions = np.searchsorted(passage_of, np.arange(len(passages)))
    pieces = np.insert(order, title_positions, titles)
    return pieces, row_of_sentence, np.add.reduceat(lengths[pieces], title_positions + np.arange(len(title_positions)))


def _token_positions(offsets: np.ndarray, pieces: np.ndarray) -> np.ndarray:
    """Return the positions of all tokens of the pieces, concatenated."""
    lengths = np.diff(offsets)[pieces]
    ends = np.cumsum(lengths)
    positions: np.ndarray = np.arange(ends[-1]) + np.repeat(offsets[pieces] - (ends - lengths), lengths)
    return positions


def _concatenate(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenate the parts, and free the memory of each one once it is copied."""
    whole = np.empty(sum(map(len, parts)), dtype=parts[0].dtype)
    ends = np.cumsum([0, *map(len, parts)])
    for index, (begin, end) in enumerate(pairwise(ends.tolist())):
        whole[begin:end] = parts[index]
        parts[index] = parts[0][:0]
    return whole
