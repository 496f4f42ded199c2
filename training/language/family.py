"""What the trainings of language models share: text of any size, and hidden tokens guessed on documents held out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from data.split import Part, SplitOptions
from data.workspace import limits, user
from language.corpus import Corpus, find_corpus
from language.masking.perplexity import FOLLOWED, GUESSED, PERPLEXITY, unigram_guesses
from training.family import Family
from training.language.material import LanguageMaterial
from training.language.measured import Guessed, summary
from training.options.common import OptionError
from training.options.language_model import LanguageOptions

UNIGRAM = "unigram"
_TEXTS = 1000  # documents that are looked at, to tell their language


class Languages:
    """Trainings of language models; see `training.family.Family`."""

    measures: Mapping[str, str] = {GUESSED: "Hidden tokens guessed", FOLLOWED: "Next segments told"}
    curves: tuple[str, ...] = (GUESSED, FOLLOWED)
    tag = "fill-mask"
    counted: tuple[str, ...] = ("documents", "tokens")
    examples = "documents"
    split_by = "document"
    compared = "on the same hidden tokens"

    def find(self, reference: str) -> Corpus:
        """Return the text that a person names. Raises `LanguageError` and `DataError`."""
        return find_corpus(reference)

    def check(self, data: Corpus, options: LanguageOptions) -> None:
        """Raise `OptionError` where the tokenizer is none, or one that is not open to this user."""
        del data
        if options.tokenizer.strip() and user() and not limits().paths:
            raise OptionError("tokenizer", "server_path", "tokenizer must be empty: folders are not open to users")
        if options.tokenizer.strip() and not (Path(options.tokenizer) / "tokenizer.json").is_file():
            raise OptionError("tokenizer", "no_tokenizer", "tokenizer must name a folder with a tokenizer.json in it")

    def texts(self, data: Corpus, options: LanguageOptions) -> Sequence[str]:
        """The first documents: there may be more than memory holds."""
        del options
        return list(islice(data.documents(), _TEXTS))

    def about(self, data: Corpus, shares: SplitOptions, options: LanguageOptions) -> dict[str, Any]:
        """How many documents and tokens there are."""
        material = self.material(data, shares, options)
        parts = {f"{part}_documents": count for part, count in material.documents.items()}
        told = {"documents": sum(material.documents.values()), "tokens": material.tokens, **parts}
        return told | {"rows": len(material.learned), "vocabulary": len(material.tokenizer)}

    def material(
        self,
        data: Corpus,
        shares: SplitOptions,
        options: LanguageOptions,
        marked: tuple[tuple[str, str], ...] = (),
        on_progress: Callable[[float], None] | None = None,
    ) -> LanguageMaterial:
        """Cut the text into tokens as planned. Raises `LanguageError`, `ModelError`, `OptionError`, `TrainingError`."""
        del marked
        self.check(data, options)
        return LanguageMaterial.of(data, shares, options, on_progress)

    def baselines(self, material: LanguageMaterial) -> dict[str, Guessed]:
        """What the frequencies of tokens alone guess: a model that learned anything of their neighbours is better."""
        counts, special = material.files[Part.TRAIN].counts, material.learned.masker.special
        judged, learned = (
            unigram_guesses(rows.labels(), counts, special) for rows in (material.judging, material.sample)
        )
        return {UNIGRAM: Guessed(judged, learned, material.judge)}

    def measurement(self, kept: Mapping[str, Any], material: LanguageMaterial) -> Guessed | None:
        """Read a measurement again; None where other tokens are hidden by now."""
        return Guessed.of(kept) if kept.get("judge") == material.judge else None

    def summary(
        self, measured: Mapping[str, Guessed], material: LanguageMaterial, options: LanguageOptions
    ) -> dict[str, Any]:
        """What `scores.json` holds."""
        del material, options
        return summary(measured)

    def rows(self, options: LanguageOptions, scores: Mapping[str, Any]) -> dict[str, str]:
        """The frequencies of tokens, the base and the model."""
        del options, scores
        return {UNIGRAM: "Frequency alone", "before": "The base", "after": "**This model**"}

    def told(self, scores: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[str]:
        """Paragraphs of a card that say what the figures are of."""
        yield (
            f"In percent, of {scores.get('hidden', 0):,} tokens hidden in {scores.get('rows', 0):,} rows of documents "
            "that it was not trained on; they also chose the checkpoint. In brackets: 95% intervals, of the bootstrap "
            "over rows, and Wilson's of pairs."
        )
        lines = [
            f"|{name}|{scores[key][PERPLEXITY]:.2f} [{low:.2f}, {high:.2f}]|"
            for key, name in self.rows(None, scores).items()  # type: ignore[arg-type]  # they are the same for all
            if key in scores
            for low, high in (scores["intervals"][key][PERPLEXITY],)
        ]
        yield "\n".join(["| |Perplexity of hidden tokens|", "|---|---:|", *lines])
        if heads := made.get("new_heads"):
            yield f"The base had no head for {' and '.join(heads)}: what it reaches before is by chance."


LANGUAGES: Family = Languages()
