"""The queue on the Train page: what waits, in which order, and how it gets out."""

import pytest
from streamlit.testing.v1 import AppTest

from jobs.folder import State
from tests.views.driving import run
from tests.views.train.worlds import EN, click, made_run, start_button, texts
from training.options.rankers import CROSS_ENCODER
from training.runs.runs import Run
from training.runs.sweeps import QUEUE

pytestmark = pytest.mark.usefixtures("no_worker")


@pytest.fixture
def waiting() -> list[Run]:
    """Three runs, the one made last waiting longest."""
    third, second = made_run(State.QUEUED, name="third", queued=300.0), made_run(State.QUEUED, name="*2*", queued=200.0)
    first = made_run(State.QUEUED, CROSS_ENCODER, "first", queued=100.0)
    return [first, second, third]


def test_no_queue_is_drawn_where_nothing_waits(app: AppTest) -> None:
    made_run(State.RUNNING)
    assert not [heading for heading in run(app).subheader if "queue" in str(heading.value)]


def test_what_waits_is_shown_in_its_order(app: AppTest, waiting: list[Run]) -> None:
    run(app)
    assert EN["train.queue"].format(count=3) in [heading.value for heading in app.subheader]
    rows = [str(text.value) for text in app.markdown if str(text.value).startswith(("**1", "**2", "**3"))]
    next_one = f" :blue-badge[{EN['train.queue_next']}]"
    assert rows == [f"**1\\. first**{next_one}", "**2\\. \\*2\\***", "**3\\. third**"]
    about = next(str(text.value) for text in app.caption if "waiting since" in str(text.value))
    assert "Cross-encoder · base Starter · data small" in about
    assert "1970\\-01\\-01 00\\:01" in about
    assert start_button(app).label == EN["train.enqueue"]


def test_what_is_taken_out_is_stopped_and_can_be_resumed(app: AppTest, waiting: list[Run]) -> None:
    first, second, third = waiting
    click(run(app), f"take_out_{second.id}")
    assert QUEUE.queued() == [first, third]
    assert second.status().state is State.STOPPED
    assert EN["train.came_nowhere"] in texts(app)
    click(app, f"resume_{second.id}")
    assert QUEUE.queued() == [first, third, second]


def test_what_waits_can_be_deleted_after_a_question(app: AppTest, waiting: list[Run]) -> None:
    first, second, third = waiting
    click(run(app), f"delete_{first.id}")
    assert first.folder.exists()
    click(app, "delete_yes")
    assert not first.folder.exists()
    assert QUEUE.queued() == [second, third]


def test_the_page_follows_what_others_do_with_the_queue(app: AppTest, waiting: list[Run]) -> None:
    made_run(State.STOPPED, name="fourth")
    run(app)
    for one in waiting:
        one.delete() if one.asked_to_stop else one.ask_to_stop()
        one.delete()
    run(app)
    assert not [button for button in app.button if str(button.key).startswith("take_out_")]
    assert start_button(app).label == EN["train.start"]
