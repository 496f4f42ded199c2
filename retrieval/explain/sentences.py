"""Which sentence of a passage a dense model finds nearest to the question. Cosines of sentences are no shares."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import regex

from data.records import Passage
from retrieval.analyzers import Analyzer, choose, kiwi_tokens
from retrieval.explain.located import IndexedText, indexed_text
from retrieval.matching import Span
from retrieval.models import Encoder

_LINE = regex.compile(r"\S.*")
# up to a full stop before a space or the end, or one of those that need no space
_SENTENCE = regex.compile(r"\S(?:.*?(?:[.!?…][\p{P}]*(?=\s|$)|[。！？][\p{Pe}\p{Pf}]*)|.*\S|)")


@dataclass(frozen=True)
class SentenceScore:
    """A sentence as letters of the indexed text, and its cosine with the question when it is read by itself."""

    span: Span
    cosine: float


@dataclass(frozen=True)
class SentenceExplanation:
    """The cosine of the whole passage, and those of its sentences in their order.

    They do not add up: a model that reads words in their context scores a whole that is no sum or mean of its parts,
    and a sentence read alone has lost its context. Compare them with each other, not with the score.
    """

    passage: IndexedText
    score: float
    sentences: tuple[SentenceScore, ...]


def sentence_contributions(
    encoder: Encoder, question: str, passage: Passage, *, title: bool = True
) -> SentenceExplanation:
    """Score a passage sentence by sentence with the model of a dense retriever, which may load it.

    The title counts as a sentence where it is indexed.
    """
    indexed = indexed_text(passage, title=title)
    spans = sentence_spans(indexed.text)
    vectors = encoder.encode_passages([indexed.text, *(indexed.text[start:end] for start, end in spans)])
    whole, *cosines = (vectors @ encoder.encode_questions([question])[0]).tolist()
    sentences = (SentenceScore(span, cosine) for span, cosine in zip(spans, cosines, strict=True))
    return SentenceExplanation(indexed, whole, tuple(sentences))


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
