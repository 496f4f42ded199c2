"""Tells what the rows of a file are by the names of their columns, and by the look of some rows.

Where an id and a text are all there is, they may be passages or questions; which one, the file's fellows tell
(`data.layouts.reading`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mrc_workbench.data.formats.columns import Columns, is_known, plain_name
from mrc_workbench.data.formats.tables import is_blank
from mrc_workbench.data.layouts.columns.roles import assign_columns, unique_column
from mrc_workbench.data.layouts.columns.values import holds_texts
from mrc_workbench.data.layouts.programs.lines import has_numbers
from mrc_workbench.data.layouts.sources import Role, Shape, Source

_QUESTION_IDS = ("queryid", "qid", "questionid", "topicid", "topic")
_PASSAGE_IDS = ("corpusid", "docid", "docno", "pid", "passageid", "documentid", "did")
_IDS = ("id", "num", "number")
_GRADES = (
    "score", "relevance", "relevancelabel", "relevancegrade", "rel", "grade", "label", "rating", "judgment",
    "judgement", "관련도", "점수", "평점",
)  # fmt: skip
_QUESTIONS = ("query", "question", "querytext", "questiontext", "질문", "질의", "검색어")
_PASSAGES = ("contents", "content", "passage", "passagetext", "body", "segment", "context", "document", "지문", "본문")
_TEXTS = ("text", "텍스트")
_TITLES = ("title", "headline", "제목")
_KNOWN = {*_QUESTION_IDS, *_PASSAGE_IDS, *_IDS, *_GRADES, *_QUESTIONS, *_PASSAGES, *_TEXTS, *_TITLES}


class Told(NamedTuple):
    """What the rows of a file are; no role where they are of no collection."""

    role: Role | None
    shape: Shape = Shape.TABLE
    columns: Columns = Columns()
    metadata: str | None = None


def knows(name: str) -> bool:
    """Whether a column of this name is known to hold something."""
    return plain_name(name) in _KNOWN or is_known(name)


def told_by_columns(
    chosen: Mapping[str, str | None], names: Sequence[str], sample: Sequence[Mapping[str, object]]
) -> Told | None:
    """Tell what rows are by the columns that the user named; None if the user named none of this file's columns."""
    if not chosen:
        return None
    columns = assign_columns(names, sample, chosen)
    if columns.question is None and columns.context is not None and columns.id is not None:
        return Told(Role.PASSAGES, columns=Columns(id=columns.id, context=columns.context, title=columns.title))
    if columns.question is None or columns.context is not None or columns.positives is not None:
        return Told(Role.ROWS, columns=columns)
    asked = Columns(id=columns.id, question=columns.question, answers=columns.answers, kind=columns.kind)
    return Told(Role.QUESTIONS, columns=asked)


def told_by_names(names: Sequence[str], sample: Sequence[Mapping[str, object]]) -> Told:
    """Tell what rows are by the names of their columns."""
    by_plain = {plain_name(name): name for name in reversed(names)}

    def first(*known: str) -> str | None:
        return next((by_plain[name] for name in known if name in by_plain), None)

    found = _whole_rows(first)
    columns = assign_columns(names, sample)
    if found is None and columns.question and _has_own_passages(columns, sample):
        return Told(Role.ROWS)
    return found or _judgements(first) or _texts(first, sample)


def _has_own_passages(columns: Columns, sample: Sequence[Mapping[str, object]]) -> bool:
    """Whether rows hold the texts of passages, and not the names of passages in another file."""
    name = columns.context or columns.positives
    return name is not None and holds_texts(name, sample)


def _whole_rows(first: Callable[..., str | None]) -> Told | None:
    """Rows that hold a question and what answers it."""
    asked, id_ = first(*_QUESTIONS), first(*_QUESTION_IDS, *_IDS)
    if asked and (groups := first("retrievalgt")):
        columns = Columns(asked, id=id_, passage_id=groups, answers=first("generationgt"))
        return Told(Role.QUESTIONS, Shape.AUTORAG, columns)
    if asked and (positives := first("positivepassages")):
        negatives = first("negativepassages")
        columns = Columns(asked, id=id_, positives=positives, negatives=negatives, answers=first("answers"))
        return Told(Role.QUESTIONS, Shape.TYDI, columns)
    if (given := first("userinput")) and (contexts := first("referencecontexts")):
        answers, kind = first("reference"), first("synthesizername")
        return Told(Role.QUESTIONS, Shape.RAGAS, Columns(given, id=id_, positives=contexts, answers=answers, kind=kind))
    return None


def _judgements(first: Callable[..., str | None]) -> Told | None:
    question_id, passage_id, grade = first(*_QUESTION_IDS), first(*_PASSAGE_IDS), first(*_GRADES)
    asked = first(*_QUESTIONS)
    if passage_id is None or first(*_PASSAGES, *_TEXTS) is not None:
        return None
    if question_id and asked:
        columns = Columns(asked, id=question_id, answers=first("answers"), passage_id=passage_id, label=grade)
        return Told(Role.QUESTIONS, columns=columns)
    if question_id:
        return Told(Role.JUDGEMENTS, columns=Columns(id=question_id, passage_id=passage_id, label=grade))
    if asked and grade:
        return Told(Role.JUDGEMENTS, Shape.RATINGS, Columns(asked, passage_id=passage_id, label=grade))
    return None


def _texts(first: Callable[..., str | None], sample: Sequence[Mapping[str, object]]) -> Told:
    """Rows with an id and a text. Of several ids the one that differs in every row is the passage's own."""
    question_id, plain_id = first(*_QUESTION_IDS), first(*_IDS)
    passage_ids = [name for known in _PASSAGE_IDS if (name := first(known)) is not None]
    passage_id = unique_column(passage_ids, sample)  # documents and their passages may both have ids
    asked, text, metadata = first(*_QUESTIONS), first(*_PASSAGES, *_TEXTS), first("metadata")
    if asked and text is None and (question_id or plain_id):
        columns = Columns(asked, id=question_id or plain_id, answers=first("answers"))
        return Told(Role.QUESTIONS, columns=columns, metadata=metadata)
    if question_id and text and not (asked or passage_id):
        return Told(Role.QUESTIONS, columns=Columns(text, id=question_id), metadata=metadata)
    ids = [name for known in (*_PASSAGE_IDS, *_IDS) if (name := first(known)) is not None]
    id_ = unique_column(ids, sample)
    if text is None or asked or id_ is None:
        return Told(Role.ROWS if text else None)
    title = first(*_TITLES)
    is_titled = title is not None and not all(is_blank(row.get(title)) for row in sample)
    is_sure = is_titled or passage_id is not None or first(*_PASSAGES) is not None
    columns = Columns(id=id_, context=text, title=title)
    return Told(Role.PASSAGES if is_sure else Role.TEXTS, columns=columns, metadata=metadata)


def stands_alone(source: Source) -> bool:
    """Whether one file is read as one of a collection, though it has no fellows.

    What the readers of single files make sense of is left to them.
    """
    if source.shape is Shape.LINES and source.role is Role.TEXTS:
        return has_numbers(source.table())
    if source.shape in (Shape.NESTED, Shape.BY_ID):
        return False
    if source.shape is not Shape.TABLE or source.role is Role.JUDGEMENTS:
        return True
    return source.role is Role.PASSAGES and plain_name(source.columns.id or "") in _PASSAGE_IDS
