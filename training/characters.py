"""How many characters a training reads of each example, of a batch, and of each distinct text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrc_workbench.training.base import Task
from mrc_workbench.training.dry_run import Batch, evenly

_PROBED = 64  # texts


def characters_read(task: Task) -> tuple[np.ndarray, float]:
    """Characters that a training reads of each example, `(n_examples,)`, and of a place; the latter 1 for a starter.

    A text, or a pair of a cross-encoder, counts up to as many as the model reads, by the characters that a token has.
    """
    from sentence_transformers import CrossEncoder

    columns = [values for values in task.columns.values() if isinstance(values[0], str | list)]
    columns = [values for values in columns if not isinstance(values[0], list) or isinstance(values[0][0], str)]
    a_token, most = _characters_a_token(task.model, columns[-1])

    def reads(texts: str | list[str], before: int = 0) -> float:
        return sum(min(before + len(text), most) for text in ([texts] if isinstance(texts, str) else texts))

    if isinstance(task.model, CrossEncoder):
        asked, *shown = columns
        read = [[reads(more, len(one)) for one, more in zip(asked, values, strict=True)] for values in shown]
    else:
        read = [[reads(more) for more in values] for values in columns]
    return np.sum(read, axis=0, dtype=float), a_token


def _characters_a_token(model: Any, texts: Sequence[Any]) -> tuple[float, float]:
    from mrc_workbench.models.inference import takes_rows

    if not takes_rows(model):
        return 1.0, float("inf")
    some = [texts[row] for row in evenly(np.arange(len(texts)), _PROBED)]
    flat = [text for one in some for text in ([one] if isinstance(one, str) else one)]
    tokens = sum(map(len, model.tokenizer(flat, add_special_tokens=False, verbose=False)["input_ids"]))
    a_token = sum(map(len, flat)) / max(1, tokens)
    return a_token, a_token * float(model.max_seq_length or "inf")


@dataclass(frozen=True)
class BatchReader:
    """Counts what a step reads: a passage that several examples of a batch share is read once."""

    each: np.ndarray  # (n_examples,) characters of an example
    passage: np.ndarray | None = None  # (n_examples,) which passage an example shares; None if it shares none
    of_passage: np.ndarray | None = None  # (n_examples,) characters of that passage

    @classmethod
    def from_task(cls, task: Task, each: np.ndarray, a_token: float) -> "BatchReader":
        if not task.examples.shared:
            return cls(each)
        most = a_token * float(task.model.max_seq_length or "inf")
        shown = list(task.columns.values())[1]
        of_passage = np.array([min(len(text), most) for text in shown], dtype=float)
        return cls(each, task.examples.passages[:, 0], of_passage)

    def characters(self, batch: Batch) -> float:
        total = float(self.each[batch].sum())
        if self.passage is None or self.of_passage is None:
            return total
        first = np.unique(self.passage[batch], return_index=True)[1]
        shared = self.of_passage[batch]
        return total - float(shared.sum()) + float(shared[first].sum())


def distinct_characters(task: Task, measured: Sequence[str] = ()) -> float:
    """Characters of the distinct texts that a training reads, those held out and `measured` among them."""
    columns = [*task.columns.values(), *(task.held_out.columns.values() if task.held_out else ())]
    texts = {text for values in (*columns, measured) for text in values if isinstance(text, str)}
    most = _characters_a_token(task.model, list(texts))[1] if texts else 0.0
    return float(sum(min(len(text), most) for text in texts))
