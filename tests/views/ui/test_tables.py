"""Columns say what they hold in the person's language, and what downloads a table makes it when it is asked for."""

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.views.driving import opened
from views.ui import tables
from views.ui.words import catalog

EN = catalog("en")


def page() -> None:
    import pandas as pd
    import streamlit as st

    from views.ui import tables

    columns = {
        "retriever": tables.retriever(width=170),
        **tables.interval("%+.2f"),
        "p_holm": tables.p_holm(),
        "recall@5": tables.measure("recall@5"),
        "ndcg@10": tables.measure("ndcg@10", "Its nDCG@10", width="small"),
        "depth": tables.number("where.reads"),
        "difference": tables.number("compare.difference", "%+.3f", ""),
        "question": tables.text("column.question", ""),
        "known": tables.checkbox("why.term_known", width=70),
    }
    st.session_state["columns"] = columns

    def table() -> pd.DataFrame:
        raise LookupError("nobody asked for it")

    tables.draw_csv("data_page.download_split", table, "split.csv")


def columns_of(app: AppTest) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = app.session_state["columns"]
    return found


def test_a_column_is_named_explained_and_written() -> None:
    columns = columns_of(opened(page))
    assert columns["retriever"]["label"] == EN["compare.retriever"]
    assert (columns["retriever"]["pinned"], columns["retriever"]["width"]) == (True, 170)
    assert columns["low"]["label"] == EN["compare.low"]
    assert columns["high"]["help"] == EN["compare.interval_help"]
    assert columns["high"]["type_config"]["format"] == "%+.2f"  # type: ignore[index]
    assert columns["p_holm"]["help"] == EN["where.p_holm_help"]
    assert columns["depth"]["help"] == EN["where.reads_help"]
    assert columns["known"]["help"] == EN["why.term_known_help"]


def test_a_measure_is_short_unless_a_label_is_given_and_explained_by_its_name() -> None:
    columns = columns_of(opened(page))
    assert (columns["recall@5"]["label"], columns["recall@5"]["help"]) == ("R@5", EN["help.recall"])
    assert (columns["ndcg@10"]["label"], columns["ndcg@10"]["help"]) == ("Its nDCG@10", EN["help.ndcg"])


def test_a_column_that_needs_no_explanation_has_none() -> None:
    columns = columns_of(opened(page))
    assert "compare.difference_help" in EN
    assert "column.question_help" in EN
    assert columns["difference"]["help"] is None
    assert columns["question"]["help"] is None


def test_a_download_is_made_when_it_is_asked_for() -> None:
    (button,) = opened(page).get("download_button")  # the table was not made
    assert button.label == EN["data_page.download_split"]
    assert button.help == EN["data_page.download_split_help"]


def test_a_chosen_row_that_is_gone_counts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, object] = {}

    def dataframe(_: pd.DataFrame, **options: object) -> dict[str, dict[str, list[int]]]:
        drawn.update(options)
        return {"selection": {"rows": [1, 7]}}

    monkeypatch.setattr("streamlit.dataframe", dataframe)
    table = pd.DataFrame({"name": ["a", "b"], "key": [1, 2]})
    columns = {"name": st.column_config.TextColumn("Name")}
    assert tables.draw_choice(table, columns, "chosen", "multi-row") == [1]
    assert tables.draw_choice(table.style, columns, "chosen", "multi-row") == [1]
    assert (drawn["column_order"], drawn["selection_mode"], drawn["key"]) == (["name"], "multi-row", "chosen")


def test_a_column_is_as_wide_as_its_longest_name_and_korean_letters_count_twice() -> None:
    given = (["BM25"], ["Dense · multilingual-e5-small 1"], ["가" * 20])
    narrow, latin, korean = map(tables.width_of, given)
    assert narrow < latin
    assert latin >= 7 * 31  # letters
    assert korean == tables.width_of(["ab" * 20])
    assert tables.width_of([]) == narrow
