"""What a masked language model learns from and is measured on: rows of tokens, some hidden, and their tokenizer."""

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

from mrc_workbench.data.cache import is_sound, key_of, sealing
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.text.corpora import Corpus, LanguageError, OnProgress, gone_through, held_out, within
from mrc_workbench.data.workspace import read_json, workspace, write_json
from mrc_workbench.models.language.masking import (
    GUESSED,
    Blocks,
    Guesses,
    Masker,
    PackedBlocks,
    SegmentPairs,
    unigram_guesses,
)
from mrc_workbench.models.language.tokenizer_training import (
    MOST_CHARACTERS,
    Material,
    Sample,
    TokenizerOptions,
    TrainedTokenizer,
    gathered,
    train_on,
)
from mrc_workbench.models.language.tokenizers import Specials, TokenFile, WholeWords, write_tokens
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.training.base import Columns, Measurement
from mrc_workbench.training.options import TrainingError
from mrc_workbench.training.text_options import LanguageOptions

UNIGRAM = "unigram"
LanguageMeasurement = Measurement[Guesses]
_DECODED = 256  # rows


@dataclass(frozen=True)
class HiddenTokens:
    """Rows of tokens to guess some of; `whole` says that words are hidden, not tokens."""

    blocks: Blocks
    masker: Masker
    whole: bool
    seed: int

    def __len__(self) -> int:
        return len(self.blocks)

    def batch(self, rows: Sequence[int]) -> dict[str, np.ndarray]:
        """Hide tokens of some rows; the arrays are those that `MaskedNetwork` reads.

        What is hidden depends on the seed and on the rows and their order: it differs in every epoch, not in a resumed
        one.
        """
        rng = np.random.default_rng([self.seed, *rows])
        read = self.blocks.read(rows, rng)
        alone = np.broadcast_to(np.arange(read.tokens.shape[1]), read.tokens.shape)
        shown, labels = self.masker.masked(read.tokens, read.words if self.whole else alone, rng)
        hidden = max(1, int((labels >= 0).sum()))
        arrays = {
            "input_ids": shown,
            "token_type_ids": read.segments,
            "attention_mask": (np.arange(read.tokens.shape[1]) < read.lengths[:, None]).astype(np.int64),
            "labels": labels,
            "shares": np.full((len(rows), 1), len(rows) / hidden, dtype=np.float32),
        }
        return arrays | ({} if read.follows is None else {"follows": read.follows[:, None]})

    def features(self, rows: Sequence[int]) -> dict[str, Any]:
        import torch

        return {name: torch.from_numpy(values) for name, values in self.batch(rows).items()}

    def columns(self, tokenizer: Any) -> Columns:
        """Texts, by which lengths are estimated: those of the first rows repeated, as all are alike."""
        read = self.blocks.read(range(min(_DECODED, len(self))), np.random.default_rng(self.seed))
        texts = [
            str(tokenizer.decode(row[:length], skip_special_tokens=True))
            for row, length in zip(read.tokens.tolist(), read.lengths.tolist(), strict=True)
        ]
        return {"text": [texts[row % len(texts)] for row in range(len(self))]}


@dataclass(frozen=True)
class MeasuredRows:
    """Rows by chance, at most `limit` (0: all), in batches that never change."""

    hidden: HiddenTokens
    limit: int
    size: int

    @cached_property
    def rows(self) -> np.ndarray:
        rows = np.arange(len(self.hidden))
        if 0 < self.limit < len(rows):
            rows = np.sort(np.random.default_rng(self.hidden.seed).permutation(rows)[: self.limit])
        return rows

    def features(self, places: Sequence[int]) -> dict[str, Any]:
        return self.hidden.features(self.rows[list(places)].tolist())

    def batches(self) -> list[list[int]]:
        ordered = self.rows[np.argsort(self.hidden.blocks.lengths()[self.rows], kind="stable")]
        return [ordered[start : start + self.size].tolist() for start in range(0, len(ordered), self.size)]

    def labels(self) -> list[np.ndarray]:
        return [row for batch in self.batches() for row in self.hidden.batch(batch)["labels"]]


_VERSION = 1  # raise when files of tokens of the same documents would come out different
_TOKENIZER_VERSION = 1  # raise when a tokenizer of the same documents would come out different
_GATHERING = 0.1  # share of the work of training a tokenizer
_SAMPLE = 100  # rows that are learned from, measured beside those held out
_PARTS = (Part.TRAIN, Part.VALIDATION, Part.TEST)


