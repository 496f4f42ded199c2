"""Test runs, and helpers to use the Train page and its form."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Selectbox

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.jobs.processes import this_process
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.training.recipes import RECIPES
from mrc_workbench.training.runs import Run, create_run, new_plan
from mrc_workbench.workbench.views.ui.words import catalog
from tests.doubles import small_set
from tests.workbench.views.driving import run, unfolded

EN = catalog("en")
SCORES: dict[str, Any] = {
    "before": {"recall@1": 0.5, "recall@5": 0.6, "recall@10": 0.7, "mrr@10": 0.55, "ndcg@10": 0.6},
    "after": {"recall@1": 0.6, "recall@5": 0.7, "recall@10": 0.8, "mrr@10": 0.65, "ndcg@10": 0.7},
    "bm25": {"recall@1": 0.7, "recall@5": 0.65, "recall@10": 0.75, "mrr@10": 0.6, "ndcg@10": 0.65},
    "questions": 48,
    "seconds": 9.2,
}


def page() -> None:
    from mrc_workbench.workbench.views import sidebar
    from mrc_workbench.workbench.views.train import page as train_page

    sidebar.draw()
    train_page.draw()


def form_page() -> None:
    import streamlit as st

    from mrc_workbench.workbench.views.resources.sets import selected_set
    from mrc_workbench.workbench.views.train.base import pick_base, pick_objective
    from mrc_workbench.workbench.views.train.page import draw_form

    kind = st.query_params.get("train", "bi-encoder")
    base = pick_base(kind)
    data = selected_set()
    draw_form(kind, base, pick_objective(kind, base, data), data)


def unopened(page: Callable[[], None], *, whole: bool = True, **address: str) -> AppTest:
    """Return an English page that has not run yet; `whole` expands the groups of the form."""
    test = AppTest.from_function(page, default_timeout=60)
    test.query_params.update({"lang": "en", **address})
    return unfolded(test, *RECIPES) if whole else test


def stored_dataset(question_set: QuestionSet | None = None) -> StoredSet:
    return save_question_set(question_set or small_set())


def create_test_run(
    state: State,
    kind: str = BI_ENCODER,
    name: str = "first",
    base: str = "",
    *,
    split: SplitOptions | None = None,
    options: Mapping[str, Any] | None = None,
    **status: Any,
) -> Run:
    dataset = stored_dataset()
    suited_to = RECIPES[kind].options.defaults_for
    plan_options = replace(suited_to(base) if base else suited_to(), **(options or {}))
    plan = new_plan(kind, name, (dataset.key, dataset.name, dataset.fingerprint), split or SplitOptions(), plan_options)
    training_run = create_run(plan)
    pid, started = this_process()
    training_run.write_status(Status(state, pid=pid, pid_started=started, **status))
    return training_run


def with_model(training_run: Run, scores: Mapping[str, Any] | None = None) -> Run:
    """Add a model, and scores if given, to a run."""
    if scores:
        (training_run.folder / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    training_run.model_folder.mkdir()
    (training_run.model_folder / "config.json").write_text("{}", encoding="utf-8")
    return training_run


def with_module(training_run: Run, module: str) -> Run:
    """Set the type of the first module of a model."""
    modules = [{"idx": 0, "name": "0", "path": "", "type": module}]
    (training_run.model_folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    return training_run


def trained_run(kind: str = BI_ENCODER, name: str = "first", **options: Any) -> Run:
    """Return a finished run without scores, with a custom split."""
    return with_model(create_test_run(State.DONE, kind, name, split=SplitOptions(0.15, 0.25, 3), options=options))


def done_run(kind: str = BI_ENCODER, name: str = "first", base: str = "", **changed: Any) -> Run:
    return with_model(create_test_run(State.DONE, kind, name, base, seconds=9.2), SCORES | changed)


def widgets(app: AppTest) -> list[Any]:
    return [*app.number_input, *app.selectbox, *app.checkbox, *app.text_input]


def field(app: AppTest, name: str, kind: str = BI_ENCODER) -> Any:
    """Return the widget of an option."""
    return next(widget for widget in widgets(app) if widget.key == f"train_{kind}_{name}")


def base_box(app: AppTest) -> Selectbox:
    return next(box for box in app.selectbox if str(box.key).startswith("base_"))


def field_names(app: AppTest, kind: str = BI_ENCODER) -> set[str]:
    """Return the names of the options with a field."""
    known = {known.name for known in fields(RECIPES[kind].options)}
    return {str(widget.key).removeprefix(f"train_{kind}_") for widget in widgets(app)} & known


def button(app: AppTest, key: str) -> Any:
    return next(button for button in app.button if button.label == EN[f"train.{key}"])


def press(app: AppTest, key: str) -> AppTest:
    """Press the button with this locale key, and rerun the page."""
    button(app, key).click()
    return run(app)


def click(app: AppTest, start: str) -> AppTest:
    """Press the first button whose widget key starts with this text, and rerun the page."""
    next(element for element in app.button if str(element.key).startswith(start)).click()
    return run(app)


def enter(app: AppTest, kind: str = BI_ENCODER, /, **values: Any) -> AppTest:
    """Fill in fields of the form, and rerun the page."""
    for name, value in values.items():
        field(app, name, kind).set_value(value)
    return run(app)


def start_button(app: AppTest) -> Any:
    return next(button for button in app.button if str(button.key).startswith("train_start_"))


def labels(app: AppTest) -> list[str]:
    return [button.label for button in app.button]


def texts(app: AppTest) -> str:
    elements = [*app.markdown, *app.caption, *app.info, *app.error, *app.warning, *app.title, *app.subheader]
    return "\n".join([*(str(element.value) for element in elements), *progress_texts(app)])


def progress_texts(app: AppTest) -> list[str]:
    return [bar.proto.text for bar in app.get("progress")]


def with_base(app: AppTest, base: str, objective: str = "") -> AppTest:
    app.query_params["base"] = base
    if objective:
        app.query_params["objective"] = objective
    return run(app)
