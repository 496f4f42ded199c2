"""Finds the best answer spans in a passage, in overlapping windows if it is long (Devlin et al. 2019)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.jobs.processes import without_garbage_collection
from mrc_workbench.data.workspace import read_json, write_json
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import Precision, in_precision, passes_on
from mrc_workbench.models.loading import most_tokens
from mrc_workbench.models.sources import ModelSource, SourcedModel, is_starter
from mrc_workbench.models.windows import Pair, padded, pair_template

if TYPE_CHECKING:
    from mrc_workbench.models.reader_networks import SpanNetwork

_MAX_CACHED_TOKENS = 32_000_000  # tokens; 12 bytes each
_PAIRS_AT_ONCE = 2048  # cut and sorted together
_CANDIDATES_PER_SPAN = 8  # more than 1, as neighbouring spans overlap
_OPTIONS = "reader.json"  # the options of training, beside the weights
_THRESHOLD_KEY = "no_answer_above"


@dataclass(frozen=True)
class SpanOptions:
    """Maximum length of a window in tokens (0: as the model), overlap of windows, and maximum length of an answer."""

    length: int = 384
    overlap: int = 128
    longest_answer: int = 30

    def __post_init__(self) -> None:
        if self.length < 0 or self.overlap < 0 or self.longest_answer < 1:
            raise ValueError("length and overlap must be 0 or more, and an answer has at least 1 token")
        if self.length and self.overlap > self.length // 2:
            raise ValueError(f"windows of {self.length} tokens must overlap by half of them at most")


@dataclass(frozen=True)
class TokenizedText:
    """The tokens of a text, `(n_tokens,)` int32, and their character spans, `(n_tokens, 2)` int32."""

    ids: np.ndarray
    offsets: np.ndarray


@dataclass(frozen=True)
class SpanWindow:
    """A model input; the passage's tokens `first` to `last` are at positions from `start` on, "no answer" at 0."""

    ids: np.ndarray
    segments: np.ndarray
    start: int
    first: int
    last: int

    @property
    def width(self) -> int:
        return len(self.ids)


