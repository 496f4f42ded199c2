"""The page that lies in the folder: how it is loaded, what is the same there, what differs, and by how much."""

import tomllib
from collections.abc import Callable, Sequence

from data.workspace import MEGABYTE
from retrieval.comparison.compare import Comparison
from retrieval.report.exports import markdown_text
from retrieval.takeaway import WORDS
from retrieval.takeaway.fusion import Engine, Figure
from retrieval.takeaway.models import ModelFigure

_TEXTS = tomllib.loads(WORDS.read_text(encoding="utf-8"))["takeaway"]
_LOADING = {
    Engine.ELASTICSEARCH: (
        "Elasticsearch 9 or newer; the retrievers `linear` and `rrf` are part of its trial and its paid licences.",
        "python engine.py load",
    ),
    Engine.OPENSEARCH: (
        "OpenSearch 3 or newer with its plugins for vectors and hybrid search, which its own image brings.",
        "python engine.py load",
    ),
    Engine.VESPA: (
        "Vespa 8. `application/` is deployed first, with Vespa's own command.",
        "vespa deploy --wait 300 application\npython engine.py load",
    ),
    Engine.WEAVIATE: ("Weaviate 1.25 or newer; it needs no module, as vectors come along.", "python engine.py load"),
    Engine.MILVUS: (
        "Milvus 2.4 or newer, or no server: without `ENGINE_URL` all lies in the file `milvus.db` beside the script.",
        "pip install pymilvus milvus-lite\npython engine.py load",
    ),
}
_HTTP = """`ENGINE_URL` says where it is, and `ENGINE_AUTHORIZATION` the header `Authorization`, where one is needed.
`engine.json` is all that it is told: settings, and the query with the marks of a question's values. `documents.jsonl`
holds the passages, with their terms and vectors, `questions.jsonl` the questions compared, with their values."""


_ONNX = """Each `model_…` is a model: `model.onnx` in float, `model.int8.onnx` with matrices of 8 bits, its tokenizer,
and `model.json` with its prompts and limits. `encode.py` runs them, without torch and without the workbench."""


def readme(
    name: str, engine: Engine, comparison: Comparison, figures: Sequence[Figure], models: Sequence[ModelFigure] = ()
) -> str:
    """Return the page as Markdown; every figure in it is one of those given."""
    asked = comparison.question_set
    parts = [f"# {markdown_text(name)} for {engine.value.capitalize()}", "## Use", *_use(engine)]
    if models:
        return "\n\n".join([*parts, "## Figures", *_of_models(models)]) + "\n"
    what = f"{len(asked.questions):,} questions, {len(asked.passages):,} passages of {markdown_text(asked.name)}"
    own = next(one for one in figures if one.engine is engine)
    parts += ["## The same, and not", _same(engine, own), "## Figures", f"nDCG@10 in percent, {what}:"]
    parts += [_table(figures), _TABLE_TOLD]
    return "\n\n".join(parts) + "\n"


_TABLE_TOLD = """*Here* is as compared in the workbench. *There* is the engine's own mixing of the same signals, which
the workbench computed, every vector compared; the interval (95 %) is that of the difference."""


def _use(engine: Engine) -> list[str]:
    if engine is Engine.ONNX:
        return ["```bash\npip install onnxruntime tokenizers numpy\n```", _ONNX]
    if engine.is_library:
        library = {"langchain": "langchain-core", "llamaindex": "llama-index-core"}[engine.value]
        return [
            "It asks the search of the workbench itself, so the workbench has to be installed, or its folder to be in "
            "`PYTHONPATH`. `questions.zip` holds the passages (BEIR), `experiment.toml` the retriever; models that "
            "were trained lie beside them, and others are found by their names.",
            f'```bash\npip install {library}\npython {engine.value}_retriever.py "a question"\n```',
        ]
    needs, commands = _LOADING[engine]
    check = "python engine.py check               # nDCG@10 of the questions compared, asked of the engine"
    ask = 'python engine.py ask "a question"    # with the folder of the workbench in PYTHONPATH'
    return [needs, f"```bash\n{commands}\n{check}\n{ask}\n```", _HTTP]


def _same(engine: Engine, figure: Figure) -> str:
    if engine.is_library:
        told = "It is the same search: the same passages in the same order, as far as a model gives one question alone"
        return f"{told} the vector that it gives it among others; they may differ in the last digits."
    lines = ["- The terms are those of the workbench's analyzer, and the vectors those of its model."]
    left_out = ", ".join(map(markdown_text, figure.left_out))
    return "\n".join([*lines, *(f"- {_TEXTS[f'differs_{code}'].format(left_out=left_out)}" for code in figure.differs)])


def _table(figures: Sequence[Figure]) -> str:
    lines = ["| engine | here | there | difference | 95 % |", "|---|---:|---:|---:|---:|"]
    for one in figures:
        ends = f"{one.low * 100:+.2f} to {one.high * 100:+.2f}"
        values = f"{one.here * 100:.2f} | {one.there * 100:.2f} | {(one.there - one.here) * 100:+.2f} | {ends}"
        lines.append(f"| {one.engine.value} | {values} |")
    return "\n".join(lines)


def _of_models(models: Sequence[ModelFigure]) -> list[str]:
    lines = ["| | " + " | ".join(f"{markdown_text(one.retriever)} ({one.place})" for one in models) + " |"]
    lines.append("|---" + "|---:" * len(models) + "|")
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
    lines += [f"| {label} | " + " | ".join(map(of, models)) + " |" for label, of in rows]
    told = (
        f"Agreement is the cosine of a text's or a token's two vectors, of a cross-encoder the correlation of scores. "
        f"nDCG@10 in percent is of {models[0].questions} questions, each with its first passages alone; seconds are "
        "those of their texts, in one run on one machine."
    )
    return ["\n".join(lines), told]
