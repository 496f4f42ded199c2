"""Nested JSON as rows: questions in lists at any level, with the passage, title and ids of their enclosing objects.

Covers SQuAD, KorQuAD 1 and 2, KLUE-MRC, AI Hub, CMRC 2018, CoQA, QuAC, and rows that hold a list of questions.
Questions without an enclosing passage become rows with their own keys, and with the title, part and lists of passages
of the enclosing objects; other keys of these objects become columns named by their path, such as `data[].topic`.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count, islice
from typing import Any, NamedTuple

from mrc_workbench.data.formats.columns import QuestionColumns
from mrc_workbench.data.formats.opening import Format, RecognisedFile
from mrc_workbench.data.formats.tables import RawRow, RawTable, as_text, describe_kind, display_text, is_blank
from mrc_workbench.data.formats.text_tables import item_opener, json_lines
from mrc_workbench.data.layouts.cells import Opener, passages_in
from mrc_workbench.data.layouts.tables import (
    IMPOSSIBLE,
    PARAGRAPH_ID,
    SPLIT,
    Node,
    context_key,
    has_question,
    key_name,
    normalize_answers,
    objects_in,
    passage_roles,
    question_roles,
    question_text,
    with_parsed_cells,
)
from mrc_workbench.data.problems import Problem, ProblemCode

NESTED_COLUMNS = QuestionColumns(
    "question", "context", "answers", "title", "id", "kind", passage_id=PARAGRAPH_ID, part=SPLIT, impossible=IMPOSSIBLE
)
_NAMES = ("question", "answers", "context", "title", "id", "kind", PARAGRAPH_ID, IMPOSSIBLE, SPLIT)
_ARTICLE = "an article with a list of paragraphs"
_PARAGRAPH = "a paragraph with a context and a list of qas"
_MAX_DEPTH = 6
_QUESTION_LISTS = ("qas", "qa", "qapairs", "questions", "questionanswers", "질문목록")
_PASSAGE_LISTS = ("paragraphs", "passages", "chunks", "sections", "contexts", "문단", "문단목록")
_ANSWER_LISTS = ("answers", "정답")
_SAMPLE_ITEMS = 50
_MAX_KEYS = 1_000  # paths that are reported
Items = Callable[[], Iterable[Any]]
_NodeShape = tuple[str, tuple[str, ...], str | None, tuple[str, ...]]  # path, keys, passage key, list keys


@dataclass
class KeyReport:
    """Paths of the input's keys by use, such as `data[].paragraphs[].qas[].answers`; complete after the last row."""

    used: dict[str, None] = field(default_factory=dict)
    metadata: dict[str, None] = field(default_factory=dict)
    unused: dict[str, None] = field(default_factory=dict)

    def add(self, path: str, names: Iterable[str], used: Collection[str], metadata: str) -> None:
        for name in names:
            use = self.used if name in used else self.metadata if name == metadata and metadata else self.unused
            if len(use) < _MAX_KEYS:
                use.setdefault(display_text(_join_path(path, name), 200))

    def columns(self) -> dict[str, tuple[str, ...]]:
        """Return the fields of a `ColumnReport`, with each key under its most important use."""
        metadata = tuple(key for key in self.metadata if key not in self.used)
        unused = tuple(key for key in self.unused if key not in self.used and key not in self.metadata)
        return {"used_columns": tuple(self.used), "metadata_columns": metadata, "unused_columns": unused}


@dataclass(frozen=True)
class NestedTable(RawTable):
    """Rows of nested data in the columns of `NESTED_COLUMNS`; `keys` reports the use of the input's keys."""

    keys: KeyReport = field(default_factory=KeyReport)


class Tree(NamedTuple):
    """Nested objects: the outermost objects, and an opener of their rows of questions and passages."""

    items: Items
    table: Callable[[], NestedTable]


def tree_in(recognised: RecognisedFile) -> Tree | None:
    """Return the nested questions and passages of a file, None if its JSON holds none."""
    text = recognised.text
    value = recognised.value
    if recognised.format not in (Format.SQUAD, Format.JSON, Format.JSONL):
        return None
    if value is None and text is not None:
        return _tree(lambda: (line if isinstance(item, Problem) else item for _, item, line in json_lines(text)))
    if isinstance(value, list):
        return _tree(lambda: value)
    if not isinstance(value, dict):
        return None
    if len(value) > 1 and all(map(is_nested, value.values())):
        return _tree(value.values)
    # a single list of rows in an object is a table and not nested
    is_nested_root = any(children(value)) or (_question_lists(value) and context_key(value) is not None)
    keys = KeyReport()
    tree = Tree(lambda: [value], lambda: NestedTable(_NAMES, _TreeReader(keys).node_rows(value, "", "", {}), keys=keys))
    return tree if is_nested_root else None


