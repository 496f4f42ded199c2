"""Two hundred mutations of each public layout: they are read or refused, and every lost question is reported."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mrc_workbench.data.problems import DataError
from mrc_workbench.data.questions.read import Reading, read
from tests.data.layouts.mutations import mutated, values_of
from tests.data.layouts.public_layouts import LAYOUTS, QUESTIONS, PublicLayout

SEEDS = range(200)


def _paths(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value that is no object or list, with its path of keys."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, path)
    else:
        yield path, value


def _is_reported(question: str, content: bytes, reading: Reading) -> bool:
    """Whether a problem says that something is missing, or an unused key holds the question."""
    if reading.problem_count or reading.gaps:
        return True
    unused = [name.replace("[]", "") for name in reading.unused_columns]
    paths = [path for value in values_of(content.decode()) for path, text in _paths(value) if text == question]
    return any(f".{name}." in f".{path}." for path in paths for name in unused)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_no_question_of_a_mutated_file_is_lost_in_silence(name: str) -> None:
    refused = 0
    for seed in SEEDS:
        content = mutated(LAYOUTS[name].content, seed)
        try:
            reading = read(content, f"{seed}.json")
        except DataError:
            refused += 1
            continue
        found = {question.text for question in reading.question_set.questions}
        found |= {passage.text for passage in reading.question_set.passages}  # a key may call them so now
        given = [question for question in QUESTIONS if json.dumps(question, ensure_ascii=False).encode() in content]
        lost = [question for question in given if question not in found]
        assert all(_is_reported(question, content, reading) for question in lost), (seed, lost)
    assert refused < len(SEEDS) / 2


def _read(layout: PublicLayout) -> Reading:
    return read(layout.content, "public.json")


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_counts(layout: PublicLayout) -> None:
    found = _read(layout).question_set
    text_of = {passage.id: passage.text for passage in found.passages}
    assert sorted(text_of.values()) == sorted(layout.texts)
    assert [question.text for question in found.questions] == list(layout.questions)
    assert [[text_of[id_] for id_ in question.relevant] for question in found.questions] == [
        [text] for text in layout.texts
    ]
    judged = [grade for question in found.questions for grade in question.grade_of.values()]
    assert judged.count(0) == layout.not_relevant
    assert sum(bool(passage.title) for passage in found.passages) == layout.titles
    assert sum(bool(question.answers) for question in found.questions) == layout.answered
