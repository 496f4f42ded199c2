"""An ablation: the file that says what varies, its language models trained one after the other, and what judges them.

Each is fine-tuned alike, then all are measured. A finished training of this workspace with the same plan is reused.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from mrc_workbench.data.cache import sealing
from mrc_workbench.data.jobs.folder import AskedToStop, State, Status
from mrc_workbench.data.pairs import PairSet
from mrc_workbench.data.pairs.store import find as find_pairs
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import find as find_questions
from mrc_workbench.labs.embeddings.study import evaluate
from mrc_workbench.models.language.masking import FOLLOWED, GUESSED, PERPLEXITY
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, ExperimentError
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.significance import Interval, Pair, intervals_of, paired_tests, question_groups
from mrc_workbench.training.jobs import REFERENCE, UNTRAINED, Ablation, AblationStage, Difference, Table, Variant
from mrc_workbench.training.options import OptionError, TrainingError, TrainingOptions
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderOptions
from mrc_workbench.training.recipes import recipe_of
from mrc_workbench.training.runs import Plan, Run, Trial, all_runs, create_run, find_run
from mrc_workbench.training.search import Sweep
from mrc_workbench.training.text_options import LanguageOptions
from mrc_workbench.training.train import execute, load_material

NDCG = "ndcg@10"
SPEARMAN, SPEARMAN_BEFORE = "spearman", "spearman_before"  # of the fine-tuned model, and of what it started from
MOST_VARIANTS = 40
Kind = TypeVar("Kind", bound=TrainingOptions)
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr


class AblationExperiment(BaseModel):
    """What is learned from and what is varied, one thing at a time; `untrained` adds the base as it is.

    With `questions`, every variant is fine-tuned on their training part and measured on their test part; with
    `sentences`, pairs with human scores, its vectors are compared with these.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    text: str = Field(min_length=1)
    questions: str = ""
    sentences: str = ""
    validation_share: float = 0.1
    test_share: float = 0.2
    seed: int = 0
    untrained: bool = False
    language_model: dict[str, Scalar] = {}
    fine_tuning: dict[str, Scalar] = {}
    vary: dict[str, tuple[Scalar, ...]] = {}

    @property
    def shares(self) -> SplitOptions:
        return SplitOptions(self.validation_share, self.test_share, self.seed)

    @property
    def changes(self) -> dict[int, dict[str, Scalar]]:
        """What each variant changes, by its number: the reference nothing, the untrained base is `UNTRAINED`."""
        varied = [{name: value} for name, values in self.vary.items() for value in values]
        untrained: dict[int, dict[str, Scalar]] = {UNTRAINED: {}} if self.untrained else {}
        return untrained | dict(enumerate([{}, *varied], start=REFERENCE))

    def learning(self, number: int) -> LanguageOptions:
        """Return the options of a variant's language model. Raises `ExperimentError`, which names what is wrong."""
        given, changed = self.language_model, self.changes[number]
        suited = LanguageOptions.suited_to(str(changed.get("base", given.get("base", STARTER))))
        defaults = asdict(suited) | {"kept_models": 0}  # of many variants nobody looks at how each came there
        return _options_of(LanguageOptions, defaults, {**given, **changed}, "vary" if changed else "language_model")

    def tuning(self, base: str) -> BiEncoderOptions:
        """Return the options of fine-tuning, which suit the base that all started from. Raises `ExperimentError`."""
        began = self.learning(REFERENCE).base
        # a new transformer learns as others do: what suits a starter is for a table of words
        defaults = BiEncoderOptions(base=base) if began == STARTER else BiEncoderOptions.suited_to(began)
        return _options_of(BiEncoderOptions, asdict(defaults), {**self.fine_tuning, "base": base}, "fine_tuning")

    def check(self) -> None:
        """Raise `ExperimentError` if an option of any variant is wrong, or nothing is varied."""
        try:
            _ = self.shares
        except ValueError as error:
            raise ExperimentError(str(error)) from error
        if not 2 <= len(self.changes) <= MOST_VARIANTS:
            wanted = f"2 to {MOST_VARIANTS} variants, not {len(self.changes)}"
            raise ExperimentError(f"vary: give {wanted}: values of options in [vary], or untrained = true")
        made = [self.learning(number) for number in self.changes]
        if len({str(asdict(one)) for one in made}) < len(made) - self.untrained:
            raise ExperimentError("vary: two variants are the same: leave out values that language_model has already")
        self.tuning("a-base")


def _options_of(kind: type[Kind], defaults: Mapping[str, Any], given: Mapping[str, Any], place: str) -> Kind:
    known = {field.name: field for field in fields(kind)}
    if unknown := [name for name in given if name not in known]:
        raise ExperimentError(f"{place}: there is no option {unknown[0]!r}; there are {', '.join(sorted(known))}")
    typed = {name: float(v) if isinstance(defaults[name], float) and type(v) is int else v for name, v in given.items()}
    for name, value in typed.items():
        expected = str if isinstance(defaults[name], str) else type(defaults[name])
        if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
            raise ExperimentError(f"{place}.{name}: {value!r} is no {expected.__name__}")
    try:
        return kind(**{**defaults, **typed})
    except (OptionError, ValueError) as error:
        raise ExperimentError(f"{place}: {error}") from error


