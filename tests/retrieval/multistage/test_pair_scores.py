"""A pair is scored once: what is counted here is the pairs a scorer is asked for."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from data.workspace import workspace
from models.encoders.vector_blocks import Meter
from models.windows import WindowOptions
from retrieval import rerank
from retrieval.rankings import Rankings
from retrieval.rerank import PairScores

TEXTS = [f"passage {row}" for row in range(30)]
ASKED = [f"question {row}" for row in range(70)]  # more than a block


class Counting:
    """Scores a pair by its two numbers, and remembers what it was asked for."""

    def __init__(self, fingerprint: str = "counting") -> None:
        self.fingerprint = fingerprint
        self.asked: list[tuple[str, str]] = []
        self.loads = 0

    def load(self) -> None:
        self.loads += 1

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        self.asked += pairs
        return np.array([100 * int(q.split()[1]) + int(p.split()[1]) for q, p in pairs], dtype=np.float32)


def candidates(depth: int, first: int = 0, questions: int = 70) -> Rankings:
    indices = (np.arange(questions)[:, None] + np.arange(first, first + depth)) % 30
    indices = np.where(np.arange(questions)[:, None] % 7 == 3, -1, indices).astype(np.int32)
    return Rankings(indices, np.where(indices < 0, -np.inf, -np.arange(depth)).astype(np.float32))


def expected(found: Rankings) -> np.ndarray:
    return np.where(found.indices < 0, -np.inf, 100 * np.arange(len(found.indices))[:, None] + found.indices)


def scored(found: Rankings, fingerprint: str = "counting", texts: list[str] = TEXTS) -> int:
    """Check the scores and return how many pairs the scorer was asked for."""
    scorer = Counting(fingerprint)
    scores = PairScores(scorer, texts, Meter()).of(ASKED[: len(found.indices)], found)
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, expected(found))
    assert len(set(scorer.asked)) == len(scorer.asked)
    assert (scorer.loads > 0) == (len(scorer.asked) > 0)  # a model that has nothing to say is not loaded
    return len(scorer.asked)


def test_a_smaller_depth_scores_nothing_and_a_deeper_one_what_is_new() -> None:
    assert scored(candidates(10)) == 600
    assert scored(candidates(10)) == 0
    assert scored(candidates(4)) == 0
    assert scored(candidates(13)) == 180
    assert scored(candidates(13)) == 0


def test_another_first_stage_scores_only_what_it_brings() -> None:
    assert scored(candidates(10)) == 600
    assert scored(candidates(10, first=6)) == 360
    assert scored(candidates(16)) == 0


def test_another_model_corpus_or_questions_are_scored_anew() -> None:
    scored(candidates(2))
    assert scored(candidates(2), fingerprint="other") == 120
    assert scored(candidates(2), texts=[*TEXTS, "passage 30"]) == 120
    assert scored(candidates(2, questions=69)) == 2 * 59


def test_without_a_meter_or_for_one_question_nothing_is_kept() -> None:
    for meter, asked in ((None, ASKED), (Meter(), ASKED[:1])):
        for _ in range(2):
            scorer = Counting()
            PairScores(scorer, TEXTS, meter).of(asked, candidates(2, questions=len(asked)))
            assert len(scorer.asked) == 2 * len(asked) * (60 if meter is None else 70) // 70
    assert not (workspace() / "cache" / "pairs").exists()


def test_what_was_scored_before_an_end_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ending(Counting):
        def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
            if self.asked:
                raise KeyboardInterrupt
            return super().score(pairs)

    monkeypatch.setattr(rerank, "_SECONDS_BETWEEN_WRITING", 0.0)
    with pytest.raises(KeyboardInterrupt):
        PairScores(Ending(), TEXTS, Meter()).of(ASKED, candidates(5))
    assert scored(candidates(5)) == 300 - 55 * 5  # of the first 64 questions 55 have candidates


def test_a_torn_file_is_scored_anew() -> None:
    scored(candidates(3))
    (path,) = Path(workspace() / "cache" / "pairs").iterdir()
    path.write_bytes(path.read_bytes()[:100])
    assert scored(candidates(3)) == 180


def test_the_meter_tells_what_scoring_takes_also_where_nothing_is_scored() -> None:
    first, second, half = Meter(), Meter(), Meter()
    PairScores(Counting(), TEXTS, first).of(ASKED, candidates(10))
    PairScores(Counting(), TEXTS, second).of(ASKED, candidates(10))
    PairScores(Counting(), TEXTS, half).of(ASKED, candidates(5))
    (_, worked), (_, remembered), (_, of_half) = first.lap(), second.lap(), half.lap()
    assert worked > 0
    assert remembered == pytest.approx(worked)
    assert of_half == pytest.approx(worked / 2)
    assert (first.load, second.load) == (pytest.approx(half.load), pytest.approx(first.load))


def test_progress() -> None:
    told: list[float] = []
    PairScores(Counting(), TEXTS, on_progress=told.append).of(ASKED, candidates(2))
    assert told == [64 / 70, 1.0]


class CountingWindows(Counting):
    """A passage with bars scores as the best of its parts."""

    def score_windows(
        self, pairs: Sequence[tuple[str, str]], heads: Sequence[int], options: WindowOptions
    ) -> np.ndarray:
        del options
        self.heads = list(heads)
        parts = [[(question, part) for part in text.split("|")] for question, text in pairs]
        return np.array([self.score(of).max() for of in parts], dtype=np.float32)


def test_a_long_passage_scores_as_its_best_window_and_is_kept_apart() -> None:
    texts = [f"passage {row}|passage {2 * row + 5}|passage 1" for row in range(30)]
    found, scorer = candidates(3), CountingWindows()
    windows = WindowOptions()
    scores = PairScores(scorer, texts, Meter(), windows=windows, heads=np.arange(30)).of(ASKED, found)
    best = 100 * np.arange(70)[:, None] + 2 * found.indices + 5
    np.testing.assert_array_equal(scores, np.where(found.indices < 0, -np.inf, best))
    assert scorer.heads == found.indices[64:][found.indices[64:] >= 0].tolist()  # of the last block
    again = CountingWindows()
    PairScores(again, texts, Meter(), windows=windows).of(ASKED, found)
    assert again.asked == []
    PairScores(again, texts, Meter(), windows=WindowOptions(7)).of(ASKED, found)
    assert again.asked != []


def test_a_scorer_without_windows_reads_passages_as_they_are() -> None:
    scorer = Counting()
    scores = PairScores(scorer, TEXTS, Meter(), windows=WindowOptions()).of(ASKED, candidates(2))
    np.testing.assert_array_equal(scores, expected(candidates(2)))
    assert scored(candidates(2)) == 0  # and they are those kept without windows
