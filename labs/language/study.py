"""The study of tokenizers, and `mrc language`: compare tokenizers, and import texts to train on.

A result folder holds the tokenizers (`tokenizers/<name>/tokenizer.json`) and their results with token counts.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from cyclopts import Parameter
from pydantic import ConfigDict, Field

from mrc_workbench.data.commands import AsJson, commands_of, several_of, tell_kept
from mrc_workbench.data.formats.opening import set_name
from mrc_workbench.data.jobs.folder import Progress
from mrc_workbench.data.studies import Array, Study
from mrc_workbench.data.terminal import aligned, end_progress_line, report_progress, tell
from mrc_workbench.data.text import corpora
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.texts import in_blocks
from mrc_workbench.data.workspace import replacing
from mrc_workbench.labs.language.comparison import Fertility, Measured, Request, compare, prepared_tokenizer
from mrc_workbench.models.language import tokenizer_training
from mrc_workbench.models.language.tokenizer_training import Sample, Split, TokenizerKind
from mrc_workbench.models.language.tokenizers import PreparedTokenizer, load_tokenizer
from mrc_workbench.models.sources import contents

TOKENIZERS = "tokenizers"  # the folder of all of them
COUNTED = 1_000_000  # characters in which pieces are counted: of a larger corpus, its first documents
_COMPARING = 0.85  # share of the work before pieces are counted
_BLOCK = 64  # documents cut at a time


@dataclass(frozen=True)
class TokenizerRequest:
    """Tokenizers to compare over a text, named as for `data.text.corpora.find_corpus`."""

    data: str
    compared: Request = field(default_factory=Request)


@dataclass(frozen=True)
class TokenizerComparison:
    """Tokenizers compared on `corpus`. Token counts are over its first `counted` documents.

    `occurrences` has the counts `(n_tokens,)` of each tokenizer with metrics, by its row.
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
    """Return the folder name of the tokenizer in this row; a model's name may be a path, so it is not used."""
    trained = measured.trained
    return f"{trained['kind']}-{trained['split']}-{trained['vocabulary']}" if trained else f"model-{row}"


def run(request: TokenizerRequest, progress: Progress) -> TokenizerComparison:
    """Train and compare tokenizers, and count their tokens. Raises `LanguageError`."""
    corpus = corpora.find_corpus(request.data)
    measured = compare(corpus, request.compared, on_progress=lambda name, share: progress(name, _COMPARING * share))
    able = {row: prepared_tokenizer(one, corpus, request.compared) for row, one in enumerate(measured) if one.figures}
    counting = corpora.within(lambda fraction: progress("", fraction), _COMPARING, 1)
    counted, occurrences = occurrences_of([*able.values()], corpus, counting)
    return TokenizerComparison(corpus.name, counted, measured, dict(zip(able, occurrences, strict=True)), able)


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
    tokenizers: Sequence[PreparedTokenizer], corpus: corpora.Corpus, on_progress: corpora.OnProgress | None = None
) -> tuple[int, list[np.ndarray]]:
    """Count each tokenizer's tokens, `(n_tokens,)`, in the first documents of a corpus; also return their number."""
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
        texts = [tokenizer_training.composed_letters(text) for text in block]
        morphemes: Sequence[np.ndarray] = tokenizer_training.morpheme_cuts(texts) if marks else ()
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


commands = commands_of("language", "Compare tokenizers and import texts.")

_COLUMNS = ("tokens_per_word", "unknown_words", "whole_words", "precision", "recall", "f1", "longer_than_512")
_DATA = (
    "a text: a file (.txt), or text:KEY of an imported one; or a dataset: a path, or a name or key of the catalog or "
    "the workspace"
)


@commands.command
def compare_tokenizers(
    *,
    data: Annotated[str, Parameter(help=_DATA)],
    vocabulary: Annotated[tuple[int, ...], Parameter(help="vocabulary sizes, 1000 to 64000: 8000")] = (),
    kind: Annotated[tuple[TokenizerKind, ...], several_of(TokenizerKind, help="by default all")] = (),
    split: Annotated[tuple[Split, ...], several_of(Split, help=f"by default {Split.WORDS}")] = (),
    against: Annotated[tuple[str, ...], Parameter(help="models whose tokenizers are compared, too")] = (),
    lowercase: Annotated[bool, Parameter(negative="", help="convert the text to lower case")] = False,
    held_out: Annotated[float, Parameter(help="fraction of documents to evaluate on")] = 0.1,
    seed: Annotated[int, Parameter(help="seed that selects these documents")] = 0,
    most_characters: Annotated[
        int, Parameter("--max-characters", help="characters to train on; bounds the memory")
    ] = Sample.most_characters,
    out: Annotated[Path | None, Parameter(help="folder for the tokenizers")] = None,
    as_json: AsJson = False,
) -> int:
    """Train tokenizers on a text, and compare them on held-out documents.

    JSON has fractions from 0 to 1.
    """
    sample = Sample(lowercase=lowercase, held_out=held_out, seed=seed, most_characters=most_characters)
    asked = {"kinds": kind, "splits": split, "vocabularies": vocabulary, "against": against}
    given: dict[str, Any] = {name: tuple(dict.fromkeys(values)) for name, values in asked.items() if values}
    request = Request(sample=sample, **given)
    corpus = corpora.find_corpus(data)
    found = compare(corpus, request, out=out, on_progress=report_progress)
    end_progress_line()
    told: dict[str, Any] = {"data": corpus.name, "fingerprint": corpus.fingerprint}
    told["tokenizers"] = {one.name: one.as_dict() for one in found}
    tell(json.dumps(told, ensure_ascii=False, indent=2) if as_json else _table(found))
    failed = [one for one in found if one.error]
    for one in failed:
        tell(f"{one.name} failed: {one.error}", error=True)
    return int(bool(failed))


def _table(found: list[Measured]) -> str:
    """Return the metrics as lines of text, fractions in percent."""

    def cell(name: str, value: float | None) -> str:
        if value is None:
            return "-"
        return f"{value:.3f}" if name == "tokens_per_word" else f"{100 * value:.2f}"

    rows = []
    for one in found:
        figures = one.as_dict()
        rows.append((one.name, [cell(name, figures.get(name)) for name in _COLUMNS] if one.figures else ["failed"]))
    return "\n".join(aligned(_COLUMNS, rows, 15))


@commands.command(name="import")
def import_files(
    file: Annotated[Path, Parameter(help="text in UTF-8, of any size")],
    /,
    *files: Annotated[Path, Parameter(help="more texts")],
) -> int:
    """Import texts to train on, and print their references."""
    for path in (file, *files):
        corpora.require_file(path, path.name)
        name = set_name(path.name, "text")
        with path.open("rb") as content:
            tell(_line(corpora.keep(content, name, source=str(path), on_progress=partial(report_progress, name))))
    return 0


@commands.command(name="list")
def list_command(*, as_json: AsJson = False) -> int:
    """List the imported texts, the newest first."""
    empty = "No texts yet: `mrc language import FILE` imports one."
    return tell_kept(corpora.stored(), _line, as_json=as_json, empty=empty)


def _line(kept: corpora.StoredText) -> str:
    return f"{kept.reference}  {kept.characters:>15,} characters  {kept.documents:>12,} documents  {kept.name}"
