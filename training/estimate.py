"""What a training would take here, found out by a few of its own steps, and what to change where it is too much.

A page rehearses a training, its estimate or its hard negatives, in a process of its own.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from mrc_workbench.data.jobs.folder import State, Status, carry_out
from mrc_workbench.data.workspace import replacing
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.base import MEMORY_FRACTION, Task, transformer_layers
from mrc_workbench.training.dry_run import (
    Batch,
    Budget,
    Deadline,
    Load,
    LoadMeter,
    Pace,
    StepTimes,
    batches_to_try,
    evenly,
    memory_available,
    take_steps,
)
from mrc_workbench.training.jobs import Estimate, Rehearsal, RehearsalTask
from mrc_workbench.training.options import AttentionDropout, EmbeddingTable, TrainingOptions
from mrc_workbench.training.recipes import recipe_of
from mrc_workbench.training.runs import Plan, Run
from mrc_workbench.training.train import load_material, mined, problem_of

_PROBED = 64  # texts


def characters_read(task: Task) -> tuple[np.ndarray, float]:
    """Characters that a training reads of each example, `(n_examples,)`, and of a token; the latter 1 for a starter.

    A text, or a pair of a cross-encoder, counts up to the length that the model reads.
    """
    from sentence_transformers import CrossEncoder

    columns = [values for values in task.columns.values() if isinstance(values[0], str | list)]
    columns = [values for values in columns if not isinstance(values[0], list) or isinstance(values[0][0], str)]
    a_token, most = _characters_a_token(task.model, columns[-1])

    def reads(texts: str | list[str], before: int = 0) -> float:
        return sum(min(before + len(text), most) for text in ([texts] if isinstance(texts, str) else texts))

    if isinstance(task.model, CrossEncoder):
        asked, *shown = columns
        read = [[reads(more, len(one)) for one, more in zip(asked, values, strict=True)] for values in shown]
    else:
        read = [[reads(more) for more in values] for values in columns]
    return np.sum(read, axis=0, dtype=float), a_token


def _characters_a_token(model: Any, texts: Sequence[Any]) -> tuple[float, float]:
    from mrc_workbench.models.inference import takes_rows

    if not takes_rows(model):
        return 1.0, float("inf")
    some = [texts[row] for row in evenly(np.arange(len(texts)), _PROBED)]
    flat = [text for one in some for text in ([one] if isinstance(one, str) else one)]
    tokens = sum(map(len, model.tokenizer(flat, add_special_tokens=False, verbose=False)["input_ids"]))
    a_token = sum(map(len, flat)) / max(1, tokens)
    return a_token, a_token * float(model.max_seq_length or "inf")


class BatchReader:
    """Counts what a step reads: a passage that several examples of a batch share is read once.

    `each` are the characters of an example, `passage` says which passage it shares, `of_passage` has that passage's
    characters, `(n_examples,)` each; without `passage` no passage is shared.
    """

    def __init__(
        self, each: np.ndarray, passage: np.ndarray | None = None, of_passage: np.ndarray | None = None
    ) -> None:
        self._each, self._passage, self._of_passage = each, passage, of_passage

    def characters(self, batch: Batch) -> float:
        total = float(self._each[batch].sum())
        if self._passage is None or self._of_passage is None:
            return total
        first = np.unique(self._passage[batch], return_index=True)[1]
        shared = self._of_passage[batch]
        return total - float(shared.sum()) + float(shared[first].sum())


SHARE_TO_USE = 0.9  # of the memory that is free: the rest is for what nobody foresees
_BYTES = 12  # of a trained weight in float32, besides itself: its gradient and two averages of AdamW
_LORA_RANK = 16
_SHORTEST = 64  # tokens, below which hardly a passage says what it is about

# in the order of harmlessness: what each change saves, told where one is made
REASONS = {
    "attention_dropout": "the probabilities of attention are not written out",
    "embedding_table": "the token vectors need no gradient and no state of the optimizer",
    "recompute": "one pass is held at a time, and computed a second time for its gradient",
    "lora_rank": "only adapters need a gradient and a state of the optimizer",
    "max_length": "fewer tokens of a text are held",
    "batch_size": "fewer texts are held at a time",
}


@dataclass(frozen=True)
class Need:
    """Memory as a straight line: bytes held whatever a batch is, and bytes for each character of the largest batch."""

    fixed: float
    slope: float
    largest: float  # characters of the largest batch
    a_pass: float  # characters of a full pass
    table: int  # weights of the token table that are trained
    trained: int  # weights that are trained, these among them
    adapters: int  # weights that adapters would have instead
    length: int  # tokens read of a text; 0 for a starter, whose batch alone can be smaller

    def memory(self, characters: float | None = None, *, saved: float = 0.0) -> int:
        """Bytes held with so many characters, by default of the largest batch, less what is saved."""
        return int(self.fixed - saved + self.slope * (self.largest if characters is None else characters))


def instead(options: TrainingOptions, need: Need, available: int, *, forgets: bool) -> dict[str, Any]:
    """Return the options to change so that the memory suffices, by the line; empty if no change does.

    If attention `forgets` (dropout on a CPU), memory is no straight line: only that is changed, and estimated again.
    """
    limit = SHARE_TO_USE * available
    if forgets:
        return {"attention_dropout": AttentionDropout.NONE.value}
    if not need.length:
        size = 2 ** (options.batch_size - 1).bit_length() // 2
        while size > 2 and need.memory(need.largest * size / options.batch_size) > limit:
            size //= 2
        fits = size >= 2 and need.memory(need.largest * size / options.batch_size) <= limit
        return {"batch_size": size} if fits else {}
    changes: dict[str, Any] = {}
    saved, read = 0.0, need.largest
    in_parts = options.recompute or bool(getattr(options, "mini_batch_size", 0))
    if need.table and not options.lora_rank:
        changes["embedding_table"] = EmbeddingTable.FROZEN.value
        saved = _BYTES * float(need.table)
    if need.memory(read, saved=saved) > limit and not in_parts:
        changes["recompute"] = True
        read = min(read, need.a_pass)
    if need.memory(read, saved=saved) > limit and not options.lora_rank and not options.frozen_layers:
        changes["lora_rank"] = _LORA_RANK
        changes.pop("embedding_table", None)  # adapters leave it as it is
        saved = _BYTES * float(max(0, need.trained - need.adapters))
    length = need.length
    while need.memory(read, saved=saved) > limit and length >= 2 * _SHORTEST:
        length //= 2
        read /= 2
        changes["max_length"] = length
    return changes if need.memory(read, saved=saved) <= limit else {}


def estimate(
    plan: Plan,
    on_progress: Callable[[float], None] | None = None,
    *,
    budget: Budget | None = None,
    on_partial: Callable[[Estimate], None] | None = None,
) -> Estimate:
    """Estimate time and memory of a planned training from a few of its own steps. Raises what the training would raise.

    As many steps are taken as fit into the budget, at least one. `on_progress` receives the progress of loading,
    `on_partial` the estimate so far.
    """
    from transformers import set_seed

    from mrc_workbench.training.engine.batches import sampler_of

    budget = budget or Budget()
    options = plan.options
    available, began = memory_available(), time.perf_counter()
    material = load_material(plan, on_progress)
    recipe, source = recipe_of(plan.kind)(options, material), find_model(options.base)
    set_seed(options.seed)
    task = recipe.task(source)
    teacher = task.teacher
    task = task.labelled(lambda teacher: teacher.stand_ins())
    seconds_loading = time.perf_counter() - began
    read, a_token = characters_read(task)
    passage = of_passage = None
    if task.examples.shared:
        most = a_token * float(task.model.max_seq_length or "inf")
        passage = task.examples.passages[:, 0]
        of_passage = np.array([min(len(text), most) for text in list(task.columns.values())[1]], dtype=float)
    reader = BatchReader(read, passage, of_passage)
    sampler = sampler_of(task.examples, batch_size=options.batch_size, seed=options.seed)
    batches = sorted(sampler(range(len(read))), key=reader.characters)
    meter = LoadMeter()
    # of distinct texts: those trained on, those held out and, as measuring stores the states of all passages, these
    columns = [*task.columns.values(), *(task.held_out.columns.values() if task.held_out else ())]
    columns.append(material.texts if task.lower_states else [])
    texts = {text for values in columns for text in values if isinstance(text, str)}
    most = _characters_a_token(task.model, list(texts))[1] if texts else 0.0
    distinct = float(sum(min(len(text), most) for text in texts))
    characters = [reader.characters(batch) for batch in batches]
    work = _Work(task, options, characters, a_token, distinct, available, seconds_loading)
    tried = batches_to_try(batches, read)
    pace = Pace(
        sizes=[reader.characters(batch) for batch, _ in tried],
        whole=[is_whole for _, is_whole in tried],
        budget=budget,
        memory_limit=SHARE_TO_USE * available,
        on_step=lambda times: on_partial(work.outcome(times, meter.load())) if on_partial else None,
    )
    times = take_steps(task, options, [batch for batch, _ in tried], pace)
    load = meter.load()
    measuring = recipe.seconds_to_measure(task.model)
    return work.outcome(times, load, measuring=measuring, teaching=teacher.seconds() if teacher else 0.0)


@dataclass(frozen=True)
class _Work:
    """A training's work, from which its estimate follows by the times of a few steps."""

    task: Task
    options: TrainingOptions
    characters: list[float]  # of each batch
    a_token: float  # characters
    distinct: float  # characters of texts whose frozen layers' states are stored, if some are
    available: int
    seconds_loading: float

    def outcome(
        self, times: StepTimes, load: Load, *, measuring: float | None = None, teaching: float = 0.0
    ) -> Estimate:
        """`measuring` are the seconds of one evaluation, derived from the steps if None."""
        task, options, lower_layers = self.task, self.options, times.lower_layers
        steps = int(np.ceil(len(self.characters) * options.epochs))
        seconds_a_step = times.seconds(float(np.mean(self.characters)))
        forward = seconds_a_step / 3  # a step is a pass forward and one backward, which takes twice as long
        if measuring is None:
            measuring = forward * len(self.characters)
        measured = ceil(steps / options.evaluation_steps) if options.evaluation_steps else options.epochs
        if options.evaluation_steps > steps:
            measured = 0  # only the finished model is
        # the first computes all layers of all texts, for the training, too; later ones those that are not frozen
        shared = lower_layers is not None and task.lower_states is not None
        n_layers = len(transformer_layers(task.model[0].auto_model)) if shared else 0
        computed_fraction = 1 - options.frozen_layers / n_layers if shared else 1.0
        seconds_measuring = measuring + (measured + 1) * measuring * computed_fraction
        if task.held_out:  # their loss is computed, too
            seconds_measuring += measured * len(task.held_out.examples.question) / options.batch_size * forward
        need = _need(task, times, max(self.characters), self.a_token)
        lower = stored = 0.0
        if lower_layers:
            tokens = self.distinct / self.a_token
            lower = 0.0 if shared else tokens * lower_layers.seconds_a_token
            stored = min(tokens * lower_layers.bytes_a_token, MEMORY_FRACTION * self.available)
        memory = int(max(times.steps[-1].memory, need.memory()) + stored)
        fits = memory <= SHARE_TO_USE * self.available
        forgets = task.settled.get("attention_dropout") == "base" and task.model.device.type == "cpu"
        seconds = self.seconds_loading + teaching + lower + steps * seconds_a_step + seconds_measuring
        return Estimate(
            steps=steps,
            seconds_a_step=seconds_a_step,
            seconds_measuring=seconds_measuring,
            seconds=seconds,
            memory=memory,
            memory_available=self.available,
            device=str(task.model.device),
            fits=fits,
            instead={} if fits else instead(options, need, self.available, forgets=forgets),
            seconds_loading=self.seconds_loading,
            seconds_teaching=teaching,
            rough=times.is_rough,
            others=load.others,
            seconds_alone=seconds * load.own / (load.own + load.others) if load.is_busy else seconds,
        )


