"""Tokenizers side by side: trained on the same documents by kind, split and vocabulary, and those of models.

What was trained and measured once is not again: it lies in the workspace's cache, in a folder each that is named by all
that decides how it comes out. A page has them compared by a process of its own, `mrc internal language FOLDER`. That
folder is named by what decides the result, too, and holds the tokenizers (`tokenizers/<name>/tokenizer.json`), how
often each of their pieces occurs (`occurrences.npz`) and, written last, the figures (`scores.json`): a folder with
scores is whole."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby, product
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import TypeAdapter, ValidationError

from mrc_workbench.data.cache import Arrays, Artifact, is_sound, key_of, sealing
from mrc_workbench.data.jobs.folder import RequestJob
from mrc_workbench.data.jobs.work import Progress, request_carried_out
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.text.corpora import Corpus, LanguageError, OnProgress, find_corpus, within
from mrc_workbench.data.texts import in_blocks
from mrc_workbench.data.workspace import read_json, replacing, workspace, write_json
from mrc_workbench.labs.language.fertility import Fertility, HeldOut, fertility
from mrc_workbench.models.hub import ModelError
from mrc_workbench.models.language.tokenizer_training import (
    TRAINED,
    Sample,
    Split,
    TokenizerKind,
    TokenizerOptions,
    composed_letters,
    gathered,
    morpheme_cuts,
    train_on,
)
from mrc_workbench.models.language.tokenizers import PreparedTokenizer, find_tokenizer, load_tokenizer
from mrc_workbench.models.sources import contents

_VERSION = 1  # raise when the same options would come out different, or figures be others
_FIGURES, _READER = "figures.json", TypeAdapter(Fertility)
_TOKENIZER = "tokenizer"  # the folder of what `TrainedTokenizer.save` wrote
_FAILURES = {kind.__name__: kind for kind in (LanguageError, ModelError)}
TOKENIZERS = "tokenizers"  # the folder of all of them
COUNTED = 1_000_000  # characters in which pieces are counted: of a larger corpus, its first documents
_COMPARING = 0.85  # share of the work before pieces are counted
_BLOCK = 64  # documents cut at a time


@dataclass(frozen=True)
class Request:
    """What is compared: all kinds with all splits and vocabularies, and the tokenizers of models."""

    kinds: tuple[TokenizerKind, ...] = (*TokenizerKind,)
    splits: tuple[Split, ...] = (Split.WORDS,)
    vocabularies: tuple[int, ...] = (8_000,)
    against: tuple[str, ...] = ()
    sample: Sample = field(default_factory=Sample)

    @property
    def count(self) -> int:
        return len(self.kinds) * len(self.splits) * len(self.vocabularies) + len(self.against)

    def label(self, kind: TokenizerKind, split: Split, vocabulary: int) -> str:
        """Return what tells a tokenizer from the others: its kind, and what else there are several of."""
        told = [kind, *([split] if len(self.splits) > 1 else []), *([vocabulary] if len(self.vocabularies) > 1 else [])]
        return "-".join(map(str, told))

    def trained(self) -> dict[str, TokenizerOptions]:
        """By label; those of a split stand together."""
        return {
            self.label(kind, split, vocabulary): TokenizerOptions(kind, vocabulary, replace(self.sample, split=split))
            for split, kind, vocabulary in product(self.splits, self.kinds, self.vocabularies)
        }


@dataclass(frozen=True)
class Refusal:
    """Why a tokenizer has no figures: a `Failure` as JSON keeps it, with the name of its class."""

    kind: str
    told: dict[str, Any]

    @classmethod
    def of(cls, error: Failure) -> Self:
        return cls(type(error).__name__, error.as_dict())

    @property
    def failure(self) -> Failure:
        return _FAILURES.get(self.kind, Failure).from_dict(self.told)


@dataclass(frozen=True)
class Measured:
    """A tokenizer and its figures, or why it has none. `trained` is empty for one of a model."""

    name: str
    trained: dict[str, Any]
    figures: Fertility | None
    refusal: Refusal | None = None

    def as_dict(self) -> dict[str, Any]:
        if self.figures:
            return {**self.trained, **asdict(self.figures)}
        return self.refusal.failure.as_dict() if self.refusal else {}


def compare(
    corpus: Corpus,
    request: Request,
    *,
    out: Path | None = None,
    on_progress: Callable[[str, float], None] | None = None,
) -> list[Measured]:
    """Train what is asked for, each kept in a folder of its name under `out`, and measure it on documents held out.

    What an earlier comparison trained on the same text is not trained again. A model whose tokenizer cannot be had is
    told with its reason. `on_progress` is told the last one measured, and the share of the work done. Raises
    `LanguageError`.
    """
    wanted = request.trained()
    known = {label: _trained_before(corpus, options) for label, options in wanted.items()}
    missing = {label: wanted[label] for label, one in known.items() if one is None}
    splits = {options.sample.split for options in missing.values()}
    steps = _Steps(len(missing) + len(splits) + len(request.against), on_progress, corpus.name)
    steps.tell()
    held = HeldOut.from_corpus(corpus, request.sample)
    known |= _train(corpus, missing, held, steps)
    if out:
        for options in wanted.values():
            with replacing(out / options.name) as new:
                shutil.copytree(_folder_of_trained(corpus, options) / _TOKENIZER, new)
    found = [Measured(label, *one) for label, one in known.items() if one]
    for reference in request.against:
        found.append(_of_model(reference, held))
        steps.take(reference)
    return found


@dataclass
class _Steps:
    """How many steps there are and how many are done, the last of them with this name."""

    count: int
    on_progress: Callable[[str, float], None] | None
    last: str
    done: int = 0

    def tell(self, share: float = 0.0) -> None:
        """`share` is that of the step at hand."""
        if self.on_progress:
            self.on_progress(self.last, (self.done + share) / max(1, self.count))

    def take(self, name: str) -> None:
        self.last, self.done = name, self.done + 1
        self.tell()


def _train(
    corpus: Corpus, missing: Mapping[str, TokenizerOptions], held: HeldOut, steps: _Steps
) -> dict[str, tuple[dict[str, Any], Fertility]]:
    """Train and measure what is missing, those of one split on the same material, and keep each at once."""
    made = {}
    for sample, of_split in groupby(missing.items(), key=lambda one: one[1].sample):
        with gathered(corpus, sample, steps.tell) as material:
            steps.take(corpus.name)
            for label, options in of_split:
                trained = train_on(material, options.kind, options.vocabulary, steps.tell)
                prepared = PreparedTokenizer.of(trained)
                figures = fertility(prepared, held)
                with sealing(_folder_of_trained(corpus, options)) as new:
                    trained.save(new / _TOKENIZER)
                    write_json(new / _FIGURES, asdict(figures))
                made[label] = prepared.trained, figures
                steps.take(label)
    return made


def _trained_before(corpus: Corpus, options: TokenizerOptions) -> tuple[dict[str, Any], Fertility] | None:
    """How a tokenizer was trained, and its figures; None where it was not, or not by this version."""
    folder = _folder_of_trained(corpus, options)
    if not is_sound(folder):
        return None
    try:
        figures = _READER.validate_python(read_json(folder / _FIGURES))
    except ValidationError:
        return None
    return read_json(folder / _TOKENIZER / "tokenizer_config.json")[TRAINED], figures


def _folder_of_trained(corpus: Corpus, options: TokenizerOptions) -> Path:
    told = (corpus.fingerprint, options.kind, options.vocabulary, asdict(options.sample))
    return workspace() / "cache" / "compared_tokenizers" / key_of(_VERSION, ANALYZER_VERSION, *told)


def _of_model(reference: str, held: HeldOut) -> Measured:
    try:
        tokenizer = find_tokenizer(reference)
        return Measured(reference, tokenizer.trained, fertility(tokenizer, held))
    except Failure as error:
        return Measured(reference, {}, None, Refusal.of(error))
    except (OSError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)[:300]
        told = LanguageError("not_loaded", str(error), name=reference[:200], reason=reason)
        return Measured(reference, {}, None, Refusal.of(told))


@dataclass(frozen=True)
class _Content:
    corpus: str
    counted: int
    tokenizers: list[Measured]


_ARTIFACT = Artifact("comparison of tokenizers", TypeAdapter(_Content), "occurrences.npz")


@dataclass(frozen=True)
class KeptTokenizer:
    """A tokenizer that was compared, and how often each piece `(n_pieces,)` occurs in what was counted."""

    measured: Measured
    figures: Fertility
    folder: Path
    occurrences: np.ndarray

    @property
    def is_trained(self) -> bool:
        return bool(self.measured.trained)

    def load(self) -> PreparedTokenizer:
        """Raises `LanguageError` `no_tokenizer`."""
        return load_tokenizer(self.folder, self.measured.name)


@dataclass(frozen=True)
class KeptComparison:
    """What was measured on `corpus`; pieces were counted in the first `counted` of its documents.

    `failed` has the reasons of those that have no figures, by name.
    """

    corpus: str
    counted: int
    tokenizers: tuple[KeptTokenizer, ...]
    failed: dict[str, Failure]


def folder_of(measured: Measured, place: int) -> str:
    """Return what the folder of a tokenizer is called, the one at `place` (from 0) of a comparison.

    A trained one is called as `TokenizerOptions.name`; the name of a model may be a path, and is none.
    """
    trained = measured.trained
    return f"{trained['kind']}-{trained['split']}-{trained['vocabulary']}" if trained else f"model-{place}"


def keep_comparison(
    folder: Path, corpus: str, found: Sequence[Measured], occurrences: Sequence[np.ndarray], counted: int
) -> None:
    """Write what `load_comparison` reads; `occurrences` are of those that have figures. Raises `OSError`."""
    places = [str(place) for place, one in enumerate(found) if one.figures]
    content = _Content(corpus=corpus, counted=counted, tokenizers=list(found))
    _ARTIFACT.write(folder, content, dict(zip(places, occurrences, strict=True)))


def load_comparison(folder: Path) -> KeptComparison:
    """Read a comparison. Raises `ValueError` where the folder holds no whole one of this version."""

    def made(told: _Content, arrays: Arrays) -> KeptComparison:
        kept = [
            KeptTokenizer(one, one.figures, folder / TOKENIZERS / folder_of(one, place), arrays[str(place)])
            for place, one in enumerate(told.tokenizers)
            if one.figures
        ]
        failed = {one.name: one.refusal.failure for one in told.tokenizers if one.refusal}
        return KeptComparison(told.corpus, told.counted, tuple(kept), failed)

    return _ARTIFACT.read(folder, made)


@dataclass(frozen=True)
class TokenizerRequest:
    """Tokenizers to compare over a text, named as for `data.text.corpora.find_corpus`."""

    data: str
    compared: Request = field(default_factory=Request)


class TokenizerJob(RequestJob[TokenizerRequest]):
    """The job of one request, and what `keep_comparison` writes."""

    place, form, versions = "language", TypeAdapter(TokenizerRequest), (2, ANALYZER_VERSION)

    @classmethod
    def beside(cls, request: TokenizerRequest) -> tuple[object, ...]:
        return (contents(request.compared.against),)


def run_folder(folder: Path, /) -> int:
    """Carry out what a page asked for."""

    def work(asked: TokenizerRequest, say: Progress) -> None:
        corpus, out = find_corpus(asked.data), folder / TOKENIZERS
        found = compare(corpus, asked.compared, out=out, on_progress=lambda name, share: say(name, _COMPARING * share))
        able = [(one, out / folder_of(one, place)) for place, one in enumerate(found) if one.figures]
        counting = within(lambda share: say("", share), _COMPARING, 1)
        counted, occurrences = occurrences_of([_prepared(*one) for one in able], corpus, counting)
        keep_comparison(folder, corpus.name, found, occurrences, counted)

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
