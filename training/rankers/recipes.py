"""The recipes of what ranks passages: bi-encoders, cross-encoders over BM25's first ones, and sparse encoders."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from models.encoders.bi_encoder import BiEncoder
from models.encoders.cross_encoder import CrossEncoderScorer
from models.encoders.sparse_encoder import SparseTextEncoder
from models.loading import load_bi_encoder, load_cross_encoder, load_sparse_encoder, prompts_of
from models.sources import DEFAULT_BI_ENCODER, DEFAULT_CROSS_ENCODER, DEFAULT_MASKED_LANGUAGE_MODEL, ModelSource
from models.windows import Windows
from retrieval.comparison.first_stage import SparseSpec
from retrieval.comparison.multistage import HybridSpec, RerankSpec
from retrieval.comparison.spec import Spec
from retrieval.dense import Dense
from retrieval.evaluation.measures import CUT
from retrieval.lexical.learned import LearnedSparse
from retrieval.rankings import Rankings, ranked
from retrieval.report.drawing import PALETTE
from retrieval.rerank import Reranked, interpolated, recommend_weight
from training.base import Recipe, dense_retrievers, finished
from training.engine.adaptation import adapt, live_bi_encoder, live_scorer, pool
from training.engine.task import Examples, Task, TeacherLabels, processes, seconds_for
from training.options.rankers import (
    BI_ENCODER,
    CROSS_ENCODER,
    SPARSE_ENCODER,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
    QuestionSide,
    SparseEncoderOptions,
)
from training.rankers.examples import ANCHOR, cross_encoder_examples, encoder_examples
from training.rankers.losses import bi_encoder_loss, by_idf, cross_encoder_loss, has_routes, sparse_encoder_loss
from training.rankers.material import RANKERS, Material, Reached
from training.rankers.shown import Cut, ShownPassages, TeachersScores, cut_of, held_out, lesson_of


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
        columns, examples = encoder_examples(self._options, self._material)
        model = load_bi_encoder(source, self._material.texts)
        pool(model, self._options.pooling.value)
        settled = adapt(model, self._options)
        cut = cut_of(self._live(model), self._options.window_options, self._material)
        shown = ShownPassages(self._material, cut)
        loss = bi_encoder_loss(model, self._options, self._material, processes=processes())
        lesson = partial(lesson_of, self._options)
        question, passage = prompts_of(model)
        prompts = {name: question if name == ANCHOR else passage for name in columns}
        return Task(
            *(model, loss, shown.columns(columns, examples), examples),
            lambda trained: self._measured(self._live(trained)),
            prompts=prompts,
            settled=settled,
            told=shown.told,
            lesson=lesson(examples, self._material),
            held_out=held_out(self._material, lambda few: encoder_examples(self._options, few), cut, lesson),
        )

    def seconds_to_measure(self, model: Any) -> float:
        material, encoder = self._material, self._live(model)
        asked = [question.text for question in material.measured.questions]
        rows = sorted(range(len(material.texts)), key=lambda row: len(material.texts[row]))
        options = self._options.window_options

        def encode(rows: Sequence[int]) -> object:
            texts = [material.texts[row] for row in rows]
            windows = encoder.windows_of(texts, material.heads[list(rows)], options) if options else Windows.none()
            return encoder.encode_windows(texts, windows)

        return seconds_for(encode, rows) + seconds_for(encoder.encode_questions, asked)

    def _measured(self, encoder: BiEncoder, *, tested: bool = False) -> Reached:
        passages, options = self._material.question_set.passages, self._options
        dense = Dense("dense", passages, encoder, title=options.title, windows=options.window_options)
        return self._material.measure(dense, tested=tested)

    def _live(self, model: Any) -> BiEncoder:
        return live_bi_encoder(model, self._options, self._material.texts)


WEIGHTS = tuple(step / 20 for step in range(21))


class CrossEncoderRecipe(Recipe[CrossEncoderOptions, Material]):
    """How a cross-encoder is trained; see `training.base.Recipe`."""

    kind = CROSS_ENCODER
    family = RANKERS
    options = CrossEncoderOptions
    base = DEFAULT_CROSS_ENCODER
    measure = "ndcg@10"
    colour = PALETTE[3]  # of Reranked on the other pages
    does = "A cross-encoder: it reads a question and a passage together and scores how well they fit."
    hub_task = "text-ranking"
    loading = ("from sentence_transformers import CrossEncoder", 'CrossEncoder("{folder}")')
    loading_a_starter = (
        "from models.loading import load_cross_encoder\nfrom models.sources import find_model",
        'load_cross_encoder(find_model("{folder}"), [])',
    )
    usage = 'print(model.predict([("a question", "a passage"), ("a question", "another one")]))  # higher is better'

    def measured(self, source: ModelSource) -> Reached:
        """Measure a reranker alone over BM25's first passages; a base with the head drawn for it."""
        return self._scores(self._read(self._scorer(source, new_head=True)), 1.0)

    def task(self, source: ModelSource) -> Task:
        columns, examples = cross_encoder_examples(self._options, self._material)
        model = load_cross_encoder(source, self._material.texts, new_head=True)
        settled = adapt(model, self._options)
        cut = self._cut(model)
        shown = ShownPassages(self._material, cut)
        loss = cross_encoder_loss(model, self._options)
        return Task(
            *(model, loss, shown.columns(columns, examples), examples),
            lambda trained: self._scores(self._read(self._live(trained)), 1.0),
            settled=settled,
            told=shown.told,
            lesson=self._lesson(examples, self._material),
            held_out=held_out(
                self._material, lambda few: cross_encoder_examples(self._options, few), cut, self._lesson
            ),
        )

    def concluded(self, model_folder: Path) -> tuple[dict[str, Reached], dict[str, Any]]:
        """Measure the finished model, alone and mixed with BM25.

        The mixing weight is the one that is best on these same validation questions; it is kept with the model.
        """
        read = self._read(self._scorer(finished(model_folder)))
        scores = {weight: self._scores(read, weight) for weight in WEIGHTS}
        # the best nDCG@10; among equals the one nearest to an even mix
        weight = max(scores, key=lambda weight: (scores[weight].validation.means()[f"ndcg@{CUT}"], -abs(weight - 0.5)))
        recommend_weight(model_folder, weight, chosen_on=f"validation questions, BM25's first {self._options.depth}")
        return {"after": scores[1.0], "interpolated": scores[weight]}, {"weight": weight}

    def seconds_to_measure(self, model: Any) -> float:
        material, scorer, options = self._material, self._live(model), self._options.window_options
        asked = material.measured.questions
        found = self._candidates.indices[:, 0]  # of each question one: as long as those that BM25 finds
        every = [(one.text, row) for one, row in zip(asked, found.tolist(), strict=True) if row >= 0]
        every.sort(key=lambda pair: len(pair[0]) + len(material.texts[pair[1]]))

        def score(some: Sequence[tuple[str, int]]) -> object:
            pairs = [(question, material.texts[row]) for question, row in some]
            heads = [int(material.heads[row]) for _, row in some]
            return scorer.score_windows(pairs, heads, options) if options else scorer.score(pairs)

        return seconds_for(score, every) * len(asked) * self._options.depth / len(every)

    @staticmethod
    def retrievers(model: str, first: str, *, title: bool, named: Callable[[str], str]) -> list[Spec]:
        return [RerankSpec(name=named("Reranked"), first=first, model=model, title=title, windows=True)]

    @cached_property
    def _candidates(self) -> Rankings:
        return self._material.candidates(self._material.measured, self._options.depth)

    def _read(self, scorer: CrossEncoderScorer) -> np.ndarray:
        """A reranker's scores of BM25's candidates of the questions that are measured, `(n_questions, depth)`."""
        material, title = self._material, self._options.title
        told = ("reranked", material.first_stage, scorer, material.question_set.passages)
        reranked = Reranked(*told, title=title, windows=self._options.window_options)
        return reranked.candidate_scores([question.text for question in material.measured.questions], self._candidates)

    def _scores(self, read: np.ndarray, weight: float) -> Reached:
        """Score the candidates in the order that the mixed scores give them."""
        mixed = interpolated(self._candidates, read, weight)
        return self._material.evaluated(ranked(self._candidates.indices, mixed, max(CUT, mixed.shape[1])))

    def _lesson(self, examples: Examples, material: Material) -> TeacherLabels | None:
        if self._options.objective is not CrossEncoderObjective.MARGIN_MSE:
            return None
        windows = self._options.window_options
        return TeachersScores(self._options.teacher, material, examples, windows, differences=True)

    def _cut(self, model: Any) -> Cut | None:
        """Windows of the passages that do not fit beside a question into what the model, as it is adapted, reads."""
        if not (options := self._options.window_options):
            return None
        scorer, texts, heads = self._live(model), self._material.texts, self._material.heads
        return lambda question, row: scorer.windows_of(question, texts[row], int(heads[row]), options)

    def _scorer(self, source: ModelSource, *, new_head: bool = False) -> CrossEncoderScorer:
        precision = self._options.precision
        return CrossEncoderScorer(source, self._material.texts, precision=precision, new_head=new_head)

    def _live(self, model: Any) -> CrossEncoderScorer:
        return live_scorer(model, self._options, self._material.texts)