def tree_in_rows(opener: Opener, sample: Sequence[Mapping[str, object]]) -> Tree | None:
    """Return the tree of a table whose cells hold lists of questions, None for any other table."""
    if not any(is_nested(with_parsed_cells(cells)) for cells in sample[:_SAMPLE_ITEMS]):
        return None

    def items() -> Iterator[Any]:
        for row in opener().rows:
            yield with_parsed_cells(row.cells) if row.problem is None else next(iter(row.cells.values()), None)

    return _tree(items)


def _tree(items: Items) -> Tree | None:
    if not any(is_nested(item) for item in islice(items(), _SAMPLE_ITEMS)):
        return None
    keys = KeyReport()
    return Tree(items, lambda: NestedTable(_NAMES, _TreeReader(keys).list_rows(items(), "data", "", {}), keys=keys))


class _TreeReader:
    """Turns a tree into rows: each passage, then its questions, numbered from 1 through the whole input."""

    def __init__(self, keys: KeyReport) -> None:
        self.keys = keys
        self._numbers = count(1)
        self._keys_by_shape: dict[_NodeShape, dict[str, str]] = {}  # by role, of objects that are reported

    def list_rows(self, items: Iterable[Any], location: str, path: str, inherited: dict[str, Any]) -> Iterator[RawRow]:
        """Yield the rows of a list. Messages name its `location`; `path` is the location without positions."""
        expected = _PARAGRAPH if _is_passage_list_name(path.removesuffix("[]").rpartition(".")[2]) else _ARTICLE
        for position, item in enumerate(items):
            item_location = f"{location}[{position}]"
            if isinstance(item, list) and item:
                yield from self.list_rows(item, item_location, path, inherited)
            elif isinstance(item, dict):
                yield from self.node_rows(item, item_location, path, inherited)
            else:
                yield _broken_row(item_location, item, expected)

    def node_rows(self, node: dict[str, Any], location: str, path: str, inherited: dict[str, Any]) -> Iterator[RawRow]:
        """Yield the rows of an object: its question, or its passage and the content of its lists."""
        if has_question(node):
            yield self._question_row(node, path, inherited)
            return
        lists = _question_lists(node)
        inner = dict(children(node, known=lists))
        context = context_key(node)
        nested_items = [item for child in inner.values() for item in _sample_items(child)]
        if any(isinstance(item, dict) and context_key(item) is not None for item in nested_items):
            context = None  # the passages are further down
        names = tuple(node)
        broken = [name for name in _keys_named(_QUESTION_LISTS, names) if name not in lists and node[name] is not None]
        if context is None and not lists and not inner:
            yield _broken_row(location, node, _ARTICLE)
            return
        if not lists and not inner and not broken:
            broken = [name for name in _keys_named(_ANSWER_LISTS, names) if isinstance(node[name], list) and node[name]]
        shared = self._shared_cells(node, path, inherited, context, (*lists, *inner, *_joined_answers(node, lists)))
        if context is not None or lists:
            yield RawRow(0, shared, is_question=False)
        for _ in broken:
            yield _broken_row(location, node, _PARAGRAPH)
        for name, questions in lists.items():
            for question in questions:
                yield self._question_row(question, f"{_join_path(path, name)}[]", shared)
        for name, child in inner.items():
            inner_location = f"{location}.{name}" if location else name
            inner_path = _join_path(path, name)
            if isinstance(child, dict):
                yield from self.node_rows(child, inner_location, inner_path, shared)
            elif _is_passage_list_name(name) and all(isinstance(item, str) for item in child):
                rows = [{**shared, PARAGRAPH_ID: None, "context": text} for text in child]
                yield from (RawRow(0, row, is_question=False) for row in rows)
            else:
                yield from self.list_rows(child, inner_location, f"{inner_path}[]", shared)

    def _shared_cells(
        self, node: dict[str, Any], path: str, inherited: dict[str, Any], context: str | None, lists: tuple[str, ...]
    ) -> dict[str, Any]:
        shape = (path, tuple(node), context, lists)
        keys = self._keys_by_shape.get(shape)
        if keys is None:
            keys = {role: name for role, name in passage_roles(node).items() if role != "context"}
            if context is None:
                keys.pop(PARAGRAPH_ID, None)  # the id of an article
            else:
                keys["context"] = context
            keys = {role: name for role, name in keys.items() if name not in lists}
            self._report(shape, keys, (*keys.values(), *lists))
        own = {role: node[name] for role, name in keys.items() if node[name] is not None}
        return inherited | own if context is None else {**inherited, PARAGRAPH_ID: None, **own}

    def _question_row(self, question: Any, path: str, shared: dict[str, Any]) -> RawRow:
        number = next(self._numbers)
        if not isinstance(question, dict):
            problem = Problem.from_code(ProblemCode.NOT_AN_OBJECT, number, found=describe_kind(question))
            return RawRow(number, shared, problem, is_paragraph=False)
        own_context = None if shared.get("context") else context_key(question)
        shape = (path, tuple(question), own_context, ())
        keys = self._keys_by_shape.get(shape)
        if keys is None:
            keys = dict(question_roles(question))
            if own_context is not None:
                keys["context"] = own_context
            self._report(shape, keys, [name for role, name in keys.items() if role != "kind"], keys.get("kind", ""))
        cells = {role: question[name] for role, name in keys.items()}
        cells["question"] = question_text(cells.get("question"))
        cells["answers"] = normalize_answers(cells.get("answers"))
        start = cells.pop("start", None)
        if isinstance(cells["answers"], str) and start is not None:
            cells["answers"] = {"text": [cells["answers"]], "answer_start": [start]}
        turn = cells.pop("turn", None)
        parent = shared.get(PARAGRAPH_ID)
        is_turn = not is_blank(parent) and not is_blank(turn)
        cells["id"] = cells.get("id") or (f"{as_text(parent)}-{as_text(turn)}" if is_turn else "")
        return RawRow(number, {**shared, **cells}, is_paragraph=own_context is not None)

    def _report(self, shape: _NodeShape, keys: dict[str, str], used: Collection[str], metadata: str = "") -> None:
        path, names, *_ = shape
        self.keys.add(path, names, used, metadata)
        if len(self._keys_by_shape) < _MAX_KEYS:
            self._keys_by_shape[shape] = keys


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _broken_row(location: str, value: object, expected: str) -> RawRow:
    details = {"location": location, "found": describe_kind(value), "expected": expected}
    return RawRow(0, {}, Problem.from_code(ProblemCode.BROKEN_PART, None, **details), is_question=False)


