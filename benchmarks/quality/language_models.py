"""Measure pre-training and the training of sentence encoders.

`python -m benchmarks masked_pretraining` trains a small BERT from scratch on KorQuAD's passages; `pretraining_ablation`
varies one option at a time; `sentence_training` trains the packaged base with each objective and evaluates it on
KorSTS's test pairs.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.quality.article_split import finish_run, workspace
from benchmarks.synthetic_data import korquad
from mrc_workbench.data.jobs.folder import RESUMABLE, State, Status
from mrc_workbench.data.pairs import PairKind, PairSet, split_pairs
from mrc_workbench.data.pairs.store import find, save_pairs
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.text.corpora import find_corpus
from mrc_workbench.labs.embeddings.encoder import DistinctSentences
from mrc_workbench.labs.embeddings.geometry import alignment, positive_rows, uniformity
from mrc_workbench.labs.embeddings.judgement import correlate, cosines
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.language.masking import FOLLOWED, GUESSED, PERPLEXITY
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.ablation import AblationExperiment
from mrc_workbench.training.cli import plan_ablation, variant_name
from mrc_workbench.training.jobs import Ablation, AblationTable, Variant, all_jobs
from mrc_workbench.training.recipes.language_data import UNIGRAM
from mrc_workbench.training.recipes.texts import LANGUAGE_FAMILY
from mrc_workbench.training.runs import Run
from mrc_workbench.training.text_options import (
    LANGUAGE_MODEL,
    SENTENCES,
    LanguageObjective,
    LanguageOptions,
    SentenceObjective,
    SentenceOptions,
)

_LANGUAGE_SPLIT = SplitOptions(validation=0.1, test=0.1)
# with larger batches, so few passages would have too few steps to become better than token frequencies
_NEW = replace(LanguageOptions.defaults_for(), batch_size=16, epochs=16.0, evaluation_steps=200)
_PAIRS = LanguageObjective.MLM_NSP


def masked_pretraining() -> list[str]:
    """Train new models with and without segment pairs; returns a Markdown table."""
    with workspace():
        new = {
            f"new model, {_NEW.size} size": _pretrain_or_resume(_NEW),
            "new model, with segment pairs": _pretrain_or_resume(replace(_NEW, objective=_PAIRS)),
        }
        for run in new.values():
            if run.scores()["after"][PERPLEXITY] >= run.scores()[UNIGRAM][PERPLEXITY]:
                raise RuntimeError(f"{run.id} is not better than token frequencies")
        data_metadata = next(iter(new.values())).provenance()["data"]
        lines = [
            f"| {data_metadata['documents']:,} passages | perplexity, held out | 95% interval "
            "| masked tokens predicted | next segments predicted | 95% interval | minutes |",
            "|---|---:|---:|---:|---:|---:|---:|",
        ]
        for name, run in new.items():
            rows = LANGUAGE_FAMILY.card_rows(run.plan().options, run.scores())
            lines += [_row(run, stage, f"{label.strip('*')}: {name}") for stage, label in rows.items()]
    return [
        *lines,
        "",
        f"On {os.cpu_count()} CPU cores, including loading and evaluation; vocabulary of "
        f"{data_metadata['vocabulary']:,} tokens. The rows with segment pairs mask different tokens. Next-segment "
        "prediction is correct by chance in half of the cases.",
    ]


def _pretrain_or_resume(options: LanguageOptions) -> Run:
    corpus = find_corpus(str(korquad()))
    data = (str(korquad()), corpus.name, corpus.fingerprint)
    return finish_run(LANGUAGE_MODEL, LANGUAGE_MODEL, data, _LANGUAGE_SPLIT, options)


def _row(run: Run, stage: str, name: str) -> str:
    metrics = run.scores()[stage]
    intervals = run.scores()["intervals"][stage]
    minutes = f"{run.status().total_seconds / 60:.0f}" if stage == "after" else ""
    cells = [f"{metrics[PERPLEXITY]:,.0f}", _format_interval(intervals[PERPLEXITY]), f"{metrics[GUESSED] * 100:.1f}"]
    if FOLLOWED in metrics:
        cells += [f"{metrics[FOLLOWED] * 100:.1f}", _format_interval([100 * end for end in intervals[FOLLOWED]], 1)]
    else:
        cells += ["", ""]
    return f"| {name} | {' | '.join([*cells, minutes])} |"


def _format_interval(ends: list[float], digits: int = 0) -> str:
    return f"{ends[0]:,.{digits}f} to {ends[1]:,.{digits}f}"


_NAME = "pretraining"
_METRIC_LABELS = {"perplexity": "perplexity", "next_accuracy": "next segments predicted"}
_METRIC_LABELS |= {"spearman": "Spearman, KorSTS", "ndcg@10": "nDCG@10"}


def pretraining_ablation() -> list[str]:
    """Run the ablation, or resume an interrupted one; returns a Markdown table."""
    with workspace():
        stored = save_pairs(find("korsts"))
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
                "mask_fraction": (0.4,),
                "size": ("mini",),
                "tokenizer_kind": ("unigram",),
                "vocabulary": (8000,),
                "epochs": (24.0,),
            },
        )
        table = _run_ablation(experiment)
    lines = [f"| {table.questions:,} test questions, {table.pairs:,} pairs | {' | '.join(_METRIC_LABELS.values())} |"]
    lines.append("|---|" + "---:|" * len(_METRIC_LABELS))
    lines += [
        f"| {variant_name(variant)} | {' | '.join(_cell(variant, measure) for measure in _METRIC_LABELS)} |"
        for variant in table.variants
    ]
    return [
        *lines,
        "",
        "In brackets: 95% intervals over rows, pairs and questions, which do not include the variation between seeds. "
        "A star marks a significant difference from the first pre-trained variant, corrected for all tests; a "
        "perplexity with (o) is measured on other masked tokens than that variant's.",
    ]


def _run_ablation(experiment: AblationExperiment) -> AblationTable:
    from mrc_workbench.training.ablation import run_ablation

    known = (job for job in all_jobs() if isinstance(job, Ablation) and job.plan().name == _NAME)
    ablation = next(known, None) or plan_ablation(experiment, _NAME, attended=True)
    status = ablation.status()
    if status.state in RESUMABLE:
        (ablation.folder / "stop").unlink(missing_ok=True)
        ablation.write_status(Status(State.QUEUED, queued=time.time(), seconds=status.total_seconds))
    if not ablation.done and (ended := run_ablation(ablation)).state is not State.DONE:
        raise RuntimeError(f"{ablation.id} is {ended.state}: {ended.message}")
    if (table := ablation.table) is None or any(variant.code for variant in table.variants):
        raise RuntimeError(f"{ablation.id} has an incomplete table")
    return table


def _cell(variant: Variant, measure: str) -> str:
    interval = (variant.metrics or {}).get(measure)
    if interval is None:
        return ""
    difference = (variant.differences or {}).get(measure)
    star = "*" if difference and difference.p < 0.05 else ""
    if measure == "perplexity":
        other = "" if variant.is_comparable else " (o)"
        return f"{interval.value:,.0f} [{interval.low:,.0f}, {interval.high:,.0f}]{other}"
    return f"{100 * interval.value:.1f}{star} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


SPLIT = SplitOptions(test=0.0)  # only the published test pairs are excluded from training
_STS = "korsts"
_NLI = "kornli-xnli"
_UNTRAINED = "untrained"
_BY_SCORES = "STS (CoSENT)"


@dataclass(frozen=True)
class _TrainingStage:
    """The data and the objective of a training; `after` is the previous stage, whose model is the base."""

    name: str
    data: PairSet
    objective: SentenceObjective
    after: str = ""


def sentence_training() -> list[str]:
    """Train with each objective and evaluate on KorSTS's test pairs; returns a Markdown table."""
    with workspace():
        sts = find(_STS)
        runs: dict[str, Run] = {}
        for stage in _training_stages(sts):
            base = runs[stage.after].id if stage.after else DEFAULT.reference
            runs[stage.name] = train_sentence_model(stage.name, stage.data, stage.objective, base)
        test = sts.at(split_pairs(sts)[Part.TEST])
        return _table(test, runs)


