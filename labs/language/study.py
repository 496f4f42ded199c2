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

from mrc_workbench.data.commands import AsJson, add_list_command, choices_option, command_group
from mrc_workbench.data.files import accept_earlier_names
from mrc_workbench.data.formats.opening import derive_name
from mrc_workbench.data.jobs.folder import Progress
from mrc_workbench.data.studies import Array, Study
from mrc_workbench.data.terminal import end_progress_line, format_table, print_line, report_progress
from mrc_workbench.data.text import corpora
from mrc_workbench.data.text.analyzers import VERSION as ANALYZER_VERSION
from mrc_workbench.data.texts import in_blocks
from mrc_workbench.data.workspace import replacing
from mrc_workbench.labs.language import comparison
from mrc_workbench.labs.language.comparison import Fertility, TokenizerGrid, TokenizerResult
from mrc_workbench.models.language import tokenizer_training
from mrc_workbench.models.language.tokenizer_training import PreTokenization, Sample, TokenizerKind
from mrc_workbench.models.language.tokenizers import PreparedTokenizer, load_tokenizer
from mrc_workbench.models.sources import local_fingerprints

TOKENIZERS = "tokenizers"
MAX_COUNTED_CHARACTERS = 1_000_000  # token counts use the first documents of a larger corpus
_COMPARISON_FRACTION = 0.85  # of the work; the rest counts tokens
_BLOCK = 64  # documents
commands = command_group("language", "Compare tokenizers and import texts.")
_COLUMNS = ("tokens_per_word", "unknown_words", "whole_words", "precision", "recall", "f1", "longer_than_512")
_DATA = (
    "a text: a file (.txt), or text:KEY of an imported one; or a dataset: a path, or a name or key of the catalog or "
    "the workspace"
)


@dataclass(frozen=True)
class TokenizerRequest:
    """Tokenizers to compare on a text; `data` is a reference for `data.text.corpora.find_corpus`."""

    data: str
    compared: TokenizerGrid = field(default_factory=TokenizerGrid)


@dataclass(frozen=True)
class TokenizerComparison:
    """Tokenizers compared on `corpus`. `occurrences` has token counts `(n_tokens,)` by row of the tokenizer."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    corpus: str
    n_counted_documents: int
    tokenizers: list[TokenizerResult]
    occurrences: dict[int, Array]
    # the `PreparedTokenizer` of each row until the result is stored
    prepared: Annotated[dict[int, Any], Field(exclude=True)] = field(default_factory=dict)
    _earlier = accept_earlier_names({"counted": "n_counted_documents"})

    @property
    def errors(self) -> dict[str, Exception]:
        return {result.name: result.error for result in self.tokenizers if result.error}


@dataclass(frozen=True)
class StoredTokenizer:
    """A tokenizer of a stored comparison, and its token counts `(n_tokens,)`."""

    result: TokenizerResult
    metrics: Fertility
    folder: Path
    occurrences: np.ndarray

    @property
    def is_trained(self) -> bool:
        return bool(self.result.training_options)

    def load(self) -> PreparedTokenizer:
        """Raises `LanguageError` `no_tokenizer`."""
        return load_tokenizer(self.folder, self.result.name)


def stored_tokenizers(stored: TokenizerComparison, folder: Path) -> list[StoredTokenizer]:
    """Return the tokenizers with metrics of the comparison that is stored in a folder."""
    tokenizers = []
    for row, result in enumerate(stored.tokenizers):
        if result.metrics:
            path = folder / TOKENIZERS / folder_name(result, row)
            tokenizers.append(StoredTokenizer(result, result.metrics, path, stored.occurrences[row]))
    return tokenizers


def folder_name(result: TokenizerResult, row: int) -> str:
    """Return the folder name of the tokenizer in this row, without a model's name, which may be a path."""
    trained = result.training_options
    return f"{trained['kind']}-{trained['split']}-{trained['vocabulary']}" if trained else f"model-{row}"


def run(request: TokenizerRequest, progress: Progress) -> TokenizerComparison:
    """Train and compare tokenizers, and count their tokens. Raises `LanguageError`."""
    corpus = corpora.find_corpus(request.data)
    grid = request.compared
    results = comparison.compare(
        corpus, grid, on_progress=lambda name, fraction: progress(name, _COMPARISON_FRACTION * fraction)
    )
    measured = {row: result for row, result in enumerate(results) if result.metrics}
    tokenizers = {row: comparison.load_result_tokenizer(result, corpus, grid) for row, result in measured.items()}
    counting = corpora.scale_progress(lambda fraction: progress("", fraction), _COMPARISON_FRACTION, 1)
    n_documents, counts = count_tokens([*tokenizers.values()], corpus, counting)
    occurrences = dict(zip(tokenizers, counts, strict=True))
    return TokenizerComparison(corpus.name, n_documents, results, occurrences, tokenizers)


def save(result: TokenizerComparison, folder: Path) -> None:
    """Write the result with its tokenizers, since a model may change or disappear. Raises `OSError`."""
    for row, tokenizer in result.prepared.items():
        with replacing(folder / TOKENIZERS / folder_name(result.tokenizers[row], row)) as new:
            if tokenizer.folder:
                shutil.copytree(tokenizer.folder, new)
            else:
                new.mkdir()
                tokenizer.tokenizer.save(str(new / "tokenizer.json"))
    STUDY.results.write(folder, result)


