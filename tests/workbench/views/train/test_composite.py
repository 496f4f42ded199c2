"""Ablations and settings searches on the Train page: start, progress, conclusions, tables, and use of the results."""

import io
from dataclasses import asdict, replace
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.jobs.processes import this_process
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.significance import Interval
from mrc_workbench.training import jobs
from mrc_workbench.training.ablation import AblationExperiment
from mrc_workbench.training.cli import plan_ablation
from mrc_workbench.training.jobs import Ablation, AblationTable, SettingsSearch, SettingsSearchResult, Variant
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER, BiEncoderOptions, CrossEncoderOptions
from mrc_workbench.training.runs import Trial, all_runs, create_run, new_plan
from mrc_workbench.workbench.views.choices import choices_for, finished_runs
from mrc_workbench.workbench.views.names import run_name
from mrc_workbench.workbench.views.train.composite import as_table
from tests.doubles import small_set
from tests.training.worlds import all_searches
from tests.workbench.views.driving import run
from tests.workbench.views.train.worlds import EN, click, field, page, progress_texts, texts, unopened

pytestmark = pytest.mark.usefixtures("no_worker")
NDCG = "ndcg@10"
PERPLEXITY = Interval(60.0, 55.0, 65.0)
BROKEN = Variant(4, {"vocabulary": 2000}, code="memory", message="*out* of memory")


def intervals(ndcg: float, **more: float) -> dict[str, Interval]:
    return {name: Interval(value, 0.9 * value, 1.1 * value) for name, value in {**more, NDCG: ndcg}.items()}


def differences(value: float, low: float, high: float, p: float) -> dict[str, jobs.VariantDifference]:
    return {NDCG: jobs.VariantDifference(value, low, high, p)}


REFERENCE = Variant(1, {}, "lm", metrics=intervals(0.5, perplexity=60.0))
GAIN = differences(0.06, 0.01, 0.11, 0.01)
BETTER = Variant(
    2, {"whole_words": "spaces"}, "lm", is_comparable=False, metrics=intervals(0.56, perplexity=50.0), differences=GAIN
)
UNSURE = differences(0.01, -0.02, 0.04, 0.4)
CHANCE = Variant(3, {"mask_fraction": 0.3}, "lm", metrics=intervals(0.51, perplexity=70.0), differences=UNSURE)
WORSE = replace(CHANCE, metrics=intervals(0.4, perplexity=70.0), differences=differences(-0.1, -0.12, -0.08, 0.001))
LOSS = differences(-0.05, -0.09, -0.01, 0.01)
UNTRAINED = Variant(0, {}, "base", is_comparable=False, metrics=intervals(0.45), differences=LOSS)


def stored_ablation(table: AblationTable, state: State = State.DONE, *, vary: bool = True, **status: Any) -> Ablation:
    """Store an ablation with the runs in its table."""
    dataset = save_question_set(small_set())
    settings: dict[str, Any] = {"text": dataset.key, "questions": dataset.key, "untrained": True}
    if vary:
        settings["vary"] = {"whole_words": ["spaces"], "mask_fraction": [0.3]}
    ablation = plan_ablation(AblationExperiment.model_validate(settings), "mine *1*")
    variants = tuple(tuned(ablation, dataset, variant) if variant.metrics else variant for variant in table.variants)
    ablation.write("table.json" if state is State.DONE else "partial.json", asdict(replace(table, variants=variants)))
    pid, started = this_process()
    ablation.write_status(Status(state, pid=pid, pid_started=started, **status))
    return ablation


def tuned(ablation: Ablation, dataset: StoredSet, variant: Variant) -> Variant:
    trial = Trial(ablation.id, variant.number, 3, is_complete=True)
    plan = replace(ablation.plan(), kind=BI_ENCODER, options=BiEncoderOptions(base="lm"), trial=trial, ablation=None)
    plan = replace(plan, name=f"mine {variant.number}", data=dataset.key, fingerprint=dataset.fingerprint)
    part = create_run(plan, ablation.get_part(f"{variant.number}-tuned").folder)
    part.write_status(Status(State.DONE, step=8, total_steps=8))
    return replace(variant, fine_tuned_run=part.id)