def train_sentence_model(name: str, data: PairSet, objective: SentenceObjective, base: str) -> Run:
    """Return the finished run of this training, after training or resuming it if necessary."""
    options = replace(
        SentenceOptions.defaults_for(DEFAULT.reference), **SentenceOptions.defaults_for_objective(objective)
    )
    evaluation_set = "" if data.kind is PairKind.SCORED else _STS
    options = replace(options, base=base, objective=objective, evaluation_set=evaluation_set)
    return finish_run(SENTENCES, name, (save_pairs(data).key, data.name, data.fingerprint), SPLIT, options)


def _training_stages(sts: PairSet) -> Iterator[_TrainingStage]:
    nli = _move_test_to_training(find(_NLI))
    yield _TrainingStage(_BY_SCORES, sts, SentenceObjective.COSENT)
    yield _TrainingStage("SimCSE, supervised (XNLI)", nli, SentenceObjective.SIMCSE_SUPERVISED)
    yield _TrainingStage("SimCSE, unsupervised (STS sentences)", sts, SentenceObjective.SIMCSE_UNSUPERVISED)
    yield _TrainingStage("NLI (softmax)", nli, SentenceObjective.NLI_SOFTMAX)
    yield _TrainingStage("NLI, then STS", sts, SentenceObjective.COSENT, after="NLI (softmax)")


