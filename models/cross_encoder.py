"""The cross-encoder: question-passage pairs into scores, as fast as the machine computes them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mrc_workbench.models.inference import Precision, fast_passes, replaced, takes_rows
from mrc_workbench.models.loading import load_cross_encoder
from mrc_workbench.models.sources import ModelSource, is_starter
from mrc_workbench.models.windows import CutModel, Cutter, Window, WindowOptions, joint_of, padded, score_windows

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


Pair = tuple[str, str]
_PAIRS_AT_ONCE = 4096  # tokenized together; more take memory and gain nothing
_REMEMBERED = 64_000_000  # tokens, 4 bytes each
_PROBE = ("a b", "c d e")


class CrossEncoderScorer(CutModel):
    """A sentence-transformers cross-encoder, loaded when the first pair is scored; see its loader of `new_head`.

    Matrix products may be in bfloat16; the last layer never is, as scores of 8 bits would tie with their neighbours.
    """

    @cached_property
    def model(self) -> "CrossEncoder":
        return load_cross_encoder(self._source, self._corpus, self._labels, new_head=self._new_head)

    def __init__(
        self,
        source: ModelSource,
        corpus: Sequence[str],
        *,
        precision: Precision = Precision.AUTO,
        batch_size: int = 64,
        labels: int = 1,
        new_head: bool = False,
    ) -> None:
        super().__init__(source, corpus, precision)
        self._batch_size, self._labels, self._new_head = batch_size, labels, new_head
        self._cutters: dict[WindowOptions, Cutter] = {}

    def foresee(self, questions: Sequence[str]) -> None:
        """Hear what will be asked: a starter takes the tokens that BM25 has kept, and analyzes nothing again."""
        if vocabulary := getattr(self.model[0], "vocabulary", None):
            vocabulary.remember(self._corpus)
            vocabulary.remember(questions)

    def score(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Score pairs, `(n_pairs,)`, or of several labels each `(n_pairs, labels)`: logits, which do not melt into 1.0.

        Raises `ModelError` (`not_finite`) where the model has no numbers for them.
        """
        import torch

        settings: dict[str, Any] = {"activation_fn": torch.nn.Identity(), "show_progress_bar": False}
        if self._tokens is None:
            scores = self.model.predict(list(pairs), batch_size=self._batch_size, **settings)
            return self._finite(np.asarray(scores, dtype=np.float32))
        found = [np.zeros((0, self._labels) if self._labels > 1 else 0, dtype=np.float32)]
        with self._tokens.joining(), fast_passes(self.model, "scores", self._precision):
            for start in range(0, len(pairs), _PAIRS_AT_ONCE):
                part = list(pairs[start : start + _PAIRS_AT_ONCE])
                found.append(self.model.predict(part, batch_size=len(part), **settings))
        return self._finite(np.concatenate(found).astype(np.float32, copy=False))

    def score_windows(self, pairs: Sequence[Pair], heads: Sequence[int], options: WindowOptions) -> np.ndarray:
        """Score pairs; of a passage that does not fit beside its question, the best of its windows.

        `heads` are the lengths of the passages' titles. What fits has the score that `score` gives it.
        """
        asked = zip(pairs, heads, strict=True)
        return score_windows(self.score, pairs, [self.windows_of(*pair, head, options) for pair, head in asked])

    def windows_of(self, question: str, text: str, head: int, options: WindowOptions) -> list[Window]:
        """Windows of a passage that does not fit beside the question; none where it fits, or a model reads all."""
        cutter = self._cutter(options)
        return cutter.beside(question, text, head) if cutter else []

    def cut_off(self, questions: Sequence[str], texts: Sequence[str], candidates: np.ndarray) -> int:
        """Of how many passages only the beginning is read, beside some question that they are candidates of.

        `candidates` `(n_questions, depth)` are rows of `texts`, below 0 where there is none.
        """
        if is_starter(self._source):
            return 0
        asked, held = map(self.lengths_of, (questions, texts))
        rooms = np.maximum(asked.pair_room - asked.tokens, asked.pair_room // 2)
        too_long = (candidates >= 0) & (held.tokens[candidates] > rooms[:, None])
        return len(np.unique(candidates[too_long]))

    def _cutter(self, options: WindowOptions) -> Cutter | None:
        if self._tokens is None or not self.model.tokenizer.is_fast:
            return None
        if options not in self._cutters:
            self._cutters[options] = Cutter(self.model.tokenizer, options)
        return self._cutters[options]

    @cached_property
    def _tokens(self) -> "PairTokens | None":
        """Tokens of texts read before; None for a starter and other models that are read in their own way."""
        return PairTokens(self.model) if takes_rows(self.model) else None


class PairTokens:
    """Remembers the tokens of texts and joins them as a tokenizer would, for a cross-encoder that `takes_rows`."""

    def __init__(self, model: Any) -> None:
        self._model, self._tokenizer = model, model[0].tokenizer
        self._plain: Callable[..., dict[str, Any]] = model[0].preprocess
        self._rows: dict[str, np.ndarray] = {}
        self._held = 0
        self._joint = joint_of(self._tokenizer)
        told = self._plain([_PROBE])
        self._names = [name for name in self._tokenizer.model_input_names if name in told]
        self.usable = self._joint is not None and self._agrees()

    @contextmanager
    def joining(self) -> Iterator[None]:
        """Within the block the model reads pairs this way, where it can be `usable`."""
        with replaced(self._model[0], "preprocess", self) if self.usable else nullcontext():
            yield

    def __call__(self, inputs: Sequence[Pair], prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """Features as the model's own `preprocess` gives them."""
        import torch

        joint = self._joint
        if prompt or kwargs or joint is None:
            return self._plain(inputs, prompt=prompt, **kwargs)
        self._tokenize({text for pair in inputs for text in pair})
        rows = []
        room = self._tokenizer.model_max_length - joint.length
        for asked, read in ((self._rows[question], self._rows[passage]) for question, passage in inputs):
            first, second = longest_first(len(asked), len(read), room)
            rows.append(joint.joined(asked[:first], read[:second]))
        features = padded(rows, self._tokenizer.pad_token_id or 0)
        return {name: torch.from_numpy(features[name]) for name in self._names} | {"modality": "text"}

    def _tokenize(self, texts: set[str]) -> None:
        if self._held > _REMEMBERED:
            self._rows.clear()
            self._held = 0
        new = [text for text in texts if text not in self._rows]
        if new:
            told = self._tokenizer(new, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
            self._rows |= {text: np.array(ids, dtype=np.int32) for text, ids in zip(new, told, strict=True)}
            self._held += sum(map(len, told))

    def _agrees(self) -> bool:
        """Whether pairs, short, empty and truncated on either side, come out as the model itself reads them."""
        import torch

        long = "a " * min(2 * self._tokenizer.model_max_length, 4096)
        pairs = [_PROBE, (long, "b"), ("b", long), (long, long), ("", "b")]
        ours, theirs = self(pairs), self._plain(pairs)
        return set(ours) == set(theirs) and all(
            torch.equal(ours[name], theirs[name]) for name in ours if isinstance(ours[name], torch.Tensor)
        )


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Lengths of two texts cut to fit into `room` tokens: the longer loses first, until both are as long."""
    if first + second <= room:
        return first, second
    shorter = min(first, second)
    if 2 * shorter > room:  # both are cut; an odd token goes to the longer, or to the second
        less, more = room // 2, room - room // 2
        return (more, less) if first > second else (less, more)
    return (first, room - first) if first <= second else (room - second, second)
