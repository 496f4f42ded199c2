"""Nested JSON as rows: questions in lists at any level, each with the passage, title and ids of what encloses it.

Covers, by shape: SQuAD, KorQuAD 1 and 2, KLUE-MRC, AI Hub, CMRC 2018, CoQA, QuAC, and rows that hold a list of
questions. Without a passage above them, questions are rows with the keys of the question, and the title, part and lists
of passages of the objects around it; other keys of these are columns named by their path, such as `data[].topic`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, NamedTuple

from mrc_workbench.data.formats.columns import Columns
from mrc_workbench.data.formats.opening import Format, RecognisedFile
from mrc_workbench.data.formats.tables import RawRow, Table, as_text, is_blank, kind_of, shown
from mrc_workbench.data.formats.text_tables import item_opener, json_lines
from mrc_workbench.data.layouts import tree_nodes as nodes
from mrc_workbench.data.layouts.cells import Opener, passages_in
from mrc_workbench.data.layouts.tree_nodes import IMPOSSIBLE, PARAGRAPH_ID, SPLIT
from mrc_workbench.data.problems import Problem, ProblemCode

NESTED_COLUMNS = Columns(
    "question", "context", "answers", "title", "id", "kind", passage_id=PARAGRAPH_ID, part=SPLIT, impossible=IMPOSSIBLE
)
_NAMES = ("question", "answers", "context", "title", "id", "kind", PARAGRAPH_ID, IMPOSSIBLE, SPLIT)
_ARTICLE, _PARAGRAPH = "an article with a list of paragraphs", "a paragraph with a context and a list of qas"
_SAMPLE_ITEMS = 50
_MAX_KEYS = 1_000  # paths that are reported
Items = Callable[[], Iterable[Any]]
Node = Mapping[str, Any]
_Shape = tuple[str, tuple[str, ...], str | None, tuple[str, ...]]  # path, keys, that of the passage, those of lists


@dataclass
class KeyReport:
    """Paths of the input's keys by use, such as `data[].paragraphs[].qas[].answers`; complete after the last row."""

    used: dict[str, None] = field(default_factory=dict)
    metadata: dict[str, None] = field(default_factory=dict)
    unused: dict[str, None] = field(default_factory=dict)

    def add(self, use: dict[str, None], path: str, names: Iterable[str]) -> None:
        for name in names:
            if len(use) < _MAX_KEYS:
                use.setdefault(shown(_joined(path, name), 200))

    def columns(self) -> dict[str, tuple[str, ...]]:
        """Return the keys as `Reading` reports columns: each in one list, in that of its most important use."""
        metadata = tuple(key for key in self.metadata if key not in self.used)
        unused = tuple(key for key in self.unused if key not in self.used and key not in self.metadata)
        return {"used_columns": tuple(self.used), "metadata_columns": metadata, "unused_columns": unused}


@dataclass(frozen=True)
class NestedTable(Table):
    """Rows of nested data in the columns of `NESTED_COLUMNS`; `keys` reports how the input's own keys were used."""

    keys: KeyReport = field(default_factory=KeyReport)


class Tree(NamedTuple):
    """Nested objects: the outer ones, and what opens their rows of questions and passages."""

    items: Items
    table: Callable[[], NestedTable]


def tree_in(recognised: RecognisedFile) -> Tree | None:
    """Return the nested questions and passages of a file, None if its JSON holds none."""
    text, value = recognised.text, recognised.value
    if recognised.format not in (Format.SQUAD, Format.JSON, Format.JSONL):
        return None
    if value is None and text is not None:
        return _tree(lambda: (line if isinstance(item, Problem) else item for _, item, line in json_lines(text)))
    if isinstance(value, list):
        return _tree(lambda: value)
    if isinstance(value, dict) and len(value) > 1 and all(map(nodes.is_nested, value.values())):
        return _tree(value.values)
    if isinstance(value, dict) and nodes.is_nested_root(value):
        keys = KeyReport()
        return Tree(lambda: [value], lambda: NestedTable(_NAMES, _Walk(keys).node(value, "", "", {}), keys=keys))
    return None


def tree_in_rows(opener: Opener, sample: Sequence[Mapping[str, object]]) -> Tree | None:
    """Return the tree of a table whose cells hold lists of questions, None for any other table."""
    if not any(nodes.is_nested(nodes.with_parsed_cells(cells)) for cells in sample[:_SAMPLE_ITEMS]):
        return None
    return _tree(
        lambda: (
            nodes.with_parsed_cells(row.cells) if row.problem is None else next(iter(row.cells.values()), None)
            for row in opener().rows
        )
    )


