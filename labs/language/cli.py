"""`mrc language`: compare tokenizers, and import texts to train on."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mrc_workbench.data.commands import AsJson, commands_of, several_of, tell_kept
from mrc_workbench.data.formats.opening import set_name
from mrc_workbench.data.terminal import aligned, end_progress_line, report_progress, tell
from mrc_workbench.data.text.corpora import StoredText, find_corpus, keep, require_file, stored
from mrc_workbench.labs.language.comparison import Measured, Request, compare
from mrc_workbench.models.language.tokenizer_training import Sample, Split, TokenizerKind

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
    corpus = find_corpus(data)
    found = compare(corpus, request, out=out, on_progress=report_progress)
    end_progress_line()
    told = {
        "data": corpus.name,
        "fingerprint": corpus.fingerprint,
        "tokenizers": {one.name: one.as_dict() for one in found},
    }
    tell(json.dumps(told, ensure_ascii=False, indent=2) if as_json else _table(found))
    failed = {one.name: one.error for one in found if one.error}
    for name, error in failed.items():
        tell(f"{name} failed: {error}", error=True)
    return int(bool(failed))


def _table(found: list[Measured]) -> str:
    """Return the figures as lines of text, shares in percent."""

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
        require_file(path, path.name)
        name = set_name(path.name, "text")
        with path.open("rb") as content:
            tell(_line(keep(content, name, source=str(path), on_progress=partial(report_progress, name))))
    return 0


@commands.command(name="list")
def list_command(*, as_json: AsJson = False) -> int:
    """List the imported texts, the newest first."""
    return tell_kept(stored(), _line, as_json=as_json, empty="No texts yet: `mrc language import FILE` imports one.")


def _line(kept: StoredText) -> str:
    return f"{kept.reference}  {kept.characters:>15,} characters  {kept.documents:>12,} documents  {kept.name}"
