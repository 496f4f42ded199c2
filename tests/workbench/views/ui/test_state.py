"""Choices that lie in the address: read from it, put there, remembered by the other pages."""

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.workbench.views.ui import state
from mrc_workbench.workbench.views.ui.state import VISIT, distinct_labels
from tests.workbench.views.driving import opened, run


def page() -> None:
    import streamlit as st

    from mrc_workbench.workbench.views.compare.controls import tie
    from mrc_workbench.workbench.views.ui.state import choose, choose_several

    usual = st.session_state.get("usual", "b")
    st.text(choose(st.segmented_control, "one", "One", ["a", "b", "c"], "b"))
    st.text(choose(st.selectbox, "other", "Other", ["a", "b", "c"], usual, follows=True))
    st.text("|".join(choose_several(st.pills, "several", "Several", ["a", "b", "c"], ["b", "c"], key="several_box")))
    st.text_input("Words", **tie("words", st.query_params.get("words", ""), "within"))


def values(app: AppTest) -> list[str]:
    return [text.value for text in app.text]


def test_an_address_chooses_and_without_one_or_where_it_is_wrong_it_is_the_usual() -> None:
    app = opened(page)
    assert values(app) == ["b", "b", "b|c"]
    assert app.segmented_control[0].value == "b"
    assert app.query_params["one"] == "b"
    assert not {"other", "several", "words"} & app.query_params.keys()
    app = opened(page, one="c", other="a", several="c|x|a", words="말")
    assert values(app) == ["c", "a", "a|c"]
    assert app.query_params["several"] == "a|c"
    assert (app.selectbox[0].value, app.pills[0].value, app.text_input[0].value) == ("a", ["a", "c"], "말")
    assert values(opened(page, one="x", other="x", several="x")) == ["b", "b", "b|c"]


def test_what_is_chosen_is_sent_with_every_run_as_what_a_widget_begins_with() -> None:
    """A run that the next one replaces on its way to the browser takes nothing of it along."""
    app = opened(page, one="c", other="c", several="b|c")
    for _ in range(2):
        control, pills, box = app.segmented_control[0].proto, app.pills[0].proto, app.selectbox[0].proto
        assert ([*control.default], box.default, [*pills.default]) == ([2], 2, [1, 2])
        run(app)


def test_what_is_chosen_goes_into_the_address() -> None:
    app = opened(page)
    app.segmented_control[0].set_value("c")
    app.selectbox[0].set_value("a")
    app.pills[0].set_value(["c", "a"])
    assert values(run(app)) == ["c", "a", "a|c"]
    chosen = {name: app.query_params[name] for name in ("one", "other", "several")}
    assert chosen == {"one": "c", "other": "a", "several": "a|c"}
    assert values(opened(page, **chosen)) == ["c", "a", "a|c"]
    app.text_input[0].set_value("  말 ")
    run(app)
    assert app.query_params["words"] == "말"


def test_another_page_remembers_a_choice_that_its_address_does_not_have() -> None:
    app = opened(page, one="c")
    app.session_state[VISIT] = 2
    del app.query_params["one"]
    assert values(run(app))[0] == "c"


def test_a_step_back_shows_what_the_address_says_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(state, "monotonic", lambda: clock)
    app = opened(page, one="a")
    app.segmented_control[0].set_value("c")
    assert values(run(app))[0] == "c"
    clock = 10.0
    app.query_params["one"] = "a"
    assert values(run(app))[0] == "a"
    assert app.segmented_control[0].value == "a"
    del app.query_params["one"]  # an address of before anything was chosen
    assert values(run(app))[0] == "b"


def test_clicks_faster_than_the_address_lose_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "monotonic", lambda: 0.0)
    app = opened(page, one="a")
    app.segmented_control[0].set_value("b")
    run(app)
    for stale in ("a", "b"):  # the browser had not heard of the last choice when it sent the next
        app.query_params["one"] = stale
        app.segmented_control[0].set_value("c")
        assert values(run(app))[0] == "c"
        app.query_params["one"] = stale
        app.pills[0].set_value(["a"])
        assert values(run(app))[0] == "c"
        assert app.query_params["one"] in ("c", ["c"])


