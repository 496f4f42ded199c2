import pytest

from mrc_workbench.data.questions.read import Reading, read
from tests.data.layouts.public_layouts import LAYOUTS, PublicLayout


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
