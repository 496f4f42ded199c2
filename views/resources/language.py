"""Cached functions of the Language page: the models that stay loaded, and what was seen in them."""

import threading
from collections.abc import Callable

from data.split import Part
from language.attention import SentenceAttention, attention_of
from language.fill_mask import Guess, fill
from language.layers import LayerScores, layer_scores
from language.loading import load_encoder, load_masked, may_have_head
from language.network import Network
from language.words_in_context import WordVectors, words_in_context
from models.hub import ModelError
from models.sources import find_model
from views.resources.cached import cached
from views.resources.pairs import pair_set, parts_of

MOST_PAIRS = 300  # of which layers are judged
_one_at_a_time = threading.Lock()  # a page that is drawn anew asks the same model from a second thread


def contexts(reference: str, wanted: str, sentences: tuple[str, ...]) -> WordVectors:
    """Return a word's vectors in these sentences. Raises `ModelError` and `LanguageError`."""
    return _contexts(reference, _content(reference), wanted, sentences)


def attention(reference: str, sentence: str) -> SentenceAttention:
    """Return the attention of all heads over a sentence. Raises `ModelError` and `LanguageError`."""
    return _attention(reference, _content(reference), sentence)


def guesses(reference: str, text: str, k: int) -> list[list[Guess]]:
    """Return the likeliest pieces at every masked place. Raises `ModelError` and `LanguageError`."""
    return _guesses(reference, _content(reference), text, k)


def scores_by_layer(reference: str, key: str, part: Part, on_progress: Callable[[float], None]) -> LayerScores:
    """Measure every layer over the first pairs of a part. Raises `ModelError` and `LanguageError`."""
    return _scores(reference, _content(reference), key, part, on_progress)


def may_fill(reference: str) -> bool:
    """Whether a model may have a head that tells masked pieces, as far as that is known without loading it."""
    try:
        return may_have_head(find_model(reference))
    except ModelError:
        return False


@cached(max_entries=32)
def _contexts(reference: str, content: str, wanted: str, sentences: tuple[str, ...]) -> WordVectors:
    with _one_at_a_time:
        return words_in_context(_encoder(reference, content), wanted, sentences)


@cached(max_entries=16)
def _attention(reference: str, content: str, sentence: str) -> SentenceAttention:
    with _one_at_a_time:
        return attention_of(_encoder(reference, content), sentence)


@cached(max_entries=128)
def _guesses(reference: str, content: str, text: str, k: int) -> list[list[Guess]]:
    with _one_at_a_time:
        return fill(_masked(reference, content), text, k)


@cached(max_entries=32)
def _scores(reference: str, content: str, key: str, part: Part, _on_progress: Callable[[float], None]) -> LayerScores:
    pairs = pair_set(key).at(parts_of(key)[part][:MOST_PAIRS])
    with _one_at_a_time:
        return layer_scores(_encoder(reference, content), pairs, _on_progress)


@cached(max_entries=2)
def _encoder(reference: str, content: str) -> Network:
    del content  # only a part of the key: a model that took its place is another one
    return load_encoder(find_model(reference))


@cached(max_entries=2)
def _masked(reference: str, content: str) -> Network:
    del content
    return load_masked(find_model(reference))


def _content(reference: str) -> str:
    source = find_model(reference)
    return source.fingerprint("") if source.folder else ""
