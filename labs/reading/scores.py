"""Scores of answers: exact match and overlap by the rules of a published script, intervals of the means, and slices.

All scripts fold case, remove ASCII punctuation and collapse white space. Their other rules differ:
- KorQuAD 1.0 (Lim et al. 2019): quotation marks and brackets, Korean ones among them, become spaces first. F1 counts
  characters without spaces, since a Korean word carries its particle.
- SQuAD (Rajpurkar et al. 2016, 2018): a, an and the are removed. F1 counts words.
- KLUE-MRC (Park et al. 2021): no other rule. ROUGE-W, as in their script, is the F1 of the longest common substring,
  spaces included.

For a question without answer, only the empty text is right. Where the rules leave nothing of both texts, each script
returns its own value, and so do these functions.
"""

import json
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import TypeAdapter, ValidationError

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.workspace import write_text
from mrc_workbench.labs.reading.labels import Property, labels
from mrc_workbench.retrieval.analysis.questions import Slice, slice_table, slice_tests
from mrc_workbench.retrieval.measures import Scores
from mrc_workbench.retrieval.significance import Pair, PairTest, paired_tests, question_groups, share_intervals


class ReadingError(Failure):
    """Answers that cannot be generated, read or judged; `code` is a key of `reading.` in the locale files."""


_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MARKS = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))
# what their script matches: one of the marks with all of ()‘’ after it, and so next to nothing
_KLUE_MARKS = re.compile(r"['\"《》<>〈〉]\(\)‘’")
_ARTICLES = re.compile(r"\b(a|an|the)\b")


class Rules(StrEnum):
    """Whose rules say what is right."""

    KORQUAD = "korquad"
    SQUAD = "squad"
    KLUE = "klue"

    @property
    def overlap_name(self) -> str:
        """The measure's name in this field."""
        return "rouge_w" if self is Rules.KLUE else "f1"


def normalized(answer: str, rules: Rules) -> str:
    """Return the text by which answers are compared."""
    text = answer.lower()
    if rules is Rules.KORQUAD:
        text = text.translate(_MARKS)
    elif rules is Rules.KLUE:
        text = _KLUE_MARKS.sub(" ", text)
    text = text.translate(_PUNCTUATION)
    if rules is Rules.SQUAD:
        text = _ARTICLES.sub(" ", text)
    return " ".join(text.split())


def judged(said: str, right: Sequence[str], rules: Rules) -> tuple[float, float]:
    """Return exact match and overlap, 0 to 1, with the best matching right answer."""
    answer = normalized(said, rules)
    wanted = _wanted(tuple(right), rules)
    if not wanted:
        return (same := float(not answer)), same
    return float(answer in wanted), max(_overlap(answer, one, rules) for one in wanted)


@lru_cache(maxsize=1 << 16)
def _wanted(right: tuple[str, ...], rules: Rules) -> tuple[str, ...]:
    every = tuple(dict.fromkeys(normalized(one, rules) for one in right))
    if rules is Rules.SQUAD:  # its script of 2018 leaves out right answers that hold nothing but what is taken away
        return tuple(filter(None, every))
    return every


def _overlap(said: str, right: str, rules: Rules) -> float:
    """F1 of what both have in common: 2 P R / (P + R) with P = common / said and R = common / right."""
    if rules is Rules.KLUE:
        if not said or not right:
            return float(said == right)
        common, total = SequenceMatcher(None, said, right).find_longest_match().size, len(said) + len(right)
    else:
        parts: list[Sequence[str]] = [
            one.split() if rules is Rules.SQUAD else one.replace(" ", "") for one in (said, right)
        ]
        common, total = sum((Counter(parts[0]) & Counter(parts[1])).values()), sum(map(len, parts))
    return 2 * common / total if common else 0.0


_FORM: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


def read_predictions(path: Path) -> dict[str, str]:
    """Read the answers of a file; the empty text is "no answer". Raises `ReadingError`, `OSError`."""
    try:
        return _FORM.validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f" at {place!r}" for place in first["loc"][:1])
        form = 'one object of question ids and answers is needed, as {"q1": "서울", "q2": ""}'
        raise ReadingError("bad_predictions", f"{path.name}{where}: {first['msg']}; {form}") from error