def _need(task: Task, times: StepTimes, largest: float, a_token: float) -> Need:
    from torch.nn import Linear

    from mrc_workbench.models.inference import TOKENS_A_PASS

    slope, fixed = times.memory_line()
    a_pass = a_token * TOKENS_A_PASS.get(task.model.device.type, TOKENS_A_PASS["cpu"])
    network = getattr(task.model[0], "auto_model", None)
    if network is None:
        return Need(fixed, slope, largest, a_pass, table=0, trained=0, adapters=0, length=0)
    table = sum(weight.numel() for weight in network.get_input_embeddings().parameters() if weight.requires_grad)
    trained = sum(weight.numel() for weight in task.model.parameters() if weight.requires_grad)
    linear = [module for module in network.modules() if isinstance(module, Linear)]
    adapters = sum(_LORA_RANK * (module.in_features + module.out_features) for module in linear)
    length = int(task.model.max_seq_length or 0)
    return Need(fixed, slope, largest, a_pass, table, trained, adapters, length)


_PATIENCE_SECONDS = 120.0  # until the first step is done, on a machine where that takes longer than the budget


def rehearse(task: RehearsalTask, folder: Path) -> int:
    """Answer for the plan in the folder's `run.json`; returns 0, or 1 where its status tells why not."""
    job = Rehearsal(folder, task)
    launched = job.status().started

    def work(began: Status) -> None:
        def tell(share: float) -> None:
            job.write_status(replace(began, share=0.9 * share))  # the rest is the steps

        if task is RehearsalTask.ESTIMATE:
            _answer_in_time(job, began, launched or began.started, tell)
        else:
            table = mined(Run(folder).plan())[0]
            with replacing(folder / "negatives.parquet") as new:
                table.to_parquet(new, index=False)

    return int(carry_out(job, work, problem_of).state is not State.DONE)


def _answer_in_time(job: Rehearsal, began: Status, launched: float, tell: Callable[[float], None]) -> None:
    """Write the estimate; once the budget is spent, write what is known and end this process, even within a step."""
    budget = Budget(clock=time.time, started=launched)

    def give_up(known: Estimate | None) -> None:
        if known:
            job.write("estimate.json", asdict(known))
            job.write_status(replace(began, state=State.DONE))
        else:
            message = f"no step was done within {_PATIENCE_SECONDS:g} seconds"
            job.write_status(replace(began, state=State.FAILED, code="too_busy", message=message))
        os._exit(int(known is None))

    with Deadline(budget.left, _PATIENCE_SECONDS, give_up) as deadline:
        result = estimate(Run(job.folder).plan(), tell, budget=budget, on_partial=deadline.note)
    job.write("estimate.json", asdict(result))