def flat_opener(items: Items) -> Opener | None:
    """Return an opener of the rows of a tree's questions; None without questions below an object without a passage."""
    if any(map(has_question, islice(items(), _SAMPLE_ITEMS))):
        return None
    first = [row for row in islice(_flat_rows(items(), "", {}), _SAMPLE_ITEMS) if isinstance(row, dict)]
    contexts = [row[key] for row in first if (key := context_key(row)) is not None]
    if not any(map(has_question, first)) or any(isinstance(context, str) for context in contexts):
        return None
    return item_opener(lambda: ((number, row, row) for number, row in enumerate(_flat_rows(items(), "", {}), 1)))


def _flat_rows(items: Iterable[Any], path: str, inherited: Node) -> Iterator[Any]:
    """Yield the rows of a list; items other than objects are yielded unchanged and become rows with a problem."""
    for item in items:
        if isinstance(item, list):
            yield from _flat_rows(item, path, inherited)
        elif not isinstance(item, dict) or _is_row(item):
            yield _flat_question(item, inherited)
        else:
            yield from _flat_node_rows(item, path, inherited)


def _is_row(node: Node) -> bool:
    name = question_roles(node).get("question", "")
    is_list = isinstance(node.get(name), list) and not objects_in(node[name])
    return has_question(node) or is_list