CHANGES = [{}, {"learning_rate": 0.003}, {"objective": "multiple-negatives", "temperature": 0.05}]


def tried(number: int, difference: float, p: float, share: float = 1.0) -> jobs.TrialResult:
    values = {"value": 0.7 + difference, "low": 0.6, "high": 0.8, "difference": difference}
    values |= {"difference_low": difference - 0.02, "difference_high": difference + 0.02, "p_family": p, "loss": 0.5}
    return jobs.TrialResult(number, CHANGES[number - 1], share, 2 * share, int(8 * share), **values)


FIRST = tried(1, 0.0, 1.0)
ALIKE = SettingsSearchResult("ndcg@10", 48, 0.65, 2, 1, (FIRST, tried(2, 0.004, 0.4), tried(3, -0.1, 0.001, 0.25)))
IMPROVED = SettingsSearchResult("ndcg@10", 48, 0.65, 3, 3, (FIRST, tried(2, 0.0, 1.0, 0.25), tried(3, 0.1, 0.001)))
NONE = SettingsSearchResult("ndcg@10", 48, 0.65, 1, 1, (FIRST, tried(2, -0.01, 0.4)), failed=(3,))


def finished_search(
    findings: SettingsSearchResult, state: State = State.DONE, *, kind: str = BI_ENCODER, trials: int = 3, **status: Any
) -> SettingsSearch:
    dataset = save_question_set(small_set())
    options = BiEncoderOptions.defaults_for() if kind == BI_ENCODER else CrossEncoderOptions.defaults_for()
    plan = new_plan(kind, "mine", (dataset.key, dataset.name, dataset.fingerprint), SplitOptions(), options)
    search = jobs.create_search(plan, 10.0)
    search.write("search.json", {"changes": CHANGES, "epochs": 2.0, "seconds": 100.0, "cost": {}})
    for number in range(1, trials + 1):
        trial = search.create_trial(number, replace(options, epochs=2.0), len(CHANGES))
        ended, step = (State.DONE, 8) if number < 3 else (State.STOPPED, 2)
        trial.write_status(Status(ended, step=step, total_steps=8))
        trial.add_progress({"step": 1, "loss": 0.7, "eval_validation_ndcg@10": 0.7})
    search.write("settings.json" if state is State.DONE else "partial.json", asdict(findings))
    pid, started = this_process()
    search.write_status(Status(state, pid=pid, pid_started=started, **status))
    return search


@pytest.fixture
def form() -> AppTest:
    """The page with the whole form."""
    return unopened(page)


def a_table(*variants: Variant) -> AblationTable:
    return AblationTable(variants, questions=96, pairs=0)


def variant_table(app: AppTest) -> pd.DataFrame:
    return next(element.value for element in app.dataframe if "variant" in element.value)


def buttons(app: AppTest) -> list[str]:
    return [str(element.key) for element in app.button]


def conclusions(app: AppTest, *variants: Variant, vary: bool = True) -> str:
    stored_ablation(a_table(*variants), vary=vary)
    return texts(run(app))


def of_pairs(variant: Variant) -> Variant:
    known = {"metrics": variant.metrics, "differences": variant.differences}
    renamed = {name: {"spearman_before": values[NDCG]} if values else None for name, values in known.items()}
    return replace(variant, **renamed)


HELPED = "**Pre-training on this text helped**"