class Judged(NamedTuple):
    """Figures and differences to the reference by variant number, and how many questions or pairs judge."""

    figures: dict[int, Interval]
    differences: dict[int, Difference]
    judges: int


def of_hidden_tokens(run: Run) -> dict[str, Interval]:
    """Perplexity, share guessed and, of pairs, share told, of a finished language model, by measure."""
    scores = run.scores()
    after, ends = scores.get("after", {}), scores.get("intervals", {}).get("after", {})
    return {
        name: Interval(after[name], *ends[name])
        for name in (PERPLEXITY, GUESSED, FOLLOWED)
        if name in after and name in ends
    }


def of_questions(question_set: QuestionSet, data: str, shares: SplitOptions, models: Mapping[int, str]) -> Judged:
    """nDCG@10 of bi-encoders on the test questions, compared with the reference's; all are tested together.

    A model that cannot search has no figure. Raises `ValueError` if no test question has a relevant passage.
    """
    experiment = Experiment(
        data=data,
        split=Part.TEST,
        validation_share=shares.validation,
        test_share=shares.test,
        seed=shares.seed,
        retriever=tuple(DenseSpec(name=str(number), model=model, windows=True) for number, model in models.items()),
    )
    result = compare(experiment, question_set)
    scores = {number: result.scores[str(number)] for number in models if str(number) in result.scores}
    groups = question_groups(result.question_set)
    figures = {number: Interval(one.means()[NDCG], *intervals_of(one, groups)[NDCG]) for number, one in scores.items()}
    values = {number: one.per_question[NDCG] for number, one in scores.items()}
    others = [number for number in values if number != REFERENCE and REFERENCE in values]
    pairs = [Pair(str(one), str(REFERENCE), NDCG, values[one], values[REFERENCE]) for one in others]
    tests = zip(others, paired_tests(pairs, groups) if pairs else (), strict=True)
    apart = {number: Difference(test.difference, test.low, test.high, test.p_family) for number, test in tests}
    return Judged(figures, apart, len(result.question_set.questions))


def of_pairs(pairs: PairSet, models: Mapping[int, str]) -> Judged:
    """Spearman's correlation of cosines and human scores, compared with the reference's. Raises `EmbeddingError`."""
    result = evaluate(pairs, list(dict.fromkeys(models.values())))
    known = {number: model for number, model in models.items() if model in result.measured}
    figures = {number: Interval(*result.measured[model].figures[SPEARMAN]) for number, model in known.items()}
    apart: dict[int, Difference] = {}
    for test in result.differences.get(SPEARMAN, []):
        for number, model in models.items():
            if number == REFERENCE or models.get(REFERENCE) not in (test.a, test.b) or model not in (test.a, test.b):
                continue
            sign = 1 if test.a == model else -1
            low, high = sorted((sign * test.low, sign * test.high))
            apart[number] = Difference(sign * test.difference, low, high, test.p_family)
    return Judged(figures, apart, len(result.rows))


def ablate(ablation: Ablation, *, sent_by_worker: bool = False) -> Status:
    """Wait for the machine, do an ablation in this process and return how it ended; see `Sweep.execute`."""
    return _Ablating.execute(ablation, sent_by_worker=sent_by_worker)