def _flat_node_rows(node: Node, path: str, inherited: Node) -> Iterator[Any]:
    lists = _question_lists(node)
    inner = {name: child for name, child in children(node, known=lists) if is_nested(child)}
    if not lists and not inner:
        yield _flat_question(node, inherited)  # only passages, or a row with a problem
        return
    used = {*lists, *inner, *_joined_answers(node, lists)}
    roles = passage_roles(node)
    own = {roles.get("title"), roles.get(SPLIT), context_key(node)}
    shared = dict(inherited)
    for name, value in node.items():
        if name not in used:
            uses_own_name = name in own or (_is_passage_list_name(name) and passages_in(value))
            shared[name if uses_own_name else _join_path(path, name)] = value
    for questions in lists.values():
        yield from (_flat_question(question, shared) for question in questions)
    for name, child in inner.items():
        inner_path = _join_path(path, name)
        if isinstance(child, list):
            yield from _flat_rows(child, f"{inner_path}[]", shared)
        else:
            yield from _flat_rows([child], inner_path, shared)


def _flat_question(question: Any, shared: Node) -> Any:
    if not isinstance(question, dict):
        return question
    keys = question_roles(question)
    read = {"question": question_text, "answers": normalize_answers} if has_question(question) else {}
    cells = {name: read[role](question[name]) for role, name in keys.items() if role in read}
    return {**shared, **question, **cells}


@lru_cache(maxsize=1_024)
def _keys_named(known: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if key_name(name) in known)


def _is_passage_list_name(name: str) -> bool:
    return key_name(name) in _PASSAGE_LISTS


def _question_lists(node: Node) -> dict[str, list[Any]]:
    """Return the lists of questions of an object by key, joined by position to the answers in a list beside them."""
    lists: dict[str, list[Any]] = {}
    names = tuple(node)
    known = _keys_named(_QUESTION_LISTS, names)
    for name, value in node.items():
        if value is None or isinstance(value, str):
            continue
        items = objects_in(value)
        if isinstance(value, dict) and items == [value] and not (context_key(value) or context_key(node)):
            continue  # the question of a row, which an export has nested
        is_known = name in known
        if items and (is_known or any(map(has_question, items[:_SAMPLE_ITEMS]))):
            lists[name] = items
        elif is_known and isinstance(value, list):
            lists[name] = [{"question": item} if isinstance(item, str) else item for item in value]
    answers = _keys_named(_ANSWER_LISTS, names)
    if not answers:
        return lists
    # CoQA's answers are objects with an `input_text`, like its questions
    others = answers if any(name in known for name in lists) else ()
    return {name: _with_answers(items, name, node, answers) for name, items in lists.items() if name not in others}


def _joined_answers(node: Node, lists: Mapping[str, list[Any]]) -> list[str]:
    """Return the keys whose answers `_question_lists` joins to questions."""
    names = _keys_named(_ANSWER_LISTS, tuple(node))
    counts = {len(questions) for questions in lists.values()} if names else ()
    return [name for name in names if name not in lists and len(_answer_items(node[name])) in counts]


def _answer_items(value: Any) -> list[Any]:
    return objects_in(value) or (value if isinstance(value, list) else [])


def _with_answers(questions: list[Any], name: str, node: Node, others: Iterable[str]) -> list[Any]:
    for other in others:
        answers = _answer_items(node[other])
        if other != name and len(answers) == len(questions):
            pairs = zip(questions, answers, strict=True)
            return [_with_answer(question, answer) for question, answer in pairs]
    return questions


def _with_answer(question: Any, answer: Any) -> Any:
    has_answers = not isinstance(question, dict) or "answers" in question_roles(question)
    return question if has_answers else {**question, "answers": answer}


def children(node: Node, depth: int = _MAX_DEPTH, known: Container[str] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the values of an object that hold nested questions or passages, by key, except those of `known` keys."""
    for name, value in node.items():
        if name in known or not isinstance(value, (dict, list)) or not value:
            continue
        items = _sample_items(value)
        passages: list[Any] = []
        if _is_passage_list_name(name) and isinstance(value, list):
            passages = [item for item in items if isinstance(item, dict) and context_key(item)]
            passages += [item for item in items if isinstance(item, str) and item.strip()]
        if passages or any(is_nested(item, depth - 1) for item in items):
            yield name, value


def _sample_items(value: Any) -> list[Any]:
    return value[:_SAMPLE_ITEMS] if isinstance(value, list) else [value]


def is_nested(node: Any, depth: int = _MAX_DEPTH) -> bool:
    """Whether an object asks no question itself and holds lists of questions or passages at some depth."""
    if depth == 0:
        return False
    if isinstance(node, list):
        return any(is_nested(item, depth - 1) for item in node[:_SAMPLE_ITEMS])
    if not isinstance(node, dict) or has_question(node):
        return False
    return bool(_question_lists(node)) or any(children(node, depth))
