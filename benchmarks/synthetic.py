"""Question sets of any size whose words are spread as KorQuAD's are: `python -m benchmarks.synthetic COUNT FILE`."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.korquad import korquad
from data.read import read_file
from data.workspace import replacing

QUESTIONS = 2_000
_ARTICLE = 7  # passages, as in KorQuAD
_BLOCK = 5_000  # passages made at a time
_STEP = 1_000_000_007  # a prime: neighbours look nothing alike
_PARTICLES = ("", "은", "이", "을", "의", "에")


class Model(NamedTuple):
    """What is drawn from: the words of a corpus, how often each stands in it, and how many each passage has."""

    words: np.ndarray  # (n_words,) of objects
    cumulative: np.ndarray  # (n_words,) float64, of the words' shares
    rare: np.ndarray  # (n_words,) bool: which stand there once
    lengths: np.ndarray  # (n_passages,) int64
    growth: tuple[float, float]  # Heaps' law: n tokens hold K * n ** beta words
    syllables: list[str]


def model() -> Model:
    """Count the words of KorQuAD dev; beta is taken between half of its tokens and all of them."""
    passages = [text.split() for text in read_file(korquad()).question_set.passages.texts]
    tokens = [word for words in passages for word in words]
    counts = Counter(tokens)
    beta = np.log2(len(counts) / len(set(tokens[: len(tokens) // 2])))
    times = np.array(list(counts.values()))
    return Model(
        np.array(list(counts), dtype=object),
        np.cumsum(times / len(tokens)),
        times == 1,
        np.array([len(words) for words in passages]),
        (len(counts) / len(tokens) ** beta, float(beta)),
        sorted({letter for word in counts for letter in word if "가" <= letter <= "힣"}),
    )


def texts(count: int, seed: int = 0) -> Iterator[str]:
    """Yield `count` passages, the same for the same seed.

    Words are drawn as often as KorQuAD has them. One that it has once stands for all rare words: in its place comes a
    word that was never there, as often as Heaps' law lets the vocabulary grow, or one that came so before.
    """
    source, random = model(), np.random.default_rng(seed)
    k, beta = source.growth
    tokens, rare_words = int(source.lengths.sum()), 0
    for start in range(0, count, _BLOCK):
        lengths = random.choice(source.lengths, min(_BLOCK, count - start))
        size = int(lengths.sum())
        drawn = np.minimum(np.searchsorted(source.cumulative, random.random(size)), len(source.words) - 1)
        words, rare = source.words[drawn], np.flatnonzero(source.rare[drawn])
        growth = k * beta * float(tokens) ** (beta - 1)  # new words a token
        new = random.random(len(rare)) < growth * size / max(1, len(rare))
        numbers = np.where(
            new, rare_words + np.cumsum(new) - 1, (rare_words * random.random(len(rare)) ** 2).astype(int)
        )
        words[rare] = [_spelled(number, source.syllables) for number in numbers.tolist()]
        tokens, rare_words = tokens + size, rare_words + int(new.sum())
        yield from (" ".join(words[a:b]) for a, b in pairwise(accumulate(lengths.tolist(), initial=0)))


def write(path: Path, count: int, *, questions: int = QUESTIONS, seed: int = 0) -> None:
    """Write a set in SQuAD's layout, an article a line; a question is some words of its passage, the answer one more.

    The passages asked about are spread evenly over the corpus.
    """
    random = np.random.default_rng((seed, 1))
    every = max(1, count // questions)
    article: list[object] = []
    with replacing(path) as new, new.open("w", encoding="utf-8") as file:
        for row, text in enumerate(texts(count, seed)):
            asked = _question(row, text, random) if row % every == 0 and row // every < questions else None
            article.append({"context": text, "qas": [asked] if asked else []})
            if len(article) == _ARTICLE or row == count - 1:
                line = {"title": f"글 {row // _ARTICLE + 1}", "paragraphs": article}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                article = []


def _question(row: int, text: str, random: np.random.Generator) -> dict[str, object]:
    words = text.split()
    chosen = random.choice(words, min(8, len(words)), replace=False).tolist()
    return {"id": f"q{row}", "question": f"{' '.join(chosen[1:])} 무엇인가?", "answers": [{"text": chosen[0]}]}


def _spelled(number: int, syllables: list[str]) -> str:
    """A word for a number, another one for every number below some billions."""
    size = len(syllables)
    rest, particle = divmod(number * _STEP % (size**3 * len(_PARTICLES)), len(_PARTICLES))
    return syllables[rest // size**2] + syllables[rest // size % size] + syllables[rest % size] + _PARTICLES[particle]


if __name__ == "__main__":
    write(Path(sys.argv[2]), int(sys.argv[1]))
