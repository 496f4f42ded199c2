"""Articles analyzed sentence by sentence, with the questions that are asked of them: what clones are made of."""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.material import korquad
from data.read import read_file
from data.records import QuestionSet
from text.analyzers import Analyzer
from text.sentences import sentence_spans
from text.tokens import Tokens, tokens_of


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