def _tree(items: Items) -> Tree | None:
    if not any(nodes.is_nested(item) for item in islice(items(), _SAMPLE_ITEMS)):
        return None
    keys = KeyReport()
    return Tree(items, lambda: NestedTable(_NAMES, _Walk(keys).items(items(), "data", "", {}), keys=keys))


class _Walk:
    """Turns a tree into rows: each passage, then its questions, numbered from 1 through the whole input."""

    def __init__(self, keys: KeyReport) -> None:
        self.keys = keys
        self._numbers = count(1)
        self._keys_by_shape: dict[_Shape, dict[str, str]] = {}  # by role, of objects that are reported

    def items(self, items: Iterable[Any], place: str, path: str, inherited: dict[str, Any]) -> Iterator[RawRow]:
        """Yield the rows of a list; `place` is where it stands, for messages, and `path` the same without positions."""
        expected = _PARAGRAPH if nodes.is_passage_list_name(path.removesuffix("[]").rpartition(".")[2]) else _ARTICLE
        for position, item in enumerate(items):
            item_place = f"{place}[{position}]"
            if isinstance(item, list) and item:
                yield from self.items(item, item_place, path, inherited)
            elif isinstance(item, dict):
                yield from self.node(item, item_place, path, inherited)
            else:
                yield _broken(item_place, item, expected)

    def node(self, node: dict[str, Any], place: str, path: str, inherited: dict[str, Any]) -> Iterator[RawRow]:
        """Yield the rows of an object: of its own question, or of its passage and what its lists hold."""
        if nodes.has_question(node):
            yield self._question(node, path, inherited)
            return
        lists = nodes.question_lists(node)
        inner = dict(nodes.children(node, known=lists))
        context = nodes.context_key(node)
        if context is not None and any(map(_has_context, inner.values())):
            context = None  # the passages are further down
        broken = [
            name for name in nodes.question_list_keys(tuple(node)) if name not in lists and node[name] is not None
        ]
        if context is None and not lists and not inner:
            yield _broken(place, node, _ARTICLE)
            return
        if not lists and not inner and not broken:
            broken = nodes.answers_without_questions(node)
        shared = self._shared(node, path, inherited, context, (*lists, *inner, *nodes.joined_answers(node, lists)))
        if context is not None or lists:
            yield RawRow(0, shared, asks=False)
        for _ in broken:
            yield _broken(place, node, _PARAGRAPH)
        for name, questions in lists.items():
            for question in questions:
                yield self._question(question, f"{_joined(path, name)}[]", shared)
        for name, child in inner.items():
            inner_place, inner_path = f"{place}.{name}" if place else name, _joined(path, name)
            if isinstance(child, dict):
                yield from self.node(child, inner_place, inner_path, shared)
            elif nodes.is_passage_list_name(name) and all(isinstance(item, str) for item in child):
                yield from (RawRow(0, {**shared, PARAGRAPH_ID: None, "context": text}, asks=False) for text in child)
            else:
                yield from self.items(child, inner_place, f"{inner_path}[]", shared)

    def _shared(
        self, node: dict[str, Any], path: str, inherited: dict[str, Any], context: str | None, lists: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return the cells that the questions below an object share."""
        shape = (path, tuple(node), context, lists)
        keys = self._keys_by_shape.get(shape)
        if keys is None:
            keys = {role: name for role, name in nodes.passage_roles(node).items() if role != "context"}
            if context is None:
                keys.pop(PARAGRAPH_ID, None)  # the id of an article
            else:
                keys["context"] = context
            keys = {role: name for role, name in keys.items() if name not in lists}
            self._report(shape, keys, (*keys.values(), *lists))
        own = {role: node[name] for role, name in keys.items() if node[name] is not None}
        return inherited | own if context is None else {**inherited, PARAGRAPH_ID: None, **own}

    def _question(self, question: Any, path: str, shared: dict[str, Any]) -> RawRow:
        number = next(self._numbers)
        if not isinstance(question, dict):
            problem = Problem.of(ProblemCode.NOT_AN_OBJECT, number, found=kind_of(question))
            return RawRow(number, shared, problem, is_paragraph=False)
        own_context = None if shared.get("context") else nodes.context_key(question)
        shape = (path, tuple(question), own_context, ())
        keys = self._keys_by_shape.get(shape)
        if keys is None:
            keys = dict(nodes.question_roles(question))
            if own_context is not None:
                keys["context"] = own_context
            self._report(shape, keys, [name for role, name in keys.items() if role != "kind"], keys.get("kind"))
        cells = {role: question[name] for role, name in keys.items()}
        cells["question"] = nodes.question_text(cells.get("question"))
        cells["answers"] = nodes.answers_of(cells.get("answers"))
        start = cells.pop("start", None)
        if isinstance(cells["answers"], str) and start is not None:
            cells["answers"] = {"text": [cells["answers"]], "answer_start": [start]}
        turn, parent = cells.pop("turn", None), shared.get(PARAGRAPH_ID)
        is_turn = not is_blank(parent) and not is_blank(turn)
        cells["id"] = cells.get("id") or (f"{as_text(parent)}-{as_text(turn)}" if is_turn else "")
        return RawRow(number, {**shared, **cells}, is_paragraph=own_context is not None)

    def _report(self, shape: _Shape, keys: dict[str, str], used: Collection[str], metadata: str | None = None) -> None:
        """Report the keys of objects of a new shape."""
        path, names, *_ = shape
        self.keys.add(self.keys.used, path, [name for name in names if name in used])
        self.keys.add(self.keys.metadata, path, [] if metadata is None else [metadata])
        self.keys.add(self.keys.unused, path, [name for name in names if name not in used and name != metadata])
        if len(self._keys_by_shape) < _MAX_KEYS:
            self._keys_by_shape[shape] = keys


def _has_context(child: Any) -> bool:
    items = child if isinstance(child, list) else [child]
    return any(isinstance(item, dict) and nodes.context_key(item) is not None for item in items[:_SAMPLE_ITEMS])


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _broken(place: str, value: object, expected: str) -> RawRow:
    problem = Problem.of(ProblemCode.BROKEN_PART, place=place, found=kind_of(value), expected=expected)
    return RawRow(0, {}, problem, asks=False)


def flat_opener(items: Items) -> Opener | None:
    """Return what opens the rows of a tree's questions; None if it has none, or the first have a passage as text.

    Also None if some of the outer objects ask themselves: then others among them are rows without a question.
    """
    if any(map(nodes.has_question, islice(items(), _SAMPLE_ITEMS))):
        return None
    first = [row for row in islice(_rows(items(), "", {}), _SAMPLE_ITEMS) if isinstance(row, dict)]
    if not any(map(nodes.has_question, first)) or any(map(_has_text, first)):
        return None
    return item_opener(lambda: ((number, row, row) for number, row in enumerate(_rows(items(), "", {}), 1)))


def _has_text(row: Node) -> bool:
    key = nodes.context_key(row)
    return key is not None and isinstance(row[key], str)


def _rows(items: Iterable[Any], path: str, inherited: Node) -> Iterator[Any]:
    """Yield the rows of a list; what is no object is yielded as it is, and becomes a row with a problem."""
    for item in items:
        if isinstance(item, list):
            yield from _rows(item, path, inherited)
        elif not isinstance(item, dict) or _is_row(item):
            yield _question(item, inherited)
        else:
            yield from _node_rows(item, path, inherited)


def _is_row(node: Node) -> bool:
    """Whether an object asks a question, also a broken one that is a list of texts."""
    name = nodes.question_roles(node).get("question", "")
    is_list = isinstance(node.get(name), list) and not nodes.objects_in(node[name])
    return nodes.has_question(node) or is_list


def _node_rows(node: Node, path: str, inherited: Node) -> Iterator[Any]:
    lists = nodes.question_lists(node)
    inner = {name: child for name, child in nodes.children(node, known=lists) if nodes.is_nested(child)}
    if not lists and not inner:
        yield _question(node, inherited)  # passages alone, or a row with a problem
        return
    used = {*lists, *inner, *nodes.joined_answers(node, lists)}
    roles = nodes.passage_roles(node)
    own = {roles.get("title"), roles.get(SPLIT), nodes.context_key(node)}
    shared = dict(inherited)
    for name, value in node.items():
        if name not in used:
            is_kept = name in own or (nodes.is_passage_list_name(name) and passages_in(value))
            shared[name if is_kept else _joined(path, name)] = value
    for questions in lists.values():
        yield from (_question(question, shared) for question in questions)
    for name, child in inner.items():
        inner_path = _joined(path, name)
        if isinstance(child, list):
            yield from _rows(child, f"{inner_path}[]", shared)
        else:
            yield from _rows([child], inner_path, shared)


def _question(question: Any, shared: Node) -> Any:
    if not isinstance(question, dict):
        return question
    keys = nodes.question_roles(question)
    read = {"question": nodes.question_text, "answers": nodes.answers_of} if nodes.has_question(question) else {}
    cells = {name: read[role](question[name]) for role, name in keys.items() if role in read}
    return {**shared, **question, **cells}
