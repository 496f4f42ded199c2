"""Vespa: an application of one schema, whose first look orders all that any signal finds, and whose second mixes it.

What the two come to is told in `retrieval.takeaway.fusion`.
"""

from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from retrieval.dense import HNSW_CANDIDATES_TO_BUILD, HNSW_NEIGHBOURS
from retrieval.hybrid import RRF_CONSTANT
from retrieval.takeaway.documents import HITS, SHOWN, Request, Told, is_exact, mark
from retrieval.takeaway.fusion import Mix, candidates_of, first_look
from retrieval.takeaway.signals import LateTokens, Signal, Terms


def told_to_vespa(mix: Mix, index: str) -> Told:
    """Return the application and the query; the index is the schema's name."""
    parts = [_of(signal, mix.depth) for signal in mix.signals]
    looked = [parts[place] for place in first_look(mix)]
    properties = [line for part in parts for line in part.properties]
    inputs = [f"query({name}) {part.tensor}" for part in parts if part.tensor for name in part.asked]
    profile = ["inputs {", *inputs, "}"] if inputs else []
    profile += [line for part in parts if part.function for line in (f"function {part.score}() {{", part.function, "}")]
    profile += ["rank-properties {", *properties, "}"] if properties else []
    looks = [mix.weights[place] / mix.units[place] / parts[place].factor for place in first_look(mix)]
    first = " + ".join(f"{look:.9g} * {part.score}" for look, part in zip(looks, looked, strict=True))
    profile += ["first-phase {", "expression: " + (first if len(parts) > 1 else parts[0].score), "}"]
    if len(parts) > 1:
        by = "reciprocal_rank({}, " + f"{RRF_CONSTANT})" if mix.by_rank else "normalize_linear({})"
        weighed = zip(mix.weights, parts, strict=True)
        mixed = " + ".join(f"{weight} * {by.format(part.score)}" for weight, part in weighed)
        profile += ["global-phase {", f"rerank-count: {candidates_of(mix)}", f"expression: {mixed}", "}"]
    fields = "\n".join(part.field for part in parts)
    matches = " or ".join(part.match for part in looked)
    asked = {
        f"input.query({name})" if part.tensor else name: mark for part in parts for name, mark in part.asked.items()
    }
    yql = f"select {', '.join(SHOWN)} from {index} where {matches}"  # noqa: S608 - of our own words
    return Told(
        bulk={"form": "puts", "path": f"/document/v1/mrc/{index}/docid/"},
        query=Request("POST", "/search/", {"yql": yql, "ranking": "taken_away", "hits": HITS, **asked}),
        found=["root", "children", "fields"],
        files={
            f"application/schemas/{index}.sd": _indented(
                _SCHEMA.format(index=index, fields=fields, profile="\n".join(profile))
            ),
            "application/services.xml": _SERVICES.format(type=quoteattr(index)),
        },
    )


class _Part(NamedTuple):
    """A signal in the schema: its field, what scores it, and what of a question it is asked with.

    The `score` is `factor` times what it is here; it is that of a `function`, where there is one.
    """

    field: str
    score: str
    match: str
    asked: dict[str, str]
    tensor: str = ""
    function: str = ""
    properties: tuple[str, ...] = ()
    factor: float = 1.0


def _of(signal: Signal, depth: int) -> _Part:
    name, asked = signal.field, {f"asked_{signal.field}": mark(signal)}
    if isinstance(signal, Terms):
        of = {"k1": signal.k1, "b": signal.b, "averageFieldLength": round(signal.mean_length, 4)}
        properties = tuple(f'bm25({name}).{what}: "{value}"' for what, value in of.items())
        match = f'({{defaultIndex: "{name}", grammar: "any"}}userInput(@{name}))'
        field, factor = _TERMS.format(name=name), signal.k1 + 1  # which it multiplies by
        return _Part(field, f"bm25({name})", match, {name: mark(signal)}, properties=properties, factor=factor)
    if isinstance(signal, LateTokens):
        held = f"tensor<float>(token{{}},x[{signal.vectors.vectors.shape[1]}])"
        each = f"reduce(sum(query(asked_{name}) * attribute({name}), x), max, token)"
        function = f"expression: sum({each}, asked)"
        field = _TOKENS.format(name=name, tensor=held)
        return _Part(field, f"late_{name}", "true", asked, held.replace("token{}", "asked{}"), function)
    tensor = f"tensor<float>(x[{signal.vectors.shape[1]}])"
    graph = "" if is_exact(signal) else _GRAPH
    field = _VECTOR.format(name=name, tensor=tensor, graph=graph, index="index | " if graph else "")
    match = f"({{{'approximate: false, ' * is_exact(signal)}targetHits: {depth}}}nearestNeighbor({name}, asked_{name}))"
    function = f"expression: sum(query(asked_{name}) * attribute({name}))"
    return _Part(field, f"cosine_{name}", match, asked, tensor, function)


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
_TOKENS = """field {name} type {tensor} {{
indexing: attribute
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
