"""What Japanese is indexed by beside its character bigrams: single kanji, and runs of one script.

A kanji carries a meaning that a bigram halves, and a run of kanji, katakana, Latin letters or digits is often a word.
Runs need no dictionary and found more on JaQuAD than segmenters did (docs/quality.md). Tokens are marked, so that a run
or a kanji is never the bigram or the word of one character with the same characters.
"""

from collections.abc import Iterator

import regex

from mrc_workbench.data.text.analyzers import LocatedToken

RUN = "/"
KANJI = "|"
_HAN = regex.compile(r"\p{Han}")
_RUNS = regex.compile(r"\p{Han}+|\p{Katakana}[\p{Katakana}ー]*|\p{Latin}+|\p{N}+")


def kanji_and_runs(text: str) -> Iterator[LocatedToken]:
    """Yield the kanji, then the runs of a text in lower case, marked, with their characters; hiragana is left out."""
    marked = ((match, mark) for pattern, mark in ((_HAN, KANJI), (_RUNS, RUN)) for match in pattern.finditer(text))
    for match, mark in marked:
        yield LocatedToken(match.group() + mark, match.span())
