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

from mrc_workbench.data.cache import is_intact, key_of, sealing
from mrc_workbench.data.problems import Failure, failure_dict
from mrc_workbench.data.studies import StoredError
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.text.corpora import Corpus, LanguageError, is_held_out
from mrc_workbench.data.workspace import read_json, replacing, workspace, write_json
from mrc_workbench.models.language.tokenizer_training import (
    TRAINED,
    PreTokenization,
    Sample,
    TokenizerKind,
    TokenizerOptions,
    cut_positions,
    gather_documents,
    morpheme_boundaries,
    normalize_text,
    train_on,
)
from mrc_workbench.models.language.tokenizers import Cut, PreparedTokenizer, find_tokenizer, load_tokenizer

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_WORD = regex.compile(r"\S+")


@dataclass(frozen=True)
class HeldOutDocuments:
    """Documents that no tokenizer of a sample was trained on, and where their morphemes begin inside words."""

    texts: tuple[str, ...]
    morphemes: tuple[np.ndarray, ...]
    seconds: float  # that Kiwi took

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> "HeldOutDocuments":
        composed = [text for text in map(normalize_text, texts) if text.strip()]
        began = perf_counter()
        morphemes = morpheme_boundaries(composed)
        return cls(tuple(composed), tuple(morphemes), perf_counter() - began)

    @classmethod
    def from_corpus(cls, corpus: Corpus, sample: Sample, max_characters: int = 1_000_000) -> "HeldOutDocuments":
        """Return the documents held out by a sample; if longer than `most` characters, some by their hash.

        Raises `LanguageError` `nothing_held_out`.
        """
        fraction = min(sample.held_out, max_characters / max(1, corpus.characters))
        held = cls.from_texts(
            [document for document in corpus.documents() if is_held_out(document, fraction, sample.seed)]
        )
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


def measure_fertility(tokenizer: PreparedTokenizer, held_out_documents: HeldOutDocuments) -> Fertility:
    """Measure a tokenizer on documents it was not trained on."""
    began = perf_counter()
    cut_documents = tokenizer.cut(held_out_documents.texts, held_out_documents.morphemes)
    seconds = perf_counter() - began + (held_out_documents.seconds if tokenizer.marks_morphemes else 0.0)
    counts: Counter[str] = Counter()
    for document in zip(held_out_documents.texts, held_out_documents.morphemes, cut_documents, strict=True):
        counts.update(_count_tokens(*document, tokenizer.unknown))
    n_special_tokens = tokenizer.tokenizer.num_special_tokens_to_add(False)
    lengths = np.array([len(cut.numbers) + n_special_tokens for cut in cut_documents])
    return Fertility(
        pieces=tokenizer.tokenizer.get_vocab_size(),
        documents=len(held_out_documents.texts),
        words=counts["words"],
        characters=counts["characters"],
        tokens=counts["tokens"],
        tokens_per_word=counts["tokens"] / counts["words"],
        tokens_per_character=counts["tokens"] / counts["characters"],
        unknown_rate=counts["unknown"] / max(1, counts["tokens"]),
        unknown_words=counts["unknown_words"] / counts["words"],
        whole_words=counts["whole"] / counts["words"],
        precision=_ratio(counts["hits"], counts["made"]),
        recall=_ratio(counts["hits"], counts["morphemes"]),
        f1=_ratio(2 * counts["hits"], counts["made"] + counts["morphemes"]),
        document_tokens={f"{quantile:g}": float(np.quantile(lengths, quantile)) for quantile in _QUANTILES},
        longer_than_512=float((lengths > 512).mean()),
        tokens_per_second=counts["tokens"] / max(seconds, 1e-9),
        seconds_to_train=tokenizer.trained.get("seconds"),
    )


def _count_tokens(text: str, morphemes: np.ndarray, cut: Cut, unknown: int | None) -> dict[str, int]:
    words = np.array([match.span() for match in _WORD.finditer(text)])
    # a blank that is a piece of its own belongs to the word that follows
    of_word = np.minimum(np.searchsorted(words[:, 1], cut.spans[:, 0], side="right"), len(words) - 1)
    is_unknown = cut.numbers == unknown if unknown is not None else np.zeros(len(cut.numbers), dtype=bool)
    tokens = np.bincount(of_word, minlength=len(words))
    unknowns = np.bincount(of_word[is_unknown], minlength=len(words))
    boundaries = cut_positions(cut.spans, text)
    return {
        "characters": int((words[:, 1] - words[:, 0]).sum()),
        "words": len(words),
        "tokens": len(cut.numbers),
        "unknown": int(is_unknown.sum()),
        "unknown_words": int((unknowns > 0).sum()),
        "whole": int(((tokens == 1) & (unknowns == 0)).sum()),
        "made": len(boundaries),
        "morphemes": len(morphemes),
        "hits": len(np.intersect1d(boundaries, morphemes)),
    }


def _ratio(part: int, total: int) -> float | None:
    return part / total if total else None


_VERSION = 1  # raise when the same options would come out different, or figures be others
_METRICS_FILE = "figures.json"
_METRICS_ADAPTER = TypeAdapter(Fertility)
_TOKENIZER_FOLDER = "tokenizer"  # the folder of what `TrainedTokenizer.save` wrote


