"""Whether a text says what an answer says."""

import unicodedata

from reading.judge.rules import Rules, normalized
from text.marking import answer_spans
from text.matching import matched_spans


def contains(text: str, answer: str, rules: Rules) -> bool:
    """Whether a text holds an answer, both as the rules compare them; nothing is held by nothing.

    As wherever answers are marked, it is never found inside a number or a Latin word: "3" is not in "1934".
    """
    wanted = unicodedata.normalize("NFC", normalized(answer, rules))
    return bool(wanted) and bool(answer_spans(unicodedata.normalize("NFC", normalized(text, rules)), [wanted]))


def contains_words(text: str, answer: str) -> bool:
    """Whether every word of an answer that tells something stands in a text, in whatever order; one at least must.

    Compared are words as `text.matching` compares them: content morphemes in Korean, lower-cased words elsewhere.
    """
    answer = unicodedata.normalize("NFC", answer)
    (telling,) = matched_spans(f"{text}\n{answer}", [answer])  # all of them, told apart as the next line does
    (found,) = matched_spans(text, [answer])
    return bool(telling) and found == telling
