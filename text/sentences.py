"""Where sentences begin and end."""

from collections.abc import Sequence
from itertools import groupby

import regex

from text.analyzers import Analyzer, choose, kiwi_tokens
from text.matching import Span

_LINE = regex.compile(r"\S.*")


# up to a full stop before a space or the end, or one of those that need no space
_SENTENCE = regex.compile(r"\S(?:.*?(?:[.!?…][\p{P}]*(?=\s|$)|[。！？][\p{Pe}\p{Pf}]*)|.*\S|)")


def sentence_spans(text: str) -> list[Span]:
    """Return the sentences of a composed text, without the space around them; none goes beyond its line.

    Kiwi cuts Korean; elsewhere a sentence ends with its mark, so "Dr. Kim" is cut in two.
    """
    lines = [match.span() for match in _LINE.finditer(text)]
    written = [text[start:end] for start, end in lines]
    korean = choose(Analyzer.AUTO, [text]) is Analyzer.KIWI_BIGRAM
    cut = _korean_sentences(written) if korean else [_marked_sentences(line) for line in written]
    return [(start + a, start + b) for (start, _), sentences in zip(lines, cut, strict=True) for a, b in sentences]


def _marked_sentences(line: str) -> list[Span]:
    return [match.span() for match in _SENTENCE.finditer(line)]


def _korean_sentences(lines: Sequence[str]) -> list[list[Span]]:
    found = []
    for tokens in kiwi_tokens(lines):
        sentences = (list(part) for _, part in groupby(tokens, key=lambda token: token.sent_position))
        found.append([(part[0].start, max(token.start + token.len for token in part)) for part in sentences])
    return found
