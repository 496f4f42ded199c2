"""Training and validation data of a masked language model: rows of tokens, some masked, and their tokenizer."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import Any, Self

import numpy as np
from filelock import FileLock, Timeout

from mrc_workbench.data.cache import is_intact, key_of, sealing
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.text.corpora import (
    Corpus,
    LanguageError,
    ProgressCallback,
    is_held_out,
    report_documents,
    scale_progress,
)
from mrc_workbench.data.workspace import read_json, workspace, write_json
from mrc_workbench.models.language.masking import (
    GUESSED,
    Blocks,
    MaskedPredictions,
    Masker,
    PackedBlocks,
    SegmentPairs,
    unigram_predictions,
)
from mrc_workbench.models.language.tokenizer_training import (
    MAX_CHARACTERS,
    Sample,
    TokenizerOptions,
    TrainedTokenizer,
    TrainingDocuments,
    gather_documents,
    train_on,
)
from mrc_workbench.models.language.tokenizers import Specials, TokenFile, WholeWords, write_tokens
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.training.base import Columns, Measurement
from mrc_workbench.training.options import TrainingError
from mrc_workbench.training.text_options import LanguageOptions

UNIGRAM = "unigram"
LanguageMeasurement = Measurement[MaskedPredictions]
_DECODED_ROWS = 256


@dataclass(frozen=True)
class MaskedRows:
    """Rows of tokens, of which some tokens or whole words are masked."""

    blocks: Blocks
    masker: Masker
    masks_whole_words: bool
    seed: int

    def __len__(self) -> int:
        return len(self.blocks)

    def batch(self, rows: Sequence[int]) -> dict[str, np.ndarray]:
        """Mask tokens, by the seed, the rows and their order; returns the input arrays of `MaskedNetwork`."""
        rng = np.random.default_rng([self.seed, *rows])
        rows_read = self.blocks.read(rows, rng)
        words = rows_read.words
        if not self.masks_whole_words:
            words = np.broadcast_to(np.arange(rows_read.tokens.shape[1]), rows_read.tokens.shape)
        masked_tokens, labels = self.masker.mask_tokens(rows_read.tokens, words, rng)
        hidden_count = max(1, int((labels >= 0).sum()))
        arrays = {
            "input_ids": masked_tokens,
            "token_type_ids": rows_read.segments,
            "attention_mask": (np.arange(rows_read.tokens.shape[1]) < rows_read.lengths[:, None]).astype(np.int64),
            "labels": labels,
            "weights": np.full((len(rows), 1), len(rows) / hidden_count, dtype=np.float32),
        }
        return arrays | ({} if rows_read.follows is None else {"follows": rows_read.follows[:, None]})

    def features(self, rows: Sequence[int]) -> dict[str, Any]:
        import torch

        return {name: torch.from_numpy(values) for name, values in self.batch(rows).items()}

    def columns(self, tokenizer: Any) -> Columns:
        """Return texts for the estimate of lengths: those of the first rows, repeated."""
        read = self.blocks.read(range(min(_DECODED_ROWS, len(self))), np.random.default_rng(self.seed))
        rows = zip(read.tokens.tolist(), read.lengths.tolist(), strict=True)
        texts = [str(tokenizer.decode(row[:length], skip_special_tokens=True)) for row, length in rows]
        return {"text": [texts[row % len(texts)] for row in range(len(self))]}


@dataclass(frozen=True)
class MeasuredRows:
    """A random sample of at most `limit` rows (0: all), in fixed batches."""

    hidden: MaskedRows
    limit: int
    size: int

    @cached_property
    def rows(self) -> np.ndarray:
        rows = np.arange(len(self.hidden))
        if 0 < self.limit < len(rows):
            rows = np.sort(np.random.default_rng(self.hidden.seed).permutation(rows)[: self.limit])
        return rows

    def features(self, positions: Sequence[int]) -> dict[str, Any]:
        return self.hidden.features(self.rows[list(positions)].tolist())

    def batches(self) -> list[list[int]]:
        ordered = self.rows[np.argsort(self.hidden.blocks.lengths()[self.rows], kind="stable")]
        return [ordered[start : start + self.size].tolist() for start in range(0, len(ordered), self.size)]

    def labels(self) -> list[np.ndarray]:
        return [row for batch in self.batches() for row in self.hidden.batch(batch)["labels"]]


_VERSION = 1  # raise it if the token files of the same documents change
_TOKENIZER_VERSION = 1  # raise it if the tokenizer of the same documents changes
_SAMPLING_FRACTION = 0.1  # of the work of training a tokenizer
_SAMPLE_ROWS = 100  # training rows that are evaluated in addition to validation rows
_PARTS = (Part.TRAIN, Part.VALIDATION, Part.TEST)


@dataclass(frozen=True)
class LanguageTrainingData:
    """Training rows and validation rows, and their tokenizer."""

    options: LanguageOptions
    tokenizer: Any
    files: dict[Part, TokenFile]
    documents: dict[str, int]  # by part
    key: str  # of the tokens

    @classmethod
    def from_corpus(
        cls,
        corpus: Corpus,
        split_options: SplitOptions,
        options: LanguageOptions,
        on_progress: ProgressCallback | None = None,
    ) -> Self:
        """Tokenize the documents, or open stored tokens. Raises `TrainingError`, `LanguageError`, `ModelError`."""
        tokenizer_fraction = 0.0
        if _trains_tokenizer(options):  # this takes about twice as long as tokenizing its documents
            tokenizer_fraction = 2 * min(corpus.characters, MAX_CHARACTERS)
            tokenizer_fraction = tokenizer_fraction / (tokenizer_fraction + corpus.characters)
        tokenizer = _load_tokenizer(corpus, split_options, options, scale_progress(on_progress, 0, tokenizer_fraction))
        words = options.whole_words if options.whole_words is WholeWords.MORPHEMES else WholeWords.SPACES
        split_settings = (split_options.validation, split_options.test, split_options.seed)
        key = key_of(_VERSION, corpus.fingerprint, *split_settings, words, tokenizer.backend_tokenizer.to_str())
        folder = workspace() / "cache" / "tokens" / key
        report_cutting = scale_progress(on_progress, tokenizer_fraction, 1)

        def cut(new: Path) -> None:
            document_counts = Counter({part.value: 0 for part in _PARTS})
            training_fraction = 1 - split_options.validation / (1 - split_options.test)
            for part, low, high in ((Part.TRAIN, 0.0, training_fraction), (Part.VALIDATION, training_fraction, 1.0)):
                document_counts[Part.TEST.value] = 0  # both passes count them
                report = scale_progress(report_cutting, low, high)
                all_documents = report_documents(corpus.documents(), corpus.characters, report)
                documents = _documents(all_documents, split_options, part, document_counts)
                write_tokens(new / part, documents, tokenizer, _special_tokens(tokenizer), words)
            write_json(new / "documents.json", dict(document_counts))

        create_once(folder, cut, report_cutting)
        documents = read_json(folder / "documents.json")
        if min(documents[part] for part in (Part.TRAIN, Part.VALIDATION)) < 1:
            part_counts = ", ".join(f"{documents[part]} {part} documents" for part in _PARTS)
            message = f"{corpus.name} is too small for training and evaluation: {part_counts}"
            raise TrainingError("too_few_documents", message)
        files = {part: TokenFile.open(folder / part) for part in (Part.TRAIN, Part.VALIDATION)}
        return cls(options, tokenizer, files, documents, key)

    @cached_property
    def training_rows(self) -> MaskedRows:
        return self._hidden(Part.TRAIN)

    @cached_property
    def held_out(self) -> MaskedRows:
        return self._hidden(Part.VALIDATION)

    @property
    def validation_rows(self) -> MeasuredRows:
        return MeasuredRows(self.held_out, self.options.evaluation_limit, self.options.evaluation_batch_size)

    @property
    def training_sample(self) -> MeasuredRows:
        limit = min(_SAMPLE_ROWS, len(self.held_out))
        return MeasuredRows(self.training_rows, limit, self.options.evaluation_batch_size)

    @property
    def evaluation_key(self) -> str:
        """The key of the validation rows and of their masked tokens."""
        options = self.options
        masking = self.options.masking
        masking_settings = (masking.fraction, masking.masked, masking.random, options.whole_words, options.max_length)
        limits = (options.evaluation_limit, options.evaluation_batch_size, options.seed)
        return key_of(self.key, options.objective, *masking_settings, *limits)

    @property
    def tokens(self) -> int:
        """The number of training tokens, without those between documents."""
        return int(self.files[Part.TRAIN].counts.sum())

    def baselines(self) -> dict[str, LanguageMeasurement]:
        counts = self.files[Part.TRAIN].counts
        special = self.training_rows.masker.special
        samples = (self.validation_rows, self.training_sample)
        validation, training = (unigram_predictions(rows.labels(), counts, special) for rows in samples)
        return {UNIGRAM: LanguageMeasurement(validation, training, evaluation_key=self.evaluation_key)}

    def read_measurement(self, stored: Mapping[str, Any]) -> LanguageMeasurement | None:
        if stored.get("evaluation_key") != self.evaluation_key:
            return None
        return LanguageMeasurement.from_dict(stored, MaskedPredictions.from_dict)

    def summarize(self, measured: Mapping[str, LanguageMeasurement], options: LanguageOptions) -> dict[str, Any]:
        validation = {name: result.validation for name, result in measured.items()}
        training = {name: result.training for name, result in measured.items() if result.training}
        return {
            **{name: result.means() for name, result in validation.items()},
            "intervals": {
                name: {measure: list(bounds) for measure, bounds in result.intervals().items()}
                for name, result in validation.items()
            },
            "gain": _gain(validation),
            "training_sample": {
                **{name: result.means() for name, result in training.items()},
                "gain": _gain(training),
                "questions": len(training["after"].losses),
            },
            "measured_on": "validation",
            "rows": len(validation["after"].losses),
            "hidden": int(validation["after"].hidden.sum()),
        }

    def _hidden(self, part: Part) -> MaskedRows:
        tokenizer = self.tokenizer
        options = self.options
        special = np.zeros(len(tokenizer), dtype=bool)
        special[tokenizer.all_special_ids] = True
        masker = Masker(options.masking, tokenizer.mask_token_id, special)
        kind = SegmentPairs if options.pairs else PackedBlocks
        blocks: Blocks = kind(self.files[part], options.max_length, _special_tokens(tokenizer))
        return MaskedRows(blocks, masker, options.whole_words is not WholeWords.OFF, options.seed)


def _gain(guesses: Mapping[str, MaskedPredictions]) -> dict[str, Any]:
    difference, interval = guesses["after"].gain(guesses["before"])
    return {"measure": GUESSED, "difference": difference, "interval": list(interval)}


def _special_tokens(tokenizer: Any) -> Specials:
    return Specials(tokenizer.pad_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id)


def _documents(
    all_documents: Iterable[str], split_options: SplitOptions, selected_part: Part, document_counts: Counter[str]
) -> Iterator[str]:
    for document in all_documents:
        part = assign_part(document, split_options)
        if part in (selected_part, Part.TEST):
            document_counts[part.value] += 1
        if part is selected_part:
            yield document


def assign_part(document: str, split_options: SplitOptions) -> Part:
    """Return the part of a document by its text: copies are in the same part."""
    if not is_held_out(document, split_options.test + split_options.validation, split_options.seed):
        return Part.TRAIN
    return Part.TEST if is_held_out(document, split_options.test, split_options.seed) else Part.VALIDATION


def create_once(folder: Path, build: Callable[[Path], None], on_progress: ProgressCallback | None) -> None:
    """Build and seal a folder, unless it exists and is intact. Waiting for another process reports no progress."""
    if is_intact(folder):
        return
    with _folder_lock(folder, on_progress):
        if is_intact(folder):
            return
        for leftover in folder.parent.glob(f".{folder.name}.*"):  # of a killed process; may be gigabytes
            shutil.rmtree(leftover)
        with sealing(folder) as new:
            build(new)


@contextmanager
def _folder_lock(folder: Path, on_progress: ProgressCallback | None) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.with_suffix(".lock"))
    while not lock.is_locked:
        try:
            lock.acquire(timeout=0.5)  # seconds between checks for a stop request
        except Timeout:
            if on_progress:
                on_progress(0.0)
    try:
        yield
    finally:
        lock.release()


def _trains_tokenizer(options: LanguageOptions) -> bool:
    return options.base == STARTER and not options.tokenizer.strip()


def _load_tokenizer(
    corpus: Corpus, split_options: SplitOptions, options: LanguageOptions, on_progress: ProgressCallback | None = None
) -> Any:
    """Return a fast tokenizer of transformers that has a mask token. Raises `LanguageError` and `ModelError`."""
    from transformers import AutoTokenizer

    if options.base == STARTER:
        trained = Path(options.tokenizer)
        if _trains_tokenizer(options):
            trained = _train_tokenizer(corpus, split_options, options, on_progress)
        tokenizer = AutoTokenizer.from_pretrained(trained, model_max_length=max(512, options.max_length))
    else:
        from mrc_workbench.models.reader_networks import masked_tokenizer

        tokenizer = masked_tokenizer(find_model(options.base))
    if not tokenizer.is_fast:
        message = f"the tokenizer of {options.base!r} does not return the character positions of tokens"
        raise LanguageError("no_offsets", message, model=options.base)
    return tokenizer


def _train_tokenizer(
    corpus: Corpus, split_options: SplitOptions, options: LanguageOptions, on_progress: ProgressCallback | None
) -> Path:
    """Train a tokenizer on the training documents, once in this workspace."""
    sample = Sample(held_out=split_options.test + split_options.validation, seed=split_options.seed)
    tokenizer_options = TokenizerOptions(options.tokenizer_kind, options.vocabulary, sample)
    settings = (tokenizer_options.kind, tokenizer_options.vocabulary, sample.held_out, sample.seed)
    folder = workspace() / "cache" / "tokenizers" / key_of(_TOKENIZER_VERSION, corpus.fingerprint, *settings)

    def make(new: Path) -> None:
        with gather_documents(corpus, sample, scale_progress(on_progress, 0, _SAMPLING_FRACTION)) as training_data:
            report_training = scale_progress(on_progress, _SAMPLING_FRACTION, 1)
            _train_interruptibly(training_data, tokenizer_options, report_training).save(new)

    create_once(folder, make, on_progress)
    return folder


def _train_interruptibly(
    training_data: TrainingDocuments, options: TokenizerOptions, on_progress: ProgressCallback | None
) -> TrainedTokenizer:
    """Train a tokenizer in a thread, so that a stop is noticed during its long merges."""
    future = Future[TrainedTokenizer]()
    progress = [0.0]

    def train() -> None:
        try:
            future.set_result(train_on(training_data, options.kind, options.vocabulary, progress.append))
        except BaseException as error:  # also a panic of the library
            future.set_exception(error)

    Thread(target=train, daemon=True).start()
    while not wait([future], timeout=0.5).done:
        if on_progress:
            on_progress(progress[-1])
    return future.result()