def ended_early() -> None:
    import streamlit as st

    from tests.workbench.views.ui.test_state import page

    if st.session_state.get("ends_early"):
        st.stop()
    page()


def test_a_choice_is_kept_until_it_was_drawn_however_long_that_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(state, "monotonic", lambda: clock)
    app = opened(ended_early, one="a")
    app.session_state["ends_early"] = True
    app.segmented_control[0].set_value("c")
    run(app)
    clock, app.session_state["ends_early"], app.query_params["one"] = 10.0, False, "a"
    assert values(run(app))[0] == "c"
    clock, app.query_params["one"] = 20.0, "a"
    assert values(run(app))[0] == "a"  # by now the address is what a person sees


def test_an_address_counts_on_a_page_that_is_opened_though_it_was_chosen_before() -> None:
    app = opened(page, one="a")
    app.segmented_control[0].set_value("b")
    run(app)
    app.session_state[VISIT] = 2
    app.query_params["one"] = "a"
    assert values(run(app))[0] == "a"


def test_a_choice_taken_away_is_the_usual_again() -> None:
    app = opened(page, one="c", several="a")
    app.segmented_control[0].set_value(None)
    app.pills[0].set_value([])
    assert values(run(app)) == ["b", "b", ""]
    assert values(run(app)) == ["b", "b", ""]
    assert app.segmented_control[0].value == "b"
    assert values(opened(page, several="")) == ["b", "b", "b|c"]  # a session of its own


def test_what_follows_others_is_not_pinned_before_it_is_chosen() -> None:
    app = opened(page)
    app.session_state["usual"] = "c"
    assert values(run(app))[1] == "c"
    app.selectbox[0].set_value("b")
    run(app)
    app.session_state["usual"] = "a"
    assert values(run(app))[1] == "b"


def test_a_change_takes_what_hangs_on_it_out_of_the_address() -> None:
    app = opened(page, within="3")
    app.text_input[0].set_value("말")
    run(app)
    assert app.query_params["words"] == "말"
    assert "within" not in app.query_params
    app.text_input[0].set_value("")
    run(app)
    assert "words" not in app.query_params


def test_a_step_back_shows_the_several_choices_of_the_address_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(state, "monotonic", lambda: clock)
    app = opened(page, several="a|b")
    app.pills[0].set_value(["c"])
    assert values(run(app))[2] == "c"
    app.query_params["several"] = "a|b"  # a browser that has not heard of the click yet
    assert values(run(app))[2] == "c"
    clock, app.query_params["several"] = 10.0, "a|b"  # by now it went back
    assert values(run(app))[2] == "a|b"
    assert [*app.pills[0].value] == ["a", "b"]


def test_a_default_that_the_app_puts_into_the_address_still_follows_others() -> None:
    def assuming() -> None:
        import streamlit as st

        from mrc_workbench.workbench.views.ui.state import assume, is_assumed
        from tests.workbench.views.ui.test_state import page

        page()
        if st.session_state.get("assumes") and ("other" not in st.query_params or is_assumed("other")):
            assume("other", st.session_state.get("usual", "b"))
            st.query_params["other"] = st.session_state.get("usual", "b")

    app = opened(assuming)
    app.session_state["assumes"] = True
    assert run(app).query_params["other"] in ("b", ["b"])
    app.session_state["usual"] = "c"
    assert values(run(app))[1] == "c"
    assert app.query_params["other"] in ("c", ["c"])
    app.selectbox[0].set_value("a")
    run(app)
    app.session_state["usual"] = "b"
    assert values(run(app))[1] == "a"


def test_no_two_options_have_the_same_label_and_each_can_be_chosen() -> None:
    called = {"a": "질문", "b": "질문 (2)", "c": "질문", "d": "질문", "e": ""}
    labels = {"a": "질문", "b": "질문 (2)", "c": "질문 (3)", "d": "질문 (4)", "e": "e"}
    assert distinct_labels(called, called.get) == labels

    def alike() -> None:
        import streamlit as st

        from mrc_workbench.workbench.views.ui.state import choose

        st.text(choose(st.selectbox, "one", "One", ["a", "b"], "a", format_func=lambda _: "the same"))

    app = opened(alike)
    app.selectbox[0].set_value("b")
    assert values(run(app)) == ["b"]
    assert values(run(app)) == ["b"]
