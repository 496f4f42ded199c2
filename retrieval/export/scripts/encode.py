"""The models of this folder, run without torch: `pip install onnxruntime tokenizers numpy`.

model = Model(Path("model_1"))                    # or Model(folder, "model.int8.onnx"): smaller and faster
model.encode(["a question"], "question")          # bi-encoder: (n_texts, dimensions) of length 1
model.encode_tokens(["a passage"], "passage")     # late interaction: (n_tokens, dimensions) for each text
model.score([("a question", "a passage")])        # cross-encoder: higher is more relevant
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

BATCH_SIZE = 16  # texts of similar length


class Model:
    """A model in a folder with `model.json`, `tokenizer.json` and an ONNX network."""

    def __init__(self, folder: Path, network: str = "model.onnx", threads: int = 0) -> None:
        self.config: dict[str, Any] = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        self.tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(self.config["most_tokens"])
        self.tokenizer.enable_padding(pad_id=self.config["padding"], pad_token=self.config["padding_token"])
        projection = folder / "projection.npy"
        self.projection = np.load(projection, allow_pickle=False) if projection.is_file() else None
        weights = folder / "token_weights.npy"
        self.token_weights = np.load(weights, allow_pickle=False) if weights.is_file() else None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        providers = ["CPUExecutionProvider"]
        self.session: Any = onnxruntime.InferenceSession(str(folder / network), options, providers)

    def encode(self, texts: Sequence[str], side: str) -> np.ndarray:
        """Return vectors of length 1, `(n_texts, dimensions)` float32; `side` is "question" or "passage"."""
        return np.stack([vector for (vector,) in self._run(self._with_prompt(texts, side))])

    def encode_tokens(self, texts: Sequence[str], side: str) -> list[np.ndarray]:
        """Return the token vectors of each text, `(n_tokens, dimensions)` float32.

        Each has length 1, or the weight of the question's token. The score of a passage is the mean over the question's
        tokens of the highest dot product with a token of the passage.
        """
        encoded = []
        for text, (vectors, *masks) in zip(texts, self._run(self._with_prompt(texts, side)), strict=True):
            tokens = vectors[masks[0 if side == "question" else 1] > 0]
            if self.projection is not None:
                tokens = tokens @ self.projection
                tokens /= np.maximum(np.linalg.norm(tokens, axis=1, keepdims=True), 1e-12)
            if self.token_weights is not None and side == "question":
                tokens = tokens * self._weights_of(self.token_weights, text, len(tokens))[:, None]
            encoded.append(tokens)
        return encoded

    def _weights_of(self, by_token: np.ndarray, question: str, count: int) -> np.ndarray:
        """Return the weights of a question's tokens, `(count,)` float32 with a mean of 1; those of the prompt are 0."""
        prompt = self.config["prompts"]["question"]
        ids = self.tokenizer.encode(prompt + question).ids
        prompt_ids = self.tokenizer.encode(prompt.rstrip(), add_special_tokens=False).ids
        weights = by_token[ids]
        first = next((index for index, weight in enumerate(weights.tolist()) if weight), 0)
        if ids[first : first + len(prompt_ids)] == prompt_ids:
            weights[first : first + len(prompt_ids)] = 0.0
        if len(weights) != count or not weights.any():
            return np.ones(count, dtype=np.float32)
        return np.asarray(weights / weights.mean())

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Return the scores of pairs of a question and a passage, `(n_pairs,)` float32, higher is more relevant."""
        return np.array([np.ravel(score)[0] for (score,) in self._run(pairs)], dtype=np.float32)

    def batches(self, texts: Sequence[Any]) -> "list[tuple[list[int], dict[str, np.ndarray]]]":
        """Return rows of texts of similar length, and the inputs of the network."""
        lengths = [sum(map(len, text)) if isinstance(text, tuple) else len(text) for text in texts]
        order = sorted(range(len(texts)), key=lengths.__getitem__)
        batches = []
        for start in range(0, len(order), BATCH_SIZE):
            rows = order[start : start + BATCH_SIZE]
            read = self.tokenizer.encode_batch([texts[row] for row in rows])
            columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
            inputs = {}
            for name in self.config["inputs"]:
                inputs[name] = np.array([getattr(encoding, columns[name]) for encoding in read], dtype=np.int64)
            batches.append((rows, inputs))
        return batches

    def _run(self, texts: Sequence[Any]) -> list[tuple[np.ndarray, ...]]:
        outputs: list[tuple[np.ndarray, ...]] = [()] * len(texts)
        for rows, read in self.batches(texts):
            for row, *values in zip(rows, *self.session.run(None, read), strict=True):
                outputs[row] = tuple(values)
        return outputs

    def _with_prompt(self, texts: Sequence[str], side: str) -> list[str]:
        return [self.config["prompts"][side] + text for text in texts]
