"""Complete ablations: each variant is trained, fine-tuned and evaluated like a separate run."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.pairs.store import save_pairs as keep_pairs
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import save_question_set
from mrc_workbench.labs.embeddings.study import evaluate
from mrc_workbench.models.reader_networks import new_masked
from mrc_workbench.retrieval.comparison.compare import build_context, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.spec import CachedRetriever
from mrc_workbench.retrieval.significance import Interval, intervals_of, pair_tests, question_groups
from mrc_workbench.training import ablation as ablation_module
from mrc_workbench.training import jobs
from mrc_workbench.training.ablation import AblationExperiment, run_ablation
from mrc_workbench.training.cli import plan_ablation
from mrc_workbench.training.runs import all_runs, find_run
from mrc_workbench.training.text_options import LANGUAGE_MODEL
from mrc_workbench.training.train import load_training_data
from mrc_workbench.workbench.cli import main
from tests.doubles import texts_of
from tests.labs.embeddings.worlds import scored_pairs
from tests.tiny_models import build_bi_encoder
from tests.training.recipes.language_worlds import make_documents
from tests.training.test_resume import again

pytestmark = pytest.mark.slow

SMALL = {"size": "tiny", "vocabulary": 1000, "max_length": 32, "batch_size": 8, "epochs": 1.0, "precision": "float32"}
TUNING = {"epochs": 1.0, "batch_size": 8, "precision": "float32"}
DOCUMENTS = 60


def question_set() -> QuestionSet:
    """Return questions of two words of a document and a word of none."""
    passages = [Passage(f"p{n}", f"{text} 글{n}") for n, text in enumerate(make_documents(DOCUMENTS))]
    openings = [" ".join(passage.text.split()[:2]) for passage in passages]
    questions = [Question(f"q{n}", f"{opening} 무엇", (), (f"p{n}",)) for n, opening in enumerate(openings)]
    return QuestionSet("topics", tuple(passages), tuple(questions))


def experiment(**settings: Any) -> AblationExperiment:
    stored_key = save_question_set(question_set()).key
    defaults = {"text": stored_key, "questions": stored_key, "language_model": SMALL, "fine_tuning": TUNING}
    return AblationExperiment.model_validate({**defaults, "test_fraction": 0.4, **settings})


def run_to_end(ablation: jobs.Ablation) -> jobs.AblationTable:
    status = run_ablation(ablation)
    assert status.state is State.DONE, status.message
    assert ablation.table is not None
    return ablation.table


@pytest.fixture(scope="module")
def finished_ablation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, jobs.Ablation]:
    folder = tmp_path_factory.mktemp("ablations")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(folder))
        vary = {"mask_fraction": [0.3], "objective": ["mlm-nsp"]}
        sentences = keep_pairs(scored_pairs()).key
        whole = plan_ablation(experiment(sentences=sentences, untrained=True, vary=vary), "mine")
        run_to_end(whole)
        return folder, whole


@pytest.fixture
def there(finished_ablation: tuple[Path, jobs.Ablation], monkeypatch: pytest.MonkeyPatch) -> jobs.Ablation:
    monkeypatch.setenv("MRC_WORKSPACE", str(finished_ablation[0]))
    return finished_ablation[1]


def variants(ablation: jobs.Ablation) -> dict[int, jobs.Variant]:
    assert ablation.table is not None
    return {variant.number: variant for variant in ablation.table.variants}


def experiment_on_test(ablation: jobs.Ablation, **models: str) -> Experiment:
    experiment_file = ablation.plan().ablation
    assert experiment_file is not None
    specs = tuple(DenseSpec(name=name, model=model, windows=True) for name, model in models.items())
    return Experiment(data=experiment_file["questions"], split=Part.TEST, test_fraction=0.4, retriever=specs)


def test_variants_differ_in_one_option(there: jobs.Ablation) -> None:
    by_number = variants(there)
    assert [*by_number] == [jobs.UNTRAINED, jobs.REFERENCE, 2, 3]
    learned = {number: find_run(variant.model) for number, variant in by_number.items() if number != jobs.UNTRAINED}
    plans = {number: run.plan() for number, run in learned.items() if run}
    assert len({plan.fingerprint for plan in plans.values()}) == 1
    assert asdict(plans[2].options) == {**asdict(plans[jobs.REFERENCE].options), "mask_fraction": 0.3}
    assert plans[3].options.objective == "mlm-nsp"
    tuned = [find_run(variant.fine_tuned_run) for variant in by_number.values()]
    assert len({str({**asdict(run.plan().options), "base": ""}) for run in tuned if run}) == 1
    assert [run.plan().options.base for run in tuned if run] == [variant.model for variant in by_number.values()]
    assert all(run and run.status().state is State.DONE for run in (*learned.values(), *tuned))
    assert plans[2].name == "mine · mask_fraction 0.3"


def test_untrained_base_is_reference_before_first_step(there: jobs.Ablation) -> None:
    reference = find_run(variants(there)[jobs.REFERENCE].model)
    assert reference is not None
    data = load_training_data(reference.plan())
    options = reference.plan().options
    weights = load_file(there.get_part(str(jobs.UNTRAINED)).model_folder / "model.safetensors")
    config = json.loads((reference.model_folder / "config.json").read_text())
    new = new_masked(config, data.tokenizer, pairs=False, seed=options.seed)
    initial_weights = {name: value.numpy() for name, value in new[0].model.state_dict().items()}
    assert weights
    assert all(np.array_equal(value, initial_weights[name]) for name, value in weights.items())


def test_metrics_match_separate_evaluation(there: jobs.Ablation) -> None:
    by_number = variants(there)
    table = there.table
    assert table is not None
    assert table.measures[:3] == ["perplexity", "masked_accuracy", "next_accuracy"]
    assert table.measures[3:] == ["spearman_before", "spearman", "ndcg@10"]
    for number, variant in by_number.items():
        metrics = variant.metrics or {}
        assert ("next_accuracy" in metrics) == (number == 3)
        if number != jobs.UNTRAINED:
            run = find_run(variant.model)
            assert run is not None
            ends = run.scores()["intervals"]["after"]["perplexity"]
            assert metrics["perplexity"] == Interval(run.scores()["after"]["perplexity"], *ends)
        alone = experiment_on_test(there, alone=variant.fine_tuned_run)
        of_test = alone.evaluation_set(question_set())
        evaluator = build_context(alone, of_test).retrievers["alone"]
        texts = texts_of(of_test.questions)
        assert isinstance(evaluator, CachedRetriever)
        assert evaluator.is_cached(texts, evaluator.depth), "under another name, Compare has nothing to search again"
        comparison = compare(alone, question_set())
        value, low, high = metrics["ndcg@10"]
        assert value == comparison.scores["alone"].means()["ndcg@10"]
        groups = question_groups(comparison.question_set)
        assert (low, high) == intervals_of(comparison.scores["alone"], groups)["ndcg@10"]
        for measure, model in (("spearman_before", variant.model), ("spearman", variant.fine_tuned_run)):
            judged = evaluate(scored_pairs(), [model]).results_by_model[model].metrics["spearman"]
            assert metrics[measure].value == pytest.approx(judged.value)
    assert table.questions == len(comparison.question_set.questions)
    assert table.pairs == len(evaluate(scored_pairs(), []).rows)


def test_differences_to_reference_are_corrected_for_all_variants(there: jobs.Ablation) -> None:
    by_number = variants(there)
    models = {str(number): variant.fine_tuned_run for number, variant in by_number.items()}
    comparison = compare(experiment_on_test(there, **models), question_set())
    groups = question_groups(comparison.question_set)
    assert by_number[jobs.REFERENCE].differences == {}
    for number in (jobs.UNTRAINED, 2, 3):
        of = {str(variant): comparison.scores[str(variant)] for variant in (number, jobs.REFERENCE)}
        test = pair_tests(of, ["ndcg@10"], groups)[0]
        mine = (by_number[number].differences or {})["ndcg@10"]
        assert mine.value == pytest.approx(test.difference)
        assert mine.low <= test.low <= test.high <= mine.high
        values = {variant: (by_number[variant].metrics or {})["spearman"].value for variant in (number, jobs.REFERENCE)}
        by_people = (by_number[number].differences or {})["spearman"]
        assert by_people.value == pytest.approx(values[number] - values[jobs.REFERENCE])
        assert by_people.low <= by_people.value <= by_people.high


def test_marks_variants_with_other_hidden_tokens(there: jobs.Ablation) -> None:
    is_comparable = {number: variant.is_comparable for number, variant in variants(there).items()}
    assert is_comparable == {0: False, 1: True, 2: False, 3: False}


def test_reused_work_does_not_affect_progress(there: jobs.Ablation) -> None:
    again = ablation_module._AblationSweep(there, Status(State.RUNNING))
    before = there.status()
    again.work()
    there.write_status(before)
    # except the untrained network, which has no run; the time left depends on the new trainings
    assert (again._finished_stages, again._reused_stages, again._stages) == (8, 7, 9)


def test_is_no_training_but_its_parts_are(there: jobs.Ablation) -> None:
    assert jobs.find_job(there.id) == there == jobs.load_job(there.folder)
    assert there in jobs.all_jobs()
    assert there not in all_runs()
    assert jobs.QUEUE.queued() == []
    trials = [run.plan().trial for run in there.parts()]
    assert all(trial and trial.is_complete and trial.parent_id == there.id for trial in trials)
    assert [trial.number for trial in trials if trial] == [0, 1, 1, 2, 2, 3, 3]


def test_reuses_finished_trainings(there: jobs.Ablation) -> None:
    before = all_runs()
    known = there.plan().ablation
    again = plan_ablation(AblationExperiment.model_validate({**(known or {}), "vary": {}}), "again")
    try:
        table = run_to_end(again)
        assert set(all_runs()) - set(before) == {again.get_part("0-tuned")}, "a network of its own is as new as it is"
        first = variants(there)
        tuned = {variant.number: variant.fine_tuned_run for variant in table.variants if variant.number}
        assert tuned == {1: first[1].fine_tuned_run}
        assert (table.variants[1].metrics or {})["ndcg@10"] == (first[1].metrics or {})["ndcg@10"]
    finally:
        again.delete()


@pytest.fixture
def short() -> jobs.Ablation:
    return plan_ablation(experiment(vary={"seed": [1]}), "short")


def test_resumes_in_the_stopped_training(short: jobs.Ablation, monkeypatch: pytest.MonkeyPatch) -> None:
    from mrc_workbench.training.trainers import TrainingProgressCallback

    original_step_end: Callable[..., None] = TrainingProgressCallback.on_step_end
    for name in ("1", "2-tuned"):
        with monkeypatch.context() as patch:

            def stopping(self: Any, args: Any, state: Any, control: Any, *, name: str = name, **more: Any) -> None:
                original_step_end(self, args, state, control, **more)
                if short.get_part(name).status().is_running and state.global_step == 2:
                    short.request_stop()

            patch.setattr(TrainingProgressCallback, "on_step_end", stopping)
            assert run_ablation(short).state is State.STOPPED
        assert not short.done
        assert short.get_part(name).status().state is State.STOPPED
        again(short)
    table = run_to_end(short)
    first, second = table.variants
    assert first.metrics
    assert second.metrics
    steps = [entry["step"] for entry in short.get_part("1").progress() if "loss" in entry]
    assert steps == sorted(set(steps)), "no step was done twice"
    short.delete()
    assert jobs.all_jobs() == []
    assert not list(short.folder.parent.glob("2*"))


def test_failed_variant_does_not_stop_others() -> None:
    table = run_to_end(plan_ablation(experiment(vary={"report_to": ["wandb"], "seed": [1]}), "one fails"))
    codes = [variant.code for variant in table.variants]
    assert codes == ["", "no_reporter", ""]
    assert "wandb" in table.variants[1].message
    assert not table.variants[1].metrics
    assert "ndcg@10" in (table.variants[2].metrics or {})


def test_continues_from_an_encoder_base(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    base = build_bi_encoder(tmp_path / "base")
    (base / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "질문: "}}))
    language_settings = {"base": str(base), "epochs": 1.0, "max_length": 16, "precision": "float32"}
    adapted_table = run_to_end(plan_ablation(experiment(language_model=language_settings, untrained=True), "adapted"))
    assert adapted_table.variants[0].model == str(base), "the base as it is"
    run = find_run(adapted_table.variants[1].model)
    assert run is not None
    assert run.plan().kind == LANGUAGE_MODEL
    adapted = SentenceTransformer(str(run.model_folder))
    began = SentenceTransformer(str(base))
    assert [type(module) for module in adapted] == [type(module) for module in began]
    assert adapted.prompts["query"] == "질문: "
    vectors = [np.asarray(model.encode(["고양이가 잔다"])) for model in (adapted, began)]
    assert vectors[0].shape == vectors[1].shape
    assert not np.allclose(*vectors)


def test_command_prints_ablation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    stored_key = save_question_set(question_set()).key
    small = "\n".join(f"{name} = {json.dumps(value)}" for name, value in SMALL.items())
    path.write_text(f'text = "{stored_key}"\n[language_model]\n{small}\n[vary]\nseed = [1]\n', encoding="utf-8")
    assert main(["ablate", str(path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [variant["changed_options"] for variant in printed["variants"]] == [{}, {"seed": 1}]
    assert main(["ablate", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["variant", "perplexity", "masked_accuracy"]
    assert lines[2].startswith("seed 1")
    path.write_text('text = "nothing of that name"\n[vary]\nseed = [1]\n', encoding="utf-8")
    assert main(["ablate", str(path)]) == 2
    assert "nothing of that name" in capsys.readouterr().err
