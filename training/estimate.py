"""What a training would take on this machine, found out by a few of its own steps."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from models.sources import find_model
from training.engine.task import Task
from training.fitting import LORA_RANK, SHARE_TO_USE, Need, instead
from training.options.common import TrainingOptions
from training.recipe import recipe_of
from training.runs.rehearsal import Estimate
from training.runs.runs import Plan
from training.train import load_material
from training.trial import Batch, Tried, characters_read, evenly, memory_available, take

# a step, up to which three whole batches are tried, and two: the first one makes what is made once
_QUICK_SECONDS, _BEARABLE_SECONDS = 15.0, 45.0
_PARTS = (8, 4)  # what part of a batch is tried before


def estimate(plan: Plan, on_progress: Callable[[float], None] | None = None) -> Estimate:
    """Take a few steps and measure a few texts as the plan would. Raises what the training would raise.

    Small parts of the largest batch and of usual ones come first; time and memory of whole batches follow from them as
    straight lines over the characters read, unless these are bearable and fit: then they are tried themselves.
    Where the data takes long to read, `on_progress` is told how far that is.
    """
    from transformers import set_seed

    from training.engine.batches import batch_sampler

    options = plan.options
    available, began = memory_available(), time.perf_counter()
    material = load_material(plan, on_progress)
    recipe, source = recipe_of(plan.kind)(options, material), find_model(options.base)
    set_seed(options.seed)
    task = recipe.task(source)
    lesson = task.lesson
    if lesson:
        task = task.labelled(lambda asked: asked.stand_ins())
    seconds_loading = time.perf_counter() - began
    read, a_token = characters_read(task)
    sampler = batch_sampler(task.examples, batch_size=options.batch_size, seed=options.seed)
    batches = sorted(sampler(range(len(read))), key=lambda batch: float(read[batch].sum()))
    tried = _tried(task, options, batches, read, available)
    steps = int(np.ceil(len(batches) * options.epochs))
    seconds_a_step = _seconds(tried, float(np.mean([read[batch].sum() for batch in batches])))
    need = _need(task, tried, float(read[batches[-1]].sum()), a_token)
    memory = max(tried[-1].memory, need.memory())
    fits = memory <= SHARE_TO_USE * available
    measured = options.epochs if not options.evaluation_steps else steps / options.evaluation_steps
    seconds_measuring = (measured + 2) * recipe.seconds_to_measure(task.model)
    if task.held_out:  # their loss: a step forward, which is a third of one
        seconds_measuring += measured * len(task.held_out.examples.question) / options.batch_size * seconds_a_step / 3
    seconds_teaching = lesson.seconds() if lesson else 0.0
    forgets = task.settled.get("attention_dropout") == "base" and task.model.device.type == "cpu"
    return Estimate(
        steps=steps,
        seconds_a_step=seconds_a_step,
        seconds_measuring=seconds_measuring,
        seconds=seconds_loading + seconds_teaching + steps * seconds_a_step + seconds_measuring,
        memory=memory,
        memory_available=available,
        device=str(task.model.device),
        fits=fits,
        instead={} if fits else instead(options, need, available, forgets=forgets),
        seconds_loading=seconds_loading,
        seconds_teaching=seconds_teaching,
    )


def _tried(task: Task, options: TrainingOptions, batches: list[Batch], read: np.ndarray, available: int) -> list[Tried]:
    """Take steps of parts of batches, and of whole ones where they are quick and fit; `batches` by what is read."""
    largest, usual = batches[-1], [batches[row] for row in evenly(np.arange(len(batches)), 3)[::2]]
    tried = []
    for part in _PARTS:
        parts = [_part(largest, read, part), _part(usual[-1], read, part)]
        tried.append(take(task, options, parts, read))
    characters = float(read[largest].sum())
    fits = _line(tried, characters, lambda one: one.largest, lambda one: one.memory) <= SHARE_TO_USE * available
    seconds = _seconds(tried, characters)
    if fits and seconds <= _BEARABLE_SECONDS:
        tried.append(take(task, options, [largest, *(usual if seconds <= _QUICK_SECONDS else usual[-1:])], read))
    return tried


def _part(batch: Batch, read: np.ndarray, part: int) -> Batch:
    """Return a few examples of a batch, long and short ones."""
    return evenly(np.array(batch)[np.argsort(read[batch], kind="stable")], max(2, len(batch) // part))


def _seconds(tried: list[Tried], characters: float) -> float:
    """Seconds of a step that reads so many characters: by whole batches where they were tried, else by parts."""
    last = tried[-1]
    if len(tried) > len(_PARTS):
        return last.seconds * characters / last.read
    line = _line(tried, characters, lambda one: one.read, lambda one: one.seconds)
    return float(np.clip(line, last.seconds, last.seconds * max(1.0, characters / last.read)))


def _line(tried: list[Tried], at: float, x: Callable[[Tried], float], y: Callable[[Tried], float]) -> float:
    """The value there on the straight line through the last two that were tried."""
    slope, constant = _through(tried, x, y)
    return constant + slope * at


def _through(tried: list[Tried], x: Callable[[Tried], float], y: Callable[[Tried], float]) -> tuple[float, float]:
    first, second = tried[-2:]
    slope = max(0.0, (y(second) - y(first)) / (x(second) - x(first))) if x(second) > x(first) else 0.0
    return slope, y(second) - slope * x(second)


def _need(task: Task, tried: list[Tried], largest: float, a_token: float) -> Need:
    from models.inference import TOKENS_A_PASS

    slope, fixed = _through(tried, lambda one: one.largest, lambda one: one.memory)
    a_pass = a_token * TOKENS_A_PASS.get(task.model.device.type, TOKENS_A_PASS["cpu"])
    network = getattr(task.model[0], "auto_model", None)
    if network is None:
        return Need(fixed, slope, largest, a_pass, table=0, trained=0, adapters=0, length=0)
    table = sum(weight.numel() for weight in network.get_input_embeddings().parameters() if weight.requires_grad)
    trained = sum(weight.numel() for weight in task.model.parameters() if weight.requires_grad)
    length = int(task.model.max_seq_length or 0)
    return Need(fixed, slope, largest, a_pass, table, trained, _adapters(network), length)


def _adapters(network: Any) -> int:
    """Weights that adapters of every linear layer would have."""
    from torch.nn import Linear

    linear = [module for module in network.modules() if isinstance(module, Linear)]
    return sum(LORA_RANK * (module.in_features + module.out_features) for module in linear)
