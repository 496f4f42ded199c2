"""The README of a folder that is taken away: how it is used, what differs in the engine, and by how much."""

import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.workspace import MEGABYTE
from mrc_workbench.retrieval.report.exports import markdown_text
from mrc_workbench.retrieval.takeaway import WORDS
from mrc_workbench.retrieval.takeaway.fusion import Engine, Figure, Mix
from mrc_workbench.retrieval.takeaway.lucene import has_free_queries, is_weighted
from mrc_workbench.retrieval.takeaway.models import ModelFigure
from mrc_workbench.retrieval.takeaway.signals import LateTokens

_TEMPLATE = "README.md.jinja"
_DIFFERENCES = tomllib.loads(WORDS.read_text(encoding="utf-8"))["takeaway"]
_LIBRARIES = {Engine.LANGCHAIN: "langchain-core", Engine.LLAMAINDEX: "llama-index-core"}
_WEIGHTED_RRF = "9.2 or newer (before that, `rrf` has no weights)"
_LOAD = "python engine.py load"


class Server(NamedTuple):
    """Where an engine answers by default, which version is needed, and the commands that load the folder."""

    address: str
    needs: str
    commands: str = _LOAD


SERVERS = {
    Engine.ELASTICSEARCH: Server("http://127.0.0.1:9200", "Elasticsearch."),  # see `elasticsearch_needs`
    Engine.OPENSEARCH: Server(
        "http://127.0.0.1:9200",
        "OpenSearch 3 or newer with its plugins for vectors and hybrid search, which its own image brings.",
    ),
    Engine.VESPA: Server(
        "http://127.0.0.1:8080",
        "Vespa 8. `application/` is deployed first, with Vespa's own command.",
        f"vespa deploy --wait 300 application\n{_LOAD}",
    ),
    Engine.WEAVIATE: Server(
        "http://127.0.0.1:8080",
        "Weaviate 1.25 or newer; it needs no module, as vectors come along. Vectors are not quantized, also where "
        "`DEFAULT_QUANTIZATION` is set (1.33 and newer).",
    ),
    Engine.MILVUS: Server("", "Milvus 2.4 or newer, or no server.", f"pip install pymilvus milvus-lite\n{_LOAD}"),
}


def readme(
    name: str,
    engine: Engine,
    asked: QuestionSet,
    figures: Sequence[Figure],
    *,
    models: Sequence[ModelFigure] = (),
    mix: Mix | None = None,
) -> str:
    """Return the README as Markdown; every figure in it is one of those given."""
    server = SERVERS.get(engine)
    own = next((one for one in figures if one.engine is engine), None)
    # Markdown, no HTML: `markdown_text` escapes what users named
    templates = Environment(  # noqa: S701
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    text = templates.get_template(_TEMPLATE).render(
        name=markdown_text(name),
        engine=engine,
        library=_LIBRARIES.get(engine, ""),
        needs=_needs(engine, mix),
        address=server.address if server else "",
        commands=server.commands if server else "",
        free=bool(mix and engine is Engine.ELASTICSEARCH and has_free_queries(mix)),
        differences=_differences(own) if own else [],
        figures=figures,
        models=models,
        model_table=_model_table(models),
        questions=f"{len(asked.questions):,}",
        passages=f"{len(asked.passages):,}",
        data=markdown_text(asked.name),
    )
    return re.sub("\n{3,}", "\n\n", text).rstrip() + "\n"


def _needs(engine: Engine, mix: Mix | None) -> str:
    if mix and engine is Engine.ELASTICSEARCH:
        return elasticsearch_needs(mix)
    if mix and engine is Engine.OPENSEARCH and _has_tokens(mix):
        return SERVERS[engine].needs.replace("OpenSearch 3 or newer", "OpenSearch 3.3 or newer")
    return SERVERS[engine].needs if engine in SERVERS else ""


def _has_tokens(mix: Mix) -> bool:
    return any(isinstance(signal, LateTokens) for signal in mix.signals)


def elasticsearch_needs(mix: Mix) -> str:
    """Return which version and licence of Elasticsearch the query of a mix needs."""
    if _has_tokens(mix):
        version = _WEIGHTED_RRF if mix.by_rank and is_weighted(mix) else "9.0 or newer"
        return (
            f"Elasticsearch {version}, with a trial or Enterprise licence: no other includes `rank_vectors`, the field "
            "of late interaction, which is a technical preview."
        )
    if len(mix.signals) == 1:
        return "Elasticsearch 8.16 or newer, with any licence."
    retriever, version = "linear", "8.18 or newer"
    if mix.by_rank:
        retriever = "rrf"
        version = _WEIGHTED_RRF if is_weighted(mix) else "8.16 or newer"
    return (
        f"Elasticsearch {version}. The retriever `{retriever}` is part of its trial and its paid licences; with the "
        "free Basic licence, or with 8.16 and newer, add `--free` to `check` and `ask`."
    )


def _differences(figure: Figure) -> list[str]:
    left_out = ", ".join(map(markdown_text, figure.left_out))
    return [_DIFFERENCES[f"differs_{code}"].format(left_out=left_out) for code in figure.differs]


def _model_table(models: Sequence[ModelFigure]) -> str:
    rows: list[tuple[str, Callable[[ModelFigure], str]]] = [
        ("model", lambda one: markdown_text(one.model)),
        ("lowest agreement, float", lambda one: f"{one.agreement:.6f}"),
        ("lowest agreement, 8 bits", lambda one: f"{one.agreement_int8:.4f}"),
        ("nDCG@10, torch", lambda one: f"{one.ndcg * 100:.2f}"),
        ("nDCG@10, float", lambda one: f"{one.ndcg_float * 100:.2f}"),
        ("nDCG@10, 8 bits", lambda one: f"{one.ndcg_int8 * 100:.2f}"),
        ("seconds, torch", lambda one: f"{one.seconds:.2f}"),
        ("seconds, float", lambda one: f"{one.seconds_float:.2f}"),
        ("seconds, 8 bits", lambda one: f"{one.seconds_int8:.2f}"),
        ("megabytes, float", lambda one: f"{one.bytes_float / MEGABYTE:,.0f}"),
        ("megabytes, 8 bits", lambda one: f"{one.bytes_int8 / MEGABYTE:,.0f}"),
    ]
    lines = ["| | " + " | ".join(f"{markdown_text(one.retriever)} ({one.place})" for one in models) + " |"]
    lines.append("|---" + "|---:" * len(models) + "|")
    lines += [f"| {label} | " + " | ".join(map(of, models)) + " |" for label, of in rows]
    return "\n".join(lines)
