"""What other search libraries return, as rows of the corpus and scores.

A result names a passage by its id, by the id of a merged copy, or by its exact text. These forms are read:

- `"p1"`, or the number `7` for the passage `"7"`;
- `("p1", 0.83)`, also with a document in place of the id; a mapping `{"p1": 0.83, ...}` as the whole answer;
- a mapping with one of `ID_KEYS` or `TEXT_KEYS`, and perhaps one of `SCORE_KEYS`; nested mappings such as `metadata`;
- an object with such attributes: a LangChain `Document`, a LlamaIndex `NodeWithScore`, a hit of Pyserini;
- two lists of equal length as a tuple, ids and scores; a table (`pandas.DataFrame`) with such columns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from mrc_workbench.data.records import QuestionSet, composed
from mrc_workbench.retrieval.outside.problems import OutsideError, shortened
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, ranked

Order = Literal["score", "rank"]
ID_KEYS = ("id", "_id", "passage_id", "doc_id", "docid", "docno", "document_id", "id_", "node_id", "ref_doc_id")
SCORE_KEYS = ("score", "_score", "_rankingScore", "relevance_score", "similarity")
TEXT_KEYS = ("text", "page_content", "content", "contents", "passage")
_NESTED = ("node", "metadata", "document", "_source", "payload", "fields")


@dataclass(frozen=True)
class Hit:
    """A result of a query: what it is called, its row of the corpus (-1 if it is unknown) and its score."""

    reference: str
    row: int
    score: float | None


@dataclass(frozen=True)
class Reading:
    """The rankings of several queries, and what was noticed in the results that they were read from."""

    rankings: Rankings  # `(n_queries, k)`
    depth: int  # largest number of results of a query
    unknown_passages: int  # results that name no passage of the corpus
    unknown_example: str  # the first of them
    repeated: int  # results that name a passage again, which counts once, at its best score
    rising_scores: int  # queries whose results came with the lowest score first, as distances do

    def notes(self) -> dict[str, Any]:
        """Return what differs from zero."""
        noticed = {
            "unknown_passages": self.unknown_passages,
            "unknown_example": self.unknown_example,
            "repeated": self.repeated,
            "rising_scores": self.rising_scores,
        }
        return {"depth": self.depth, **{name: value for name, value in noticed.items() if value}}


class ResultReader:
    """Reads results over the passages of a question set.

    `id_key` is the attribute, key or metadata field that holds the passage id; without it, ids are looked for in
    `ID_KEYS`, then texts are compared. With `order="score"` results are ordered by score, higher is better, ties by
    row; with `order="rank"`, or if a result has no score, they keep their order and have the scores 0, -1, -2, ...
    """

    def __init__(self, question_set: QuestionSet, *, id_key: str = "", order: Order = "score") -> None:
        self._question_set, self._id_key, self._order = question_set, id_key, order

    def hits(self, results: object) -> list[Hit]:
        """Return the results of one query in the order in which they came.

        Raises `OutsideError`: `outside_results` if they have an unknown form, `outside_score` if a score is no finite
        number.
        """
        return [self._hit(item) for item in _items(results)]

    def read(self, results: Iterable[object], k: int) -> Reading:
        """Return the rankings of the results of each query, with k columns. Raises what `hits` raises."""
        answers = [self.hits(of_query) for of_query in results]
        known: list[dict[int, float]] = [self._best_scores(hits) for hits in answers]
        width = max((len(scores) for scores in known), default=0)
        indices = np.full((len(known), width), NOT_FOUND, dtype=np.int64)
        scores = np.full((len(known), width), -np.inf)
        for query, best in enumerate(known):
            indices[query, : len(best)] = [*best]
            scores[query, : len(best)] = [*best.values()]
        unknown = [hit.reference for hits in answers for hit in hits if hit.row < 0]
        n_results = sum(map(len, answers))
        return Reading(
            ranked(indices, scores, k),
            depth=max(map(len, answers), default=0),
            unknown_passages=len(unknown),
            unknown_example=unknown[0] if unknown else "",
            repeated=n_results - len(unknown) - sum(map(len, known)),
            rising_scores=sum(map(self._rises, answers)),
        )

    def _best_scores(self, hits: Sequence[Hit]) -> dict[int, float]:
        """Return the best score of each known row."""
        by_rank = self._order == "rank" or any(hit.score is None for hit in hits)
        best: dict[int, float] = {}
        for rank, hit in enumerate(hits):
            score = float(-rank) if by_rank or hit.score is None else hit.score
            if hit.row >= 0 and score > best.get(hit.row, -np.inf):
                best[hit.row] = score
        return best

    def _rises(self, hits: Sequence[Hit]) -> bool:
        scores = [hit.score for hit in hits if hit.score is not None]
        if self._order == "rank" or len(scores) < max(2, len(hits)):
            return False
        return scores[0] < scores[-1] and scores == sorted(scores)

    def _hit(self, item: Any) -> Hit:
        score = None
        if isinstance(item, list | tuple) and len(item) == 2:
            item, score = item[0], _number(item[1])
        ids, texts = self._references(item)
        if score is None and not isinstance(item, str):
            score = _number(_first(item, SCORE_KEYS))
        for reference in ids:
            if (row := self._row(reference)) >= 0:
                return Hit(reference, row, score)
        for text in texts:
            if (row := self._row_of_text.get(composed(text), NOT_FOUND)) >= 0:
                return Hit(self._question_set.passages.ids[row], row, score)
        return Hit(shortened([*ids, *texts][0]), NOT_FOUND, score)

    def _references(self, item: Any) -> tuple[list[str], list[str]]:
        """Return the ids and the texts that may name the passage of a result."""
        if isinstance(item, str):
            return [item], [item]
        if _is_id(item):
            return [str(item)], []
        levels = [item, *_nested(item)]
        id_keys = (self._id_key,) if self._id_key else ID_KEYS
        ids = [str(value) for level in levels for key in id_keys if _is_id(value := _value(level, key))]
        texts = [] if self._id_key else [text for level in levels if isinstance(text := _first(level, TEXT_KEYS), str)]
        if not ids and not texts:
            wanted = f"the field {self._id_key!r}" if self._id_key else "an id or a text"
            message = f"a result has no {wanted.removeprefix('the ')}: {shortened(repr(item))}"
            raise OutsideError("outside_results", message, result=shortened(repr(item)))
        return ids, texts

    def _row(self, reference: str) -> int:
        stored = self._question_set.aliases.get(reference, reference)
        return self._question_set.row_of_passage.get(stored, NOT_FOUND)

    @cached_property
    def _row_of_text(self) -> dict[str, int]:
        texts = list(self._question_set.passages.texts)
        return {composed(text): row for row, text in reversed(list(enumerate(texts)))}


def _items(results: Any) -> Iterator[object]:
    """Yield the results of one query, whatever holds them."""
    if hasattr(results, "columns") and hasattr(results, "to_dict"):
        yield from results.to_dict("records")
    elif isinstance(results, Mapping):
        if not all(isinstance(value, Real) for value in results.values()):
            raise _unknown_form(results)
        yield from ((key, value) for key, value in results.items())
    elif _are_columns(results):
        yield from zip(*results, strict=True)
    elif isinstance(results, str | bytes) or not isinstance(results, Iterable):
        raise _unknown_form(results)
    else:
        yield from results


def _are_columns(results: Any) -> bool:
    """Whether these are ids and scores, a list or an array of each."""
    if not (isinstance(results, tuple) and len(results) == 2):
        return False
    ids, scores = results
    if not all(isinstance(column, list | np.ndarray) for column in results) or len(ids) != len(scores):
        return False
    return all(isinstance(score, Real) for score in scores) and all(isinstance(id_, str | Integral) for id_ in ids)


def _unknown_form(results: object) -> OutsideError:
    shown = shortened(repr(results))
    message = f"expected a list of results for each query (ids, pairs of id and score, documents), not {shown}"
    return OutsideError("outside_results", message, result=shown)


def _nested(item: object) -> Iterator[object]:
    """Yield what a result wraps: a node, a document, metadata, and the metadata of these."""
    for key in _NESTED:
        value = _value(item, key)
        if value is not None and not isinstance(value, str | Real):
            yield value
            if (metadata := _value(value, "metadata")) is not None:
                yield metadata


def _value(item: object, key: str) -> Any:
    if isinstance(item, Mapping):
        return item.get(key)
    try:
        return getattr(item, key, None)
    except Exception:  # a property of another library: some raise errors other than AttributeError
        return None


def _first(item: object, keys: Iterable[str]) -> Any:
    """Return the value of the first key that the item has, None if it has none of them."""
    return next((value for key in keys if (value := _value(item, key)) is not None), None)


def _is_id(value: Any) -> bool:
    return isinstance(value, str | Integral) and not isinstance(value, bool)


def _number(value: Any) -> float | None:
    """Return a score as float32 holds it; None stays None."""
    if value is None:
        return None
    if not isinstance(value, bool) and isinstance(value, Real):
        with np.errstate(over="ignore"):
            score = float(np.float32(value))
        if np.isfinite(score):
            return score
    message = f"a score is not a finite number: {shortened(repr(value))}"
    raise OutsideError("outside_score", message, score=shortened(repr(value)))
