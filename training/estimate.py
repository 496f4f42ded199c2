"""What a training would take here, found out by a few of its own steps, and what to change where it is too much.

A page rehearses a training, its estimate or its hard negatives, in a process of its own.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from data.workspace import replacing
from jobs.folder import State, Status
from jobs.work import carry_out
from models.sources import find_model
from training.base import Task
from training.options.common import AttentionDropout, EmbeddingTable, Report, TrainingOptions
from training.recipe import recipe_of
from training.runs.jobs import Estimate, Rehearsal, RehearsalTask
from training.runs.runs import Plan, Run
from training.train import load_material, mined, problem_of

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
        """Bytes held with so many characters, all of the largest batch where not said, less what is saved."""
        return int(self.fixed - saved + self.slope * (self.largest if characters is None else characters))


def instead(options: TrainingOptions, need: Need, available: int, *, forgets: bool) -> dict[str, Any]:
    """Return the options to change so that the memory suffices, by the line; empty where no change does.

    `forgets` says that attention does so at random, on a CPU: what is held is then no straight line, so that alone is
    changed, and what the rest needs is to be found out anew.
    """
    limit = SHARE_TO_USE * available
    if forgets:
        return {"attention_dropout": AttentionDropout.NONE.value}
    if not need.length:
        return _smaller_batch(options, need, limit)
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


def _smaller_batch(options: TrainingOptions, need: Need, limit: float) -> dict[str, Any]:
    size = 2 ** (options.batch_size - 1).bit_length() // 2
    while size > 2 and need.memory(need.largest * size / options.batch_size) > limit:
        size //= 2
    if size < 2 or need.memory(need.largest * size / options.batch_size) > limit:
        return {}
    return {"batch_size": size}


Batch = list[int]  # rows of the examples
_PROBED = 64  # texts


@dataclass(frozen=True)
class Tried:
    """Steps that were taken: characters read in the largest and in those that were timed, their seconds, bytes held."""

    largest: float
    read: float  # a step, those after the first
    seconds: float
    memory: int


def characters_read(task: Task) -> tuple[np.ndarray, float]:
    """Characters that a training reads of each example, `(n_examples,)`, and of a place; the latter 1 for a starter.

    A text, or a pair of a cross-encoder, counts up to as many as the model reads, by the characters that a token has.
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
    from models.inference import takes_rows

    if not takes_rows(model):
        return 1.0, float("inf")
    some = [texts[row] for row in evenly(np.arange(len(texts)), _PROBED)]
    flat = [text for one in some for text in ([one] if isinstance(one, str) else one)]
    tokens = sum(map(len, model.tokenizer(flat, add_special_tokens=False, verbose=False)["input_ids"]))
    a_token = sum(map(len, flat)) / max(1, tokens)
    return a_token, a_token * float(model.max_seq_length or "inf")


def evenly(ordered: np.ndarray, count: int) -> list[int]:
    """Return `count` of what is ordered, from the middles of as many equal parts of it: each kind has its share."""
    count = min(count, len(ordered))
    return [int(one) for one in ordered[((np.arange(count) + 0.5) * len(ordered) / count).astype(int)]]


def take(task: Task, options: TrainingOptions, batches: list[Batch], read: np.ndarray) -> Tried:
    """Train on these batches, the largest first: it makes what is made once, and is not timed where there are more."""
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from transformers import TrainerCallback

    from training.engine.trainers import make_trainer, short_passes

    seconds: list[float] = []

    class Fixed(DefaultBatchSampler):
        def __iter__(self) -> Iterator[Batch]:
            return iter(batches)

        def __len__(self) -> int:
            return len(batches)

    class Clock(TrainerCallback):
        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            del args, kwargs
            seconds.append(-time.perf_counter())

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            del args, kwargs
            seconds[-1] += time.perf_counter()

    short = replace(options, epochs=1.0, patience=0, report_to=Report.NONE)
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(task, short, Path(folder), [Clock()])
        trainer.args.batch_sampler = Fixed
        trainer.args.set_evaluate(strategy="no")
        trainer.args.set_save(strategy="no")
        trainer.args.load_best_model_at_end = False
        with short_passes(task.model, twice=options.recompute), _most_memory() as most:
            trainer.train()
    sums = [float(read[batch].sum()) for batch in batches]
    timed = slice(1, None) if len(batches) > 1 else slice(None)
    return Tried(max(sums), float(np.mean(sums[timed])), float(np.mean(seconds[timed])), most[0])


def memory_available() -> int:
    """Bytes that a process in this one's place may hold."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    return int(psutil.virtual_memory().available + psutil.Process().memory_info().rss)


@contextmanager
def _most_memory() -> Iterator[list[int]]:
    """Watch how many bytes this process holds at most, which is told after the block; on a GPU torch keeps count."""
    import torch

    held, over, gpu = [0], threading.Event(), torch.cuda.is_available()

    def watch() -> None:
        process = psutil.Process()
        while True:
            held[0] = max(held[0], process.memory_info().rss)
            if over.wait(0.005):
                return

    if gpu:
        torch.cuda.reset_peak_memory_stats()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield held
    finally:
        over.set()
        watcher.join()
    if gpu:
        held[0] = int(torch.cuda.max_memory_allocated())


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
    from torch.nn import Linear

    from models.inference import TOKENS_A_PASS

    slope, fixed = _through(tried, lambda one: one.largest, lambda one: one.memory)
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


def rehearse(task: RehearsalTask, folder: Path) -> int:
    """Answer for the plan in the folder's `run.json`; returns 0, or 1 where its status tells why not."""
    job = Rehearsal(folder, task)

    def work(began: Status) -> None:
        def tell(share: float) -> None:
            job.write_status(replace(began, share=0.9 * share))  # the rest is the steps

        if task is RehearsalTask.ESTIMATE:
            job.write("estimate.json", asdict(estimate(Run(folder).plan(), tell)))
        else:
            table = mined(Run(folder).plan())[0]
            with replacing(folder / "negatives.parquet") as new:
                table.to_parquet(new, index=False)

    return int(carry_out(job, work, problem_of).state is not State.DONE)