@dataclass(frozen=True)
class TokenizerGrid:
    """What is compared: all kinds with all splits and vocabularies, and the tokenizers of models."""

    kinds: tuple[TokenizerKind, ...] = (*TokenizerKind,)
    splits: tuple[PreTokenization, ...] = (PreTokenization.WORDS,)
    vocabularies: tuple[int, ...] = (8_000,)
    against: tuple[str, ...] = ()
    sample: Sample = field(default_factory=Sample)

    @property
    def count(self) -> int:
        return len(self.kinds) * len(self.splits) * len(self.vocabularies) + len(self.against)

    def label(self, kind: TokenizerKind, split: PreTokenization, vocabulary: int) -> str:
        """Return the name of a tokenizer: its kind, and whatever else varies."""
        parts = [
            kind,
            *([split] if len(self.splits) > 1 else []),
            *([vocabulary] if len(self.vocabularies) > 1 else []),
        ]
        return "-".join(map(str, parts))

    def training_options(self) -> dict[str, TokenizerOptions]:
        """Return the options by label, those of a split together."""
        return {
            self.label(kind, split, vocabulary): TokenizerOptions(kind, vocabulary, replace(self.sample, split=split))
            for split, kind, vocabulary in product(self.splits, self.kinds, self.vocabularies)
        }


@dataclass(frozen=True)
class TokenizerResult:
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
    request: TokenizerGrid,
    *,
    out: Path | None = None,
    on_progress: Callable[[str, float], None] | None = None,
) -> list[TokenizerResult]:
    """Train the requested tokenizers, each stored by its name under `out`, and measure them on held-out documents.

    Earlier trainings on the same text are reused. A model without a tokenizer has its error. `on_progress` reports the
    last tokenizer measured, and the fraction of the work done. Raises `LanguageError`.
    """
    options_by_label = request.training_options()
    results = {label: _load_trained(corpus, options) for label, options in options_by_label.items()}
    missing = {label: options_by_label[label] for label, result in results.items() if result is None}
    splits = {options.sample.split for options in missing.values()}
    steps = _StepProgress(len(missing) + len(splits) + len(request.against), on_progress, corpus.name)
    steps.report()
    held_out_documents = HeldOutDocuments.from_corpus(corpus, request.sample)
    results |= _train(corpus, missing, held_out_documents, steps)
    if out:
        for options in options_by_label.values():
            with replacing(out / options.name) as new:
                shutil.copytree(_trained_folder(corpus, options) / _TOKENIZER_FOLDER, new)
    tokenizer_results = [TokenizerResult(label, *result) for label, result in results.items() if result]
    for reference in request.against:
        tokenizer_results.append(_measure_model(reference, held_out_documents))
        steps.advance(reference)
    return tokenizer_results


@dataclass
class _StepProgress:
    """How many steps there are and how many are done, the last of them with this name."""

    count: int
    on_progress: Callable[[str, float], None] | None
    last: str
    done: int = 0

    def report(self, fraction: float = 0.0) -> None:
        """`share` is the fraction of the current step."""
        if self.on_progress:
            self.on_progress(self.last, (self.done + fraction) / max(1, self.count))

    def advance(self, name: str) -> None:
        self.last = name
        self.done = self.done + 1
        self.report()


def _train(
    corpus: Corpus, missing: Mapping[str, TokenizerOptions], held_out_documents: HeldOutDocuments, steps: _StepProgress
) -> dict[str, tuple[dict[str, Any], Fertility]]:
    """Train and measure the missing tokenizers, those of one split on the same material, and store each at once."""
    results = {}
    for sample, of_split in groupby(missing.items(), key=lambda item: item[1].sample):
        with gather_documents(corpus, sample, steps.report) as training_data:
            steps.advance(corpus.name)
            for label, options in of_split:
                trained = train_on(training_data, options.kind, options.vocabulary, steps.report)
                prepared = PreparedTokenizer.from_trained(trained)
                metrics = measure_fertility(prepared, held_out_documents)
                with sealing(_trained_folder(corpus, options)) as new:
                    trained.save(new / _TOKENIZER_FOLDER)
                    write_json(new / _METRICS_FILE, asdict(metrics))
                results[label] = prepared.trained, metrics
                steps.advance(label)
    return results


def _load_trained(corpus: Corpus, options: TokenizerOptions) -> tuple[dict[str, Any], Fertility] | None:
    """Return how a tokenizer was trained, and its metrics; None if this version did not train it."""
    folder = _trained_folder(corpus, options)
    if not is_intact(folder):
        return None
    try:
        metrics = _METRICS_ADAPTER.validate_python(read_json(folder / _METRICS_FILE))
    except ValidationError:
        return None
    return read_json(folder / _TOKENIZER_FOLDER / "tokenizer_config.json")[TRAINED], metrics


def _trained_folder(corpus: Corpus, options: TokenizerOptions) -> Path:
    key_parts = (corpus.fingerprint, options.kind, options.vocabulary, asdict(options.sample))
    return workspace() / "cache" / "compared_tokenizers" / key_of(_VERSION, ANALYZER_VERSION, *key_parts)


def _measure_model(reference: str, held_out_documents: HeldOutDocuments) -> TokenizerResult:
    try:
        tokenizer = find_tokenizer(reference)
        return TokenizerResult(reference, tokenizer.trained, measure_fertility(tokenizer, held_out_documents))
    except Failure as error:
        return TokenizerResult(reference, {}, None, error)
    except (OSError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)[:300]
        failure = LanguageError("not_loaded", str(error), name=reference[:200], reason=reason)
        return TokenizerResult(reference, {}, None, failure)


def prepared_tokenizer(measured: TokenizerResult, corpus: Corpus, request: TokenizerGrid) -> PreparedTokenizer:
    """Load a tokenizer that `compare` measured. Raises `LanguageError` `no_tokenizer`."""
    options = request.training_options().get(measured.name)
    if options is None:
        return find_tokenizer(measured.name)
    return load_tokenizer(_trained_folder(corpus, options) / _TOKENIZER_FOLDER, measured.name)
