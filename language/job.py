"""A comparison of tokenizers in a process of its own: the page that asks may be closed.

The process runs `python -m language run FOLDER`. The folder is named by what decides the result, so what was asked
before is there already."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from data.texts import in_blocks
from data.workspace import replacing
from jobs.folder import Progress, RequestJob, request_carried_out
from language import comparison
from language.comparison import Measured, Request, compare
from language.morphemes import composed_letters, morpheme_cuts
from language.prepared import PreparedTokenizer, find_tokenizer, load_tokenizer
from language.texts import Corpus, OnProgress, find_corpus, within
from models.sources import contents
from text.analyzers import VERSION as ANALYZER_VERSION


@dataclass(frozen=True)
class TokenizerRequest:
    """Tokenizers to compare over a text, named as for `language.texts.find_corpus`."""

    data: str
    compared: Request = field(default_factory=Request)


class TokenizerJob(RequestJob[TokenizerRequest]):
    """The job of one request, and what `store.keep` writes."""

    place, form, versions = "language", TypeAdapter(TokenizerRequest), (2, ANALYZER_VERSION)

    @classmethod
    def beside(cls, request: TokenizerRequest) -> tuple[object, ...]:
        return (contents(request.compared.against),)


COUNTED = 1_000_000  # characters in which pieces are counted: of a larger corpus, its first documents
_COMPARING = 0.85  # share of the work before pieces are counted
_BLOCK = 64  # documents cut at a time


def run_folder(folder: Path, /) -> int:
    """Carry out what a page asked for."""

    def work(asked: TokenizerRequest, say: Progress) -> None:
        corpus, out = find_corpus(asked.data), folder / comparison.TOKENIZERS
        found = compare(corpus, asked.compared, out=out, on_progress=lambda name, share: say(name, _COMPARING * share))
        able = [(one, out / comparison.folder_of(one, place)) for place, one in enumerate(found) if one.figures]
        counting = within(lambda share: say("", share), _COMPARING, 1)
        counted, occurrences = occurrences_of([_prepared(*one) for one in able], corpus, counting)
        comparison.keep_comparison(folder, corpus.name, found, occurrences, counted)

    return request_carried_out(TokenizerJob(folder), work)


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
    tokenizers: Sequence[PreparedTokenizer], corpus: Corpus, on_progress: OnProgress | None = None
) -> tuple[int, list[np.ndarray]]:
    """Count how often each piece of each tokenizer `(n_pieces,)` occurs in the first documents of a corpus.

    Returns how many documents these are, and the counts. `on_progress` is told the share of them gone through.
    """
    # some vocabularies leave numbers out
    counts = [np.zeros(1 + max(one.tokenizer.get_vocab().values()), dtype=np.int64) for one in tokenizers]
    documents, seen = list[str](), 0
    for document in corpus.documents():
        if seen >= COUNTED:
            break
        documents.append(document)
        seen += len(document)
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
