"""Ablations on the Train page: progress, conclusions, tables by metric, and use of the models."""

import io
from dataclasses import asdict, replace
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.jobs.processes import this_process
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.retrieval.significance import Interval
from mrc_workbench.training.ablation import AblationExperiment
from mrc_workbench.training.cli import plan_ablation
from mrc_workbench.training.jobs import Ablation, AblationTable, Variant, VariantDifference, all_jobs
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderOptions
from mrc_workbench.training.runs import Trial, all_runs, create_run
from mrc_workbench.workbench.views.choices import choices_for, finished_runs
from mrc_workbench.workbench.views.train.composite import as_table
from tests.doubles import small_set
from tests.workbench.views.driving import run
from tests.workbench.views.train.worlds import EN, click, progress_texts, texts

pytestmark = pytest.mark.usefixtures("no_worker")
NDCG = "ndcg@10"
PERPLEXITY = Interval(60.0, 55.0, 65.0)
BROKEN = Variant(4, {"vocabulary": 2000}, code="memory", message="*out* of memory")


def intervals(ndcg: float, **more: float) -> dict[str, Interval]:
    return {name: Interval(value, 0.9 * value, 1.1 * value) for name, value in {**more, NDCG: ndcg}.items()}


def differences(value: float, low: float, high: float, p: float) -> dict[str, VariantDifference]:
    return {NDCG: VariantDifference(value, low, high, p)}


REFERENCE = Variant(1, {}, "lm", metrics=intervals(0.5, perplexity=60.0))
BETTER = Variant(
    2,
    {"whole_words": "spaces"},
    "lm",
    is_comparable=False,
    metrics=intervals(0.56, perplexity=50.0),
    differences=differences(0.06, 0.01, 0.11, 0.01),
)
CHANCE = Variant(
    3,
    {"mask_fraction": 0.3},
    "lm",
    metrics=intervals(0.51, perplexity=70.0),
    differences=differences(0.01, -0.02, 0.04, 0.4),
)
WORSE = replace(CHANCE, metrics=intervals(0.4, perplexity=70.0), differences=differences(-0.1, -0.12, -0.08, 0.001))
UNTRAINED = Variant(
    0, {}, "base", is_comparable=False, metrics=intervals(0.45), differences=differences(-0.05, -0.09, -0.01, 0.01)
)


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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        ((-0.05, -0.09, -0.01, 0.01), HELPED),
        ((-0.02, -0.05, 0.01, 0.3), "**It is unclear whether pre-training on this text helped**"),
        ((0.05, 0.01, 0.09, 0.01), "**Pre-training on this text made it worse**"),
    ],
)
def test_reports_effect_of_training_even_if_harmful(
    app: AppTest, difference: tuple[float, float, float, float], expected: str
) -> None:
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_resumes_and_deletes_with_its_trainings(app: AppTest) -> None:
    ablation = stored_ablation(a_table(REFERENCE, CHANCE), State.STOPPED)
    run(app)
    assert EN["ablation.reference_best"][:30] not in texts(app)  # it was stopped
    click(app, f"resume_{ablation.id}")
    assert ablation.status().state is State.QUEUED
    assert "Ablation of mine" in texts(app)
    click(app, f"delete_{ablation.id}")
    assert EN["ablation.delete_question"].split("**")[2][:20] in texts(app)
    click(app, "delete_yes")
    assert all_jobs() == []
    assert all_runs() == []


def test_reports_failure_reason(app: AppTest) -> None:
    stored_ablation(a_table(), State.FAILED, code="too_few_documents", message="why")
    run(app)
    assert EN["failure.too_few_documents"] in [str(element.value) for element in app.error]