@pytest.mark.parametrize(
    ("variants", "expected", "absent"),
    [
        (
            [UNTRAINED, REFERENCE, BETTER, WORSE],
            [
                "**“Whole word masking\\: words split on spaces” is best**: nDCG@10 56.0, reference 50.0",
                "(+6.0 points, 95% interval +1.0 to +11.0)",
                f"{HELPED}: nDCG@10 50.0, without it 45.0",
                "(+5.0 points, 95% interval +1.0 to +9.0)",
            ],
            [],
        ),
        (
            [REFERENCE, CHANCE],
            [EN["ablation.best_unsure"].split("“")[0], "“Masking ratio \\(0–1\\)\\: 0\\.3”"],
            ["is best", "Pre-training"],
        ),
        ([REFERENCE, WORSE], [EN["ablation.reference_best"].format(measure="nDCG@10", score="50.0")], []),
        # conclusions leave out failed variants
        ([UNTRAINED, REFERENCE, BROKEN], [HELPED], ["The reference is as good"]),
        ([replace(REFERENCE, metrics={"perplexity": PERPLEXITY})], [EN["ablation.nothing_judges"]], []),
    ],
)
def test_states_conclusions(app: AppTest, variants: list[Variant], expected: list[str], absent: list[str]) -> None:
    answer = conclusions(app, *variants)
    assert [sentence for sentence in expected if sentence not in answer] == []
    assert [sentence for sentence in absent if sentence in answer] == []


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        ((-0.05, -0.09, -0.01, 0.01), HELPED),
        ((-0.02, -0.05, 0.01, 0.3), "**It is unclear whether pre-training on this text helped**"),
        ((0.05, 0.01, 0.09, 0.01), "**Pre-training on this text made it worse**"),
    ],
)
def test_reports_effect_of_training(app: AppTest, difference: tuple[float, float, float, float], expected: str) -> None:
    base = replace(UNTRAINED, metrics=intervals(0.5 + difference[0]), differences=differences(*difference))
    answer = conclusions(app, base, REFERENCE, vary=False)
    assert expected in answer
    points, high, low = (f"{-100 * value:+.1f}" for value in difference[:3])
    assert f"({points} points, 95% interval {low} to {high})" in answer
    assert "Does it help? mine" in answer
    assert EN["ablation.trained"] in variant_table(app)["variant"].tolist()
    assert EN["ablation.reference_best"][:30] not in answer  # no option varies


def test_table_has_every_metric_and_marks_incomparable_values(app: AppTest) -> None:
    text = conclusions(app, UNTRAINED, REFERENCE, BETTER, CHANCE, BROKEN)
    table = variant_table(app)
    assert table[NDCG].tolist()[:4] == pytest.approx([45, 50, 56, 51])
    assert table["perplexity"].tolist()[1:4] == [60, 50, 70]
    assert table["difference"].tolist()[2] == pytest.approx(6)
    assert EN["ablation.other_tokens"].format(mark="°") in text
    assert EN["ablation.intervals_of"] in text
    assert "96 test questions" in text
    assert EN["ablation.failed"].format(name="Vocabulary size\\: 2000") in text
    assert EN["failure.memory"] in text


def test_selects_another_metric(app: AppTest) -> None:
    ablation = stored_ablation(a_table(REFERENCE, CHANCE))
    run(app)
    (pills,) = (element for element in app.button_group if element.key == f"ablation_measure_{ablation.id}_2")
    assert pills.value == NDCG
    assert EN["ablation.tested_together"] in texts(app)
    pills.set_value("perplexity")
    assert EN["ablation.tested_together"] not in texts(run(app))  # perplexity has no tests


def test_exports_all_metrics() -> None:
    written = as_table(a_table(REFERENCE, BETTER, BROKEN))
    back = pd.read_csv(io.StringIO(written.to_csv(index=False)))
    assert back["changed"].tolist()[1:] == ["whole_words = spaces", "vocabulary = 2000"]
    columns = ["ndcg@10", "ndcg@10_low", "ndcg@10_difference_value", "ndcg@10_difference_p"]
    assert back.loc[1, columns].tolist() == pytest.approx([0.56, 0.504, 0.06, 0.01])
    assert back["failed"].tolist()[2] == "memory"


