"""A retriever's models as ONNX, in float and in 8 bits, compared with the original model on some questions.

Each sampled question has its top results and its relevant passages as candidates.

Torch traces the networks. In 8 bits, matrices are quantised per column and their inputs dynamically, except matrices
with more inputs than outputs: the activations of a transformer's widest layer have outliers, which use up the range
(Dettmers et al. 2022). Embedding tables are stored in half precision.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mrc_workbench.data.files import accept_earlier_names
from mrc_workbench.data.workspace import write_json
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.loading import most_tokens, prompts_of
from mrc_workbench.models.sources import is_starter
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.vectors import TokenVectors
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, LateSpec
from mrc_workbench.retrieval.comparison.multistage import RerankSpec
from mrc_workbench.retrieval.comparison.spec import RetrieverContext
from mrc_workbench.retrieval.dense import max_sim
from mrc_workbench.retrieval.export.fusion import MEASURE
from mrc_workbench.retrieval.export.signals import ExportError, project
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, evaluate
from mrc_workbench.retrieval.rankings import NOT_FOUND, rank_candidates

MODEL_FILES = ("model.onnx", "model.int8.onnx")
_QUESTIONS = 100
_CANDIDATES = 10
_MIN_HALVED_SIZE = 1_000_000  # numbers of an embedding table
FractionCallback = Callable[[float], None]
ReadingSpecs = DenseSpec | LateSpec | RerankSpec
# scores of candidates, `(n_questions, n)`, and numbers to compare, `(n, m)`
ModelOutput = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class OnnxMetrics:
    """The metrics of a model as ONNX and of the original.

    `agreement` is the lowest cosine of the two vectors of a text or token, or the correlation of a cross-encoder's
    scores. nDCG@10 ranks only the candidates; seconds are those of the same texts on the same cores.
    """

    retriever: str
    model: str
    kind: Literal["dense", "late", "rerank"]
    folder: str
    questions: int
    agreement: float
    agreement_int8: float
    ndcg: float
    ndcg_float: float
    ndcg_int8: float
    seconds: float
    seconds_float: float
    seconds_int8: float
    bytes_float: int
    bytes_int8: int
    _earlier = accept_earlier_names({"place": "folder"})


_METRIC_FIELDS = [field.name for field in fields(OnnxMetrics)][5:]


def write_models(
    folder: Path, comparison: Comparison, context: RetrieverContext, name: str, on_progress: FractionCallback
) -> list[OnnxMetrics]:
    """Write each model of a retriever into its own folder, and return the metrics.

    Raises `ExportError` if no model is a transformer (`no_network`), or if ONNX is not installed (`no_onnx`).
    """
    try:
        import onnxruntime.quantization  # noqa: F401
    except ImportError as error:
        raise ExportError("no_onnx", "ONNX is not installed: pip install 'mrc-workbench[onnx]'") from error
    model_specs = [spec for spec in comparison.experiment.with_dependencies([name]) if isinstance(spec, ReadingSpecs)]
    specs = [spec for spec in model_specs if not is_starter(context.source(spec.model))]
    if not specs:
        raise ExportError("no_network", f"{name!r} uses no transformer: there is nothing to write", name=name)
    sample = _SampledQuestions(comparison, name)
    metrics = []
    for number, spec in enumerate(specs):
        reader = _ComparedModel.of(spec, context, sample)
        folder_name = f"model_{number + 1}"
        report = partial(lambda before, fraction: on_progress((before + fraction) / len(specs)), number)
        metrics.append(_export_model(folder, folder_name, spec, reader, report))
    return metrics


class _SampledQuestions:
    """A sample of the compared questions, and their `candidates` `(n_questions, n)`, -1 for none."""

    def __init__(self, comparison: Comparison, name: str) -> None:
        full_set = comparison.question_set
        sample = np.sort(np.random.default_rng(0).permutation(len(full_set.questions))[:_QUESTIONS])
        part = full_set.with_questions(sample)
        top = comparison.rankings[name].indices[sample, :_CANDIDATES]
        rows = [np.union1d(passages, part.relevance[[row]].indices) for row, passages in enumerate(top)]
        self.question_set = part
        self.questions = [question.text for question in part.questions]
        self.candidates = np.full((len(rows), max(map(len, rows))), NOT_FOUND)
        for row, passages in enumerate(rows):
            self.candidates[row, : len(passages)] = passages
        self.rows = np.unique(self.candidates[self.candidates != NOT_FOUND])


def _export_model(
    folder: Path, folder_name: str, spec: ReadingSpecs, reader: "_ComparedModel", report: FractionCallback
) -> OnnxMetrics:
    sample = reader.sample
    write_onnx_model(folder / folder_name, reader.kind, reader.encoder.model, reader.projection)
    if isinstance(reader.encoder, TokenEncoder) and (weights := reader.encoder.weights):
        np.save(folder / folder_name / "token_weights.npy", weights.by_token, allow_pickle=False)
    report(0.2)
    outputs = []
    seconds = []
    functions = [reader.as_torch(), *(reader.as_onnx(folder / folder_name, form) for form in MODEL_FILES)]
    for number, read in enumerate(functions):
        reader.run(read, 2)  # warms up
        began = time.perf_counter()
        outputs.append(reader.run(read))
        seconds.append(time.perf_counter() - began)
        report(0.2 + 0.8 * (number + 1) / 3)
    agreements = [reader.agreement(outputs[0][1], other) for _, other in outputs[1:]]
    sizes = [(folder / folder_name / form).stat().st_size for form in MODEL_FILES]
    rankings = [rank_candidates(sample.candidates, scores, DEFAULT_CUTOFF) for scores, _ in outputs]
    ndcg = [evaluate(ranking, sample.question_set, (DEFAULT_CUTOFF,)).means()[MEASURE] for ranking in rankings]
    measured = dict(zip(_METRIC_FIELDS, (*agreements, *ndcg, *seconds, *sizes), strict=True))
    return OnnxMetrics(spec.name, spec.model, reader.kind, folder_name, len(sample.questions), **measured)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _ComparedModel:
    """A model that scores the questions and their candidates with torch or as ONNX."""

    kind: Literal["dense", "late", "rerank"]
    encoder: BiEncoder | TokenEncoder | CrossEncoderScorer
    sample: _SampledQuestions
    texts: Sequence[str]  # of the corpus
    projection: np.ndarray | None = None

    @classmethod
    def of(cls, spec: ReadingSpecs, context: RetrieverContext, sample: _SampledQuestions) -> "_ComparedModel":
        source = context.source(spec.model)
        texts = context.texts(spec.title)
        exact = Precision.FLOAT32
        match spec:
            case DenseSpec():
                return cls("dense", BiEncoder(source, texts, precision=exact), sample, texts)
            case RerankSpec():
                return cls("rerank", CrossEncoderScorer(source, texts, precision=exact), sample, texts)
        encoder = TokenEncoder(source, texts, precision=exact, dimensions=spec.dimensions, layers=spec.layers)
        encoder.fit(texts)
        return cls("late", encoder, sample, texts, encoder.projection)

    def as_torch(self) -> Callable[..., Any]:
        """Return the function of the original model that encodes texts of a side, or scores pairs."""
        encoder = self.encoder
        if isinstance(encoder, CrossEncoderScorer):
            return encoder.score
        if self.kind == "dense":
            return encoder.encode
        return lambda side, texts: [project(vectors, self.projection) for vectors in encoder.encode(side, texts)]

    def as_onnx(self, folder: Path, form: str) -> Callable[..., Any]:
        """Return the function of the model as ONNX."""
        import torch

        from mrc_workbench.retrieval.export.scripts.encode import Model

        model = Model(folder, form, torch.get_num_threads())
        if self.kind == "rerank":
            return model.score
        encode = model.encode_tokens if self.kind == "late" else model.encode
        return lambda side, texts: encode(texts, side)

    def run(self, read: Callable[..., Any], limit: int | None = None) -> ModelOutput:
        """Return the output for all questions and candidates, or for the first `limit` to warm up."""
        return self._run_pairs(read, limit) if self.kind == "rerank" else self._run_texts(read, limit)

    def agreement(self, expected: np.ndarray, other: np.ndarray) -> float:
        if expected.shape != other.shape:
            return 0.0
        if self.kind == "rerank":
            return float(np.corrcoef(expected[:, 0], other[:, 0])[0, 1])
        before, after = (np.linalg.norm(outputs, axis=1) for outputs in (expected, other))
        cosines = (expected * other).sum(axis=1) / np.maximum(before * after, 1e-12)
        return float(np.where((before == 0) & (after == 0), 1.0, cosines).min())  # zero vectors of ignored tokens agree

    def _run_texts(self, encode: Callable[[str, Sequence[str]], Any], limit: int | None) -> ModelOutput:
        rows = self.sample.rows[:limit]
        candidates = self.sample.candidates
        questions = encode("question", self.sample.questions[:limit])
        passages = encode("passage", [self.texts[row] for row in rows.tolist()])
        if self.kind == "late":
            scores = max_sim(TokenVectors.from_texts(questions), TokenVectors.from_texts(passages))
            vectors = np.concatenate([*questions, *passages]).astype(np.float32)
        else:
            scores = questions @ passages.T
            vectors = np.concatenate([questions, passages])
        if len(rows) == len(self.sample.rows):
            scores = np.take_along_axis(scores, np.searchsorted(rows, np.maximum(candidates, rows[0])), axis=1)
            scores = np.where(candidates != NOT_FOUND, scores, -np.inf)
        return scores, vectors

    def _run_pairs(self, score: Callable[[Sequence[tuple[str, str]]], np.ndarray], limit: int | None) -> ModelOutput:
        rows, columns = (positions[:limit] for positions in np.nonzero(self.sample.candidates != NOT_FOUND))
        questions = self.sample.questions
        passages = self.sample.candidates[rows, columns].tolist()
        row_pairs = zip(rows.tolist(), passages, strict=True)
        pair_scores = score([(questions[row], self.texts[passage]) for row, passage in row_pairs])
        scores = np.full(self.sample.candidates.shape, -np.inf)
        scores[rows, columns] = pair_scores
        return scores, pair_scores[:, None]


def write_onnx_model(folder: Path, kind: str, model: Any, projection: np.ndarray | None = None) -> None:
    """Write a model of sentence-transformers as the folder that `scripts/encode.py` reads.

    Raises `ExportError` (`no_tokenizer`) if its tokenizer cannot be written as a file.
    """
    import torch

    tokenizer = model.tokenizer
    if not tokenizer.is_fast:
        raise ExportError("no_tokenizer", "the model's tokenizer has no file format", name=kind)
    folder.mkdir(parents=True)
    example = model.preprocess([("a b", "c"), ("d", "e f g")] if kind == "rerank" else ["a b c", "d"])
    inputs = [name for name in tokenizer.model_input_names if isinstance(example.get(name), torch.Tensor)]
    outputs = {"dense": ["vectors"], "late": ["vectors", "of_question", "of_passage"], "rerank": ["scores"]}[kind]
    network = _make_traceable(model, kind, inputs).eval()
    device = model.device
    axes = {name: {0: "texts", 1: "tokens"} for name in [*inputs, *(outputs if kind == "late" else [])]}
    axes |= {} if kind == "late" else {outputs[0]: {0: "texts"}}
    values = tuple(example[name].to("cpu") for name in inputs)
    try:
        with torch.no_grad():
            names = {"input_names": inputs, "output_names": outputs, "dynamic_axes": axes}
            path = str(folder / MODEL_FILES[0])
            torch.onnx.export(network.to("cpu"), values, path, opset_version=17, dynamo=False, **names)
    finally:
        model.to(device)
    _quantise(folder)
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    if projection is not None:
        np.save(folder / "projection.npy", projection, allow_pickle=False)
    question, passage = ("", "") if kind == "rerank" else prompts_of(model)
    limit = most_tokens(tokenizer, model[0].auto_model.config)
    description = {
        "kind": kind,
        "inputs": inputs,
        "prompts": {"question": question, "passage": passage},
        "most_tokens": min(limit, int(getattr(model, "max_seq_length", None) or limit)),
        "padding": tokenizer.pad_token_id or 0,
        "padding_token": tokenizer.pad_token or "",
    }
    write_json(folder / "model.json", description)


def _make_traceable(model: Any, kind: str, inputs: Sequence[str]) -> Any:
    import torch

    class TraceableNetwork(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *columns: Any) -> Any:
            features = dict(zip(inputs, columns, strict=True))
            if kind == "rerank":
                return self.model(features)["scores"]
            if kind == "dense":
                return torch.nn.functional.normalize(self.model(features)["sentence_embedding"], dim=-1)
            mask = features["attention_mask"]
            output = self.model(features, task="document")
            return output["token_embeddings"], mask, output["attention_mask"].to(mask.dtype)

    return TraceableNetwork()


def _quantise(folder: Path) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load(folder / MODEL_FILES[0]).graph
    shapes = {tensor.name: tensor.dims for tensor in graph.initializer}
    products = [node for node in graph.node if node.op_type == "MatMul" and len(shapes.get(node.input[1], ())) == 2]
    narrowing = [node.name for node in products if shapes[node.input[1]][0] > shapes[node.input[1]][1]]
    # drops advice about image models
    logging.getLogger().addFilter(lambda record: "pre-processing before quantization" not in record.getMessage())
    options = {"op_types_to_quantize": ["MatMul"], "nodes_to_exclude": narrowing, "weight_type": QuantType.QInt8}
    quantize_dynamic(folder / MODEL_FILES[0], folder / MODEL_FILES[1], per_channel=True, **options)
    model = onnx.load(folder / MODEL_FILES[1])
    _halve_tables(model.graph)
    onnx.save(model, folder / MODEL_FILES[1])


def _halve_tables(graph: Any) -> None:
    """Store large embedding tables in half precision, and cast the looked-up rows to float."""
    import onnx

    tables = {tensor.name: tensor for tensor in graph.initializer if np.prod(tensor.dims) >= _MIN_HALVED_SIZE}
    used = Counter(name for node in graph.node for name in node.input)
    for position, node in reversed([*enumerate(graph.node)]):
        table = tables.get(node.input[0]) if node.op_type == "Gather" else None
        if table is None or table.data_type != onnx.TensorProto.FLOAT or used[table.name] != 1:
            continue
        values = onnx.numpy_helper.to_array(table).astype(np.float16)
        table.CopyFrom(onnx.numpy_helper.from_array(values, table.name))
        output = node.output[0]
        node.output[0] = f"{node.output[0]}_half"
        name = f"{node.name}_widened"
        cast = onnx.helper.make_node("Cast", [node.output[0]], [output], name, to=onnx.TensorProto.FLOAT)
        graph.node.insert(position + 1, cast)
