"""One object of nested JSON: which of its keys hold a question, a passage, lists of questions, or deeper objects."""

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from mrc_workbench.data.formats.columns import NAMES
from mrc_workbench.data.formats.columns import plain_name as _uncached_plain_name
from mrc_workbench.data.formats.tables import is_blank, parsed
from mrc_workbench.data.layouts.cells import TITLE_NAMES, is_list_text, plain_value

PARAGRAPH_ID = "paragraph_id"
IMPOSSIBLE = "is_impossible"
SPLIT = "split"
MAX_DEPTH = 6

# By column, the best name first; compared as `plain_name` makes them.
_QUESTION_KEYS = {
    "question": ("question", "query", "questiontext", "querytext", "inputtext", "q", "질문", "질의", "질문내용"),
    "answers": ("answers", "answer", "answertext", "goldanswer", "goldanswers", "a", "정답", "답변", "답"),
    "start": NAMES["start"],
    "id": ("id", "guid", "questionid", "queryid", "qid", "qaid", "uuid", "질문id", "질문번호"),
    "kind": ("kind", "questiontype", "querytype", "qtype", "질문유형"),
    "turn": ("turnid",),  # numbers the questions of one conversation
    IMPOSSIBLE: ("isimpossible", "impossible"),
    SPLIT: ("split", "partition"),
}
_PASSAGE_KEYS = {
    "context": (
        "context", "contexttext", "story", "passage", "passagetext", "paragraph", "paragraphtext", "document",
        "documenttext", "chunktext", "chunk", "text", "content", "contents", "body", "article", "지문", "본문", "문맥",
        "문단", "내용", "청크",
    ),
    "title": (*TITLE_NAMES, *(name for name in NAMES["title"] if name not in TITLE_NAMES)),
    PARAGRAPH_ID: ("id", "paragraphid", "contextid", "guid", "passageid", "chunkid", "storyid", "docid"),
    SPLIT: ("split", "partition"),
}  # fmt: skip
_QUESTION_LISTS = ("qas", "qa", "qapairs", "questions", "questionanswers", "질문목록")
_PASSAGE_LISTS = ("paragraphs", "passages", "chunks", "sections", "contexts", "문단", "문단목록")
_ANSWER_LISTS = ("answers", "정답")
_ANSWER_TEXTS = ("text", "texts", "inputtext", "answertext", "answer", "value", "spantext")
_ANSWER_STARTS = ("answerstart", "answerstarts", "start", "textstart")
_SAMPLE_ITEMS = 50

Node = Mapping[str, Any]
plain_name = lru_cache(maxsize=4_096)(_uncached_plain_name)  # the same few keys in every object


def question_roles(node: Node) -> Mapping[str, str]:
    """Return the keys of an object that asks a question, by role."""
    return _roles(tuple(node), is_question=True)


def passage_roles(node: Node) -> Mapping[str, str]:
    """Return the keys of an object that encloses questions, by role."""
    return _roles(tuple(node), is_question=False)


@lru_cache(maxsize=512)
def _roles(names: tuple[str, ...], *, is_question: bool) -> Mapping[str, str]:
    by_plain = {plain_name(name): name for name in reversed(names)}
    keys: dict[str, str] = {}
    for role, wanted in (_QUESTION_KEYS if is_question else _PASSAGE_KEYS).items():
        name = next((by_plain[one] for one in wanted if one in by_plain and by_plain[one] not in keys.values()), None)
        if name is not None:
            keys[role] = name
    return keys


def has_question(node: object) -> bool:
    """Whether an object asks a question itself."""
    if not isinstance(node, dict):
        return False
    key = question_roles(node).get("question")
    return key is not None and bool(question_text(node[key]))


def question_text(value: Any) -> Any:
    """Return the question of a cell, which may be an object with a text."""
    if isinstance(value, dict):
        return next((value[name] for name in ("text", "stem") if isinstance(value.get(name), str)), "")
    return "" if isinstance(value, list) or is_blank(value) else value


def context_key(node: Node) -> str | None:
    """Return the key that holds the passage of an object: a known name whose value is no object."""
    for name in _context_keys(tuple(node)):
        value = node[name]
        if (type(value) is str and value.strip()) or not (is_blank(value) or _holds_objects(value)):
            return name
    return None


@lru_cache(maxsize=512)
def _context_keys(names: tuple[str, ...]) -> tuple[str, ...]:
    by_plain = {plain_name(name): name for name in reversed(names)}
    return tuple(by_plain[name] for name in _PASSAGE_KEYS["context"] if name in by_plain)


def _holds_objects(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value))