def test_lists_its_trainings_as_usable_models(app: AppTest) -> None:
    ablation = stored_ablation(a_table(REFERENCE, CHANCE))
    run(app)
    parts = [f"{ablation.id}-1-tuned", f"{ablation.id}-3-tuned"]
    assert [key for key in buttons(app) if key.startswith("part_")] == [f"part_{ablation.id}_{item}" for item in parts]
    assert not [key for key in buttons(app) if key.startswith("details_")]
    assert "**mine 3 · Bi\\-encoder**" in texts(app)
    assert sorted(item.id for item in finished_runs()) == parts
    click(app, f"part_{ablation.id}_{parts[1]}")
    assert app.session_state["run_dialog"] == ("details", parts[1])


def test_compares_all_models_on_test_questions(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    ablation = stored_ablation(a_table(REFERENCE, CHANCE))
    opened: dict[str, str] = {}
    open_page = "mrc_workbench.workbench.views.train.composite.open_page"
    monkeypatch.setattr(open_page, lambda page, **address: opened.update(page=page, **address))
    click(run(app), f"compare_{ablation.id}")
    dataset = save_question_set(small_set())
    expected = {"page": "compare", "data": dataset.key, "part": "test", "lang": "en"}
    assert opened == expected | {"retrievers": "BM25|Dense · mine 1|Dense · mine 3"}
    assert set(opened["retrievers"].split("|")) <= choices_for(dataset).specs.keys()


@pytest.mark.parametrize("vary", [True, False])
def test_compares_by_pairs_if_there_are_no_questions(app: AppTest, vary: bool) -> None:
    stored_ablation(a_table(of_pairs(UNTRAINED), of_pairs(REFERENCE)), vary=vary)
    assert f"{HELPED}: Spearman before fine-tuning 50.0, without it 45.0" in texts(run(app))


@pytest.mark.parametrize(
    ("vary", "phase", "expected"),
    [
        (True, "learning_2", "variant 2 of 3: training its language model"),
        (True, "tuning_0", "without pre-training: fine-tuning it on questions"),
        (False, "tuning_1", "with pre-training: fine-tuning it on questions"),
        (True, "measuring", "evaluating all variants"),
    ],
)
def test_displays_running_variant_and_known_metrics(app: AppTest, vary: bool, phase: str, expected: str) -> None:
    known = replace(REFERENCE, metrics={"perplexity": PERPLEXITY})
    status = {"phase": phase, "step": 4, "total_steps": 9, "progress": 0.5, "seconds_left": 90.0}
    ablation = stored_ablation(a_table(known), State.RUNNING, vary=vary, **status)
    run(app)
    assert any(expected in text and "1 min 30 s" in text for text in progress_texts(app))
    assert variant_table(app)["perplexity"].tolist() == [60]
    assert not [key for key in buttons(app) if key.startswith("compare_")]
    click(app, f"stop_{ablation.id}")
    assert ablation.stop_requested
    assert any(EN["ablation.stopping"] in text for text in progress_texts(app))


def test_starts_search_with_entered_minutes(form: AppTest) -> None:
    run(form)
    assert "Test questions are not used" in texts(form)
    assert "1. Learning rate: 0.003" in texts(form)
    form.number_input(key="train_settings_minutes").set_value(3)
    run(form)
    labels = [element.label for element in form.button if str(element.key).startswith("train_find_")]
    assert "Search for up to 3 minutes" in labels
    click(form, "train_find_")
    (search,) = all_searches()
    assert search.plan().minutes == 3
    assert search.status().state is State.QUEUED
    assert f"Settings search for {search.plan().name}".replace("-", "\\-") in texts(form)
    assert all_runs() == []


def test_keeps_defaults_if_not_significant_and_opens_trial_curves(form: AppTest) -> None:
    search = finished_search(ALIKE)
    run(form)
    assert "Your starting settings are as good as any tried" in texts(form)
    assert "“Learning rate\\: 0\\.003” is +0.4 points of nDCG@10 higher" in texts(form)
    table = form.dataframe[0].value
    assert table["chosen"].tolist() == ["✓", "", ""]
    assert table["setting"].tolist()[0] == EN["settings.defaults"]
    assert table["steps"].tolist() == [8, 8, 2]
    parts = [element.key for element in form.button if str(element.key).startswith("part_")]
    assert parts == [f"part_{search.id}_{search.id}-{number}" for number in (1, 2, 3)]
    assert not [element for element in form.button if str(element.key).startswith(("use_2", "resume_2"))]
    assert finished_runs() == {}  # no page offers a trial as a model
    click(form, f"part_{search.id}_{search.id}-2")
    assert form.session_state["run_dialog"] == ("details", f"{search.id}-2")
    assert EN["train.loss"] in texts(form)


def test_reports_no_better_setting_and_failed_trial(form: AppTest) -> None:
    finished_search(NONE)
    run(form)
    assert EN["settings.defaults_best"].format(measure="nDCG@10") in texts(form)
    assert "Ended with an error: settings 3." in texts(form)


def test_applies_better_settings_to_form(form: AppTest) -> None:
    search = finished_search(IMPROVED)
    run(form)
    assert "is better**: +10.0 points of nDCG@10" in texts(form)
    form.selectbox(key="base_en").set_value(STARTER)
    click(run(form), f"use_settings_{search.id}")
    values = [field(form, name).value for name in ("objective", "temperature", "learning_rate")]
    assert values == ["multiple-negatives", 0.05, 0.001]  # the other learning rate is not the best
    assert len(all_runs()) == 3  # no new run
    assert all_searches() == [search]


def test_switches_to_kind_of_the_search(form: AppTest) -> None:
    search = finished_search(replace(NONE, failed=()), kind=CROSS_ENCODER)
    click(run(form), f"use_settings_{search.id}")
    assert form.query_params["train"] in ("cross-encoder", ["cross-encoder"])
    assert field(form, "learning_rate", CROSS_ENCODER).value == 0.01


def test_displays_progress_and_can_be_stopped(form: AppTest) -> None:
    status = {"phase": "trying_2", "step": 2, "total_steps": 3, "progress": 0.5, "seconds_left": 90.0}
    search = finished_search(ALIKE, State.RUNNING, trials=2, **status)
    run(form)
    assert any("round 2 of 3, settings 2 of 3" in text and "1 min 30 s" in text for text in progress_texts(form))
    assert "Up to 10 minutes" in texts(form)
    assert len(form.dataframe[0].value) == 3
    assert not [element for element in form.button if str(element.key).startswith("use_settings")]
    click(form, f"stop_{search.id}")
    assert search.stop_requested
    assert any(EN["settings.stopping"] in text for text in progress_texts(form))


@pytest.mark.parametrize("section", ["ablation", "settings"])
def test_stopped_job_resumes_and_is_deleted_with_its_trainings(app: AppTest, section: str) -> None:
    stopped_ablation = section == "ablation" and stored_ablation(a_table(REFERENCE, CHANCE), State.STOPPED)
    job = stopped_ablation or finished_search(ALIKE, State.STOPPED)
    run(app)
    assert EN["ablation.reference_best"][:30] not in texts(app)  # it was stopped
    click(app, f"resume_{job.id}")
    assert job.status().state is State.QUEUED
    assert run_name(job.plan()).partition(" mine")[0] in texts(app)
    click(app, f"delete_{job.id}")
    assert EN[f"{section}.delete_question"].split("**")[2][:20] in texts(app)
    click(app, "delete_yes")
    assert jobs.all_jobs() == []
    assert all_runs() == []


def test_reports_failure_reason_of_an_ablation(app: AppTest) -> None:
    stored_ablation(a_table(), State.FAILED, code="too_few_documents", message="why")
    assert EN["failure.too_few_documents"] in [error.value for error in run(app).error]


@pytest.mark.parametrize(("code", "expected"), [("settings_minutes", "about 12 minutes"), ("settings_time", "ran out")])
def test_reports_failure_reason_of_a_search(app: AppTest, code: str, expected: str) -> None:
    search = finished_search(ALIKE, State.FAILED, trials=0, code=code, message="why")
    (search.folder / "partial.json").unlink()
    search.write("search.json", {"minutes": 12})
    assert any(expected in error.value for error in run(app).error)
