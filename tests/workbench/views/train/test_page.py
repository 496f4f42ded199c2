"""The Train page: the first view, progress of a running training, and ended trainings."""

import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import RESUMABLE, State, Status
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import find
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.comparison.experiment import added_retrievers
from mrc_workbench.training.engine.checkpoints import seal
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER, SPARSE_ENCODER
from mrc_workbench.training.recipes import RECIPES
from mrc_workbench.training.runs import Phase, Run, all_runs
from tests.doubles import small_set
from tests.workbench.views.driving import run, unfolded
from tests.workbench.views.train import worlds
from tests.workbench.views.train.worlds import EN, click, create_test_run, done_run, labels, start_button, texts

UNDER_WAY = {State.QUEUED, State.RUNNING}


def test_displays_only_required_fields_at_first(app: AppTest) -> None:
    run(app)
    assert app.pills(key="train_en").options == [EN["train.kind_bi-encoder"], EN["train.kind_cross-encoder"]]
    entered = [*app.selectbox, *app.text_input, *app.number_input, *app.checkbox, *app.multiselect]
    assert len([element for element in entered if "train" in str(element.key) or "base" in str(element.key)]) == 6
    pressed = [element.label for element in app.button if element in app.main.button]
    assert pressed == [EN["train.ask_estimate"], EN["train.start"]]


def compared(fingerprint: str, part: Part, **means: float) -> SimpleNamespace:
    """Return a stored comparison with these means, and its provenance instead of a folder."""
    kinds = {
        "mix": {"kind": "learned", "retrievers": ["first", "other"]},
        "hybrid": {"kind": "hybrid", "retrievers": ["first"]},
        "trained": {"kind": "dense", "model": "a-run"},
        "mix of trained": {"kind": "learned", "retrievers": ["first", "trained"]},
    }
    specs = [{"name": name, **kinds.get(name, {"kind": "bm25"})} for name in means]
    folder = {"experiment": {"retriever": specs}}
    metrics = {name: {"ndcg@10": value} for name, value in means.items()}
    questions: dict[str, object] = {"data_fingerprint": fingerprint, "part": part, "questions": 480}
    return SimpleNamespace(folder=folder, metrics=metrics, **questions, relevance_level=1, ks=(1, 5, 10))


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[SimpleNamespace]:
    """The stored comparisons, to be filled; the model "a-run" was trained here."""
    comparisons: list[SimpleNamespace] = []
    page = "mrc_workbench.workbench.views.train.page"
    monkeypatch.setattr(f"{page}.list_comparisons", lambda: comparisons)
    monkeypatch.setattr(f"{page}.read_provenance", lambda folder: folder)
    monkeypatch.setattr(f"{page}.find_model_run", lambda model: model == "a-run")
    return comparisons


@pytest.mark.parametrize(
    ("part", "means", "expected"),
    [
        (Part.ALL, {"first": 0.8, "other": 0.85, "hybrid": 0.9, "mix": 0.8676}, ("hybrid", "90.0")),
        (Part.VALIDATION, {"first": 0.886, "mix": 0.88}, ("first", "88.6")),
        (Part.TEST, {"first": 0.8, "mix": 0.88}, ()),  # test questions do not count
        (Part.ALL, {"trained": 0.99, "mix of trained": 0.95, "first": 0.8}, ("first", "80.0")),
        (Part.ALL, {"trained": 0.99, "mix of trained": 0.95}, ()),
    ],
)
def test_displays_untrained_score_of_mix(
    app: AppTest, stored: list[SimpleNamespace], part: Part, means: dict[str, float], expected: tuple[str, ...]
) -> None:
    stored.append(compared(find("sample").fingerprint, part, **means))
    captions = [caption.value for caption in run(app).caption]
    if not expected:
        assert any(EN["train.untrained_unknown"] in caption for caption in captions)
        return
    name, score = expected
    words = {"name": name, "measure": "nDCG@10", "score": score, "questions": "480"}
    assert any(EN["train.untrained"].format(**words) in caption for caption in captions)
    app.query_params["lang"] = "ko"
    korean = "\n".join(caption.value for caption in run(app).caption)
    assert f"nDCG@10 {score}{'이' if score[-1] in '06' else '가'} 나옵니다" in korean


