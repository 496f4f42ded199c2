"""Vespa: an application of one schema, whose first look orders all that any signal finds, and whose second mixes it.

What the two come to is told in `retrieval.takeaway.fusion`.
"""

from xml.sax.saxutils import quoteattr

from retrieval.dense import HNSW_CANDIDATES_TO_BUILD, HNSW_NEIGHBOURS
from retrieval.hybrid import RRF_CONSTANT
from retrieval.takeaway.documents import HITS, SHOWN, Body, Request, Told, is_exact, mark
from retrieval.takeaway.fusion import Mix, candidates_of
from retrieval.takeaway.signals import Terms


def told_to_vespa(mix: Mix, index: str) -> Told:
    """Return the application and the query; the index is the schema's name."""
    fields, inputs, properties, functions = [], [], [], []
    asked: Body = {}
    scores, first, matches = [], [], []
    for signal, weight, unit in zip(mix.signals, mix.weights, mix.units, strict=True):
        name = signal.field
        if isinstance(signal, Terms):
            fields.append(_TERMS.format(name=name))
            of = {"k1": signal.k1, "b": signal.b, "averageFieldLength": round(signal.mean_length, 4)}
            properties += [f'bm25({name}).{what}: "{value}"' for what, value in of.items()]
            scores.append(f"bm25({name})")
            first.append(f"{weight / unit / (signal.k1 + 1):.9g} * bm25({name})")  # it multiplies by k1 + 1
            matches.append(f'({{defaultIndex: "{name}", grammar: "any"}}userInput(@{name}))')
            asked[name] = mark(signal)
        else:
            tensor = f"tensor<float>(x[{signal.vectors.shape[1]}])"
            graph = "" if is_exact(signal) else _GRAPH
            fields.append(_VECTOR.format(name=name, tensor=tensor, graph=graph, index="index | " if graph else ""))
            inputs.append(f"query(asked_{name}) {tensor}")
            functions.append(
                f"function cosine_{name}() {{\n expression: sum(query(asked_{name}) * attribute({name}))\n }}"
            )
            scores.append(f"cosine_{name}")
            first.append(f"{weight / unit:.9g} * cosine_{name}")
            exact = "approximate: false, " if is_exact(signal) else ""
            matches.append(f"({{{exact}targetHits: {mix.depth}}}nearestNeighbor({name}, asked_{name}))")
            asked[f"input.query(asked_{name})"] = mark(signal)
    profile = ["inputs {", *inputs, "}"] if inputs else []
    profile += [*functions, *(["rank-properties {", *properties, "}"] if properties else [])]
    profile += ["first-phase {", "expression: " + (" + ".join(first) if len(scores) > 1 else scores[0]), "}"]
    if len(scores) > 1:
        by = "reciprocal_rank({}, " + f"{RRF_CONSTANT})" if mix.by_rank else "normalize_linear({})"
        mixed = " + ".join(f"{weight} * {by.format(score)}" for weight, score in zip(mix.weights, scores, strict=True))
        profile += ["global-phase {", f"rerank-count: {candidates_of(mix)}", f"expression: {mixed}", "}"]
    schema = _SCHEMA.format(index=index, fields="\n".join(fields), profile="\n".join(profile))
    yql = f"select {', '.join(SHOWN)} from {index} where {' or '.join(matches)}"  # noqa: S608 - of our own words
    body = {"yql": yql, "ranking": "taken_away", "hits": HITS, **asked}
    return Told(
        bulk={"form": "puts", "path": f"/document/v1/mrc/{index}/docid/", "id": f"id:mrc:{index}::"},
        query=Request("POST", "/search/", body),
        found=["root", "children", "fields"],
        files={
            f"application/schemas/{index}.sd": _indented(schema),
            "application/services.xml": _SERVICES.format(type=quoteattr(index)),
        },
    )


def _indented(text: str) -> str:
    """Return a schema with its blocks indented."""
    lines, depth = [], 0
    for line in (line.strip() for line in text.splitlines()):
        depth -= line.startswith("}")
        lines.append("    " * depth + line)
        depth += line.endswith("{")
    return "\n".join(filter(str.strip, lines)) + "\n"


_TERMS = """field {name} type string {{
indexing: index
index: enable-bm25
stemming: none
normalizing: none
}}"""
_VECTOR = """field {name} type {tensor} {{
indexing: {index}attribute
attribute {{
distance-metric: dotproduct
}}
{graph}
}}"""
_GRAPH = f"""index {{
hnsw {{
max-links-per-node: {HNSW_NEIGHBOURS}
neighbors-to-explore-at-insert: {HNSW_CANDIDATES_TO_BUILD}
}}
}}"""
_SCHEMA = """schema {index} {{
document {index} {{
field row type int {{
indexing: attribute | summary
}}
field passage type string {{
indexing: attribute | summary
}}
field title type string {{
indexing: summary
}}
field text type string {{
indexing: summary
}}
{fields}
}}
rank-profile taken_away {{
{profile}
}}
}}"""
_SERVICES = """<?xml version="1.0" encoding="utf-8" ?>
<services version="1.0">
    <container id="default" version="1.0">
        <search/>
        <document-api/>
    </container>
    <content id="passages" version="1.0">
        <min-redundancy>1</min-redundancy>
        <documents>
            <document type={type} mode="index"/>
        </documents>
        <nodes>
            <node hostalias="node1" distribution-key="0"/>
        </nodes>
    </content>
</services>
"""
