import re

import pytest

from views.data.passages import _marked

TEXT = "서울은 수도이다. 서울은 크다."


@pytest.mark.parametrize(
    ("answers", "places"),
    [
        (["서울"], [(0, "서울")]),
        (["수도", "서울"], [(0, "서울"), (4, "수도")]),
        (["서울은 수", "수도"], [(0, "서울은 수도")]),  # they overlap
        (["없다", ""], []),
    ],
)
def test_answers_are_marked_where_they_first_stand(answers: list[str], places: list[tuple[int, str]]) -> None:
    pieces = re.split(r"</?mark[^>]*>", re.sub(r"</?div[^>]*>", "", _marked(TEXT, answers)))
    assert "".join(pieces) == TEXT
    starts = [sum(map(len, pieces[:place])) for place in range(1, len(pieces), 2)]
    assert list(zip(starts, pieces[1::2], strict=True)) == places
