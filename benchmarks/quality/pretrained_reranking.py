"""What a cross-encoder trained from the packaged base does on KorQuAD's article split, reranking two searches mixed."""

import os

from benchmarks.material import korquad
from benchmarks.quality.article_split import SPLIT, best, compared, differences, table, trained, workspace
from data.read import read_file
from data.split import Part
from models.packaged import DEFAULT
from retrieval.comparison.first_stage import BM25Spec, DenseSpec
from retrieval.comparison.multistage import HybridSpec, RerankSpec
from retrieval.comparison.spec import Spec
from retrieval.hybrid import Fusion
from training.options.cross_encoder import CROSS_ENCODER, CrossEncoderObjective, CrossEncoderOptions

_SHARES = tuple(step / 20 for step in range(1, 20))  # of BM25 in the mix
_WEIGHTS = tuple(step / 10 for step in range(1, 11))  # of the reranker
_BASELINE, _DENSE, _MIX = "BM25", "Dense, as it comes", "BM25 and dense"
_ALONE, _RERANKED = "reranked, cross-encoder alone", "reranked, mixed"
_MEASURED, _DEPTH = 10, 5  # passages read for a question while training, and of the mix's first
# one hard negative a question, of BM25's first four: what it confuses
_OPTIONS = CrossEncoderOptions(
    base=DEFAULT.reference,
    objective=CrossEncoderObjective.RANKNET,
    epochs=1.0,
    batch_size=16,
    evaluation_batch_size=32,
    negatives=1,
    negatives_first=1,
    negatives_last=4,
    negatives_with_answer=True,
    learning_rate=6e-5,
    frozen_layers=2,
    evaluation_limit=60,
    evaluation_steps=74,
    depth=_MEASURED,
    save_minutes=5,
)


def measure() -> list[str]:
    """Train, choose shares and weights on validation questions, ask the test questions once; a Markdown table."""
    with workspace():
        question_set = read_file(korquad()).question_set
        run = trained(CROSS_ENCODER, "reranker", question_set, _OPTIONS, SPLIT)
        first: list[Spec] = [BM25Spec(name=_BASELINE), DenseSpec(name=_DENSE, model=DEFAULT.reference)]
        share = best(question_set, first, {share: _mixed(f"{share}", share) for share in _SHARES}, SPLIT)
        first.append(_mixed(_MIX, share))
        model = str(run.model_folder)
        weight = best(question_set, first, {one: _reranked(f"{one}", model, one) for one in _WEIGHTS}, SPLIT)
        last = (_reranked(_ALONE, model, 1.0), _reranked(_RERANKED, model, weight))
        tested = compared(question_set, Part.TEST, *first, *last)
    pairs = [(_BASELINE, _RERANKED), (_MIX, _RERANKED), (_BASELINE, _ALONE)]
    return [
        *table(tested),
        "",
        f"Trained by {_OPTIONS.objective} in {run.status().total_steps} steps of {_OPTIONS.batch_size} questions, each "
        f"with a hard negative: {run.status().spent / 60:.0f} minutes on {os.cpu_count()} CPU "
        f"cores, with loading and measuring. Reranked are the first {_DEPTH}. Chosen on the other articles: BM25's "
        f"share of the mix, {share:g}, and the reranker's, {weight:g}.",
        "",
        *differences(tested, *pairs),
    ]


def _mixed(name: str, share: float) -> HybridSpec:
    weights = (share, 1 - share)
    of = (_BASELINE, _DENSE)
    return HybridSpec(name=name, of=of, fusion=Fusion.Z_SCORE, weights=weights, chosen_on=Part.VALIDATION)


def _reranked(name: str, model: str, weight: float) -> RerankSpec:
    chosen_on = Part.VALIDATION if weight < 1 else None
    return RerankSpec(name=name, first=_MIX, model=model, depth=_DEPTH, weight=weight, chosen_on=chosen_on)
