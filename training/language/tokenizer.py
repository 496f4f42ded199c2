"""The tokenizer of a language model's training, and what is made of a text once."""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from filelock import FileLock, Timeout

from data.cache import is_sound, key_of, sealing
from data.split import SplitOptions
from data.workspace import workspace
from language.corpus import Corpus
from language.text_file import LanguageError
from language.train import Material, OnProgress, Sample, TokenizerOptions, TrainedTokenizer, gathered, train_on, within
from models.sources import STARTER, find_model
from training.options.language_model import LanguageOptions

_SECONDS_OF_WAITING = 0.5  # before a wish to stop is heard


def made_once(folder: Path, make: Callable[[Path], None], on_progress: OnProgress | None) -> None:
    """Have a folder made and sealed, unless it is there and sound.

    While another process makes it, `on_progress` is told that nothing is done yet.
    """
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
            lock.acquire(timeout=_SECONDS_OF_WAITING)
        except Timeout:
            if on_progress:
                on_progress(0.0)
    try:
        yield
    finally:
        lock.release()


_VERSION = 1  # raise when a tokenizer of the same documents would come out different
_LEAST_READ = 512  # tokens that a new model reads
_GATHERING = 0.1  # share of the work of training a tokenizer
_SECONDS_BETWEEN_WORDS = 0.5


def trains_one(options: LanguageOptions) -> bool:
    """Whether a tokenizer is trained first."""
    return options.base == STARTER and not options.tokenizer.strip()


def tokenizer_of(
    corpus: Corpus, shares: SplitOptions, options: LanguageOptions, on_progress: OnProgress | None = None
) -> Any:
    """Return a fast tokenizer of transformers that has a mask token.

    Raises `LanguageError`: `no_offsets`, it does not tell letters; and as `train` where one is trained. Raises
    `ModelError` where it is the base's and the base cannot be had.
    """
    from transformers import AutoTokenizer

    if options.base == STARTER:
        trained = _trained(corpus, shares, options, on_progress) if trains_one(options) else Path(options.tokenizer)
        found = AutoTokenizer.from_pretrained(trained, model_max_length=max(_LEAST_READ, options.max_length))
    else:
        from models.readers.masked_network import masked_tokenizer

        found = masked_tokenizer(find_model(options.base))
    if not found.is_fast:
        message = f"the tokenizer of {options.base!r} does not tell which letters a piece stands for"
        raise LanguageError("no_offsets", message, model=options.base)
    return found


def _trained(corpus: Corpus, shares: SplitOptions, options: LanguageOptions, on_progress: OnProgress | None) -> Path:
    """Train one on the documents that are learned from, once in this workspace."""
    sample = Sample(held_out=shares.test + shares.validation, seed=shares.seed)
    wanted = TokenizerOptions(options.tokenizer_kind, options.vocabulary, sample)
    told = (wanted.kind, wanted.vocabulary, sample.held_out, sample.seed)
    folder = workspace() / "cache" / "tokenizers" / key_of(_VERSION, corpus.fingerprint, *told)

    def make(new: Path) -> None:
        with gathered(corpus, sample, within(on_progress, 0, _GATHERING)) as material:
            _heeding(material, wanted, within(on_progress, _GATHERING, 1)).save(new)

    made_once(folder, make, on_progress)
    return folder


def _heeding(material: Material, wanted: TokenizerOptions, on_progress: OnProgress | None) -> TrainedTokenizer:
    """Train a tokenizer in a thread, so that a wish to stop is heard while the library merges, which may take minutes.

    The thread is not waited for then: it ends with the process.
    """
    future, shares = Future[TrainedTokenizer](), [0.0]

    def carried_out() -> None:
        try:
            future.set_result(train_on(material, wanted.kind, wanted.vocabulary, shares.append))
        except BaseException as error:  # a panic of the library, too
            future.set_exception(error)

    Thread(target=carried_out, daemon=True).start()
    while not wait([future], timeout=_SECONDS_BETWEEN_WORDS).done:
        if on_progress:
            on_progress(shares[-1])
    return future.result()
