"""Arguments that `compare` and `search` refuse, each with an `ApiError` that names the argument."""

from typing import Any

import numpy as np
import pytest

import mrc_workbench as mrc
from mrc_workbench.api.display import ApiError

pytestmark = pytest.mark.usefixtures("kept_work")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ks": [0]}, r"ks must be a list of whole numbers from 1 to .*, not \[0\]"),
        ({"ks": []}, "ks must be"),
        ({"ks": "x"}, "ks must be"),
        ({"ks": 5}, "ks must be"),
        ({"ks": [1.5]}, "ks must be"),
        ({"relevant_from": 0}, "relevant_from must be a whole number of 1 or more, not 0"),
        ({"relevant_from": "x"}, "relevant_from must be"),
        ({"relevant_from": 2}, "no question of the dataset has a relevant passage of grade 2 or higher"),
        ({"split": "test"}, "split must be a SplitOptions"),
        ({"part": 5}, "part must be one of"),
    ],
)
def test_compare_refuses_wrong_values(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ApiError, match=message):
        mrc.compare("sample", "bm25", progress=False, **arguments)


def test_compare_takes_numbers_of_numpy() -> None:
    result = mrc.compare("sample", "bm25", ks=np.array([1, 3]), progress=False)
    assert result.comparison.experiment.ks == (1, 3)


@pytest.mark.parametrize(
    ("query", "k", "message"),
    [
        (None, 3, "the query must be text, not None"),
        (["a"], 3, "the query must be text"),
        ("a", 0, "k must be a whole number of 1 or more, not 0"),
        ("a", "x", "k must be a whole number"),
        ("a", 2.5, "k must be a whole number"),
    ],
)
def test_search_refuses_wrong_values(query: Any, k: Any, message: str) -> None:
    with pytest.raises(ApiError, match=message):
        mrc.search("sample", query, k=k, progress=False)
    result = mrc.compare("sample", "bm25", progress=False)
    with pytest.raises(ApiError, match=message):
        result["bm25"].search(query, k=k, progress=False)


def test_search_takes_one_retriever_of_the_project() -> None:
    with pytest.raises(ApiError, match="search needs a retriever of this project"):
        mrc.search("sample", "a", lambda query, k: [query][:k], progress=False)