def write_predictions(answers: Mapping[str, str], path: Path) -> None:
    """Write answers so that `read_predictions` and the published scripts read them. Raises `OSError`."""
    write_text(path, json.dumps(answers, ensure_ascii=False, indent=1))


EXACT = "em"


@dataclass(frozen=True)
class AnswerScores:
    """Metrics of each question, `(n_questions,)` float64 from 0 to 1: exact match, and the rules' overlap.

    `intervals` are 95% intervals of the means, with questions about the same passages as groups. `unsaid` counts the
    questions missing in the file, which are wrong. `without_answer` `(n_questions,)` bool are unanswerable.
    """

    per_question: dict[str, np.ndarray]
    intervals: dict[str, tuple[float, float]]
    unsaid: int
    without_answer: np.ndarray

    def means(self) -> dict[str, float]:
        """Return the means; of answerable and unanswerable questions alone, too, if there are both."""
        told = {name: float(values.mean()) for name, values in self.per_question.items()}
        if self.without_answer.any() and not self.without_answer.all():
            exact = self.per_question[EXACT]
            told["no_answer_accuracy"] = float(exact[self.without_answer].mean())
            for name, values in self.per_question.items():
                told[f"{name}_answerable"] = float(values[~self.without_answer].mean())
        return told


def scored(question_set: QuestionSet, answers: Mapping[str, str], rules: Rules) -> AnswerScores:
    """Judge answers by question id; a missing one is wrong, even if "no answer" would be right.

    Raises `ReadingError`: `no_questions`, or `other_questions` if no answer is of the set.
    """
    questions = question_set.questions
    if not questions:
        raise ReadingError("no_questions", f"{question_set.name!r} holds no question")
    said = [answers.get(question.id) for question in questions]
    unsaid = sum(one is None for one in said)
    if unsaid == len(questions):
        raise ReadingError("other_questions", f"no answer is of a question of {question_set.name!r}")
    answered = zip(said, questions, strict=True)
    values = np.array([(0, 0) if one is None else judged(one, of.answers, rules) for one, of in answered], np.float64)
    intervals = share_intervals(values, question_groups(question_set))
    names = (EXACT, rules.overlap_name)
    return AnswerScores(
        {name: values[:, place] for place, name in enumerate(names)},
        {name: (float(low), float(high)) for name, (low, high) in zip(names, intervals, strict=True)},
        unsaid,
        np.array([not question.answers for question in questions]),
    )


def compared(question_set: QuestionSet, scores: Mapping[str, AnswerScores]) -> list[PairTest]:
    """Test every pair of readers, judged by the same rules, by each measure."""
    measures: Sequence[str] = [*next(iter(scores.values())).per_question] if scores else []
    pairs = [
        Pair(a, b, measure, scores[a].per_question[measure], scores[b].per_question[measure])
        for measure in measures
        for a, b in combinations(scores, 2)
    ]
    return paired_tests(pairs, question_groups(question_set))


FEWEST = 5  # questions of a slice: of fewer a mean says nothing, and every test made takes from the others


def slices(question_set: QuestionSet, by: Property) -> list[Slice]:
    """Cut a set into slices of at least `FEWEST` questions, by label in its order."""
    found = labels(question_set, by)
    parts = (Slice(np.flatnonzero(found.codes == code), name) for code, name in enumerate(found.names))
    return [part for part in parts if len(part.rows) >= FEWEST]


def slice_figures(question_set: QuestionSet, scores: Mapping[str, AnswerScores], by: Property) -> pd.DataFrame:
    """Measure every reader, judged by the same rules, on every slice.

    Columns: "measure", "slice" (its label), "questions", "reader", "mean" with its 95% interval "low" to "high", and
    "difference" from the first reader with "difference_low" and "difference_high", as fractions. "p_holm" is corrected
    for all slices and readers of a measure; NaN for the first reader.
    """
    parts, groups = slices(question_set, by), question_groups(question_set)
    values = {name: Scores((), one.per_question) for name, one in scores.items()}
    tables = []
    for measure in dict.fromkeys(measure for one in values.values() for measure in one.per_question):
        table = slice_table(parts, values, measure, groups).rename(columns={"retriever": "reader"})
        table.insert(0, "measure", measure)
        tables.append(table.assign(p_holm=slice_tests(parts, values, measure, groups)))
    figures = pd.concat(tables, ignore_index=True)
    return figures.assign(slice=[parts[place].label for place in figures["slice"]])
