"""An ablation from its folder: its language models one after the other, each fine-tuned alike, then all measured.

A training of this workspace that was just so, and is done, is not done again.
"""

import time
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from mrc_workbench.data.cache import sealing
from mrc_workbench.data.jobs.folder import AskedToStop, State, Status
from mrc_workbench.data.pairs.store import find as find_pairs
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import find as find_questions
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.training.jobs import REFERENCE, UNTRAINED, Ablation, AblationStage, Table, Variant
from mrc_workbench.training.options import TrainingError
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.training.recipe import recipe_of
from mrc_workbench.training.runs import Plan, Run, Trial, all_runs, create_run, find_run
from mrc_workbench.training.sweeps.sweep import Sweep, Watch
from mrc_workbench.training.sweeps.variants import (
    NDCG,
    SPEARMAN,
    SPEARMAN_BEFORE,
    AblationExperiment,
    Judged,
    of_hidden_tokens,
    of_pairs,
    of_questions,
)
from mrc_workbench.training.train import execute, load_material


def ablate(ablation: Ablation, *, sent_by_worker: bool = False) -> Status:
    """Wait for the machine, do an ablation in this process and return how it ended; see `Sweep.execute`."""
    return _Ablating.execute(ablation, sent_by_worker=sent_by_worker)


class _Ablating(Sweep[Ablation]):
    """What one process does of an ablation."""

    def __init__(self, ablation: Ablation, status: Status) -> None:
        super().__init__(ablation, status)
        self._experiment = AblationExperiment.model_validate(self._plan.ablation)
        self._changes = self._experiment.changes
        self._stages = len(self._changes) * (2 if self._experiment.questions else 1) + 1
        self._reference: Run | None = None  # once it is trained, which it is before the others
        self._ended = self._ended_before = 0

    def work(self) -> None:
        """Go on until the end. Raises `AskedToStop`, and `Failure` where the reference cannot be made."""
        self._begin(AblationStage.LOADING)
        known = self._job.table or Table(())
        variants = {one.number: one for one in known.variants}
        for number in sorted(self._changes, key=lambda number: (number != REFERENCE, number)):
            variants[number] = self._trained(number)
            self._job.keep(Table(tuple(variants[one] for one in self._changes if one in variants)), so_far=True)
        table = self._measured(Table(tuple(variants[one] for one in self._changes)))
        self._job.keep(table)

    def _trained(self, number: int) -> Variant:
        """Train a variant; one that fails, fails alone, unless the others are held against it."""
        variant = Variant(number, dict(self._changes[number]))
        try:
            self._begin(AblationStage.LEARNING, number)
            model = self._model(number)
            run = find_run(model)
            figures = of_hidden_tokens(run) if run and number != UNTRAINED else {}
            variant = replace(variant, model=model, figures=figures, alike=self._is_alike(run, number))
            if number == REFERENCE:
                self._reference = run
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
        """Return the reference of a variant's language model, trained now where it is not yet."""
        if number != UNTRAINED:
            return self._run(str(number), number, self._learning(number)).id
        base = self._experiment.learning(REFERENCE).base
        return base if base != STARTER else self._untrained()

    def _untrained(self) -> str:
        """Write the reference's new network as it is before its first step; returns what stands for it."""
        run = self._job.part(str(UNTRAINED))
        if not run.model_folder.is_dir():
            plan = self._learning(REFERENCE)
            task = recipe_of(plan.kind)(plan.options, load_material(plan)).task(find_model(plan.options.base))
            with sealing(run.model_folder) as new:
                task.model.save_pretrained(str(new), create_model_card=False)
        return run.id

    def _run(self, name: str, number: int, plan: Plan) -> Run:
        """Return the finished run of a plan: one there is, or this ablation's own, gone on with to its end.

        Raises `AskedToStop`, and `TrainingError` where it failed.
        """
        if known := next((run for run in all_runs() if _is_the_same(run, plan)), None):
            self._ended_before += 1
            return known
        plan = replace(plan, trial=Trial(self._job.id, number, len(self._changes), whole=True))
        part = self._job.part(name)
        run = self._taken_up(part, partial(create_run, plan, part.folder, attended=True))
        ended = execute(run, Watch(self._tell))
        if self._job.asked_to_stop or ended.state is State.STOPPED:
            raise AskedToStop
        if ended.state is not State.DONE:
            raise TrainingError(ended.code or "unexpected", ended.message)
        return run

    def _learning(self, number: int) -> Plan:
        return self._part(number, options=self._experiment.learning(number))

    def _tuning(self, number: int, model: str) -> Plan:
        asked, options = self._questions, self._experiment.tuning(model)
        data = {"data": self._experiment.questions, "data_name": asked.name, "fingerprint": asked.fingerprint}
        plan = self._part(number, kind=BI_ENCODER, options=options, **data)
        if number != UNTRAINED:
            return plan
        name = "untrained" if model == self._job.part(str(UNTRAINED)).id else model
        return replace(plan, name=f"{self._plan.name} · {name}")

    def _part(self, number: int, **told: Any) -> Plan:
        changed = ", ".join(f"{option} {value}" for option, value in self._changes[number].items())
        name = f"{self._plan.name} · {changed}" if changed else self._plan.name
        return replace(self._plan, name=name, ablation=None, **told)

    @cached_property
    def _questions(self) -> QuestionSet:
        return find_questions(self._experiment.questions)

    def _is_alike(self, run: Run | None, number: int) -> bool:
        """Whether the same tokens of the same rows are hidden as for the reference."""
        if number == REFERENCE:
            return True
        first = self._reference
        return bool(run and first and run.read("before.json").get("judge") == first.read("before.json").get("judge"))

    def _measured(self, table: Table) -> Table:
        self._begin(AblationStage.MEASURING)
        trained = [one for one in table.variants if not one.code]
        models = {one.number: one.model for one in trained}
        tuned = {one.number: one.tuned for one in trained if one.tuned}
        found: dict[str, Judged] = {}
        if self._experiment.sentences:
            pairs = find_pairs(self._experiment.sentences)
            found[SPEARMAN_BEFORE] = of_pairs(pairs, models)
            table = replace(table, pairs=found[SPEARMAN_BEFORE].judges)
            if tuned:
                found[SPEARMAN] = of_pairs(pairs, tuned)
        if tuned:
            found[NDCG] = of_questions(self._questions, self._experiment.questions, self._experiment.shares, tuned)
            table = replace(table, questions=found[NDCG].judges)
        told = []
        for one in table.variants:
            figures = {name: of.figures[one.number] for name, of in found.items() if one.number in of.figures}
            apart = {name: of.differences[one.number] for name, of in found.items() if one.number in of.differences}
            told.append(replace(one, figures={**(one.figures or {}), **figures}, differences=apart))
        return replace(table, variants=tuple(told))

    def _begin(self, stage: AblationStage, number: int | None = None) -> None:
        if self._job.asked_to_stop:
            raise AskedToStop
        self._enter(stage, number, step=self._ended, total_steps=self._stages)
        self._write(0.0)

    def _tell(self, share: float) -> None:
        if self._is_due():
            self._write(share)

    def _write(self, within: float) -> None:
        """Stages are taken to last alike: of those done here, by what they took."""
        done = self._ended + within
        here = done - self._ended_before
        left = (time.monotonic() - self._began) / here * (self._stages - done) if here > 0 else None
        self._report(done / self._stages, left)


def _is_the_same(run: Run, plan: Plan) -> bool:
    """Whether a run is finished, and was asked for all that decides the result of a plan."""
    asked = run.plan()
    decides = ("kind", "fingerprint", "split", "options", "marked_negatives", "round")
    same = all(getattr(asked, name) == getattr(plan, name) for name in decides)
    return same and not (asked.trial and not asked.trial.whole) and run.status().state is State.DONE
