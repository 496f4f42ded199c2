"""What all trainers have of ours: batches that know their epoch, and the finer of two models that are equally good."""

from typing import Any

from sentence_transformers.base.sampler import DefaultBatchSampler
from transformers import TrainerCallback, TrainerState

from training.engine.batches import batch_sampler
from training.engine.task import Examples


class RightEpoch(TrainerCallback):
    """Tells the batches their epoch: resuming within one, several processes wrap them so that they do not hear it."""

    def __init__(self, batches: DefaultBatchSampler) -> None:
        self._batches = batches

    def on_epoch_begin(self, _args: Any, state: TrainerState, _control: Any, **_: Any) -> None:
        """Tell them."""
        self._batches.set_epoch(int(state.epoch or 0))


class OwnBatches:
    """Mixin that keeps hold of the batches, of what is learned and of what is held out."""

    args: Any
    accelerator: Any
    gather_function: Any
    held_out: Examples | None = None
    _batches: DefaultBatchSampler

    def get_batch_sampler(self, *args: Any, **kwargs: Any) -> DefaultBatchSampler:
        """Return the batches of an epoch."""
        self._batches = super().get_batch_sampler(*args, **kwargs)  # type: ignore[misc]
        return self._batches

    def get_train_dataloader(self) -> Any:
        """Return what is learned."""
        loader = super().get_train_dataloader()  # type: ignore[misc]
        self.add_callback(RightEpoch(self._batches))  # type: ignore[attr-defined]
        return loader

    def get_eval_dataloader(self, *args: Any, **kwargs: Any) -> Any:
        """Return what is held out, in batches of its own examples."""
        if self.held_out is None:
            return super().get_eval_dataloader(*args, **kwargs)  # type: ignore[misc]
        self.gather_function = self.accelerator.gather  # that for metrics would cut the last batch
        of_training, size = self.args.batch_sampler, self.args.per_device_train_batch_size
        self.args.batch_sampler = batch_sampler(self.held_out, batch_size=size, seed=self.args.seed)
        try:
            return super().get_eval_dataloader(*args, **kwargs)  # type: ignore[misc]
        finally:
            self.args.batch_sampler = of_training


class FinerBest:
    """Mixin: of two measurements that are equal, the one of the smaller validation loss is the better."""

    args: Any
    state: TrainerState

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        if super()._determine_best_metric(metrics, trial):  # type: ignore[misc]
            return True
        if metrics[self.args.metric_for_best_model] != self.state.best_metric or "eval_loss" not in metrics:
            return False
        best = [entry for entry in self.state.log_history if entry["step"] == self.state.best_global_step]
        losses = [entry["eval_loss"] for entry in best if "eval_loss" in entry]  # none where an earlier version began
        if not losses or not metrics["eval_loss"] < losses[0]:
            return False
        self.state.best_global_step = self.state.global_step
        return True
