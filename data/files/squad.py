"""SQuAD-layout JSON (SQuAD, KorQuAD 1, KLUE-MRC) becomes a stream of raw rows."""

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from data.files.cells import kind_of
from data.files.columns import Columns
from data.files.encodings import EncodedText
from data.files.json_rows import json_lines
from data.files.tables import RawRow
from data.problems import Problem, ProblemCode

SQUAD_COLUMNS = Columns("question", "context", "answers", "title", "id", "kind")
PARAGRAPH_ID = "paragraph_id"
IMPOSSIBLE = "is_impossible"


def squad_articles(value: Any) -> list[Any] | None:
    """Return the articles where `value` has the SQuAD layout, else None."""
    articles = value
    if isinstance(value, dict):
        articles = [value] if "paragraphs" in value else value.get("data")
    if isinstance(articles, list) and any(isinstance(item, dict) and "paragraphs" in item for item in articles):
        return articles
    return None


def squad_lines(text: EncodedText) -> Iterator[Any]:
    """Yield the articles of a text that has SQuAD's layout in every line; what is none is yielded as it is."""
    for _, value, line in json_lines(text):
        yield from squad_articles(value) or [line if isinstance(value, Problem) else value]


def squad_rows(articles: Iterable[Any]) -> Iterator[RawRow]:
    """Yield each paragraph, then its questions, numbered from 1 through the whole file."""
    numbers = count(1)
    for place, article in enumerate(articles):
        paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
        if not isinstance(paragraphs, list):
            yield _broken(f"data[{place}]", article, "an article with a list of paragraphs")
            continue
        for inner, paragraph in enumerate(paragraphs):
            yield from _paragraph_rows(article, paragraph, f"data[{place}].paragraphs[{inner}]", numbers)


def _paragraph_rows(article: dict[str, Any], paragraph: Any, place: str, numbers: Iterator[int]) -> Iterator[RawRow]:
    questions = _first(paragraph, "qas", "questions") if isinstance(paragraph, dict) else None
    if not isinstance(paragraph, dict) or not isinstance(questions, (list, type(None))):
        yield _broken(place, paragraph, "a paragraph with a context and a list of qas")
        return
    shared = {"title": article.get("title"), "context": paragraph.get("context")}
    shared[PARAGRAPH_ID] = _first(paragraph, "id", PARAGRAPH_ID, "context_id", "guid")
    yield RawRow(0, shared, asks=False)
    for question in questions or []:
        yield _question_row(next(numbers), question, shared)


def _question_row(number: int, question: Any, shared: dict[str, Any]) -> RawRow:
    if not isinstance(question, dict):
        problem = Problem.of(ProblemCode.NOT_AN_OBJECT, number, found=kind_of(question))
        return RawRow(number, shared, problem, is_paragraph=False)
    own = {
        "question": question.get("question"),
        "answers": _first(question, "answers", "answer"),
        "id": _first(question, "id", "guid", "question_id"),
        "kind": _first(question, "kind", "question_type"),
        IMPOSSIBLE: question.get(IMPOSSIBLE),
    }
    return RawRow(number, shared | own, is_paragraph=False)


def _first(values: dict[str, Any], *names: str) -> Any:
    return next((values[name] for name in names if values.get(name) is not None), None)


def _broken(place: str, value: object, expected: str) -> RawRow:
    problem = Problem.of(ProblemCode.BROKEN_PART, place=place, found=kind_of(value), expected=expected)
    return RawRow(0, {}, problem, asks=False)
