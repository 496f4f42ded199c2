"""A small world to search in, with an encoder and a scorer whose numbers can be counted, and expected failures."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from scipy.sparse import csr_array

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.models.vectors import TokenVectors

PASSAGES = (
    Passage("p1", "세종은 한글을 만든 왕이다", "세종"),
    Passage("p2", "한강은 서울을 지나 서해로 흐른다", "한강"),
    Passage("p3", "서울은 한강을 낀 도시이다", "서울"),
    Passage("p4", "설악산은 가을 단풍으로 이름난 산이다", "설악산"),
    Passage("p5", "도서관은 월요일에 문을 닫는다"),
)
QUESTIONS = (
    Question("q1", "한글을 만든 왕은 누구인가?", ("세종",), ("p1",)),
    Question("q2", "한강은 어디로 흐르는가?", ("서해",), ("p2",)),
    Question("q3", "한강을 낀 도시는 어디인가?", ("서울",), ("p3",)),
    Question("q4", "가을 단풍으로 이름난 산은?", ("설악산",), ("p4",)),
    Question("q5", "도서관은 언제 문을 닫는가?", ("월요일",), ("p5",)),
    Question("q6", "서울과 한강을 말하는 글은?", (), ("p2", "p3")),
)


def small_set(name: str = "small") -> QuestionSet:
    return QuestionSet(name, PASSAGES, QUESTIONS)


def texts_of(questions: Sequence[Question]) -> list[str]:
    return [question.text for question in questions]


class KeywordEncoder:
    """One dimension a keyword: 1 where the text holds it, then length 1. Texts with the same keywords tie."""

    keywords = ("세종", "한글", "한강", "서울", "산", "도서관")
    fingerprint = "keywords"

    def encode_questions(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts)

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        return self._encode(texts)

    def _encode(self, texts: Sequence[str]) -> np.ndarray:
        vectors = np.array([[word in text for word in self.keywords] for text in texts], dtype=np.float32)
        vectors = vectors.reshape(len(texts), len(self.keywords))
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1).astype(np.float32)


class KeywordTerms(KeywordEncoder):
    """The same keywords as terms of a vocabulary: a question asks each once, a passage holds it as often as it says."""

    def encode_questions(self, texts: Sequence[str]) -> csr_array:  # type: ignore[override]
        return csr_array(self._encode(texts) > 0, dtype=np.float32)

    def encode_passages(self, texts: Sequence[str]) -> csr_array:  # type: ignore[override]
        counts = [[text.count(word) for word in self.keywords] for text in texts]
        return csr_array(np.array(counts, dtype=np.float32).reshape(len(texts), len(self.keywords)))


class KeywordTokens(KeywordEncoder):
    """A vector for each keyword that stands in a text, as often as it does; a text of none has no vectors."""

    def encode_questions(self, texts: Sequence[str]) -> TokenVectors:  # type: ignore[override]
        counts = np.array([[text.count(word) for word in self.keywords] for text in texts], dtype=np.int64)
        counts = counts.reshape(len(texts), len(self.keywords))
        keywords = np.arange(len(self.keywords))
        keyword_rows = np.concatenate([np.repeat(keywords, row) for row in [counts[:0].sum(axis=0), *counts]])
        starts = np.concatenate([[0], np.cumsum(counts.sum(axis=1))])
        return TokenVectors(np.eye(len(self.keywords), dtype=np.float16)[keyword_rows], starts)

    def encode_passages(self, texts: Sequence[str], title_lengths: np.ndarray | None = None) -> TokenVectors:  # type: ignore[override]
        del title_lengths
        return self.encode_questions(texts)

    def passage_blocks(
        self, texts: Sequence[str], title_lengths: np.ndarray
    ) -> Iterator[tuple[np.ndarray, TokenVectors]]:
        """Every second passage, then the others."""
        for first in range(min(2, len(texts))):
            rows = np.arange(first, len(texts), 2)
            yield rows, self.encode_passages([texts[row] for row in rows.tolist()], title_lengths[rows])

    def key_of_passages(self, texts: Sequence[str], title_lengths: np.ndarray) -> str:
        return key_of(self.fingerprint, list(texts), title_lengths.tolist())


class SharedWordScorer:
    """The number of words a question and a passage share."""

    fingerprint = "shared words"

    def load(self) -> None:
        """Nothing to load."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        return np.array([len(set(q.split()) & set(p.split())) for q, p in pairs], dtype=np.float32)


def raises_failure(
    code: str, kind: type[Failure] = Failure, *, match: str | None = None, details: Mapping[str, object] | None = None
) -> pytest.RaisesExc[Failure]:
    """Return a context manager that expects a failure with this code and, if given, this message and these details."""

    def has_code_and_details(failure: Failure) -> bool:
        return failure.code == code and details in (None, failure.details)

    return pytest.raises(kind, match=match, check=has_code_and_details)
