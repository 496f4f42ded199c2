"""A model of sentence-transformers written as ONNX, in float and in 8 bits, with all that reads texts for it.

Networks are traced by torch. In 8 bits, matrices are kept by the range of each column and what they are multiplied with
is brought to 8 bits as it comes (dynamic quantisation), but for those that bring many values to fewer: what comes out
of a transformer's widest layer has outliers, which take the range from all others (Dettmers et al. 2022). Vectors of
tokens are kept in half precision.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data.workspace import write_json
from models.loading import most_tokens, prompts_of
from retrieval.takeaway.signals import TakeAwayError

FORMS = ("model.onnx", "model.int8.onnx")
_LARGE = 1_000_000  # numbers of a table of vectors that is worth halving


def write_network(place: Path, kind: str, model: Any, projection: np.ndarray | None = None) -> None:
    """Write a model of sentence-transformers as the folder that `scripts/encode.py` reads.

    Raises `TakeAwayError` (`no_tokenizer`) where its tokenizer is not one that a file tells.
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
    told = {
        "kind": kind,
        "inputs": inputs,
        "prompts": {"question": question, "passage": passage},
        "most_tokens": min(limit, int(getattr(model, "max_seq_length", None) or limit)),
        "padding": tokenizer.pad_token_id or 0,
        "padding_token": tokenizer.pad_token or "",
    }
    write_json(place / "model.json", told)


def _traced(model: Any, kind: str, inputs: Sequence[str]) -> Any:
    """Return a network that takes columns of tokens in order, and says what the kind of model is asked for."""
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
    logging.getLogger().addFilter(_without_advice)
    chosen = {"op_types_to_quantize": ["MatMul"], "nodes_to_exclude": narrowing}
    quantize_dynamic(place / FORMS[0], place / FORMS[1], per_channel=True, weight_type=QuantType.QInt8, **chosen)
    model = onnx.load(place / FORMS[1])
    _halve_tables(model.graph)
    onnx.save(model, place / FORMS[1])


def _halve_tables(graph: Any) -> None:
    """Keep the large tables that vectors are looked up in as half precision, widened once they are looked up."""
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


def _without_advice(record: logging.LogRecord) -> bool:
    """Leave out what the quantiser advises about networks of pictures."""
    return "pre-processing before quantization" not in record.getMessage()