@pytest.mark.parametrize(
    ("earlier_part", "expected"),
    [(Part.ALL, ("late", "88.6")), (Part.VALIDATION, ("first", "77.0"))],  # scores on other questions do not compare
)
def test_untrained_score_is_best_of_all_comparisons(
    app: AppTest, stored: list[SimpleNamespace], earlier_part: Part, expected: tuple[str, str]
) -> None:
    fingerprint = find("sample").fingerprint
    stored.append(compared(fingerprint, Part.ALL, first=0.77))
    stored.append(compared(fingerprint, earlier_part, late=0.886, first=0.7))
    words = {"name": expected[0], "measure": "nDCG@10", "score": expected[1], "questions": "480"}
    assert any(EN["train.untrained"].format(**words) in element.value for element in run(app).caption)


def test_untrained_score_uses_metric_selected_on_compare(app: AppTest, stored: list[SimpleNamespace]) -> None:
    stored.append(compared(find("sample").fingerprint, Part.ALL, first=0.8, other=0.85))
    for name, recall in (("first", 0.9), ("other", 0.88)):
        stored[0].metrics[name]["recall@10"] = recall
    app.session_state["stored_measure"] = "recall"
    words = {"name": "first", "measure": "Recall@10", "score": "90.0", "questions": "480"}
    assert any(EN["train.untrained"].format(**words) in element.value for element in run(app).caption)


def test_selects_other_kind_from_popover(app: AppTest) -> None:
    app.session_state["train_more_kinds_open"] = True
    click(run(app), f"train_kind_{SPARSE_ENCODER}")
    pills = app.pills(key="train_en")
    assert (len(pills.options), pills.value) == (3, SPARSE_ENCODER)
    assert not [element for element in app.button if str(element.key).startswith("train_kind_")]  # closed again
    pills.set_value(CROSS_ENCODER)
    assert len(run(app).pills(key="train_en").options) == 2


@pytest.mark.parametrize("kind", list(RECIPES))
def test_opens_every_kind_by_address(app: AppTest, kind: str) -> None:
    app.query_params["train"] = kind
    assert run(app).pills(key="train_en").value == kind


@pytest.fixture
def running() -> Run:
    training_run = create_test_run(State.RUNNING, phase=Phase.TRAINING, step=30, total_steps=120, seconds_left=100.0)
    training_run.add_measures("bm25", {"recall@10": 0.9, "ndcg@10": 0.8})
    training_run.add_measures("before", {"recall@10": 0.5, "ndcg@10": 0.4})
    for step in range(1, 31):
        logged = {"loss": 1 / step, "learning_rate": step / 1e5, "grad_norm": 2.0, "examples_per_second": 1234.4}
        training_run.add_progress({"step": step, **logged})
    training_run.add_progress({"step": 30, "eval_validation_recall@10": 0.625, "eval_validation_ndcg@10": 0.5})
    (training_run.folder / "log.txt").write_text("\n".join(f"line {n}" for n in range(100)), encoding="utf-8")
    return training_run


def test_displays_progress_of_running_training_by_any_metric(app: AppTest, running: Run) -> None:
    run(app)
    expected = ["30 / 120", "0.8 / 3", "1 min 40 s", "1,234 per second", "0.0333", "0.0003", "2.000", "50.00%"]
    assert [metric.value for metric in app.metric] == expected
    loss, measured, rate, norm = (table.value for table in app.dataframe)
    assert loss.to_numpy()[[0, -1]].tolist() == [[1, 1.0], [30, 1 / 30]]
    assert measured.to_dict("list") == {"Step": [0, 30], "nDCG@10": [0.4, 0.5], "BM25": [0.8, 0.8]}
    assert (rate["Learning rate"].iloc[-1], norm["Gradient norm"].unique().tolist()) == (30 / 1e5, [2.0])
    assert app.code[0].value.splitlines() == [f"line {n}" for n in range(85, 100)]
    assert start_button(app).label == EN["train.enqueue"]
    app.segmented_control(key=f"measure_{running.id}").set_value("recall@10")
    measured = run(app).dataframe[1].value
    assert measured.to_dict("list") == {"Step": [0, 30], "Recall@10": [0.5, 0.625], "BM25": [0.9, 0.9]}


