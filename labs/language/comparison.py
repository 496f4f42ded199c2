"""Tokenizers side by side: how each cuts held-out text, trained by kind, split and vocabulary, or those of models.

A tokenizer is trained and measured once: the workspace's cache holds a folder for each, keyed by all that decides it.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby, product
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import regex
from pydantic import ConfigDict, TypeAdapter, ValidationError

from mrc_workbench.data.cache import is_sound, key_of, sealing
from mrc_workbench.data.problems import Failure, failure_dict
from mrc_workbench.data.studies import StoredError
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.text.corpora import Corpus, LanguageError, held_out
from mrc_workbench.data.workspace import read_json, replacing, workspace, write_json
from mrc_workbench.models.language.tokenizer_training import (
    TRAINED,
    Sample,
    Split,
    TokenizerKind,
    TokenizerOptions,
    composed_letters,
    cuts,
    gathered,
    morpheme_cuts,
    train_on,
)
from mrc_workbench.models.language.tokenizers import Cut, PreparedTokenizer, find_tokenizer, load_tokenizer

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
        """Return the documents held out by a sample; if longer than `most` characters, some by their hash.

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
    """How a tokenizer cuts documents: fractions from 0 to 1, None if there is nothing to measure.

    Words stand between spaces, with the signs at their ends; characters are all but spaces.

    - `tokens_per_word` (fertility, Rust et al. 2021), `tokens_per_character`: fewer are cheaper to read.
    - `unknown_rate`: unknown tokens. One is a word in WordPiece, a letter in BPE and a run of letters in Unigram,
      so kinds are compared by `unknown_words`: words with an unknown token. `whole_words`: words that are one token.
    - `precision`, `recall`, `f1` of cuts between two letters or digits of a word, against Kiwi's morphemes, over
      all documents together. Boundaries inside a syllable (갔 is 가 + 았) and cuts between bytes do not count.
    - `document_tokens`: quantiles of a document's tokens, [CLS] and [SEP] included; `longer_than_512`: documents.
    - `tokens_per_second`: with Kiwi's seconds if morphemes are marked first; `seconds_to_train`: without them.
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
    counts: Counter[str] = Counter()
    for document in zip(held.texts, held.morphemes, found, strict=True):
        counts.update(_counted(*document, tokenizer.unknown))
    around = tokenizer.tokenizer.num_special_tokens_to_add(False)
    lengths = np.array([len(cut.numbers) + around for cut in found])
    return Fertility(
        pieces=tokenizer.tokenizer.get_vocab_size(),
        documents=len(held.texts),
        words=counts["words"],
        characters=counts["characters"],
        tokens=counts["tokens"],
        tokens_per_word=counts["tokens"] / counts["words"],
        tokens_per_character=counts["tokens"] / counts["characters"],
        unknown_rate=counts["unknown"] / max(1, counts["tokens"]),
        unknown_words=counts["unknown_words"] / counts["words"],
        whole_words=counts["whole"] / counts["words"],
        precision=_share(counts["hits"], counts["made"]),
        recall=_share(counts["hits"], counts["morphemes"]),
        f1=_share(2 * counts["hits"], counts["made"] + counts["morphemes"]),
        document_tokens={f"{share:g}": float(np.quantile(lengths, share)) for share in _QUANTILES},
        longer_than_512=float((lengths > 512).mean()),
        tokens_per_second=counts["tokens"] / max(seconds, 1e-9),
        seconds_to_train=tokenizer.trained.get("seconds"),
    )


def _counted(text: str, morphemes: np.ndarray, cut: Cut, unknown: int | None) -> dict[str, int]:
    words = np.array([match.span() for match in _WORD.finditer(text)])
    # a blank that is a piece of its own belongs to the word that follows
    of_word = np.minimum(np.searchsorted(words[:, 1], cut.spans[:, 0], side="right"), len(words) - 1)
    is_unknown = cut.numbers == unknown if unknown is not None else np.zeros(len(cut.numbers), dtype=bool)
    tokens = np.bincount(of_word, minlength=len(words))
    unknowns = np.bincount(of_word[is_unknown], minlength=len(words))
    made = cuts(cut.spans, text)
    return {
        "characters": int((words[:, 1] - words[:, 0]).sum()),
        "words": len(words),
        "tokens": len(cut.numbers),
        "unknown": int(is_unknown.sum()),
        "unknown_words": int((unknowns > 0).sum()),
        "whole": int(((tokens == 1) & (unknowns == 0)).sum()),
        "made": len(made),
        "morphemes": len(morphemes),
        "hits": len(np.intersect1d(made, morphemes)),
    }


def _share(part: int, of: int) -> float | None:
    return part / of if of else None


_VERSION = 1  # raise when the same options would come out different, or figures be others
_FIGURES, _READER = "figures.json", TypeAdapter(Fertility)
_TOKENIZER = "tokenizer"  # the folder of what `TrainedTokenizer.save` wrote


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
        """Return the name of a tokenizer: its kind, and whatever else varies."""
        told = [kind, *([split] if len(self.splits) > 1 else []), *([vocabulary] if len(self.vocabularies) > 1 else [])]
        return "-".join(map(str, told))

    def trained(self) -> dict[str, TokenizerOptions]:
        """Return the options by label, those of a split together."""
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
    """Train the requested tokenizers, each stored by its name under `out`, and measure them on held-out documents.

    Earlier trainings on the same text are reused. A model without a tokenizer has its error. `on_progress` reports the
    last tokenizer measured, and the fraction of the work done. Raises `LanguageError`.
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
        """`share` is the fraction of the current step."""
        if self.on_progress:
            self.on_progress(self.last, (self.done + share) / max(1, self.count))

    def take(self, name: str) -> None:
        self.last, self.done = name, self.done + 1
        self.tell()


def _train(
    corpus: Corpus, missing: Mapping[str, TokenizerOptions], held: HeldOut, steps: _Steps
) -> dict[str, tuple[dict[str, Any], Fertility]]:
    """Train and measure the missing tokenizers, those of one split on the same material, and store each at once."""
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
    """Return how a tokenizer was trained, and its metrics; None if this version did not train it."""
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


def prepared_tokenizer(measured: Measured, corpus: Corpus, request: Request) -> PreparedTokenizer:
    """Load a tokenizer that `compare` measured. Raises `LanguageError` `no_tokenizer`."""
    options = request.trained().get(measured.name)
    if options is None:
        return find_tokenizer(measured.name)
    return load_tokenizer(_folder_of_trained(corpus, options) / _TOKENIZER, measured.name)