def count_tokens(
    tokenizers: Sequence[PreparedTokenizer], corpus: corpora.Corpus, on_progress: corpora.ProgressCallback | None = None
) -> tuple[int, list[np.ndarray]]:
    """Count each tokenizer's tokens, `(n_tokens,)`, in the first documents of a corpus; also return their number."""
    # some vocabularies skip ids
    counts = [np.zeros(1 + max(tokenizer.tokenizer.get_vocab().values()), dtype=np.int64) for tokenizer in tokenizers]
    documents = list[str]()
    n_characters = 0
    for document in corpus.documents():
        if n_characters >= MAX_COUNTED_CHARACTERS:
            break
        documents.append(document)
        n_characters += len(document)
    needs_morphemes = any(tokenizer.marks_morphemes for tokenizer in tokenizers)
    for number, block in enumerate(in_blocks(documents, _BLOCK)):
        if on_progress:
            on_progress(number * _BLOCK / len(documents))
        texts = [tokenizer_training.normalize_text(text) for text in block]
        morphemes: Sequence[np.ndarray] = tokenizer_training.morpheme_boundaries(texts) if needs_morphemes else ()
        for index, tokenizer in enumerate(tokenizers):
            numbers = np.concatenate([cut.numbers for cut in tokenizer.cut(texts, morphemes)])
            counts[index] += np.bincount(numbers, minlength=len(counts[index]))
    return len(documents), counts


STUDY = Study[TokenizerRequest, TokenizerComparison](
    name="language",
    summary="Compare tokenizers and import texts.",
    versions=(3, ANALYZER_VERSION),
    spec=TokenizerRequest,
    result=TokenizerComparison,
    run=run,
    inputs=lambda request: (local_fingerprints(request.compared.against),),
    save=save,
)


@commands.command
def compare_tokenizers(
    *,
    data: Annotated[str, Parameter(help=_DATA)],
    vocabulary: Annotated[tuple[int, ...], Parameter(help="vocabulary sizes, 1000 to 64000: 8000")] = (),
    kind: Annotated[tuple[TokenizerKind, ...], choices_option(TokenizerKind, help="by default all")] = (),
    split: Annotated[
        tuple[PreTokenization, ...], choices_option(PreTokenization, help=f"by default {PreTokenization.WORDS}")
    ] = (),
    against: Annotated[tuple[str, ...], Parameter(help="models whose tokenizers are compared, too")] = (),
    lowercase: Annotated[bool, Parameter(negative="", help="convert the text to lower case")] = False,
    held_out: Annotated[float, Parameter(help="fraction of documents to evaluate on")] = 0.1,
    seed: Annotated[int, Parameter(help="seed that selects these documents")] = 0,
    most_characters: Annotated[
        int, Parameter("--max-characters", help="characters to train on; bounds the memory")
    ] = Sample.max_characters,
    out: Annotated[Path | None, Parameter(help="folder for the tokenizers")] = None,
    as_json: AsJson = False,
) -> int:
    """Train tokenizers on a text, and compare them on held-out documents.

    JSON has fractions from 0 to 1.
    """
    sample = Sample(lowercase=lowercase, held_out=held_out, seed=seed, max_characters=most_characters)
    options = {"kinds": kind, "splits": split, "vocabularies": vocabulary, "against": against}
    request_options: dict[str, Any] = {name: tuple(dict.fromkeys(values)) for name, values in options.items() if values}
    request = TokenizerGrid(sample=sample, **request_options)
    corpus = corpora.find_corpus(data)
    results = comparison.compare(corpus, request, out=out, on_progress=report_progress)
    end_progress_line()
    content: dict[str, Any] = {"data": corpus.name, "fingerprint": corpus.fingerprint}
    content["tokenizers"] = {result.name: result.as_dict() for result in results}
    print_line(json.dumps(content, ensure_ascii=False, indent=2) if as_json else _format_table(results))
    failed = [result for result in results if result.error]
    for result in failed:
        print_line(f"{result.name} failed: {result.error}", error=True)
    return int(bool(failed))


def _format_table(results: list[TokenizerResult]) -> str:
    def cell(name: str, value: float | None) -> str:
        if value is None:
            return "-"
        return f"{value:.3f}" if name == "tokens_per_word" else f"{100 * value:.2f}"

    rows = []
    for result in results:
        metrics = result.as_dict()
        cells = [cell(name, metrics.get(name)) for name in _COLUMNS]
        rows.append((result.name, cells if result.metrics else ["failed"]))
    return "\n".join(format_table(_COLUMNS, rows, 15))


@commands.command(name="import")
def import_files(
    file: Annotated[Path, Parameter(help="text in UTF-8, of any size")],
    /,
    *files: Annotated[Path, Parameter(help="more texts")],
) -> int:
    """Import texts to train on, and print their references."""
    for path in (file, *files):
        corpora.require_file(path, path.name)
        name = derive_name(path.name, "text")
        with path.open("rb") as content:
            text = corpora.save_text(content, name, source=str(path), on_progress=partial(report_progress, name))
        print_line(_format_line(text))
    return 0


def _format_line(text: corpora.StoredText) -> str:
    return f"{text.reference}  {text.characters:>15,} characters  {text.documents:>12,} documents  {text.name}"


_NO_TEXTS = "No texts yet: `mrc language import FILE` imports one."
add_list_command(commands, "imported texts", corpora.stored, _format_line, empty=_NO_TEXTS)
