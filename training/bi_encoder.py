"""The bi-encoder recipe: pairs, MegaBatchMarginLoss, batches without repeats, the best checkpoint kept."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from retrieval.dense import Dense
from retrieval.models import BiEncoder, ModelSource, find_model, load_bi_encoder
from training.arguments import trainer_arguments
from training.material import Material
from training.options import BiEncoderOptions
from training.progress import RunFolderCallback
from training.runs import Phase, Run

BEST_BY = "validation_cosine_ndcg@10"


def train_bi_encoder(
    run: Run, options: BiEncoderOptions, material: Material, enter: Callable[[Phase], RunFolderCallback]
) -> dict[str, Any] | None:
    """Train, save to the run's model folder and return the figures before and after; None where it was stopped."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.base.sampler import BatchSamplers
    from sentence_transformers.sentence_transformer.losses import MegaBatchMarginLoss

    source = find_model(options.base)
    model = load_bi_encoder(source, material.texts)
    enter(Phase.MEASURING_BEFORE)
    before = _measure(source, options, material)
    run.add_measures("before", before)

    questions, passages = zip(*material.positive_pairs(), strict=True)
    # a batch holds no passage twice; a larger one could not be filled, and its epoch would leave questions out
    batch_size = max(2, min(options.batch_size, len(set(passages))))
    callback = enter(Phase.TRAINING)
    model.model_card_data.generate_widget_examples = False  # minutes of work for a card's example
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            batch_sampler=BatchSamplers.NO_DUPLICATES,
            **trainer_arguments(run, replace(options, batch_size=batch_size), BEST_BY),
        ),
        train_dataset=Dataset.from_dict({"anchor": questions, "positive": passages}),
        loss=MegaBatchMarginLoss(
            model,
            positive_margin=options.positive_margin,
            negative_margin=options.negative_margin,
            use_mini_batched_version=options.mini_batch_size > 0,
            mini_batch_size=options.mini_batch_size or options.batch_size,
        ),
        evaluator=_evaluator(options, material),
        callbacks=[callback],
    )
    trainer.train()
    if run.asked_to_stop:
        return None
    enter(Phase.MEASURING_AFTER)
    model.save_pretrained(str(run.model_folder))
    after = _measure(ModelSource(run.id, folder=run.model_folder), options, material)
    return {"before": before, "after": after}


def _measure(source: ModelSource, options: BiEncoderOptions, material: Material) -> dict[str, float]:
    encoder = BiEncoder(source, material.texts)
    return material.measure(Dense("dense", material.question_set.passages, encoder, title=options.title))


def _evaluator(options: BiEncoderOptions, material: Material) -> Any:
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    passages = material.question_set.passages
    return InformationRetrievalEvaluator(
        queries={question.id: question.text for question in material.validation.questions},
        corpus={passage.id: text for passage, text in zip(passages, material.texts, strict=True)},
        relevant_docs={question.id: set(question.relevant) for question in material.validation.questions},
        accuracy_at_k=[1],
        precision_recall_at_k=[1, 10],
        map_at_k=[10],
        batch_size=options.evaluation_batch_size,
        name="validation",
        write_csv=False,
    )
