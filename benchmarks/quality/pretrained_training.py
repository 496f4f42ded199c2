"""What training the packaged base does on KorQuAD's article split, with the settings that the app proposes for it."""

import os
import tempfile
import time

from benchmarks.korquad import korquad
from benchmarks.quality.article_split import SPLIT, compared, differences, figures, table
from data.read import read_file
from data.records import QuestionSet
from data.split import Part
from jobs.status import State
from models.packaged.bases import DEFAULT
from retrieval.comparison.kinds.first_stage import BM25Spec, DenseSpec
from retrieval.comparison.kinds.multistage import HybridSpec
from retrieval.comparison.kinds.spec import Spec
from retrieval.multistage.fusion import Fusion
from training.options.bi_encoder import BI_ENCODER, BiEncoderOptions
from training.runs.runs import Run, create_run, new_plan
from training.train import train

_SHARES = tuple(step / 20 for step in range(1, 20))  # of BM25 in a mix
_BASELINE, _BEFORE, _AFTER = "BM25", "Dense, as it comes", "Dense, trained"
_MIXED = {_BEFORE: "BM25 and dense, as it comes", _AFTER: "BM25 and dense, trained"}


def measure() -> list[str]:
    """Train, choose how to mix on validation questions, ask the test questions once; returns a Markdown table."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question_set = read_file(korquad()).question_set
        run, seconds = _trained(question_set)
        dense = [DenseSpec(name=_BEFORE, model=DEFAULT.reference), DenseSpec(name=_AFTER, model=str(run.model_folder))]
        specs: list[Spec] = [BM25Spec(name=_BASELINE), *dense]
        shares = {one.name: _share(question_set, specs, one.name) for one in dense}
        mixed = [_mix(_MIXED[name], name, share) for name, share in shares.items()]
        tested = compared(question_set, Part.TEST, *specs, *mixed)
    options = run.plan().options
    pairs = [(_BEFORE, _AFTER), (_BASELINE, _MIXED[_AFTER]), (_MIXED[_BEFORE], _MIXED[_AFTER])]
    return [
        *table(tested),
        "",
        f"Trained by {options.objective} in {run.status().total_steps} steps of {options.batch_size} questions: "
        f"{seconds / 60:.0f} minutes on {os.cpu_count()} CPU cores, with loading and measuring. Chosen on the other "
        f"articles: BM25's share of the mixes, {shares[_BEFORE]:g} and {shares[_AFTER]:g}, by z-score.",
        "",
        *differences(tested, *pairs),
    ]


def _share(question_set: QuestionSet, specs: list[Spec], dense: str) -> float:
    """Return the share of BM25 with which its mix is best on validation questions."""
    tried = {f"{share}": share for share in _SHARES}
    reached = figures(compared(question_set, Part.VALIDATION, *specs, *(_mix(n, dense, s) for n, s in tried.items())))
    return tried[max(tried, key=lambda name: reached[name])]


def _mix(name: str, dense: str, share: float) -> HybridSpec:
    weights = (share, 1 - share)
    return HybridSpec(
        name=name, of=(_BASELINE, dense), fusion=Fusion.Z_SCORE, weights=weights, chosen_on=Part.VALIDATION
    )


def _trained(question_set: QuestionSet) -> tuple[Run, float]:
    data = (str(korquad()), question_set.name, question_set.fingerprint)
    options = BiEncoderOptions.suited_to(DEFAULT.reference)
    run = create_run(new_plan(BI_ENCODER, "pretrained", data, SPLIT, options))
    began = time.perf_counter()
    ended = train(run)
    if ended.state is not State.DONE:
        raise RuntimeError(ended.message)
    return run, time.perf_counter() - began
