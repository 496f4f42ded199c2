"""Cached functions of the Language page: tokenizers, texts split by them, loaded models and their results."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import StoredSet
from mrc_workbench.labs.language import layers, network
from mrc_workbench.labs.language.study import STUDY, StoredTokenizer, TokenizerComparison
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.language import tokenizers
from mrc_workbench.models.sources import ModelSource, find_model
from mrc_workbench.retrieval.significance import Pair, PairTest, paired_tests, proportion_intervals, question_groups
from mrc_workbench.workbench.views.resources import sets

MAX_PAIRS = 300  # for the evaluation of layers
_model_lock = threading.Lock()  # a rerun of the page calls the same model from a second thread
R = TypeVar("R")
ReportProgress = Callable[[float], None]  # receives the fraction of the work done
_MIN_TEST_QUESTIONS = 50  # smaller test parts are replaced by all questions
_MEASURE = "ndcg@10"
LayerPooling = tuple[int, layers.PoolingMode]


@dataclass(frozen=True)
class CutPiece:
    """A token of a text: its display name, its characters, its id, and its count in the counted documents."""

    name: str
    text: str
    number: int
    is_known: bool
    occurrences: int


def open_comparison(folder: Path) -> TokenizerComparison | None:
    return sets.opened(STUDY.results.load, folder)


def cut_text(stored: StoredTokenizer, text: str) -> Sequence[CutPiece]:
    """Split a text by a stored tokenizer. Raises `LanguageError` `no_tokenizer`."""
    tokenizer = _load_tokenizer(stored)
    in_bytes = tokenizers.is_of_bytes(tokenizer)
    pieces = []
    for piece in tokenizer.pieces(text):
        number = tokenizer.tokenizer.token_to_id(piece.name)
        if number is not None:
            name = tokenizers.readable(piece.name, in_bytes=in_bytes)
            pieces.append(CutPiece(name, piece.text, number, piece.known, int(stored.occurrences[number])))
    return pieces


def _file_key(stored: StoredTokenizer) -> tuple[str, str, float]:
    file = stored.folder / "tokenizer.json"
    return str(stored.folder), stored.result.name, file.stat().st_mtime if file.is_file() else 0.0


@sets.cached(max_entries=64, hash_funcs={StoredTokenizer: _file_key})
def merge_steps(stored: StoredTokenizer, text: str) -> list[tokenizers.MergeStep]:
    """Return how a stored BPE builds a word. Raises `LanguageError` `no_tokenizer` and `no_merges`."""
    return tokenizers.merge_steps(text, _load_tokenizer(stored))


@sets.cached(max_entries=32, hash_funcs={StoredTokenizer: _file_key})
def _load_tokenizer(stored: StoredTokenizer) -> tokenizers.PreparedTokenizer:
    return tokenizers.load_tokenizer(stored.folder, stored.result.name)


@sets.cached(sets.content_of, max_entries=32)
def word_contexts(reference: str, target_word: str, sentences: tuple[str, ...]) -> layers.WordVectors:
    with _model_lock:
        return layers.words_in_context(_load_encoder(reference), target_word, sentences)


@sets.cached(sets.content_of, max_entries=16)
def attention(reference: str, sentence: str) -> layers.SentenceAttention:
    with _model_lock:
        return layers.sentence_attention(_load_encoder(reference), sentence)


@sets.cached(sets.content_of, max_entries=128)
def predict_masked(reference: str, text: str, k: int) -> list[list[network.TokenPrediction]]:
    with _model_lock:
        return network.fill_masks(_load_masked_lm(reference), text, k)


def scores_by_layer(reference: str, key: str, part: Part, on_progress: ReportProgress) -> layers.LayerScores:
    """Evaluate every layer on the first pairs of a part. Raises `ModelError` and `LanguageError`."""

    def score() -> layers.LayerScores:
        pairs = sets.pair_set(key).at(sets.parts_of(key)[part][:MAX_PAIRS])
        return layers.score_layers(_load_encoder(reference), pairs, on_progress)

    return _compute_once(("scores", reference, sets.content_of(reference), key, part), score, on_progress)


def predict_checkpoints(
    name: str, folders: tuple[Path, ...], text: str, on_progress: ReportProgress
) -> network.CheckpointPredictions:
    """Query the models in these folders, stored by the training of this name. Raises `LanguageError`."""
    sources = [ModelSource(name, folder=folder) for folder in folders]
    key = ("checkpoints", text, *(f"{source.folder} {source.fingerprint('')}" for source in sources))
    return _compute_once(key, lambda: network.predict_by_checkpoint(sources, text, on_progress), on_progress)


def may_fill_masks(reference: str) -> bool:
    """Whether a model may predict masked tokens, without loading it."""
    try:
        return network.may_have_mlm_head(find_model(reference))
    except ModelError:
        return False


def _compute_once(key: tuple[Any, ...], compute: Callable[[], R], on_progress: ReportProgress) -> R:
    cache_slot = sets.result_slot(key)
    with _model_lock:
        if not cache_slot:
            on_progress(0.0)
            cache_slot.append(compute())
    result: R = cache_slot[0]
    return result


@sets.cached(sets.content_of, max_entries=2)
def _load_encoder(reference: str) -> network.TransformerModel:
    return network.load_encoder(find_model(reference))


@sets.cached(sets.content_of, max_entries=2)
def _load_masked_lm(reference: str) -> network.TransformerModel:
    return network.load_masked_lm(find_model(reference))


@dataclass(frozen=True)
class LayerFindings:
    """nDCG@10 of a search by every layer and pooling, the 95% intervals of the means, and the tests.

    `tests` compare each with the default, the mean of the last layer, as one family.
    """

    search: layers.LayerSearch
    intervals: Mapping[LayerPooling, tuple[float, float]]
    tests: Mapping[LayerPooling, PairTest]

    @classmethod
    def from_search(cls, search: layers.LayerSearch) -> "LayerFindings":
        """Test a search; questions about the same passages form one group."""
        groups = question_groups(search.question_set)
        scores = {
            (layer, pooling): values
            for layer, by_pooling in enumerate(search.ndcg)
            for pooling, values in zip(layers.PoolingMode, by_pooling, strict=True)
            if np.isfinite(values).all()
        }
        default = (len(search.ndcg) - 1, layers.PoolingMode.MEAN)
        others = {key: values for key, values in scores.items() if key != default}
        pairs = [Pair(str(key), str(default), _MEASURE, values, scores[default]) for key, values in others.items()]
        ends = proportion_intervals(np.stack([*scores.values()], axis=1), groups).tolist()
        intervals = {key: (low, high) for key, (low, high) in zip(scores, ends, strict=True)}
        return cls(search, intervals, dict(zip(others, paired_tests(pairs, groups), strict=True)))


def search_by_layer(reference: str, data: StoredSet, part: Part, on_progress: ReportProgress) -> LayerFindings:
    """Search with every layer for some questions of a part. Raises `ModelError`, `LanguageError` and `DataError`."""

    def search() -> LayerFindings:
        questions = layers.sample_questions(sets.question_set(data.key), _part_rows(data)[part])
        model = _load_encoder(reference)
        prompts = network.model_prompts(find_model(reference))  # loading a packaged base writes its prompts
        return LayerFindings.from_search(layers.search_with_layers(model, questions, prompts, on_progress))

    key = ("search", reference, sets.content_of(reference), data.key, data.fingerprint, part)
    return _compute_once(key, search, on_progress)


def part_to_search(data: StoredSet) -> Part:
    """Return the test part, unknown to a model trained on the set; all questions if it is small."""
    return Part.TEST if len(_part_rows(data)[Part.TEST]) >= _MIN_TEST_QUESTIONS else Part.ALL


def _part_rows(data: StoredSet) -> dict[Part, np.ndarray]:
    return sets.split_of(data.key, SplitOptions()).rows
