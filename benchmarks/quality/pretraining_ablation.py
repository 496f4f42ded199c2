"""BERT's own ablations, small enough for two cores: what varies in pre-training, and what is left after fine-tuning."""

import time

from benchmarks.material import korquad
from benchmarks.quality.article_split import workspace
from data.pairs.store import find as find_pairs
from data.pairs.store import keep as keep_pairs
from jobs.status import RESUMABLE, State, Status
from training.runs.sweeps import Ablation, Table, Variant, all_jobs
from training.sweep_commands import called, planned_ablation
from training.sweeps.ablation import ablate
from training.sweeps.variants import AblationExperiment

_NAME = "pretraining"
_SHOWN = {"perplexity": "perplexity", "next_accuracy": "next segments told", "spearman": "Spearman, KorSTS"}
_SHOWN["ndcg@10"] = "nDCG@10"


def measure() -> list[str]:
    """Carry the ablation out, from where it was interrupted; returns a Markdown table."""
    with workspace():
        stored = keep_pairs(find_pairs("korsts"))
        experiment = AblationExperiment(
            text=str(korquad()),
            questions=str(korquad()),
            sentences=stored.key,
            untrained=True,
            language_model={"size": "tiny", "epochs": 6.0, "batch_size": 16, "vocabulary": 4000},
            fine_tuning={"epochs": 2.0, "learning_rate": 3e-4, "objective": "multiple-negatives", "max_length": 128},
            vary={
                "objective": ("mlm-nsp",),
                "whole_words": ("spaces",),
                "mask_share": (0.4,),
                "size": ("mini",),
                "tokenizer_kind": ("unigram",),
                "vocabulary": (8000,),
                "epochs": (24.0,),
            },
        )
        table = _carried(experiment)
    lines = [f"| {table.questions:,} test questions, {table.pairs:,} pairs | {' | '.join(_SHOWN.values())} |"]
    lines.append("|---|" + "---:|" * len(_SHOWN))
    lines += [f"| {called(one)} | {' | '.join(_cell(one, measure) for measure in _SHOWN)} |" for one in table.variants]
    return [
        *lines,
        "",
        "In brackets: 95% intervals over rows, pairs and questions; they say nothing of how another seed would come "
        "out. A star marks what can be told from the first variant that is pre-trained, all of them tested together; a "
        "perplexity with (o) is of other hidden tokens than that one's.",
    ]


def _carried(experiment: AblationExperiment) -> Table:
    known = (job for job in all_jobs() if isinstance(job, Ablation) and job.plan().name == _NAME)
    ablation = next(known, None) or planned_ablation(experiment, _NAME, attended=True)
    status = ablation.status()
    if status.state in RESUMABLE:
        (ablation.folder / "stop").unlink(missing_ok=True)
        ablation.write_status(Status(State.QUEUED, queued=time.time(), seconds=status.spent))
    if not ablation.done and (ended := ablate(ablation)).state is not State.DONE:
        raise RuntimeError(f"{ablation.id} is {ended.state}: {ended.message}")
    if (table := ablation.table) is None or any(one.code for one in table.variants):
        raise RuntimeError(f"{ablation.id} has no whole table")
    return table


def _cell(variant: Variant, measure: str) -> str:
    figure = (variant.figures or {}).get(measure)
    if figure is None:
        return ""
    apart = (variant.differences or {}).get(measure)
    star = "*" if apart and apart.p < 0.05 else ""
    if measure == "perplexity":
        other = "" if variant.alike else " (o)"
        return f"{figure.value:,.0f} [{figure.low:,.0f}, {figure.high:,.0f}]{other}"
    return f"{100 * figure.value:.1f}{star} [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"
