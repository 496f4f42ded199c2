"""How a tokenizer cuts text that nobody trained it on: how finely, how much of it unknown, how near to morphemes."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np
import regex

from mrc_workbench.data.text.corpora import Corpus, LanguageError, held_out
from mrc_workbench.models.language.tokenizer_training import Sample, composed_letters, cuts, morpheme_cuts
from mrc_workbench.models.language.tokenizers import Cut, PreparedTokenizer

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_WORD = regex.compile(r"\S+")


@dataclass(frozen=True)
class HeldOut:
    """Documents that no tokenizer of a sample was trained on, and where their morphemes begin inside words."""

    texts: tuple[str, ...]
    morphemes: tuple[np.ndarray, ...]
    seconds: float  # that Kiwi took

    @classmethod
    def of(cls, texts: Sequence[str]) -> "HeldOut":
        composed = [letters for letters in map(composed_letters, texts) if letters.strip()]
        began = perf_counter()
        morphemes = morpheme_cuts(composed)
        return cls(tuple(composed), tuple(morphemes), perf_counter() - began)

    @classmethod
    def from_corpus(cls, corpus: Corpus, sample: Sample, most: int = 1_000_000) -> "HeldOut":
        """Return what a sample holds out; of more than about `most` characters some, by their hash.

        Raises `LanguageError` `nothing_held_out`.
        """
        share = min(sample.held_out, most / max(1, corpus.characters))
        held = cls.of([document for document in corpus.documents() if held_out(document, share, sample.seed)])
        if not held.texts:
            message = f"{corpus.name} is too small: none of its documents is held out to measure on"
            raise LanguageError("nothing_held_out", message, corpus=corpus.name)
        return held


@dataclass(frozen=True)
class Fertility:
    """How a tokenizer cuts documents. Shares are from 0 to 1; what nothing tells of is None.

    A word is what stands between blanks, signs at its ends included; characters are all but blanks.

    - `tokens_per_word`, `tokens_per_character`: fewer are cheaper to read (fertility, Rust et al. 2021).
    - `unknown_rate`: the share of tokens that are the unknown piece. Kinds differ in how much one of these stands for
      (WordPiece: a word; BPE: a letter; Unigram: letters in a row), so that they are compared by `unknown_words`, the
      share of words in which one stands.
    - `whole_words`: the share of words that are one known piece.
    - `precision`, `recall`, `f1`: of the places inside words, between two letters or digits, where the tokenizer cuts,
      how many begin a morpheme by Kiwi; of those that do, how many it cuts; and their harmonic mean. Letters are
      composed syllables: where Kiwi takes one apart (갔 is 가 + 았) or restores what is not written, there is no place
      to cut, and nothing is counted. Nor is a cut between the bytes of a letter. Over all documents together.
    - `document_tokens`: quantiles of the tokens of a document, those around it ([CLS], [SEP]) included, and
      `longer_than_512`, the share of documents with more.
    - `tokens_per_second` of cutting, with Kiwi's seconds where morphemes are marked first; `seconds_to_train` without
      those, since all kinds and vocabularies share what Kiwi marked.
    """

    pieces: int
    documents: int
    words: int
    characters: int
    tokens: int
    tokens_per_word: float
    tokens_per_character: float
    unknown_rate: float
    unknown_words: float
    whole_words: float
    precision: float | None
    recall: float | None
    f1: float | None
    document_tokens: dict[str, float]
    longer_than_512: float
    tokens_per_second: float
    seconds_to_train: float | None


def fertility(tokenizer: PreparedTokenizer, held: HeldOut) -> Fertility:
    """Measure a tokenizer on documents it was not trained on."""
    began = perf_counter()
    found = tokenizer.cut(held.texts, held.morphemes)
    seconds = perf_counter() - began + (held.seconds if tokenizer.marks_morphemes else 0.0)
    of_documents = (_counted(*one, tokenizer.unknown) for one in zip(held.texts, held.morphemes, found, strict=True))
    counts = _Counts(*map(sum, zip(*of_documents, strict=True)))
    around = tokenizer.tokenizer.num_special_tokens_to_add(False)
    lengths = np.array([len(cut.numbers) + around for cut in found])
    return Fertility(
        pieces=tokenizer.tokenizer.get_vocab_size(),
        documents=len(held.texts),
        words=counts.words,
        characters=counts.characters,
        tokens=counts.tokens,
        tokens_per_word=counts.tokens / counts.words,
        tokens_per_character=counts.tokens / counts.characters,
        unknown_rate=counts.unknown / max(1, counts.tokens),
        unknown_words=counts.unknown_words / counts.words,
        whole_words=counts.whole / counts.words,
        precision=_share(counts.hits, counts.made),
        recall=_share(counts.hits, counts.morphemes),
        f1=_share(2 * counts.hits, counts.made + counts.morphemes),
        document_tokens={f"{share:g}": float(np.quantile(lengths, share)) for share in _QUANTILES},
        longer_than_512=float((lengths > 512).mean()),
        tokens_per_second=counts.tokens / max(seconds, 1e-9),
        seconds_to_train=tokenizer.trained.get("seconds"),
    )


class _Counts(NamedTuple):
    characters: int
    words: int
    tokens: int
    unknown: int
    unknown_words: int
    whole: int
    made: int  # cuts inside words
    morphemes: int
    hits: int


def _counted(text: str, morphemes: np.ndarray, cut: Cut, unknown: int | None) -> _Counts:
    words = np.array([match.span() for match in _WORD.finditer(text)])
    # a blank that is a piece of its own belongs to the word that follows
    of_word = np.minimum(np.searchsorted(words[:, 1], cut.spans[:, 0], side="right"), len(words) - 1)
    is_unknown = cut.numbers == unknown if unknown is not None else np.zeros(len(cut.numbers), dtype=bool)
    tokens = np.bincount(of_word, minlength=len(words))
    unknowns = np.bincount(of_word[is_unknown], minlength=len(words))
    made = cuts(cut.spans, text)
    return _Counts(
        characters=int((words[:, 1] - words[:, 0]).sum()),
        words=len(words),
        tokens=len(cut.numbers),
        unknown=int(is_unknown.sum()),
        unknown_words=int((unknowns > 0).sum()),
        whole=int(((tokens == 1) & (unknowns == 0)).sum()),
        made=len(made),
        morphemes=len(morphemes),
        hits=len(np.intersect1d(made, morphemes)),
    )


def _share(part: int, of: int) -> float | None:
    return part / of if of else None