class SpanTokens:
    """Caches the tokens of texts, and joins them to windows. Raises `ModelError` (`no_letters`) without spans."""

    def __init__(self, tokenizer: Any, max_tokens: int, options: SpanOptions, reference: str) -> None:
        if (joint := pair_template(tokenizer)) is None:
            message = f"the tokenizer of {reference!r} has no character spans of tokens"
            raise ModelError("no_letters", message, model=reference)
        self._tokenizer = tokenizer
        self._joint = joint
        self._length = min(options.length or max_tokens, max_tokens)
        self._overlap = min(options.overlap, self._length // 4 if self._length < options.length else options.overlap)
        self._known: dict[str, TokenizedText] = {}
        self._n_tokens = 0

    def remember(self, texts: Iterable[str]) -> None:
        distinct = dict.fromkeys(texts)
        new = [text for text in distinct if text not in self._known]
        if not new:
            return
        if self._n_tokens > _MAX_CACHED_TOKENS:
            self._known.clear()
            self._n_tokens = 0
            new = [*distinct]
        options = {"add_special_tokens": False, "truncation": False, "verbose": False}
        tokens = self._tokenizer(new, return_offsets_mapping=True, **options)
        for text, ids, offsets in zip(new, tokens["input_ids"], tokens["offset_mapping"], strict=True):
            self._known[text] = TokenizedText(np.array(ids, np.int32), np.array(offsets, np.int32).reshape(-1, 2))
            self._n_tokens += len(ids)

    def tokens_of(self, text: str) -> TokenizedText:
        if text not in self._known:
            self.remember([text])
        return self._known[text]

    def windows(self, question: str, passage: str) -> Iterator[SpanWindow]:
        """Cut a passage into windows beside a question, which is truncated to half of a window."""
        joint = self._joint
        question_ids = self.tokens_of(question).ids[: (self._length - joint.length) // 2]
        passage_ids = self.tokens_of(passage).ids
        room = self._length - joint.length - len(question_ids)
        step = max(1, room - min(self._overlap, room // 2))
        start = len(joint.first) + len(question_ids) + len(joint.between)
        for first in range(0, max(1, len(passage_ids) - room + step), step):
            part = passage_ids[first : first + room]
            yield SpanWindow(*joint.join(question_ids, part), start, first, first + len(part))


def batch(windows: Sequence[SpanWindow], pad: int, *, segments: bool) -> dict[str, np.ndarray]:
    """Return windows as `padded` rows, `token_type_ids` only with `segments`, and the `allowed` positions, bool."""
    features = padded([(window.ids, window.segments) for window in windows], pad)
    allowed = np.zeros(features["input_ids"].shape, dtype=bool)
    allowed[:, 0] = True
    for row, window in enumerate(windows):
        allowed[row, window.start : window.start + window.last - window.first] = True
    if not segments:
        del features["token_type_ids"]
    return features | {"allowed": allowed}


@dataclass(frozen=True)
class Spans:
    """The best spans of pairs, best first: characters `starts` to `ends` of the passages, `(n_pairs, n_spans)`.

    `scores` `(n_pairs, n_spans)` float32 are the logarithm of P(begin) P(end), each a softmax over the positions of a
    window and "no answer": at most 0, higher is better. Missing spans are empty, with score -inf. The best window of a
    passage counts. `nothing` `(n_pairs,)` is the score of "no answer" in the window with the lowest one.
    """

    starts: np.ndarray
    ends: np.ndarray
    scores: np.ndarray
    nothing: np.ndarray

    def __len__(self) -> int:
        return len(self.nothing)


class SpanReader(SourcedModel):
    """A model for extractive question answering, loaded with the first pair; its head computes in float32."""

    def __init__(
        self,
        source: ModelSource,
        *,
        options: SpanOptions | None = None,
        precision: Precision = Precision.AUTO,
        new_head: bool = False,
    ) -> None:
        super().__init__(source, [], precision)
        self._options = options or options_of(source)
        self._new_head = new_head

    @cached_property
    def model(self) -> "SpanNetwork":
        return load_reader(self._source, new_head=self._new_head)

    @cached_property
    def threshold(self) -> float | None:
        return threshold_of(self._source)

    @cached_property
    def fingerprint(self) -> str:
        return key_of(super().fingerprint, asdict(self._options))

    def read(self, pairs: Sequence[Pair], *, spans: int = 1) -> Spans:
        """Return so many spans of each pair that do not overlap. Raises `ModelError` (`not_finite`)."""
        at_once = (pairs[start : start + _PAIRS_AT_ONCE] for start in range(0, max(1, len(pairs)), _PAIRS_AT_ONCE))
        parts = [self._read(block, spans) for block in at_once]
        return Spans(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(Spans)))

    @cached_property
    def tokens(self) -> SpanTokens:
        return SpanTokens(self.model.tokenizer, self.model.max_seq_length, self._options, self._source.reference)

    def _read(self, pairs: Sequence[Pair], spans: int) -> Spans:
        self.tokens.remember(text for pair in pairs for text in pair)
        windows = [(row, window) for row, pair in enumerate(pairs) for window in self.tokens.windows(*pair)]
        candidates: list[list[tuple[float, int, int]]] = [[] for _ in pairs]
        nothing = np.full(len(pairs), np.inf, dtype=np.float32)
        n_candidates = _CANDIDATES_PER_SPAN * spans if spans > 1 else 1
        for part, results in self._passes([window for _, window in windows], n_candidates):
            for index, *best, none in zip(part, *results, strict=True):
                row, window = windows[index]
                candidates[row] += self._character_spans(pairs[row][1], window, *best)
                nothing[row] = min(nothing[row], none)
        shape = (len(pairs), spans)
        starts = np.zeros(shape, dtype=np.int32)
        ends = np.zeros(shape, dtype=np.int32)
        scores = np.full(shape, -np.inf, dtype=np.float32)
        for row, of_pair in enumerate(candidates):
            for index, (score, start, end) in enumerate(islice(_non_overlapping_spans(of_pair), spans)):
                starts[row, index] = start
                ends[row, index] = end
                scores[row, index] = score
        return Spans(starts, ends, scores, self._finite(nothing))

    def _character_spans(
        self, passage: str, window: SpanWindow, begins: np.ndarray, ends: np.ndarray, scores: np.ndarray
    ) -> Iterator[tuple[float, int, int]]:
        offsets = self.tokens.tokens_of(passage).offsets[window.first : window.last]
        for begin, end, score in zip(begins - window.start, ends - window.start, scores, strict=True):
            if np.isneginf(score):
                return  # no further spans
            start = int(offsets[begin, 0])
            stop = int(offsets[end, 1])
            part = passage[start:stop]  # some tokens include the space before a word
            if part.strip():
                yield float(score), start + len(part) - len(part.lstrip()), stop - (len(part) - len(part.rstrip()))

    def _passes(self, windows: Sequence[SpanWindow], n_spans: int) -> Any:
        import torch

        model = self.model
        device = model.device
        segments = model.has_segments
        order = sorted(range(len(windows)), key=lambda index: -windows[index].width)
        widths = [windows[index].width for index in order]
        with torch.inference_mode(), in_precision(model[0], self._precision):
            for start, end in passes_on(device, widths):
                part = order[start:end]
                arrays = batch([windows[index] for index in part], model.tokenizer.pad_token_id or 0, segments=segments)
                features = {name: torch.from_numpy(value).to(device) for name, value in arrays.items()}
                yield part, self._best(model[0](features), features["allowed"], n_spans)

    def _best(self, logits: Any, allowed: Any, n_spans: int) -> tuple[np.ndarray, ...]:
        """Return begins, ends and scores of the best spans, `(n_windows, n)` each, and the scores of "no answer"."""
        import torch

        from mrc_workbench.models.reader_networks import log_probabilities

        begins, ends = (log_probabilities(logits[name], allowed) for name in ("starts", "ends"))
        nothing = begins[:, 0] + ends[:, 0]
        begins = begins[:, 1:]
        ends = ends[:, 1:]
        longest = self._options.longest_answer
        width = begins.shape[1]
        reachable_ends = torch.nn.functional.pad(ends, (0, longest - 1), value=float("-inf")).unfold(1, longest, 1)
        joined = (begins[:, :, None] + reachable_ends).flatten(1)
        scores, positions = joined.topk(min(n_spans, width * longest), dim=1)
        first = positions // longest
        return tuple(tensor.cpu().numpy() for tensor in (first + 1, first + positions % longest + 1, scores, nothing))


def _non_overlapping_spans(spans: list[tuple[float, int, int]]) -> Any:
    selected: list[tuple[int, int]] = []
    for score, start, end in sorted(spans, key=lambda span: (-span[0], span[1], span[2])):
        if all(end <= first or last <= start for first, last in selected):
            selected.append((start, end))
            yield score, start, end


def options_of(source: ModelSource) -> SpanOptions:
    """Return the options of a model's training here, else the defaults."""
    settings = {name: value for name, value in _stored_options(source).items() if name != _THRESHOLD_KEY}
    try:
        return SpanOptions(**settings)
    except (TypeError, ValueError):
        return SpanOptions()


def threshold_of(source: ModelSource) -> float | None:
    """Return the threshold of log P("no answer") minus log P(best span); None if it was not trained."""
    threshold = _stored_options(source).get(_THRESHOLD_KEY)
    return float(threshold) if isinstance(threshold, int | float) else None


def save_options(folder: Path, options: SpanOptions, threshold: float | None = None) -> None:
    """Write the options and the threshold, see `threshold_of`, beside a model."""
    write_json(folder / _OPTIONS, asdict(options) | ({} if threshold is None else {_THRESHOLD_KEY: threshold}))


def _stored_options(source: ModelSource) -> dict[str, Any]:
    return read_json(source.folder / _OPTIONS) if source.folder else {}


@without_garbage_collection()
def load_reader(source: ModelSource, *, new_head: bool = False) -> "SpanNetwork":
    """Load a reader; `new_head` initializes a missing head, deterministically. Raises `ModelError`."""
    from transformers import AutoModelForQuestionAnswering

    from mrc_workbench.models.reader_networks import SpanNetwork, load_network

    if is_starter(source):
        raise ModelError("starter_reader", "a starter reads no passages: use a transformer", model=source.reference)
    network, tokenizer, _ = load_network(source, AutoModelForQuestionAnswering.from_pretrained, new_head=new_head)
    return SpanNetwork(network, tokenizer, most_tokens(tokenizer, network.config))
