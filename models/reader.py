"""The reader: a question and a passage into the spans of letters that answer it best, as fast as the machine can."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from data.cache import key_of
from data.workspace import read_json, write_json
from models.loading import load_reader
from models.precision import Precision
from models.sources import ModelSource, SourcedModel
from models.span_tokens import SpanOptions, SpanTokens, SpanWindow, batch

if TYPE_CHECKING:
    from models.span_network import SpanNetwork

Pair = tuple[str, str]
_OPTIONS = "reader.json"  # beside the weights: how passages were cut when it was trained
_SILENT_ABOVE = "no_answer_above"
_PAIRS_AT_ONCE = 2048  # cut and sorted together
_TRIED = 8  # spans looked at for each that is wanted: neighbours overlap


@dataclass(frozen=True)
class Spans:
    """The best spans of pairs, better ones first: letters `starts` to `ends` of the passages, `(n_pairs, n_spans)`.

    `scores` `(n_pairs, n_spans)` float32 are the logarithm of P(begin) P(end), each a softmax over the places of a
    window and "no answer": at most 0, higher is better. A span of a pair that has fewer is empty, its score -inf. Of a
    passage in several windows each has its own P, and the best counts. `nothing` `(n_pairs,)` is the same for "no
    answer", of the window where that is least likely.
    """

    starts: np.ndarray
    ends: np.ndarray
    scores: np.ndarray
    nothing: np.ndarray

    def __len__(self) -> int:
        return len(self.nothing)


class SpanReader(SourcedModel):
    """A model for extractive question answering, loaded when the first pair is read; see `load_reader` of `new_head`.

    Matrix products may be in bfloat16; the last layer, which points, never is.
    """

    def __init__(
        self,
        source: ModelSource,
        *,
        options: SpanOptions | None = None,
        precision: Precision = Precision.AUTO,
        new_head: bool = False,
    ) -> None:
        super().__init__(source, [], precision)
        self._options, self._new_head = options or options_of(source), new_head

    @cached_property
    def model(self) -> "SpanNetwork":
        """The loaded model; loading imports torch."""
        return load_reader(self._source, new_head=self._new_head)

    @cached_property
    def threshold(self) -> float | None:
        """From which margin on it says that there is no answer; see `threshold_of`."""
        return threshold_of(self._source)

    @cached_property
    def fingerprint(self) -> str:
        """Key of what decides the spans."""
        return key_of(super().fingerprint, asdict(self._options))

    def read(self, pairs: Sequence[Pair], *, spans: int = 1) -> Spans:
        """Read pairs of a question and a passage, and return so many spans of each that do not overlap.

        Raises `ModelError` (`not_finite`) where the model has no numbers for them.
        """
        parts = [self._read(pairs[at : at + _PAIRS_AT_ONCE], spans) for at in range(0, len(pairs), _PAIRS_AT_ONCE)]
        return joined(parts) if parts else joined([_Best([], self.tokens, spans).spans(self._finite)])

    @cached_property
    def tokens(self) -> SpanTokens:
        """Tokens of texts read before."""
        model = self.model
        return SpanTokens(model.tokenizer, model.max_seq_length, self._options, self._source.reference)

    def _read(self, pairs: Sequence[Pair], spans: int) -> Spans:
        self.tokens.remember(text for pair in pairs for text in pair)
        windows = [(row, window) for row, pair in enumerate(pairs) for window in self.tokens.windows(*pair)]
        found = _Best(pairs, self.tokens, spans)
        for part, told in self._passes([window for _, window in windows], _TRIED * spans if spans > 1 else 1):
            for place, *best in zip(part, *told, strict=True):
                row, window = windows[place]
                found.add(row, window, best)
        return found.spans(self._finite)

    def _passes(self, windows: Sequence[SpanWindow], most: int) -> Any:
        """Yield the places of windows read together, and of each its best spans; long windows first."""
        import torch

        from models.inference import in_precision, passes_on

        model = self.model
        device, segments = model.device, model.has_segments
        order = sorted(range(len(windows)), key=lambda place: -windows[place].width)
        widths = [windows[place].width for place in order]
        with torch.inference_mode(), in_precision(model[0], self._precision):
            for start, end in passes_on(device, widths):
                part = order[start:end]
                arrays = batch([windows[place] for place in part], model.tokenizer.pad_token_id or 0, segments=segments)
                features = {name: torch.from_numpy(value).to(device) for name, value in arrays.items()}
                yield part, self._best(model[0](features), features["allowed"], most)

    def _best(self, logits: Any, allowed: Any, most: int) -> tuple[np.ndarray, ...]:
        """The tokens where the best spans begin and end, their scores, `(n_windows, most)` each, and that of none."""
        import torch

        from models.span_network import log_shares

        begins, ends = (log_shares(logits[name], allowed) for name in ("starts", "ends"))
        nothing = begins[:, 0] + ends[:, 0]
        begins, ends = begins[:, 1:], ends[:, 1:]
        longest, width = self._options.longest_answer, begins.shape[1]
        reached = torch.nn.functional.pad(ends, (0, longest - 1), value=float("-inf")).unfold(1, longest, 1)
        joined = (begins[:, :, None] + reached).flatten(1)
        scores, places = joined.topk(min(most, width * longest), dim=1)
        first = places // longest
        return tuple(one.cpu().numpy() for one in (first + 1, first + places % longest + 1, scores, nothing))


class _Best:
    """The best spans of each pair so far, from windows as they are read."""

    def __init__(self, pairs: Sequence[Pair], tokens: SpanTokens, spans: int) -> None:
        self._pairs, self._tokens, self._spans = pairs, tokens, spans
        self._found: list[list[tuple[float, int, int]]] = [[] for _ in pairs]
        self._nothing = np.full(len(pairs), np.inf, dtype=np.float32)

    def add(self, row: int, window: SpanWindow, best: Sequence[Any]) -> None:
        begins, ends, scores, nothing = best
        passage = self._pairs[row][1]
        letters = self._tokens.of(passage).letters[window.first : window.last]
        self._nothing[row] = min(self._nothing[row], nothing)
        for begin, end, score in zip(begins - window.start, ends - window.start, scores, strict=True):
            if np.isneginf(score):
                break  # a passage of fewer tokens
            start, stop = _trimmed(passage, int(letters[begin, 0]), int(letters[end, 1]))
            if start < stop:
                self._found[row].append((float(score), start, stop))

    def spans(self, finite: Any) -> Spans:
        shape = (len(self._pairs), self._spans)
        starts, ends = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
        scores = np.full(shape, -np.inf, dtype=np.float32)
        for row, found in enumerate(self._found):
            for place, (score, start, end) in enumerate(islice(_apart(found), self._spans)):
                starts[row, place], ends[row, place], scores[row, place] = start, end, score
        return Spans(starts, ends, scores, finite(self._nothing))


def joined(parts: Sequence[Spans]) -> Spans:
    """Return the spans of one part after the other."""
    starts, ends, scores, nothing = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("starts", "ends", "scores", "nothing")
    )
    return Spans(starts, ends, scores, nothing)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Without white space at either end: some tokens stand for the space before a word, too."""
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - (len(part) - len(part.rstrip()))


