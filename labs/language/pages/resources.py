"""Cached functions of the Language page: tokenizers and texts cut by them, models that stay loaded, and what is seen in
these.
"""

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
from mrc_workbench.retrieval.significance import Pair, PairTest, paired_tests, question_groups, share_intervals
from mrc_workbench.workbench.views.resources import sets

MOST_PAIRS = 300  # of which layers are judged
_one_at_a_time = threading.Lock()  # a page that is drawn anew asks the same model from a second thread
R = TypeVar("R")
ReportProgress = Callable[[float], None]  # is called with the fraction of the work that is done
_LEAST_OF_TEST = 50  # questions: where the test part has fewer, all are asked
_MEASURE = "ndcg@10"
Way = tuple[int, layers.Pooling]  # to make vectors: a layer, and how it is pooled


@dataclass(frozen=True)
class CutPiece:
    """A piece of a text: as a person reads it, the letters it stands for, its number, and how often it occurs."""

    name: str
    letters: str
    number: int
    known: bool
    occurrences: int


def open_tokenizers(folder: Path) -> TokenizerComparison | None:
    return sets.opened(STUDY.results.load, folder)


def cut_text(one: StoredTokenizer, text: str) -> Sequence[CutPiece]:
    """Cut a text by a stored tokenizer. Raises `LanguageError` `no_tokenizer`."""
    tokenizer = _tokenizer(one)
    in_bytes = tokenizers.is_of_bytes(tokenizer)
    pieces = []
    for piece in tokenizer.pieces(text):
        number = tokenizer.tokenizer.token_to_id(piece.name)
        if number is not None:
            name, count = tokenizers.readable(piece.name, in_bytes=in_bytes), int(one.occurrences[number])
            pieces.append(CutPiece(name, piece.letters, number, piece.known, count))
    return pieces


def _file(one: StoredTokenizer) -> tuple[str, str, float]:
    file = one.folder / "tokenizer.json"
    return str(one.folder), one.measured.name, file.stat().st_mtime if file.is_file() else 0.0


@sets.cached(max_entries=64, hash_funcs={StoredTokenizer: _file})
def steps_of(one: StoredTokenizer, text: str) -> list[tokenizers.Step]:
    """Return how a stored BPE builds a word. Raises `LanguageError` `no_tokenizer` and `no_merges`."""
    return tokenizers.steps(text, _tokenizer(one))


@sets.cached(max_entries=32, hash_funcs={StoredTokenizer: _file})
def _tokenizer(one: StoredTokenizer) -> tokenizers.PreparedTokenizer:
    return tokenizers.load_tokenizer(one.folder, one.measured.name)


@sets.cached(sets.content_of, max_entries=32)
def contexts(reference: str, wanted: str, sentences: tuple[str, ...]) -> layers.WordVectors:
    with _one_at_a_time:
        return layers.words_in_context(_encoder(reference), wanted, sentences)


@sets.cached(sets.content_of, max_entries=16)
def attention(reference: str, sentence: str) -> layers.SentenceAttention:
    with _one_at_a_time:
        return layers.attention_of(_encoder(reference), sentence)


@sets.cached(sets.content_of, max_entries=128)
def guesses(reference: str, text: str, k: int) -> list[list[network.Guess]]:
    with _one_at_a_time:
        return network.fill(_masked(reference), text, k)


def scores_by_layer(reference: str, key: str, part: Part, on_progress: ReportProgress) -> layers.LayerScores:
    """Evaluate every layer on the first pairs of a part. Raises `ModelError` and `LanguageError`."""

    def score() -> layers.LayerScores:
        pairs = sets.pair_set(key).at(sets.parts_of(key)[part][:MOST_PAIRS])
        return layers.layer_scores(_encoder(reference), pairs, on_progress)

    return _compute_once(("scores", reference, sets.content_of(reference), key, part), score, on_progress)


def course_of(name: str, folders: tuple[Path, ...], text: str, on_progress: ReportProgress) -> network.Course:
    """Query the models in these folders, stored by the training of this name. Raises `LanguageError`."""
    sources = [ModelSource(name, folder=folder) for folder in folders]
    content = (f"{source.folder} {source.fingerprint('')}" for source in sources)
    return _compute_once(("course", text, *content), lambda: network.course(sources, text, on_progress), on_progress)


def may_fill(reference: str) -> bool:
    """Whether a model may predict masked pieces, as far as is known without loading it."""
    try:
        return network.may_have_head(find_model(reference))
    except ModelError:
        return False


def _compute_once(key: tuple[Any, ...], compute: Callable[[], R], on_progress: ReportProgress) -> R:
    """Return the result for a key, computed while no other model runs if it is not cached."""
    place = sets.place_of(key)
    with _one_at_a_time:
        if not place:
            on_progress(0.0)
            place.append(compute())
    result: R = place[0]
    return result


@sets.cached(sets.content_of, max_entries=2)
def _encoder(reference: str) -> network.Network:
    return network.load_encoder(find_model(reference))


@sets.cached(sets.content_of, max_entries=2)
def _masked(reference: str) -> network.Network:
    return network.load_masked(find_model(reference))


@dataclass(frozen=True)
class LayerFindings:
    """nDCG@10 of a search by every layer and pooling, the 95% intervals of the means, and the tests.

    `tests` compare each with the default, the mean of the last layer, as one family.
    """

    found: layers.LayerSearch
    intervals: Mapping[Way, tuple[float, float]]
    tests: Mapping[Way, PairTest]

    @classmethod
    def of(cls, found: layers.LayerSearch) -> "LayerFindings":
        """Test a search; questions about the same passages form one group."""
        groups = question_groups(found.searched)
        every = {
            (layer, pooling): values
            for layer, of_layer in enumerate(found.ndcg)
            for pooling, values in zip(layers.Pooling, of_layer, strict=True)
            if np.isfinite(values).all()
        }
        usual = (len(found.ndcg) - 1, layers.Pooling.MEAN)
        others = {way: values for way, values in every.items() if way != usual}
        pairs = [Pair(str(way), str(usual), _MEASURE, values, every[usual]) for way, values in others.items()]
        intervals = share_intervals(np.stack([*every.values()], axis=1), groups).tolist()
        return cls(
            found,
            {way: (low, high) for way, (low, high) in zip(every, intervals, strict=True)},
            dict(zip(others, paired_tests(pairs, groups), strict=True)),
        )


def search_by_layer(reference: str, data: StoredSet, part: Part, on_progress: ReportProgress) -> LayerFindings:
    """Search with every layer for some questions of a part. Raises `ModelError`, `LanguageError` and `DataError`."""

    def search() -> LayerFindings:
        questions = layers.sample_questions(sets.question_set(data.key), _rows(data)[part])
        model = _encoder(reference)
        prompts = network.prompts_of(find_model(reference))  # those of a packaged base are written when it is loaded
        return LayerFindings.of(layers.layer_search(model, questions, prompts, on_progress))

    key = ("search", reference, sets.content_of(reference), data.key, data.fingerprint, part)
    return _compute_once(key, search, on_progress)


def part_to_search(data: StoredSet) -> Part:
    """Return the test part, unknown to a model trained on the set; all questions if it is small."""
    return Part.TEST if len(_rows(data)[Part.TEST]) >= _LEAST_OF_TEST else Part.ALL


def _rows(data: StoredSet) -> dict[Part, np.ndarray]:
    return sets.split_of(data.key, SplitOptions()).rows