@lru_cache(maxsize=512)
def question_list_keys(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys that are known to hold questions."""
    return tuple(name for name in names if plain_name(name) in _QUESTION_LISTS)


@lru_cache(maxsize=512)
def _answer_list_keys(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if plain_name(name) in _ANSWER_LISTS)


def is_passage_list_name(name: str) -> bool:
    """Whether a key of this name is known to hold passages."""
    return plain_name(name) in _PASSAGE_LISTS


def question_lists(node: Node) -> dict[str, list[Any]]:
    """Return the lists of questions of an object by key: lists whose objects ask, and texts under a known name.

    Answers in a list beside them are joined to the questions by position.
    """
    found: dict[str, list[Any]] = {}
    names = tuple(node)
    known = question_list_keys(names)
    for name, value in node.items():
        if value is None or isinstance(value, str):
            continue
        items = objects_in(value)
        if isinstance(value, dict) and items == [value] and not (context_key(value) or context_key(node)):
            continue  # the question of a row, which an export has put into an object
        is_known = name in known
        if items and (is_known or any(map(has_question, items[:_SAMPLE_ITEMS]))):
            found[name] = items
        elif is_known and isinstance(value, list):
            found[name] = [{"question": item} if isinstance(item, str) else item for item in value]
    answers = _answer_list_keys(names)
    if not answers:
        return found
    # in CoQA answers, too, are objects with an `input_text`
    others = answers if any(name in known for name in found) else ()
    return {name: _with_answers(items, name, node, answers) for name, items in found.items() if name not in others}


def joined_answers(node: Node, lists: Mapping[str, list[Any]]) -> list[str]:
    """Return the keys whose answers `question_lists` joins to questions."""
    names = _answer_list_keys(tuple(node))
    counts = {len(questions) for questions in lists.values()} if names else ()
    return [name for name in names if name not in lists and len(_answer_items(node[name])) in counts]


def answers_without_questions(node: Node) -> list[str]:
    """Return the keys of answers in lists, of an object that has no list of questions."""
    return [name for name in _answer_list_keys(tuple(node)) if isinstance(node[name], list) and node[name]]


def _answer_items(value: Any) -> list[Any]:
    return objects_in(value) or (value if isinstance(value, list) else [])


def _with_answers(questions: list[Any], name: str, node: Node, others: Iterable[str]) -> list[Any]:
    for other in others:
        answers = _answer_items(node[other])
        if other != name and len(answers) == len(questions):
            return [
                {**question, "answers": answer}
                if isinstance(question, dict) and "answers" not in question_roles(question)
                else question
                for question, answer in zip(questions, answers, strict=True)
            ]
    return questions


def objects_in(value: Any) -> list[Any]:
    """Return the objects of a list, of a dict of equally long lists, or the single object that asks a question."""
    value = plain_value(value)
    if isinstance(value, list):
        return value if value and any(isinstance(item, dict) for item in value) else []
    if not isinstance(value, dict) or not value:
        return []
    if has_question(value):
        return [value]
    lists = [plain_value(cell) for cell in value.values()]
    if not all(isinstance(cell, list) and len(cell) == len(lists[0]) for cell in lists):
        return []
    return [dict(zip(value, cells, strict=True)) for cells in zip(*lists, strict=True)]


def children(node: Node, depth: int = MAX_DEPTH, known: Container[str] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the values of an object that hold nested questions or passages, by key; `known` keys hold other things."""
    for name, value in node.items():
        if name in known or not isinstance(value, (dict, list)) or not value:
            continue
        items = [value] if isinstance(value, dict) else value[:_SAMPLE_ITEMS]
        is_passage_list = is_passage_list_name(name) and isinstance(value, list)
        if any(is_nested(item, depth - 1) or (is_passage_list and _is_passage(item)) for item in items):
            yield name, value


def _is_passage(item: Any) -> bool:
    return bool(context_key(item)) if isinstance(item, dict) else isinstance(item, str) and bool(item.strip())


def is_nested(node: Any, depth: int = MAX_DEPTH) -> bool:
    """Whether an object asks no question itself and holds lists of questions or passages at some depth."""
    if depth == 0:
        return False
    if isinstance(node, list):
        return any(is_nested(item, depth - 1) for item in node[:_SAMPLE_ITEMS])
    if not isinstance(node, dict) or has_question(node):
        return False
    return bool(question_lists(node)) or any(True for _ in children(node, depth))


def is_nested_root(node: dict[str, Any]) -> bool:
    """Whether the one object of a file is nested; a single list of rows in it is a table and not nested."""
    if any(True for _ in children(node)):
        return True
    return bool(question_lists(node)) and context_key(node) is not None


def answers_of(value: Any) -> Any:
    """Return answers as `answers_in` takes them: objects with `text` and `answer_start`, whatever their own names."""
    value = plain_value(value)
    if isinstance(value, list):
        return value if all(map(_is_plain_answer, value)) else [answers_of(item) for item in value]
    if not isinstance(value, dict) or _is_plain_answer(value):
        return value
    by_plain = {plain_name(name): cell for name, cell in reversed([*value.items()])}
    known = {name: by_plain.get(name) for name in (*_ANSWER_TEXTS, *_ANSWER_STARTS)}
    filled = {name: cell for name, cell in known.items() if cell is not None and cell not in ("", [])}
    text = next((filled[name] for name in _ANSWER_TEXTS if name in filled), None)
    start = next((filled[name] for name in _ANSWER_STARTS if name in filled), None)
    aliases = by_plain.get("aliases")
    if isinstance(aliases, list) and not isinstance(text, list):
        return [text, *aliases]
    return {"text": text} if start is None else {"text": text, "answer_start": start}


def _is_plain_answer(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and value.keys() <= {"text", "answer_start"})


def with_parsed_cells(cells: Node) -> dict[str, Any]:
    """Return the cells of a row, those parsed that hold the JSON or Python text of objects."""
    row = {name: plain_value(cell) for name, cell in cells.items()}
    texts = {name: cell for name, cell in row.items() if is_list_text(cell) and "{" in cell[:1_000]}
    values = {name: parsed(text.strip()) for name, text in texts.items()}
    return row | {name: value for name, value in values.items() if isinstance(value, (list, dict))}