def test_stop_requests_first_and_then_ends_at_once(app: AppTest, running: Run) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    started = psutil.Process(process.pid).create_time()
    running.write_status(replace(running.status(), pid=process.pid, pid_started=started))
    click(run(app), f"stop_{running.id}")
    assert running.stop_requested
    assert EN["train.stopping_step"] in worlds.progress_texts(app)
    click(app, f"end_{running.id}")
    process.wait(10)
    run(app)
    assert running.status().state is State.STOPPED
    assert start_button(app).label == EN["train.start"]


def test_displays_new_training_and_stops_without_checkpoint(app: AppTest) -> None:
    training_run = create_test_run(State.RUNNING, phase=Phase.MINING)
    assert not run(app).dataframe
    assert not app.metric  # no metrics yet
    assert EN["train.no_figure_yet"] not in texts(app)
    assert start_button(app).label == EN["train.enqueue"]
    training_run.request_stop()
    assert EN["train.stopping"] in worlds.progress_texts(run(app))


@pytest.mark.usefixtures("no_worker")
def test_sidebar_shows_running_and_waiting_trainings(app: AppTest, running: Run) -> None:
    for name in ("second", "third"):
        create_test_run(State.QUEUED, name=name)
    assert "**first** · training · about 1 min 40 s left in total" in worlds.progress_texts(run(app))
    assert EN["sidebar.waiting"].format(count=2) in texts(app)


def test_translates_failures(app: AppTest) -> None:
    codes = ["hub_unreachable", "model_not_found", "memory", "disk", "option", "too_few", "unexpected", "unheard_of"]
    for code in codes:
        create_test_run(State.FAILED, code=code, message=f"message of {code}")
    app.session_state["trainings_shown"] = len(codes)
    run(app)
    expected = [EN.get(f"failure.{code}", EN["failure.unexpected"]).format(base=STARTER) for code in codes]
    messages = [error.value for error in app.error]
    assert [messages.count(words) for words in expected] == [expected.count(words) for words in expected]
    explained = ("memory", "disk", "option", "unexpected")
    assert {code.value for code in app.code} == {f"message of {code}" for code in explained}
    killed = create_test_run(State.RUNNING)
    killed.write_status(Status(State.RUNNING, pid=2**22 + 1, pid_started=1.0, step=7, total_steps=30))
    assert EN["failure.interrupted"] in [error.value for error in run(app).error]
    assert "step 7 of 30" in texts(app)
    assert start_button(app).label == EN["train.start"]


@pytest.mark.parametrize("state", sorted(RESUMABLE))
@pytest.mark.usefixtures("no_worker")
def test_resumes_ended_training_from_its_checkpoint(app: AppTest, state: State) -> None:
    training_run = create_test_run(state, step=9, total_steps=30)
    training_run.request_stop()
    checkpoint = training_run.folder / "checkpoints" / "checkpoint-8"
    checkpoint.mkdir(parents=True)
    (checkpoint / "weights.safetensors").write_bytes(b"weights")
    button = run(app).button(key=f"resume_{training_run.id}")
    assert button.help == EN["train.resume_anew"]  # the checkpoint is incomplete
    seal(checkpoint)
    button = run(app).button(key=f"resume_{training_run.id}")
    assert button.help == EN["train.resume_from"].format(step=8)
    button.click()
    run(app)
    assert training_run.status().state is State.QUEUED
    assert not training_run.stop_requested
    assert EN["train.queue"].format(count=1) in texts(app)