class SparseEncoderRecipe(Recipe[SparseEncoderOptions, Material]):
    """How a sparse encoder is trained; see `training.base.Recipe`."""

    kind = SPARSE_ENCODER
    family = RANKERS
    options = SparseEncoderOptions
    base = DEFAULT_MASKED_LANGUAGE_MODEL
    measure = "recall@10"
    colour = PALETTE[4]
    does = "A sparse encoder: it turns questions and passages into few weighed terms, searched as words are."
    hub_task = "feature-extraction"
    loading = ("from sentence_transformers import SparseEncoder", 'SparseEncoder("{folder}")')
    usage = """questions = model.encode_query(["a question"])
passages = model.encode_document(["a passage", "another one"])
print(model.similarity(questions, passages))  # dot products, higher is better
print(model.decode(passages[0], top_k=10))  # its terms of most weight"""

    def measured(self, source: ModelSource) -> Reached:
        """Measure a model over the whole corpus, on the test questions, too: the passages are encoded already."""
        return self._measured(self._encoder(source), tested=True)

    def task(self, source: ModelSource) -> Task:
        columns, examples = encoder_examples(self._options, self._material)
        model = load_sparse_encoder(source)
        if self._options.question_side is QuestionSide.IDF:
            model = by_idf(model, self._material.texts)
        settled = adapt(model, self._options)
        loss = sparse_encoder_loss(model, self._options, processes=processes())
        question, passage = prompts_of(model)
        prompts = {name: question if name == ANCHOR else passage for name in columns}
        routes = {name: "query" if name == ANCHOR else "document" for name in columns} if has_routes(model) else {}
        return Task(
            *(model, loss, columns, examples, lambda trained: self._measured(self._live(trained)), prompts),
            routes=routes,
            settled=settled,
            held_out=held_out(self._material, lambda few: encoder_examples(self._options, few)),
        )

    def concluded(self, model_folder: Path) -> tuple[dict[str, Reached], dict[str, Any]]:
        encoder = self._encoder(finished(model_folder))
        scores = {"after": self._measured(encoder, tested=True)}  # its texts are kept from here on
        asked = [question.text for question in self._material.validation.questions]
        sides = {
            "question": encoder.encode_questions(asked),
            "passage": encoder.encode_passages(self._material.texts),
        }
        return scores, {
            "active_terms": {side: float(np.diff(weights.indptr).mean()) for side, weights in sides.items()}
        }

    def seconds_to_measure(self, model: Any) -> float:
        asked = [question.text for question in self._material.measured.questions]
        encoder, texts = self._live(model), sorted(self._material.texts, key=len)
        return seconds_for(encoder.encode_passages, texts) + seconds_for(encoder.encode_questions, asked)

    @staticmethod
    def retrievers(model: str, first: str, *, title: bool, named: Callable[[str], str]) -> list[Spec]:
        sparse = SparseSpec(name=named("Sparse"), model=model, title=title)
        return [sparse, HybridSpec(name=named("Hybrid"), of=(first, sparse.name))]

    def _measured(self, encoder: SparseTextEncoder, *, tested: bool = False) -> Reached:
        passages = self._material.question_set.passages
        sparse = LearnedSparse("sparse", passages, encoder, title=self._options.title)
        return self._material.measure(sparse, tested=tested)

    def _encoder(self, source: ModelSource) -> SparseTextEncoder:
        return SparseTextEncoder(source, self._material.texts, precision=self._options.precision)

    def _live(self, model: Any) -> SparseTextEncoder:
        size, precision = self._options.evaluation_batch_size, self._options.precision
        source = ModelSource(self._options.base)
        encoder = _LiveSparseEncoder(source, self._material.texts, precision=precision, batch_size=size)
        encoder.model = model
        return encoder


class _LiveSparseEncoder(SparseTextEncoder):
    """A model in the middle of its training: nothing it says is kept."""

    def _block(self, side: str, texts: list[str], *, keep: bool) -> dict[str, np.ndarray]:
        del keep
        return super()._block(side, texts, keep=False)
