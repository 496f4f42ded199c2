"""An ablation: its experiment file, the trainings of its variants, and their evaluation."""

import time
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, field_validator

from mrc_workbench.data.cache import sealing
from mrc_workbench.data.files import accept_earlier_names
from mrc_workbench.data.jobs.folder import State, Status, StopRequested
from mrc_workbench.data.pairs import PairSet
from mrc_workbench.data.pairs.store import find as find_pairs
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import find as find_questions
from mrc_workbench.labs.embeddings.study import evaluate
from mrc_workbench.models.language.masking import FOLLOWED, GUESSED, PERPLEXITY
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, ExperimentError
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.significance import Interval, Pair, intervals_of, paired_tests, question_groups
from mrc_workbench.training import jobs
from mrc_workbench.training.options import OptionError, TrainingError, TrainingOptions, with_current_names
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderOptions
from mrc_workbench.training.runs import Run, TrainingPlan, Trial, all_runs, create_run, find_run
from mrc_workbench.training.search import Sweep
from mrc_workbench.training.text_options import LanguageOptions
from mrc_workbench.training.train import LoadedTraining, execute

NDCG = "ndcg@10"
SPEARMAN = "spearman"  # of the fine-tuned model
SPEARMAN_BEFORE = "spearman_before"  # of the language model
MAX_VARIANTS = 40
Kind = TypeVar("Kind", bound=TrainingOptions)
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr


class AblationExperiment(BaseModel):
    """The text, options and varied values; variants are evaluated on `questions` and `sentences`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    _earlier = accept_earlier_names({"validation_share": "validation_fraction", "test_share": "test_fraction"})
    _earlier_options = field_validator("language_model", "fine_tuning", "vary", mode="before")(with_current_names)
    text: str = Field(min_length=1)
    questions: str = ""
    sentences: str = ""
    validation_fraction: float = 0.1
    test_fraction: float = 0.2
    seed: int = 0
    untrained: bool = False
    language_model: dict[str, Scalar] = {}
    fine_tuning: dict[str, Scalar] = {}
    vary: dict[str, tuple[Scalar, ...]] = {}

    @property
    def split_options(self) -> SplitOptions:
        return SplitOptions(self.validation_fraction, self.test_fraction, self.seed)

    @property
    def changes(self) -> dict[int, dict[str, Scalar]]:
        """The changed options of each variant by number; the reference and the untrained base change none."""
        varied = [{name: value} for name, values in self.vary.items() for value in values]
        untrained: dict[int, dict[str, Scalar]] = {jobs.UNTRAINED: {}} if self.untrained else {}
        return untrained | dict(enumerate([{}, *varied], start=jobs.REFERENCE))

    def language_model_options(self, number: int) -> LanguageOptions:
        """Return the options of a variant's language model. Raises `ExperimentError`."""
        file_options = self.language_model
        variant_changes = self.changes[number]
        base = str({**file_options, **variant_changes}.get("base", STARTER))
        defaults = asdict(LanguageOptions.defaults_for(base)) | {"max_snapshots": 0}
        section = "vary" if variant_changes else "language_model"
        return _parse_options(LanguageOptions, defaults, {**file_options, **variant_changes}, section)

    def fine_tuning_options(self, base: str) -> BiEncoderOptions:
        """Return the options of fine-tuning, with the defaults of the initial base. Raises `ExperimentError`."""
        initial_base = self.language_model_options(jobs.REFERENCE).base
        # a new transformer learns like others: the defaults of a starter are for a vector table
        is_new = initial_base == STARTER
        defaults = BiEncoderOptions(base=base) if is_new else BiEncoderOptions.defaults_for(initial_base)
        return _parse_options(BiEncoderOptions, asdict(defaults), {**self.fine_tuning, "base": base}, "fine_tuning")

    def check(self) -> None:
        """Raise `ExperimentError` if an option of a variant is invalid, or no option varies."""
        try:
            SplitOptions(self.validation_fraction, self.test_fraction, self.seed)
        except ValueError as error:
            raise ExperimentError(str(error)) from error
        if not 2 <= len(self.changes) <= MAX_VARIANTS:
            expected = f"2 to {MAX_VARIANTS} variants, not {len(self.changes)}"
            raise ExperimentError(f"vary: give {expected}: values of options in [vary], or untrained = true")
        option_sets = [self.language_model_options(number) for number in self.changes]
        if len({str(asdict(options)) for options in option_sets}) < len(option_sets) - self.untrained:
            raise ExperimentError("vary: two variants are the same: omit values that language_model has already")
        self.fine_tuning_options("a-base")


