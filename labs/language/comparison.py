"""Comparison of tokenizers on held-out text: trained by kind, split and vocabulary, or of models.

Each tokenizer is trained and measured once: the cache has a folder for each, keyed by its text and options.
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
from mrc_workbench.data.files import accept_earlier_names
from mrc_workbench.data.problems import Failure, failure_dict
from mrc_workbench.data.studies import StoredError
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.text.corpora import Corpus, LanguageError, is_held_out
from mrc_workbench.data.workspace import read_json, replacing, workspace, write_json
from mrc_workbench.models.language import tokenizer_training
from mrc_workbench.models.language.tokenizer_training import PreTokenization, Sample, TokenizerKind, TokenizerOptions
from mrc_workbench.models.language.tokenizers import Cut, PreparedTokenizer, find_tokenizer, load_tokenizer

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_WORD = regex.compile(r"\S+")
_VERSION = 2  # raise if the same options give another tokenizer or other metrics
_METRICS_FILE = "metrics.json"
_TOKENIZER_FOLDER = "tokenizer"


@dataclass(frozen=True)
class HeldOutDocuments:
    """Documents that are not in the training text of a sample, and positions of morphemes inside their words."""

    texts: tuple[str, ...]
    morphemes: tuple[np.ndarray, ...]
    seconds: float  # of Kiwi

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> "HeldOutDocuments":
        composed = [text for text in map(tokenizer_training.normalize_text, texts) if text.strip()]
        began = perf_counter()
        morphemes = tokenizer_training.morpheme_boundaries(composed)
        return cls(tuple(composed), tuple(morphemes), perf_counter() - began)

    @classmethod
    def from_corpus(cls, corpus: Corpus, sample: Sample, max_characters: int = 1_000_000) -> "HeldOutDocuments":
        """Return the documents that a sample holds out, or about `max_characters` of them, selected by hash.

        Raises `LanguageError` `nothing_held_out`.
        """
        fraction = min(sample.held_out, max_characters / max(1, corpus.characters))
        texts = [document for document in corpus.documents() if is_held_out(document, fraction, sample.seed)]
        held_out_documents = cls.from_texts(texts)
        if not held_out_documents.texts:
            message = f"{corpus.name} is too small: it has no held-out document to measure on"
            raise LanguageError("nothing_held_out", message, corpus=corpus.name)
        return held_out_documents


@dataclass(frozen=True)
class Fertility:
    """How a tokenizer cuts documents: fractions from 0 to 1, None if not measurable.

    Words are separated by spaces and include punctuation; characters exclude spaces.

    - `tokens_per_word` (fertility, Rust et al. 2021), `tokens_per_character`: lower is cheaper.
    - `unknown_rate`: unknown tokens, which are words in WordPiece, letters in BPE and runs of letters in Unigram.
      `unknown_words`: words with an unknown token, comparable across kinds. `whole_words`: words of one token.
    - `precision`, `recall`, `f1` of cuts between letters or digits of a word, compared with Kiwi's morphemes over all
      documents. Boundaries inside a syllable (갔 is 가 + 았) and cuts between bytes do not count.
    - `document_tokens`: quantiles of tokens per document with [CLS] and [SEP]; `longer_than_512`: documents.
    - `tokens_per_second`: includes Kiwi's time if morphemes are marked first; `seconds_to_train` excludes it.
    """

    vocabulary_size: int
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
    _earlier = accept_earlier_names({"pieces": "vocabulary_size"})


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
        vocabulary_size=tokenizer.tokenizer.get_vocab_size(),
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
    # a blank token belongs to the word after it
    of_word = np.minimum(np.searchsorted(words[:, 1], cut.spans[:, 0], side="right"), len(words) - 1)
    is_unknown = cut.numbers == unknown if unknown is not None else np.zeros(len(cut.numbers), dtype=bool)
    tokens = np.bincount(of_word, minlength=len(words))
    unknowns = np.bincount(of_word[is_unknown], minlength=len(words))
    boundaries = tokenizer_training.cut_positions(cut.spans, text)
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


_METRICS_ADAPTER = TypeAdapter(Fertility)


@dataclass(frozen=True)
class TokenizerGrid:
    """Tokenizers to compare: all kinds with all splits and vocabularies, and those of the models `against`."""

    kinds: tuple[TokenizerKind, ...] = (*TokenizerKind,)
    splits: tuple[PreTokenization, ...] = (PreTokenization.WORDS,)
    vocabularies: tuple[int, ...] = (8_000,)
    against: tuple[str, ...] = ()
    sample: Sample = field(default_factory=Sample)

    @property
    def count(self) -> int:
        return len(self.kinds) * len(self.splits) * len(self.vocabularies) + len(self.against)

    def label(self, kind: TokenizerKind, split: PreTokenization, vocabulary: int) -> str:
        """Return the name of a tokenizer: its kind, with the split and the vocabulary if they vary."""
        parts: list[object] = [kind]
        if len(self.splits) > 1:
            parts.append(split)
        if len(self.vocabularies) > 1:
            parts.append(vocabulary)
        return "-".join(map(str, parts))

    def training_options(self) -> dict[str, TokenizerOptions]:
        """Return the options by label, grouped by split."""
        return {
            self.label(kind, split, vocabulary): TokenizerOptions(kind, vocabulary, replace(self.sample, split=split))
            for split, kind, vocabulary in product(self.splits, self.kinds, self.vocabularies)
        }


@dataclass(frozen=True)
class TokenizerResult:
    """A tokenizer's metrics or its error. `training_options` is empty for a model's tokenizer."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    name: str
    training_options: dict[str, Any]
    metrics: Fertility | None
    error: StoredError | None = None
    _earlier = accept_earlier_names({"figures": "metrics", "trained": "training_options"})

    def as_dict(self) -> dict[str, Any]:
        if self.metrics:
            return {**self.training_options, **asdict(self.metrics)}
        return failure_dict(self.error) if self.error else {}


