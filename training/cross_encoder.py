"""The cross-encoder recipe: BM25's near misses as negatives, binary cross-entropy, a weight for mixing at the end."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from retrieval.metrics import CUT, evaluate
from retrieval.models import CrossEncoderScorer, ModelSource, find_model, load_cross_encoder
from retrieval.rankings import NOT_FOUND, Rankings, ranked
from retrieval.recommended import recommend_weight
from retrieval.rerank import Reranked, interpolated
from training.arguments import trainer_arguments
from training.material import MEASURED_KS, Material
from training.negatives import hard_negatives
from training.options import CrossEncoderOptions
from training.progress import RunFolderCallback
from training.runs import Phase, Run

BEST_BY = "validation_ndcg@10"
WEIGHTS = tuple(step / 20 for step in range(21))


def train_cross_encoder(
    run: Run, options: CrossEncoderOptions, material: Material, enter: Callable[[Phase], RunFolderCallback]
) -> dict[str, Any] | None:
    """Train, save to the run's model folder and return the figures before and after; None where it was stopped.

    `before` and `after` are the reranker alone over BM25's first passages; `interpolated` is its score mixed with
    BM25's by the weight that is best on these same validation questions, and kept with the model.
    """
    from datasets import Dataset
    from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

    source = find_model(options.base)
    scorer = CrossEncoderScorer(source, material.texts)
    enter(Phase.MEASURING_BEFORE)
    before = _Measured.of(scorer, options, material).measures(material, 1.0)
    run.add_measures("before", before)

    callback = enter(Phase.TRAINING)
    model = load_cross_encoder(source, material.texts)
    model.model_card_data.generate_widget_examples = False  # minutes of work for a card's example
    trainer = CrossEncoderTrainer(
        model=model,
        args=CrossEncoderTrainingArguments(**trainer_arguments(run, options, BEST_BY)),
        train_dataset=Dataset.from_dict(labelled_pairs(options, material)),
        loss=BinaryCrossEntropyLoss(model),
        evaluator=_evaluator(options, material),
        callbacks=[callback],
    )
    trainer.train()
    if run.asked_to_stop:
        return None
    enter(Phase.MEASURING_AFTER)
    model.save_pretrained(str(run.model_folder))
    trained = CrossEncoderScorer(ModelSource(run.id, folder=run.model_folder), material.texts)
    after = _Measured.of(trained, options, material)
    weight = after.best_weight(material)
    recommend_weight(run.model_folder, weight, chosen_on=f"validation questions, BM25's first {options.depth}")
    return {
        "before": before,
        "after": after.measures(material, 1.0),
        "interpolated": after.measures(material, weight),
        "weight": weight,
    }


def labelled_pairs(options: CrossEncoderOptions, material: Material) -> dict[str, list[Any]]:
    """Questions, passages and labels: 1 for each relevant passage, 0 for each hard negative.

    Negatives too come only from articles that no test or validation question asks about.
    """
    candidates = material.candidates(material.train, options.depth)
    negatives = hard_negatives(candidates, material.train, options.negatives, options.seed, material.learnable)
    pairs = [(question, passage, 1.0) for question, passage in material.positive_pairs()]
    for question, rows in zip(material.train.questions, negatives.tolist(), strict=True):
        pairs += [(question.text, material.texts[row], 0.0) for row in rows if row != NOT_FOUND]
    questions, passages, labels = zip(*pairs, strict=True)
    return {"question": list(questions), "passage": list(passages), "label": list(labels)}


@dataclass(frozen=True)
class _Measured:
    """BM25's candidates of the validation questions and a reranker's scores of them."""

    candidates: Rankings
    scores: np.ndarray

    @classmethod
    def of(cls, scorer: CrossEncoderScorer, options: CrossEncoderOptions, material: Material) -> "_Measured":
        candidates = material.candidates(material.validation, options.depth)
        reranked = Reranked(
            "reranked", material.first_stage, scorer, material.question_set.passages, title=options.title
        )
        questions = [question.text for question in material.validation.questions]
        return cls(candidates, reranked.candidate_scores(questions, candidates))

    def measures(self, material: Material, weight: float) -> dict[str, float]:
        """Score the candidates in the order that the mixed scores give them."""
        mixed = interpolated(self.candidates, self.scores, weight)
        order = ranked(self.candidates.indices, mixed, max(CUT, mixed.shape[1]))
        means = evaluate(order, material.validation, MEASURED_KS).means()
        return {name: value for name, value in means.items() if not name.startswith("hit@")}

    def best_weight(self, material: Material) -> float:
        """Return the weight with the best nDCG@10; among equals the one nearest to an even mix."""
        return max(WEIGHTS, key=lambda weight: (self.measures(material, weight)["ndcg@10"], -abs(weight - 0.5)))


def _evaluator(options: CrossEncoderOptions, material: Material) -> Any:
    from sentence_transformers.cross_encoder.evaluation import CrossEncoderRerankingEvaluator

    candidates = material.candidates(material.validation, options.depth)
    rows = material.question_set.row_of_passage
    samples = [
        {
            "query": question.text,
            "positive": [material.texts[rows[id_]] for id_ in question.relevant],
            # the evaluator takes no empty list; an empty text is never relevant, so the question scores 0
            "documents": [material.texts[row] for row in found if row != NOT_FOUND] or [""],
        }
        for question, found in zip(material.validation.questions, candidates.indices.tolist(), strict=True)
    ]
    return CrossEncoderRerankingEvaluator(
        samples,
        at_k=CUT,
        always_rerank_positives=False,  # a passage that BM25 did not find cannot be reranked to the top
        batch_size=options.evaluation_batch_size,
        name="validation",
        write_csv=False,
    )
