"""The recipe of a cross-encoder of sentences: how alike two are from 0 to 1, or what the first says of the second."""

from pathlib import Path
from typing import Any

import numpy as np

from data.pairs.records import Label, PairSet
from models.encoders.cross_encoder import CrossEncoderScorer
from models.loading import load_cross_encoder
from models.sources import DEFAULT_CROSS_ENCODER, ModelSource, is_starter
from retrieval.report.colours import PALETTE
from training.base import Recipe, finished
from training.engine.adaptation import adapt, live_scorer
from training.engine.task import Columns, Examples, HeldOut, Task, processes, seconds_for
from training.options.common import OptionError
from training.options.sentences import SENTENCE_CROSS_ENCODER, CrossSentenceObjective, SentenceCrossEncoderOptions
from training.rankers.losses import cross_sentence_loss
from training.sentences.examples import labelled_pairs
from training.sentences.material import ACCURACY, PAIRS, Judgement, Likeness, PairMaterial


class SentenceCrossEncoderRecipe(Recipe[SentenceCrossEncoderOptions, PairMaterial]):
    """How a cross-encoder of sentences is trained; see `training.base.Recipe`."""

    kind = SENTENCE_CROSS_ENCODER
    family = PAIRS
    options = SentenceCrossEncoderOptions
    base = DEFAULT_CROSS_ENCODER
    measure = "spearman"
    colour = PALETTE[3]  # of Reranked on the other pages
    does = "A cross-encoder of sentences: it reads two together and says how alike they are, or what follows from one."
    hub_task = "text-classification"
    loading = ("from sentence_transformers import CrossEncoder", 'CrossEncoder("{folder}")')
    usage = """print(model.predict([("a sentence", "another one")]))
print(model.config.id2label)  # what each number is of, where it tells labels apart"""

    def __init__(self, options: SentenceCrossEncoderOptions, material: PairMaterial) -> None:
        super().__init__(options, material)
        self._labels = len(Label) if options.objective is CrossSentenceObjective.CROSS_ENTROPY else 1

    def measured(self, source: ModelSource) -> Likeness:
        """Measure a model on the pairs that judge it; a base without a head of this size has the one drawn for it."""
        scorer = self._scorer(source)
        scorer.model = self._loaded(source)
        return self._measured(scorer)

    def task(self, source: ModelSource) -> Task:
        """Load the base, change it as told, and gather what its training needs. Raises `OptionError`."""
        if is_starter(source):
            raise OptionError("base", "starter_sentences", "base must be a transformer: a starter knows only words")
        material = self._material
        model = self._loaded(source)
        columns, examples = self._examples(material.train)
        settled = adapt(model, self._options)
        shared = processes() > 1 or len(material.validation) < 2
        held_out = None if shared else HeldOut(*self._examples(material.validation))
        material.require_judge(held_out)
        return Task(
            *(model, cross_sentence_loss(model, self._options.objective), columns, examples),
            lambda trained: self._measured(live_scorer(trained, self._options, [], self._labels)),
            settled=settled | {"best_by": material.judged_by},
            held_out=held_out,
            best_by=material.judged_by,
        )

    def concluded(self, model_folder: Path) -> tuple[dict[str, Likeness], dict[str, Any]]:
        """Measure the finished model; nothing else is to be found out."""
        return {"after": self._measured(self._scorer(finished(model_folder)))}, {}

    def seconds_to_measure(self, model: Any) -> float:
        """Seconds that measuring this model once would take, by the time a few pairs take."""
        scorer = live_scorer(model, self._options, [], self._labels)
        asked = [pair for pairs in (self._material.judge, self._material.sample) if pairs for pair in _pairs(pairs)]
        return seconds_for(scorer.score, sorted(asked, key=lambda pair: len(pair[0]) + len(pair[1])))

    def _examples(self, pairs: PairSet) -> tuple[Columns, Examples]:
        return labelled_pairs(pairs, pairs.values if self._labels > 1 else pairs.gold)

    def _loaded(self, source: ModelSource) -> Any:
        from torch.nn import Identity, Sigmoid

        model = load_cross_encoder(source, [], self._labels, new_head=True, resized=True)
        # what it says when it is used: logits of labels, and scores between 0 and 1
        model.activation_fn = Identity() if self._labels > 1 else Sigmoid()
        if self._labels > 1:
            model.config.id2label = {label.value: label.name.lower() for label in Label}
            model.config.label2id = {name: number for number, name in model.config.id2label.items()}
        return model

    def _measured(self, scorer: CrossEncoderScorer) -> Likeness:
        judged = self._judgement(scorer, self._material.judge)
        sample = self._material.sample
        learned = self._judgement(scorer, sample) if sample else None
        return Likeness(judged, learned, self._material.judge.fingerprint)

    def _judgement(self, scorer: CrossEncoderScorer, pairs: PairSet) -> Judgement:
        said = scorer.score(_pairs(pairs))
        if self._material.measure == ACCURACY:
            return Judgement(ACCURACY, said.argmax(axis=1).astype(np.int8), pairs.values)
        return Judgement(self._material.measure, said, pairs.gold.astype(np.float32))

    def _scorer(self, source: ModelSource) -> CrossEncoderScorer:
        return CrossEncoderScorer(source, [], precision=self._options.precision, labels=self._labels)


def _pairs(pairs: PairSet) -> list[tuple[str, str]]:
    first, second = pairs.texts
    return list(zip(first, second, strict=True))
