"""The sidebar: which dataset is in use, also where several have the same name."""

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.store import keep
from tests.workbench.views.driving import opened, run


def named_alike(*texts: str) -> list[str]:
    """Store a set of one question for each text, all called the same; return their keys."""
    sets = [
        QuestionSet("질문", (Passage("p1", text),), (Question(f"q-{text}", f"{text}?", relevant=("p1",)),))
        for text in texts
    ]
    return [keep(one).key for one in sets]


def sidebar() -> None:
    import streamlit as st

    from mrc_workbench.workbench.views.resources.sets import chosen_set
    from mrc_workbench.workbench.views.sidebar import draw

    draw()
    st.button("again")
    st.text(chosen_set().key)


def test_a_set_stays_in_use_beside_others_of_its_name() -> None:
    for key in named_alike("서울", "부산", "대구"):
        app = opened(sidebar, data=key)
        box = app.sidebar.selectbox[0]
        assert len({*box.options}) == len(box.options)
        run(app)
        app.button[0].click()
        assert run(app).text[0].value == key


def test_each_of_the_sets_of_one_name_can_be_chosen() -> None:
    keys = named_alike("인천", "울산")
    app = opened(sidebar, data=keys[0])
    for key in reversed(keys):
        app.sidebar.selectbox[0].set_value(key)
        assert run(app).text[0].value == key
