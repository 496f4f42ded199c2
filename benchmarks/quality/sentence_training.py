"""What training does to sentence vectors: the packaged base on KorSTS's test pairs, by what it learned from."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.quality.article_split import finished, workspace
from data.pairs.records import PairKind, PairSet
from data.pairs.split import split_pairs
from data.pairs.store import find, keep
from data.split import Part, SplitOptions
from embeddings.distinct import Distinct
from embeddings.geometry import alignment, positive_rows, uniformity
from embeddings.judgement import correlate, cosines
from models.encoders.bi_encoder import BiEncoder
from models.packaged import DEFAULT
from models.sources import find_model
from training.options.sentences import SENTENCES, SentenceObjective, SentenceOptions
from training.runs.runs import Run, all_runs, create_run, new_plan

SPLIT = SplitOptions(test=0.0)  # only what was published for a test is kept from training
_STS, _NLI = "korsts", "kornli-xnli"
_UNTRAINED, _BY_SCORES = "untrained", "STS (CoSENT)"


@dataclass(frozen=True)
class _Lesson:
    """What a base learns from, and by which objective; `after` is the lesson before it."""

    name: str
    data: PairSet
    objective: SentenceObjective
    after: str = ""


def measure() -> list[str]:
    """Train by each lesson, chosen on KorSTS's validation pairs, and ask its test pairs; returns a Markdown table."""
    with workspace():
        sts = find(_STS)
        runs: dict[str, Run] = {}
        for lesson in _lessons(sts):
            base = runs[lesson.after].id if lesson.after else DEFAULT.reference
            runs[lesson.name] = trained(lesson.name, lesson.data, lesson.objective, base)
        test = sts.at(split_pairs(sts)[Part.TEST])
        return _table(test, runs)


def trained(name: str, data: PairSet, objective: SentenceObjective, base: str) -> Run:
    """Return the run of this lesson, where there is one as far as it has come, and finish it."""
    options = replace(SentenceOptions.suited_to(DEFAULT.reference), **SentenceOptions.settings_for(objective))
    judged_on = "" if data.kind is PairKind.SCORED else _STS
    options = replace(options, base=base, objective=objective, judged_on=judged_on)
    stored = keep(data)
    known = (one for one in all_runs() if one.plan().options == options)
    run = next((one for one in known if one.plan().fingerprint == data.fingerprint), None)
    if run is None:
        told = (stored.key, data.name, data.fingerprint)
        run = create_run(new_plan(SENTENCES, name, told, SPLIT, options))
    return finished(run)


def _lessons(sts: PairSet) -> Iterator[_Lesson]:
    nli = _to_learn_from(find(_NLI))
    yield _Lesson(_BY_SCORES, sts, SentenceObjective.COSENT)
    yield _Lesson("SimCSE, supervised (XNLI)", nli, SentenceObjective.SIMCSE_SUPERVISED)
    yield _Lesson("SimCSE, unsupervised (the sentences of STS)", sts, SentenceObjective.SIMCSE_UNSUPERVISED)
    yield _Lesson("NLI (softmax)", nli, SentenceObjective.NLI_SOFTMAX)
    yield _Lesson("NLI, then STS", sts, SentenceObjective.COSENT, after="NLI (softmax)")


def _to_learn_from(nli: PairSet) -> PairSet:
    """Learn from XNLI's test pairs: it comes without training pairs, and nothing is told of it here."""
    return replace(nli, published=np.where(nli.published == 2, 0, nli.published).astype(np.int8))


def _table(test: PairSet, runs: dict[str, Run]) -> list[str]:
    distinct = Distinct.of(test)
    places = {_UNTRAINED: DEFAULT.reference} | {name: run.id for name, run in runs.items()}
    encoders = {name: BiEncoder(find_model(place), []) for name, place in places.items()}
    vectors = {name: encoder.encode_sentences(distinct.sentences) for name, encoder in encoders.items()}
    said = {name: cosines(*(one[distinct.places[:, side]] for side in range(2))) for name, one in vectors.items()}
    found, alike = correlate(said, test.gold, distinct.groups), positive_rows(test)
    lines = [
        f"| {len(test):,} test pairs of KorSTS | Spearman | 95% | Pearson | Alignment | Uniformity | Minutes |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, one in vectors.items():
        value, low, high = (100 * figure for figure in found.spearman[name])
        near = alignment(*(one[distinct.places[alike, side]] for side in range(2)))
        minutes = f"{runs[name].status().spent / 60:.0f}" if name in runs else ""
        lines.append(
            f"| {name} | {value:.2f} | {low:.2f} to {high:.2f} | {100 * found.pearson[name].value:.2f} | {near:.4f} | "
            f"{uniformity(one):.2f} | {minutes} |"
        )
    cores = os.cpu_count()
    about = f"The packaged base, trained with the settings that suit each objective on {cores} CPU cores, loading and "
    about += "measuring among the minutes. Checkpoints were chosen on KorSTS's validation pairs. XNLI comes without "
    about += "training pairs, so its test pairs are learned from."
    return [*lines, "", about]
