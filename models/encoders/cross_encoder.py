"""The cross-encoder: question-passage pairs into scores, as fast as the machine computes them."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from models.loading import load_cross_encoder
from models.precision import Precision
from models.sources import ModelSource, SourcedModel, is_starter
from models.windows import Cutter, Window, WindowOptions, kept_lengths, score_windows

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

    from models.inference import PairTokens

_PAIRS_AT_ONCE = 4096  # tokenized together; more take memory and gain nothing


class CrossEncoderScorer(SourcedModel):
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

    def foresee(self, questions: Sequence[str]) -> None:
        """Hear what will be asked: a starter takes the tokens that BM25 has kept, and analyzes nothing again."""
        if vocabulary := getattr(self.model[0], "vocabulary", None):
            vocabulary.remember(self._corpus)
            vocabulary.remember(questions)

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Score pairs, `(n_pairs,)`, or of several labels each `(n_pairs, labels)`.

        They are logits, so that neighbouring scores do not melt into 1.0.

        Raises `ModelError` (`not_finite`) where the model has no numbers for them.
        """
        import torch

        settings: dict[str, Any] = {"activation_fn": torch.nn.Identity(), "show_progress_bar": False}
        if self._tokens is None:
            scores = self.model.predict(list(pairs), batch_size=self._batch_size, **settings)
            return self._finite(np.asarray(scores, dtype=np.float32))
        from models.inference import fast_passes

        found = [np.zeros((0, self._labels) if self._labels > 1 else 0, dtype=np.float32)]
        with ExitStack() as stack:
            stack.enter_context(self._tokens.joining())
            stack.enter_context(fast_passes(self.model, "scores", self._precision))
            for start in range(0, len(pairs), _PAIRS_AT_ONCE):
                part = list(pairs[start : start + _PAIRS_AT_ONCE])
                found.append(self.model.predict(part, batch_size=len(part), **settings))
        return self._finite(np.concatenate(found).astype(np.float32, copy=False))

    def score_windows(
        self, pairs: Sequence[tuple[str, str]], heads: Sequence[int], options: WindowOptions
    ) -> np.ndarray:
        """Score pairs; of a passage that does not fit beside its question, the best of its windows.

        `heads` are the lengths of the passages' titles. What fits has the score that `score` gives it.
        """
        asked = zip(pairs, heads, strict=True)
        return score_windows(self.score, pairs, [self.windows_of(*pair, head, options) for pair, head in asked])

    def windows_of(self, question: str, text: str, head: int, options: WindowOptions) -> list[Window]:
        """Windows of a passage that does not fit beside the question; none where it fits, or a model reads all."""
        if self._tokens is None or not self.model.tokenizer.is_fast:
            return []
        if options not in self._cutters:
            self._cutters[options] = Cutter(self.model.tokenizer, options)
        return self._cutters[options].beside(question, text, head)

    def cut_off(self, questions: Sequence[str], texts: Sequence[str], candidates: np.ndarray) -> int:
        """Of how many passages only the beginning is read, beside some question that they are candidates of.

        `candidates` `(n_questions, depth)` are rows of `texts`, below 0 where there is none.
        """
        if is_starter(self._source):
            return 0
        asked, held = (kept_lengths(self, some, self._cutter) for some in (questions, texts))
        rooms = np.maximum(asked.pair_room - asked.tokens, asked.pair_room // 2)
        too_long = (candidates >= 0) & (held.tokens[candidates] > rooms[:, None])
        return len(np.unique(candidates[too_long]))

    def _cutter(self) -> Cutter | None:
        fast = self._tokens is not None and self.model.tokenizer.is_fast
        return Cutter(self.model.tokenizer, WindowOptions()) if fast else None

    @cached_property
    def _cutters(self) -> dict[WindowOptions, Cutter]:
        return {}

    @cached_property
    def _tokens(self) -> "PairTokens | None":
        """Tokens of texts read before; None for a starter and other models that are read in their own way."""
        from models.inference import PairTokens, takes_rows

        return PairTokens(self.model) if takes_rows(self.model) else None
