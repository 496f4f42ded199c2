"""Which sentence of a passage a dense model finds nearest to the question. Cosines of sentences are no shares."""

from dataclasses import dataclass

from data.records import Passage
from models.encoders.protocols import Encoder
from text.located import IndexedText, indexed_text
from text.matching import Span
from text.sentences import sentence_spans


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
