"""Choices in the address: read, written, and remembered by the other pages."""

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.workbench.views.ui import state
from mrc_workbench.workbench.views.ui.state import VISIT, distinct_labels
from tests.workbench.views.driving import opened, run


def page() -> None:
    import streamlit as st

    from mrc_workbench.workbench.views.compare.controls import bind_to_address
    from mrc_workbench.workbench.views.ui.state import choose, choose_several

    default = st.session_state.get("default", "b")
    st.text(choose(st.segmented_control, "first", "First", ["a", "b", "c"], "b"))
    st.text(choose(st.selectbox, "other", "Other", ["a", "b", "c"], default, follows=True))
    st.text("|".join(choose_several(st.pills, "several", "Several", ["a", "b", "c"], ["b", "c"], key="several_box")))
    st.text_input("Words", **bind_to_address("words", st.query_params.get("words", ""), "within"))


def values(app: AppTest) -> list[str]:
    return [text.value for text in app.text]


def test_reads_choice_from_address_or_uses_default() -> None:
    app = opened(page)
    assert values(app) == ["b", "b", "b|c"]
    assert app.segmented_control[0].value == "b"
    assert app.query_params["first"] == "b"
    assert not {"other", "several", "words"} & app.query_params.keys()
    app = opened(page, first="c", other="a", several="c|x|a", words="말")
    assert values(app) == ["c", "a", "a|c"]
    assert app.query_params["several"] == "a|c"
    assert (app.selectbox[0].value, app.pills[0].value, app.text_input[0].value) == ("a", ["a", "c"], "말")
    assert values(opened(page, first="x", other="x", several="x")) == ["b", "b", "b|c"]


def test_sends_choice_as_initial_value_with_every_run() -> None:
    """The browser may receive only the second of two runs."""
    app = opened(page, first="c", other="c", several="b|c")
    for _ in range(2):
        control = app.segmented_control[0].proto
        pills = app.pills[0].proto
        box = app.selectbox[0].proto
        assert ([*control.default], box.default, [*pills.default]) == ([2], 2, [1, 2])
        run(app)


def test_writes_choice_to_address() -> None:
    app = opened(page)
    app.segmented_control[0].set_value("c")
    app.selectbox[0].set_value("a")
    app.pills[0].set_value(["c", "a"])
    assert values(run(app)) == ["c", "a", "a|c"]
    parameters = {name: app.query_params[name] for name in ("first", "other", "several")}
    assert parameters == {"first": "c", "other": "a", "several": "a|c"}
    assert values(opened(page, **parameters)) == ["c", "a", "a|c"]
    app.text_input[0].set_value("  말 ")
    run(app)
    assert app.query_params["words"] == "말"


def test_remembers_choice_on_another_page() -> None:
    app = opened(page, first="c")
    app.session_state[VISIT] = 2
    del app.query_params["first"]
    assert values(run(app))[0] == "c"


def test_restores_choice_of_address_after_going_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(state, "monotonic", lambda: clock)
    app = opened(page, first="a")
    app.segmented_control[0].set_value("c")
    assert values(run(app))[0] == "c"
    clock = 10.0
    app.query_params["first"] = "a"
    assert values(run(app))[0] == "a"
    assert app.segmented_control[0].value == "a"
    del app.query_params["first"]  # an address from before the selection
    assert values(run(app))[0] == "b"


def test_keeps_choices_clicked_faster_than_address_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "monotonic", lambda: 0.0)
    app = opened(page, first="a")
    app.segmented_control[0].set_value("b")
    run(app)
    for stale in ("a", "b"):  # the browser had not received the last choice when it sent the next
        app.query_params["first"] = stale
        app.segmented_control[0].set_value("c")
        assert values(run(app))[0] == "c"
        app.query_params["first"] = stale
        app.pills[0].set_value(["a"])
        assert values(run(app))[0] == "c"
        assert app.query_params["first"] in ("c", ["c"])


def ended_early() -> None:
    import streamlit as st

    from tests.workbench.views.ui.test_state import page

    if st.session_state.get("ends_early"):
        st.stop()
    page()


