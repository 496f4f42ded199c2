"""Cached functions: from a kept comparison down to what a single score is made of."""

import logging

import numpy as np
import pandas as pd
import streamlit as st
from pydantic import TypeAdapter

from models.bi_encoder import BiEncoder
from models.hub import ModelError
from models.sources import find_model
from retrieval.analysis.questions import findings_of, most_unlike, question_table, rows_with_text, same_article
from retrieval.asking import Findings
from retrieval.comparison.compare import Comparison
from retrieval.comparison.kinds.first_stage import BM25Spec, WindowedBM25Spec
from retrieval.comparison.kinds.multistage import HybridSpec, RerankSpec
from retrieval.comparison.kinds.spec import Spec
from retrieval.evaluation.ranks import Quadrant, quadrants
from retrieval.explain.bm25 import BM25Explainer, BM25Explanation
from retrieval.explain.multistage import (
    FusionExplanation,
    RerankExplanation,
    fusion_contributions,
    rerank_contributions,
)
from retrieval.explain.sentences import SentenceExplanation, sentence_contributions
from retrieval.explain.starter import StaticExplainer, StaticExplanation, static_explainer
from retrieval.explain.windows import WindowedBM25Explainer
from retrieval.lexical.bm25 import BM25Options
from retrieval.rankings import Rankings
from views.resources.comparisons import Address, comparison, ranks_of
from views.resources.sets import question_set

logger = logging.getLogger(__name__)
_BM25_SPECS: TypeAdapter[BM25Spec | WindowedBM25Spec] = TypeAdapter(BM25Spec | WindowedBM25Spec)


@st.cache_resource(show_spinner=False, max_entries=32)
def quadrants_of(at: Address, names: tuple[str, str], k: int) -> dict[Quadrant, np.ndarray]:
    """Return question rows by which of two retrievers finds them among the first k."""
    ranks = ranks_of(at, names).ranks
    return quadrants(ranks[:, 0], ranks[:, 1], k)


@st.cache_resource(show_spinner=False, max_entries=32)
def most_unlike_of(at: Address, names: tuple[str, ...], first: str, k: int) -> str:
    """Return the retriever that differs most from `first` in what it finds among the first k."""
    return names[most_unlike(ranks_of(at, names).ranks, names.index(first), k)]


@st.cache_resource(show_spinner=False, max_entries=8)
def questions_of(at: Address, names: tuple[str, ...]) -> pd.DataFrame:
    """Return the questions with their ranks, the most disputed first."""
    depth = min(one.indices.shape[1] for name, one in _rankings(at).items() if name in names)
    return question_table(_opened(at).question_set, ranks_of(at, names).ranks, names, depth)


@st.cache_resource(show_spinner=False, max_entries=64)
def rows_with(at: Address, text: str) -> np.ndarray:
    """Return rows of the questions that hold a text."""
    return rows_with_text(_opened(at).question_set, text)


@st.cache_resource(show_spinner=False, max_entries=64)
def findings_at(at: Address, row: int) -> dict[str, Findings]:
    """Return what every retriever of a comparison found of one of its questions."""
    return findings_of(_opened(at), row)


@st.cache_resource(show_spinner=False, max_entries=64)
def confusers_at(at: Address, row: int) -> frozenset[int]:
    """Return rows of the passages from the article a question is about that do not answer it."""
    return same_article(_opened(at).question_set, row)


@st.cache_resource(show_spinner=False, max_entries=8)
def _bm25_explainer(key: str, spec: str) -> BM25Explainer | WindowedBM25Explainer:
    of, passages = _BM25_SPECS.validate_json(spec), question_set(key).passages
    if isinstance(of, WindowedBM25Spec):
        options = BM25Options(of.analyzer, of.k1, of.b, of.title)
        return WindowedBM25Explainer(passages, options, sentences=of.sentences)
    return BM25Explainer(passages, BM25Options(of.analyzer, of.k1, of.b, of.title, of.engine))


@st.cache_resource(show_spinner=False, max_entries=512)
def explained_bm25(key: str, spec: str, question: str, row: int) -> BM25Explanation:
    """Explain the score of a passage (a row), of windows its best one; `spec` is that of the retriever, as JSON."""
    return _bm25_explainer(key, spec).explain(question, row)


@st.cache_resource(show_spinner=False, max_entries=8)
def _static_explainer(key: str, model: str, title: bool) -> StaticExplainer | None:
    try:
        return static_explainer(model, question_set(key).passages, title=title)
    except (ModelError, OSError) as error:  # a run that was deleted, or a workspace's cache
        logger.warning("the model %r cannot be looked into: %s", model, error)
        return None


@st.cache_resource(show_spinner=False, max_entries=512)
def explained_static(key: str, model: str, title: bool, question: str, row: int) -> StaticExplanation | None:
    """Explain the cosine of a passage (a row) where the model is a starter that is still there, else None."""
    explainer = _static_explainer(key, model, title)
    return explainer.explain(question, row) if explainer else None


@st.cache_resource(show_spinner=False, max_entries=2)
def _encoder(key: str, model: str, title: bool) -> BiEncoder:
    return BiEncoder(find_model(model), question_set(key).passages.indexed_texts(title=title))


@st.cache_resource(show_spinner=False, max_entries=512)
def explained_sentences(key: str, model: str, title: bool, question: str, row: int) -> SentenceExplanation:
    """Score a passage (a row) sentence by sentence, which loads the model. Raises `ModelError`."""
    passage = question_set(key).passages[row]
    return sentence_contributions(_encoder(key, model, title), question, passage, title=title)


@st.cache_resource(show_spinner=False, max_entries=512)
def explained_fusion(at: Address, name: str, row: int, passage: int) -> FusionExplanation | None:
    """Explain the fused score of a passage; None where the rankings kept are not as deep as those fused."""
    spec, found = _spec(at, name), _rankings(at)
    if not isinstance(spec, HybridSpec) or any(part not in found for part in spec.of):
        return None
    lists = {part: found[part] for part in spec.of}
    depth = min(spec.depth, len(_opened(at).question_set.passages))
    if any(one.indices.shape[1] < depth for one in lists.values()):
        return None
    return fusion_contributions(lists, row, passage, depth=spec.depth, fusion=spec.fusion, weights=spec.weights)


@st.cache_resource(show_spinner=False, max_entries=512)
def explained_reranking(at: Address, name: str, row: int, passage: int) -> RerankExplanation | None:
    """Explain the move of a passage; None where the ranking before is not kept, or the model's weight is gone."""
    spec, found = _spec(at, name), _rankings(at)
    if not isinstance(spec, RerankSpec) or spec.first not in found or name not in found:
        return None
    try:
        weight = spec.weight_with(find_model(spec.model))
    except ModelError as error:
        logger.warning("the weight of %r is not known: %s", name, error)
        return None
    return rerank_contributions(found[spec.first], found[name], row, passage, depth=spec.depth, weight=weight)


def _spec(at: Address, name: str) -> Spec:
    return next(spec for spec in _opened(at).experiment.retriever if spec.name == name)


def _rankings(at: Address) -> dict[str, Rankings]:
    return {one.name: one.rankings for one in _opened(at).results if one.rankings}


def _opened(at: Address) -> Comparison:
    found = comparison(at)
    if found is None:
        raise LookupError(at.folder)
    return found