def _move_test_to_training(nli: PairSet) -> PairSet:
    """Return XNLI with its test pairs for training: it has no training pairs, and no result on it is reported."""
    return replace(nli, published=np.where(nli.published == 2, 0, nli.published).astype(np.int8))


def _table(test: PairSet, runs: dict[str, Run]) -> list[str]:
    distinct = DistinctSentences.from_pairs(test)
    model_references = {_UNTRAINED: DEFAULT.reference} | {name: run.id for name, run in runs.items()}
    encoders = {name: BiEncoder(find_model(reference), []) for name, reference in model_references.items()}
    vectors = {name: encoder.encode_sentences(distinct.sentences) for name, encoder in encoders.items()}
    similarities = {
        name: cosines(*(sentence_vectors[distinct.sentence_rows[:, side]] for side in range(2)))
        for name, sentence_vectors in vectors.items()
    }
    correlations = correlate(similarities, test.gold, distinct.groups)
    positives = positive_rows(test)
    lines = [
        f"| {len(test):,} test pairs of KorSTS | Spearman | 95% interval | Pearson | Alignment | Uniformity "
        "| Minutes |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, sentence_vectors in vectors.items():
        value, low, high = (100 * bound for bound in correlations.spearman[name])
        alignment_loss = alignment(*(sentence_vectors[distinct.sentence_rows[positives, side]] for side in range(2)))
        minutes = f"{runs[name].status().total_seconds / 60:.0f}" if name in runs else ""
        pearson = 100 * correlations.pearson[name].value
        lines.append(
            f"| {name} | {value:.2f} | {low:.2f} to {high:.2f} | {pearson:.2f} | {alignment_loss:.4f} | "
            f"{uniformity(sentence_vectors):.2f} | {minutes} |"
        )
    return [
        *lines,
        "",
        f"The packaged base is trained with the default settings of each objective on {os.cpu_count()} CPU cores; "
        "minutes include loading and evaluation. Checkpoints are selected on KorSTS's validation pairs. XNLI has no "
        "training pairs, so its test pairs are used for training.",
    ]
