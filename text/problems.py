"""Why a dictionary cannot be used."""

from collections.abc import Sequence
from typing import Self

from data.problems import Failure

_MESSAGES = {
    "unreadable": "{name} is no file that can be read: check the path",
    "too_many_bytes": "the dictionary has {size:,} bytes, and {limit:,} are read: divide it",
    "too_many_lines": "the dictionary has more than {limit:,} lines: divide it",
    "not_utf8": "row {row}: byte {byte} is none of a text in UTF-8; save the file as UTF-8",
    "no_words": "the dictionary holds no word: write one a line",
    "long_line": "row {row}: the line has {size:,} characters, and {limit:,} are read; divide it",
    "character": "row {row}: {found} cannot be part of a word; remove it",
    "fields": "row {row}: there are {found} columns; write a word, a tab, its tag and, after another tab, its score",
    "unknown_tag": "row {row}: {tag} is no tag of Kiwi; write one such as NNP or NNG",
    "bad_score": "row {row}: the score {score} is no number from {low} to {high}",
    "empty_word": "row {row}: a word is missing; write one, or remove the mark beside it",
    "no_letter": "row {row}: {word} has no letter and no digit, so no analyzer makes a word of it; remove it",
    "long_word": "row {row}: {word} is longer than {limit} characters; shorten it",
    "wrong_parts": "row {row}: the parts {parts} do not spell {word}; write the parts that it is made of, in order",
    "many_right": "row {row}: right of => stands one word, which the others become",
    "two_readings": "row {row}: {word} was given another tag, score or other parts in row {first}; keep one of the two",
    "two_groups": "row {row}: {word} became another word in row {first} already; keep it in one group of synonyms",
    "no_use": "the analyzer {analyzer} cannot use {what}: choose one with Kiwi",
    "no_synonyms": "the analyzer {analyzer} uses synonyms alone, and the dictionary has none: choose one with Kiwi",
    "unknown": "no dictionary {name} is kept; these are: {known}",
    "broken": "the kept dictionary {name} is not what it was: remove it, and keep its file again",
}


class DictionaryError(Failure):
    """A dictionary that cannot be used; `code` is a key of `dictionary.` in the locale files.

    The detail `row` is that of the line at fault, from 1; `others` are what is wrong in other lines, in their order.
    """

    others: Sequence["DictionaryError"] = ()

    @classmethod
    def of(cls, code: str, /, **details: str | int) -> Self:
        """Make the error from the fields of its words."""
        return cls(code, _MESSAGES[code].format(**details), **details)
