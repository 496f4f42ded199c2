"""What a retriever does, in a line: how it finds passages, and with which model."""

from collections.abc import Mapping, Sequence

import streamlit as st

from models.packaged.bases import PREFIX
from models.sources import STARTER
from retrieval.comparison.kinds.first_stage import BM25Spec, DenseSpec, TermSpec, WindowedBM25Spec
from retrieval.comparison.kinds.milvus import MilvusSpec
from retrieval.comparison.kinds.multistage import HybridSpec, RerankSpec
from retrieval.comparison.kinds.spec import Spec
from retrieval.milvus.kinds import Search
from text.analyzers import Analyzer
from training.runs.runs import find_model_run
from views.names import base_name
from views.ui.words import plain, word, word_or


def draw_methods(names: Sequence[str], specs: Mapping[str, Spec], analyzer: Analyzer) -> None:
    """Draw under a choice of retrievers what each of them does, one line each."""
    lines = [plain(method_line(specs[name], specs, analyzer)) for name in names if name in specs]
    if lines:
        st.caption("  \n".join(lines))


def method_line(spec: Spec, specs: Mapping[str, Spec], analyzer: Analyzer = Analyzer.AUTO) -> str:
    """Return the name of a retriever and what it does. Not Markdown.

    `specs` are those that it may wrap, by name; `analyzer` is what `AUTO` comes to on the passages searched.
    """
    return f"{spec.name}: {_does(spec, specs, analyzer)}"


def _does(spec: Spec, specs: Mapping[str, Spec], analyzer: Analyzer) -> str:
    match spec:
        case HybridSpec():
            return word("method.hybrid", parts=_mixed(spec))
        case RerankSpec():
            return word("method.rerank", first=spec.first, depth=spec.depth, model=_model(spec.model))
        case DenseSpec():
            return _vectors(spec.model)
        case MilvusSpec():
            return word("method.milvus", does=_in_milvus(spec, specs, analyzer))
        case TermSpec():
            return _terms(spec, analyzer)
    model = dict(spec).get("model")
    return word_or(f"method.{spec.kind}", spec.kind, **({"model": _model(model)} if model else {}))


def _terms(spec: TermSpec, analyzer: Analyzer) -> str:
    chosen = analyzer if spec.analyzer is Analyzer.AUTO else spec.analyzer
    said = [word("method.bm25", cut=word(f"method.cut_{chosen.replace('+', '_')}"))]
    if isinstance(spec, WindowedBM25Spec):
        said.append(word("method.sentences", sentences=spec.sentences))
    if spec.dictionary:
        said.append(word("method.dictionary"))
    if isinstance(spec, BM25Spec) and spec.feedback_passages:
        said.append(word("method.feedback", passages=spec.feedback_passages))
    return ", ".join(said)


def _vectors(model: str) -> str:
    return word("method.lsa") if model == STARTER else word("method.dense", model=_model(model))


def _in_milvus(spec: MilvusSpec, specs: Mapping[str, Spec], analyzer: Analyzer) -> str:
    if spec.search is Search.HYBRID:
        return word("method.hybrid", parts=f"BM25 + {_model(spec.model)}")
    return _does(spec.local, specs, analyzer)


def _mixed(spec: HybridSpec) -> str:
    if spec.weights is None:
        return " + ".join(spec.of)
    return " + ".join(f"{name} × {weight:g}" for name, weight in zip(spec.of, spec.weights, strict=True))


def _model(reference: str) -> str:
    """Return the words for a model, and whether it was trained here."""
    if run := find_model_run(reference):
        plan = run.plan()
        return word("method.trained", base=base_name(plan.options.base, plan.kind), name=plan.name)
    if reference == STARTER:
        return word("method.starter")
    untrained = reference.startswith(PREFIX)  # of a model of the hub, or of a folder, nothing is known
    return word("method.untrained", model=base_name(reference)) if untrained else reference
