"""Tokenizers side by side: trained on the same documents by kind, split and vocabulary, and those of models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from data.failure import Failure
from language.corpus import Corpus
from language.fertility import Fertility, HeldOut, fertility
from language.kinds import Split, TokenizerKind
from language.material import Sample, gathered
from language.prepared import PreparedTokenizer, find_tokenizer
from language.tokenizers import train_on


@dataclass(frozen=True)
class Request:
    """What is compared: all kinds with all splits and vocabularies, and the tokenizers of models."""

    kinds: Sequence[TokenizerKind] = (*TokenizerKind,)
    splits: Sequence[Split] = (Split.WORDS,)
    vocabularies: Sequence[int] = (8_000,)
    against: Sequence[str] = ()
    sample: Sample = field(default_factory=Sample)

    @property
    def count(self) -> int:
        """How many are measured."""
        return len(self.kinds) * len(self.splits) * len(self.vocabularies) + len(self.against)

    def label(self, kind: TokenizerKind, split: Split, vocabulary: int) -> str:
        """Return what tells a tokenizer from the others: its kind, and what else there are several of."""
        told = [kind, *([split] if len(self.splits) > 1 else []), *([vocabulary] if len(self.vocabularies) > 1 else [])]
        return "-".join(map(str, told))


@dataclass(frozen=True)
class Measured:
    """A tokenizer and its figures, or why it has none. `trained` is empty for one of a model."""

    name: str
    trained: dict[str, Any]
    figures: Fertility | None
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {**self.trained, **self.figures.as_dict()} if self.figures else {"error": self.error}


def compare(
    corpus: Corpus,
    request: Request,
    *,
    out: Path | None = None,
    on_progress: Callable[[str, float], None] | None = None,
) -> list[Measured]:
    """Train what is asked for, each kept in a folder of its name under `out`, and measure it on documents held out.

    A model whose tokenizer cannot be had is told with its error. Raises `LanguageError`.
    """
    found: list[Measured] = []
    steps = request.count + len(request.splits)

    def tell(name: str, readings: float) -> None:
        if on_progress:
            on_progress(name, (readings + len(found)) / steps)

    def gone_through(before: int, share: float) -> None:
        tell(corpus.name, before + share)

    tell(corpus.name, 0)
    held = HeldOut.from_corpus(corpus, request.sample)
    for number, split in enumerate(request.splits):
        with gathered(corpus, replace(request.sample, split=split), partial(gone_through, number)) as material:
            for kind, vocabulary in product(request.kinds, request.vocabularies):
                label = request.label(kind, split, vocabulary)
                tell(label, number + 1)
                trained = train_on(material, kind, vocabulary)
                if out:
                    trained.save(out / trained.options.name)
                found.append(_measured(label, PreparedTokenizer.of(trained), held))
    for reference in request.against:
        tell(reference, len(request.splits))
        found.append(_of_model(reference, held))
    tell(corpus.name, len(request.splits))
    return found


def _of_model(reference: str, held: HeldOut) -> Measured:
    try:
        return _measured(reference, find_tokenizer(reference), held)
    except (Failure, OSError, ValueError) as error:
        return Measured(reference, {}, None, str(error))


def _measured(name: str, tokenizer: PreparedTokenizer, held: HeldOut) -> Measured:
    return Measured(name, tokenizer.trained, fertility(tokenizer, held))
