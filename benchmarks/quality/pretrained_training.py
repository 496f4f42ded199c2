"""What training the packaged base does on KorQuAD's article split, with the app's settings for it, twice as long."""

import os
from dataclasses import replace

from benchmarks.material import korquad
from benchmarks.quality.article_split import MORE_VALIDATION, best, compared, differences, table, trained, workspace
from data.read import read_file
from data.split import Part
from models.packaged import DEFAULT
from retrieval.comparison.first_stage import BM25Spec, DenseSpec
from retrieval.comparison.multistage import HybridSpec
from retrieval.comparison.spec import Spec
from retrieval.hybrid import Fusion
from training.options.bi_encoder import BI_ENCODER, BiEncoderOptions

_SHARES = tuple(step / 20 for step in range(1, 20))  # of BM25 in a mix
_BASELINE, _BEFORE, _AFTER = "BM25", "Dense, as it comes", "Dense, trained"
_MIXED = {_BEFORE: "BM25 and dense, as it comes", _AFTER: "BM25 and dense, trained"}


def measure() -> list[str]:
    """Train, choose how to mix on validation questions, ask the test questions once; returns a Markdown table."""
    options = replace(BiEncoderOptions.suited_to(DEFAULT.reference), epochs=2.0)
    with workspace():
        question_set = read_file(korquad()).question_set
        run = trained(BI_ENCODER, "pretrained", question_set, options, MORE_VALIDATION)
        dense = [DenseSpec(name=_BEFORE, model=DEFAULT.reference), DenseSpec(name=_AFTER, model=str(run.model_folder))]
        specs: list[Spec] = [BM25Spec(name=_BASELINE), *dense]
        shares = {
            one.name: best(
                question_set, specs, {share: _mix(f"{share}", one.name, share) for share in _SHARES}, MORE_VALIDATION
            )
            for one in dense
        }
        mixed = [_mix(_MIXED[name], name, share) for name, share in shares.items()]
        tested = compared(question_set, Part.TEST, *specs, *mixed, split=MORE_VALIDATION)
    pairs = [(_BEFORE, _AFTER), (_BASELINE, _MIXED[_AFTER]), (_MIXED[_BEFORE], _MIXED[_AFTER])]
    return [
        *table(tested),
        "",
        f"Trained by {options.objective} in {run.status().total_steps} steps of {options.batch_size} questions: "
        f"{run.status().spent / 60:.0f} minutes on {os.cpu_count()} CPU cores, with loading and measuring. Chosen on "
        f"the other articles: BM25's share of the mixes, {shares[_BEFORE]:g} and {shares[_AFTER]:g}, by z-score.",
        "",
        *differences(tested, *pairs),
    ]


def _mix(name: str, dense: str, share: float) -> HybridSpec:
    weights = (share, 1 - share)
    return HybridSpec(
        name=name, of=(_BASELINE, dense), fusion=Fusion.Z_SCORE, weights=weights, chosen_on=Part.VALIDATION
    )
