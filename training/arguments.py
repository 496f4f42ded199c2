"""Options as the trainers of sentence-transformers want them."""

from typing import Any

from training.options import TrainingOptions
from training.runs import Run


def trainer_arguments(run: Run, options: TrainingOptions, best_by: str) -> dict[str, Any]:
    """Return keyword arguments that both trainers share; `best_by` names the measure that picks the checkpoint."""
    import torch

    by_steps = options.evaluation_steps > 0
    return {
        "output_dir": str(run.folder / "checkpoints"),
        "num_train_epochs": options.epochs,
        "per_device_train_batch_size": options.batch_size,
        "per_device_eval_batch_size": options.evaluation_batch_size,
        "learning_rate": options.learning_rate,
        "weight_decay": options.weight_decay,
        "warmup_steps": min(options.warmup, 1 - 1e-9),  # a share of all steps; from 1 on it would be a number of them
        "logging_steps": options.logging_steps,
        "eval_strategy": "steps" if by_steps else "epoch",
        "eval_steps": options.evaluation_steps or None,
        "save_strategy": "steps" if by_steps else "epoch",
        "save_steps": options.save_steps or options.evaluation_steps or 500,
        "save_total_limit": options.save_limit,
        "save_only_model": True,
        "load_best_model_at_end": True,
        "metric_for_best_model": f"eval_{best_by}",
        "greater_is_better": True,
        "seed": options.seed,
        "dataloader_pin_memory": torch.cuda.is_available(),
        "report_to": [],
        "disable_tqdm": True,
    }
