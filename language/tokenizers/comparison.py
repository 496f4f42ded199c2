"""Tokenizers side by side: trained on the same documents by kind, split and vocabulary, and those of models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from pathlib import Path
from typing import Any, Self

from data.problems import Failure
from language.corpus import Corpus
from language.morphemes import Split, TokenizerKind
from language.prepared import PreparedTokenizer, find_tokenizer
from language.problems import LanguageError
from language.tokenizers import trained_once
from language.tokenizers.fertility import Fertility, HeldOut, fertility
from language.train import Sample, TokenizerOptions, gathered, train_on
from models.hub import ModelError

_FAILURES = {kind.__name__: kind for kind in (LanguageError, ModelError)}
_LETTERS_OF_A_REASON = 300


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
        """How many are measured."""
        return len(self.kinds) * len(self.splits) * len(self.vocabularies) + len(self.against)

    def label(self, kind: TokenizerKind, split: Split, vocabulary: int) -> str:
        """Return what tells a tokenizer from the others: its kind, and what else there are several of."""
        told = [kind, *([split] if len(self.splits) > 1 else []), *([vocabulary] if len(self.vocabularies) > 1 else [])]
        return "-".join(map(str, told))

    def trained(self) -> dict[str, TokenizerOptions]:
        """Return what is trained, by label; those of a split stand together."""
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
        """Return what is kept of it."""
        return cls(type(error).__name__, error.as_dict())

    @property
    def failure(self) -> Failure:
        """What was raised."""
        return _FAILURES.get(self.kind, Failure).from_dict(self.told)


@dataclass(frozen=True)
class Measured:
    """A tokenizer and its figures, or why it has none. `trained` is empty for one of a model."""

    name: str
    trained: dict[str, Any]
    figures: Fertility | None
    refusal: Refusal | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        if self.figures:
            return {**self.trained, **self.figures.as_dict()}
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
    known = {label: trained_once.kept(corpus, options) for label, options in wanted.items()}
    missing = {label: wanted[label] for label, one in known.items() if one is None}
    splits = {options.sample.split for options in missing.values()}
    steps = _Steps(len(missing) + len(splits) + len(request.against), on_progress, corpus.name)
    steps.tell()
    held = HeldOut.from_corpus(corpus, request.sample)
    known |= _train(corpus, missing, held, steps)
    if out:
        for options in wanted.values():
            trained_once.copy(corpus, options, out / options.name)
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
        """Tell how much is done, a share of the step at hand with it."""
        if self.on_progress:
            self.on_progress(self.last, (self.done + share) / max(1, self.count))

    def take(self, name: str) -> None:
        """Tell that a step of this name is done."""
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
                trained_once.keep(corpus, trained, figures)
                made[label] = prepared.trained, figures
                steps.take(label)
    return made


def _of_model(reference: str, held: HeldOut) -> Measured:
    try:
        tokenizer = find_tokenizer(reference)
        return Measured(reference, tokenizer.trained, fertility(tokenizer, held))
    except Failure as error:
        return Measured(reference, {}, None, Refusal.of(error))
    except (OSError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)[:_LETTERS_OF_A_REASON]
        told = LanguageError("not_loaded", str(error), name=reference[:200], reason=reason)
        return Measured(reference, {}, None, Refusal.of(told))
