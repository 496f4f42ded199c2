import numpy as np
import pytest

from data.formats.rows import answers_in


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("서울", ("서울",)),
        (" 서울 ", ("서울",)),
        ("[1] 항목", ("[1] 항목",)),
        ("", ()),
        (None, ()),
        (float("nan"), ()),
        (1989, ("1989",)),
        (1989.0, ("1989",)),
        (["서울", "서울", "", "한양"], ("서울", "한양")),
        ('["서울", "한양"]', ("서울", "한양")),
        ("['서울', '한양']", ("서울", "한양")),
        ("['서울' '한양']", ("서울", "한양")),
        ({"text": ["서울"], "answer_start": [3]}, ("서울",)),
        ({"text": [], "answer_start": []}, ()),
        ([{"text": "서울", "answer_start": 3}, {"text": "한양"}], ("서울", "한양")),
        ({"text": np.array(["서울"], dtype=object), "answer_start": np.array([3])}, ("서울",)),
        (np.array(["서울", "한양"], dtype=object), ("서울", "한양")),
        ("{'text': array(['서울', '한양'], dtype=object), 'answer_start': array([1, 2])}", ("서울", "한양")),
        ("{'text': ['It\\'s'], 'answer_start': [1]}", ("It's",)),
        ("{'answer_start': [1]}", ()),
        ("[" * 5000, ("[" * 5000,)),
        ("[" * 20 + "'가'" + "]" * 20, ()),
    ],
)
def test_every_way_a_cell_holds_answers(cell: object, expected: tuple[str, ...]) -> None:
    assert tuple(answers_in(cell)) == expected


@pytest.mark.parametrize(
    ("cell", "starts"),
    [
        ("서울", [-1]),
        ({"text": ["서울", "한양"], "answer_start": [3, 0]}, [3, 0]),
        ({"text": ["서울", "한양"], "answer_start": [3]}, [-1, -1]),
        ({"text": "서울", "answer_start": 7}, [7]),
        ([{"text": "서울", "answer_start": "3"}, {"text": "한양"}, {"text": "서울", "answer_start": 9}], [3, -1]),
        ([{"text": "서울"}, {"text": "서울", "answer_start": 9}], [9]),
        ({"text": np.array(["서울"], dtype=object), "answer_start": np.array([3])}, [3]),
        ('{"text": ["서울"], "answer_start": [3]}', [3]),
        ({"text": ["가", "나", "다", "라"], "answer_start": [-4, "x", None, True]}, [-1, -1, -1, -1]),
    ],
)
def test_where_an_answer_begins_is_told_where_the_file_says_so(cell: object, starts: list[int]) -> None:
    assert [*answers_in(cell).values()] == starts
