"""Questions whose answer is the word after a cue, of words that the tiny models know; some passages have no cue."""

from typing import Any

import numpy as np

from data.records import Passage, Question, QuestionSet
from data.split import SplitOptions
from tests.hub import SENTENCES
from tests.training.worlds import base_of, planned
from training.options.questions import READER
from training.runs.runs import Run

CUE, *WORDS = [word.strip(".?") for word in " ".join(SENTENCES).split()]


def tiny_base() -> str:
    """A random BERT of 32 dimensions and two layers."""
    return base_of(READER)


def cue_set(
    answered: int = 60, unanswerable: int = 0, *, words: int = 6, told: bool = True, seed: int = 0
) -> QuestionSet:
    """One question about each passage, the answered ones first; `told` is where an answer begins.

    Every answered passage is an article of its own, and one without the cue belongs to the article of an answered one.
    """
    rng = np.random.default_rng(seed)
    passages, questions = [], []
    for number in range(answered + unanswerable):
        said = rng.permutation(WORDS)[:words].tolist()
        if has_cue := number < answered:
            said.insert(int(rng.integers(words)), CUE)
        asked = Question(f"q{number}", " ".join([CUE, *rng.permutation(WORDS)[:2]]), rejected=(f"p{number}",))
        if has_cue:
            answer = said[said.index(CUE) + 1]
            start = len(" ".join(said[: said.index(CUE) + 1])) + 1
            starts = (start,) if told else ()
            asked = Question(asked.id, asked.text, (answer,), (f"p{number}",), starts=starts)
        passages.append(Passage(f"p{number}", " ".join(said), f"article {number % answered}"))
        questions.append(asked)
    return QuestionSet("cues", tuple(passages), tuple(questions))


def created(question_set: QuestionSet, **options: Any) -> Run:
    """A run in the workspace that is done in seconds."""
    base = options.pop("base", tiny_base())
    small = {"batch_size": 16, "learning_rate": 1e-3, "max_length": 32, "overlap": 8, "longest_answer": 4}
    small |= {"logging_steps": 1, "epochs": 1.0, "negatives_share": 0.0}
    small["precision"] = "float32"  # told, not tried: on a busy machine two processes may find another one quicker
    return planned(READER, question_set, SplitOptions(0.2, 0.2), base=base, **(small | options))
