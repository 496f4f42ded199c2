"""Estimates of a training's time and memory from a few of its steps, and changes that make it fit."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any, Self

import numpy as np

from mrc_workbench.data.jobs.folder import State, Status, run_job
from mrc_workbench.data.workspace import replacing
from mrc_workbench.training import dry_run
from mrc_workbench.training.base import MEMORY_FRACTION, OnProgress, Task, transformer_layers
from mrc_workbench.training.jobs import DryRunJob, DryRunTask, Estimate
from mrc_workbench.training.options import AttentionDropout, EmbeddingTable, TrainingOptions
from mrc_workbench.training.runs import Run, TrainingPlan
from mrc_workbench.training.train import LoadedTraining, describe_error, mine_plan_negatives

_SAMPLE_SIZE = 64  # texts


def count_characters(task: Task) -> tuple[np.ndarray, float]:
    """Return the characters that the model reads per example, `(n_examples,)`, and per token (1 for a starter)."""
    from sentence_transformers import CrossEncoder

    columns = [values for values in task.columns.values() if isinstance(values[0], str | list)]
    columns = [values for values in columns if not isinstance(values[0], list) or isinstance(values[0][0], str)]
    characters_per_token, max_characters = _measure_characters_per_token(task.model, columns[-1])

    def reads(texts: str | list[str], before: int = 0) -> float:
        return sum(min(before + len(text), max_characters) for text in ([texts] if isinstance(texts, str) else texts))

    if isinstance(task.model, CrossEncoder):
        questions, *passage_columns = columns
        lengths = [len(question) for question in questions]
        counts = [[reads(text, n) for n, text in zip(lengths, texts, strict=True)] for texts in passage_columns]
    else:
        counts = [[reads(more) for more in values] for values in columns]
    return np.sum(counts, axis=0, dtype=float), characters_per_token


def _measure_characters_per_token(model: Any, texts: Sequence[Any]) -> tuple[float, float]:
    from mrc_workbench.models.inference import takes_rows

    if not takes_rows(model):
        return 1.0, float("inf")
    sample = [texts[row] for row in dry_run.sample_evenly(np.arange(len(texts)), _SAMPLE_SIZE)]
    sampled_texts = [text for item in sample for text in ([item] if isinstance(item, str) else item)]
    tokens = sum(map(len, model.tokenizer(sampled_texts, add_special_tokens=False, verbose=False)["input_ids"]))
    characters_per_token = sum(map(len, sampled_texts)) / max(1, tokens)
    return characters_per_token, characters_per_token * float(model.max_seq_length or "inf")


@dataclass(frozen=True)
class BatchCharacters:
    """Counts the characters of a step, which reads a passage that several examples share only once."""

    example_characters: np.ndarray
    passage: np.ndarray | None = None
    passage_characters: np.ndarray | None = None

    @classmethod
    def of_task(cls, task: Task, example_characters: np.ndarray, characters_per_token: float) -> Self:
        if not task.examples.shared:
            return cls(example_characters)
        max_characters = characters_per_token * float(task.model.max_seq_length or "inf")
        passage_texts = list(task.columns.values())[1]
        passage_characters = np.array([min(len(text), max_characters) for text in passage_texts], dtype=float)
        return cls(example_characters, task.examples.passages[:, 0], passage_characters)

    def characters(self, batch: dry_run.Batch) -> float:
        total = float(self.example_characters[batch].sum())
        if self.passage is None or self.passage_characters is None:
            return total
        first = np.unique(self.passage[batch], return_index=True)[1]
        shared = self.passage_characters[batch]
        return total - float(shared.sum()) + float(shared[first].sum())


USABLE_MEMORY_FRACTION = 0.9  # of the free memory
_BYTES_PER_TRAINED_WEIGHT = 12  # float32: the gradient and two averages of AdamW, in addition to the weight
_LORA_RANK = 16
_MIN_LENGTH = 64  # tokens

# options by how little their change affects the result, and the reason that the command line prints
REASONS = {
    "attention_dropout": "attention probabilities are not stored",
    "embedding_table": "token vectors need no gradient and no optimizer state",
    "gradient_checkpointing": "only one pass is stored at a time, and repeated for its gradient",
    "lora_rank": "only adapters need a gradient and optimizer state",
    "max_length": "fewer tokens of a text are stored",
    "batch_size": "fewer texts are stored at a time",
}


@dataclass(frozen=True)
class MemoryNeed:
    """Memory as a linear function of the characters of the largest batch."""

    fixed: float
    slope: float
    largest: float  # characters of the largest batch
    characters_per_pass: float  # characters of a full pass
    table_weights: int = 0  # trained weights of the token table
    trained_weights: int = 0  # all trained weights
    adapter_weights: int = 0  # weights of adapters that could replace them
    max_length: int = 0  # tokens per text; 0 for a starter, of which only the batch can be smaller

    def memory(self, characters: float | None = None, *, saved: float = 0.0) -> int:
        """Return the bytes for a number of characters, by default of the largest batch, minus `saved` bytes."""
        return int(self.fixed - saved + self.slope * (self.largest if characters is None else characters))


def options_that_fit(
    options: TrainingOptions, need: MemoryNeed, available: int, *, has_attention_dropout: bool
) -> dict[str, Any]:
    """Return changes that make the training fit, or none; attention dropout on a CPU is changed first."""
    limit = USABLE_MEMORY_FRACTION * available
    if has_attention_dropout:
        return {"attention_dropout": AttentionDropout.NONE.value}
    if not need.max_length:
        size = 2 ** (options.batch_size - 1).bit_length() // 2
        while size > 2 and need.memory(need.largest * size / options.batch_size) > limit:
            size //= 2
        fits = size >= 2 and need.memory(need.largest * size / options.batch_size) <= limit
        return {"batch_size": size} if fits else {}
    changes: dict[str, Any] = {}
    saved = 0.0
    characters = need.largest
    is_computed_in_parts = options.gradient_checkpointing or bool(getattr(options, "mini_batch_size", 0))
    if need.table_weights and not options.lora_rank:
        changes["embedding_table"] = EmbeddingTable.FROZEN.value
        saved = _BYTES_PER_TRAINED_WEIGHT * float(need.table_weights)
    if need.memory(characters, saved=saved) > limit and not is_computed_in_parts:
        changes["gradient_checkpointing"] = True
        characters = min(characters, need.characters_per_pass)
    if need.memory(characters, saved=saved) > limit and not options.lora_rank and not options.frozen_layers:
        changes["lora_rank"] = _LORA_RANK
        changes.pop("embedding_table", None)  # LoRA freezes it
        saved = _BYTES_PER_TRAINED_WEIGHT * float(max(0, need.trained_weights - need.adapter_weights))
    length = need.max_length
    while need.memory(characters, saved=saved) > limit and length >= 2 * _MIN_LENGTH:
        length //= 2
        characters /= 2
        changes["max_length"] = length
    return changes if need.memory(characters, saved=saved) <= limit else {}


def estimate(
    plan: TrainingPlan,
    on_progress: OnProgress | None = None,
    *,
    budget: dry_run.TimeBudget | None = None,
    on_partial: Callable[[Estimate], None] | None = None,
) -> Estimate:
    """Estimate time and memory from the steps that fit into the budget. Raises the errors of the training."""
    from mrc_workbench.training.engine.batches import make_sampler

    budget = budget or dry_run.TimeBudget()
    options = plan.options
    available = dry_run.memory_available()
    began = time.perf_counter()
    loaded = LoadedTraining.from_plan(plan, on_progress)
    task = loaded.build_task()
    teacher = task.teacher
    task = task.with_labels(lambda teacher: teacher.placeholder_labels())
    seconds_loading = time.perf_counter() - began
    example_characters, characters_per_token = count_characters(task)
    reader = BatchCharacters.of_task(task, example_characters, characters_per_token)
    sampler = make_sampler(task.examples, batch_size=options.batch_size, seed=options.seed)
    batches = sorted(sampler(range(len(example_characters))), key=reader.characters)
    meter = dry_run.ProcessorLoadMeter()
    work = _Workload(
        task=task,
        options=options,
        characters=[reader.characters(batch) for batch in batches],
        characters_per_token=characters_per_token,
        distinct_characters=_count_distinct_characters(task, loaded.data),
        available=available,
        seconds_loading=seconds_loading,
    )
    trial_batches = dry_run.select_trial_batches(batches, example_characters)
    pace = dry_run.StepScheduler(
        sizes=[reader.characters(batch) for batch, _ in trial_batches],
        are_whole=[is_whole for _, is_whole in trial_batches],
        budget=budget,
        memory_limit=USABLE_MEMORY_FRACTION * available,
        on_step=lambda times: on_partial(work.outcome(times, meter.load())) if on_partial else None,
    )
    times = dry_run.time_steps(task, options, [batch for batch, _ in trial_batches], pace)
    load = meter.load()
    seconds_per_evaluation = loaded.recipe.estimate_evaluation_seconds(task.model)
    labelling = teacher.estimate_seconds() if teacher else 0.0
    return work.outcome(times, load, seconds_per_evaluation=seconds_per_evaluation, seconds_labelling=labelling)


def _count_distinct_characters(task: Task, data: Any) -> float:
    """Return the characters that the model reads of all distinct texts, whose states of frozen layers are stored."""
    # evaluation stores the states of all passages, in addition to training and validation texts
    columns = [*task.columns.values(), *(task.held_out.columns.values() if task.held_out else ())]
    columns.append(data.texts if task.lower_states else [])
    texts = {text for values in columns for text in values if isinstance(text, str)}
    max_characters = _measure_characters_per_token(task.model, list(texts))[1] if texts else 0.0
    return float(sum(min(len(text), max_characters) for text in texts))


@dataclass(frozen=True)
class _Workload:
    """The size of a training; with the times of a few steps, its estimate follows."""

    task: Task
    options: TrainingOptions
    characters: list[float]  # of each batch
    characters_per_token: float
    distinct_characters: float  # of the texts whose states of frozen layers are stored
    available: int
    seconds_loading: float

    def outcome(
        self,
        times: dry_run.StepTimes,
        load: dry_run.ProcessorLoad,
        *,
        seconds_per_evaluation: float | None = None,
        seconds_labelling: float = 0.0,
    ) -> Estimate:
        """Return the estimate; without `seconds_per_evaluation`, it is derived from the steps."""
        task = self.task
        lower_layers = times.lower_layers
        steps = int(np.ceil(len(self.characters) * self.options.epochs))
        seconds_per_step = times.seconds(float(np.mean(self.characters)))
        shares_states = lower_layers is not None and task.lower_states is not None
        seconds_evaluating = self._evaluation_seconds(
            steps, seconds_per_step, seconds_per_evaluation, shares_states=shares_states
        )
        need = _memory_need(task, times, max(self.characters), self.characters_per_token)
        lower_layer_seconds = stored_bytes = 0.0
        if lower_layers:
            tokens = self.distinct_characters / self.characters_per_token
            lower_layer_seconds = 0.0 if shares_states else tokens * lower_layers.seconds_per_token
            stored_bytes = min(tokens * lower_layers.bytes_per_token, MEMORY_FRACTION * self.available)
        memory = int(max(times.steps[-1].memory, need.memory()) + stored_bytes)
        fits = memory <= USABLE_MEMORY_FRACTION * self.available
        seconds = self.seconds_loading + seconds_labelling + lower_layer_seconds
        seconds += steps * seconds_per_step + seconds_evaluating
        alone_fraction = load.own_fraction / (load.own_fraction + load.others_fraction) if load.is_contended else 1.0
        return Estimate(
            steps=steps,
            seconds_per_step=seconds_per_step,
            seconds_evaluating=seconds_evaluating,
            seconds=seconds,
            memory=memory,
            memory_available=self.available,
            device=str(task.model.device),
            fits=fits,
            suggested_options={} if fits else self._options_that_fit(need),
            seconds_loading=self.seconds_loading,
            seconds_labelling=seconds_labelling,
            is_rough=times.is_rough,
            other_load=load.others_fraction,
            seconds_alone=seconds * alone_fraction,
        )

    def _evaluation_seconds(
        self, steps: int, seconds_per_step: float, seconds_per_evaluation: float | None, *, shares_states: bool
    ) -> float:
        """Return the seconds of all evaluations: before, during and after the training."""
        task = self.task
        options = self.options
        forward = seconds_per_step / 3  # a step is a pass forward and one backward, which takes twice as long
        if seconds_per_evaluation is None:
            seconds_per_evaluation = forward * len(self.characters)
        evaluation_count = ceil(steps / options.evaluation_steps) if options.evaluation_steps else options.epochs
        if options.evaluation_steps > steps:
            evaluation_count = 0  # only the finished model is evaluated
        # the first evaluation computes all layers of all texts; later ones only those that are not frozen
        n_layers = len(transformer_layers(task.model[0].auto_model)) if shares_states else 0
        computed_fraction = 1 - options.frozen_layers / n_layers if shares_states else 1.0
        seconds = seconds_per_evaluation * (1 + (evaluation_count + 1) * computed_fraction)
        if task.held_out:  # evaluation also computes their loss
            seconds += evaluation_count * len(task.held_out.examples.question) / options.batch_size * forward
        return seconds

    def _options_that_fit(self, need: MemoryNeed) -> dict[str, Any]:
        is_on_cpu = self.task.model.device.type == "cpu"
        has_attention_dropout = is_on_cpu and self.task.resolved_options.get("attention_dropout") == "base"
        return options_that_fit(self.options, need, self.available, has_attention_dropout=has_attention_dropout)


def _memory_need(task: Task, times: dry_run.StepTimes, largest: float, characters_per_token: float) -> MemoryNeed:
    from torch.nn import Linear

    from mrc_workbench.models.inference import TOKENS_A_PASS

    slope, fixed = times.memory_line()
    per_pass = characters_per_token * TOKENS_A_PASS.get(task.model.device.type, TOKENS_A_PASS["cpu"])
    network = getattr(task.model[0], "auto_model", None)
    if network is None:
        return MemoryNeed(fixed, slope, largest, per_pass)
    table = network.get_input_embeddings().parameters()
    table_weights = sum(weight.numel() for weight in table if weight.requires_grad)
    trained_weights = sum(weight.numel() for weight in task.model.parameters() if weight.requires_grad)
    linear = [module for module in network.modules() if isinstance(module, Linear)]
    adapter_weights = sum(_LORA_RANK * (module.in_features + module.out_features) for module in linear)
    length = int(task.model.max_seq_length or 0)
    return MemoryNeed(fixed, slope, largest, per_pass, table_weights, trained_weights, adapter_weights, length)


_PATIENCE_SECONDS = 120.0  # for the first step, on a slow machine


def execute_dry_run(task: DryRunTask, folder: Path) -> int:
    """Execute a dry run of the plan in the folder's `run.json`; returns 1 on errors, which the status describes."""
    job = DryRunJob(folder, task)
    launched = job.status().started

    def work(status: Status) -> None:
        def report_progress(progress: float) -> None:
            job.write_status(replace(status, progress=0.9 * progress))  # the rest is for the steps

        if task is DryRunTask.ESTIMATE:
            _estimate_within_budget(job, status, launched or status.started, report_progress)
        else:
            table = mine_plan_negatives(Run(folder).plan())[0]
            with replacing(folder / "negatives.parquet") as new:
                table.to_parquet(new, index=False)

    return int(run_job(job, work, describe_error).state is not State.DONE)


def _estimate_within_budget(job: DryRunJob, status: Status, launched: float, on_progress: OnProgress) -> None:
    """Write the estimate. Once the budget is spent, write the partial estimate and end this process."""
    budget = dry_run.TimeBudget(clock=time.time, started=launched)

    def give_up(partial_estimate: Estimate | None) -> None:
        if partial_estimate:
            job.write("estimate.json", asdict(partial_estimate))
            job.write_status(replace(status, state=State.DONE))
        else:
            message = f"no step finished within {_PATIENCE_SECONDS:g} seconds"
            job.write_status(replace(status, state=State.FAILED, code="too_busy", message=message))
        os._exit(int(partial_estimate is None))

    with dry_run.Deadline(budget.seconds_left, _PATIENCE_SECONDS, give_up) as deadline:
        result = estimate(Run(job.folder).plan(), on_progress, budget=budget, on_partial=deadline.record)
    job.write("estimate.json", asdict(result))