def _apart(found: list[tuple[float, int, int]]) -> Any:
    """Yield spans from the best on, those that overlap none before them."""
    kept: list[tuple[int, int]] = []
    for score, start, end in sorted(found, key=lambda one: (-one[0], one[1], one[2])):
        if all(end <= first or last <= start for first, last in kept):
            kept.append((start, end))
            yield score, start, end


def options_of(source: ModelSource) -> SpanOptions:
    """Return how passages were cut when a model was trained here; the usual way for any other."""
    told = {name: value for name, value in _kept(source).items() if name != _SILENT_ABOVE}
    try:
        return SpanOptions(**told)
    except (TypeError, ValueError):
        return SpanOptions()


def threshold_of(source: ModelSource) -> float | None:
    """Return by how much "no answer" must be likelier than the best span, in log P, for a reader to say so.

    None of a model that never learned to: one that met no question without an answer when it was trained here.
    """
    threshold = _kept(source).get(_SILENT_ABOVE)
    return float(threshold) if isinstance(threshold, int | float) else None


def keep_options(folder: Path, options: SpanOptions, threshold: float | None = None) -> None:
    """Write beside a model how passages are to be cut for it, and its threshold; see `threshold_of`."""
    write_json(folder / _OPTIONS, asdict(options) | ({} if threshold is None else {_SILENT_ABOVE: threshold}))


def _kept(source: ModelSource) -> dict[str, Any]:
    return read_json(source.folder / _OPTIONS) if source.folder else {}