@pytest.mark.usefixtures("no_worker")
def test_fills_form_for_another_round_with_mining_model(app: AppTest) -> None:
    first = done_run()
    done_run(CROSS_ENCODER, "a reader")
    run(unfolded(app, BI_ENCODER))
    assert labels(app).count(EN["train.another_round"]) == 1
    worlds.press(app, "another_round")
    names = ("objective", "negatives", "negatives_from", "negatives_model")
    assert [worlds.field(app, name).value for name in names] == ["multiple-negatives", 4, "dense", first.id]
    assert app.selectbox(key="base_en").value == first.id


def test_confirms_before_deleting(app: AppTest) -> None:
    training_run = done_run()
    click(run(app), f"delete_{training_run.id}")
    assert EN["train.delete_question"].format(name="first") in texts(app)
    app.button(key="delete_no").click()
    assert EN["train.delete_question"].format(name="first") not in texts(run(app))
    assert training_run.folder.exists()
    app.button(key=f"delete_{training_run.id}").click()
    click(run(app), "delete_yes")
    assert not training_run.folder.exists()
    # another user deletes the training of an open dialog
    training_run = done_run()
    run(app).button(key=f"details_{training_run.id}").click()
    assert run(app).tabs
    training_run.delete()
    assert not run(app).tabs


@pytest.mark.parametrize(
    ("kind", "base", "selected"),
    [
        (BI_ENCODER, STARTER, {"retrievers": "BM25|Dense|Dense · mine", "baseline": "Dense"}),
        (CROSS_ENCODER, STARTER, {"retrievers": "BM25|Reranked|Reranked · mine", "baseline": "Reranked"}),
        # a base that cannot rerank
        (CROSS_ENCODER, "some/base", {"retrievers": "BM25|Reranked · mine", "baseline": "BM25"}),
    ],
)
def test_compare_selects_model_before_and_after_training(
    app: AppTest, opened: list[dict[str, str]], kind: str, base: str, selected: dict[str, str]
) -> None:
    training_run = done_run(kind, name="mine", base=base)
    worlds.stored_dataset(QuestionSet("another", small_set().passages[:2], small_set().questions[:2]))
    click(run(app), f"use_{training_run.id}")
    assert opened == [selected | {"data": worlds.stored_dataset().key, "part": "test", "run": "now", "lang": "en"}]


def test_adds_unused_base_to_comparison_once(app: AppTest, opened: list[dict[str, str]]) -> None:
    training_run = done_run(name="mine", base="some/base")
    for _ in range(2):
        click(run(app), f"use_{training_run.id}")
    compared = {(parameters["retrievers"], parameters["baseline"]) for parameters in opened}
    assert compared == {("BM25|Dense · base|Dense · mine", "Dense · base")}
    (spec,) = added_retrievers(worlds.stored_dataset().fingerprint)
    assert (spec.name, getattr(spec, "model", "")) == ("Dense · base", "some/base")


def test_displays_old_trainings_on_request(app: AppTest) -> None:
    for number in range(7):
        create_test_run(State.STOPPED, name=f"run {number}")
    run(app)
    assert labels(app).count(EN["train.details"]) == 1 + 5  # the latest stands at the top
    next(button for button in app.button if button.label == "Show 1 older trainings").click()
    assert labels(run(app)).count(EN["train.details"]) == 7


def test_trains_starter_on_sample_from_page(app: AppTest) -> None:
    click(worlds.enter(run(app), epochs=0.5), "train_start_")
    (started,) = all_runs()
    assert started.status().state in UNDER_WAY
    deadline = time.monotonic() + 110
    while started.status().state in UNDER_WAY and time.monotonic() < deadline:
        time.sleep(0.3)
    assert started.status().state is State.DONE, started.log()
    run(app)
    rows = app.dataframe[0].value.set_index("row")
    scores = started.scores()
    assert rows.loc["BM25", "recall@10"] == pytest.approx(scores["bm25"]["recall@10"] * 100)
    assert rows.loc["After training", "ndcg@10"] == pytest.approx(scores["after"]["ndcg@10"] * 100)
    assert any(option.startswith("Bi-encoder 1 (trained here") for option in app.selectbox(key="base_en").options)
    assert start_button(app).label == EN["train.start"]
