"""What training a reader from the packaged base does on KorQuAD's article split, and what retrieval is worth for it."""

import os
from dataclasses import replace

from benchmarks.material import korquad
from benchmarks.quality.article_split import SPLIT, trained, workspace
from data.read import read_file
from data.split import Part
from models.packaged import DEFAULT
from reading.evaluate import Fate, ReaderResult, ReadingResult, evaluate
from reading.experiment import ReaderSpec, ReadingExperiment
from reading.results import as_dict, differences, tested_depth
from retrieval.comparison.first_stage import BM25Spec, DenseSpec
from retrieval.comparison.multistage import HybridSpec
from training.options.questions import READER, ReaderOptions

_KS = (1, 2, 3, 5)
_BM25, _DENSE = "BM25", "Dense, as it comes"


def measure() -> list[str]:
    """Train, choose weights on validation questions, read for the test questions once; returns Markdown tables."""
    options = replace(ReaderOptions.suited_to(DEFAULT.reference), batch_size=8, epochs=2.0, evaluation_steps=400)
    with workspace():
        question_set = read_file(korquad()).question_set
        run = trained(READER, "reader", question_set, options, SPLIT)
        experiment = ReadingExperiment(
            data=str(korquad()),
            split=Part.TEST,
            validation_share=SPLIT.validation,
            test_share=SPLIT.test,
            ks=(1, 10),
            depths_read=_KS,
            retriever=(
                BM25Spec(name=_BM25),
                DenseSpec(name=_DENSE, model=DEFAULT.reference),
                HybridSpec(name="Both", of=(_BM25, _DENSE)),
            ),
            reader=(ReaderSpec(name="reader", model=str(run.model_folder)),),
        )
        result = evaluate(experiment, question_set)
    (reader,) = result.readers
    if reader.error:
        raise reader.error
    return [
        *_table(result, reader),
        "",
        f"Trained in {run.status().total_steps} steps of {options.batch_size} windows: {run.status().spent / 60:.0f} "
        f"minutes on {os.cpu_count()} CPU cores, with loading and measuring.",
        "",
        *_fates(result, reader),
    ]


def _table(result: ReadingResult, reader: ReaderResult) -> list[str]:
    told = as_dict(result)
    lines = [
        f"| {told['questions']:,} test questions, EM / F1 | {' | '.join(f'first {k}' for k in _KS)} |",
        f"|---|{'---:|' * len(_KS)}",
    ]
    oracle = told["oracles"][reader.name]
    lines.append(f"| The right passage given | {' | '.join([_cell(oracle)] * len(_KS))} |")
    for name, by_k in told["readers"][reader.name].items():
        lines.append(f"| {name} | {' | '.join(_cell(by_k[str(k)]) for k in _KS)} |")
        ceilings = (f"{100 * by_k[str(k)]['ceiling']:.2f}" for k in _KS)
        lines.append(f"| {name}: the answer is there | {' | '.join(ceilings)} |")
    return lines


def _fates(result: ReadingResult, reader: ReaderResult) -> list[str]:
    place = tested_depth(_KS)
    lines = [f"Of the first {_KS[place]}:", ""]
    for name, answered in reader.by_retriever.items():
        shares = [(answered.depth.fate[:, place] == fate).mean() for fate in Fate]
        words = ("right", "right in a passage that another outranked", "read wrong", "not found")
        parts = ", ".join(f"{word} {100 * share:.1f}" for word, share in zip(words, shares, strict=True))
        lines.append(f"- {name} (weight of its score {answered.weight:g}): {parts} percent.")
    for test in differences(result, reader):
        if test.measure != "em":
            interval = f"{100 * test.low:+.2f} to {100 * test.high:+.2f}"
            lines.append(
                f"- F1 of {test.a} less that of {test.b}: {100 * test.difference:+.2f} "
                f"(95 % {interval}, p = {test.p_family:.4f})."
            )
    return lines


def _cell(shares: dict[str, float]) -> str:
    return f"{100 * shares['em']:.2f} / {100 * shares['f1']:.2f}"
