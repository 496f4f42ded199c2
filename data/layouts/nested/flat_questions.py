"""Questions at any level of a tree without a passage above them, as rows: each with its own passages, or without any.

A row has the keys of its question, and the title, the part and the lists of passages of the objects around it. Other
keys of these objects are columns named by their path, such as `data[].topic`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from mrc_workbench.data.formats.tables import Table
from mrc_workbench.data.formats.text_tables import item_opener
from mrc_workbench.data.layouts.nested.passage_lists import passages_in
from mrc_workbench.data.layouts.nested.tree_nodes import (
    SPLIT,
    answers_of,
    children,
    context_key,
    has_question,
    is_nested,
    is_passage_list_name,
    joined_answers,
    objects_in,
    passage_roles,
    question_lists,
    question_roles,
    question_text,
)

Items = Callable[[], Iterable[Any]]
Node = Mapping[str, Any]

_SAMPLE = 50


def flat_opener(items: Items) -> Callable[[], Table] | None:
    """Return what opens the rows of a tree's questions; None if it has none, or the first have a passage as text.

    Also None if some of the outer objects ask themselves: then others among them are rows without a question.
    """
    if any(map(has_question, islice(items(), _SAMPLE))):
        return None
    first = [row for row in islice(_rows(items(), "", {}), _SAMPLE) if isinstance(row, dict)]
    if not any(map(has_question, first)) or any(map(_has_text, first)):
        return None
    return item_opener(lambda: ((number, row, row) for number, row in enumerate(_rows(items(), "", {}), 1)))


def _has_text(row: Node) -> bool:
    key = context_key(row)
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
    name = question_roles(node).keys.get("question", "")
    is_list = isinstance(node.get(name), list) and not objects_in(node[name])
    return has_question(node) or is_list


def _node_rows(node: Node, path: str, inherited: Node) -> Iterator[Any]:
    lists = question_lists(node)
    inner = {name: child for name, child in children(node, known=lists) if is_nested(child)}
    if not lists and not inner:
        yield _question(node, inherited)  # passages alone, or a row with a problem
        return
    used = {*lists, *inner, *joined_answers(node, lists)}
    roles = passage_roles(node).keys
    own = {roles.get("title"), roles.get(SPLIT), context_key(node)}
    shared = dict(inherited)
    for name, value in node.items():
        if name not in used:
            is_kept = name in own or (is_passage_list_name(name) and passages_in(value))
            shared[name if is_kept else f"{path}.{name}" if path else name] = value
    for questions in lists.values():
        yield from (_question(question, shared) for question in questions)
    for name, child in inner.items():
        inner_path = f"{path}.{name}" if path else name
        if isinstance(child, list):
            yield from _rows(child, f"{inner_path}[]", shared)
        else:
            yield from _rows([child], inner_path, shared)


def _question(question: Any, shared: Node) -> Any:
    if not isinstance(question, dict):
        return question
    keys = question_roles(question).keys
    read = {"question": question_text, "answers": answers_of}
    cells = {name: read[role](question[name]) for role, name in keys.items() if role in read and has_question(question)}
    return {**shared, **question, **cells}