class _Ablating(Sweep[Ablation]):
    def __init__(self, ablation: Ablation, status: Status) -> None:
        super().__init__(ablation, status)
        self._experiment = AblationExperiment.model_validate(self._plan.ablation)
        self._changes = self._experiment.changes
        self._stages = len(self._changes) * (2 if self._experiment.questions else 1) + 1
        self._judge: str | None = None  # of the reference, which is trained before the others
        self._ended = self._ended_before = 0

    def work(self) -> None:
        self._begin(AblationStage.LOADING)
        known = self._job.table or Table(())
        variants = {one.number: one for one in known.variants}
        for number in sorted(self._changes, key=lambda number: (number != REFERENCE, number)):
            variants[number] = self._trained(number)
            self._job.keep(Table(tuple(variants[one] for one in self._changes if one in variants)), so_far=True)
        table = self._measured(Table(tuple(variants[one] for one in self._changes)))
        self._job.keep(table)

    def _trained(self, number: int) -> Variant:
        """Train a variant. Its failure does not end the others, unless it is the reference."""
        variant = Variant(number, dict(self._changes[number]))
        try:
            self._begin(AblationStage.LEARNING, number)
            model = self._model(number)
            run = find_run(model)
            figures = of_hidden_tokens(run) if run and number != UNTRAINED else {}
            judge = run.read("before.json").get("judge") if run else ""
            if number == REFERENCE:
                self._judge = judge
            variant = replace(variant, model=model, figures=figures, alike=judge == self._judge)
            self._ended += 1
            if self._experiment.questions:
                self._begin(AblationStage.TUNING, number)
                tuned = self._run(f"{number}-tuned", number, self._tuning(number, model))
                variant = replace(variant, tuned=tuned.id)
                self._ended += 1
        except TrainingError as error:
            if number == REFERENCE:
                raise
            return replace(variant, code=error.code, message=str(error))
        return variant

    def _model(self, number: int) -> str:
        """Return what names a variant's language model, trained now if it is not yet."""
        if number != UNTRAINED:
            return self._run(str(number), number, self._part(number, options=self._experiment.learning(number))).id
        base = self._experiment.learning(REFERENCE).base
        if base != STARTER:
            return base
        run = self._job.part(str(UNTRAINED))  # the reference's network before its first step
        if not run.model_folder.is_dir():
            plan = self._part(REFERENCE, options=self._experiment.learning(REFERENCE))
            task = recipe_of(plan.kind)(plan.options, load_material(plan)).task(find_model(plan.options.base))
            with sealing(run.model_folder) as new:
                task.model.save_pretrained(str(new), create_model_card=False)
        return run.id

    def _run(self, name: str, number: int, plan: Plan) -> Run:
        """Return a finished run of the plan, an existing or a new one. Raises `AskedToStop` and `TrainingError`."""
        if known := next((run for run in all_runs() if _is_the_same(run, plan)), None):
            self._ended_before += 1
            return known
        plan = replace(plan, trial=Trial(self._job.id, number, len(self._changes), whole=True))
        part = self._job.part(name)
        run = self._taken_up(part, partial(create_run, plan, part.folder, attended=True))
        from mrc_workbench.training.trainers import Watch  # imports transformers

        ended = execute(run, Watch(lambda share: self._write(share) if self._is_due() else None))
        if self._job.asked_to_stop or ended.state is State.STOPPED:
            raise AskedToStop
        if ended.state is not State.DONE:
            raise TrainingError(ended.code or "unexpected", ended.message)
        return run

    def _tuning(self, number: int, model: str) -> Plan:
        questions, options = self._questions, self._experiment.tuning(model)
        data = {"data": self._experiment.questions, "data_name": questions.name, "fingerprint": questions.fingerprint}
        plan = self._part(number, kind=BI_ENCODER, options=options, **data)
        if number != UNTRAINED:
            return plan
        name = "untrained" if model == self._job.part(str(UNTRAINED)).id else model
        return replace(plan, name=f"{self._plan.name} · {name}")

    def _part(self, number: int, **changes: Any) -> Plan:
        changed = ", ".join(f"{option} {value}" for option, value in self._changes[number].items())
        name = f"{self._plan.name} · {changed}" if changed else self._plan.name
        return replace(self._plan, name=name, ablation=None, **changes)

    @cached_property
    def _questions(self) -> QuestionSet:
        return find_questions(self._experiment.questions)

    def _measured(self, table: Table) -> Table:
        self._begin(AblationStage.MEASURING)
        trained = [one for one in table.variants if not one.code]
        models = {one.number: one.model for one in trained}
        tuned = {one.number: one.tuned for one in trained if one.tuned}
        judged: dict[str, Judged] = {}
        if self._experiment.sentences:
            pairs = find_pairs(self._experiment.sentences)
            judged[SPEARMAN_BEFORE] = of_pairs(pairs, models)
            table = replace(table, pairs=judged[SPEARMAN_BEFORE].judges)
            if tuned:
                judged[SPEARMAN] = of_pairs(pairs, tuned)
        if tuned:
            judged[NDCG] = of_questions(self._questions, self._experiment.questions, self._experiment.shares, tuned)
            table = replace(table, questions=judged[NDCG].judges)
        variants = []
        for one in table.variants:
            figures = {name: of.figures[one.number] for name, of in judged.items() if one.number in of.figures}
            apart = {name: of.differences[one.number] for name, of in judged.items() if one.number in of.differences}
            variants.append(replace(one, figures={**(one.figures or {}), **figures}, differences=apart))
        return replace(table, variants=tuple(variants))

    def _begin(self, stage: AblationStage, number: int | None = None) -> None:
        if self._job.asked_to_stop:
            raise AskedToStop
        self._enter(stage, number, step=self._ended, total_steps=self._stages)
        self._write(0.0)

    def _write(self, within: float) -> None:
        """Report the progress as if the stages left took as long as those done here."""
        done = self._ended + within
        here = done - self._ended_before
        left = (time.monotonic() - self._began) / here * (self._stages - done) if here > 0 else None
        self._report(done / self._stages, left)


def _is_the_same(run: Run, plan: Plan) -> bool:
    """Whether a run is finished, and its plan gives the same result."""
    finished = run.plan()
    decides = ("kind", "fingerprint", "split", "options", "marked_negatives", "round")
    same = all(getattr(finished, name) == getattr(plan, name) for name in decides)
    return same and not (finished.trial and not finished.trial.whole) and run.status().state is State.DONE
