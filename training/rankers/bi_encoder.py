"""The bi-encoder recipe: what is loaded, measured and made smaller, and what becomes of the model."""

from collections.abc import Sequence
from typing import Any

from models.encoders.bi_encoder import BiEncoder, prompts_of
from models.loading import load_bi_encoder
from models.sources import DEFAULT_BI_ENCODER, ModelSource
from models.windows import Windows
from retrieval.dense import Dense
from retrieval.report.colours import PALETTE
from training.base import Recipe, dense_retrievers
from training.engine.adaptation import adapt, live_bi_encoder, pool
from training.engine.task import Examples, Task, TeacherLabels, processes, seconds_for
from training.options.rankers import BI_ENCODER, TAUGHT, BiEncoderOptions
from training.rankers.examples import ANCHOR, encoder_examples
from training.rankers.losses import bi_encoder_loss
from training.rankers.material import RANKERS, Material, Reached
from training.rankers.shown import Cut, ShownPassages, TeachersScores, held_out


class BiEncoderRecipe(Recipe[BiEncoderOptions, Material]):
    """How a bi-encoder is trained; see `training.base.Recipe`."""

    kind = BI_ENCODER
    family = RANKERS
    options = BiEncoderOptions
    base = DEFAULT_BI_ENCODER
    measure = "recall@10"
    colour = PALETTE[1]  # of Dense on the other pages
    does = "A bi-encoder: it turns questions and passages into vectors whose cosine says how well they fit."
    hub_task = "sentence-similarity"
    loading = ("from sentence_transformers import SentenceTransformer", 'SentenceTransformer("{folder}")')
    loading_a_starter = (
        "from models.loading import load_bi_encoder\nfrom models.sources import find_model",
        'load_bi_encoder(find_model("{folder}"), [])',
    )
    usage = """questions = model.encode_query(["a question"], normalize_embeddings=True)
passages = model.encode_document(["a passage", "another one"], normalize_embeddings=True)
print(questions @ passages.T)  # cosines, higher is better"""

    retrievers = staticmethod(dense_retrievers)

    def measured(self, source: ModelSource) -> Reached:
        """Measure a model over the whole corpus, on the test questions, too: the passages are encoded already."""
        encoder = BiEncoder(source, self._material.texts, precision=self._options.precision)
        return self._measured(encoder, tested=True)

    def task(self, source: ModelSource) -> Task:
        """Load the base, change it as told, and gather what its training needs. Raises `OptionError`."""
        columns, examples = encoder_examples(self._options, self._material)
        model = load_bi_encoder(source, self._material.texts)
        pool(model, self._options.pooling.value)
        settled = adapt(model, self._options)
        cut = self._cut(model)
        shown = ShownPassages(self._material, cut)
        loss = bi_encoder_loss(model, self._options, self._material, processes=processes())
        question, passage = prompts_of(model)
        prompts = {name: question if name == ANCHOR else passage for name in columns}
        return Task(
            *(model, loss, shown.columns(columns, examples), examples),
            lambda trained: self._measured(self._live(trained)),
            prompts=prompts,
            settled=settled,
            told=shown.told,
            lesson=self._lesson(examples, self._material),
            held_out=held_out(self._material, lambda few: encoder_examples(self._options, few), cut, self._lesson),
        )

    def seconds_to_measure(self, model: Any) -> float:
        """Seconds that measuring this model once would take, by the time a few texts take."""
        material, encoder = self._material, self._live(model)
        asked = [question.text for question in material.measured.questions]
        rows = sorted(range(len(material.texts)), key=lambda row: len(material.texts[row]))
        options = self._options.window_options

        def encode(rows: Sequence[int]) -> object:
            texts = [material.texts[row] for row in rows]
            windows = encoder.windows_of(texts, material.heads[list(rows)], options) if options else Windows.none()
            return encoder.encode_windows(texts, windows)

        return seconds_for(encode, rows) + seconds_for(encoder.encode_questions, asked)

    def _lesson(self, examples: Examples, material: Material) -> TeacherLabels | None:
        if self._options.objective not in TAUGHT:
            return None
        return TeachersScores(
            self._options.teacher,
            material,
            examples,
            self._options.window_options,
            bm25=self._options.teacher_bm25,
        )

    def _measured(self, encoder: BiEncoder, *, tested: bool = False) -> Reached:
        passages, options = self._material.question_set.passages, self._options
        dense = Dense("dense", passages, encoder, title=options.title, windows=options.window_options)
        return self._material.measure(dense, tested=tested)

    def _cut(self, model: Any) -> Cut | None:
        """Windows of the passages that the model, as it is adapted, does not read whole."""
        if not (options := self._options.window_options):
            return None
        windows = self._live(model).windows_of(self._material.texts, self._material.heads, options)
        return (lambda _, row: windows.of(row)) if len(windows) else None

    def _live(self, model: Any) -> BiEncoder:
        return live_bi_encoder(model, self._options, self._material.texts)
