"""Analyzed passages and questions of any number, with the token statistics of KorQuAD dev."""

import numpy as np

from benchmarks.korquad import korquad
from data.read import read_file
from text.analyzers import Analyzer
from text.tokens import Tokens, tokens_of

_AT_A_TIME = 20_000_000  # tokens


def synthetic_tokens(n_passages: int, seed: int = 0) -> tuple[Tokens, Tokens]:
    """Return so many passages, and KorQuAD's own questions.

    Lengths and tokens are drawn from those of KorQuAD's passages. What it holds once stands for the tail: such a draw
    is a word never seen before as often as the vocabulary grows by Heaps' law, `V = c * tokens^beta`, with beta of
    KorQuAD's first half and whole, and else one of the tail so far. Draws are independent: passages have no subject.
    """
    question_set = read_file(korquad()).question_set
    real = tokens_of(Analyzer.KIWI_BIGRAM, question_set.passages.indexed_texts(title=True))
    questions = tokens_of(Analyzer.KIWI_BIGRAM, [question.text for question in question_set.questions])
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.choice(np.diff(real.offsets), n_passages))])
    once = np.bincount(real.ids, minlength=len(real.vocabulary))[real.ids] == 1
    tail = np.unique(real.ids[once])
    half = len(real.ids) // 2
    beta = np.log2(len(real.vocabulary) / len(np.unique(real.ids[:half]))) / np.log2(len(real.ids) / half)
    scale = len(real.vocabulary) / len(real.ids) ** beta
    ids = np.empty(offsets[-1], dtype=np.int32)
    n_words = len(real.vocabulary)
    for start in range(0, len(ids), _AT_A_TIME):
        size = min(_AT_A_TIME, len(ids) - start)
        drawn = rng.integers(len(real.ids), size=size)
        part, rare = real.ids[drawn], np.flatnonzero(once[drawn])
        grown = int(scale * ((len(real.ids) + start + size) ** beta - (len(real.ids) + start) ** beta))
        n_new = min(len(rare), grown)
        place = rng.integers(len(tail) + n_words - len(real.vocabulary) + n_new, size=len(rare))
        words = np.where(place < len(tail), tail[place % len(tail)], len(real.vocabulary) + place - len(tail))
        words[rng.choice(len(rare), n_new, replace=False)] = np.arange(n_words, n_words + n_new)
        part[rare] = words
        ids[start : start + size] = part
        n_words += n_new
    vocabulary = [*real.vocabulary, *(f"#{number}" for number in range(n_words - len(real.vocabulary)))]
    return Tokens(vocabulary, ids, offsets), questions