def _parse_options(kind: type[Kind], defaults: dict[str, Any], file_options: Mapping[str, Any], section: str) -> Kind:
    option_fields = {field.name: field for field in fields(kind)}
    if unknown := [name for name in file_options if name not in option_fields]:
        raise ExperimentError(f"{section}: there is no option {unknown[0]!r}; use {', '.join(sorted(option_fields))}")
    typed = {
        name: float(number) if isinstance(defaults[name], float) and type(number) is int else number
        for name, number in file_options.items()
    }
    for name, value in typed.items():
        expected = str if isinstance(defaults[name], str) else type(defaults[name])
        if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
            raise ExperimentError(f"{section}.{name}: {value!r} is no {expected.__name__}")
    try:
        return kind(**{**defaults, **typed})
    except (OptionError, ValueError) as error:
        raise ExperimentError(f"{section}: {error}") from error


class VariantScores(NamedTuple):
    """Scores and differences to the reference by variant number, and the number of questions or pairs."""

    intervals: dict[int, Interval]
    differences: dict[int, jobs.VariantDifference]
    sample_size: int


def hidden_token_scores(run: Run) -> dict[str, Interval]:
    """Return perplexity, masked accuracy and next-segment accuracy of a finished language model, by measure."""
    scores = run.scores()
    after = scores.get("after", {})
    bounds = scores.get("intervals", {}).get("after", {})
    known = [name for name in (PERPLEXITY, GUESSED, FOLLOWED) if name in after and name in bounds]
    return {name: Interval(after[name], *bounds[name]) for name in known}


def evaluate_on_questions(
    question_set: QuestionSet, data: str, split_options: SplitOptions, models: Mapping[int, str]
) -> VariantScores:
    """Return nDCG@10 of bi-encoders on test questions, and differences to the reference. Raises `ValueError`."""
    experiment = Experiment(
        data=data,
        split=Part.TEST,
        validation_fraction=split_options.validation,
        test_fraction=split_options.test,
        seed=split_options.seed,
        retriever=tuple(DenseSpec(name=str(number), model=model, windows=True) for number, model in models.items()),
    )
    result = compare(experiment, question_set)
    scores = {number: result.scores[str(number)] for number in models if str(number) in result.scores}
    groups = question_groups(result.question_set)
    intervals = {n: Interval(result.means()[NDCG], *intervals_of(result, groups)[NDCG]) for n, result in scores.items()}
    values = {number: variant.per_question[NDCG] for number, variant in scores.items()}
    others = [number for number in values if number != jobs.REFERENCE and jobs.REFERENCE in values]
    pairs = [
        Pair(str(variant), str(jobs.REFERENCE), NDCG, values[variant], values[jobs.REFERENCE]) for variant in others
    ]
    tests = zip(others, paired_tests(pairs, groups) if pairs else (), strict=True)
    differences = {n: jobs.VariantDifference(test.difference, test.low, test.high, test.p_family) for n, test in tests}
    return VariantScores(intervals, differences, len(result.question_set.questions))


def evaluate_on_pairs(pairs: PairSet, models: Mapping[int, str]) -> VariantScores:
    """Return Spearman's correlations of cosines and human scores. Raises `EmbeddingError`."""
    result = evaluate(pairs, list(dict.fromkeys(models.values())))
    known = {number: model for number, model in models.items() if model in result.results_by_model}
    intervals = {n: Interval(*result.results_by_model[model].metrics[SPEARMAN]) for n, model in known.items()}
    differences: dict[int, jobs.VariantDifference] = {}
    for test in result.differences.get(SPEARMAN, []):
        for number, model in models.items():
            if (
                number == jobs.REFERENCE
                or models.get(jobs.REFERENCE) not in (test.a, test.b)
                or model not in (test.a, test.b)
            ):
                continue
            sign = 1 if test.a == model else -1
            low, high = sorted((sign * test.low, sign * test.high))
            differences[number] = jobs.VariantDifference(sign * test.difference, low, high, test.p_family)
    return VariantScores(intervals, differences, len(result.rows))


