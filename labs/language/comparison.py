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
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from mrc_workbench.data.cache import is_sound, key_of, sealing
from mrc_workbench.data.jobs.folder import Progress
from mrc_workbench.data.problems import Failure, failure_dict
from mrc_workbench.data.studies import Array, StoredError, Study
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.text.corpora import Corpus, LanguageError, OnProgress, find_corpus, within
from mrc_workbench.data.texts import in_blocks
from mrc_workbench.data.workspace import read_json, replacing, workspace, write_json
from mrc_workbench.labs.language.fertility import Fertility, HeldOut, fertility
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
class Measured:
    """A tokenizer and its figures, or why it has none. `trained` is empty for one of a model."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    name: str
    trained: dict[str, Any]
    figures: Fertility | None
    error: StoredError | None = None

    def as_dict(self) -> dict[str, Any]:
        if self.figures:
            return {**self.trained, **asdict(self.figures)}
        return failure_dict(self.error) if self.error else {}


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
        return Measured(reference, {}, None, error)
    except (OSError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)[:300]
        failure = LanguageError("not_loaded", str(error), name=reference[:200], reason=reason)
        return Measured(reference, {}, None, failure)


@dataclass(frozen=True)
class TokenizerRequest:
    """Tokenizers to compare over a text, named as for `data.text.corpora.find_corpus`."""

    data: str
    compared: Request = field(default_factory=Request)


@dataclass(frozen=True)
class TokenizerComparison:
    """Tokenizers compared on `corpus`. Token counts are over its first `counted` documents.

    `occurrences` has the count of each token `(n_tokens,)` of each tokenizer with figures, by its row.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    corpus: str
    counted: int
    tokenizers: list[Measured]
    occurrences: dict[int, Array]
    # the `PreparedTokenizer` of each row, before the result is stored
    prepared: Annotated[dict[int, Any], Field(exclude=True)] = field(default_factory=dict)

    @property
    def errors(self) -> dict[str, Exception]:
        """Why tokenizers have no figures, by name."""
        return {one.name: one.error for one in self.tokenizers if one.error}


@dataclass(frozen=True)
class StoredTokenizer:
    """A tokenizer of a stored comparison, and how often each token `(n_tokens,)` occurs in the counted documents."""

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


def stored_tokenizers(comparison: TokenizerComparison, folder: Path) -> list[StoredTokenizer]:
    """Return the tokenizers with figures of the comparison that is stored in a folder."""
    return [
        StoredTokenizer(one, one.figures, folder / TOKENIZERS / folder_name(one, row), comparison.occurrences[row])
        for row, one in enumerate(comparison.tokenizers)
        if one.figures
    ]


def folder_name(measured: Measured, row: int) -> str:
    """Return the folder name of the tokenizer in this row of a comparison; a model's name may be a path, so is none."""
    trained = measured.trained
    return f"{trained['kind']}-{trained['split']}-{trained['vocabulary']}" if trained else f"model-{row}"


def run(request: TokenizerRequest, progress: Progress) -> TokenizerComparison:
    """Train and compare tokenizers, and count their tokens. Raises `LanguageError`."""
    corpus = find_corpus(request.data)
    measured = compare(
        corpus, request.compared, on_progress=lambda name, fraction: progress(name, _COMPARING * fraction)
    )
    able = {row: _prepared(one, corpus, request.compared) for row, one in enumerate(measured) if one.figures}
    counting = within(lambda fraction: progress("", fraction), _COMPARING, 1)
    counted, occurrences = occurrences_of([*able.values()], corpus, counting)
    return TokenizerComparison(corpus.name, counted, measured, dict(zip(able, occurrences, strict=True)), able)


def _prepared(measured: Measured, corpus: Corpus, request: Request) -> PreparedTokenizer:
    options = request.trained().get(measured.name)
    if options is None:
        return find_tokenizer(measured.name)
    return load_tokenizer(_folder_of_trained(corpus, options) / _TOKENIZER, measured.name)


def save(result: TokenizerComparison, folder: Path) -> None:
    """Write the tokenizers, since a model may change or go, and the result. Raises `OSError`."""
    for row, tokenizer in result.prepared.items():
        with replacing(folder / TOKENIZERS / folder_name(result.tokenizers[row], row)) as new:
            if tokenizer.folder:
                shutil.copytree(tokenizer.folder, new)
            else:
                new.mkdir()
                tokenizer.tokenizer.save(str(new / "tokenizer.json"))
    STUDY.results.write(folder, result)


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


STUDY = Study[TokenizerRequest, TokenizerComparison](
    name="language",
    summary="Compare tokenizers and import texts.",
    versions=(3, ANALYZER_VERSION),
    spec=TokenizerRequest,
    result=TokenizerComparison,
    run=run,
    inputs=lambda request: (contents(request.compared.against),),
    save=save,
)