def test_keeps_choice_until_it_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(state, "monotonic", lambda: clock)
    app = opened(ended_early, first="a")
    app.session_state["ends_early"] = True
    app.segmented_control[0].set_value("c")
    run(app)
    clock = 10.0
    app.session_state["ends_early"] = False
    app.query_params["first"] = "a"
    assert values(run(app))[0] == "c"
    clock = 20.0
    app.query_params["first"] = "a"
    assert values(run(app))[0] == "a"  # by now the user sees the address


def test_prefers_address_over_earlier_choice_on_opened_page() -> None:
    app = opened(page, first="a")
    app.segmented_control[0].set_value("b")
    run(app)
    app.session_state[VISIT] = 2
    app.query_params["first"] = "a"
    assert values(run(app))[0] == "a"


def test_restores_default_if_choice_is_removed() -> None:
    app = opened(page, first="c", several="a")
    app.segmented_control[0].set_value(None)
    app.pills[0].set_value([])
    assert values(run(app)) == ["b", "b", ""]
    assert values(run(app)) == ["b", "b", ""]
    assert app.segmented_control[0].value == "b"
    assert values(opened(page, several="")) == ["b", "b", "b|c"]  # a new session


def test_leaves_dependent_default_out_of_address() -> None:
    app = opened(page)
    app.session_state["default"] = "c"
    assert values(run(app))[1] == "c"
    app.selectbox[0].set_value("b")
    run(app)
    app.session_state["default"] = "a"
    assert values(run(app))[1] == "b"


def test_removes_dependent_parameters_on_change() -> None:
    app = opened(page, within="3")
    app.text_input[0].set_value("말")
    run(app)
    assert app.query_params["words"] == "말"
    assert "within" not in app.query_params
    app.text_input[0].set_value("")
    run(app)
    assert "words" not in app.query_params


def test_restores_multiple_choices_after_going_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(state, "monotonic", lambda: clock)
    app = opened(page, several="a|b")
    app.pills[0].set_value(["c"])
    assert values(run(app))[2] == "c"
    app.query_params["several"] = "a|b"  # a browser that has not received the click
    assert values(run(app))[2] == "c"
    # by now the user has gone back
    clock = 10.0
    app.query_params["several"] = "a|b"
    assert values(run(app))[2] == "a|b"
    assert [*app.pills[0].value] == ["a", "b"]


def test_assumed_default_still_follows_other_choices() -> None:
    def assuming() -> None:
        import streamlit as st

        from mrc_workbench.workbench.views.ui.state import assume, is_assumed
        from tests.workbench.views.ui.test_state import page

        page()
        if st.session_state.get("assumes") and ("other" not in st.query_params or is_assumed("other")):
            assume("other", st.session_state.get("default", "b"))
            st.query_params["other"] = st.session_state.get("default", "b")

    app = opened(assuming)
    app.session_state["assumes"] = True
    assert run(app).query_params["other"] in ("b", ["b"])
    app.session_state["default"] = "c"
    assert values(run(app))[1] == "c"
    assert app.query_params["other"] in ("c", ["c"])
    app.selectbox[0].set_value("a")
    run(app)
    app.session_state["default"] = "b"
    assert values(run(app))[1] == "a"


def test_numbers_equal_labels_so_that_each_can_be_selected() -> None:
    called = {"a": "질문", "b": "질문 (2)", "c": "질문", "d": "질문", "e": ""}
    labels = {"a": "질문", "b": "질문 (2)", "c": "질문 (3)", "d": "질문 (4)", "e": "e"}
    assert distinct_labels(called, called.get) == labels

    def alike() -> None:
        import streamlit as st

        from mrc_workbench.workbench.views.ui.state import choose

        st.text(choose(st.selectbox, "first", "First", ["a", "b"], "a", format_func=lambda _: "the same"))

    app = opened(alike)
    app.selectbox[0].set_value("b")
    assert values(run(app)) == ["b"]
    assert values(run(app)) == ["b"]