def run_ablation(ablation: jobs.Ablation, *, sent_by_worker: bool = False) -> Status:
    """Execute an ablation; see `Sweep.execute`."""
    return _AblationSweep.execute(ablation, sent_by_worker=sent_by_worker)


class _AblationSweep(Sweep[jobs.Ablation]):
    def __init__(self, ablation: jobs.Ablation, status: Status) -> None:
        super().__init__(ablation, status)
        self._experiment = AblationExperiment.model_validate(self._plan.ablation)
        self._changes = self._experiment.changes
        self._stages = len(self._changes) * (2 if self._experiment.questions else 1) + 1
        self._evaluation_key: str | None = None  # of the reference, which is trained first
        self._finished_stages = self._reused_stages = 0

    def work(self) -> None:
        self._begin(jobs.AblationStage.LOADING)
        partial_table = self._job.table or jobs.AblationTable(())
        variants = {variant.number: variant for variant in partial_table.variants}
        for number in sorted(self._changes, key=lambda number: (number != jobs.REFERENCE, number)):
            variants[number] = self._train_variant(number)
            known = tuple(variants[variant] for variant in self._changes if variant in variants)
            self._job.save_outcome(jobs.AblationTable(known), is_partial=True)
        table = self._measure_variants(jobs.AblationTable(tuple(variants[variant] for variant in self._changes)))
        self._job.save_outcome(table)

    def _train_variant(self, number: int) -> jobs.Variant:
        """Train a variant. Raises `TrainingError` only if the reference fails."""
        variant = jobs.Variant(number, dict(self._changes[number]))
        try:
            self._begin(jobs.AblationStage.LEARNING, number)
            model = self._language_model(number)
            run = find_run(model)
            metrics = hidden_token_scores(run) if run and number != jobs.UNTRAINED else {}
            evaluation_key = run.base_measurement().get("evaluation_key") if run else ""
            if number == jobs.REFERENCE:
                self._evaluation_key = evaluation_key
            is_comparable = evaluation_key == self._evaluation_key
            variant = replace(variant, model=model, metrics=metrics, is_comparable=is_comparable)
            self._finished_stages += 1
            if self._experiment.questions:
                self._begin(jobs.AblationStage.TUNING, number)
                fine_tuned_run = self._run_or_reuse(f"{number}-tuned", number, self._fine_tuning_plan(number, model))
                variant = replace(variant, fine_tuned_run=fine_tuned_run.id)
                self._finished_stages += 1
        except TrainingError as error:
            if number == jobs.REFERENCE:
                raise
            return replace(variant, code=error.code, message=str(error))
        return variant

    def _language_model(self, number: int) -> str:
        """Return the run id or base of a variant's language model, which is trained if necessary."""
        if number != jobs.UNTRAINED:
            options = self._experiment.language_model_options(number)
            return self._run_or_reuse(str(number), number, self._variant_plan(number, options=options)).id
        base = self._experiment.language_model_options(jobs.REFERENCE).base
        if base != STARTER:
            return base
        run = self._job.get_part(str(jobs.UNTRAINED))  # the reference's network before its first step
        if not run.model_folder.is_dir():
            plan = self._variant_plan(jobs.REFERENCE, options=self._experiment.language_model_options(jobs.REFERENCE))
            model = LoadedTraining.from_plan(plan).build_task().model
            with sealing(run.model_folder) as new:
                model.save_pretrained(str(new), create_model_card=False)
        return run.id

    def _run_or_reuse(self, name: str, number: int, plan: TrainingPlan) -> Run:
        """Return an existing or new finished run of the plan. Raises `StopRequested` and `TrainingError`."""
        if existing_run := next((run for run in all_runs() if _has_same_result(run, plan)), None):
            self._reused_stages += 1
            return existing_run
        plan = replace(plan, trial=Trial(self._job.id, number, len(self._changes), is_complete=True))
        part = self._job.get_part(name)
        run = self._resume_or_create(part, partial(create_run, plan, part.folder, attended=True))
        from mrc_workbench.training.trainers import TrainingProgressCallback  # imports transformers

        progress_callback = TrainingProgressCallback(lambda progress: self._write(progress) if self._is_due() else None)
        status = execute(run, progress_callback)
        if self._job.stop_requested or status.state is State.STOPPED:
            raise StopRequested
        if status.state is not State.DONE:
            raise TrainingError(status.code or "unexpected", status.message)
        return run

    def _fine_tuning_plan(self, number: int, model: str) -> TrainingPlan:
        questions = self._questions
        options = self._experiment.fine_tuning_options(model)
        data = {"data": self._experiment.questions, "data_name": questions.name, "fingerprint": questions.fingerprint}
        plan = self._variant_plan(number, kind=BI_ENCODER, options=options, **data)
        if number != jobs.UNTRAINED:
            return plan
        name = "untrained" if model == self._job.get_part(str(jobs.UNTRAINED)).id else model
        return replace(plan, name=f"{self._plan.name} · {name}")

    def _variant_plan(self, number: int, **changes: Any) -> TrainingPlan:
        changed = ", ".join(f"{option} {value}" for option, value in self._changes[number].items())
        name = f"{self._plan.name} · {changed}" if changed else self._plan.name
        return replace(self._plan, name=name, ablation=None, **changes)

    @cached_property
    def _questions(self) -> QuestionSet:
        return find_questions(self._experiment.questions)

    def _measure_variants(self, table: jobs.AblationTable) -> jobs.AblationTable:
        self._begin(jobs.AblationStage.MEASURING)
        trained = [variant for variant in table.variants if not variant.code]
        models = {variant.number: variant.model for variant in trained}
        fine_tuned_models = {variant.number: variant.fine_tuned_run for variant in trained if variant.fine_tuned_run}
        by_measure: dict[str, VariantScores] = {}
        if self._experiment.sentences:
            pairs = find_pairs(self._experiment.sentences)
            by_measure[SPEARMAN_BEFORE] = evaluate_on_pairs(pairs, models)
            table = replace(table, pairs=by_measure[SPEARMAN_BEFORE].sample_size)
            if fine_tuned_models:
                by_measure[SPEARMAN] = evaluate_on_pairs(pairs, fine_tuned_models)
        if fine_tuned_models:
            split_options = self._experiment.split_options
            reference = self._experiment.questions
            by_measure[NDCG] = evaluate_on_questions(self._questions, reference, split_options, fine_tuned_models)
            table = replace(table, questions=by_measure[NDCG].sample_size)
        variants = []
        for variant in table.variants:
            n = variant.number
            metrics = {name: scores.intervals[n] for name, scores in by_measure.items() if n in scores.intervals}
            changes = {name: scores.differences[n] for name, scores in by_measure.items() if n in scores.differences}
            metrics = {**(variant.metrics or {}), **metrics}
            variants.append(replace(variant, metrics=metrics, differences=changes))
        return replace(table, variants=tuple(variants))

    def _begin(self, stage: jobs.AblationStage, number: int | None = None) -> None:
        if self._job.stop_requested:
            raise StopRequested
        self._enter_stage(stage, number, step=self._finished_stages, total_steps=self._stages)
        self._write(0.0)

    def _write(self, stage_progress: float) -> None:
        """Report the progress. The time left assumes that all stages take equally long."""
        finished = self._finished_stages + stage_progress
        finished_here = finished - self._reused_stages
        pace = (time.monotonic() - self._began) / finished_here if finished_here > 0 else None
        seconds_left = None if pace is None else pace * (self._stages - finished)
        self._report(finished / self._stages, seconds_left)


def _has_same_result(run: Run, plan: TrainingPlan) -> bool:
    """Whether a run is finished, and its plan has the same result."""
    finished = run.plan()
    compared_fields = ("kind", "fingerprint", "split", "options", "marked_negatives", "round")
    is_same_plan = all(getattr(finished, name) == getattr(plan, name) for name in compared_fields)
    is_cut_short = finished.trial is not None and not finished.trial.is_complete
    return is_same_plan and not is_cut_short and run.status().state is State.DONE
