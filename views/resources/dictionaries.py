"""Cached functions: user dictionaries, read once for all sessions, and the words of a set that are cut wrongly."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

import numpy as np

from data.split import Part, SplitOptions
from data.store import StoredSet
from retrieval.lexical.cut_words import CutWord, cut_words
from text.dictionary import Dictionary, written
from text.kept_dictionaries import StoredDictionary, find, load, stored
from views.resources.cached import cached
from views.resources.sets import question_set, split_of

_one_at_a_time = Lock()  # a page that is drawn anew asks for the same from a second thread


@dataclass(frozen=True)
class CutWords:
    """Words that may be cut wrongly, and the texts of the questions asked, which the rows of the words are of."""

    words: tuple[CutWord, ...]
    questions: tuple[str, ...]


def dictionary_of(reference: str) -> Dictionary | None:
    """Return the dictionary that a retriever names, None where it names none. Raises `DictionaryError`."""
    if not reference:
        return None
    kept = next((one for one in stored() if one.reference == reference), None)
    return _kept(kept.key, kept.fingerprint) if kept else find(reference)


def lines_of(kept: StoredDictionary) -> str:
    """Return the lines of a kept dictionary. Raises `DictionaryError`."""
    return _lines(kept.key, kept.fingerprint)


def words_cut_wrongly(
    data: StoredSet, shares: SplitOptions, reference: str, on_progress: Callable[[float], None]
) -> CutWords:
    """Return words of a set's questions that may be cut wrongly, read with the dictionary named, or with none.

    The questions of the test part are not looked at: they are to judge the dictionary. Raises `DictionaryError`.
    """
    place, dictionary = _place(data, shares, reference), dictionary_of(reference)
    with _one_at_a_time:
        if not place:
            on_progress(0.0)
            place.append(_found(data.key, shares, dictionary, on_progress))
    return place[0]


def is_read(data: StoredSet, shares: SplitOptions, reference: str) -> bool:
    """Whether `words_cut_wrongly` has its answer at once. Raises `DictionaryError`."""
    return bool(_place(data, shares, reference))


def _found(
    key: str, shares: SplitOptions, dictionary: Dictionary | None, on_progress: Callable[[float], None]
) -> CutWords:
    rows = split_of(key, shares.validation, shares.test, shares.seed).rows
    asked = question_set(key).with_questions(np.union1d(rows[Part.TRAIN], rows[Part.VALIDATION]))
    words = cut_words(asked, dictionary, on_progress) if asked.questions else []
    return CutWords(tuple(words), tuple(question.text for question in asked.questions))


def _place(data: StoredSet, shares: SplitOptions, reference: str) -> list[CutWords]:
    dictionary, split = dictionary_of(reference), (shares.validation, shares.test, shares.seed)
    return _place_of(data.key, data.fingerprint, split, dictionary.fingerprint if dictionary else "")


@cached(max_entries=16)
def _place_of(key: str, fingerprint: str, split: tuple[float, float, int], dictionary: str) -> list[CutWords]:
    """Return the place for what is found, at first empty: what tells of its progress is drawn outside."""
    del key, fingerprint, split, dictionary  # only a key
    return []


@cached(max_entries=8)
def _kept(key: str, fingerprint: str) -> Dictionary:
    del fingerprint  # only a part of the key
    return load(key)


@cached(max_entries=16)
def _lines(key: str, fingerprint: str) -> str:
    return written(_kept(key, fingerprint))