@dataclass(frozen=True)
class LanguageMaterial:
    """Rows to learn from, and rows of documents held out; `tokenizer` is what they were cut with."""

    options: LanguageOptions
    tokenizer: Any
    files: dict[Part, TokenFile]
    documents: dict[str, int]  # by part
    key: str  # of the tokens

    @classmethod
    def of(
        cls, corpus: Corpus, shares: SplitOptions, options: LanguageOptions, on_progress: OnProgress | None = None
    ) -> Self:
        """Cut the documents as planned, or open them; `on_progress` receives the fraction done.

        Raises `TrainingError` `too_few_documents`, and `LanguageError` and `ModelError` without a tokenizer.
        """
        first = 0.0
        if _trains_tokenizer(options):  # that takes about twice as long as cutting what it learns from
            first = 2 * min(corpus.characters, MOST_CHARACTERS)
            first = first / (first + corpus.characters)
        tokenizer = _tokenizer_of(corpus, shares, options, within(on_progress, 0, first))
        words = options.whole_words if options.whole_words is WholeWords.MORPHEMES else WholeWords.SPACES
        settings = (shares.validation, shares.test, shares.seed, words, tokenizer.backend_tokenizer.to_str())
        key = key_of(_VERSION, corpus.fingerprint, *settings)
        folder = workspace() / "cache" / "tokens" / key
        rest = within(on_progress, first, 1)

        def cut(new: Path) -> None:
            counted = Counter({part.value: 0 for part in _PARTS})
            learned = 1 - shares.validation / (1 - shares.test)
            for part, low, high in ((Part.TRAIN, 0.0, learned), (Part.VALIDATION, learned, 1.0)):
                counted[Part.TEST.value] = 0  # met again
                every = gone_through(corpus.documents(), corpus.characters, within(rest, low, high))
                documents = _documents(every, shares, part, counted)
                write_tokens(new / part, documents, tokenizer, _specials_of(tokenizer), words)
            write_json(new / "documents.json", dict(counted))

        made_once(folder, cut, rest)
        documents = read_json(folder / "documents.json")
        if min(documents[part] for part in (Part.TRAIN, Part.VALIDATION)) < 1:
            known = ", ".join(f"{documents[part]} {part} documents" for part in _PARTS)
            message = f"{corpus.name} is too small to learn from and to measure on: {known}"
            raise TrainingError("too_few_documents", message)
        files = {part: TokenFile.open(folder / part) for part in (Part.TRAIN, Part.VALIDATION)}
        return cls(options, tokenizer, files, documents, key)

    @cached_property
    def learned(self) -> HiddenTokens:
        return self._hidden(Part.TRAIN)

    @cached_property
    def held_out(self) -> HiddenTokens:
        return self._hidden(Part.VALIDATION)

    @property
    def judging(self) -> MeasuredRows:
        return MeasuredRows(self.held_out, self.options.evaluation_limit, self.options.evaluation_batch_size)

    @property
    def sample(self) -> MeasuredRows:
        return MeasuredRows(self.learned, min(_SAMPLE, len(self.held_out)), self.options.evaluation_batch_size)

    @property
    def judge(self) -> str:
        """The key of what is measured and hidden."""
        options, masking = self.options, self.options.masking
        shown = (masking.share, masking.masked, masking.random, options.whole_words, options.max_length)
        limits = (options.evaluation_limit, options.evaluation_batch_size, options.seed)
        return key_of(self.key, options.objective, *shown, *limits)

    @property
    def tokens(self) -> int:
        """How many training tokens there are, those between documents excluded."""
        return int(self.files[Part.TRAIN].counts.sum())

    def baselines(self) -> dict[str, LanguageMeasurement]:
        counts, special = self.files[Part.TRAIN].counts, self.learned.masker.special
        judged, learned = (unigram_guesses(rows.labels(), counts, special) for rows in (self.judging, self.sample))
        return {UNIGRAM: LanguageMeasurement(judged, learned, judge=self.judge)}

    def measurement(self, stored: Mapping[str, Any]) -> LanguageMeasurement | None:
        return LanguageMeasurement.of(stored, Guesses.of) if stored.get("judge") == self.judge else None

    def summary(self, measured: Mapping[str, LanguageMeasurement], options: LanguageOptions) -> dict[str, Any]:
        judging = {name: one.validation for name, one in measured.items()}
        learned = {name: one.training for name, one in measured.items() if one.training}
        return {
            **{name: one.means() for name, one in judging.items()},
            "intervals": {
                name: {measure: list(ends) for measure, ends in one.intervals().items()}
                for name, one in judging.items()
            },
            "gain": _gain(judging),
            "training_sample": {
                **{name: one.means() for name, one in learned.items()},
                "gain": _gain(learned),
                "questions": len(learned["after"].losses),
            },
            "measured_on": "validation",
            "rows": len(judging["after"].losses),
            "hidden": int(judging["after"].hidden.sum()),
        }

    def _hidden(self, part: Part) -> HiddenTokens:
        tokenizer, options = self.tokenizer, self.options
        special = np.zeros(len(tokenizer), dtype=bool)
        special[tokenizer.all_special_ids] = True
        masker = Masker(options.masking, tokenizer.mask_token_id, special)
        kind = SegmentPairs if options.pairs else PackedBlocks
        blocks: Blocks = kind(self.files[part], options.max_length, _specials_of(tokenizer))
        return HiddenTokens(blocks, masker, options.whole_words is not WholeWords.OFF, options.seed)


