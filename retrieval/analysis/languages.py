"""The language of a question set's passages, and the questions that are in another one."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.analyzers import Analyzer, choose
from mrc_workbench.data.text.languages import foreign_language, language_of

_MOST_QUESTIONS = 10_000  # that are looked at, evenly spread: a second
_SOME_PASSAGES, _CHARACTERS = 300, 400  # that are looked at for other languages, and of each its beginning
_FEW_PASSAGES = 0.05  # of them in a language: questions in it have passages to match


@dataclass(frozen=True)
class SetLanguages:
    """`language` is the ISO 639-1 code of the passages' language, empty if it is unclear or if there are several.

    `analyzer` is the one that `auto` resolves to. `foreign` holds ascending rows of questions by their language, the
    most frequent first: of the `examined` questions those that surely are in a language that few passages are in.
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
    language, rows = language_of(texts), _spread(len(question_set.questions), _MOST_QUESTIONS)
    in_passages = _others_in(texts, language) if language else frozenset()
    found: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows if language else []:
        other = foreign_language(question_set.questions[row].text, language)
        if other and other not in in_passages:
            found[other].append(row)
    most_first = sorted(found.items(), key=lambda item: -len(item[1]))
    return SetLanguages(
        language,
        choose(Analyzer.AUTO, texts),
        len(rows),
        {other: np.array(of_language) for other, of_language in most_first},
    )


def _others_in(texts: Sequence[str], language: str) -> frozenset[str]:
    """Return the other languages that more than a few passages are in."""
    rows = _spread(len(texts), _SOME_PASSAGES)
    counts = Counter(foreign_language(texts[row][:_CHARACTERS], language) for row in rows)
    return frozenset(other for other, count in counts.items() if count > _FEW_PASSAGES * len(rows))


def _spread(count: int, most: int) -> list[int]:
    """Return at most so many of `count` rows, evenly spread."""
    return list(range(0, count, -(-count // most))) if count else []
