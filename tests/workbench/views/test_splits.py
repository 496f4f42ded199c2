"""Every page with a split describes it and warns of parts with too few questions."""

from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.split import Part, split
from mrc_workbench.data.store import StoredSet, keep, load
from mrc_workbench.retrieval.report.words import catalog, describe_split, few_questions_warning
from tests.data.split.worlds import chain, tangle
from tests.workbench.views.compare.worlds import compared
from tests.workbench.views.compare.worlds import page as compare_page
from tests.workbench.views.driving import data_page, opened
from tests.workbench.views.train.worlds import page as train_page


def format_text(language: str, key: str, **values: object) -> str:
    return catalog(language)[key].format(**values)


def captions(app: AppTest) -> str:
    return "\n".join(element.value for element in (*app.caption, *app.markdown))


def warnings(app: AppTest) -> list[str]:
    return [element.value for element in app.warning]


@pytest.fixture
def small() -> StoredSet:
    return keep(chain(30, more_passages=9))


@pytest.mark.parametrize("language", ["en", "ko"])
def test_compare_warns_of_few_questions_and_names_split_method(small: StoredSet, language: str) -> None:
    words = partial(format_text, language)
    compared(small, "BM25", part=Part.TEST)
    compared(small, "BM25")
    app = opened(compare_page, part="test", retrievers="BM25", lang=language)
    assert few_questions_warning(6, "compared", words) in warnings(app)
    assert describe_split(split(load(small.key)), words) in captions(app)
    everything = opened(compare_page, part="all", retrievers="BM25", lang=language)
    assert not warnings(everything)
    assert describe_split(split(load(small.key)), words) not in captions(everything)


def test_tune_warns_of_few_validation_questions(small: StoredSet) -> None:
    compared(small, "BM25")
    app = opened(compare_page, view="tune", part="all", retrievers="BM25")
    assert any(warning.startswith("Too few validation questions: 3.") for warning in warnings(app))
    assert "share as few relevant passages as possible" in captions(app)


def test_train_warns_of_small_parts_and_leaks() -> None:
    keep(tangle(120))
    app = opened(train_page)
    assert [warning[:32] for warning in warnings(app)] == ["Too few validation questions: 12"]
    assert "24 of 24 test questions share a relevant passage with a training question" in captions(app)


def test_data_page_and_sidebar_report_published_split() -> None:
    keep(chain(60, parts=["train"] * 35 + ["validation"] * 25))
    app = opened(data_page, look="figures")
    assert "Published split: 31 training, 4 validation and 25 test questions." in captions(app)
    assert any(warning.startswith("Too few validation questions: 4.") for warning in warnings(app))
    assert any("Published split" in (caption.help or "") for caption in app.caption)
