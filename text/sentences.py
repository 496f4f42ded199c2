"""Where sentences begin and end."""

from itertools import groupby

import regex

from text.analyzers import Analyzer, choose, kiwi_tokens
from text.matching import Span

_LINE = regex.compile(r"\S.*")
# up to a mark before a space or the end, or one of those that need no space; none goes beyond its line
_SENTENCE = regex.compile(r"\S(?:.*?(?:[.!?…][\p{P}]*(?=\s|$)|[。！？][\p{Pe}\p{Pf}]*)|.*\S|)", regex.MULTILINE)


def sentence_spans(text: str) -> list[Span]:
    """Return the sentences of a composed text, without the space around them; none goes beyond its line.

    Kiwi cuts Korean; elsewhere they are `marked_sentences`.
    """
    if choose(Analyzer.AUTO, [text]) is not Analyzer.KIWI_BIGRAM:
        return marked_sentences(text)
    lines = list(_LINE.finditer(text))
    found = []
    for line, tokens in zip(lines, kiwi_tokens([line.group() for line in lines]), strict=True):
        for _, part in groupby(tokens, key=lambda token: token.sent_position):
            ends = [(token.start, token.start + token.len) for token in part]
            found.append((line.start() + ends[0][0], line.start() + max(end for _, end in ends)))
    return found


def marked_sentences(text: str) -> list[Span]:
    """Return the sentences of a text as they end with their mark or their line, so "Dr. Kim" is cut in two."""
    return [match.span() for match in _SENTENCE.finditer(text)]
