"""Options as the trainers of sentence-transformers want them."""

import os
from pathlib import Path
from typing import Any

from training.engine.task import LOSS
from training.options.common import Report, TrainingOptions, uses_bfloat16

_LOGGED = 0.01  # of all steps, rounded up: every one of up to 100, and between 50 and 100 entries of more
VALIDATION = "validation"  # what measures are logged as: eval_validation_<measure>


def processes() -> int:
    """How many processes share the training: what `torchrun` says, else 1."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def trainer_arguments(
    checkpoints: Path, options: TrainingOptions, batch_sampler: Any, best_by: str = ""
) -> dict[str, Any]:
    """Return keyword arguments that the trainers share; a batch is shared out among the processes.

    The best checkpoint is that of the highest figure `best_by`, of what the options say where that is empty, or of the
    smallest loss of what is held out.
    """
    import torch

    by_steps, best_by = options.evaluation_steps > 0, best_by or options.best_by
    gpu = torch.cuda.is_available()
    return {
        "output_dir": str(checkpoints),
        "batch_sampler": batch_sampler,
        "num_train_epochs": options.epochs,
        "per_device_train_batch_size": max(1, options.batch_size // processes()),
        "per_device_eval_batch_size": options.evaluation_batch_size,
        "learning_rate": options.learning_rate,
        "weight_decay": options.weight_decay,
        "warmup_steps": min(options.warmup, 1 - 1e-9),  # a share of all steps; from 1 on it would be a number of them
        "bf16": uses_bfloat16(options),
        "use_cpu": not gpu,
        "logging_steps": options.logging_steps or _LOGGED,
        "logging_first_step": True,
        "eval_strategy": "steps" if by_steps else "epoch",
        "eval_steps": options.evaluation_steps or None,
        "save_strategy": "steps" if by_steps else "epoch",
        "save_steps": options.save_steps or options.evaluation_steps or 500,
        "load_best_model_at_end": True,
        "metric_for_best_model": "eval_loss" if best_by == LOSS else f"eval_{VALIDATION}_{best_by}",
        "greater_is_better": best_by != LOSS,
        "restore_callback_states_from_checkpoint": True,
        "seed": options.seed,
        "dataloader_pin_memory": gpu,
        "report_to": [] if options.report_to is Report.NONE else [options.report_to.value],
        "disable_tqdm": True,
        **({"ddp_backend": "nccl" if gpu else "gloo", "ddp_find_unused_parameters": True} if processes() > 1 else {}),
    }