def _gain(guesses: Mapping[str, Guesses]) -> dict[str, Any]:
    difference, interval = guesses["after"].gain(guesses["before"])
    return {"measure": GUESSED, "difference": difference, "interval": list(interval)}


def _specials_of(tokenizer: Any) -> Specials:
    return Specials(tokenizer.pad_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id)


def _documents(every: Iterable[str], shares: SplitOptions, wanted: Part, counted: Counter[str]) -> Iterator[str]:
    for document in every:
        part = part_of(document, shares)
        if part in (wanted, Part.TEST):
            counted[part.value] += 1
        if part is wanted:
            yield document


def part_of(document: str, shares: SplitOptions) -> Part:
    """The part of a document, by its text: copies are in one part."""
    if not held_out(document, shares.test + shares.validation, shares.seed):
        return Part.TRAIN
    return Part.TEST if held_out(document, shares.test, shares.seed) else Part.VALIDATION


def made_once(folder: Path, make: Callable[[Path], None], on_progress: OnProgress | None) -> None:
    """Make and seal a folder, unless it exists and is sound. Waiting for another process reports no progress."""
    if is_sound(folder):
        return
    with _turn(folder, on_progress):
        if is_sound(folder):
            return
        for left in folder.parent.glob(f".{folder.name}.*"):  # by a process that was killed: it may be gigabytes
            shutil.rmtree(left)
        with sealing(folder) as new:
            make(new)


@contextmanager
def _turn(folder: Path, on_progress: OnProgress | None) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.with_suffix(".lock"))
    while not lock.is_locked:
        try:
            lock.acquire(timeout=0.5)  # seconds, before a wish to stop is heard
        except Timeout:
            if on_progress:
                on_progress(0.0)
    try:
        yield
    finally:
        lock.release()


def _trains_tokenizer(options: LanguageOptions) -> bool:
    return options.base == STARTER and not options.tokenizer.strip()


def _tokenizer_of(
    corpus: Corpus, shares: SplitOptions, options: LanguageOptions, on_progress: OnProgress | None = None
) -> Any:
    """Return a fast tokenizer of transformers that has a mask token. Raises `LanguageError` and `ModelError`."""
    from transformers import AutoTokenizer

    if options.base == STARTER:
        trained = (
            _trained(corpus, shares, options, on_progress) if _trains_tokenizer(options) else Path(options.tokenizer)
        )
        tokenizer = AutoTokenizer.from_pretrained(trained, model_max_length=max(512, options.max_length))
    else:
        from mrc_workbench.models.reader_networks import masked_tokenizer

        tokenizer = masked_tokenizer(find_model(options.base))
    if not tokenizer.is_fast:
        message = f"the tokenizer of {options.base!r} does not tell which letters a piece stands for"
        raise LanguageError("no_offsets", message, model=options.base)
    return tokenizer


def _trained(corpus: Corpus, shares: SplitOptions, options: LanguageOptions, on_progress: OnProgress | None) -> Path:
    """Train a tokenizer on the training documents, once in this workspace."""
    sample = Sample(held_out=shares.test + shares.validation, seed=shares.seed)
    wanted = TokenizerOptions(options.tokenizer_kind, options.vocabulary, sample)
    settings = (wanted.kind, wanted.vocabulary, sample.held_out, sample.seed)
    folder = workspace() / "cache" / "tokenizers" / key_of(_TOKENIZER_VERSION, corpus.fingerprint, *settings)

    def make(new: Path) -> None:
        with gathered(corpus, sample, within(on_progress, 0, _GATHERING)) as material:
            _heeding(material, wanted, within(on_progress, _GATHERING, 1)).save(new)

    made_once(folder, make, on_progress)
    return folder


def _heeding(material: Material, wanted: TokenizerOptions, on_progress: OnProgress | None) -> TrainedTokenizer:
    """Train a tokenizer in a thread, so that a stop is noticed during its long merges."""
    future, shares = Future[TrainedTokenizer](), [0.0]

    def carried_out() -> None:
        try:
            future.set_result(train_on(material, wanted.kind, wanted.vocabulary, shares.append))
        except BaseException as error:  # a panic of the library, too
            future.set_exception(error)

    Thread(target=carried_out, daemon=True).start()
    while not wait([future], timeout=0.5).done:
        if on_progress:
            on_progress(shares[-1])
    return future.result()
