"""Columns say what they hold in the person's language, and what downloads a table makes it when it is asked for."""

from typing import Any

import pandas as pd
import pytest
import streamlit as st

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


def test_a_column_is_named_explained_and_written_and_a_download_made_when_it_is_asked_for() -> None:
    app = opened(page)
    columns: dict[str, dict[str, Any]] = app.session_state["columns"]
    assert {"compare.difference_help", "column.question_help"} <= EN.keys()  # and yet some need no explanation
    assert {name: (column["label"], column["help"]) for name, column in columns.items()} == {
        "retriever": (EN["compare.retriever"], EN.get("compare.retriever_help")),
        "low": (EN["compare.low"], EN["compare.interval_help"]),
        "high": (EN["compare.high"], EN["compare.interval_help"]),
        "p_holm": ("p (Holm)", EN["where.p_holm_help"]),
        "recall@5": ("R@5", EN["help.recall"]),  # short unless a label is given
        "ndcg@10": ("Its nDCG@10", EN["help.ndcg"]),
        "depth": (EN["where.reads"], EN["where.reads_help"]),
        "difference": (EN["compare.difference"], None),
        "question": (EN["column.question"], None),
        "known": (EN["why.term_known"], EN["why.term_known_help"]),
    }
    assert (columns["retriever"]["pinned"], columns["retriever"]["width"]) == (True, 170)
    assert columns["high"]["type_config"]["format"] == "%+.2f"
    (button,) = app.get("download_button")  # the table was not made
    assert (button.label, button.help) == (EN["data_page.download_split"], EN["data_page.download_split_help"])


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