def compare(
    corpus: Corpus,
    request: TokenizerGrid,
    *,
    out: Path | None = None,
    on_progress: Callable[[str, float], None] | None = None,
) -> list[TokenizerResult]:
    """Train the requested tokenizers, store each by its name under `out`, and measure them on held-out documents.

    Reuses earlier trainings on the same text. The result of a model without a tokenizer has its error. `on_progress`
    reports the last measured tokenizer and the fraction of the work done. Raises `LanguageError`.
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
    """Reports progress over `count` steps, with the name of the last finished one."""

    count: int
    on_progress: Callable[[str, float], None] | None
    last: str
    done: int = 0

    def report(self, fraction: float = 0.0) -> None:
        if self.on_progress:
            self.on_progress(self.last, (self.done + fraction) / max(1, self.count))

    def advance(self, name: str) -> None:
        self.last = name
        self.done += 1
        self.report()


def _train(
    corpus: Corpus, missing: Mapping[str, TokenizerOptions], held_out_documents: HeldOutDocuments, steps: _StepProgress
) -> dict[str, tuple[dict[str, Any], Fertility]]:
    """Train, measure and store the missing tokenizers; those with one split share their training data."""
    results = {}
    for sample, members in groupby(missing.items(), key=lambda item: item[1].sample):
        with tokenizer_training.gather_documents(corpus, sample, steps.report) as training_data:
            steps.advance(corpus.name)
            for label, options in members:
                trained = tokenizer_training.train_on(training_data, options.kind, options.vocabulary, steps.report)
                prepared = PreparedTokenizer.from_trained(trained)
                metrics = measure_fertility(prepared, held_out_documents)
                with sealing(_trained_folder(corpus, options)) as new:
                    trained.save(new / _TOKENIZER_FOLDER)
                    write_json(new / _METRICS_FILE, asdict(metrics))
                results[label] = prepared.trained, metrics
                steps.advance(label)
    return results


def _load_trained(corpus: Corpus, options: TokenizerOptions) -> tuple[dict[str, Any], Fertility] | None:
    folder = _trained_folder(corpus, options)
    if not is_intact(folder):
        return None
    try:
        metrics = _METRICS_ADAPTER.validate_python(read_json(folder / _METRICS_FILE))
    except ValidationError:
        return None
    return read_json(folder / _TOKENIZER_FOLDER / "tokenizer_config.json")[tokenizer_training.TRAINED], metrics


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


def load_result_tokenizer(result: TokenizerResult, corpus: Corpus, request: TokenizerGrid) -> PreparedTokenizer:
    """Load the tokenizer of a result. Raises `LanguageError` `no_tokenizer`."""
    options = request.training_options().get(result.name)
    if options is None:
        return find_tokenizer(result.name)
    return load_tokenizer(_trained_folder(corpus, options) / _TOKENIZER_FOLDER, result.name)
