"""The recipe of late interaction: every token of a text has a vector that learns (ColBERT: Khattab & Zaharia 2020)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from models.encoders.token_encoder import TokenEncoder, directions
from models.loading import load_token_encoder, prompts_of
from models.sources import DEFAULT_BI_ENCODER, ModelSource
from retrieval.comparison.first_stage import LateSpec
from retrieval.comparison.multistage import HybridSpec
from retrieval.comparison.spec import Spec
from retrieval.late import Late, LateIndex
from retrieval.report.drawing import PALETTE
from training.base import Recipe
from training.engine.adaptation import adapt
from training.engine.task import Task, processes, seconds_for
from training.options.common import OptionError
from training.options.rankers import LATE_INTERACTION, LateOptions
from training.rankers.examples import ANCHOR, encoder_examples
from training.rankers.losses import late_loss
from training.rankers.material import RANKERS, Material, Reached
from training.rankers.shown import ShownPassages, cut_of, held_out, lesson_of

_FITTED_ON = 128  # passages, whose tokens a projection begins with


class LateRecipe(Recipe[LateOptions, Material]):
    """How an encoder of late interaction is trained; see `training.base.Recipe`."""

    kind = LATE_INTERACTION
    family = RANKERS
    options = LateOptions
    base = DEFAULT_BI_ENCODER
    measure = "ndcg@10"
    colour = PALETTE[2]
    does = "An encoder of late interaction: each token of a question is compared with each token of a passage."
    hub_task = "feature-extraction"
    loading = ("from sentence_transformers import MultiVectorEncoder", 'MultiVectorEncoder("{folder}")')
    usage = """questions = model.encode_query(["a question"])
passages = model.encode_document(["a passage", "another one"])
print(model.similarity(questions, passages))  # mean of each token's best cosine, higher is better"""

    def measured(self, source: ModelSource) -> Reached:
        """Measure a model over the whole corpus, on the test questions, too: the passages are encoded already."""
        return self._measured(self._encoder(source), tested=True)

    def task(self, source: ModelSource) -> Task:
        columns, examples = encoder_examples(self._options, self._material)
        model = load_token_encoder(source)
        if self._options.dimensions:
            project(model, self._options.dimensions, self._material.texts)
        settled = adapt(model, self._options)
        cut = cut_of(self._live(model), self._options.window_options, self._material)
        shown = ShownPassages(self._material, cut)
        lesson = partial(lesson_of, self._options)
        question, passage = prompts_of(model)
        return Task(
            *(model, late_loss(model, self._options, processes=processes())),
            *(shown.columns(columns, examples), examples),
            lambda trained: self._measured(self._live(trained)),
            prompts={name: question if name == ANCHOR else passage for name in columns},
            settled=settled,
            told=shown.told,
            lesson=lesson(examples, self._material),
            held_out=held_out(self._material, lambda few: encoder_examples(self._options, few), cut, lesson),
        )

    def seconds_to_measure(self, model: Any) -> float:
        material, encoder = self._material, self._live(model)
        rows = sorted(range(len(material.texts)), key=lambda row: len(material.texts[row]))
        asked = [question.text for question in material.measured.questions]

        def encode(rows: Sequence[int]) -> object:
            return encoder.encode_passages([material.texts[row] for row in rows], material.heads[list(rows)])

        return seconds_for(encode, rows) + seconds_for(encoder.encode_questions, asked)

    @staticmethod
    def retrievers(model: str, first: str, *, title: bool, named: Callable[[str], str]) -> list[Spec]:
        late = LateSpec(name=named("Late"), model=model, title=title, windows=True)
        return [late, HybridSpec(name=named("Hybrid"), of=(first, late.name))]

    def _measured(self, encoder: TokenEncoder, *, tested: bool = False) -> Reached:
        passages, title = self._material.question_set.passages, self._options.title
        late = Late(
            "late", passages, encoder, title=title, index=LateIndex.EXACT
        )  # of a model in training none is kept
        return self._material.measure(late, tested=tested)

    def _live(self, model: Any) -> TokenEncoder:
        return self._encoder(ModelSource(self._options.base), at_hand=model)

    def _encoder(self, source: ModelSource, at_hand: Any = None) -> TokenEncoder:
        texts, windows = self._material.texts, self._options.window_options
        return TokenEncoder(source, texts, precision=self._options.precision, windows=windows, at_hand=at_hand)


def project(model: Any, dimensions: int, texts: Sequence[str]) -> None:
    """Let a loaded `MultiVectorEncoder` end in vectors of so many dimensions, by a linear layer that is trained.

    It begins with the directions in which the tokens of some of the texts lie furthest, which lose least. Raises
    `OptionError` where the vectors have no more dimensions than wanted, or a projection already.
    """
    import torch
    from sentence_transformers.base.modules import Dense

    wide = int(model.get_embedding_dimension() or model[0].get_embedding_dimension())
    if wide == dimensions:
        return
    if wide < dimensions or any(isinstance(module, Dense) for module in model):
        message = f"dimensions must be 0 or {wide}: so many the base has"
        raise OptionError("dimensions", "range", message)
    some = [texts[row] for row in np.linspace(0, len(texts) - 1, min(_FITTED_ON, len(texts))).astype(int).tolist()]
    vectors = np.concatenate(model.encode_document(some, convert_to_numpy=True, show_progress_bar=False))
    layer = Dense(
        *(wide, dimensions),
        bias=False,
        activation_function=torch.nn.Identity(),
        module_input_name="token_embeddings",
    )
    layer.linear.weight = torch.nn.Parameter(torch.from_numpy(directions(vectors.astype(np.float32), dimensions).T))
    model.insert(1, layer.to(model.device))
