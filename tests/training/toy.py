"""A kind of training that the program does not come with: one file, and one line where it is registered."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from models.loading import load_bi_encoder
from models.sources import DEFAULT_BI_ENCODER, ModelSource
from retrieval.comparison.first_stage import DenseSpec
from retrieval.comparison.spec import Spec
from retrieval.rankings import ranked
from training.base import Recipe
from training.engine.task import Examples, Task
from training.options.common import option
from training.options.questions import QuestionOptions
from training.rankers.material import RANKERS, Material, Reached


class ToyObjective(StrEnum):
    SOFTMAX = "softmax"


@dataclass(frozen=True, kw_only=True)
class ToyOptions(QuestionOptions):
    objective: ToyObjective = option(ToyObjective.SOFTMAX, "what training makes smaller")
    sharpness: float = option(20.0, "what cosines are multiplied by", 1, 100)


class ToyRecipe(Recipe[ToyOptions, Material]):
    """A starter's vectors, trained by the plainest of all losses."""

    kind = "toy"
    family = RANKERS
    options = ToyOptions
    base, measure, colour = DEFAULT_BI_ENCODER, "recall@10", "#666666"
    does, hub_task, usage = "A toy: it is here to be trained.", "sentence-similarity", "print(model)"
    loading = ("from sentence_transformers import SentenceTransformer", 'SentenceTransformer("{folder}")')

    def measured(self, source: ModelSource) -> Reached:
        return self._measured(load_bi_encoder(source, self._material.texts))

    def task(self, source: ModelSource) -> Task:
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

        material, model = self._material, load_bi_encoder(source, self._material.texts)
        rows, positives = material.positive_pairs()
        columns = {
            "question": [material.train.questions[row].text for row in rows],
            "passage": [material.texts[row] for row in positives],
        }
        examples = Examples(rows, positives[:, None], material.relevance, np.ones(len(rows)), in_batch=True)
        loss = MultipleNegativesRankingLoss(model, scale=self._options.sharpness)
        return Task(model, loss, columns, examples, self._measured)

    def concluded(self, model_folder: Path) -> tuple[dict[str, Reached], dict[str, Any]]:
        return {"after": self.measured(ModelSource("toy", folder=model_folder))}, {"sharpness": self._options.sharpness}

    def seconds_to_measure(self, model: Any) -> float:
        del model
        return 1.0

    @staticmethod
    def retrievers(model: str, first: str, *, title: bool, named: Callable[[str], str]) -> list[Spec]:
        del first
        return [DenseSpec(name=named("Toy"), model=model, title=title)]

    def _measured(self, model: Any) -> Reached:
        questions = model.encode([question.text for question in self._material.measured.questions])
        cosines = model.similarity(questions, model.encode(self._material.texts)).numpy()
        rows = np.broadcast_to(np.arange(cosines.shape[1], dtype=np.int32), cosines.shape)
        return self._material.evaluated(ranked(rows, cosines, 10))
