"""Compare layers as token vectors of late interaction on development sets: `python -m benchmarks late_layers`.

The model is the packaged one, untrained. The default was selected on these datasets, so no question is held out.
KorQuAD's questions are those outside the test articles. `BENCH_SETS` selects datasets by name.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.quality.article_split import MEASURE, compare_part, scores, workspace
from benchmarks.quality.mixes import paraphrase_set, read_pair_set, selected_sets
from benchmarks.synthetic_data import development_sets, korquad
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.models.inference import TokenLayers
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, LateSpec
from mrc_workbench.retrieval.significance import Pair, paired_tests, question_groups

_SPLIT = SplitOptions(validation=99 / 140, test=40 / 140)  # all articles outside the test set except one
_POOLED = "pooled"
_BASELINE = TokenLayers.UPPER
_SPECS = (
    DenseSpec(name=_POOLED, model=DEFAULT.reference, windows=True),
    *(LateSpec(name=layer, model=DEFAULT.reference, windows=True, layers=layer) for layer in TokenLayers),
)
_PAIRS = {"KorSTS dev": "korsts_dev.tsv", "KLUE-STS dev": "klue_sts_dev.json", "KorNLI dev": "kornli_xnli_dev.tsv"}


def late_layers() -> list[str]:
    """Return two Markdown tables in percent: nDCG@10 by dataset, and differences from upper layers without weights."""
    names = [spec.name for spec in _SPECS]
    lines = [f"| dataset | questions | {' | '.join(names)} |", f"|---|---:|{'---:|' * len(names)}"]
    gains = []
    means = []
    with workspace():
        for question_set, part in selected_sets(_sets()):
            comparison = compare_part(question_set, part, *_SPECS, split=_SPLIT)
            ndcg_values = [100 * scores(comparison)[name].means()[MEASURE] for name in names]
            cells = " | ".join(f"{ndcg:.2f}" for ndcg in ndcg_values)
            lines.append(f"| {question_set.name} | {len(comparison.question_set.questions):,} | {cells} |")
            gains.append(f"| {question_set.name} | {' | '.join(_gains(comparison))} |")
            means.append(ndcg_values)
    average = " | ".join(f"{ndcg:.2f}" for ndcg in np.mean(means, axis=0))
    others = [layer for layer in TokenLayers if layer is not _BASELINE]
    head = [f"| difference from {_BASELINE} | {' | '.join(others)} |", f"|---|{'---|' * len(others)}"]
    return [*lines, f"| mean | | {average} |", "", *head, *gains]


def _sets() -> Iterator[tuple[QuestionSet, Part]]:
    yield read_entry(CATALOG["sample"]).question_set, Part.ALL
    yield read_file(korquad()).question_set, Part.VALIDATION
    for name, file in _PAIRS.items():
        yield paraphrase_set(read_pair_set(file), name), Part.ALL
    for name, path in development_sets().items():
        if "KorQ" not in name:
            yield read_file(path).question_set, Part.ALL


def _gains(comparison: Comparison) -> list[str]:
    """Return each layer's difference from the baseline with its 95% interval, corrected for the tests of a dataset."""
    by_retriever = scores(comparison)
    baseline = by_retriever[_BASELINE].per_question[MEASURE]
    pairs = [
        Pair(layer, _BASELINE, MEASURE, by_retriever[layer].per_question[MEASURE], baseline)
        for layer in TokenLayers
        if layer is not _BASELINE
    ]
    tests = paired_tests(pairs, question_groups(comparison.question_set))
    return [f"{100 * test.difference:+.2f} ({100 * test.low:+.2f} to {100 * test.high:+.2f})" for test in tests]
