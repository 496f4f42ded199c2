"""A comparison of tokenizers in a process of its own: the page that asks may be closed.

The process runs `python -m language run FOLDER`. The folder is named by what decides the result, so what was asked
before is there already."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from data.texts import in_blocks
from data.workspace import replacing
from jobs.folder import Progress, RequestJob, request_carried_out
from language import comparison
from language.comparison import Measured, Request, compare
from language.corpus import Corpus, find_corpus
from language.morphemes import composed_letters, morpheme_cuts
from language.prepared import PreparedTokenizer, find_tokenizer, load_tokenizer
from models.sources import contents
from text.analyzers import VERSION as ANALYZER_VERSION


@dataclass(frozen=True)
class TokenizerRequest:
    """Tokenizers to compare over a text, named as for `language.corpus.find_corpus`."""

    data: str
    compared: Request = field(default_factory=Request)


class TokenizerJob(RequestJob[TokenizerRequest]):
    """The job of one request, and what `store.keep` writes."""

    place, form, versions = "language", TypeAdapter(TokenizerRequest), (2, ANALYZER_VERSION)

    @classmethod
    def beside(cls, request: TokenizerRequest) -> tuple[object, ...]:
        """What the models compared with hold."""
        return (contents(request.compared.against),)


COUNTED = 1_000_000  # characters in which pieces are counted: of a larger corpus, its first documents
_COMPARING = 0.85  # share of the work before pieces are counted
_BLOCK = 64  # documents cut at a time


def run_folder(folder: Path, /) -> int:
    """Carry out what a page asked for."""
    return request_carried_out(TokenizerJob(folder), lambda asked, say: _work(asked, folder, say))


def _work(asked: TokenizerRequest, folder: Path, say: Progress) -> None:
    tokenizers = folder / comparison.TOKENIZERS
    corpus = find_corpus(asked.data)
    found = compare(
        corpus, asked.compared, out=tokenizers, on_progress=lambda name, share: say(name, _COMPARING * share)
    )
    prepared = [
        _prepared(one, tokenizers / comparison.folder_of(one, place)) for place, one in enumerate(found) if one.figures
    ]
    counted, occurrences = occurrences_of(
        prepared, corpus, lambda share: say("", _COMPARING + (1 - _COMPARING) * share)
    )
    comparison.keep_comparison(folder, corpus.name, found, occurrences, counted)


def _prepared(measured: Measured, folder: Path) -> PreparedTokenizer:
    """Return a tokenizer that was compared, as it stands in its folder; that of a model is put there first."""
    if measured.trained:
        return load_tokenizer(folder, measured.name)
    found = find_tokenizer(measured.name)
    with replacing(folder) as new:  # a model may change or go: what was compared stays
        new.mkdir()
        found.tokenizer.save(str(new / "tokenizer.json"))
    return found


def occurrences_of(
    tokenizers: Sequence[PreparedTokenizer], corpus: Corpus, on_progress: Callable[[float], None] | None = None
) -> tuple[int, list[np.ndarray]]:
    """Count how often each piece of each tokenizer `(n_pieces,)` occurs in the first documents of a corpus.

    Returns how many documents these are, and the counts. `on_progress` is told the share of them gone through.
    """
    counts = [np.zeros(_pieces(one), dtype=np.int64) for one in tokenizers]
    documents = _first(corpus)
    marks = any(one.marks_morphemes for one in tokenizers)
    for number, block in enumerate(in_blocks(documents, _BLOCK)):
        if on_progress:
            on_progress(number * _BLOCK / len(documents))
        texts = [composed_letters(text) for text in block]
        morphemes: Sequence[np.ndarray] = morpheme_cuts(texts) if marks else ()
        for place, one in enumerate(tokenizers):
            numbers = np.concatenate([cut.numbers for cut in one.cut(texts, morphemes)])
            counts[place] += np.bincount(numbers, minlength=len(counts[place]))
    return len(documents), counts


def _pieces(tokenizer: PreparedTokenizer) -> int:
    """How many numbers there are: some vocabularies leave numbers out."""
    return 1 + max(tokenizer.tokenizer.get_vocab().values())


def _first(corpus: Corpus) -> list[str]:
    seen = 0

    def has_room(document: str) -> bool:
        nonlocal seen
        seen += len(document)
        return seen - len(document) < COUNTED

    return list(takewhile(has_room, corpus.documents()))
