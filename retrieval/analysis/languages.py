"""The language of a question set's passages, and the questions that are in another one."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from data.records import QuestionSet
from text.analyzers import Analyzer, choose
from text.languages import foreign_language, language_of

_MOST_QUESTIONS = 10_000  # that are looked at, evenly spread: a second


@dataclass(frozen=True)
class SetLanguages:
    """`language` is the ISO 639-1 code of the passages' language, empty if it is unclear or if there are several.

    `analyzer` is the one that `auto` resolves to. `foreign` holds ascending rows of questions by their language, the
    most frequent first: of the `examined` questions those that surely are in another language than the passages.
    """

    language: str
    analyzer: Analyzer
    examined: int
    foreign: Mapping[str, np.ndarray]

    @property
    def foreign_count(self) -> int:
        return sum(map(len, self.foreign.values()))


def set_languages(question_set: QuestionSet) -> SetLanguages:
    """Detect the languages of a question set."""
    texts = question_set.passages.indexed_texts(title=True)
    language, count = language_of(texts), len(question_set.questions)
    rows = np.unique(np.linspace(0, count - 1, min(count, _MOST_QUESTIONS)).astype(np.int64))
    found: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows.tolist() if language else []:
        if other := foreign_language(question_set.questions[row].text, language):
            found[other].append(row)
    most_first = sorted(found.items(), key=lambda item: -len(item[1]))
    return SetLanguages(
        language,
        choose(Analyzer.AUTO, texts),
        len(rows),
        {other: np.array(of_language) for other, of_language in most_first},
    )
