"""A retriever's models as ONNX, in float and in 8 bits, compared with the original model while they are written.

They read some of the compared questions, each with its first results and its relevant passages.

Networks are traced by torch. In 8 bits, matrices are quantised per column and their inputs dynamically, except matrices
with more inputs than outputs: the activations of a transformer's widest layer have outliers, which take the range from
all others (Dettmers et al. 2022). Token vectors are kept in half precision.
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
from mrc_workbench.retrieval.comparison.spec import Materials
from mrc_workbench.retrieval.dense import max_sim
from mrc_workbench.retrieval.measures import CUT, evaluate
from mrc_workbench.retrieval.rankings import NOT_FOUND, ranked
from mrc_workbench.retrieval.takeaway.fusion import MEASURE
from mrc_workbench.retrieval.takeaway.signals import TakeAwayError, projected

FORMS = ("model.onnx", "model.int8.onnx")
_QUESTIONS, _CANDIDATES = 100, 10  # that the models are held against
_LARGE = 1_000_000  # numbers of a table of vectors that is worth halving
Tell = Callable[[float], None]
ReadingSpecs = DenseSpec | LateSpec | RerankSpec
Said = tuple[np.ndarray, np.ndarray]  # scores of candidates, `(n_questions, n)`; and numbers to compare, `(n, m)`


@dataclass(frozen=True)
class ModelFigure:
    """The metrics of a model as ONNX and of the original, on so many `questions`.

    `agreement` is the lowest cosine of two vectors of one text or token; of a cross-encoder, the correlation of the
    scores. nDCG@10 is of the candidates alone; seconds are of the same texts on the same cores.
    """

    retriever: str
    model: str
    kind: Literal["dense", "late", "rerank"]
    place: str
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


_MEASURED = [field.name for field in fields(ModelFigure)][5:]


def write_models(
    folder: Path, comparison: Comparison, materials: Materials, name: str, on_progress: Tell
) -> list[ModelFigure]:
    """Write each model of a retriever into its own folder, and return what was measured.

    Raises `TakeAwayError` if no model is a transformer (`no_network`), or if ONNX is not installed (`no_onnx`).
    """
    try:
        import onnxruntime.quantization  # noqa: F401
    except ImportError as error:
        raise TakeAwayError("no_onnx", "ONNX is not installed: pip install 'mrc-workbench[onnx]'") from error
    reading = [spec for spec in comparison.experiment.needed([name]) if isinstance(spec, ReadingSpecs)]
    specs = [spec for spec in reading if not is_starter(materials.source(spec.model))]
    if not specs:
        raise TakeAwayError("no_network", f"{name!r} reads with no transformer: there is nothing to write", name=name)
    asked = _Asked(comparison, name)
    figures = []
    for number, spec in enumerate(specs):
        reader, place = _Reader.of(spec, materials, asked), f"model_{number + 1}"
        report = partial(lambda before, share: on_progress((before + share) / len(specs)), number)
        figures.append(_written(folder, place, spec, reader, report))
    return figures


class _Asked:
    """Questions sampled from those compared, and their `candidates` `(n_questions, n)`, -1 for none."""

    def __init__(self, comparison: Comparison, name: str) -> None:
        whole = comparison.question_set
        sample = np.sort(np.random.default_rng(0).permutation(len(whole.questions))[:_QUESTIONS])
        part, first = whole.with_questions(sample), comparison.rankings[name].indices[sample, :_CANDIDATES]
        rows = [np.unique(np.concatenate([found, part.relevance[[row]].indices])) for row, found in enumerate(first)]
        self.question_set, self.questions = part, [question.text for question in part.questions]
        self.candidates = np.full((len(rows), max(map(len, rows))), NOT_FOUND)
        for row, found in enumerate(rows):
            self.candidates[row, : len(found)] = found
        self.rows = np.unique(self.candidates[self.candidates != NOT_FOUND])  # of all candidates, each once


def _written(folder: Path, place: str, spec: ReadingSpecs, reader: "_Reader", report: Tell) -> ModelFigure:
    asked = reader.asked
    write_network(folder / place, reader.kind, reader.encoder.model, reader.projection)
    if isinstance(reader.encoder, TokenEncoder) and (weights := reader.encoder.weights):
        np.save(folder / place / "token_weights.npy", weights.by_token, allow_pickle=False)
    report(0.2)
    said, seconds = [], []
    for number, read in enumerate([reader.as_torch(), *(reader.as_onnx(folder / place, form) for form in FORMS)]):
        reader.say(read, 2)  # what is made ready with the first texts is no part of the time
        began = time.perf_counter()
        said.append(reader.say(read))
        seconds.append(time.perf_counter() - began)
        report(0.2 + 0.8 * (number + 1) / 3)
    agreements = [reader.agreement(said[0][1], other) for _, other in said[1:]]
    sizes = [(folder / place / form).stat().st_size for form in FORMS]
    rankings = [ranked(asked.candidates, scores, CUT) for scores, _ in said]
    ndcg = [evaluate(one, asked.question_set, (CUT,)).means()[MEASURE] for one in rankings]
    measured = dict(zip(_MEASURED, (*agreements, *ndcg, *seconds, *sizes), strict=True))
    return ModelFigure(spec.name, spec.model, reader.kind, place, len(asked.questions), **measured)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Reader:
    """A model that reads the questions and their candidates: with torch, or as ONNX."""

    kind: Literal["dense", "late", "rerank"]
    encoder: BiEncoder | TokenEncoder | CrossEncoderScorer
    asked: _Asked
    texts: Sequence[str]  # of the corpus
    projection: np.ndarray | None = None

    @classmethod
    def of(cls, spec: ReadingSpecs, materials: Materials, asked: _Asked) -> "_Reader":
        source, texts = materials.source(spec.model), materials.texts(spec.title)
        exact = Precision.FLOAT32
        match spec:
            case DenseSpec():
                return cls("dense", BiEncoder(source, texts, precision=exact), asked, texts)
            case RerankSpec():
                return cls("rerank", CrossEncoderScorer(source, texts, precision=exact), asked, texts)
        encoder = TokenEncoder(source, texts, precision=exact, dimensions=spec.dimensions, layers=spec.layers)
        encoder.fit(texts)
        return cls("late", encoder, asked, texts, encoder.projection)

    def as_torch(self) -> Callable[..., Any]:
        """Return a function that encodes texts of a side, or scores pairs, by the original model."""
        encoder = self.encoder
        if isinstance(encoder, CrossEncoderScorer):
            return encoder.score
        if self.kind == "dense":
            return encoder.encode
        return lambda side, texts: [projected(one, self.projection) for one in encoder.encode(side, texts)]

    def as_onnx(self, place: Path, form: str) -> Callable[..., Any]:
        """Return the same function of the model as ONNX."""
        import torch

        from mrc_workbench.retrieval.takeaway.scripts.encode import Model

        model = Model(place, form, torch.get_num_threads())
        if self.kind == "rerank":
            return model.score
        encode = model.encode_tokens if self.kind == "late" else model.encode
        return lambda side, texts: encode(texts, side)

    def say(self, read: Callable[..., Any], most: int | None = None) -> Said:
        """Return what is read of all questions and candidates, or of the first `most` to make a model ready."""
        return self._of_pairs(read, most) if self.kind == "rerank" else self._of_texts(read, most)

    def agreement(self, torch_says: np.ndarray, other: np.ndarray) -> float:
        if torch_says.shape != other.shape:
            return 0.0
        if self.kind == "rerank":
            return float(np.corrcoef(torch_says[:, 0], other[:, 0])[0, 1])
        before, after = (np.linalg.norm(one, axis=1) for one in (torch_says, other))
        cosines = (torch_says * other).sum(axis=1) / np.maximum(before * after, 1e-12)
        return float(np.where((before == 0) & (after == 0), 1.0, cosines).min())  # of tokens that do not count

    def _of_texts(self, encode: Callable[[str, Sequence[str]], Any], most: int | None) -> Said:
        rows, candidates = self.asked.rows[:most], self.asked.candidates
        questions = encode("question", self.asked.questions[:most])
        passages = encode("passage", [self.texts[row] for row in rows.tolist()])
        if self.kind == "late":
            scores = max_sim(TokenVectors.of(questions), TokenVectors.of(passages))
            vectors = np.concatenate([*questions, *passages]).astype(np.float32)
        else:
            scores, vectors = questions @ passages.T, np.concatenate([questions, passages])
        if len(rows) == len(self.asked.rows):  # not of some texts, to make ready
            scores = np.take_along_axis(scores, np.searchsorted(rows, np.maximum(candidates, rows[0])), axis=1)
            scores = np.where(candidates != NOT_FOUND, scores, -np.inf)
        return scores, vectors

    def _of_pairs(self, score: Callable[[Sequence[tuple[str, str]]], np.ndarray], most: int | None) -> Said:
        rows, places = (found[:most] for found in np.nonzero(self.asked.candidates != NOT_FOUND))
        questions, passages = self.asked.questions, self.asked.candidates[rows, places].tolist()
        said = score([(questions[row], self.texts[one]) for row, one in zip(rows.tolist(), passages, strict=True)])
        scores = np.full(self.asked.candidates.shape, -np.inf)
        scores[rows, places] = said
        return scores, said[:, None]


def write_network(place: Path, kind: str, model: Any, projection: np.ndarray | None = None) -> None:
    """Write a model of sentence-transformers as the folder that `scripts/encode.py` reads.

    Raises `TakeAwayError` (`no_tokenizer`) if its tokenizer cannot be written as a file.
    """
    import torch

    tokenizer = model.tokenizer
    if not tokenizer.is_fast:
        raise TakeAwayError("no_tokenizer", "the model's tokenizer is not one that a file tells", name=kind)
    place.mkdir(parents=True)
    example = model.preprocess([("a b", "c"), ("d", "e f g")] if kind == "rerank" else ["a b c", "d"])
    inputs = [name for name in tokenizer.model_input_names if isinstance(example.get(name), torch.Tensor)]
    outputs = {"dense": ["vectors"], "late": ["vectors", "of_question", "of_passage"], "rerank": ["scores"]}[kind]
    network, device = _traced(model, kind, inputs).eval(), model.device
    axes = {name: {0: "texts", 1: "tokens"} for name in [*inputs, *(outputs if kind == "late" else [])]}
    axes |= {} if kind == "late" else {outputs[0]: {0: "texts"}}
    values = tuple(example[name].to("cpu") for name in inputs)
    try:
        with torch.no_grad():
            torch.onnx.export(
                network.to("cpu"),
                values,
                str(place / FORMS[0]),
                input_names=inputs,
                output_names=outputs,
                dynamic_axes=axes,
                opset_version=17,
                dynamo=False,
            )
    finally:
        model.to(device)
    _quantise(place)
    tokenizer.backend_tokenizer.save(str(place / "tokenizer.json"))
    if projection is not None:
        np.save(place / "projection.npy", projection, allow_pickle=False)
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
    write_json(place / "model.json", description)


def _traced(model: Any, kind: str, inputs: Sequence[str]) -> Any:
    import torch

    class Network(torch.nn.Module):
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
            told = self.model(features, task="document")
            return told["token_embeddings"], mask, told["attention_mask"].to(mask.dtype)

    return Network()


def _quantise(place: Path) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load(place / FORMS[0]).graph
    shapes = {one.name: one.dims for one in graph.initializer}
    products = [node for node in graph.node if node.op_type == "MatMul" and len(shapes.get(node.input[1], ())) == 2]
    narrowing = [node.name for node in products if shapes[node.input[1]][0] > shapes[node.input[1]][1]]
    # without its advice about networks for images
    logging.getLogger().addFilter(lambda record: "pre-processing before quantization" not in record.getMessage())
    chosen = {"op_types_to_quantize": ["MatMul"], "nodes_to_exclude": narrowing}
    quantize_dynamic(place / FORMS[0], place / FORMS[1], per_channel=True, weight_type=QuantType.QInt8, **chosen)
    model = onnx.load(place / FORMS[1])
    _halve_tables(model.graph)
    onnx.save(model, place / FORMS[1])


def _halve_tables(graph: Any) -> None:
    """Store large embedding tables in half precision, widened after the lookup."""
    import onnx

    tables = {one.name: one for one in graph.initializer if np.prod(one.dims) >= _LARGE}
    used = Counter(name for node in graph.node for name in node.input)
    for place, node in reversed([*enumerate(graph.node)]):
        table = tables.get(node.input[0]) if node.op_type == "Gather" else None
        if table is None or table.data_type != onnx.TensorProto.FLOAT or used[table.name] != 1:
            continue
        values = onnx.numpy_helper.to_array(table).astype(np.float16)
        table.CopyFrom(onnx.numpy_helper.from_array(values, table.name))
        found, node.output[0] = node.output[0], f"{node.output[0]}_half"
        cast = onnx.helper.make_node(
            "Cast", [node.output[0]], [found], f"{node.name}_widened", to=onnx.TensorProto.FLOAT
        )
        graph.node.insert(place + 1, cast)
