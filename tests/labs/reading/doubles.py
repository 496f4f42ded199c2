"""Five passages, and a reader that extracts the word after the question's last word."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.labs.reading.scores import write_predictions
from mrc_workbench.models.reader import Spans

_TEXTS = ("수도 서울 강 한강", "수도 부산 바다 남해", "산 한라산 섬 제주도", "산 백두산", "꽃 무궁화")
PASSAGES = tuple(Passage(f"p{number}", text) for number, text in enumerate(_TEXTS, start=1))
QUESTIONS = (
    Question("q1", "나라의 수도", ("서울",), ("p1",)),
    Question("q2", "흐르는 강", ("한강",), ("p1",)),
    Question("q3", "높은 산", ("백두산",), ("p4",)),
    Question("q4", "나라의 꽃", ("진달래",), ("p5",)),
)
SET = QuestionSet("다섯 글", PASSAGES, QUESTIONS)


def score_words(folder: Path, question_set: QuestionSet, *predictions: Sequence[str]) -> list[str]:
    """Write a set's questions, and the predictions of each reader to `a.json` and so on; returns `score` arguments."""
    text_of = {passage.id: passage.text for passage in question_set.passages}
    rows = []
    for question in question_set.questions:
        context = text_of[question.relevant[0]]
        rows.append({"context": context, "question": question.text, "answers": [*question.answers]})
    data = folder / f"{question_set.name}.jsonl"
    data.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    ids = [question.id for question in read_file(data).question_set.questions]
    words = ["score", "--data", str(data)]
    for name, answers in zip("ab", predictions, strict=True):
        write_predictions(dict(zip(ids, answers, strict=True)), folder / f"{name}.json")
        words += ["--predictions", str(folder / f"{name}.json")]
    return words


class NextWord:
    """Extracts the word after the question's last word in a passage; log P is minus the length of the answer."""

    fingerprint = "next word"

    def __init__(self, threshold: float | None = None) -> None:
        self.threshold = threshold
        self.read_pairs: list[tuple[str, str]] = []

    def read(self, pairs: Sequence[tuple[str, str]], *, spans: int = 1) -> Spans:
        self.read_pairs += pairs
        shape = (len(pairs), spans)
        starts = np.zeros(shape, np.int32)
        ends = np.zeros(shape, np.int32)
        scores = np.full(shape, -np.inf, np.float32)
        no_answer_scores = np.full(len(pairs), -0.5, np.float32)
        for row, (question, passage) in enumerate(pairs):
            words = passage.split()
            cue = question.split()[-1]
            if cue in words[:-1]:
                answer = words[words.index(cue) + 1]
                starts[row, 0] = passage.index(f"{cue} {answer}") + len(cue) + 1
                ends[row, 0] = starts[row, 0] + len(answer)
                scores[row, 0] = -len(answer)
                no_answer_scores[row] = -9.0
        return Spans(starts, ends, scores, no_answer_scores)
