"""Cached functions of the Language page: the models that stay loaded, and what was seen in them."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from data.split import Part
from language.inside.attention import SentenceAttention, attention_of
from language.inside.fill_mask import Course, Guess, course, fill
from language.inside.layers import LayerScores, layer_scores
from language.inside.loading import load_encoder, load_masked, may_have_head
from language.inside.network import Network
from language.inside.words_in_context import WordVectors, words_in_context
from models.hub import ModelError
from models.sources import ModelSource, find_model
from views.resources.cached import cached
from views.resources.pairs import pair_set, parts_of

MOST_PAIRS = 300  # of which layers are judged
_one_at_a_time = threading.Lock()  # a page that is drawn anew asks the same model from a second thread
R = TypeVar("R")
Tell = Callable[[float], None]  # hears the share of the work done, and may draw it


def contexts(reference: str, wanted: str, sentences: tuple[str, ...]) -> WordVectors:
    """Return a word's vectors in these sentences. Raises `ModelError` and `LanguageError`."""
    return _contexts(reference, content_of(reference), wanted, sentences)


def attention(reference: str, sentence: str) -> SentenceAttention:
    """Return the attention of all heads over a sentence. Raises `ModelError` and `LanguageError`."""
    return _attention(reference, content_of(reference), sentence)


def guesses(reference: str, text: str, k: int) -> list[list[Guess]]:
    """Return the likeliest pieces at every masked place. Raises `ModelError` and `LanguageError`."""
    return _guesses(reference, content_of(reference), text, k)


def scores_by_layer(reference: str, key: str, part: Part, on_progress: Tell) -> LayerScores:
    """Measure every layer over the first pairs of a part. Raises `ModelError` and `LanguageError`."""
    content = content_of(reference)

    def measured() -> LayerScores:
        on_progress(0.0)
        pairs = pair_set(key).at(parts_of(key)[part][:MOST_PAIRS])
        return layer_scores(encoder(reference, content), pairs, on_progress)

    return made_once(place_of(("scores", reference, content, key, part)), measured)


def course_of(name: str, folders: tuple[Path, ...], text: str, on_progress: Tell) -> Course:
    """Ask the models in these folders, kept by the training of this name. Raises `LanguageError`."""
    sources = [ModelSource(name, folder=folder) for folder in folders]

    def asked() -> Course:
        on_progress(0.0)
        return course(sources, text, on_progress)

    content = (f"{source.folder} {source.fingerprint('')}" for source in sources)
    return made_once(place_of(("course", text, *content)), asked)


def may_fill(reference: str) -> bool:
    """Whether a model may have a head that tells masked pieces, as far as that is known without loading it."""
    try:
        return may_have_head(find_model(reference))
    except ModelError:
        return False


@cached(max_entries=32)
def _contexts(reference: str, content: str, wanted: str, sentences: tuple[str, ...]) -> WordVectors:
    with _one_at_a_time:
        return words_in_context(encoder(reference, content), wanted, sentences)


@cached(max_entries=16)
def _attention(reference: str, content: str, sentence: str) -> SentenceAttention:
    with _one_at_a_time:
        return attention_of(encoder(reference, content), sentence)


@cached(max_entries=128)
def _guesses(reference: str, content: str, text: str, k: int) -> list[list[Guess]]:
    with _one_at_a_time:
        return fill(_masked(reference, content), text, k)


@cached(max_entries=32)
def place_of(of: tuple[str, ...]) -> list[Any]:
    """Return the place for what is made of this, at first empty.

    What is drawn inside a cached function is drawn again whenever it is called: what tells of its progress is made
    outside.
    """
    del of  # only a key
    return []


def made_once(place: list[Any], make: Callable[[], R]) -> R:
    """Return what is in a place; made before, while no other model is at work, where nothing is."""
    with _one_at_a_time:
        if not place:
            place.append(make())
    found: R = place[0]
    return found


@cached(max_entries=2)
def encoder(reference: str, content: str) -> Network:
    """Load a transformer without its head. Raises `ModelError` and `LanguageError`."""
    del content  # only a part of the key: a model that took its place is another one
    return load_encoder(find_model(reference))


@cached(max_entries=2)
def _masked(reference: str, content: str) -> Network:
    del content
    return load_masked(find_model(reference))


def content_of(reference: str) -> str:
    """Return the key of a model's content as far as it is known at once: empty of a hub model."""
    source = find_model(reference)
    return source.fingerprint("") if source.folder else ""
