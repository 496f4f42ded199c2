"""An ablation carried out: every variant a training of its own, fine-tuned alike and measured as anybody would."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.pairs.store import keep as keep_pairs
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import keep
from mrc_workbench.labs.embeddings.study import evaluate
from mrc_workbench.models.reader_networks import new_masked
from mrc_workbench.retrieval.comparison.compare import compare, materials_of
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.spec import CachedRetriever
from mrc_workbench.retrieval.significance import Interval, intervals_of, pair_tests, question_groups
from mrc_workbench.training import ablation as carry
from mrc_workbench.training.ablation import AblationExperiment, ablate
from mrc_workbench.training.cli import planned_ablation
from mrc_workbench.training.jobs import (
    QUEUE,
    REFERENCE,
    UNTRAINED,
    Ablation,
    Table,
    Variant,
    all_jobs,
    find_job,
    job_at,
)
from mrc_workbench.training.runs import all_runs, find_run
from mrc_workbench.training.text_options import LANGUAGE_MODEL
from mrc_workbench.training.train import load_material
from mrc_workbench.workbench.cli import main
from tests.doubles import texts_of
from tests.labs.embeddings.worlds import scored_pairs
from tests.tiny_models import build_bi_encoder
from tests.training.recipes.language_worlds import of_topics
from tests.training.test_resume import again

pytestmark = pytest.mark.slow

SMALL = {"size": "tiny", "vocabulary": 1000, "max_length": 32, "batch_size": 8, "epochs": 1.0, "precision": "float32"}
TUNING = {"epochs": 1.0, "batch_size": 8, "precision": "float32"}
DOCUMENTS = 60


def question_set() -> QuestionSet:
    """What is asked about a document is two of its words, and another that is in none."""
    passages = [Passage(f"p{n}", f"{text} 글{n}") for n, text in enumerate(of_topics(DOCUMENTS))]
    questions = [
        Question(f"q{n}", f"{' '.join(passage.text.split()[:2])} 무엇", (), (passage.id,))
        for n, passage in enumerate(passages)
    ]
    return QuestionSet("topics", tuple(passages), tuple(questions))


def experiment(**told: Any) -> AblationExperiment:
    asked = keep(question_set()).key
    usual = {"text": asked, "questions": asked, "language_model": SMALL, "fine_tuning": TUNING, "test_share": 0.4}
    return AblationExperiment.model_validate({**usual, **told})


def carried(ablation: Ablation) -> Table:
    status = ablate(ablation)
    assert status.state is State.DONE, status.message
    assert ablation.table is not None
    return ablation.table


@pytest.fixture(scope="module")
def _whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ablation]:
    folder = tmp_path_factory.mktemp("ablations")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(folder))
        told = experiment(
            sentences=keep_pairs(scored_pairs()).key,
            untrained=True,
            vary={"mask_share": [0.3], "objective": ["mlm-nsp"]},
        )
        whole = planned_ablation(told, "mine")
        carried(whole)
        return folder, whole


@pytest.fixture
def there(_whole: tuple[Path, Ablation], monkeypatch: pytest.MonkeyPatch) -> Ablation:
    """One that nothing interrupted, in its workspace."""
    monkeypatch.setenv("MRC_WORKSPACE", str(_whole[0]))
    return _whole[1]


def variants(ablation: Ablation) -> dict[int, Variant]:
    assert ablation.table is not None
    return {one.number: one for one in ablation.table.variants}


def test_variants_are_trainings_that_differ_in_one_thing(there: Ablation) -> None:
    found = variants(there)
    assert [*found] == [UNTRAINED, REFERENCE, 2, 3]
    learned = {number: find_run(one.model) for number, one in found.items() if number != UNTRAINED}
    plans = {number: run.plan() for number, run in learned.items() if run}
    assert len({plan.fingerprint for plan in plans.values()}) == 1
    assert asdict(plans[2].options) == {**asdict(plans[REFERENCE].options), "mask_share": 0.3}
    assert plans[3].options.objective == "mlm-nsp"
    tuned = [find_run(one.tuned) for one in found.values()]
    assert len({str({**asdict(run.plan().options), "base": ""}) for run in tuned if run}) == 1
    assert [run.plan().options.base for run in tuned if run] == [one.model for one in found.values()]
    assert all(run and run.status().state is State.DONE for run in (*learned.values(), *tuned))
    assert plans[2].name == "mine · mask_share 0.3"


def test_the_base_as_it_is_is_the_reference_before_its_first_step(there: Ablation) -> None:
    reference = find_run(variants(there)[REFERENCE].model)
    assert reference is not None
    material, options = load_material(reference.plan()), reference.plan().options
    weights = load_file(there.part(str(UNTRAINED)).model_folder / "model.safetensors")
    config = json.loads((reference.model_folder / "config.json").read_text())
    new = new_masked(config, material.tokenizer, pairs=False, seed=options.seed)
    drawn = {name: value.numpy() for name, value in new[0].model.state_dict().items()}
    assert weights
    assert all(np.array_equal(value, drawn[name]) for name, value in weights.items())


def test_the_figures_are_those_of_each_measured_alone(there: Ablation) -> None:
    found, table, told = variants(there), there.table, there.plan().ablation
    assert table is not None
    assert told is not None
    assert table.measures == [
        "perplexity", "masked_accuracy", "next_accuracy", "spearman_before", "spearman", "ndcg@10"
    ]  # fmt: skip
    for number, one in found.items():
        figures = one.figures or {}
        assert ("next_accuracy" in figures) == (number == 3)
        if number != UNTRAINED:
            run = find_run(one.model)
            assert run is not None
            ends = run.scores()["intervals"]["after"]["perplexity"]
            assert figures["perplexity"] == Interval(run.scores()["after"]["perplexity"], *ends)
        alone = Experiment(
            data=told["questions"],
            split=Part.TEST,
            test_share=0.4,
            retriever=(DenseSpec(name="alone", model=one.tuned, windows=True),),
        )
        of_test = alone.asked(question_set())
        made, texts = materials_of(alone, of_test).made["alone"], texts_of(of_test.questions)
        assert isinstance(made, CachedRetriever)
        assert made.remembers(texts, made.depth), "under another name, Compare has nothing to search again"
        asked = compare(alone, question_set())
        value, low, high = figures["ndcg@10"]
        assert value == asked.scores["alone"].means()["ndcg@10"]
        assert (low, high) == intervals_of(asked.scores["alone"], question_groups(asked.question_set))["ndcg@10"]
        for measure, model in (("spearman_before", one.model), ("spearman", one.tuned)):
            judged = evaluate(scored_pairs(), [model]).measured[model].figures["spearman"]
            assert figures[measure].value == pytest.approx(judged.value)
    assert table.questions == len(asked.question_set.questions)
    assert table.pairs == len(evaluate(scored_pairs(), []).rows)


def test_differences_are_to_the_reference_and_allow_for_all(there: Ablation) -> None:
    found, told = variants(there), there.plan().ablation
    assert told is not None
    specs = tuple(DenseSpec(name=str(number), model=one.tuned, windows=True) for number, one in found.items())
    asked = compare(
        Experiment(data=told["questions"], split=Part.TEST, test_share=0.4, retriever=specs), question_set()
    )
    groups = question_groups(asked.question_set)
    assert found[REFERENCE].differences == {}
    for number in (UNTRAINED, 2, 3):
        of = {str(one): asked.scores[str(one)] for one in (number, REFERENCE)}
        test = pair_tests(of, ["ndcg@10"], groups)[0]
        mine = (found[number].differences or {})["ndcg@10"]
        assert mine.value == pytest.approx(test.difference)
        assert mine.low <= test.low <= test.high <= mine.high
        figures = {one: (found[one].figures or {})["spearman"].value for one in (number, REFERENCE)}
        by_people = (found[number].differences or {})["spearman"]
        assert by_people.value == pytest.approx(figures[number] - figures[REFERENCE])
        assert by_people.low <= by_people.value <= by_people.high


def test_only_what_hides_the_same_tokens_is_alike(there: Ablation) -> None:
    assert {number: one.alike for number, one in variants(there).items()} == {0: False, 1: True, 2: False, 3: False}


def test_what_was_done_before_is_no_work_of_now(there: Ablation) -> None:
    again = carry._Ablating(there, Status(State.RUNNING))
    before = there.status()
    again.work()
    there.write_status(before)
    # all but the untrained network, of which there is no run; the time left is told by what was done now
    assert (again._ended, again._ended_before, again._stages) == (8, 7, 9)


def test_it_is_no_training_and_its_parts_serve_like_any(there: Ablation) -> None:
    assert find_job(there.id) == there == job_at(there.folder)
    assert there in all_jobs()
    assert there not in all_runs()
    assert QUEUE.queued() == []
    trials = [run.plan().trial for run in there.parts()]
    assert all(trial and trial.whole and trial.search == there.id for trial in trials)
    assert [trial.number for trial in trials if trial] == [0, 1, 1, 2, 2, 3, 3]


def test_what_was_trained_is_not_trained_again(there: Ablation) -> None:
    before, known = all_runs(), there.plan().ablation
    again = planned_ablation(AblationExperiment.model_validate({**(known or {}), "vary": {}}), "again")
    try:
        table = carried(again)
        assert set(all_runs()) - set(before) == {again.part("0-tuned")}, "a network of its own is as new as it is"
        first = variants(there)
        assert {one.number: one.tuned for one in table.variants if one.number} == {1: first[1].tuned}
        assert (table.variants[1].figures or {})["ndcg@10"] == (first[1].figures or {})["ndcg@10"]
    finally:
        again.delete()


@pytest.fixture
def short() -> Ablation:
    return planned_ablation(experiment(vary={"seed": [1]}), "short")


def test_stopped_in_any_training_it_goes_on_there(short: Ablation, monkeypatch: pytest.MonkeyPatch) -> None:
    from mrc_workbench.training.trainers import Watch

    told: Callable[..., None] = Watch.on_step_end
    for name in ("1", "2-tuned"):
        with monkeypatch.context() as patch:

            def stopping(self: Watch, args: Any, state: Any, control: Any, *, name: str = name, **more: Any) -> None:
                told(self, args, state, control, **more)
                if short.part(name).status().at_work and state.global_step == 2:
                    short.ask_to_stop()

            patch.setattr(Watch, "on_step_end", stopping)
            assert ablate(short).state is State.STOPPED
        assert not short.done
        assert short.part(name).status().state is State.STOPPED
        again(short)
    table = carried(short)
    first, second = table.variants
    assert first.figures
    assert second.figures
    steps = [entry["step"] for entry in short.part("1").progress() if "loss" in entry]
    assert steps == sorted(set(steps)), "no step was done twice"
    short.delete()
    assert all_jobs() == []
    assert not list(short.folder.parent.glob("2*"))


def test_a_variant_that_fails_fails_alone() -> None:
    table = carried(planned_ablation(experiment(vary={"report_to": ["wandb"], "seed": [1]}), "one fails"))
    codes = [one.code for one in table.variants]
    assert codes == ["", "no_reporter", ""]
    assert "wandb" in table.variants[1].message
    assert not table.variants[1].figures
    assert "ndcg@10" in (table.variants[2].figures or {})


def test_going_on_from_an_encoder_it_stays_one(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    base = build_bi_encoder(tmp_path / "base")
    (base / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "질문: "}}))
    told = {"base": str(base), "epochs": 1.0, "max_length": 16, "precision": "float32"}
    one = carried(planned_ablation(experiment(language_model=told, untrained=True), "adapted"))
    assert one.variants[0].model == str(base), "the base as it is"
    run = find_run(one.variants[1].model)
    assert run is not None
    assert run.plan().kind == LANGUAGE_MODEL
    adapted, began = SentenceTransformer(str(run.model_folder)), SentenceTransformer(str(base))
    assert [type(module) for module in adapted] == [type(module) for module in began]
    assert adapted.prompts["query"] == "질문: "
    vectors = [np.asarray(model.encode(["고양이가 잔다"])) for model in (adapted, began)]
    assert vectors[0].shape == vectors[1].shape
    assert not np.allclose(*vectors)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, asked = tmp_path / "mine.toml", keep(question_set()).key
    small = "\n".join(f"{name} = {json.dumps(value)}" for name, value in SMALL.items())
    path.write_text(f'text = "{asked}"\n[language_model]\n{small}\n[vary]\nseed = [1]\n', encoding="utf-8")
    assert main(["ablate", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["changed"] for one in told["variants"]] == [{}, {"seed": 1}]
    assert main(["ablate", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["variant", "perplexity", "masked_accuracy"]
    assert lines[2].startswith("seed 1")
    path.write_text('text = "nothing of that name"\n[vary]\nseed = [1]\n', encoding="utf-8")
    assert main(["ablate", str(path)]) == 2
    assert "nothing of that name" in capsys.readouterr().err
